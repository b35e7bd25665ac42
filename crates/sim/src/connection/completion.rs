//! Writes the bytes of copies out into the program's memory.

use super::actor::{Actor, Block};
use super::frames::Frame;
use super::world::{Task, World};
use accord_client::connection::{AwaitedEvent, Completion, Piece, StorableCopy, StoreDecision, pieces};
use accord_client::pages::Writable;
use accord_types::{HostRange, TransferId};

impl World {
    /// Runs one step of a completion: begin, first half, second half.
    pub(super) fn land(
        &mut self,
        actor: Actor,
        task: &mut Task,
        transfer: TransferId,
        bytes: Vec<u8>,
        begun: Option<StorableCopy>,
        half: bool,
    ) {
        let Some(begun) = begun else {
            match self.machine.begin(transfer) {
                StoreDecision::Cancelled => self.back(actor, task),
                StoreDecision::Now(begun) => {
                    let land = Frame::Land { transfer, bytes, begun: Some(begun), half: false };
                    self.after(actor, task, land, None);
                }
                StoreDecision::After(before) => {
                    let id = self.machine.wait(AwaitedEvent::Landed(before), actor);
                    self.act();
                    let land = Frame::Land { transfer, bytes, begun: None, half: false };
                    self.after(actor, task, land, Some(Frame::Wait(id)));
                }
            }
            return;
        };
        let StorableCopy { dst, completion, leave } = begun;
        let outcome = match completion {
            Completion::Write => return self.land_written(actor, task, transfer, bytes, (dst, leave), half),
            _ if bytes.is_empty() => Ok(()),
            Completion::Changed(changed) if bytes.len() == changed.size() => {
                let mut written = Vec::new();
                let write = |dst: HostRange, bytes: &[u8]| {
                    let pieces = pieces(dst, &leave).into_iter().filter(|piece| piece.write);
                    written
                        .extend(pieces.map(|Piece { range, .. }| {
                            (range, bytes[range.start - dst.start..][..range.len].to_vec())
                        }));
                };
                let landed = changed.land_where(|_| Ok(Writable::Yes), &bytes, write);
                written.into_iter().for_each(|(range, bytes)| self.write_host(range, &bytes));
                landed
            }
            Completion::Compare(mut unchanged) if bytes.len() == dst.len => {
                unchanged.compare_with(self.host(dst), &bytes)
            }
            _ => return self.violation(format!("{transfer} has {} bytes", bytes.len())),
        };
        self.machine.landed(transfer, outcome);
        self.act();
        self.back(actor, task);
    }

    /// Runs one step of a completion that writes unconditionally.
    fn land_written(
        &mut self,
        actor: Actor,
        task: &mut Task,
        transfer: TransferId,
        bytes: Vec<u8>,
        (dst, leave): (HostRange, Vec<HostRange>),
        half: bool,
    ) {
        let begun = StorableCopy { dst, completion: Completion::Write, leave };
        // The sender has given up a transfer without bytes.
        if !bytes.is_empty() {
            if bytes.len() != begun.dst.len {
                return self.violation(format!("{transfer} has {} bytes for {}", bytes.len(), begun.dst.len));
            }
            let middle = begun.dst.start + begun.dst.len / 2;
            for piece in pieces(begun.dst, &begun.leave).iter().filter(|piece| piece.write) {
                let (start, end) = (piece.range.start, piece.range.start + piece.range.len);
                let (start, end) = if half { (start.max(middle), end) } else { (start, end.min(middle)) };
                if start < end {
                    let from = &bytes[start - begun.dst.start..end - begun.dst.start];
                    self.write_host(HostRange { start, len: end - start }, from);
                }
            }
            if !half {
                let land = Frame::Land { transfer, bytes, begun: Some(begun), half: true };
                return self.after(actor, task, land, None);
            }
        }
        self.machine.landed(transfer, Ok(()));
        self.act();
        self.back(actor, task);
    }

    /// Receives the next transfer on a bulk lane.
    pub(super) fn bulk(&mut self, actor: Actor, task: &mut Task, lane: usize) {
        if self.from[lane].front(self.queue.now()).is_some() {
            return self.after(actor, task, Frame::BulkRead { lane, bytes: Vec::new() }, None);
        }
        if self.cut {
            return self.lose("the executor closed the connection");
        }
        task.stack.push(Frame::Bulk(lane));
        self.block(actor, Block::From(lane));
    }

    /// Receives a transfer and keeps its bytes until all have arrived. Writing them earlier would test no more.
    pub(super) fn bulk_read(&mut self, actor: Actor, task: &mut Task, lane: usize, mut bytes: Vec<u8>) {
        let now = self.queue.now();
        let Some(chunk) = self.from[lane].take(now) else {
            if self.cut {
                return self.lose("the executor closed the connection");
            }
            task.stack.push(Frame::BulkRead { lane, bytes });
            return self.block(actor, Block::From(lane));
        };
        self.unblock(Block::FromRoom);
        bytes.extend(&chunk.bytes);
        if !chunk.last {
            return self.after(actor, task, Frame::BulkRead { lane, bytes }, None);
        }
        if chunk.bytes.is_empty() {
            bytes.clear();
        }
        let land = Frame::Land { transfer: chunk.transfer, bytes, begun: None, half: false };
        self.after(actor, task, Frame::Bulk(lane), Some(land));
    }
}
