//! Queues of a device that is named by its number among those of the current type (OpenACC 3.3, 3.2.9 to 3.2.12). These routines
//! don't start a device; one that was not started has nothing to wait for.

use crate::device::Device;
use crate::local_thread::Current;
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, Error, ErrorCode, QueueId, Result};

/// The result of [`Runtime::wait_any`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyDone {
    /// The queue at this place of the list is done.
    At(usize),
    /// The list names no queue.
    Nothing,
    /// All of them still have work: ask again.
    NotYet,
}

impl Runtime {
    /// Implements `acc_async_test_device` (3.2.9).
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, `acc_error_device_unavailable`, or the failure of what is in the queue.
    pub fn async_test_device(&self, t: &mut LocalThread, queue: i32, num: i32) -> Result<bool> {
        let queue = t.queue(AsyncArg::from_raw(queue)?);
        self.numbered(t, num)?.map_or(Ok(true), |device| device.test(&[queue]))
    }

    /// Implements `acc_async_test_all_device` (3.2.9).
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable`, or the failure of what is in some queue.
    pub fn async_test_all_device(&self, t: &mut LocalThread, num: i32) -> Result<bool> {
        let Some(device) = self.numbered(t, num)? else { return Ok(true) };
        let busy: Vec<QueueId> = device.queues().all_busy().collect();
        device.test(&busy)
    }

    /// Implements `acc_wait_device` (3.2.10), and with a queue that waits `acc_wait_device_async` (3.2.11). The host waits if
    /// `waiting` is `acc_async_sync`.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, `acc_error_device_unavailable`, or the failure of what was in the queue.
    pub fn wait_device(&self, t: &mut LocalThread, waited: i32, waiting: i32, num: i32) -> Result<()> {
        let (waited, waiting) = (AsyncArg::from_raw(waited)?, AsyncArg::from_raw(waiting)?);
        let Some(device) = self.numbered(t, num)? else { return Ok(()) };
        device.queue_waits(t.queue(waiting), &[t.queue(waited)])
    }

    /// Implements `acc_wait_all_device` (3.2.10), and with a queue that waits `acc_wait_all_device_async` (3.2.11). The host waits
    /// if `waiting` is `acc_async_sync`.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::wait_device`].
    pub fn wait_all_device(&self, t: &mut LocalThread, waiting: i32, num: i32) -> Result<()> {
        let waiting = AsyncArg::from_raw(waiting)?;
        let Some(device) = self.numbered(t, num)? else { return Ok(()) };
        device.wait_for_all(t.queue(waiting))
    }

    /// Implements one poll of `acc_wait_any` and `acc_wait_any_device` (3.2.12) without waiting, for the `count` async-arguments
    /// at `list`, on device `num` or the current one.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if `count` is negative, `acc_error_invalid_null_pointer`,
    /// `acc_error_invalid_async`, `acc_error_device_unavailable`, or the failure of what is in a queue.
    pub fn wait_any(&self, t: &mut LocalThread, count: i32, list: usize, num: Option<i32>) -> Result<AnyDone> {
        let count = usize::try_from(count).map_err(|_| {
            Error::new(ErrorCode::InvalidArgument, format!("the number of queues is {count}")).remedy("pass 0 or more")
        })?;
        if list == 0 && count > 0 {
            return Err(Error::new(ErrorCode::InvalidNullPointer, format!("{count} queues at a null pointer"))
                .remedy("pass the address of an array of async-arguments"));
        }
        let device = match num {
            Some(num) => self.numbered(t, num)?,
            None => self.target(t)?,
        };
        let mut found = AnyDone::Nothing;
        for at in 0..count {
            let mut raw = [0; 4];
            self.host.read(list + 4 * at, &mut raw);
            let arg = AsyncArg::from_raw(i32::from_ne_bytes(raw))?;
            if arg == AsyncArg::Sync {
                continue;
            }
            let queue = t.queue(arg);
            if device.map_or(Ok(true), |device| device.test(&[queue]).map_err(|error| error.queue(queue)))? {
                return Ok(AnyDone::At(at));
            }
            found = AnyDone::NotYet;
        }
        Ok(found)
    }

    /// The device with that number of the current type; none is the host, or a device that was not started.
    fn numbered(&self, t: &mut LocalThread, num: i32) -> Result<Option<&Device>> {
        let current_type = self.current_type(t)?;
        Ok(match self.nth(i64::from(num), current_type)? {
            Current::Host => None,
            Current::Device(index) => Some(&self.devices[index]).filter(|device| device.is_started()),
        })
    }
}
