//! Pushes from one executor to another: what becomes of them is decided by the core of an `Exchange`, as in a real executor. Here are
//! the lanes, and who reads and writes them, which `crates/executor/src/peers.rs` and the exchange's threads do there.

use super::actor::{Actor, Block, Happening};
use super::frames::Frame;
use super::lane::{PIECE, Weather};
use super::peer_link::{Outgoing, PeerChunk, PeerLink};
use super::world::World;
use accord_fabric::frame::Event;
use accord_fabric::peer::PeerId;
use accord_fabric::transfer::{ControlMessage, ExchangeEffect, PushStep};
use accord_types::{Error, ErrorCode, NodeId, Result, TransferId};

/// A peer lane to a node that is silent ends after so long.
const PEER_TIMEOUT: u64 = 3_000_000;

fn lost() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "the connection to the other executor is lost")
}

impl World {
    /// What the executor of a connection is called.
    pub(super) fn peer(&self, connection: usize) -> PeerId {
        let node = u32::try_from(self.connections[connection].node).unwrap_or(0);
        PeerId::executor(NodeId(node), 0).unwrap_or(PeerId::PROGRAM)
    }

    /// The connection of the same program to whose executor a peer belongs.
    pub(super) fn connection_to(&self, peer: PeerId) -> Option<usize> {
        let program = self.program;
        let fits = |index: &usize| self.connections[*index].program == program && self.peer(*index) == peer;
        (0..self.connections.len()).find(fits)
    }

    /// Does what the exchange of this executor wants done.
    pub(super) fn act_for_exchange(&mut self) {
        let effects: Vec<_> = self.executor.exchange.effects().collect();
        for effect in effects {
            let peer = effect.peer().and_then(|peer| self.connection_to(peer));
            match (effect, peer) {
                (ExchangeEffect::Push(transfer), _) => {
                    self.unblock(Block::Push(transfer));
                    self.end_lingering();
                }
                (ExchangeEffect::Ready { transfer, expected, .. }, Some(from)) => {
                    self.executor.posted.insert(transfer, expected);
                    self.tell_pusher(from, ControlMessage::Ready(transfer, Vec::new()));
                }
                (ExchangeEffect::Landed(_, transfer), Some(from)) => {
                    self.tell_pusher(from, ControlMessage::Landed(transfer));
                }
                (ExchangeEffect::Refused(_, transfer, error), Some(from)) => {
                    self.tell_pusher(from, ControlMessage::Refused(transfer, error));
                }
                (ExchangeEffect::Abandon(to, transfer), _) => {
                    self.connection_to(to).into_iter().for_each(|other| self.abandoned(other, transfer));
                }
                (ExchangeEffect::Gone(_, told), _) => told.iter().for_each(|transfer| {
                    self.executor.posted.remove(transfer);
                }),
                (ExchangeEffect::Over { pushes, expects }, _) => {
                    self.send_event(&Event::Exchanged { pushes, expects }, &[]);
                }
                (effect, None) if effect.peer().is_some() => {
                    self.violation(format!("it is about nobody: {effect:?}"));
                }
                _ => {}
            }
        }
    }

    // The pusher's side.

    /// A push of this executor begins. The first to a peer connects.
    pub(super) fn begin_push(&mut self, transfer: TransferId, to: PeerId, src: usize, len: usize) -> Result<Outgoing> {
        let Some(other) = self.connection_to(to) else { return Err(lost()) };
        let key = (self.at, other);
        if !self.links.contains_key(&key) {
            let mut weather = |capacity| Weather {
                delay: if self.random.chance(50) { 30 } else { 600 },
                capacity,
                stalls: if self.random.chance(30) { 10 } else { 0 },
            };
            let link = PeerLink::new(weather(3 * PIECE), weather(usize::MAX));
            self.links.insert(key, link);
            let takes = self.random.within(1..3_000);
            self.add(takes, Happening::PeerConnected(other));
        }
        self.executor.exchange.push(transfer, to)?;
        self.act_for_exchange();
        Ok(Outgoing { src, len, transfer, to: other, lane: None, at: 0 })
    }

