//! Queues of a device given by its number, and waiting for one of several queues (OpenACC 3.3, 3.2.9 to 3.2.12).

use super::SYNC;
use crate::abi_boundary::{enter, routine};
use crate::prof::{self, Construct, EventFacts, Extent};
use accord_runtime::{AnyDone, LocalThread};
use accord_types::Result;
use std::time::Duration;

/// The first and the longest pause between two polls of the queues of [`acc_wait_any`].
const PAUSES: [Duration; 2] = [Duration::from_micros(10), Duration::from_millis(1)];

routine! {
    /// Whether a queue of a device is done (3.2.9).
    fn acc_async_test_device(queue: i32, num: i32) -> i32 =
        |runtime, local| Ok(i32::from(runtime.async_test_device(local, queue, num)?));
    /// Whether all queues of a device are done (3.2.9).
    fn acc_async_test_all_device(num: i32) -> i32 =
        |runtime, local| Ok(i32::from(runtime.async_test_all_device(local, num)?));
    /// Waits for a queue of a device (3.2.10).
    fn acc_wait_device(queue: i32, num: i32) =
        |runtime, local| runtime.wait_device(local, queue, SYNC, num);
    /// Waits for all queues of a device (3.2.10).
    fn acc_wait_all_device(num: i32) =
        |runtime, local| runtime.wait_all_device(local, SYNC, num);
    /// Makes `queue` of a device wait for its queue `waited` (3.2.11).
    fn acc_wait_device_async(waited: i32, queue: i32, num: i32) =
        |runtime, local| runtime.wait_device(local, waited, queue, num);
    /// Makes a queue of a device wait for all its others (3.2.11).
    fn acc_wait_all_device_async(queue: i32, num: i32) =
        |runtime, local| runtime.wait_all_device(local, queue, num);
}

/// Blocks until one of `count` queues of the current device is done. Returns its index in the list, or -1 if all are
/// `acc_async_sync` (3.2.12).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_wait_any(count: i32, list: usize) -> i32 {
    wait_any("acc_wait_any", count, list, None)
}

/// [`acc_wait_any`] for a device given by its number.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_wait_any_device(count: i32, list: usize, num: i32) -> i32 {
    wait_any("acc_wait_any_device", count, list, Some(num))
}

fn wait_any(call: &'static str, count: i32, list: usize, num: Option<i32>) -> i32 {
    enter(call, |runtime, local| {
        let mut done = -1;
        let about = |local: &mut LocalThread| EventFacts {
            pair: prof::WAIT,
            construct: Construct::RuntimeApi,
            async_: SYNC,
            subject: match num {
                Some(num) => runtime.subject_numbered(local, num, SYNC),
                None => runtime.subject(local, SYNC),
            },
            extent: Extent::Call,
        };
        prof::around(local, about, |local| -> Result<()> {
            let [mut pause, longest] = PAUSES;
            loop {
                match runtime.wait_any(local, count, list, num)? {
                    AnyDone::At(at) => done = i32::try_from(at).unwrap_or(i32::MAX),
                    AnyDone::Nothing => {}
                    AnyDone::NotYet => {
                        std::thread::sleep(pause);
                        pause = (2 * pause).min(longest);
                        continue;
                    }
                }
                return Ok(());
            }
        })?;
        Ok(done)
    })
}
