//! Transfers at their target.

use super::record::{Offer, Side, TRANSFERS_MAX, Transfer, TransferState, too_many, twice, unknown};
use super::{TransferEffect, TransferTable};
use crate::peer::PeerId;
use crate::transfer::control::ControlMessage;
use accord_types::{Error, Result, TransferId};

impl<T: Clone> TransferTable<T> {
    /// Records a transfer that the program has announced, and its destination. An error as destination refuses the source.
    /// Otherwise the transfer waits for [`TransferTable::due`].
    ///
    /// # Errors
    /// Returns an error if the transfer is already expected, too many are expected, or the table is closed.
    pub fn expect(&mut self, transfer: TransferId, from: PeerId, place: Result<T>) -> Result<()> {
        match self.check().and_then(|()| self.is_wanted(transfer, from)) {
            Ok(true) => {}
            unwanted => {
                self.effects.extend(place.ok().map(TransferEffect::Drop));
                self.report();
                return unwanted.map(|_| ());
            }
        }
        let (state, value) = match place {
            Ok(value) => (TransferState::Announced, Some(value)),
            Err(error) => (TransferState::Refused(error), None),
        };
        self.expects.open += 1;
        self.transfers.insert((Side::Target, transfer), Transfer { peer: Some(from), state, value });
        self.answer_present(transfer);
        self.report();
        Ok(())
    }

    /// Whether a transfer will take place. Otherwise it is over already: its source knows, and notifies the program.
    fn is_wanted(&mut self, transfer: TransferId, from: PeerId) -> Result<bool> {
        if self.expects.open >= TRANSFERS_MAX {
            return Err(too_many());
        }
        if self.is_over(from) {
            self.expects.over += 1;
            return Ok(false);
        }
        if self.transfers.contains_key(&(Side::Target, transfer)) {
            return Err(twice(transfer));
        }
        Ok(true)
    }

    /// Records that all work ahead of a transfer on its target is done, or has failed.
    pub fn due(&mut self, transfer: TransferId, outcome: Result<()>) {
        if let Some(expect) = self.transfers.get_mut(&(Side::Target, transfer))
            && expect.state == TransferState::Announced
        {
            expect.state = match outcome {
                Ok(()) => TransferState::Due,
                Err(error) => TransferState::Refused(error),
            };
            self.answer_present(transfer);
        }
        self.report();
    }

    /// Answers the source of a transfer if it has a lane to this process.
    fn answer_present(&mut self, transfer: TransferId) {
        let from = self.transfers.get(&(Side::Target, transfer)).and_then(|expect| expect.peer);
        if let Some(from) = from.filter(|from| self.present.contains(from)) {
            self.answer(transfer, from);
        }
    }

    /// Whether the lane of a peer is no longer read: it has ended, or a later one has connected.
    pub fn is_over(&self, peer: PeerId) -> bool {
        self.last_lost.get(&peer.process()).is_some_and(|last| peer.lane() <= *last)
    }

    /// Records that a peer has connected and may push. It has given up its earlier lanes.
    pub fn arrived(&mut self, peer: PeerId) {
        if let Some(before) = peer.lane().checked_sub(1) {
            self.peer_lost(peer.on_lane(before));
        }
        if !self.present.contains(&peer) {
            self.present.push(peer);
        }
        let waiting = self.transfers.iter();
        let waiting = waiting.filter(|((side, _), expect)| (*side, expect.peer) == (Side::Target, Some(peer)));
        let mut waiting: Vec<_> = waiting.map(|((_, transfer), _)| *transfer).collect();
        waiting.sort_unstable();
        waiting.into_iter().for_each(|transfer| self.answer(transfer, peer));
        self.report();
    }

    /// Answers the source of a transfer, which has a lane to this process.
    fn answer(&mut self, transfer: TransferId, peer: PeerId) {
        let Some(expect) = self.transfers.get_mut(&(Side::Target, transfer)) else { return };
        match &expect.state {
            TransferState::Due => {
                expect.state = TransferState::Ready(Offer::Lane);
                let ready = expect.value.take().map(|value| TransferEffect::Ready { peer, transfer, value });
                self.effects.extend(ready);
            }
            TransferState::Refused(error) => {
                let refused = ControlMessage::Refused(transfer, error.clone());
                self.effects.push(TransferEffect::Tell(peer, refused));
                let value = self.remove(Side::Target, transfer).and_then(|expect| expect.value);
                self.effects.extend(value.map(TransferEffect::Drop));
            }
            _ => {}
        }
    }

