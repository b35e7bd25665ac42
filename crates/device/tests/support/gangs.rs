//! How many gangs regions get, and in which blocks, by the driver that the tests bring along.

use super::Slot::{At, Value};
use super::{Test, device, fake, launch, spec};
use accord_device::Device as _;
use accord_types::{ArgBlock, LaunchDims, QueueId};
use libtest_mimic::Failed;

/// The driver that the tests bring along has room for 8 gangs, or for 32 if 4 of a warp share a thread block.
pub(super) fn by_length() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let add = device.function(&spec("add"))?;
    // An address, and where in the block the two values are.
    let block: Vec<u8> = [at.0, 24, 32, 1f64.to_bits(), 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let gangs = |us: i32| -> Result<u32, Failed> {
        fake::took(us);
        let seq =
            device.launch(stream, add, LaunchDims::default(), ArgBlock { bytes: &block, slots: 3, relative: &[6] })?;
        device.synchronize(stream, seq)?;
        Ok(fake::gangs())
    };
    assert_eq!(gangs(8)?, 256, "nothing is known yet");
    assert_eq!([gangs(8)?, gangs(8)?, gangs(8)?], [256, 64, 64]);
    assert_eq!([gangs(9000)?, gangs(9000)?], [64; 2], "there were short ones");
    assert_eq!(gangs(9000)?, 256);
    fake::took(-1);
    // Its gangs add to the same memory.
    let block = [At(at), At(at), Value(&1i32.to_ne_bytes())];
    for _ in 0..3 {
        launch(&device, stream, &spec("sum"), LaunchDims::default(), &block)?;
        assert_eq!(fake::gangs(), 16);
    }
    let asked = LaunchDims { gangs: 5, ..LaunchDims::default() };
    let seq = launch(
        &device,
        stream,
        &spec("add"),
        asked,
        &[At(at), Value(&1f64.to_ne_bytes()), Value(&1i32.to_ne_bytes())],
    )?;
    assert_eq!(fake::gangs(), 5);
    Ok(device.synchronize(stream, seq)?)
}

/// Which way is faster is found out by measured launches.
pub(super) fn that_share_blocks() -> Test {
    let device = device()?;
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    let add = device.function(&spec("add"))?;
    let block: Vec<u8> = [at.0, 24, 32, 1f64.to_bits(), 1].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let launched = |gangs: u32| -> Result<(u32, u32), Failed> {
        let dims = LaunchDims { gangs, ..LaunchDims::default() };
        let seq = device.launch(stream, add, dims, ArgBlock { bytes: &block, slots: 3, relative: &[6] })?;
        device.synchronize(stream, seq)?;
        Ok((fake::gangs(), fake::gangs_of_block()))
    };
    let mut first = Vec::new();
    for _ in 0..8 {
        let (_, of_block) = launched(0)?;
        first.push(of_block);
        // So long it has taken when the next one asks.
        fake::took(if of_block > 1 { 170 } else { 100 });
    }
    assert_eq!(first, [4, 1, 1, 4, 1, 4, 4, 1], "both ways are tried");
    assert_eq!([launched(0)?.1, launched(0)?.1], [1, 1], "which is faster stays");
    assert_eq!(launched(5)?, (5, 1));
    fake::took(-1);
    // Its gangs add to the same memory.
    let block = [At(at), At(at), Value(&1i32.to_ne_bytes())];
    launch(&device, stream, &spec("sum"), LaunchDims::default(), &block)?;
    assert_eq!((fake::gangs(), fake::gangs_of_block()), (16, 1));
    Ok(())
}
