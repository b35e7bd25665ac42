//! Links between the executors of a session, through the agents' ports.
//!
//! The pusher of a copy connects: its bytes go out on that lane, the target's control messages come back on it.

use crate::config::ExecutorConfig;
use crate::events::Events;
use crate::executor::There;
use crate::same_host::Local;
use crate::threads::spawn;
use accord_fabric::Key;
use accord_fabric::frame::Event;
use accord_fabric::handshake::{Hello, Introduced, Purpose};
use accord_fabric::link::{Identity, Link, Reader, Unposted};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, LaneTerms};
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::Exchange;
use accord_fabric::transport::{SharedLane, route};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, OnceLock};

/// Executors that a session may have had, one after the other on all of its nodes, and that this one has had to do with.
const PEERS_MAX: usize = 1 << 14;

/// All other executors of the session.
pub(crate) struct Peers {
    node: NodeId,
    /// This executor among all of the session's, once it has its command lane.
    own: OnceLock<PeerId>,
    node_name: String,
    session: SessionId,
    key: Key,
    transport: LaneTerms,
    exchange: Arc<Exchange>,
    /// The program hears there which lanes are lost.
    events: Arc<Events>,
    local: Option<Arc<Local>>,
    /// Counts what goes over peer lanes.
    pub(crate) stats: Arc<LinkStats>,
    state: ShortLock<PeerLinks>,
}

#[derive(Default)]
struct PeerLinks {
    /// The last link on which we push to each executor that the session has had, lost or not, by process. It knows its lane's number.
    out: HashMap<PeerId, Arc<Link>>,
    /// Links on which others push.
    incoming: Vec<Arc<Link>>,
    closed: Option<Error>,
}

