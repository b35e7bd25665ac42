//! Queues (OpenACC 3.3, 3.2.9 to 3.2.14) and their OpenACC 1.0 names.

use crate::abi_boundary::routine;

routine! {
    /// Whether a queue is done (3.2.9).
    fn acc_async_test(queue: i32) -> i32 =
        |runtime, local| Ok(i32::from(runtime.async_test(local, queue)?));
    /// Whether all queues are done (3.2.9).
    fn acc_async_test_all() -> i32 =
        |runtime, local| Ok(i32::from(runtime.async_test_all(local)?));
    /// Waits for a queue (3.2.10).
    fn acc_wait(queue: i32) =
        |runtime, local| runtime.wait_queue(local, queue);
    /// [`acc_wait`] under its OpenACC 1.0 name.
    fn acc_async_wait(queue: i32) =
        |runtime, local| runtime.wait_queue(local, queue);
    /// Makes `queue` wait for `waited` (3.2.11).
    fn acc_wait_async(waited: i32, queue: i32) =
        |runtime, local| runtime.wait_async(local, waited, queue);
    /// Waits for all queues (3.2.10).
    fn acc_wait_all() =
        |runtime, local| runtime.wait_all(local);
    /// [`acc_wait_all`] under its OpenACC 1.0 name.
    fn acc_async_wait_all() =
        |runtime, local| runtime.wait_all(local);
    /// Makes a queue wait for all others (3.2.11).
    fn acc_wait_all_async(queue: i32) = |runtime, local| runtime.wait_all_async(local, queue);
    /// The queue of `async` without an argument (3.2.13).
    fn acc_get_default_async() -> i32 = |runtime, local| runtime.get_default_async(local);
    /// The queue of `async` without an argument (3.2.14).
    fn acc_set_default_async(queue: i32) =
        |runtime, local| runtime.set_default_async(local, queue);
}
