//! Queues (OpenACC 3.3, 3.2.9 to 3.2.14).

use crate::queues::QueueList;
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, QueueId, Result};

impl Runtime {
    /// Implements `acc_async_test` (3.2.9). True for a queue that was never used.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, or the failure of what is in the queue.
    pub fn async_test(&self, t: &mut LocalThread, queue: i32) -> Result<bool> {
        let test = |t: &mut LocalThread| {
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(true) };
            device.test(&[queue])
        };
        test(t).map_err(|error: accord_types::Error| error.call("acc_async_test"))
    }

    /// Implements `acc_async_test_all` (3.2.9).
    ///
    /// # Errors
    /// Returns the failure of an operation in some queue.
    pub fn async_test_all(&self, t: &mut LocalThread) -> Result<bool> {
        let test = |t: &mut LocalThread| {
            let Some(device) = self.target(t)? else { return Ok(true) };
            let busy: QueueList = device.queues().all_busy().collect();
            device.test(&busy)
        };
        test(t).map_err(|error: accord_types::Error| error.call("acc_async_test_all"))
    }

    /// Implements `acc_wait` (3.2.10). Returns at once for a queue that was never used.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, or the failure of what was in the queue.
    pub fn wait_queue(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        let wait = |t: &mut LocalThread| {
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(()) };
            let busy = device.queues().busy(queue);
            if busy { device.wait_asked(&[queue]).map_err(|error| error.queue(queue)) } else { Ok(()) }
        };
        wait(t).map_err(|error: accord_types::Error| error.call("acc_wait"))
    }

    /// Implements `acc_wait_all` (3.2.10).
    ///
    /// # Errors
    /// Returns the first failure of what was waited for.
    pub fn wait_all(&self, t: &mut LocalThread) -> Result<()> {
        let wait = |t: &mut LocalThread| {
            let Some(device) = self.target(t)? else { return Ok(()) };
            device.wait_for_all(QueueId::SYNC)
        };
        wait(t).map_err(|error: accord_types::Error| error.call("acc_wait_all"))
    }

    /// Implements `acc_wait_async` (3.2.11): `queue` waits for `waited`; the host waits if `queue` is `acc_async_sync`.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, and those of the device.
    pub fn wait_async(&self, t: &mut LocalThread, waited: i32, queue: i32) -> Result<()> {
        let wait = |t: &mut LocalThread| {
            let waited = AsyncArg::from_raw(waited)?;
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(()) };
            device.queue_waits(queue, &[t.queue(waited)])
        };
        wait(t).map_err(|error: accord_types::Error| error.call("acc_wait_async"))
    }

    /// Implements `acc_wait_all_async` (3.2.11).
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::wait_async`].
    pub fn wait_all_async(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        let wait = |t: &mut LocalThread| {
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(()) };
            device.wait_for_all(queue)
        };
        wait(t).map_err(|error: accord_types::Error| error.call("acc_wait_all_async"))
    }

    /// Implements `acc_get_default_async` (3.2.13). Returns the queue of `async` without an argument. Initially queue 0: programs
    /// pass it to routines that require a queue.
    ///
    /// # Errors
    /// Returns no error today.
    pub fn get_default_async(&self, t: &mut LocalThread) -> Result<i32> {
        Ok(match t.default_async {
            None | Some(AsyncArg::NoVal) => 0,
            Some(AsyncArg::Sync) => SYNC,
            Some(AsyncArg::Queue(queue)) => queue.cast_signed(),
        })
    }

    /// Implements `acc_set_default_async` (3.2.14), for this thread. `acc_async_noval` restores the initial value.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`.
    pub fn set_default_async(&self, t: &mut LocalThread, queue: i32) -> Result<()> {
        let arg = AsyncArg::from_raw(queue).map_err(|error| error.call("acc_set_default_async"))?;
        t.default_async = (arg != AsyncArg::NoVal).then_some(arg);
        Ok(())
    }
}

/// `acc_async_sync`
const SYNC: i32 = -2;
