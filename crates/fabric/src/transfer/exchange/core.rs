//! The state of all copies between devices that one process pushes or expects. Methods take events and return effects,
//! without I/O, threads or clock. [`super::Exchange`] and the simulation of executors carry out the effects.

use crate::peer::PeerId;
use crate::transfer::chunk_io::broken;
use crate::transfer::control::{ControlMessage, RoomWord};
use crate::transfer::rendezvous::{Answer, Expects, PushStep, Pushes};
use accord_types::{Error, Result, TransferId};
use std::collections::HashMap;

/// Most bytes of handles kept for pushes whose streams have not reached them. Without a handle bytes use lanes.
const HANDLES_BYTES_MAX: usize = 16 << 20;

/// All copies of one process. `E` is the caller's value for an expected transfer, which receives its bytes.
pub struct ExchangeCore<E> {
    pushes: Pushes,
    expects: Expects,
    /// The values of transfers whose bytes may not be sent yet.
    expected: HashMap<TransferId, E>,
    /// Handles of targets for pushes that their streams have not reached.
    handles: HashMap<TransferId, Vec<u8>>,
    /// Bytes of these handles, at most [`HANDLES_BYTES_MAX`].
    handles_bytes: usize,
    /// Posted receives for pushes that their streams have not reached.
    rooms: HashMap<TransferId, RoomWord>,
    /// By process, the last lane that is lost for pushes, and the error.
    lost: HashMap<PeerId, (u32, Error)>,
    closed: Option<Error>,
    /// Number of finished copies that are reported at once; `None` if they are not reported.
    step: Option<u32>,
    effects: Vec<ExchangeEffect<E>>,
}

/// An action for the caller, which carries out several in their order.
#[derive(Debug)]
pub enum ExchangeEffect<E> {
    /// The waiter of a push calls [`ExchangeCore::step`] again.
    Push(TransferId),
    /// The bytes of a transfer may be sent: the caller prepares to receive them, then notifies the pusher.
    Ready {
        /// The pusher.
        peer: PeerId,
        /// The transfer.
        transfer: TransferId,
        /// The value that was announced with the transfer.
        expected: E,
    },
    /// Notify the pusher that the bytes have landed.
    Landed(PeerId, TransferId),
    /// Notify the pusher that the target can't take the bytes.
    Refused(PeerId, TransferId, Error),
    /// Notify the pusher, which was allowed to send, that the bytes did not land.
    Failed(PeerId, TransferId, Error),
    /// Notify the ready target that no bytes will be sent on a lane.
    Abandon(PeerId, TransferId),
    /// A pusher that was allowed to send these transfers is gone.
    Gone(PeerId, Vec<TransferId>),
    /// An announced transfer will not take place.
    Drop(E),
    /// So many copies are over since the last report to the program.
    Over {
        /// Copies pushed from here.
        pushes: u32,
        /// Copies expected here.
        expects: u32,
    },
}

impl<E> ExchangeEffect<E> {
    /// Returns the pusher that the effect concerns, if there is one.
    pub fn peer(&self) -> Option<PeerId> {
        match *self {
            Self::Ready { peer, .. }
            | Self::Landed(peer, _)
            | Self::Refused(peer, ..)
            | Self::Failed(peer, ..)
            | Self::Gone(peer, _) => Some(peer),
            Self::Push(_) | Self::Abandon(..) | Self::Drop(_) | Self::Over { .. } => None,
        }
    }
}

impl<E> ExchangeCore<E> {
    /// Creates a core without peers. It reports finished copies in steps of `step`, if given.
    pub fn new(step: Option<u32>) -> Self {
        Self {
            pushes: Pushes::default(),
            expects: Expects::default(),
            expected: HashMap::new(),
            handles: HashMap::new(),
            handles_bytes: 0,
            rooms: HashMap::new(),
            lost: HashMap::new(),
            closed: None,
            step,
            effects: Vec::new(),
        }
    }

