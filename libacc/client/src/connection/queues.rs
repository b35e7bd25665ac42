//! State of a node's devices and queues, as known to the program.

use super::earlier_copies::EarlierCopies;
use accord_executor::queue_table::{ByNumber, Carrier, QueueTable};
use accord_fabric::frame::STREAM_WINDOW;
use accord_types::{Error, ErrorCode, QueueId, Result, StreamId, TransferId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Whether a command may hold up eager bytes in its queue. If so, no later command is eager until it is known to be
/// complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MayStall {
    /// The command is quick.
    No,
    /// The command may take long.
    Yes,
}

/// The started devices of a node: few, and each launch looks one up several times.
#[derive(Default)]
pub(super) struct Devices(Vec<(u32, DeviceState)>);

/// A started device.
pub struct DeviceState {
    /// The failure of the whole device.
    failed: Option<Error>,
    queues: BTreeMap<QueueId, QueueState>,
    /// The assignment of queues to streams, which the executor computes in the same way.
    streams: QueueTable,
    /// Bytes of incomplete operations by stream, see [`STREAM_WINDOW`].
    open: BTreeMap<StreamId, u64>,
    /// Number of the program's queues: if they exceed the device's streams, they share them.
    numbered: usize,
    /// Functions that the executor knows, by the runtime's key.
    functions: HashMap<u64, u32, ByNumber>,
    functions_named: u32,
    /// Number of bytes that the program has mapped.
    pub mapped: u64,
}

/// A queue.
#[derive(Default)]
pub(super) struct QueueState {
    /// Position of the last operation.
    pub(super) last: u64,
    /// Position that is known to be reached.
    pub(super) reached: u64,
    /// Position of the last operation that may stall.
    may_stall: u64,
    failed: Option<Error>,
    /// Open copies out that precede its next operation.
    pub(super) copies: EarlierCopies,
    /// Its stream, assigned at the first operation.
    stream: Option<StreamId>,
    /// Bytes of its incomplete operations.
    open: u64,
    /// Whether the program has waited for it, and its next wait was not asked ahead.
    pub(super) awaited: bool,
}

impl Devices {
    /// Whether any operation may be incomplete.
    pub(super) fn have_work(&self) -> bool {
        self.0.iter().any(|(_, device)| device.queues.values().any(|queue| !queue.drained()))
    }

    /// Whether a queue without a failure may not have reached a position.
    pub(super) fn is_under_way(&self, device: u32, queue: QueueId, seq: u64) -> bool {
        let state = self.0.iter().find(|(known, state)| *known == device && state.failed.is_none());
        let queue = state.and_then(|(_, state)| state.queues.get(&queue));
        queue.is_some_and(|queue| queue.failed.is_none() && queue.reached < seq)
    }

    /// Records that a device was started.
    pub(super) fn open(&mut self, device: u32, streams: u32) {
        let state = DeviceState::new(streams);
        match self.find(device) {
            Some(known) => *known = state,
            None => self.0.push((device, state)),
        }
    }

    /// Records completed bytes of a queue's operations. Those of a failed device are ignored.
    pub(super) fn done(&mut self, device: u32, queue: QueueId, bytes: u64) {
        if let Ok(device) = self.get(device) {
            device.done(queue, bytes);
        }
    }

    /// Removes a device. Returns its copies out, which no wait follows.
    pub(super) fn close(&mut self, device: u32) -> Vec<TransferId> {
        let at = self.0.iter().position(|(known, _)| *known == device);
        let queues = at.map(|at| self.0.swap_remove(at).1.queues).unwrap_or_default();
        queues.into_values().flat_map(|mut queue| queue.copies.take_own()).collect()
    }

    fn find(&mut self, device: u32) -> Option<&mut DeviceState> {
        self.0.iter_mut().find(|(known, _)| *known == device).map(|(_, state)| state)
    }

    /// Returns a started device.
    ///
    /// # Errors
    /// Returns an error if the device has failed, or is not started.
    pub(super) fn get(&mut self, device: u32) -> Result<&mut DeviceState> {
        match self.find(device) {
            Some(DeviceState { failed: Some(error), .. }) => Err(error.clone()),
            Some(state) => Ok(state),
            None => {
                Err(Error::new(ErrorCode::DeviceUnavailable, "the device is not started")
                    .remedy("call acc_init before"))
            }
        }
    }

    /// Records the failure of a queue, or with `None` of a whole device. Returns its copies out.
    pub(super) fn fail(&mut self, device: u32, queue: Option<QueueId>, error: &Error) -> Vec<TransferId> {
        let Some(state) = self.find(device) else { return Vec::new() };
        match queue {
            None => {
                state.failed.get_or_insert_with(|| error.clone());
                state.open.clear();
                state.queues.values_mut().flat_map(|queue| queue.copies.take_own()).collect()
            }
            Some(queue) => {
                state.done(queue, u64::MAX);
                // A queue that the program has never used can't fail, whatever the executor reports.
                let Some(state) = state.queues.get_mut(&queue) else { return Vec::new() };
                state.failed.get_or_insert_with(|| error.clone());
                state.copies.take_own().collect()
            }
        }
    }
}

