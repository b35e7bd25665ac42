//! A started device with the queues of one program. libacc uses it for a device of its own node, and an executor for a program elsewhere.

use crate::device_use::UseCounters;
use crate::fenced_copies::FencedCopies;
use crate::queue_table::{Carrier, Queue, QueueTable};
use accord_device::Device;
use accord_fabric::transfer::DeviceReceives;
use accord_types::short_lock::{DroppedUnlocked, ShortReadGuard, ShortRwLock, ShortWriteGuard};
use accord_types::turn_lock::TurnLock;
use accord_types::{AddressRange, QueueId, Result, Seq, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that a session uses in this process.
pub struct Hosted {
    device: Arc<dyn Device>,
    queues: ShortRwLock<QueueTable>,
    rooms: Arc<DeviceReceives>,
    fenced_copies: FencedCopies,
    counters: Arc<UseCounters>,
    /// Whether another process knows the device's memory, and may write to it.
    is_displayed: AtomicBool,
    /// Held while a stream is created, which may take long. A thread whose queue has a stream does not wait for it.
    making: TurnLock<()>,
    /// The device may end with this value.
    #[allow(dead_code, reason = "it looks when it is dropped")]
    unlocked: DroppedUnlocked,
}

impl Hosted {
    /// Creates the entry of a device that was just started, with the lease's quota of streams as in [`accord_types::streams_max`]. `counters` counts its use.
    pub fn new(device: Arc<dyn Device>, stream_quota: u32, counters: Arc<UseCounters>) -> Self {
        let queues = ShortRwLock::new(QueueTable::new(stream_quota));
        Self {
            device,
            queues,
            rooms: Arc::default(),
            fenced_copies: FencedCopies::default(),
            counters,
            is_displayed: AtomicBool::new(false),
            making: TurnLock::default(),
            unlocked: DroppedUnlocked::default(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Returns the counters of the device's copies and memory.
    pub fn counters(&self) -> &UseCounters {
        &self.counters
    }

    /// Returns the receives posted in the device's memory. They must end before the device does.
    pub fn rooms(&self) -> &Arc<DeviceReceives> {
        &self.rooms
    }

    /// Returns the copies that were reported complete but may still be in progress.
    pub(crate) fn fenced_copies(&self) -> &FencedCopies {
        &self.fenced_copies
    }

    /// Whether the device may still execute a fenced copy to this range.
    pub(crate) fn still_writes(&self, at: AddressRange) -> bool {
        // Users of the device get its failure elsewhere.
        self.fenced_copies.still_overlap(at, |stream, seq| self.device.reached(stream, seq) != Ok(false))
    }

    /// Whether an enqueued incoming copy may be reported complete while the device still executes it, because no other access
    /// can reach its target first. Otherwise the caller must wait for the copy.
    pub(crate) fn fence(&self, at: AddressRange, stream: StreamId, seq: Seq) -> bool {
        // Added first: code that posts a receive there, or exposes the memory, checks afterwards.
        self.fenced_copies.add(at, stream, seq);
        !self.is_displayed.load(Ordering::SeqCst) && !self.rooms.overlaps(at) && self.device.fence(stream, seq)
    }

    /// Whether this part of the device's memory may be exposed to another process for writing. From then on no incomplete copy
    /// is reported complete, because that process writes without checking.
    pub(crate) fn may_show(&self, at: AddressRange) -> bool {
        self.is_displayed.store(true, Ordering::SeqCst);
        !self.still_writes(at)
    }

    /// Returns the queues, for reading only.
    pub fn queues(&self) -> ShortReadGuard<'_, QueueTable> {
        self.queues.read()
    }

    fn queues_mut(&self) -> ShortWriteGuard<'_, QueueTable> {
        self.queues.write()
    }

    /// A queue that was used before.
    pub fn known(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.queues().find(queue).cloned()
    }

    /// Returns the stream of a queue that was used before, and the position of its last operation.
    pub fn last(&self, queue: QueueId) -> Option<(StreamId, Seq)> {
        self.queues().find(queue).map(|queue| (queue.stream(), queue.last()))
    }

    /// Returns a queue, which gets its stream at its first use.
    ///
    /// # Errors
    /// Returns the errors of the device, and an error if there are too many queues.
    pub fn queue(&self, queue: QueueId) -> Result<Arc<Queue>> {
        if let Some(known) = self.known(queue) {
            return Ok(known);
        }
        let _one = self.making.take();
        let carrier = self.queues().carrier(queue)?;
        match carrier {
            Carrier::Known(known) => Ok(known),
            Carrier::Failed(error) => Err(error),
            Carrier::Shared(stream) => Ok(self.queues_mut().add(queue, stream)),
            Carrier::New => {
                let stream = self.device.create_stream(queue)?;
                Ok(self.queues_mut().add(queue, stream))
            }
        }
    }

    /// Replaces the stream of `queue` by another one without operations.
    pub fn replace(&self, queue: QueueId, stream: StreamId) {
        self.queues_mut().add(queue, stream);
    }

    /// Returns the stream for incoming copies. It is created at its first use, and again if it fails.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub fn incoming(&self) -> Result<StreamId> {
        self.queue(QueueId::INCOMING).map(|queue| queue.stream())
    }

    /// Records that the stream for incoming copies has failed, so that the next copy gets another one.
    pub(crate) fn incoming_failed(&self, which: StreamId) {
        let mut queues = self.queues_mut();
        if queues.find(QueueId::INCOMING).is_some_and(|queue| queue.stream() == which) {
            queues.remove(QueueId::INCOMING);
        }
    }

    /// Returns the last operation of the synchronous queue, or `None` if there was none.
    pub fn last_synchronous(&self) -> Option<(StreamId, Seq)> {
        self.last(QueueId::SYNC).filter(|(_, last)| *last > Seq(0))
    }
}
