//! The devices of a session.

use accord_device::Device;
use accord_runtime::ports::Port;
use accord_types::{QueueId, Result, Seq, StreamId};
use std::sync::Arc;

/// A device of this machine, driven in-process: what copies between devices need to know of it.
pub trait LocalPort: Port {
    /// The device behind it, started.
    ///
    /// # Errors
    /// When it is not started, or has failed.
    fn device(&self) -> Result<Arc<dyn Device>>;

    /// The stream of a queue, made at its first use.
    ///
    /// # Errors
    /// When the device has failed.
    fn stream(&self, queue: QueueId) -> Result<StreamId>;

    /// Position of the last operation put into `queue`.
    fn last(&self, queue: QueueId) -> Seq;

    /// Has `report` called whenever the device starts: the coordinator warns of ranks that crowd
    /// on one device. Ports that can't tell need not.
    fn on_start(&self, report: Box<dyn Fn() + Send + Sync>) {
        let _ = report;
    }

    /// The lease's quota of streams for the program's queues; 0 is none. Told before the device starts.
    fn limit_streams(&self, quota: u32) {
        let _ = quota;
    }

    /// Somebody else put an operation into `queue`'s stream, at `seq`: waits for the queue include it.
    fn advance(&self, queue: QueueId, seq: Seq);
}
