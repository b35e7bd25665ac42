//! The devices of a session.

use accord_device::MemoryAccount;
use accord_executor::device_use::UseSample;
use accord_executor::hosted::Hosted;
use accord_runtime::ports::DeviceClient;
use accord_types::{Error, Result};
use std::sync::Arc;

/// Called before a device starts, which it may refuse.
pub type BeforeStart = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A device of this machine, driven in-process: what copies between devices need to know of it.
pub trait LocalDeviceClient: DeviceClient {
    /// The device behind it, started, with its queues.
    ///
    /// # Errors
    /// Returns an error if it is not started, or has failed.
    fn hosted(&self) -> Result<Arc<Hosted>>;

    /// Has `before` called whenever the device is about to start: the coordinator may have given the device to a job, and warns of ranks
    /// that crowd on one device. Ports that can't tell need not.
    fn on_start(&self, before: BeforeStart) {
        let _ = before;
    }

    /// Has `report` called after each shutdown.
    fn on_end(&self, report: Box<dyn Fn() + Send + Sync>) {
        let _ = report;
    }

    /// Returns a sample of the device's use; `None` if it was never started, or its use is unknown.
    fn sample_use(&self) -> Option<UseSample> {
        None
    }

    /// The lease's quota of streams for the program's queues; 0 is none. Told before the device starts.
    fn limit_streams(&self, quota: u32) {
        let _ = quota;
    }

    /// Has the device's memory counted by `account` together with other sessions'. Told before the device starts.
    fn count_memory(&self, account: Arc<dyn MemoryAccount>) {
        let _ = account;
    }

    /// Stops the device at the end of the session: calls that wait and all later ones, a start among them, fail with `error`.
    fn stop(&self, error: Error);
}
