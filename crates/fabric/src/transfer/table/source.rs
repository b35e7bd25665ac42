//! Transfers at their source.

use super::record::{Offer, PushStep, Side, TRANSFERS_MAX, Transfer, TransferState, too_many, twice, unknown};
use super::{TransferEffect, TransferTable};
use crate::peer::PeerId;
use crate::transfer::chunk_io::broken;
use crate::transfer::control::ControlMessage;
use accord_types::{Error, Result, TransferId};
use std::collections::hash_map::Entry;

/// Most bytes of handles kept for pushes whose streams have not reached them. Without a handle bytes use lanes.
pub(super) const HANDLES_BYTES_MAX: usize = 16 << 20;

impl<T: Clone> TransferTable<T> {
    /// Starts a push. The waiter finds `value` when the push may continue.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, too many are pushed, or the table is closed.
    pub fn push(&mut self, transfer: TransferId, to: PeerId, value: T) -> Result<()> {
        self.check()?;
        let push = self.pushed(transfer)?;
        if push.peer.replace(to).is_some() {
            return Err(twice(transfer));
        }
        push.value = Some(value);
        if let Some(error) = self.lost_error(to).cloned() {
            self.fail_push(transfer, &error);
        }
        Ok(())
    }

    /// Returns the error with which the lane of a peer was lost for pushes, if it was.
    fn lost_error(&self, to: PeerId) -> Option<&Error> {
        let (_, error) = self.lost.get(&to.process()).filter(|(last, _)| to.lane() <= *last)?;
        Some(error)
    }

    /// Returns what a push does next.
    pub fn step(&self, transfer: TransferId) -> PushStep {
        let step = self
            .transfers
            .get(&(Side::Source, transfer))
            .map_or_else(|| PushStep::End(Err(unknown(transfer))), Transfer::step);
        match (step, &self.closed) {
            (PushStep::Wait | PushStep::Send, Some(error)) => PushStep::End(Err(error.clone())),
            (step, _) => step,
        }
    }

    /// Returns the ways that the target offers for the bytes of a push, while none is chosen. `None` if the target is not ready.
    pub fn offer(&self, transfer: TransferId) -> Option<&Offer> {
        match &self.transfers.get(&(Side::Source, transfer))?.state {
            TransferState::Ready(offer) if self.closed.is_none() => Some(offer),
            _ => None,
        }
    }

    /// Takes the offer of the target: the caller chooses the way of the bytes. `None` as for [`TransferTable::offer`].
    pub fn start(&mut self, transfer: TransferId) -> Option<Offer> {
        self.offer(transfer)?;
        let push = self.transfers.get_mut(&(Side::Source, transfer))?;
        let TransferState::Ready(offer) = std::mem::replace(&mut push.state, TransferState::Moving) else {
            return None;
        };
        self.handles_bytes -= offer.bytes();
        Some(offer)
    }

    /// Ends a push that has its outcome or has written its bytes to the target.
    ///
    /// # Errors
    /// Returns the push's own error.
    pub fn push_done(&mut self, transfer: TransferId) -> Result<()> {
        let step = self.step(transfer);
        self.give_up(transfer, false);
        match step {
            PushStep::End(outcome) => outcome,
            PushStep::Wait | PushStep::Send => Ok(()),
        }
    }

    /// Records that the bytes of a push have landed, if the target sends no message about it.
    pub fn has_landed(&mut self, transfer: TransferId) {
        // An error means that the push has ended already.
        let _ = self.landed(transfer);
    }

    /// Gives up a push, for example when its stream has failed. `tells`: a lane or a message that carried bytes notifies the target.
    pub fn give_up(&mut self, transfer: TransferId, tells: bool) {
        let Some(push) = self.transfers.get_mut(&(Side::Source, transfer)) else { return };
        let to = push.peer;
        match push.state {
            TransferState::Announced => push.state = TransferState::Abandoned,
            TransferState::Abandoned => {}
            TransferState::Ready(_) | TransferState::Moving => {
                self.remove(Side::Source, transfer);
                let abandons = to.filter(|_| !tells).map(|to| TransferEffect::Abandon(to, transfer));
                self.effects.extend(abandons);
            }
            _ => drop(self.remove(Side::Source, transfer)),
        }
        self.report();
    }

    /// Handles a target's message on a push.
    ///
    /// # Errors
    /// Returns an error if the message breaks the protocol.
    pub fn on_control(&mut self, from: PeerId, message: ControlMessage) -> Result<()> {
        if self.lost_error(from).is_some() {
            // The message crossed the loss, with which all pushes to its sender have ended.
            return Ok(());
        }
        self.check_sender(from, &message)?;
        let transfer = match message {
            ControlMessage::Ready(transfer, handle) => {
                let is_kept = !handle.is_empty() && self.handles_bytes + handle.len() <= HANDLES_BYTES_MAX;
                self.ready(from, transfer, if is_kept { Offer::Memory(handle) } else { Offer::Lane })?;
                transfer
            }
            ControlMessage::Room(transfer, space) => {
                self.ready(from, transfer, Offer::Receive(space))?;
                transfer
            }
            ControlMessage::Landed(transfer) => {
                self.landed(transfer)?;
                transfer
            }
            ControlMessage::Refused(transfer, error) => {
                self.refused(transfer, error)?;
                transfer
            }
            ControlMessage::Failed(transfer, error) => {
                self.failed(transfer, error)?;
                transfer
            }
            // The caller handles questions, and targets ask none.
            ControlMessage::Ask(_) | ControlMessage::Alive(_) | ControlMessage::Lost(..) => {
                return Err(broken("it asks or answers what it should not"));
            }
        };
        self.wake(transfer);
        self.report();
        Ok(())
    }

