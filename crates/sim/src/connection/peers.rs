//! Pushes from one executor to another. As in a real executor, a `TransferTable` decides about transfers and a
//! `PeerTable` about lanes. The lanes and their readers and writers stand in for `crates/executor/src/peers.rs` and the
//! exchange's threads.

use super::actor::{Actor, Block, PeerLane, WorldEvent};
use super::frames::Frame;
use super::lane::{LaneBehaviour, PIECE};
use super::peer_link::{Outgoing, PeerChunk, PeerLink};
use super::world::World;
use accord_executor::peer_table::PushWay;
use accord_fabric::frame::Event;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{ControlMessage, PushStep, TransferEffect};
use accord_types::{Error, ErrorCode, NodeId, Result, TransferId};

/// Time after which a lane to a silent node ends, in microseconds.
const PEER_TIMEOUT: u64 = 3_000_000;

fn lost() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the connection to the other executor is lost")
}

impl World {
    /// Returns the id of a connection's executor.
    pub(super) fn peer(&self, connection: usize) -> PeerId {
        let node = u32::try_from(self.connections[connection].node).unwrap_or(0);
        PeerId::executor(NodeId(node), 0).unwrap_or(PeerId::PROGRAM)
    }

    /// Returns the connection of the same program to a peer's executor.
    pub(super) fn connection_to(&self, peer: PeerId) -> Option<usize> {
        let program = self.program;
        let fits = |index: &usize| self.connections[*index].program == program && self.peer(*index) == peer.process();
        (0..self.connections.len()).find(fits)
    }

    /// Returns the lane that a peer id names.
    fn lane_of(&self, peer: PeerId) -> Option<PeerLane> {
        self.connection_to(peer).map(|other| PeerLane { other, number: peer.lane() })
    }

    /// Returns the id of the executor at the other end of a lane, with the lane's number.
    pub(super) fn peer_on(&self, lane: PeerLane) -> PeerId {
        self.peer(lane.other).on_lane(lane.number)
    }

    /// Returns the other executor's connection and lane for the lane on which it pushes to this one.
    pub(super) fn other_end(&self, lane: PeerLane) -> (usize, PeerLane) {
        (lane.other, PeerLane { other: self.at, number: lane.number })
    }

    /// Carries out the effects of this executor's table of transfers.
    pub(super) fn act_for_exchange(&mut self) {
        let effects: Vec<_> = self.executor.transfers.effects().collect();
        for effect in effects {
            let peer = effect.peer().and_then(|peer| self.lane_of(peer));
            match (effect, peer) {
                (TransferEffect::Wake(transfer, _), _) => {
                    self.unblock(Block::Push(transfer));
                    self.end_lingering();
                }
                (TransferEffect::Ready { transfer, value, .. }, Some(from)) => {
                    self.executor.posted.extend(value.map(|destination| (transfer, destination)));
                    self.notify_pusher(from, ControlMessage::Ready(transfer, Vec::new()));
                }
                (TransferEffect::Tell(_, message), Some(from)) => self.notify_pusher(from, message),
                (TransferEffect::Abandon(to, transfer), _) => {
                    self.lane_of(to).into_iter().for_each(|lane| self.abandoned(lane, transfer));
                }
                (TransferEffect::Gone(_, reported), _) => reported.iter().for_each(|(transfer, _)| {
                    self.executor.posted.remove(transfer);
                }),
                (TransferEffect::Over { pushes, expects }, _) => {
                    self.send_event(&Event::Exchanged { pushes, expects }, &[]);
                }
                (effect, None) if effect.peer().is_some() => {
                    self.violation(format!("it is about no peer: {effect:?}"));
                }
                _ => {}
            }
        }
    }

    // The pusher's side.

