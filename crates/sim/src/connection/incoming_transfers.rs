//! Transfers that an executor receives from another one. A `TransferTable` decides which may arrive, and which
//! messages their source receives. The rest is modelled on `crates/executor/src/incoming_transfers.rs`.

use super::actor::{Actor, Block, PeerLane, WorldEvent};
use super::frames::Frame;
use super::peer_link::{ByteUse, Destination, Incoming};
use super::streams::{Notice, Work};
use super::world::World;
use accord_executor::executor::CopyTarget;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::ControlMessage;
use accord_types::{Error, ErrorCode, Result, TransferId};

impl World {
    /// Announces a transfer, as the program does.
    pub(super) fn expect(
        &mut self,
        transfer: TransferId,
        from: PeerId,
        len: u64,
        place: Result<CopyTarget>,
    ) -> Result<()> {
        let expected = place.map(|CopyTarget { device, dst, after }| (Destination { device, dst, len }, after));
        let after = expected.as_ref().ok().map(|(Destination { device, .. }, after)| (*device, *after));
        self.executor.transfers.expect(transfer, from, expected.map(|(destination, _)| Some(destination)))?;
        self.act_for_exchange();
        match after {
            Some((device, Some((stream, seq)))) => self.notify(device, stream, seq, Notice::Due(transfer)),
            Some((_, None)) => self.due(transfer, Ok(())),
            None => {}
        }
        Ok(())
    }

    /// Notes that the operations before a transfer are done, or have failed.
    pub(super) fn due(&mut self, transfer: TransferId, outcome: Result<()>) {
        self.executor.transfers.due(transfer, outcome);
        self.act_for_exchange();
    }

    pub(super) fn notify_pusher(&mut self, from: PeerLane, message: ControlMessage) {
        let (now, key) = (self.queue.now(), self.other_end(from));
        let Some(link) = self.links.get_mut(&key).filter(|link| !link.cut) else { return };
        let arrives = link.control.put(&mut self.random, now, message, 1);
        let (pusher, lane) = key;
        self.queue.add(arrives, (pusher, WorldEvent::Arrive(Block::PeerControl(lane))));
    }

    /// Has this executor notice that another one can't push any more.
    pub(super) fn peer_lost(&mut self, from: PeerLane) {
        let peer = self.peer_on(from);
        self.executor.peers.leave(&from);
        self.executor.transfers.peer_lost(peer);
        self.act_for_exchange();
        self.unblock(Block::PeerBytes(from));
    }

    /// Runs one step of the reader of another executor's pushes.
    pub(super) fn run_peer_bytes(&mut self, from: PeerLane) {
        let (key, now, peer) = (self.other_end(from), self.queue.now(), self.peer_on(from));
        let wait = |world: &mut Self| world.block(Actor::PeerBytes(from), Block::PeerBytes(from));
        let Some(link) = self.links.get_mut(&key) else { return };
        match link.taken {
            Some(ByteUse::ByStream) => return wait(self),
            Some(ByteUse::Wasted(transfer)) => {
                let Some(chunk) = link.bytes.take(now) else { return wait(self) };
                if chunk.transfer != transfer {
                    return self.violation(format!("bytes of {} come within {transfer}", chunk.transfer));
                }
                if chunk.last {
                    link.taken = None;
                }
                self.on(from.other, |world| world.unblock(Block::PeerLane));
                return self.schedule(Actor::PeerBytes(from));
            }
            None => {}
        }
        let Some(chunk) = link.bytes.front(now) else { return wait(self) };
        let (transfer, abort) = (chunk.transfer, chunk.abort);
        let Some(Destination { device, dst, len }) = self.executor.posted.remove(&transfer) else {
            return self.violation(format!("bytes of an unknown transfer {transfer} came"));
        };
        let begun = self.executor.transfers.begin(transfer, peer, abort);
        self.act_for_exchange();
        match begun {
            Ok(_) if !abort => {}
            Ok(_) => {
                self.take_lane(from, Some(ByteUse::Wasted(transfer)));
                return self.schedule(Actor::PeerBytes(from));
            }
            Err(error) => return self.violation(format!("{transfer} begins unasked: {error:?}")),
        }
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
            self.take_lane(from, Some(ByteUse::ByStream));
            let stream = Actor::Stream(device, number);
            if self.tasks.contains_key(&stream) {
                self.schedule(stream);
            } else {
                self.begin(stream, Frame::Stream);
            }
            return self.schedule(Actor::PeerBytes(from));
        }
        // The device of the transfer has ended.
        self.take_lane(from, Some(ByteUse::Wasted(transfer)));
        self.arrived(from, transfer, false);
        self.schedule(Actor::PeerBytes(from));
    }

    fn take_lane(&mut self, from: PeerLane, taken: Option<ByteUse>) {
        let key = self.other_end(from);
        if let Some(link) = self.links.get_mut(&key) {
            link.taken = taken;
        }
        self.unblock(Block::PeerBytes(from));
    }

    /// Ends a transfer that has arrived, or never will.
    fn arrived(&mut self, from: PeerLane, transfer: TransferId, landed: bool) {
        let never = || Error::new(ErrorCode::DeviceUnavailable, "the bytes never came");
        let peer = self.peer_on(from);
        self.executor.transfers.ended(transfer, peer, if landed { Ok(()) } else { Err(never()) });
        self.act_for_exchange();
    }

    /// Runs one step of an incoming transfer. It is done as well if its bytes never arrive, because the stream also
    /// serves other transfers.
    pub(super) fn incoming_step(&mut self, device: u32, incoming: &mut Incoming) -> bool {
        let (key, now) = (self.other_end(incoming.from), self.queue.now());
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
            self.on(incoming.from.other, |world| world.unblock(Block::PeerLane));
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

    /// Drops an incoming transfer whose device has ended.
    pub(super) fn drop_incoming(&mut self, incoming: &Incoming) {
        let wasted = incoming.bytes.len() < incoming.len;
        self.take_lane(incoming.from, wasted.then_some(ByteUse::Wasted(incoming.transfer)));
        self.arrived(incoming.from, incoming.transfer, false);
    }
}