    /// Keeps a value with a transfer whose bytes may be sent. Returns the value if the transfer has begun, or is over.
    pub fn keep(&mut self, transfer: TransferId, value: T) -> Option<T> {
        match self.transfers.get_mut(&(Side::Target, transfer)) {
            Some(Transfer { state: TransferState::Ready(_), value: kept, .. }) => kept.replace(value),
            _ => Some(value),
        }
    }

    /// Records that the first bytes of a transfer have arrived, or with `aborted` the message that none will. Returns the value of
    /// [`TransferTable::keep`]. Unless it is aborted, the caller receives the bytes and then calls [`TransferTable::ended`].
    ///
    /// # Errors
    /// Returns an error if the peer was not allowed to send them.
    pub fn begin(&mut self, transfer: TransferId, from: PeerId, aborted: bool) -> Result<Option<T>> {
        let is_ready =
            |expect: &&mut Transfer<T>| expect.peer == Some(from) && matches!(expect.state, TransferState::Ready(_));
        let expect = self.transfers.get_mut(&(Side::Target, transfer)).filter(is_ready);
        let expect = expect.ok_or_else(|| unknown(transfer))?;
        expect.state = TransferState::Moving;
        let value = expect.value.take();
        if aborted {
            self.remove(Side::Target, transfer);
            self.report();
        }
        Ok(value)
    }

    /// Records that bytes of a transfer did not arrive. The device still ends the copy.
    pub fn bytes_lost(&mut self, transfer: TransferId, error: Error) {
        if let Some(expect) = self.transfers.get_mut(&(Side::Target, transfer))
            && expect.state == TransferState::Moving
        {
            expect.state = TransferState::Failed(error);
        }
    }

    /// Records that the device has ended a copy: the bytes have landed, unless they [did not arrive](TransferTable::bytes_lost).
    pub fn ended(&mut self, transfer: TransferId, from: PeerId, outcome: Result<()>) {
        if let Some((expect, is_present)) = self.end_expected(transfer)
            && is_present
        {
            let message = match (expect.state, outcome) {
                (TransferState::Failed(error), _) | (_, Err(error)) => ControlMessage::Failed(transfer, error),
                (_, Ok(())) => ControlMessage::Landed(transfer),
            };
            self.effects.push(TransferEffect::Tell(from, message));
        }
        self.report();
    }

    /// Records that the bytes of a transfer have landed, as the source already knows.
    pub fn landed_unsaid(&mut self, transfer: TransferId) {
        self.end_expected(transfer);
        self.report();
    }

    /// Removes an expected transfer. Returns it, and whether its source has a lane to this process.
    fn end_expected(&mut self, transfer: TransferId) -> Option<(Transfer<T>, bool)> {
        let expect = self.remove(Side::Target, transfer)?;
        let is_present = expect.peer.is_some_and(|from| self.present.contains(&from));
        Some((expect, is_present))
    }

    /// Drops the expected transfers of a peer on its lane and its earlier ones, of which no byte has arrived.
    pub fn peer_lost(&mut self, peer: PeerId) {
        self.present.retain(|present| present.process() != peer.process() || present.lane() > peer.lane());
        if self.last_lost.len() < TRANSFERS_MAX || self.last_lost.contains_key(&peer.process()) {
            let last = self.last_lost.entry(peer.process()).or_default();
            *last = peer.lane().max(*last);
        }
        let has_begun = |state: &TransferState| matches!(state, TransferState::Moving | TransferState::Failed(_));
        let lost = self
            .transfers
            .iter()
            .filter(|((side, _), expect)| *side == Side::Target && expect.is_up_to(peer) && !has_begun(&expect.state));
        let lost: Vec<_> = lost.map(|((_, transfer), _)| *transfer).collect();
        let mut reported = Vec::new();
        for transfer in lost {
            match self.remove(Side::Target, transfer) {
                Some(Transfer { state: TransferState::Ready(_), value, .. }) => reported.push((transfer, value)),
                Some(Transfer { value: Some(value), .. }) => self.effects.push(TransferEffect::Drop(value)),
                _ => {}
            }
        }
        self.effects.push(TransferEffect::Gone(peer, reported));
        self.report();
    }
}