    /// Begins a push of this executor; the first one on a lane connects.
    pub(super) fn begin_push(&mut self, transfer: TransferId, to: PeerId, src: usize, len: usize) -> Result<Outgoing> {
        let Some(lane) = self.lane_of(to) else { return Err(lost()) };
        if self.executor.peers.way(to)? == PushWay::New {
            let mut lane_behaviour = |capacity| LaneBehaviour {
                delay: if self.random.chance(50) { 30 } else { 600 },
                capacity,
                stalls: if self.random.chance(30) { 10 } else { 0 },
            };
            let link = PeerLink::new(lane_behaviour(3 * PIECE), lane_behaviour(usize::MAX));
            if self.links.insert((self.at, lane), link).is_some() {
                self.violation(format!("{lane:?} is made twice"));
            }
            let takes = self.random.within(1..3_000);
            self.add(takes, WorldEvent::PeerConnected(lane));
            if let Some(before) = self.executor.peers.push_over(to, lane) {
                self.cut_peer(before);
            }
        }
        self.executor.transfers.push(transfer, to, None)?;
        self.act_for_exchange();
        Ok(Outgoing { src, len, transfer, to: lane, lane: None, at: 0 })
    }

    /// Handles the end of connecting to a peer, by success or failure.
    pub(super) fn peer_connected(&mut self, lane: PeerLane) {
        let PeerLane { other, number } = lane;
        let here = PeerLane { other: self.at, number };
        let own = self.peer_on(here);
        if self.cut || self.connections[other].cut || self.links[&(self.at, lane)].cut {
            return self.cut_peer(lane);
        }
        let silent = self.command.dead || self.connections[other].command.dead;
        let key = (self.at, lane);
        let Some(link) = self.links.get_mut(&key) else { return };
        link.pool.add();
        if silent {
            link.silence();
            return self.add(PEER_TIMEOUT, WorldEvent::LaneCut(lane));
        }
        self.begin(Actor::PeerControl(lane), Frame::Peer);
        self.begin(Actor::PeerAborts(lane), Frame::Peer);
        self.unblock(Block::PeerLane);
        let executor = &mut self.connections[other].executor;
        let over = executor.transfers.is_over(own);
        let Some(before) = executor.peers.arrive(own, here).filter(|_| !over) else { return self.cut_peer(lane) };
        if let Some(before) = before {
            self.cut_peer(PeerLane { other, number: before.number });
        }
        self.on(other, |world| {
            world.begin(Actor::PeerBytes(here), Frame::Peer);
            world.executor.transfers.arrived(own);
            world.act_for_exchange();
        });
    }

    /// Returns the lanes that begin or end here.
    fn own_links(&self) -> Vec<(usize, PeerLane)> {
        let at = self.at;
        self.links.keys().filter(|(from, to)| *from == at || to.other == at).copied().collect()
    }

    /// Silences the lanes of this connection's node.
    pub(super) fn silence_peers(&mut self) {
        for (from, to) in self.own_links() {
            if let Some(link) = self.links.get_mut(&(from, to)) {
                link.silence();
            }
            self.on(from, |world| world.add(PEER_TIMEOUT, WorldEvent::LaneCut(to)));
        }
    }

    /// Cuts the lanes of this connection's executor.
    pub(super) fn cut_peers(&mut self) {
        let ends = self.own_links();
        ends.into_iter().for_each(|(from, to)| self.on(from, |world| world.cut_peer(to)));
    }

    /// Cuts the last lane to another executor, and sometimes the next ones as well.
    pub(super) fn cut_last_peer(&mut self, other: usize) {
        let at = self.at;
        let last = self.links.keys().rfind(|(from, to)| *from == at && to.other == other).copied();
        last.into_iter().for_each(|(_, lane)| self.cut_peer(lane));
        if self.random.chance(70) {
            let later = self.random.within(1..10_000);
            self.add(later, WorldEvent::PeerCut(other));
        }
    }

