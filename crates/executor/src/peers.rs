//! Links between the executors of a session, through the agents' ports.
//!
//! The pusher of a copy connects. Its bytes use that lane, and the target's control messages its reverse direction.

use crate::config::ExecutorConfig;
use crate::events::Events;
use crate::peer_table::{PeerTable, PushWay};
use crate::same_host::Local;
use accord_fabric::Key;
use accord_fabric::frame::Event;
use accord_fabric::handshake::{Introduced, Purpose};
use accord_fabric::link::{Identity, Link, Reader, Unposted};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Directions, Endpoint, LaneTerms};
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::Exchange;
use accord_fabric::transport::{SharedLane, route};
use accord_telemetry::log::report_line;
use accord_types::scarce;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads::spawn;
use accord_types::{Error, ErrorCode, Result, SessionId};
use std::sync::{Arc, OnceLock};

/// All other executors of the session.
pub(crate) struct Peers {
    /// This executor's name, once the command lane is open.
    own: OnceLock<PeerId>,
    node_name: String,
    session: SessionId,
    key: Key,
    transport: LaneTerms,
    exchange: Arc<Exchange>,
    /// Events that inform the program of lost lanes.
    events: Arc<Events>,
    local: Option<Arc<Local>>,
    /// Counters of the peer lanes.
    pub(crate) stats: Arc<LinkStats>,
    state: ShortLock<PeerTable<LinkTo>>,
}

/// A link, which is itself and no other.
#[derive(Clone)]
struct LinkTo(Arc<Link>);

