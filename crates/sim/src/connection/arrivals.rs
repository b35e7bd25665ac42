//! What an executor takes from another one: as `crates/executor/src/arrivals.rs` and the target's side of an `Exchange`.

use super::actor::{Actor, Block, Happening};
use super::frames::Frame;
use super::peer_link::{Control, Destination, Incoming, Taken};
use super::streams::{Notice, Work};
use super::world::World;
use accord_executor::executor::Landing;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{Answer, TRANSFERS_MAX};
use accord_types::{Result, TransferId};

impl World {
    /// The program announces a transfer.
    pub(super) fn expect(
        &mut self,
        transfer: TransferId,
        from: PeerId,
        len: u64,
        place: Result<Landing>,
    ) -> Result<()> {
        self.executor.expects.expect(transfer, from)?;
        if self.executor.expects.len() > TRANSFERS_MAX {
            self.violation("more transfers are expected than there may be".to_owned());
        }
        match place {
            Ok(Landing { device, dst, after }) => {
                self.executor.destinations.insert(transfer, Destination { device, dst, len });
                match after {
                    Some((stream, seq)) => self.notify(device, stream, seq, Notice::Due(transfer)),
                    None => self.due(transfer, Ok(())),
                }
            }
            Err(error) => self.due(transfer, Err(error)),
        }
        Ok(())
    }

    /// What stood before a transfer is done, or failed.
    pub(super) fn due(&mut self, transfer: TransferId, outcome: Result<()>) {
        let answer = self.executor.expects.due(transfer, outcome);
        if let Some((peer, answer)) = answer
            && let Some(from) = self.connection_to(peer)
        {
            self.answer(from, answer);
        }
    }

    pub(super) fn answer(&mut self, from: usize, answer: Answer) {
        let message = match answer {
            Answer::Ready(transfer) => Control::Ready(transfer),
            Answer::Refused(transfer, _) => Control::Refused(transfer),
        };
        self.tell_pusher(from, message);
    }

    fn tell_pusher(&mut self, from: usize, message: Control) {
        let (at, now) = (self.at, self.queue.now());
        let Some(link) = self.links.get_mut(&(from, at)).filter(|link| !link.cut) else { return };
        let arrives = link.control.put(&mut self.random, now, message, 1);
        self.queue.add(arrives, (from, Happening::Arrive(Block::PeerControl(at))));
    }

    /// This executor sees that another one can't push any more.
    pub(super) fn peer_lost(&mut self, from: usize) {
        let peer = self.peer(from);
        for transfer in self.executor.expects.lost(peer) {
            self.executor.destinations.remove(&transfer);
        }
        self.unblock(Block::PeerBytes(from));
    }

    /// One step of the reader of what another executor pushes.
    pub(super) fn run_peer_bytes(&mut self, from: usize) {
        let (at, now, peer) = (self.at, self.queue.now(), self.peer(from));
        let wait = |world: &mut Self| world.block(Actor::PeerBytes(from), Block::PeerBytes(from));
        let Some(link) = self.links.get_mut(&(from, at)) else { return };
        match link.taken {
            Some(Taken::ByStream) => return wait(self),
            Some(Taken::Wasted(transfer)) => {
                let Some(chunk) = link.bytes.take(now) else { return wait(self) };
                if chunk.transfer != transfer {
                    return self.violation(format!("bytes of {} come within {transfer}", chunk.transfer));
                }
                if chunk.last {
                    link.taken = None;
                }
                self.on(from, |world| world.unblock(Block::PeerLane));
                return self.schedule(Actor::PeerBytes(from));
            }
            None => {}
        }
        let Some(chunk) = link.bytes.front(now) else { return wait(self) };
        let (transfer, abort) = (chunk.transfer, chunk.abort);
        if let Err(error) = self.executor.expects.begin(transfer, peer) {
            return self.violation(format!("{transfer} begins unasked: {error:?}"));
        }
        let destination = self.executor.destinations.remove(&transfer);
        if abort {
            self.executor.expects.end(transfer);
            self.take_lane(from, Some(Taken::Wasted(transfer)));
            return self.schedule(Actor::PeerBytes(from));
        }
        let Some(Destination { device, dst, len }) = destination else {
            return self.violation(format!("{transfer} has no place"));
        };
        if let Some(place) = self.executor.devices.0.get_mut(&device) {
            let number = place.incoming();
            let incoming = Incoming {
                dst: super::executor::at(dst),
                len: super::executor::size(len),
                transfer,
                from,
                bytes: Vec::new(),
            };
            place.streams[number].put(Work::Incoming(incoming));
            self.take_lane(from, Some(Taken::ByStream));
            let stream = Actor::Stream(device, number);
            if self.tasks.contains_key(&stream) {
                self.schedule(stream);
            } else {
                self.begin(stream, Frame::Stream);
            }
            return self.schedule(Actor::PeerBytes(from));
        }
        // The device is gone.
        self.take_lane(from, Some(Taken::Wasted(transfer)));
        self.arrived(from, transfer, false);
        self.schedule(Actor::PeerBytes(from));
    }

    fn take_lane(&mut self, from: usize, taken: Option<Taken>) {
        let key = (from, self.at);
        if let Some(link) = self.links.get_mut(&key) {
            link.taken = taken;
        }
        self.unblock(Block::PeerBytes(from));
    }

    /// A transfer is where it belongs, or never will be.
    fn arrived(&mut self, from: usize, transfer: TransferId, landed: bool) {
        if self.executor.expects.end(transfer) {
            let message = if landed { Control::Landed(transfer) } else { Control::Refused(transfer) };
            self.tell_pusher(from, message);
        }
    }

    /// One step of a transfer that comes in. It is done also if its bytes never come: the stream takes those of others, too.
    pub(super) fn incoming_step(&mut self, device: u32, incoming: &mut Incoming) -> bool {
        let (key, now) = ((incoming.from, self.at), self.queue.now());
        let (mut ended, mut taken) = (self.links[&key].cut, false);
        while !ended && incoming.bytes.len() < incoming.len {
            let chunk = self.links.get_mut(&key).and_then(|link| link.bytes.take(now));
            let Some(chunk) = chunk else { break };
            taken = true;
            if chunk.transfer != incoming.transfer {
                self.violation(format!("bytes of {} come within {}", chunk.transfer, incoming.transfer));
            }
            ended = chunk.abort;
            incoming.bytes.extend(chunk.bytes);
        }
        if taken {
            self.on(incoming.from, |world| world.unblock(Block::PeerLane));
        }
        let whole = incoming.bytes.len() == incoming.len;
        if !whole && !ended {
            return false;
        }
        if whole && let Some(place) = self.executor.devices.0.get_mut(&device) {
            place.memory[incoming.dst..][..incoming.len].copy_from_slice(&incoming.bytes);
        }
        self.take_lane(incoming.from, None);
        self.arrived(incoming.from, incoming.transfer, whole);
        true
    }

    /// The device of a transfer that comes in is gone.
    pub(super) fn drop_incoming(&mut self, incoming: &Incoming) {
        let wasted = incoming.bytes.len() < incoming.len;
        self.take_lane(incoming.from, wasted.then_some(Taken::Wasted(incoming.transfer)));
        self.arrived(incoming.from, incoming.transfer, false);
    }
}
