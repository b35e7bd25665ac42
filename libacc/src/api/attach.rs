//! Pointers on the device (OpenACC 3.3, 3.2.29). `pointer` is the address of the pointer variable.

use super::SYNC;
use crate::abi_boundary::routine;

routine! {
    /// Makes the pointer's device copy point to the device.
    fn acc_attach(pointer: usize) = |runtime, local| runtime.attach(local, pointer, SYNC);
    /// [`acc_attach`] in a queue.
    fn acc_attach_async(pointer: usize, queue: i32) =
        |runtime, local| runtime.attach(local, pointer, queue);
    /// Reverts one [`acc_attach`].
    fn acc_detach(pointer: usize) = |runtime, local| runtime.detach(local, pointer, SYNC, false);
    /// [`acc_detach`] in a queue.
    fn acc_detach_async(pointer: usize, queue: i32) =
        |runtime, local| runtime.detach(local, pointer, queue, false);
    /// Reverts all [`acc_attach`] calls.
    fn acc_detach_finalize(pointer: usize) =
        |runtime, local| runtime.detach(local, pointer, SYNC, true);
    /// [`acc_detach_finalize`] in a queue.
    fn acc_detach_finalize_async(pointer: usize, queue: i32) =
        |runtime, local| runtime.detach(local, pointer, queue, true);
}