impl Peers {
    pub(crate) fn new(
        config: &ExecutorConfig,
        exchange: Arc<Exchange>,
        events: Arc<Events>,
        local: Option<Arc<Local>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            node: config.node,
            own: OnceLock::new(),
            node_name: config.node_name.clone(),
            session: config.session,
            key: config.key.clone(),
            transport: config.transport,
            exchange,
            events,
            local,
            stats: Arc::default(),
            state: ShortLock::default(),
        })
    }

    /// The command lane has said which of the node's executors this one is.
    ///
    /// # Errors
    /// If that is none.
    pub(crate) fn set_incarnation(&self, number: u16) -> Result<()> {
        let own = PeerId::executor(self.node, number.into())?;
        let _ = self.own.set(own);
        Ok(())
    }

    /// Whether a peer lane is for this executor, and not for one that had its place, and comes from another executor.
    pub(crate) fn is_for_this(&self, hello: &Hello) -> bool {
        let from = hello.from.process();
        let of_other = |own: PeerId| from != PeerId::PROGRAM && from != own;
        self.own.get().is_some_and(|&own| own.incarnation() == hello.index && of_other(own))
    }

    /// The link to another node's executor, for pushes over a lane with this number. The first use connects, in the background. One that is lost
    /// is not made again: its target forgets what it was told to expect on it. What the program asks for when it has heard of the loss names the next.
    pub(crate) fn link(self: &Arc<Self>, to: PeerId, there: There<'_>) -> Result<Arc<Link>> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        let before = match state.out.get(&to.process()) {
            Some(link) if link.peer() == to => return Ok(link.clone()),
            // Asked for before the program heard of the loss, or of a process that it has lost: it fails, and not the session.
            Some(link) if link.peer().lane() > to.lane() => {
                let error = link.outbox().closed().unwrap_or_else(replaced);
                let over = Link::new(&self.node_name, to, self.stats.clone(), Unposted::Refuse);
                over.close(&error);
                return Ok(over);
            }
            Some(link) => Some(link.clone()),
            None => {
                check_peers(state.out.len())?;
                None
            }
        };
        // The push came on the command lane, which has said it.
        let unnamed = || Error::new(ErrorCode::ImplementationDefined, "an executor without a command lane pushes");
        let own = self.own.get().copied().ok_or_else(unnamed)?;
        let link = Link::new(&self.node_name, to, self.stats.clone(), Unposted::Refuse);
        let (peers, pushing, agent) = (self.clone(), link.clone(), Endpoint::new(to.node(), there.address));
        let name = format!("the executor of node {} ({agent})", there.node_name);
        link.outbox().name_peer(name.clone());
        let events = self.events.clone();
        link.outbox().tell_loss(move || events.send(&Event::PeerLost { peer: to }, &[]));
        spawn("accord-peer", move || peers.push_over(own, &pushing, &agent, &name))
            .ok_or_else(|| Error::new(ErrorCode::System, "no thread for a connection to another node"))?;
        state.out.insert(to.process(), link.clone());
        drop(state);
        if let Some(before) = before {
            before.close(&replaced());
        }
        Ok(link)
    }

    /// Connects by way of the target's agent, then takes what the target says until the link ends.
    fn push_over(self: &Arc<Self>, own: PeerId, link: &Arc<Link>, agent: &Endpoint, name: &str) {
        let to = link.peer();
        // First of all: what the target says depends on it.
        if let Some(local) = &self.local {
            local.discover(own, to);
        }
        let identity = Identity { session: self.session, peer: own.on_lane(to.lane()), key: self.key.clone() };
        let outcome = link
            .connect_to_push(&identity, route(agent, self.transport))
            .and_then(|reader| reader.run(|message| self.exchange.on_control(to, message, link.outbox())));
        let gone = |why: &str| {
            Error::new(ErrorCode::DeviceUnavailable, format!("{name}: {why}"))
                .remedy("the nodes have lost each other; later copies between them take a new connection")
        };
        let error = match outcome {
            Ok(()) => gone("it closed the connection"),
            Err(error) => gone(error.cause()),
        };
        // First of all: who hears of a failure asks for the next lane.
        link.outbox().report_loss();
        link.close(&error);
        self.exchange.push_lost(to, &error);
    }

    /// The program has lost an executor. That may be there still and say nothing: nobody here waits for it any more, nor for its bytes.
    ///
    /// # Errors
    /// When there are too many.
    pub(crate) fn lose(&self, peer: PeerId, error: &Error) -> Result<()> {
        let mut state = self.lock();
        let known = state.out.len();
        let pushed = match state.out.entry(peer.process()) {
            Entry::Occupied(entry) => entry.get().clone(),
            // What it is to get may be on its way here.
            Entry::Vacant(entry) => {
                check_peers(known)?;
                let never = peer.on_lane(u32::MAX);
                entry.insert(Link::new(&self.node_name, never, self.stats.clone(), Unposted::Refuse)).clone()
            }
        };
        let mut links = vec![pushed];
        links.extend(state.incoming.iter().filter(|link| link.peer().process() == peer.process()).cloned());
        drop(state);
        // First: it says why.
        self.exchange.push_lost(peer.on_lane(u32::MAX), error);
        links.iter().for_each(|link| link.close(error));
        // It may have no lane to here: what it was to push on that is not waited for.
        self.exchange.peer_lost(peer.on_lane(u32::MAX));
        Ok(())
    }

    /// Takes a lane on which another executor pushes.
    pub(crate) fn accept(self: &Arc<Self>, client: Introduced, lane: SharedLane) {
        let from = client.hello.from;
        let link = Link::new(&self.node_name, from, self.stats.clone(), Unposted::Refuse);
        let mut state = self.lock();
        if state.closed.is_some() || self.exchange.is_over(from) {
            lane.shutdown();
            return;
        }
        let is_before =
            |other: &&Arc<Link>| other.peer().process() == from.process() && other.peer().lane() < from.lane();
        let before: Vec<_> = state.incoming.iter().filter(is_before).cloned().collect();
        state.incoming.push(link.clone());
        drop(state);
        // The pusher has seen its end: streams that take bytes from it go on.
        before.iter().for_each(|link| link.close(&replaced()));
        let peers = self.clone();
        spawn("accord-peer", move || {
            let ends = lane.clone();
            let joined = client.secure(lane).and_then(|lane| link.accept(lane, Purpose::Peer));
            if let Ok(Reader::Transfers(reader)) = joined {
                link.join(&peers.exchange);
                // However it ends, the pusher is gone.
                let _ = reader.run();
            }
            ends.shutdown();
            link.close(&Error::new(ErrorCode::DeviceUnavailable, "the pusher is gone"));
            peers.exchange.peer_lost(from);
            peers.lock().incoming.retain(|other| !Arc::ptr_eq(other, &link));
        });
    }

    pub(crate) fn close(&self, error: &Error) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| error.clone());
        let mut links = std::mem::take(&mut state.incoming);
        links.extend(state.out.drain().map(|(_, link)| link));
        drop(state);
        links.iter().for_each(|link| link.close(error));
    }

    fn lock(&self) -> ShortGuard<'_, PeerLinks> {
        self.state.lock()
    }
}

fn replaced() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "another lane has taken its place")
}

fn check_peers(known: usize) -> Result<()> {
    if known >= PEERS_MAX {
        let cause = format!("more than {PEERS_MAX} executors were named");
        return Err(Error::new(ErrorCode::ImplementationDefined, cause));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
