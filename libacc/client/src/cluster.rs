//! Clients of devices on this machine.

use accord_device::{MemoryAccount, TurnAgent};
use accord_executor::device_use::UseSample;
use accord_executor::hosted::Hosted;
use accord_runtime::ports::DeviceClient;
use accord_types::{Error, Result};
use std::sync::Arc;

/// Called before a device starts; an error prevents the start.
pub type BeforeStart = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A client of a device of this machine, driven in-process, with what copies between devices need.
pub trait LocalDeviceClient: DeviceClient {
    /// Returns the started device with its queues.
    ///
    /// # Errors
    /// Returns an error if the device is not started, or has failed.
    fn hosted(&self) -> Result<Arc<Hosted>>;

    /// Registers `before`, which is called whenever the device is about to start. The coordinator may have given the
    /// device to a job, and warns of ranks that crowd on one device. By default it is not called.
    fn on_start(&self, before: BeforeStart) {
        let _ = before;
    }

    /// Registers `report`, which is called after each shutdown.
    fn on_end(&self, report: Box<dyn Fn() + Send + Sync>) {
        let _ = report;
    }

    /// Returns a sample of the device's use; `None` if it was never started, or its use is unknown.
    fn sample_use(&self) -> Option<UseSample> {
        None
    }

    /// Sets the lease's quota of streams for the program's queues; 0 means none. Called before the device starts.
    fn limit_streams(&self, quota: u32) {
        let _ = quota;
    }

    /// Sets the account that counts the device's memory together with other sessions'. Called before the device starts.
    fn count_memory(&self, account: Arc<dyn MemoryAccount>) {
        let _ = account;
    }

    /// Sets the agent that gives out turns on the device. Called before the device starts.
    fn take_turns(&self, agent: Arc<dyn TurnAgent>) {
        let _ = agent;
    }

    /// Stops the device at the end of the session: pending and later calls, a start among them, fail with `error`.
    fn stop(&self, error: Error);
}
