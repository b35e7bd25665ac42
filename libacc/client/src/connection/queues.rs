//! What the program knows of a node's devices and queues.

use super::earlier_copies::EarlierCopies;
use accord_executor::queue_table::{ByNumber, Carrier, QueueTable};
use accord_fabric::frame::STREAM_WINDOW;
use accord_types::{Error, ErrorCode, QueueId, Result, StreamId, TransferId};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A command's effect on eager bytes in its queue: whether it may hold up later commands. If it may, no later command
/// is eager until it is known to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MayStall {
    /// It never does for long.
    No,
    /// It takes its time.
    Yes,
}

/// The started devices of a node, which are few: each launch looks for one several times.
#[derive(Default)]
pub(super) struct Devices(Vec<(u32, DeviceState)>);

/// A started device.
pub struct DeviceState {
    /// Its memory failed, or the executor said that all of it has.
    failed: Option<Error>,
    queues: BTreeMap<QueueId, QueueState>,
    /// Which of them share a stream there: the executor decides it in the same way.
    streams: QueueTable,
    /// Bytes of operations that are not known to be done, by stream, see [`STREAM_WINDOW`].
    open: BTreeMap<StreamId, u64>,
    /// Queues that are not Accord's own: those share streams if there are more than those.
    numbered: usize,
    /// Functions that the executor knows, by the runtime's key.
    functions: HashMap<u64, u32, ByNumber>,
    functions_named: u32,
    /// Bytes that the program has mapped.
    pub mapped: u64,
}

/// A queue.
#[derive(Default)]
pub(super) struct QueueState {
    /// Operations put in.
    pub(super) last: u64,
    /// Known to be done.
    pub(super) reached: u64,
    /// Position of the last operation that may stall.
    may_stall: u64,
    failed: Option<Error>,
    /// Copies out that come before what it does next, and may not be here yet.
    pub(super) copies: EarlierCopies,
    /// The stream that carries it, from its first operation on.
    stream: Option<StreamId>,
    /// Bytes of its operations that are not known to be done.
    open: u64,
    /// The program has waited for it, and its next wait was not asked ahead.
    pub(super) awaited: bool,
}

impl Devices {
    /// Whether something was put in that is not known to be done.
    pub(super) fn have_work(&self) -> bool {
        self.0.iter().any(|(_, device)| device.queues.values().any(|queue| !queue.drained()))
    }

    /// Whether a queue, which has not failed, is not known to have got to a position.
    pub(super) fn is_under_way(&self, device: u32, queue: QueueId, seq: u64) -> bool {
        let state = self.0.iter().find(|(known, state)| *known == device && state.failed.is_none());
        let queue = state.and_then(|(_, state)| state.queues.get(&queue));
        queue.is_some_and(|queue| queue.failed.is_none() && queue.reached < seq)
    }

    /// A device was started.
    pub(super) fn open(&mut self, device: u32, streams: u32) {
        let state = DeviceState::new(streams);
        match self.find(device) {
            Some(known) => *known = state,
            None => self.0.push((device, state)),
        }
    }

    /// Records that so many bytes of a queue's operations are done. Those of a failed device are of no use any more.
    pub(super) fn done(&mut self, device: u32, queue: QueueId, bytes: u64) {
        if let Ok(device) = self.get(device) {
            device.done(queue, bytes);
        }
    }

    /// Forgets a device. Returns its copies out, which no wait follows.
    pub(super) fn close(&mut self, device: u32) -> Vec<TransferId> {
        let at = self.0.iter().position(|(known, _)| *known == device);
        let queues = at.map(|at| self.0.swap_remove(at).1.queues).unwrap_or_default();
        queues.into_values().flat_map(|mut queue| queue.copies.take_own()).collect()
    }

    fn find(&mut self, device: u32) -> Option<&mut DeviceState> {
        self.0.iter_mut().find(|(known, _)| *known == device).map(|(_, state)| state)
    }

    /// A started device.
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

    /// A queue has failed, or with none all of a device. Returns its copies out.
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
                // Of one that the program has never used nothing can fail, whatever the executor says.
                let Some(state) = state.queues.get_mut(&queue) else { return Vec::new() };
                state.failed.get_or_insert_with(|| error.clone());
                state.copies.take_own().collect()
            }
        }
    }
}

