//! Device memory and copies by device address (OpenACC 3.3, 3.2.16, 3.2.17, 3.2.26 to 3.2.28 and 3.2.30).

use super::SYNC;
use crate::abi_boundary::routine;
use crate::{output, settings};
use accord_types::{ErrorCode, Result};

/// Maps an out-of-memory error to null, so that the program may continue with less.
fn null_without_memory(block: Result<usize>) -> Result<usize> {
    match block {
        Err(error) if error.code() == ErrorCode::OutOfMemory => {
            if settings::debug() {
                output::print(&format!("accord: {error}\n"));
            }
            Ok(0)
        }
        other => other,
    }
}

routine! {
    /// Allocates device memory; returns null if there is none (3.2.16).
    fn acc_malloc(bytes: usize) -> usize = |runtime, local| null_without_memory(runtime.malloc(local, bytes));
    /// Frees device memory (3.2.17).
    fn acc_free(data: usize) = |runtime, local| runtime.free(local, data);

    /// Copies host memory to device memory (3.2.26).
    fn acc_memcpy_to_device(device: usize, host: usize, bytes: usize) =
        |runtime, local| runtime.memcpy_to_device(local, device, host, bytes, SYNC);
    /// [`acc_memcpy_to_device`] in a queue.
    fn acc_memcpy_to_device_async(device: usize, host: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.memcpy_to_device(local, device, host, bytes, queue);
    /// Copies device memory to host memory (3.2.27).
    fn acc_memcpy_from_device(host: usize, device: usize, bytes: usize) =
        |runtime, local| runtime.memcpy_from_device(local, host, device, bytes, SYNC);
    /// [`acc_memcpy_from_device`] in a queue.
    fn acc_memcpy_from_device_async(host: usize, device: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.memcpy_from_device(local, host, device, bytes, queue);
    /// Copies within the current device (3.2.28).
    fn acc_memcpy_device(dst: usize, src: usize, bytes: usize) =
        |runtime, local| runtime.memcpy_device(local, dst, src, bytes, SYNC);
    /// [`acc_memcpy_device`] in a queue.
    fn acc_memcpy_device_async(dst: usize, src: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.memcpy_device(local, dst, src, bytes, queue);

    /// Copies the copy of `src` on one device to that of `dst` on another (3.2.30).
    fn acc_memcpy_d2d(dst: usize, src: usize, bytes: usize, dev_dst: i32, dev_src: i32) =
        |runtime, local| runtime.memcpy_d2d(local, dst, src, bytes, dev_dst, dev_src, SYNC);
    /// [`acc_memcpy_d2d`] in a queue of the source device.
    fn acc_memcpy_d2d_async(
        dst: usize, src: usize, bytes: usize, dev_dst: i32, dev_src: i32, queue: i32,
    ) = |runtime, local| runtime.memcpy_d2d(local, dst, src, bytes, dev_dst, dev_src, queue);
}
