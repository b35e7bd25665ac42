//! The states of a copy between two devices, at its pusher and its target. Decisions without I/O.
//!
//! A transfer is pushed by one peer and expected by another. The program notifies each on its own link, and the two
//! communicate on a third. So events may arrive in any order:
//!
//! ```text
//!   pusher                                target
//!   push ──┐ (from the program)           expect ──┐ (from the program)
//!   …stream gets there                    …all work ahead of it is done
//!          │ <────────── ready ─────────────────── │
//!          │ ──────────── bytes ─────────────────> │ copy, in the incoming stream
//!          │ <────────── landed ────────────────── │
//! ```
//!
//! No byte is sent before `ready`, and `ready` is sent only once the target has processed the program's `expect`. So
//! the copy stays ordered after all earlier work of the program on the target, however late the links are.

use crate::peer::PeerId;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::collections::HashMap;

/// Most transfers in each table, which bounds what a peer can allocate here.
pub const TRANSFERS_MAX: usize = 1 << 16;

/// The pusher's side.
#[derive(Default)]
pub(super) struct Pushes {
    table: HashMap<TransferId, Push>,
    over: u32,
}

struct Push {
    /// `None` until the program's command has arrived.
    to: Option<PeerId>,
    state: PushState,
}

#[derive(Clone, PartialEq, Eq)]
enum PushState {
    Waiting,
    Ready,
    /// The stream failed before the push. The target is notified once it is ready.
    Abandoned,
    Ended(Result<()>),
}

/// The next step of a push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushStep {
    /// Wait for an event.
    Wait,
    /// Send the bytes, or the remaining ones.
    Send,
    /// End with this outcome.
    End(Result<()>),
}

impl Pushes {
    /// Records a push that the program has issued.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, or too many are.
    pub(super) fn push(&mut self, transfer: TransferId, to: PeerId) -> Result<()> {
        self.admit(transfer)?;
        let push = self.table.entry(transfer).or_insert(Push { to: None, state: PushState::Waiting });
        if push.to.replace(to).is_some() {
            return Err(twice(transfer));
        }
        Ok(())
    }

    /// Returns what `transfer` has to do next.
    pub(super) fn step(&self, transfer: TransferId) -> PushStep {
        match self.table.get(&transfer).map(|push| &push.state) {
            Some(PushState::Waiting | PushState::Abandoned) => PushStep::Wait,
            Some(PushState::Ready) => PushStep::Send,
            Some(PushState::Ended(result)) => PushStep::End(result.clone()),
            None => PushStep::End(Err(unknown(transfer))),
        }
    }

    /// Records that the target is ready. Returns `true` if it has to be notified that nothing will be sent.
    ///
    /// # Errors
    /// Returns an error if the target was ready before, or there are too many transfers.
    pub(super) fn ready(&mut self, transfer: TransferId) -> Result<bool> {
        self.admit(transfer)?;
        let push = self.table.entry(transfer).or_insert(Push { to: None, state: PushState::Waiting });
        match push.state {
            PushState::Waiting => {
                push.state = PushState::Ready;
                Ok(false)
            }
            PushState::Abandoned => {
                self.forget(transfer);
                Ok(true)
            }
            PushState::Ended(Err(_)) => Ok(true),
            PushState::Ready | PushState::Ended(Ok(())) => Err(twice(transfer)),
        }
    }