impl DeviceState {
    /// A queue, from its first use.
    ///
    /// # Errors
    /// Returns an error if it has failed.
    pub(super) fn queue(&mut self, queue: QueueId) -> Result<&mut QueueState> {
        let state = self.state(queue);
        match &state.failed {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// A queue, if it was used before.
    ///
    /// # Errors
    /// Returns an error if it has failed.
    pub(super) fn known(&self, queue: QueueId) -> Result<Option<&QueueState>> {
        let state = self.queues.get(&queue);
        match state.and_then(|state| state.failed.as_ref()) {
            Some(error) => Err(error.clone()),
            None => Ok(state),
        }
    }

    /// All that have not failed.
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

    /// A queue, from its first use, and what is known of streams.
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

    /// Whether one more operation may be put into a queue.
    pub(super) fn has_room(&mut self, queue: QueueId) -> bool {
        let stream = self.queues.get(&queue).and_then(|state| state.stream);
        stream.and_then(|stream| self.open.get(&stream)).is_none_or(|open| *open < STREAM_WINDOW)
    }

    /// An operation that costs so much was put into a queue.
    pub(super) fn charge(&mut self, queue: QueueId, cost: u64) {
        let (state, streams, open) = self.state_and_streams(queue);
        let stream = *state.stream.get_or_insert_with(|| match streams.carrier(queue) {
            Ok(Carrier::Known(known)) => known.stream(),
            Ok(Carrier::Shared(stream)) => streams.add(queue, stream).stream(),
            // The queue's own number names its stream.
            Ok(Carrier::New | Carrier::Failed(_)) => streams.add(queue, StreamId(queue.0)).stream(),
            // The executor refuses it.
            Err(_) => StreamId(queue.0),
        });
        state.open += cost;
        *open.entry(stream).or_default() += cost;
    }

    /// Records that so many bytes of a queue's operations are done. An executor that reports more than there were gives
    /// no more room.
    fn done(&mut self, queue: QueueId, bytes: u64) {
        let Some(state) = self.queues.get_mut(&queue) else { return };
        let bytes = bytes.min(state.open);
        state.open -= bytes;
        if let Some(open) = state.stream.and_then(|stream| self.open.get_mut(&stream)) {
            *open = open.saturating_sub(bytes);
        }
    }

    /// The most that is open in one stream.
    pub(super) fn most_open(&self) -> u64 {
        self.open.values().copied().max().unwrap_or(0)
    }

    /// Whether nothing can hold an eager copy in the queue up, on a device that has so many streams for queues.
    ///
    /// # Errors
    /// Returns an error if the queue has failed.
    pub(super) fn quiet(&mut self, queue: QueueId, streams: usize) -> Result<bool> {
        let quiet = self.queue(queue)?.quiet();
        // Else it may have its stream together with another one.
        Ok(quiet && self.numbered <= streams)
    }

    /// The number by which the executor knows a function.
    pub fn function(&self, key: u64) -> Option<u32> {
        self.functions.get(&key).copied()
    }

    /// Gives a function its number.
    pub fn name_function(&mut self, key: u64) -> u32 {
        self.functions_named += 1;
        self.functions.insert(key, self.functions_named);
        self.functions_named
    }

    /// Functions that are known no more.
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

    /// Whether nothing in the queue can hold an eager copy up.
    fn quiet(&self) -> bool {
        self.reached >= self.may_stall
    }

    /// Whether everything in it is known to be done.
    pub(super) fn drained(&self) -> bool {
        self.reached >= self.last && self.copies.is_empty()
    }

    /// The executor has got this far. Appends the copies out that must be here before the program
    /// may know it.
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
        assert!(device.has_room(three));
        device.charge(three, 1);
        assert!(!device.has_room(one) && !device.has_room(three), "they share a stream");
        assert!(device.has_room(two) && device.has_room(four) && device.has_room(QueueId::SYNC));
        device.done(three, u64::MAX);
        assert!(device.has_room(one));
        device.charge(one, 1);
        assert!(!device.has_room(three));
        devices.fail(0, Some(one), &Error::new(ErrorCode::Execution, "crashed"));
        assert!(devices.get(0)?.has_room(three), "nothing of a failed queue is waited for");
        Ok(())
    }

    /// There are 2^32 numbers.
    #[test]
    fn an_executor_that_says_that_queues_have_failed_which_there_are_not_makes_none() -> Result<()> {
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
