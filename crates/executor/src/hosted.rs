//! A started device with the queues of one program: the same where libacc drives a device of its own node and where an executor
//! does for a program elsewhere.

use crate::device_use::UseCounters;
use crate::fenced_copies::FencedCopies;
use crate::queue_table::{Carrier, Queue, QueueTable};
use accord_device::Device;
use accord_fabric::transfer::DeviceRooms;
use accord_types::short_lock::{DroppedUnlocked, ShortReadGuard, ShortRwLock, ShortWriteGuard};
use accord_types::turn_lock::TurnLock;
use accord_types::{AddressRange, QueueId, Result, Seq, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that a session uses in this process.
pub struct Hosted {
    device: Arc<dyn Device>,
    queues: ShortRwLock<QueueTable>,
    rooms: Arc<DeviceRooms>,
    fenced_copies: FencedCopies,
    counters: Arc<UseCounters>,
    /// Another process was told where the device's memory is, and may write there.
    is_shown: AtomicBool,
    /// One thread at a time makes streams, which may take its time; a thread whose queue has a stream does not wait for
    /// that.
    making: TurnLock<()>,
    /// The device may end with it.
    #[allow(dead_code, reason = "it looks when it is dropped")]
    unlocked: DroppedUnlocked,
}

impl Hosted {
    /// A device that was just started; the lease's quota of streams as in [`accord_types::streams_max`]. `counters` counts its use.
    pub fn new(device: Arc<dyn Device>, stream_quota: u32, counters: Arc<UseCounters>) -> Self {
        let queues = ShortRwLock::new(QueueTable::new(stream_quota));
        Self {
            device,
            queues,
            rooms: Arc::default(),
            fenced_copies: FencedCopies::default(),
            counters,
            is_shown: AtomicBool::new(false),
            making: TurnLock::default(),
            unlocked: DroppedUnlocked::default(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Returns the counters of its copies and memory.
    pub fn counters(&self) -> &UseCounters {
        &self.counters
    }

    /// Returns the receives posted in its memory: they end before the device does.
    pub fn rooms(&self) -> &Arc<DeviceRooms> {
        &self.rooms
    }

    /// Copies that were said to be there and may not be.
    pub(crate) fn fenced_copies(&self) -> &FencedCopies {
        &self.fenced_copies
    }

    /// Whether the device may still be at some of them there.
    pub(crate) fn still_writes(&self, at: AddressRange) -> bool {
        // A failure is told by who uses the device.
        self.fenced_copies.still_overlap(at, |stream, seq| self.device.reached(stream, seq) != Ok(false))
    }

    /// Whether an enqueued copy from elsewhere may be reported complete while the device still executes it: no other
    /// access reaches its target before. Else the caller has to wait for it.
    pub(crate) fn fence(&self, at: AddressRange, stream: StreamId, seq: Seq) -> bool {
        // Recorded first: code that posts room there, or exposes it, asks afterwards.
        self.fenced_copies.add(at, stream, seq);
        !self.is_shown.load(Ordering::SeqCst) && !self.rooms.overlaps(at) && self.device.fence(stream, seq)
    }

    /// Whether another process may be told of this part of the device's memory, and write there. From then on no copy
    /// is reported complete before it is: that process writes without asking.
    pub(crate) fn may_show(&self, at: AddressRange) -> bool {
        self.is_shown.store(true, Ordering::SeqCst);
        !self.still_writes(at)
    }

    /// The queues, to look only.
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

    /// The stream of a queue that was used before, and what was put in last.
    pub fn last(&self, queue: QueueId) -> Option<(StreamId, Seq)> {
        self.queues().find(queue).map(|queue| (queue.stream(), queue.last()))
    }

    /// A queue, which gets its stream at its first use.
    ///
    /// # Errors
    /// Returns the errors of the device; when there are too many queues.
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

    /// The stream that takes copies from other devices. Made at its first use, and anew should it fail.
    ///
    /// # Errors
    /// Returns the errors of the device.
    pub fn incoming(&self) -> Result<StreamId> {
        self.queue(QueueId::INCOMING).map(|queue| queue.stream())
    }

    /// The stream that takes copies has failed: the next copy gets another one.
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