    /// Records that the bytes of a transfer have landed.
    ///
    /// # Errors
    /// Returns an error if the bytes were never requested.
    pub(super) fn landed(&mut self, transfer: TransferId) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(push) if push.state == PushState::Ready => {
                push.state = PushState::Ended(Ok(()));
                Ok(())
            }
            Some(_) => Err(unknown(transfer)),
            // The push was abandoned midway: the target's message may have crossed the abort.
            None => Ok(()),
        }
    }

    /// Records that the target can't take the transfer. The message replaces `ready`, and may arrive before the program's
    /// push.
    ///
    /// # Errors
    /// Returns an error if there are too many transfers, or the target was ready before.
    pub(super) fn refused(&mut self, transfer: TransferId, error: Error) -> Result<()> {
        self.admit(transfer)?;
        let push = self.table.entry(transfer).or_insert(Push { to: None, state: PushState::Waiting });
        match push.state {
            PushState::Abandoned => self.forget(transfer),
            PushState::Ended(_) => {}
            PushState::Waiting => push.state = PushState::Ended(Err(error)),
            PushState::Ready => return Err(twice(transfer)),
        }
        Ok(())
    }

    /// Records that the bytes were requested, and did not land.
    ///
    /// # Errors
    /// Returns an error if the bytes were never requested.
    pub(super) fn failed(&mut self, transfer: TransferId, error: Error) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(push) if push.state == PushState::Ready => push.state = PushState::Ended(Err(error)),
            Some(push) if !matches!(push.state, PushState::Ended(_)) => return Err(unknown(transfer)),
            // The push was lost, or abandoned midway.
            _ => {}
        }
        Ok(())
    }

    /// Records that the pusher is done: the push has ended, or its stream has failed. Returns `true` if the target has
    /// to be notified now that nothing will be sent.
    pub(super) fn finish(&mut self, transfer: TransferId) -> bool {
        let Some(push) = self.table.get_mut(&transfer) else { return false };
        match push.state {
            PushState::Waiting => {
                push.state = PushState::Abandoned;
                false
            }
            PushState::Abandoned => false,
            PushState::Ready => {
                self.forget(transfer);
                true
            }
            PushState::Ended(_) => {
                self.forget(transfer);
                false
            }
        }
    }

    /// Ends the pushes to a peer's lane and to its earlier ones. Returns those that were still in progress.
    pub(super) fn lost(&mut self, peer: PeerId, error: &Error) -> Vec<TransferId> {
        let (before, mut ended) = (self.table.len(), Vec::new());
        self.table.retain(|&transfer, push| {
            if !push.to.is_some_and(|to| is_up_to(to, peer)) {
                return true;
            }
            if matches!(push.state, PushState::Waiting | PushState::Ready) {
                push.state = PushState::Ended(Err(error.clone()));
                ended.push(transfer);
            }
            push.state != PushState::Abandoned
        });
        self.over += gone(before, self.table.len());
        ended
    }

    fn forget(&mut self, transfer: TransferId) {
        self.table.remove(&transfer);
        self.over += 1;
    }

    /// Returns the target of a transfer, if the program has issued the push.
    pub(super) fn target(&self, transfer: TransferId) -> Option<PeerId> {
        self.table.get(&transfer)?.to
    }

    /// Returns the number of pushes that were removed.
    pub(super) fn over(&self) -> u32 {
        self.over
    }

    /// Returns the count of [`Pushes::over`] and resets it.
    pub(super) fn take_over(&mut self) -> u32 {
        std::mem::take(&mut self.over)
    }

    /// Returns all transfers that are tracked.
    pub(super) fn transfers(&self) -> impl Iterator<Item = TransferId> + '_ {
        self.table.keys().copied()
    }

    /// Returns the number of transfers that are tracked.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    fn admit(&self, transfer: TransferId) -> Result<()> {
        if self.table.len() >= TRANSFERS_MAX && !self.table.contains_key(&transfer) {
            return Err(too_many());
        }
        Ok(())
    }
}

/// The target's side.
#[derive(Default)]
pub(super) struct Expects {
    table: HashMap<TransferId, Expect>,
    /// Peers with a lane to this process.
    present: Vec<PeerId>,
    /// By process, the last lane that is no longer read, for at most [`TRANSFERS_MAX`] processes.
    last_lost: HashMap<PeerId, u32>,
    over: u32,
}

struct Expect {
    from: PeerId,
    state: ExpectState,
}

#[derive(Clone, PartialEq, Eq)]
enum ExpectState {
    /// Work ahead of the transfer on the target is not done yet.
    Early,
    /// The bytes may be sent, but the pusher has no lane to this process yet.
    Due,
    /// The target can't take the bytes, and the pusher has no lane to this process yet.
    Doomed(Error),
    /// The pusher was notified.
    Answered,
    /// Bytes have started to arrive.
    Coming,
}

/// The target's answer to a pusher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The bytes may be sent.
    Ready(TransferId),
    /// The target can't take the bytes.
    Refused(TransferId, Error),
}

impl Expects {
    /// Whether the lane of a peer is no longer read: it has ended, or a later one has connected.
    pub(super) fn is_over(&self, peer: PeerId) -> bool {
        self.last_lost.get(&peer.process()).is_some_and(|last| peer.lane() <= *last)
    }

    /// Records a transfer that the program has announced. Returns `false` if the transfer is over already: its pusher knows,
    /// and notifies the program.
    ///
    /// # Errors
    /// Returns an error if the transfer is already expected, or too many are.
    pub(super) fn expect(&mut self, transfer: TransferId, from: PeerId) -> Result<bool> {
        if self.table.len() >= TRANSFERS_MAX {
            return Err(too_many());
        }
        if self.is_over(from) {
            self.over += 1;
            return Ok(false);
        }
        match self.table.insert(transfer, Expect { from, state: ExpectState::Early }) {
            None => Ok(true),
            Some(_) => Err(twice(transfer)),
        }
    }

