//! Who waits for whom in a copy between two devices: decisions only, no I/O.
//!
//! A transfer is pushed by one peer and expected by another; the program told each on a link of
//! its own, and the two talk on a third. So everything may come in any order:
//!
//! ```text
//!   pusher                                target
//!   push ──┐ (from the program)           expect ──┐ (from the program)
//!   …stream gets there                    …what stood before it is done
//!          │ <────────── ready ─────────────────── │
//!          │ ──────────── bytes ─────────────────> │ copy, in the incoming stream
//!          │ <────────── landed ────────────────── │
//! ```
//!
//! No byte is sent before `ready`, and `ready` is only said once the target has processed the
//! program's `expect`: that is what keeps the copy behind everything that the program asked of the
//! target before, however late the links are.

use crate::peer::PeerId;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::collections::HashMap;

/// Most transfers in each table: what a peer can make us remember.
pub const TRANSFERS_MAX: usize = 1 << 16;

/// The pusher's side.
#[derive(Default)]
pub(super) struct Pushes {
    table: HashMap<TransferId, Push>,
    over: u32,
}

struct Push {
    /// None until the program's command has come.
    to: Option<PeerId>,
    state: PushState,
}

#[derive(Clone, PartialEq, Eq)]
enum PushState {
    Waiting,
    Ready,
    /// The stream failed before it got there; the target has to be told once it is ready.
    Abandoned,
    Ended(Result<()>),
}

/// What a push has to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushStep {
    /// Nothing yet.
    Wait,
    /// Send the bytes, or the remaining ones.
    Send,
    /// All is over.
    End(Result<()>),
}

impl Pushes {
    /// The program asked for a push.
    ///
    /// # Errors
    /// When the transfer is known already, or there are too many.
    pub(super) fn push(&mut self, transfer: TransferId, to: PeerId) -> Result<()> {
        self.admit(transfer)?;
        let push = self.table.entry(transfer).or_insert(Push { to: None, state: PushState::Waiting });
        if push.to.replace(to).is_some() {
            return Err(twice(transfer));
        }
        Ok(())
    }

    /// What `transfer` has to do next.
    pub(super) fn step(&self, transfer: TransferId) -> PushStep {
        match self.table.get(&transfer).map(|push| &push.state) {
            Some(PushState::Waiting | PushState::Abandoned) => PushStep::Wait,
            Some(PushState::Ready) => PushStep::Send,
            Some(PushState::Ended(result)) => PushStep::End(result.clone()),
            None => PushStep::End(Err(unknown(transfer))),
        }
    }

    /// The target said ready. True if it has to be told that nothing will come.
    ///
    /// # Errors
    /// When it said so before, or there are too many.
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

    /// The target said that the bytes have landed.
    ///
    /// # Errors
    /// When they were never asked for.
    pub(super) fn landed(&mut self, transfer: TransferId) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(push) if push.state == PushState::Ready => {
                push.state = PushState::Ended(Ok(()));
                Ok(())
            }
            Some(_) => Err(unknown(transfer)),
            // It was abandoned in the middle: the target's message may have crossed ours.
            None => Ok(()),
        }
    }

    /// The target can't take it: said instead of ready, maybe before the program has said that it is to go there.
    ///
    /// # Errors
    /// When there are too many.
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

    /// The target has let the bytes come, and they have not landed.
    ///
    /// # Errors
    /// When they were never asked for.
    pub(super) fn failed(&mut self, transfer: TransferId, error: Error) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(push) if push.state == PushState::Ready => push.state = PushState::Ended(Err(error)),
            Some(push) if !matches!(push.state, PushState::Ended(_)) => return Err(unknown(transfer)),
            // It was lost, or abandoned in the middle: there was nothing to land.
            _ => {}
        }
        Ok(())
    }

    /// The pusher is done with it: it has ended, or its stream has failed. True if the target has to be
    /// told now that nothing will come.
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

    /// The lane to a peer is gone, and those before it: what was pushed to it ends. Returns what has not ended before.
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

    /// To whom a transfer goes, if the program has said so.
    pub(super) fn target(&self, transfer: TransferId) -> Option<PeerId> {
        self.table.get(&transfer)?.to
    }

    /// Pushes that were forgotten: all have been asked for.
    pub(super) fn over(&self) -> u32 {
        self.over
    }

    /// As [`Pushes::over`], and counts from 0 again.
    pub(super) fn take_over(&mut self) -> u32 {
        std::mem::take(&mut self.over)
    }

    /// All that are remembered.
    pub(super) fn transfers(&self) -> impl Iterator<Item = TransferId> + '_ {
        self.table.keys().copied()
    }

    /// Number of transfers that are remembered.
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
    /// Peers with a lane to us.
    present: Vec<PeerId>,
    /// The last lanes on which nothing comes any more, by process, for [`TRANSFERS_MAX`] of them.
    last_lost: HashMap<PeerId, u32>,
    over: u32,
}

struct Expect {
    from: PeerId,
    state: ExpectState,
}

#[derive(Clone, PartialEq, Eq)]
enum ExpectState {
    /// What stood before it on the target is not done yet.
    Early,
    /// It may come, but the pusher has no lane to us yet.
    Due,
    /// It can't be taken, and the pusher has no lane to us yet.
    Doomed(Error),
    /// The pusher was told.
    Answered,
    /// Bytes come or have come.
    Coming,
}

/// What the target answers a pusher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// The bytes may come.
    Ready(TransferId),
    /// They can't be taken.
    Refused(TransferId, Error),
}

impl Expects {
    /// Whether nothing is taken any more from the lane of a peer: it has come to its end, or a later one has come.
    pub(super) fn is_over(&self, peer: PeerId) -> bool {
        self.last_lost.get(&peer.process()).is_some_and(|last| peer.lane() <= *last)
    }

    /// The program announced a transfer. False if it is over already: its pusher knows, and tells the program.
    ///
    /// # Errors
    /// When it is known already, or there are too many.
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

    /// What stood before it on the target is done, or failed. Returns the answer to its pusher.
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

    /// A peer has a lane to us now. Returns the answers to it.
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

    /// The first bytes of a transfer, or the message that none will come, are here.
    ///
    /// # Errors
    /// When the peer was not told that they may come.
    pub(super) fn begin(&mut self, transfer: TransferId, from: PeerId) -> Result<()> {
        match self.table.get_mut(&transfer) {
            Some(expect) if expect.from == from && expect.state == ExpectState::Answered => {
                expect.state = ExpectState::Coming;
                Ok(())
            }
            _ => Err(unknown(transfer)),
        }
    }

    /// The bytes have landed or never will. True if the pusher should be told.
    pub(super) fn end(&mut self, transfer: TransferId) -> bool {
        let Some(expect) = self.table.remove(&transfer) else { return false };
        self.over += 1;
        self.present.contains(&expect.from)
    }

    /// A peer is gone, and the lanes that it has had before. Returns its transfers of which nothing has come; they are forgotten.
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

    /// Transfers that were forgotten.
    pub(super) fn over(&self) -> u32 {
        self.over
    }

    /// As [`Expects::over`], and counts from 0 again.
    pub(super) fn take_over(&mut self) -> u32 {
        std::mem::take(&mut self.over)
    }

    /// Number of transfers that are remembered.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Whether a peer is another one, or the same process on an earlier lane.
fn is_up_to(peer: PeerId, last: PeerId) -> bool {
    peer.process() == last.process() && peer.lane() <= last.lane()
}

/// At most [`TRANSFERS_MAX`] have gone.
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