impl PartialEq for LinkTo {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Peers {
    pub(crate) fn new(
        config: &ExecutorConfig,
        exchange: Arc<Exchange>,
        events: Arc<Events>,
        local: Option<Arc<Local>>,
    ) -> Arc<Self> {
        Arc::new(Self {
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

    /// Sets this executor's name, which the command lane gives.
    pub(crate) fn set_own(&self, own: PeerId) {
        // There is only one command lane.
        let _ = self.own.set(own);
    }

    /// Returns the link for pushes to another node's executor. The first use connects in the background, to the address that the push names.
    pub(crate) fn link(self: &Arc<Self>, to: PeerId, directions: Directions<'_>) -> Result<Arc<Link>> {
        let mut state = self.lock();
        match state.way(to)? {
            PushWay::Over(LinkTo(link)) => return Ok(link),
            PushWay::After(LinkTo(later)) => {
                let error = later.outbox().closed().unwrap_or_else(replaced);
                let over = self.new_link(to);
                over.close(&error);
                return Ok(over);
            }
            PushWay::New => {}
        }
        // The push was read from the command lane, whose hello gave the name.
        let unnamed = || Error::new(ErrorCode::ImplementationDefined, "an executor without a command lane pushes");
        let own = self.own.get().copied().ok_or_else(unnamed)?;
        let link = self.new_link(to);
        let (peers, pushing, agent) = (self.clone(), link.clone(), directions.endpoint(to.node()));
        let name = format!("the executor of node {} ({agent})", directions.node_name);
        link.outbox().name_peer(name);
        let events = self.events.clone();
        link.outbox().notify_loss(move || events.send(&Event::PeerLost { peer: to }, &[]));
        let work = move || {
            let _counted = PushThread(peers.clone());
            peers.push_over(own, &pushing, &agent);
        };
        spawn("accord-peer", work).map_err(|error| {
            Error::new(ErrorCode::System, format!("no thread for a connection to another node: {error}"))
                .remedy(scarce::THREADS)
        })?;
        let before = state.push_over(to, LinkTo(link.clone()));
        drop(state);
        if let Some(LinkTo(before)) = before {
            before.close(&replaced());
        }
        Ok(link)
    }

    fn new_link(&self, peer: PeerId) -> Arc<Link> {
        Link::new(&self.node_name, peer, self.stats.clone(), Unposted::Refuse)
    }

    /// Connects through the target's agent, then reads the target's messages until the link ends.
    fn push_over(self: &Arc<Self>, own: PeerId, link: &Arc<Link>, agent: &Endpoint) {
        let to = link.peer();
        // Precedes the connection, because the target's messages depend on it.
        if let Some(local) = &self.local {
            local.discover(own, to);
        }
        let identity =
            Identity { session: self.session, peer: own.on_lane(to.lane()), key: self.key.clone(), patience: None };
        let outcome = link
            .connect_to_push(&identity, route(agent, self.transport))
            .and_then(|reader| reader.run(|message| self.exchange.on_control(to, message, link.outbox())));
        let gone =
            |why: &str| link.outbox().name_loss(Error::new(ErrorCode::DeviceUnavailable, why.to_owned()).lane_ended());
        let error = match outcome {
            Ok(()) => gone("it closed the connection"),
            Err(error) => gone(error.cause()),
        };
        // Reported first: a peer that sees the failure requests the next lane.
        link.outbox().report_loss();
        link.close(&error);
        self.exchange.push_lost(to, &error);
    }

    /// Records that the program has lost an executor, which may still run silently. No thread here waits for it or its bytes any
    /// more.
    ///
    /// # Errors
    /// Returns an error if there are too many executors.
    pub(crate) fn lose(&self, peer: PeerId, error: &Error) -> Result<()> {
        let links = self.lock().lose(peer, || LinkTo(self.new_link(peer.on_lane(u32::MAX))))?;
        // First, because this gives the reason.
        self.exchange.push_lost(peer.on_lane(u32::MAX), error);
        links.iter().for_each(|LinkTo(link)| link.close(error));
        // The executor may have no lane to here, so that its expected pushes are dropped.
        self.exchange.peer_lost(peer.on_lane(u32::MAX));
        Ok(())
    }

    /// Accepts a lane on which another executor pushes.
    pub(crate) fn accept(self: &Arc<Self>, client: Introduced, lane: SharedLane) {
        let from = client.hello.from;
        let link = self.new_link(from);
        let over = self.exchange.is_over(from);
        let before = if over { None } else { self.lock().arrive(from, LinkTo(link.clone())) };
        let Some(before) = before else { return lane.shutdown() };
        if let Some(LinkTo(before)) = before {
            before.close(&replaced());
        }
        let pushed = PushedLane { peers: self.clone(), link, lane };
        // Without a thread the lane ends here, and its pusher gets no reason.
        if let Err(error) = spawn("accord-peer", move || pushed.serve(client)) {
            let what = "no thread for what another node copies here";
            report_line(format_args!("accord-node-agent executor: {what}: {error}; {}", scarce::THREADS));
        }
    }

    pub(crate) fn close(&self, error: &Error) {
        let links = self.lock().close(error);
        links.iter().for_each(|LinkTo(link)| link.close(error));
    }

    fn lock(&self) -> ShortGuard<'_, PeerTable<LinkTo>> {
        self.state.lock()
    }
}

/// The thread of a link for pushes. It may outlive the link by the time that connecting takes.
struct PushThread(Arc<Peers>);

impl Drop for PushThread {
    fn drop(&mut self) {
        self.0.lock().push_ended();
    }
}

/// A lane on which another executor pushes. However it ends, the pusher is gone.
struct PushedLane {
    peers: Arc<Peers>,
    link: Arc<Link>,
    lane: SharedLane,
}

impl PushedLane {
    fn serve(self, client: Introduced) {
        let joined = client.secure(self.lane.clone()).and_then(|lane| self.link.accept(lane, Purpose::Peer));
        if let Ok(Reader::Transfers(reader)) = joined {
            self.link.join(&self.peers.exchange);
            let _ = reader.run();
        }
    }
}

impl Drop for PushedLane {
    fn drop(&mut self) {
        self.lane.shutdown();
        self.link.close(&Error::new(ErrorCode::DeviceUnavailable, "the pusher is gone"));
        self.peers.exchange.peer_lost(self.link.peer());
        self.peers.lock().leave(&LinkTo(self.link.clone()));
    }
}

fn replaced() -> Error {
    Error::new(ErrorCode::DeviceUnavailable, "another lane has taken its place")
}

#[cfg(test)]
mod tests;