    /// Records that all work ahead of a transfer on its target is done, or has failed. Returns the answer to its pusher.
    pub(super) fn due(&mut self, transfer: TransferId, outcome: Result<()>) -> Option<(PeerId, Answer)> {
        let expect = self.table.get_mut(&transfer)?;
        if expect.state != ExpectState::Early {
            return None;
        }
        expect.state = match outcome {
            Ok(()) => ExpectState::Due,
            Err(error) => ExpectState::Doomed(error),
        };
        let from = expect.from;
        if self.present.contains(&from) { Some((from, self.answer(transfer)?)) } else { None }
    }

    /// Records that a peer has connected. Returns the answers to send to it.
    pub(super) fn arrived(&mut self, peer: PeerId) -> Vec<Answer> {
        if !self.present.contains(&peer) {
            self.present.push(peer);
        }
        let mut waiting: Vec<_> =
            self.table.iter().filter(|(_, expect)| expect.from == peer).map(|(&transfer, _)| transfer).collect();
        waiting.sort_unstable();
        waiting.into_iter().filter_map(|transfer| self.answer(transfer)).collect()
    }

    fn answer(&mut self, transfer: TransferId) -> Option<Answer> {
        let expect = self.table.get_mut(&transfer)?;
        match &expect.state {
            ExpectState::Due => {
                expect.state = ExpectState::Answered;
                Some(Answer::Ready(transfer))
            }
            ExpectState::Doomed(error) => {
                let answer = Answer::Refused(transfer, error.clone());
                self.table.remove(&transfer);
                self.over += 1;
                Some(answer)
            }
            _ => None,
        }
    }

    /// Records that the first bytes of a transfer have arrived, or the message that none will.
    ///
    /// # Errors
    /// Returns an error if the peer was not allowed to send them.
    pub(super) fn begin(&mut self, transfer: TransferId, from: PeerId) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(expect) if expect.from == from && expect.state == ExpectState::Answered => {
                expect.state = ExpectState::Coming;
                Ok(())
            }
            _ => Err(unknown(transfer)),
        }
    }

    /// Records that the bytes of a transfer have landed or never will. Returns `true` if the pusher should be notified.
    pub(super) fn end(&mut self, transfer: TransferId) -> bool {
        let Some(expect) = self.table.remove(&transfer) else { return false };
        self.over += 1;
        self.present.contains(&expect.from)
    }

    /// Removes a peer, on its lane and its earlier ones. Drops and returns its transfers of which no byte has arrived.
    pub(super) fn lost(&mut self, peer: PeerId) -> Vec<TransferId> {
        self.present.retain(|&present| !is_up_to(present, peer));
        if self.last_lost.len() < TRANSFERS_MAX || self.last_lost.contains_key(&peer.process()) {
            let last = self.last_lost.entry(peer.process()).or_default();
            *last = peer.lane().max(*last);
        }
        let mut lost = Vec::new();
        self.table.retain(|&transfer, expect| {
            let keep = !is_up_to(expect.from, peer) || expect.state == ExpectState::Coming;
            if !keep {
                lost.push(transfer);
            }
            keep
        });
        self.over += gone(lost.len(), 0);
        lost
    }

    /// Returns the number of transfers that were removed.
    pub(super) fn over(&self) -> u32 {
        self.over
    }

    /// Returns the count of [`Expects::over`] and resets it.
    pub(super) fn take_over(&mut self) -> u32 {
        std::mem::take(&mut self.over)
    }

    /// Returns the number of transfers that are tracked.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Whether `peer` is the process of `last`, on the same lane or an earlier one.
fn is_up_to(peer: PeerId, last: PeerId) -> bool {
    peer.process() == last.process() && peer.lane() <= last.lane()
}

/// Returns the number of removed transfers: at most [`TRANSFERS_MAX`].
fn gone(before: usize, after: usize) -> u32 {
    u32::try_from(before - after).unwrap_or(u32::MAX)
}

fn twice(transfer: TransferId) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("transfer {transfer} was announced twice"))
}

fn unknown(transfer: TransferId) -> Error {
    Error::new(ErrorCode::ImplementationDefined, format!("transfer {transfer} is not under way"))
}

fn too_many() -> Error {
    Error::new(
        ErrorCode::ImplementationDefined,
        format!("more than {TRANSFERS_MAX} copies between devices are under way"),
    )
}

#[cfg(test)]
mod losses;
#[cfg(test)]
pub(crate) mod simulation;