    /// Checks that a message does not concern a push to another peer.
    fn check_sender(&self, from: PeerId, message: &ControlMessage) -> Result<()> {
        let (ControlMessage::Ready(transfer, _)
        | ControlMessage::Room(transfer, _)
        | ControlMessage::Landed(transfer)
        | ControlMessage::Refused(transfer, _)
        | ControlMessage::Failed(transfer, _)) = message
        else {
            return Ok(());
        };
        let to = self.transfers.get(&(Side::Source, *transfer)).and_then(|push| push.peer);
        if to.is_some_and(|to| to != from) { Err(unknown(*transfer)) } else { Ok(()) }
    }

    fn wake(&mut self, transfer: TransferId) {
        let value = self.transfers.get(&(Side::Source, transfer)).and_then(|push| push.value.clone());
        self.effects.push(TransferEffect::Wake(transfer, value));
    }

    /// Records that the target is ready. If nothing will be sent, the target has to be notified of that.
    fn ready(&mut self, target: PeerId, transfer: TransferId, offer: Offer) -> Result<()> {
        let bytes = offer.bytes();
        let push = self.pushed(transfer)?;
        match push.state {
            TransferState::Announced => {
                push.state = TransferState::Ready(offer);
                self.handles_bytes += bytes;
            }
            TransferState::Abandoned => {
                self.remove(Side::Source, transfer);
                self.effects.push(TransferEffect::Abandon(target, transfer));
            }
            TransferState::Failed(_) => self.effects.push(TransferEffect::Abandon(target, transfer)),
            _ => return Err(twice(transfer)),
        }
        Ok(())
    }

    /// Records that the bytes of a transfer have landed.
    fn landed(&mut self, transfer: TransferId) -> Result<()> {
        self.ended_there(transfer, TransferState::Landed, |_| true)
    }

    /// Records that the bytes were requested, and did not land.
    fn failed(&mut self, transfer: TransferId, error: Error) -> Result<()> {
        // The push may have ended before, by the loss of its target.
        let is_early = |state: &TransferState| matches!(state, TransferState::Announced | TransferState::Abandoned);
        self.ended_there(transfer, TransferState::Failed(error), is_early)
    }

    /// Records the end of a push whose bytes were requested. `is_early`: whether the target may not end it in this state.
    fn ended_there(
        &mut self,
        transfer: TransferId,
        end: TransferState,
        is_early: impl Fn(&TransferState) -> bool,
    ) -> Result<()> {
        // A push given up midway is forgotten: the target's message may have crossed the abort.
        let Some(push) = self.transfers.get_mut(&(Side::Source, transfer)) else { return Ok(()) };
        match &push.state {
            TransferState::Ready(offer) => self.handles_bytes -= offer.bytes(),
            TransferState::Moving => {}
            state if is_early(state) => return Err(unknown(transfer)),
            _ => return Ok(()),
        }
        push.state = end;
        Ok(())
    }

    /// Records that the target can't take the transfer. The message replaces `ready`, and may arrive before the program's
    /// push.
    fn refused(&mut self, transfer: TransferId, error: Error) -> Result<()> {
        let push = self.pushed(transfer)?;
        match push.state {
            TransferState::Abandoned => drop(self.remove(Side::Source, transfer)),
            TransferState::Landed | TransferState::Failed(_) => {}
            TransferState::Announced => push.state = TransferState::Failed(error),
            _ => return Err(twice(transfer)),
        }
        Ok(())
    }

    /// Ends the pushes to a peer's lane and to its earlier ones with `error`, and fails later ones at once.
    pub fn push_lost(&mut self, peer: PeerId, error: &Error) {
        let known = self.lost.entry(peer.process()).or_insert_with(|| (peer.lane(), error.clone()));
        if known.0 < peer.lane() {
            *known = (peer.lane(), error.clone());
        }
        let ends = self.transfers.iter().filter(|((side, _), push)| *side == Side::Source && push.is_up_to(peer));
        let ends: Vec<_> = ends.map(|((_, transfer), _)| *transfer).collect();
        for transfer in ends {
            if self.fail_push(transfer, error) {
                self.wake(transfer);
            }
        }
        self.report();
    }

    /// Fails a push of a lost peer. Returns whether it was in progress.
    fn fail_push(&mut self, transfer: TransferId, error: &Error) -> bool {
        let Some(push) = self.transfers.get_mut(&(Side::Source, transfer)) else { return false };
        match &push.state {
            TransferState::Abandoned => {
                self.remove(Side::Source, transfer);
                return false;
            }
            TransferState::Ready(offer) => self.handles_bytes -= offer.bytes(),
            TransferState::Announced | TransferState::Moving => {}
            _ => return false,
        }
        push.state = TransferState::Failed(error.clone());
        true
    }

    /// Returns a push that the program or its target has announced, or adds it.
    fn pushed(&mut self, transfer: TransferId) -> Result<&mut Transfer<T>> {
        match self.transfers.entry((Side::Source, transfer)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(_) if self.pushes.open >= TRANSFERS_MAX => Err(too_many()),
            Entry::Vacant(place) => {
                self.pushes.open += 1;
                let state = TransferState::Announced;
                Ok(place.insert(Transfer { peer: None, state, value: None }))
            }
        }
    }
}