impl DeviceState {
    /// Returns a queue, which is created at its first use.
    ///
    /// # Errors
    /// Returns the queue's failure.
    pub(super) fn queue(&mut self, queue: QueueId) -> Result<&mut QueueState> {
        let state = self.state(queue);
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// Returns a queue, if it was used before.
    ///
    /// # Errors
    /// Returns the queue's failure.
    pub(super) fn known(&self, queue: QueueId) -> Result<Option<&QueueState>> {
        let state = self.queues.get(&queue);
        match state.and_then(|state| state.failed.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// Returns the queues that have not failed.
    pub(super) fn queues(&mut self) -> impl Iterator<Item = (QueueId, &mut QueueState)> {
        self.queues.iter_mut().filter(|(_, state)| state.failed.is_none()).map(|(id, state)| (*id, state))
    }

    fn new(streams: u32) -> Self {
        Self {
            failed: None,
            queues: BTreeMap::new(),
            streams: QueueTable::new(streams),
            open: BTreeMap::new(),
            numbered: 0,
            functions: HashMap::default(),
            functions_named: 0,
            mapped: 0,
        }
    }

    fn state(&mut self, queue: QueueId) -> &mut QueueState {
        self.state_and_streams(queue).0
    }

    /// Returns a queue, which is created at its first use, and the state of streams.
    fn state_and_streams(
        &mut self,
        queue: QueueId,
    ) -> (&mut QueueState, &mut QueueTable, &mut BTreeMap<StreamId, u64>) {
        let Self { queues, streams, open, numbered, .. } = self;
        let state = queues.entry(queue).or_insert_with(|| {
            *numbered += usize::from(queue < QueueId::INCOMING);
            QueueState::default()
        });
        (state, streams, open)
    }

    /// Whether another operation may be appended to a queue.
    pub(super) fn has_space(&mut self, queue: QueueId) -> bool {
        let stream = self.queues.get(&queue).and_then(|state| state.stream);
        stream.and_then(|stream| self.open.get(&stream)).is_none_or(|open| *open < STREAM_WINDOW)
    }

    /// Records an appended operation with this cost.
    pub(super) fn charge(&mut self, queue: QueueId, cost: u64) {
        let (state, streams, open) = self.state_and_streams(queue);
        let stream = *state.stream.get_or_insert_with(|| match streams.carrier(queue) {
            Ok(Carrier::Known(known)) => known.stream(),
            Ok(Carrier::Shared(stream)) => streams.add(queue, stream).stream(),
            // The stream has its queue's number.
            Ok(Carrier::New | Carrier::Failed(_)) => streams.add(queue, StreamId(queue.0)).stream(),
            // The executor refuses it.
            Err(_) => StreamId(queue.0),
        });
        state.open += cost;
        *open.entry(stream).or_default() += cost;
    }

    /// Records completed bytes of a queue's operations. Reporting more than were open yields no more credit.
    fn done(&mut self, queue: QueueId, bytes: u64) {
        let Some(state) = self.queues.get_mut(&queue) else { return };
        let bytes = bytes.min(state.open);
        state.open -= bytes;
        if let Some(open) = state.stream.and_then(|stream| self.open.get_mut(&stream)) {
            *open = open.saturating_sub(bytes);
        }
    }

    /// Number of open bytes in the fullest stream.
    pub(super) fn most_open(&self) -> u64 {
        self.open.values().copied().max().unwrap_or(0)
    }

    /// Whether nothing can hold up an eager copy in the queue, on a device with this many streams for queues.
    ///
    /// # Errors
    /// Returns an error if the queue has failed.
    pub(super) fn quiet(&mut self, queue: QueueId, streams: usize) -> Result<bool> {
        let quiet = self.queue(queue)?.quiet();
        // Otherwise another queue may share its stream.
        Ok(quiet && self.numbered <= streams)
    }

    /// Returns the executor's number of a function.
    pub fn function(&self, key: u64) -> Option<u32> {
        self.functions.get(&key).copied()
    }

    /// Assigns a function its number.
    pub fn name_function(&mut self, key: u64) -> u32 {
        self.functions_named += 1;
        self.functions.insert(key, self.functions_named);
        self.functions_named
    }

    /// Removes functions of an unloaded object.
    pub fn forget_functions(&mut self, keys: &Range<u64>) {
        self.functions.retain(|key, _| !keys.contains(key));
    }
}

impl QueueState {
    /// Counts an operation. Returns its position.
    pub(super) fn count(&mut self, stall: MayStall) -> u64 {
        self.last += 1;
        if stall == MayStall::Yes {
            self.may_stall = self.last;
        }
        self.last
    }

    /// Whether nothing in the queue can hold up an eager copy.
    fn quiet(&self) -> bool {
        self.reached >= self.may_stall
    }

    /// Whether all operations are known to be complete.
    pub(super) fn drained(&self) -> bool {
        self.reached >= self.last && self.copies.is_empty()
    }

    /// Records a reached position. Appends the copies out that must complete before the program may know it.
    pub(super) fn reach(&mut self, seq: u64, landings: &mut Vec<TransferId>) {
        self.reached = self.reached.max(seq);
        landings.extend(self.copies.until(seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::HostRange;

    #[test]
    fn a_queue_is_quiet_until_something_noisy_is_put_in_and_again_when_it_is_done() -> Result<()> {
        let mut devices = Devices::default();
        devices.open(0, 32);
        let queue = devices.get(0)?.queue(QueueId(1))?;
        queue.count(MayStall::No);
        assert!(queue.quiet() && !queue.drained());
        let seq = queue.count(MayStall::Yes);
        assert!(!queue.quiet());
        queue.copies.push(seq, TransferId(4), HostRange { start: 8, len: 8 }, |_| true);
        queue.count(MayStall::No);
        let mut landings = Vec::new();
        queue.reach(seq, &mut landings);
        assert_eq!(landings, [TransferId(4)]);
        assert!(queue.quiet() && !queue.drained());
        queue.reach(seq + 1, &mut Vec::new());
        assert!(!queue.drained());
        queue.copies.landed(seq);
        assert!(queue.drained());
        Ok(())
    }

    #[test]
    fn no_queue_is_quiet_where_queues_share_streams() -> Result<()> {
        let mut devices = Devices::default();
        devices.open(0, 32);
        let device = devices.get(0)?;
        for queue in [QueueId(0), QueueId::SYNC, QueueId::INCOMING, QueueId(7), QueueId(7)] {
            assert!(device.quiet(queue, 2)?);
        }
        assert!(!device.quiet(QueueId(1), 2)?);
        assert!(!device.quiet(QueueId(0), 2)? && device.quiet(QueueId(0), 3)?);
        Ok(())
    }

    #[test]
    fn queues_of_one_stream_have_one_window() -> Result<()> {
        let mut devices = Devices::default();
        devices.open(0, 2);
        let device = devices.get(0)?;
        let [one, two, three, four] = [0, 1, 2, 3].map(QueueId);
        device.queue(four)?; // It has no operation yet.
        for queue in [one, two, three, four] {
            device.charge(queue, 0);
        }
        device.charge(one, STREAM_WINDOW - 1);
        assert!(device.has_space(three));
        device.charge(three, 1);
        assert!(!device.has_space(one) && !device.has_space(three), "they share a stream");
        assert!(device.has_space(two) && device.has_space(four) && device.has_space(QueueId::SYNC));
        device.done(three, u64::MAX);
        assert!(device.has_space(one));
        device.charge(one, 1);
        assert!(!device.has_space(three));
        devices.fail(0, Some(one), &Error::new(ErrorCode::Execution, "crashed"));
        assert!(devices.get(0)?.has_space(three), "nothing of a failed queue is waited for");
        Ok(())
    }

    /// The executor could name any of 2^32 queues.
    #[test]
    fn failure_of_an_unknown_queue_creates_no_queue() -> Result<()> {
        let mut devices = Devices::default();
        devices.open(0, 32);
        devices.get(0)?.queue(QueueId(1))?;
        for queue in 1..100 {
            assert!(devices.fail(0, Some(QueueId(queue)), &Error::new(ErrorCode::Execution, "crashed")).is_empty());
        }
        assert_eq!(devices.get(0)?.queues.len(), 1);
        assert!(devices.get(0)?.queue(QueueId(1)).is_err() && devices.get(0)?.queue(QueueId(2)).is_ok());
        Ok(())
    }

    #[test]
    fn failures_are_sticky_and_give_landings_back() -> Result<()> {
        let mut devices = Devices::default();
        devices.open(0, 32);
        devices.open(1, 32);
        for device in 0..2 {
            let queue = devices.get(device)?.queue(QueueId(1))?;
            let seq = queue.count(MayStall::Yes);
            queue.copies.push(seq, TransferId(device.into()), HostRange { start: 8, len: 8 }, |_| true);
        }
        let error = Error::new(ErrorCode::Execution, "crashed");
        assert_eq!(devices.fail(1, Some(QueueId(1)), &error), [TransferId(1)]);
        assert!(devices.get(1)?.queue(QueueId(1)).is_err());
        assert!(devices.get(1)?.queue(QueueId(2)).is_ok());
        assert_eq!(devices.fail(0, None, &error), [TransferId(0)]);
        assert!(devices.get(0).is_err());
        devices.close(0);
        devices.open(0, 32);
        assert!(devices.get(0).is_ok());
        Ok(())
    }
}