    /// Returns the effects since the last call.
    pub fn effects(&mut self) -> impl Iterator<Item = ExchangeEffect<E>> + '_ {
        self.effects.drain(..)
    }

    /// Returns the number of pushes that are tracked.
    pub fn pushes(&self) -> usize {
        self.pushes.len()
    }

    /// Returns the number of expected transfers that are tracked.
    pub fn expects(&self) -> usize {
        self.expects.len()
    }

    /// Checks that transfers may still start.
    ///
    /// # Errors
    /// Returns the error of [`ExchangeCore::close`] once it was called.
    pub fn check(&self) -> Result<()> {
        self.closed.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }

    // The pusher's side.

    /// Starts a push.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, too many are, or the core is closed.
    pub fn push(&mut self, transfer: TransferId, to: PeerId) -> Result<()> {
        self.check()?;
        self.pushes.push(transfer, to)?;
        if let Some((_, error)) = self.lost.get(&to.process()).filter(|(last, _)| to.lane() <= *last) {
            self.pushes.lost(to, error);
            self.count();
        }
        Ok(())
    }

    /// Returns what a push does next.
    pub fn step(&self, transfer: TransferId) -> PushStep {
        match (self.pushes.step(transfer), &self.closed) {
            (PushStep::Wait | PushStep::Send, Some(error)) => PushStep::End(Err(error.clone())),
            (step, _) => step,
        }
    }

    /// Removes and returns the handle that the target has sent for a push that may be sent.
    pub fn take_handle(&mut self, transfer: TransferId) -> Option<Vec<u8>> {
        let handle = self.handles.remove(&transfer)?;
        self.handles_bytes -= handle.len();
        Some(handle)
    }

    /// Removes and returns the receive that the target has posted for a push that may be sent.
    pub fn take_room(&mut self, transfer: TransferId) -> Option<RoomWord> {
        self.rooms.remove(&transfer)
    }

    /// Returns the receive of [`ExchangeCore::take_room`] without removing it.
    pub fn room(&self, transfer: TransferId) -> Option<RoomWord> {
        self.rooms.get(&transfer).copied().filter(|_| self.step(transfer) == PushStep::Send)
    }

    /// Ends a push that has its outcome or has written its bytes to the target.
    ///
    /// # Errors
    /// Returns the push's own error.
    pub fn push_done(&mut self, transfer: TransferId) -> Result<()> {
        let step = self.step(transfer);
        self.finish(transfer, false);
        match step {
            PushStep::End(outcome) => outcome,
            PushStep::Wait | PushStep::Send => Ok(()),
        }
    }

    /// Records that the bytes of a push have landed, if the target sends no message about it.
    pub fn has_landed(&mut self, transfer: TransferId) {
        // An error means that the push has ended already.
        let _ = self.pushes.landed(transfer);
    }

    /// Gives up a push, for example when its stream has failed. Releasing its lane, if it has one, notifies the target.
    pub fn give_up(&mut self, transfer: TransferId, has_lane: bool) {
        self.finish(transfer, has_lane);
    }

    fn finish(&mut self, transfer: TransferId, has_lane: bool) {
        self.take_handle(transfer);
        self.take_room(transfer);
        let to = self.pushes.target(transfer);
        if let (true, false, Some(to)) = (self.pushes.finish(transfer), has_lane, to) {
            self.effects.push(ExchangeEffect::Abandon(to, transfer));
        }
        self.count();
    }

    /// Handles a target's message on a push.
    ///
    /// # Errors
    /// Returns an error if the message breaks the protocol.
    pub fn on_control(&mut self, from: PeerId, message: ControlMessage) -> Result<()> {
        let transfer = match message {
            ControlMessage::Ready(transfer, handle) => {
                if self.goes_on(from, transfer)? {
                    self.keep_handle(transfer, handle);
                }
                transfer
            }
            ControlMessage::Room(transfer, room) => {
                if self.goes_on(from, transfer)? {
                    self.rooms.insert(transfer, room);
                }
                transfer
            }
            ControlMessage::Landed(transfer) => {
                self.pushes.landed(transfer)?;
                transfer
            }
            ControlMessage::Refused(transfer, error) => {
                self.pushes.refused(transfer, error)?;
                transfer
            }
            ControlMessage::Failed(transfer, error) => {
                self.pushes.failed(transfer, error)?;
                transfer
            }
            // The caller handles questions, and targets ask none.
            ControlMessage::Ask(_) | ControlMessage::Alive(_) | ControlMessage::Lost(..) => {
                return Err(broken("it asks or answers what it should not"));
            }
        };
        self.effects.push(ExchangeEffect::Push(transfer));
        self.count();
        Ok(())
    }

    /// Records that the target of a push is ready. Returns `false` if nothing will be sent, and notifies the target of that.
    fn goes_on(&mut self, target: PeerId, transfer: TransferId) -> Result<bool> {
        let is_abandoned = self.pushes.ready(transfer)?;
        if is_abandoned {
            self.effects.push(ExchangeEffect::Abandon(target, transfer));
        }
        Ok(!is_abandoned)
    }

    fn keep_handle(&mut self, transfer: TransferId, handle: Vec<u8>) {
        if !handle.is_empty() && self.handles_bytes + handle.len() <= HANDLES_BYTES_MAX {
            self.handles_bytes += handle.len();
            self.handles.insert(transfer, handle);
        }
    }

    /// Ends the pushes to a peer's lane and to its earlier ones with `error`, and fails later ones at once.
    pub fn push_lost(&mut self, peer: PeerId, error: &Error) {
        let known = self.lost.entry(peer.process()).or_insert_with(|| (peer.lane(), error.clone()));
        if known.0 < peer.lane() {
            *known = (peer.lane(), error.clone());
        }
        let ended = self.pushes.lost(peer, error);
        self.effects.extend(ended.into_iter().map(ExchangeEffect::Push));
        self.count();
    }

    // The target's side.

    /// Records a transfer that the program has announced, and its destination. An error as destination refuses the pusher.
    /// Otherwise the transfer waits for [`ExchangeCore::due`].
    ///
    /// # Errors
    /// Returns an error if the transfer is already expected, too many are, or the core is closed.
    pub fn expect(&mut self, transfer: TransferId, from: PeerId, place: Result<E>) -> Result<()> {
        let is_wanted = self.check().and_then(|()| self.expects.expect(transfer, from));
        if is_wanted != Ok(true) {
            self.effects.extend(place.ok().map(ExchangeEffect::Drop));
            self.count();
            return is_wanted.map(|_| ());
        }
        match place {
            Ok(expected) => drop(self.expected.insert(transfer, expected)),
            Err(error) => self.due(transfer, Err(error)),
        }
        Ok(())
    }

    /// Records that all work ahead of a transfer on its target is done, or has failed.
    pub fn due(&mut self, transfer: TransferId, outcome: Result<()>) {
        if let Some((peer, answer)) = self.expects.due(transfer, outcome) {
            self.answer(peer, answer);
        }
        self.count();
    }

    /// Whether the lane of a peer is no longer read.
    pub fn is_over(&self, peer: PeerId) -> bool {
        self.expects.is_over(peer)
    }

    /// Records that a peer has connected and may push. It has given up its earlier lanes.
    pub fn arrived(&mut self, peer: PeerId) {
        if let Some(before) = peer.lane().checked_sub(1) {
            self.peer_lost(peer.on_lane(before));
        }
        for answer in self.expects.arrived(peer) {
            self.answer(peer, answer);
        }
        self.count();
    }

    fn answer(&mut self, peer: PeerId, answer: Answer) {
        match answer {
            Answer::Ready(transfer) => {
                if let Some(expected) = self.expected.remove(&transfer) {
                    self.effects.push(ExchangeEffect::Ready { peer, transfer, expected });
                }
            }
            Answer::Refused(transfer, error) => {
                self.effects.push(ExchangeEffect::Refused(peer, transfer, error));
                self.effects.extend(self.expected.remove(&transfer).map(ExchangeEffect::Drop));
            }
        }
    }

    /// Records that the first bytes of a transfer have arrived, or with `aborted` the message that none will. Returns
    /// whether the caller should receive the bytes and then call [`ExchangeCore::ended`].
    ///
    /// # Errors
    /// Returns an error if the peer was not allowed to send them.
    pub fn begin(&mut self, transfer: TransferId, from: PeerId, aborted: bool) -> Result<bool> {
        self.expects.begin(transfer, from)?;
        if aborted {
            self.expects.end(transfer);
            self.count();
        }
        Ok(!aborted)
    }

    /// Records that the bytes of a transfer have landed, or never will.
    pub fn ended(&mut self, transfer: TransferId, from: PeerId, outcome: Result<()>) {
        if self.expects.end(transfer) {
            self.effects.push(match outcome {
                Ok(()) => ExchangeEffect::Landed(from, transfer),
                Err(error) => ExchangeEffect::Failed(from, transfer, error),
            });
        }
        self.count();
    }

    /// Records that the bytes of a transfer have landed, as the pusher already knows.
    pub fn landed_unsaid(&mut self, transfer: TransferId) {
        self.expects.end(transfer);
        self.count();
    }

    /// Drops the expected transfers of a peer on its lane and its earlier ones.
    pub fn peer_lost(&mut self, peer: PeerId) {
        let mut told = self.expects.lost(peer);
        told.retain(|transfer| {
            let expected = self.expected.remove(transfer);
            let is_told = expected.is_none();
            self.effects.extend(expected.map(ExchangeEffect::Drop));
            is_told
        });
        self.effects.push(ExchangeEffect::Gone(peer, told));
        self.count();
    }

    /// Closes the core; pushes fail with `error`.
    pub fn close(&mut self, error: &Error) {
        self.closed.get_or_insert_with(|| error.clone());
        self.effects.extend(self.expected.drain().map(|(_, expected)| ExchangeEffect::Drop(expected)));
        self.handles.clear();
        self.handles_bytes = 0;
        self.rooms.clear();
        self.effects.extend(self.pushes.transfers().map(ExchangeEffect::Push));
    }

    /// Reports finished copies once there are enough.
    fn count(&mut self) {
        let enough = |over: u32| self.step.is_some_and(|step| over >= step);
        if enough(self.pushes.over()) || enough(self.expects.over()) {
            let (pushes, expects) = (self.pushes.take_over(), self.expects.take_over());
            self.effects.push(ExchangeEffect::Over { pushes, expects });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::ErrorCode;

    const PEER: PeerId = PeerId::from_raw(1);

    fn effects(core: &mut ExchangeCore<u32>) -> Vec<String> {
        core.effects().map(|effect| format!("{effect:?}")).collect()
    }

    #[test]
    fn handles_are_kept_for_their_streams_up_to_a_bound() {
        let mut core = ExchangeCore::<u32>::new(None);
        let large = vec![0; HANDLES_BYTES_MAX / 2 + 1];
        for transfer in [TransferId(2), TransferId(3)] {
            core.push(transfer, PEER).unwrap();
            core.on_control(PEER, ControlMessage::Ready(transfer, large.clone())).unwrap();
        }
        assert_eq!(core.handles.len(), 1);
        core.give_up(TransferId(2), true);
        assert_eq!((core.handles.len(), core.handles_bytes), (0, 0));
    }

    #[test]
    fn a_push_to_a_lost_peer_fails_at_once() {
        let mut core = ExchangeCore::<u32>::new(None);
        let gone = Error::new(ErrorCode::DeviceUnavailable, "gone");
        core.push_lost(PEER, &gone);
        core.push(TransferId(1), PEER).unwrap();
        assert_eq!(core.step(TransferId(1)), PushStep::End(Err(gone)));
        assert!(core.push_done(TransferId(1)).is_err());
        assert_eq!(core.pushes(), 0);
    }

    #[test]
    fn copies_that_are_over_are_reported_in_steps() {
        let mut core = ExchangeCore::new(Some(2));
        core.arrived(PEER);
        for transfer in 1..4 {
            core.expect(TransferId(transfer), PEER, Ok(0)).unwrap();
            core.due(TransferId(transfer), Ok(()));
        }
        effects(&mut core);
        assert!(core.begin(TransferId(1), PEER, false).unwrap());
        core.ended(TransferId(1), PEER, Ok(()));
        assert_eq!(effects(&mut core).len(), 1);
        assert!(!core.begin(TransferId(2), PEER, true).unwrap());
        assert_eq!(effects(&mut core), ["Over { pushes: 0, expects: 2 }"]);
        // A push given up before its target is ready is tracked until then.
        core.push(TransferId(8), PEER).unwrap();
        core.give_up(TransferId(8), false);
        core.push(TransferId(9), PEER).unwrap();
        core.push_lost(PEER, &Error::new(ErrorCode::DeviceUnavailable, "gone"));
        effects(&mut core);
        assert!(core.push_done(TransferId(9)).is_err());
        assert_eq!(effects(&mut core), ["Over { pushes: 2, expects: 0 }"]);
    }

    #[test]
    fn a_push_given_up_midway_leaves_no_state_at_either_end() {
        let (mut source, mut target) = (ExchangeCore::<u32>::new(None), ExchangeCore::new(None));
        let transfer = TransferId(1);
        target.arrived(PEER);
        target.expect(transfer, PEER, Ok(0)).unwrap();
        target.due(transfer, Ok(()));
        source.push(transfer, PEER).unwrap();
        source.on_control(PEER, ControlMessage::Ready(transfer, Vec::new())).unwrap();
        assert!(target.begin(transfer, PEER, false).unwrap());
        source.give_up(transfer, true);
        let cut_short = Error::new(ErrorCode::DeviceUnavailable, "the sender failed");
        effects(&mut target);
        target.ended(transfer, PEER, Err(cut_short.clone()));
        assert!(effects(&mut target)[0].starts_with("Failed"));
        source.on_control(PEER, ControlMessage::Failed(transfer, cut_short)).unwrap();
        assert_eq!((source.pushes(), target.expects()), (0, 0));
    }

    #[test]
    fn a_missing_destination_is_refused_once_the_pusher_connects() {
        let mut core = ExchangeCore::<u32>::new(None);
        let full = Error::new(ErrorCode::OutOfMemory, "full");
        core.expect(TransferId(1), PEER, Err(full)).unwrap();
        assert_eq!((effects(&mut core).len(), core.expects()), (0, 1));
        core.arrived(PEER);
        assert!(effects(&mut core)[0].starts_with("Refused"));
        assert_eq!(core.expects(), 0);
    }
}
