//! Copies from one GPU of the process to another.

use super::then::then;
use super::{REGIONS, Test, device, device_with, double_slowly, doubles, read_doubles, write};
use accord_device::Device;
use accord_gpu::inventory;
use accord_types::{ErrorCode, NodeId, QueueId};
use std::sync::mpsc::channel;

/// Enough that the device is shut down in the middle.
const KERNELS: usize = 20;

pub(crate) fn shutdown_waits() -> Test {
    if inventory(NodeId(0), "here").devices.len() < 2 {
        println!("skipped: there is one GPU");
        return Ok(());
    }
    let (one, two) = (device()?, device_with(1, REGIONS, None)?);
    let [stream, later] = [one.create_stream(QueueId(1))?, one.create_stream(QueueId(2))?];
    let (from, to) = (one.addresses().0, two.addresses().0);
    // A worker performs the write; once it is done, the kernels and the copy are given to the driver by their calls.
    let written = write(&one, stream, from, doubles([1.0; 64]))?;
    one.synchronize(stream, written)?;
    for _ in 0..KERNELS {
        double_slowly(&one, stream, from, 1.0)?;
    }
    let copied = one.copy_to(stream, from, &*two, to, 512, None)?.ok_or("two GPUs")?;
    // The driver has not received this one.
    let ((hold, held), (begun, begins)) = (channel::<()>(), channel());
    then(&*one, later, (from, 8), move || {
        begun.send(()).expect("the test waits");
        let _ = held.recv();
        Ok(())
    })?;
    begins.recv()?;
    let never = one.copy_to(later, from, &*two, to, 512, None)?.ok_or("two GPUs")?;
    two.shutdown();
    assert!(one.reached(stream, copied)?, "memory went in the middle of a copy");
    drop(hold);
    let error = one.synchronize(later, never).expect_err("the target is gone");
    assert_eq!(error.code(), ErrorCode::DeviceShutdown, "{error}");
    let error = one.copy_to(stream, from, &*two, to, 512, None).expect_err("likewise");
    assert_eq!(error.code(), ErrorCode::DeviceShutdown, "{error}");
    // The same GPU started again is another device, accessible like the first one.
    let two = device_with(1, REGIONS, None)?;
    let to = two.addresses().0;
    let copied = one.copy_to(stream, from, &*two, to, 512, None)?.ok_or("two GPUs")?;
    one.synchronize(stream, copied)?;
    let other = two.create_stream(QueueId(1))?;
    let wanted = read_doubles(&one, stream, from, 64)?;
    assert_eq!(read_doubles(&two, other, to, 64)?, wanted);
    Ok(())
}