    /// The lane to a peer is there, or will never be.
    pub(super) fn peer_connected(&mut self, other: usize) {
        let (at, own) = (self.at, self.peer(self.at));
        if self.cut || self.connections[other].cut || self.links[&(at, other)].cut {
            return self.cut_peer(other);
        }
        let silent = self.command.dead || self.connections[other].command.dead;
        let Some(link) = self.links.get_mut(&(at, other)) else { return };
        link.pool.add();
        if silent {
            link.silence();
            return self.add(PEER_TIMEOUT, Happening::PeerCut(other));
        }
        self.begin(Actor::PeerControl(other), Frame::Peer);
        self.begin(Actor::PeerAborts(other), Frame::Peer);
        self.unblock(Block::PeerLane);
        self.on(other, |world| {
            world.begin(Actor::PeerBytes(at), Frame::Peer);
            world.executor.exchange.arrived(own);
            world.act_for_exchange();
        });
    }

    /// The node of this connection has become silent.
    pub(super) fn silence_peers(&mut self) {
        let at = self.at;
        let ends: Vec<_> = self.links.keys().filter(|(from, to)| *from == at || *to == at).copied().collect();
        for (from, to) in ends {
            if let Some(link) = self.links.get_mut(&(from, to)) {
                link.silence();
            }
            self.on(from, |world| world.add(PEER_TIMEOUT, Happening::PeerCut(to)));
        }
    }

    /// The executor of this connection is gone.
    pub(super) fn cut_peers(&mut self) {
        let at = self.at;
        let ends: Vec<_> = self.links.keys().filter(|(from, to)| *from == at || *to == at).copied().collect();
        ends.into_iter().for_each(|(from, to)| self.on(from, |world| world.cut_peer(to)));
    }

    /// The lane of this executor to another one ends: each hears of it in its own time.
    pub(super) fn cut_peer(&mut self, other: usize) {
        let at = self.at;
        let Some(link) = self.links.get_mut(&(at, other)) else { return };
        if std::mem::replace(&mut link.cut, true) {
            return;
        }
        link.silence();
        let (early, late) = (self.random.within(1..2_000), self.random.within(1..2_000));
        self.add(early, Happening::PushLost(other));
        self.on(other, |world| world.add(late, Happening::PeerLost(at)));
    }

    /// This executor sees that its lane to another one has ended.
    pub(super) fn push_lost(&mut self, other: usize) {
        let (at, to) = (self.at, self.peer(other));
        if let Some(link) = self.links.get_mut(&(at, other)) {
            link.pool.close(&lost());
            link.aborts.clear();
        }
        self.executor.exchange.push_lost(to, &lost());
        self.act_for_exchange();
        self.unblock(Block::PeerLane);
    }

    /// One step of the reader of what a target says.
    pub(super) fn run_peer_control(&mut self, other: usize) {
        let (now, key, peer) = (self.queue.now(), (self.at, other), self.peer(other));
        let Some(message) = self.links.get_mut(&key).and_then(|link| link.control.take(now)) else {
            return self.block(Actor::PeerControl(other), Block::PeerControl(other));
        };
        if let Err(error) = self.executor.exchange.on_control(peer, message) {
            return self.violation(format!("a target does not keep to the protocol: {error:?}"));
        }
        self.act_for_exchange();
        self.schedule(Actor::PeerControl(other));
    }

    /// The target has to be told that a transfer's bytes will not come.
    fn abandoned(&mut self, other: usize, transfer: TransferId) {
        let key = (self.at, other);
        if let Some(link) = self.links.get_mut(&key).filter(|link| link.pool.closed().is_none()) {
            link.aborts.push_back(transfer);
            self.unblock(Block::PeerLane);
        }
    }

