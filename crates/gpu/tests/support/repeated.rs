//! Regions that a stream launches repeatedly, which the driver gets as graphs.

use super::{Test, device, doubles, fake, read_doubles, spec};
use accord_device::{Device as _, NativeHandles as _};
use accord_gpu::CudaDevice;
use accord_types::{ArgBlock, DevicePtr, LaunchDims, QueueId, StreamId};
use libtest_mimic::Failed;

const LAUNCHES: u32 = 400;

/// Adds to a number repeatedly, with two numbers of gangs, and checks the result. Returns the number of launched graphs.
fn add(device: &CudaDevice, stream: StreamId, at: DevicePtr) -> Result<u32, Failed> {
    let (before, function) = (fake::graphs(), device.function(&spec("add"))?);
    for number in 0..LAUNCHES {
        device.store(stream, at, &doubles([f64::from(number)]))?;
        let dims = LaunchDims { gangs: 1 + number / 50 % 2, ..LaunchDims::default() };
        // An address, and where in the block the two values are.
        let block = [at.0, 24, 32, f64::from(number % 7).to_bits(), 1].map(u64::to_ne_bytes).concat();
        device.launch(stream, function, dims, ArgBlock { bytes: &block, slots: 3, relative: &[6] })?;
        device.copy(stream, at.offset(8 + 8 * u64::from(number)), at, 8)?;
    }
    let found = read_doubles(device, stream, at.offset(8), LAUNCHES.into())?;
    let wanted: Vec<f64> = (0..LAUNCHES).map(|number| f64::from(number + number % 7)).collect();
    assert_eq!(found, wanted);
    Ok(fake::graphs() - before)
}

/// Each launch has its own values, and the order in the stream is kept.
pub(super) fn in_order() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    let graphs = add(&device, device.create_stream(QueueId(1))?, at)?;
    assert_eq!(graphs, if fake::is_loaded() { LAUNCHES - 100 } else { 0 });
    // The program may capture a stream that it has requested.
    let stream = device.create_stream(QueueId(2))?;
    device.expose_stream(stream)?;
    assert_eq!(add(&device, stream, at)?, 0);
    Ok(())
}

/// A region of which the driver makes no graph is launched normally.
pub(super) fn refused() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    for (number, (call, graphs)) in (10..).zip([
        ("cuGraphCreate", 0),
        ("cuGraphAddKernelNode_v2", 0),
        ("cuGraphInstantiateWithFlags", 0),
        ("cuGraphExecKernelNodeSetParams_v2", 2),
        ("cuGraphLaunch", 2),
    ]) {
        let fails_after = if graphs == 0 { 0 } else { graphs - u32::from(call.ends_with("SetParams_v2")) };
        fake::fail(call, fails_after, 801);
        assert_eq!(add(&device, device.create_stream(QueueId(number))?, at)?, graphs, "{call}");
    }
    Ok(())
}
