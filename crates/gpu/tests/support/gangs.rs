//! The number of gangs of regions and their blocks, with the tests' own driver.

use super::Slot::{At, Value};
use super::{Test, device, fake, launch, spec};
use accord_device::Device as _;
use accord_types::{ArgBlock, LaunchDims, QueueId};
use libtest_mimic::Failed;

/// On the tests' own driver 8 gangs fit, or 32 if 4 gangs of one warp share a thread block.
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
    assert_eq!([gangs(8)?, gangs(8)?, gangs(8)?], [4, 4, 64], "measured launches of tiny regions try fewest");
    assert_eq!([gangs(9000)?, gangs(9000)?], [64, 256], "there were short ones");
    assert_eq!([gangs(9000)?, gangs(9000)?, gangs(9000)?], [512, 256, 256], "and those of long ones most");
    assert_eq!([gangs(9000)?, gangs(9000)?], [256; 2]);
    fake::took(-1);
    // The gangs add to the same memory.
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

/// Measured launches decide which way is fastest.
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
    for _ in 0..9 {
        let (gangs, of_block) = launched(0)?;
        first.push((gangs, of_block));
        // The duration that the next launch reads.
        fake::took(if of_block > 1 { 170 } else { 150 });
    }
    let [many, most, more, alone] = [(256, 4), (2048, 4), (512, 4), (256, 1)];
    assert_eq!(first, [many, most, alone, more, most, alone, more, many, alone], "all ways are tried");
    assert_eq!([launched(0)?, launched(0)?], [alone; 2], "the fastest stays");
    assert_eq!(launched(5)?, (5, 1));
    fake::took(-1);
    // The gangs add to the same memory.
    let block = [At(at), At(at), Value(&1i32.to_ne_bytes())];
    launch(&device, stream, &spec("sum"), LaunchDims::default(), &block)?;
    assert_eq!((fake::gangs(), fake::gangs_of_block()), (16, 1));
    Ok(())
}