    /// One step of whoever tells a target that bytes will not come.
    pub(super) fn run_peer_aborts(&mut self, other: usize) {
        let key = (self.at, other);
        let lane = match self.links.get_mut(&key) {
            Some(link) if !link.aborts.is_empty() && link.bytes.room() > 0 => link.pool.lend().ok().flatten(),
            _ => None,
        };
        let Some(lane) = lane else { return self.block(Actor::PeerAborts(other), Block::PeerLane) };
        if let Some(transfer) = self.links.get_mut(&key).and_then(|link| link.aborts.pop_front()) {
            self.put_peer(other, PeerChunk { transfer, bytes: Vec::new(), last: true, abort: true });
        }
        self.give_lane_back(other, lane);
        self.schedule(Actor::PeerAborts(other));
    }

    fn put_peer(&mut self, other: usize, chunk: PeerChunk) {
        let (at, now) = (self.at, self.queue.now());
        let Some(link) = self.links.get_mut(&(at, other)).filter(|link| !link.cut) else { return };
        let len = chunk.bytes.len().max(1);
        let arrives = link.bytes.put(&mut self.random, now, chunk, len);
        self.queue.add(arrives, (other, Happening::Arrive(Block::PeerBytes(at))));
    }

    fn give_lane_back(&mut self, other: usize, lane: usize) {
        let key = (self.at, other);
        if let Some(link) = self.links.get_mut(&key) {
            link.pool.give_back(lane);
        }
        self.unblock(Block::PeerLane);
    }

    /// One step of a push, in its stream. Whether it is done; an error if it fails.
    pub(super) fn push_step(&mut self, device: u32, push: &mut Outgoing) -> std::result::Result<bool, ()> {
        let key = (self.at, push.to);
        match self.executor.exchange.step(push.transfer) {
            PushStep::Wait => Ok(false),
            PushStep::Send if push.at < push.len => {
                if push.lane.is_none() {
                    match self.links.get_mut(&key).map(|link| link.pool.lend()) {
                        Some(Ok(lane)) => push.lane = lane,
                        // The lanes have ended: whoever reads them is about to say so.
                        _ => return Ok(false),
                    }
                }
                let Some(lane) = push.lane else { return Ok(false) };
                while push.at < push.len && self.links[&key].bytes.room() > 0 {
                    let end = (push.at + PIECE).min(push.len);
                    let Some(place) = self.executor.devices.0.get(&device) else { return Err(()) };
                    let bytes = place.memory[push.src + push.at..push.src + end].to_vec();
                    self.put_peer(
                        push.to,
                        PeerChunk { transfer: push.transfer, bytes, last: end == push.len, abort: false },
                    );
                    push.at = end;
                    // What is lost on the way is lost.
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
                let _ = self.executor.exchange.push_done(push.transfer);
                self.act_for_exchange();
                if outcome.is_err() && !self.may_fail(push.to) {
                    self.violation(format!("{} fails for nothing: {outcome:?}", push.transfer));
                }
                outcome.map(|()| true).map_err(drop)
            }
        }
    }

    /// Whether something has happened to an executor that this one pushes to.
    fn may_fail(&self, other: usize) -> bool {
        let target = &self.connections[other];
        let closed = target.executor.closes > 0 || !target.executor.crashed.is_empty();
        closed || target.cut || target.lost_at.is_some() || self.links[&(self.at, other)].cut
    }

    /// A push comes to nothing.
    pub(super) fn drop_push(&mut self, push: &Outgoing) {
        self.executor.exchange.give_up(push.transfer, push.lane.is_some());
        if let Some(lane) = push.lane {
            let gone = PeerChunk { transfer: push.transfer, bytes: Vec::new(), last: true, abort: true };
            self.put_peer(push.to, gone);
            self.give_lane_back(push.to, lane);
        }
        self.act_for_exchange();
    }

    /// Whether all of it was sent: it ends by itself, whatever becomes of its device.
    pub(super) fn is_sent(&self, push: &Outgoing) -> bool {
        push.at == push.len && self.executor.exchange.step(push.transfer) == PushStep::Send
    }
}
