//! Data by address (OpenACC 3.3, 3.2.18 to 3.2.20).

use super::SYNC;
use crate::abi_boundary::routine;

routine! {
    /// Makes data present, copying it in if it was absent. Returns the device address (3.2.18).
    fn acc_copyin(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.copyin(local, data, bytes, SYNC);
    /// [`acc_copyin`] under its OpenACC 2.0 name.
    fn acc_present_or_copyin(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.copyin(local, data, bytes, SYNC);
    /// [`acc_copyin`] under its OpenACC 2.0 name.
    fn acc_pcopyin(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.copyin(local, data, bytes, SYNC);
    /// [`acc_copyin`] in a queue. GCC's header declares no result for it, which may be returned nevertheless.
    fn acc_copyin_async(data: usize, bytes: usize, queue: i32) -> usize =
        |runtime, local| runtime.copyin(local, data, bytes, queue);

    /// Makes data present, allocating it if it was absent. Returns the device address (3.2.18).
    fn acc_create(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.create(local, data, bytes, SYNC);
    /// [`acc_create`] under its OpenACC 2.0 name.
    fn acc_present_or_create(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.create(local, data, bytes, SYNC);
    /// [`acc_create`] under its OpenACC 2.0 name.
    fn acc_pcreate(data: usize, bytes: usize) -> usize =
        |runtime, local| runtime.create(local, data, bytes, SYNC);
    /// [`acc_create`] in a queue.
    fn acc_create_async(data: usize, bytes: usize, queue: i32) -> usize =
        |runtime, local| runtime.create(local, data, bytes, queue);

    /// Releases data, and copies it out at the last release (3.2.19).
    fn acc_copyout(data: usize, bytes: usize) =
        |runtime, local| runtime.copyout(local, data, bytes, SYNC, false);
    /// [`acc_copyout`] in a queue.
    fn acc_copyout_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.copyout(local, data, bytes, queue, false);
    /// [`acc_copyout`] that releases all dynamic references.
    fn acc_copyout_finalize(data: usize, bytes: usize) =
        |runtime, local| runtime.copyout(local, data, bytes, SYNC, true);
    /// [`acc_copyout_finalize`] in a queue.
    fn acc_copyout_finalize_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.copyout(local, data, bytes, queue, true);

    /// Releases data (3.2.19).
    fn acc_delete(data: usize, bytes: usize) =
        |runtime, local| runtime.delete(local, data, bytes, SYNC, false);
    /// [`acc_delete`] in a queue.
    fn acc_delete_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.delete(local, data, bytes, queue, false);
    /// [`acc_delete`] that releases all dynamic references.
    fn acc_delete_finalize(data: usize, bytes: usize) =
        |runtime, local| runtime.delete(local, data, bytes, SYNC, true);
    /// [`acc_delete_finalize`] in a queue.
    fn acc_delete_finalize_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.delete(local, data, bytes, queue, true);

    /// Updates the device copy from the host (3.2.20).
    fn acc_update_device(data: usize, bytes: usize) =
        |runtime, local| runtime.update_device(local, data, bytes, SYNC);
    /// [`acc_update_device`] in a queue.
    fn acc_update_device_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.update_device(local, data, bytes, queue);
    /// Updates the host's memory from the device (3.2.20).
    fn acc_update_self(data: usize, bytes: usize) =
        |runtime, local| runtime.update_self(local, data, bytes, SYNC);
    /// [`acc_update_self`] in a queue.
    fn acc_update_self_async(data: usize, bytes: usize, queue: i32) =
        |runtime, local| runtime.update_self(local, data, bytes, queue);
}