    /// Cuts a lane to another executor; each end notices in its own time.
    pub(super) fn cut_peer(&mut self, lane: PeerLane) {
        let key = (self.at, lane);
        let Some(link) = self.links.get_mut(&key) else { return };
        if std::mem::replace(&mut link.cut, true) {
            return;
        }
        link.silence();
        let (early, late) = (self.random.within(1..2_000), self.random.within(1..2_000));
        self.add(early, WorldEvent::PushLost(lane));
        let (other, here) = self.other_end(lane);
        self.on(other, |world| world.add(late, WorldEvent::PeerLost(here)));
    }

    /// Has this executor notice that its lane to another one has ended.
    pub(super) fn push_lost(&mut self, lane: PeerLane) {
        let (key, peer) = ((self.at, lane), self.peer_on(lane));
        // Sent before all else: a program that receives the event of a failed push asks for the next lane.
        self.send_event(&Event::PeerLost { peer }, &[]);
        if let Some(link) = self.links.get_mut(&key) {
            link.pool.close(&lost());
            link.aborts.clear();
        }
        self.executor.transfers.push_lost(peer, &lost());
        self.executor.peers.push_ended();
        self.act_for_exchange();
        self.unblock(Block::PeerLane);
    }

    /// Has the program inform its other executors that this one is lost.
    pub(super) fn notify_of_loss(&mut self) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        let (gone, program) = (self.at, self.program);
        for other in (0..self.connections.len()).filter(|&other| other != gone) {
            if self.connections[other].program == program {
                let takes = self.random.within(30..2_000);
                self.on(other, |world| world.add(takes, WorldEvent::ExecutorLost(gone)));
            }
        }
    }

    /// Informs this executor that another one is lost. It no longer waits for the other's pushes, even without a lane
    /// between them.
    pub(super) fn executor_lost(&mut self, gone: usize) {
        if self.cut {
            return;
        }
        let last = PeerLane { other: gone, number: u32::MAX };
        let peer = self.peer_on(last);
        let ends = match self.executor.peers.lose(peer, || last) {
            Ok(ends) => ends,
            Err(error) => return self.violation(format!("an executor that is lost is one too many: {error:?}")),
        };
        self.executor.transfers.push_lost(peer, &lost());
        self.act_for_exchange();
        for lane in ends {
            self.cut_peer(lane);
            let (there, lane) = self.other_end(lane);
            self.on(there, |world| world.cut_peer(lane));
        }
        self.executor.transfers.peer_lost(peer);
        self.act_for_exchange();
        self.unblock(Block::PeerLane);
    }

    /// Runs one step of the reader of a target's control messages.
    pub(super) fn run_peer_control(&mut self, lane: PeerLane) {
        let (now, key, peer) = (self.queue.now(), (self.at, lane), self.peer_on(lane));
        let Some(message) = self.links.get_mut(&key).and_then(|link| link.control.take(now)) else {
            return self.block(Actor::PeerControl(lane), Block::PeerControl(lane));
        };
        if let Err(error) = self.executor.transfers.on_control(peer, message) {
            return self.violation(format!("a target does not keep to the protocol: {error:?}"));
        }
        self.act_for_exchange();
        self.schedule(Actor::PeerControl(lane));
    }

    /// Queues a message to the target that a transfer's bytes will not arrive.
    fn abandoned(&mut self, lane: PeerLane, transfer: TransferId) {
        let key = (self.at, lane);
        if let Some(link) = self.links.get_mut(&key).filter(|link| link.pool.closed().is_none()) {
            link.aborts.push_back(transfer);
            self.unblock(Block::PeerLane);
        }
    }

    /// Runs one step of the actor that sends these messages.
    pub(super) fn run_peer_aborts(&mut self, to: PeerLane) {
        let key = (self.at, to);
        let lane = match self.links.get_mut(&key) {
            Some(link) if !link.aborts.is_empty() && link.bytes.space() > 0 => link.pool.acquire().ok().flatten(),
            _ => None,
        };
        let Some(lane) = lane else { return self.block(Actor::PeerAborts(to), Block::PeerLane) };
        if let Some(transfer) = self.links.get_mut(&key).and_then(|link| link.aborts.pop_front()) {
            self.put_peer(to, PeerChunk { transfer, bytes: Vec::new(), last: true, abort: true });
        }
        self.give_lane_back(to, lane);
        self.schedule(Actor::PeerAborts(to));
    }

    fn put_peer(&mut self, to: PeerLane, chunk: PeerChunk) {
        let (key, now) = ((self.at, to), self.queue.now());
        let Some(link) = self.links.get_mut(&key).filter(|link| !link.cut) else { return };
        let len = chunk.bytes.len().max(1);
        let arrives = link.bytes.put(&mut self.random, now, chunk, len);
        let (other, here) = self.other_end(to);
        self.queue.add(arrives, (other, WorldEvent::Arrive(Block::PeerBytes(here))));
    }

    fn give_lane_back(&mut self, to: PeerLane, lane: usize) {
        let key = (self.at, to);
        if let Some(link) = self.links.get_mut(&key) {
            link.pool.give_back(lane);
        }
        self.unblock(Block::PeerLane);
    }

    /// Runs one step of a push in its stream. Returns whether it is done, or an error if it fails.
    pub(super) fn push_step(&mut self, device: u32, push: &mut Outgoing) -> std::result::Result<bool, ()> {
        let key = (self.at, push.to);
        match self.executor.transfers.step(push.transfer) {
            PushStep::Wait => Ok(false),
            PushStep::Send if push.at < push.len => {
                if push.lane.is_none() {
                    match self.links.get_mut(&key).map(|link| link.pool.acquire()) {
                        Some(Ok(lane)) => push.lane = lane,
                        // The lanes have ended, and their reader is about to notice.
                        _ => return Ok(false),
                    }
                }
                let Some(lane) = push.lane else { return Ok(false) };
                self.executor.transfers.start(push.transfer);
                while push.at < push.len && self.links[&key].bytes.space() > 0 {
                    let end = (push.at + PIECE).min(push.len);
                    let Some(place) = self.executor.devices.0.get(&device) else { return Err(()) };
                    let bytes = place.memory[push.src + push.at..push.src + end].to_vec();
                    self.put_peer(
                        push.to,
                        PeerChunk { transfer: push.transfer, bytes, last: end == push.len, abort: false },
                    );
                    push.at = end;
                    // Bytes on a cut lane are lost.
                    if self.links[&key].cut {
                        break;
                    }
                }
                if push.at == push.len {
                    push.lane = None;
                    self.give_lane_back(push.to, lane);
                }
                Ok(false)
            }
            PushStep::Send => Ok(false),
            PushStep::End(outcome) => {
                if let Some(lane) = push.lane.take() {
                    self.give_lane_back(push.to, lane);
                }
                let _ = self.executor.transfers.push_done(push.transfer);
                self.act_for_exchange();
                if outcome.is_err() && !self.may_fail(push.to) {
                    self.violation(format!("{} fails for nothing: {outcome:?}", push.transfer));
                }
                outcome.map(|()| true).map_err(drop)
            }
        }
    }

    /// Whether an executor that this one pushes to may have failed.
    fn may_fail(&self, lane: PeerLane) -> bool {
        let target = &self.connections[lane.other];
        let closed = target.executor.closes > 0 || !target.executor.crashed.is_empty();
        closed || target.cut || target.lost_at.is_some() || self.links[&(self.at, lane)].cut
    }

    /// Gives a push up.
    pub(super) fn drop_push(&mut self, push: &Outgoing) {
        self.executor.transfers.give_up(push.transfer, push.lane.is_some());
        if let Some(lane) = push.lane {
            let gone = PeerChunk { transfer: push.transfer, bytes: Vec::new(), last: true, abort: true };
            self.put_peer(push.to, gone);
            self.give_lane_back(push.to, lane);
        }
        self.act_for_exchange();
    }

    /// Whether all bytes of a push were sent. Such a push completes even if its device ends.
    pub(super) fn is_sent(&self, push: &Outgoing) -> bool {
        push.at == push.len && self.executor.transfers.step(push.transfer) == PushStep::Send
    }
}
