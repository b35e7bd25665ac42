//! Refusals by a driver or a device.

use super::{REGIONS, Test, add, device, device_with, doubles, image, read_doubles, spec};
use crate::support::fake;
use accord_device::Device;
use accord_types::{ErrorCode, QueueId};

pub(super) fn lack_of_memory() -> Test {
    let device = device()?;
    let at = device.addresses().0;
    let before = device.memory_free();
    // Two pieces, of which the second is refused.
    fake::fail("cuMemCreate", 1, 2);
    let error = device.map(at.offset(128 << 20), 512 << 20).expect_err("no memory");
    assert_eq!(error.code(), ErrorCode::OutOfMemory);
    assert_eq!(device.memory_free(), before);
    let reported = error.cause();
    assert!(
        reported.contains(&format!("536870912 bytes asked for, {before} of ")) && reported.contains("cuMemCreate"),
        "{reported}"
    );
    device.map(at.offset(128 << 20), 512 << 20)?;
    Ok(())
}

pub(super) fn held_device() -> Test {
    fake::fail("cuDevicePrimaryCtxRetain", 0, 46);
    let error = device_with(0, REGIONS, None).err().ok_or("it can't start")?;
    let text = error.message().unwrap_or_default();
    assert!(text.contains("(46)") && text.contains("exclusive-process"), "{text}");
    Ok(())
}

pub(super) fn refused_code() -> Test {
    let folder = tempfile::tempdir()?;
    for round in 0..2 {
        if round == 1 {
            fake::fail("cuModuleLoadData", 0, 200);
        }
        let device = device_with(0, REGIONS, Some(folder.path()))?;
        device.function(&spec("add"))?;
    }
    Ok(())
}

pub(super) fn refused_ptx() -> Test {
    fake::fail("cuLinkComplete", 0, 218);
    let device = device()?;
    device.function(&spec("add"))?;
    let kernels = device.kernels(image(REGIONS).id());
    assert!(
        kernels.iter().all(|(_, why)| why.as_ref().is_some_and(|why| why.contains("does not take"))),
        "{kernels:?}"
    );
    let stream = device.create_stream(QueueId(1))?;
    let at = device.addresses().0;
    device.store(stream, at, &doubles([1.0]))?;
    add(&device, stream, at, 1, 1.0)?;
    assert_eq!(read_doubles(&device, stream, at, 1)?, [2.0]);
    Ok(())
}
