//! Lanes between the executors of a session, through the agents' ports.
//!
//! The pusher of a copy connects: its bytes go out on that lane, the target's control messages come back on it.

use crate::ExecutorConfig;
use crate::same_host::Local;
use crate::session::spawn;
use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{self, ControlMessage, ControlSender, Exchange, Inbox, Outbox, tell_abandoned};
use accord_fabric::transport::{Lane, PeerAddress, SharedLane};
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// All other executors of the session.
pub(crate) struct Peers {
    node: NodeId,
    /// This executor among all of the session's, once it has its command lane.
    own: OnceLock<PeerId>,
    node_name: String,
    session: SessionId,
    key: Key,
    exchange: Arc<Exchange>,
    local: Option<Arc<Local>>,
    /// Counts what goes over peer lanes.
    pub(crate) stats: Arc<LinkStats>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Lanes on which we push.
    out: HashMap<PeerId, Arc<Outbox>>,
    /// Lanes on which others push.
    incoming: Vec<SharedLane>,
    closed: Option<Error>,
}

impl Peers {
    pub(crate) fn new(config: &ExecutorConfig, exchange: Arc<Exchange>, local: Option<Arc<Local>>) -> Arc<Self> {
        Arc::new(Self {
            node: config.node,
            own: OnceLock::new(),
            node_name: config.node_name.clone(),
            session: config.session,
            key: config.key.clone(),
            exchange,
            local,
            stats: Arc::default(),
            state: Mutex::default(),
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
        let of_other = |own: PeerId| hello.from != PeerId::PROGRAM && hello.from != own;
        self.own.get().is_some_and(|&own| own.incarnation() == hello.index && of_other(own))
    }

    /// The lanes to another node's executor. The first use connects, in the background.
    pub(crate) fn outbox(self: &Arc<Self>, to: PeerId, address: &PeerAddress) -> Result<Arc<Outbox>> {
        let mut state = self.lock();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        if let Some(outbox) = state.out.get(&to) {
            return Ok(outbox.clone());
        }
        // The push came on the command lane, which has said it.
        let unnamed = || Error::new(ErrorCode::ImplementationDefined, "an executor without a command lane pushes");
        let own = self.own.get().copied().ok_or_else(unnamed)?;
        let outbox = Outbox::new(self.stats.clone());
        let (peers, lanes, address) = (self.clone(), outbox.clone(), address.clone());
        spawn("accord-peer", move || peers.push_to(own, to, &address, &lanes))
            .ok_or_else(|| Error::new(ErrorCode::System, "no thread for a connection to another node"))?;
        state.out.insert(to, outbox.clone());
        Ok(outbox)
    }

    /// Connects, then takes what the target says until the lane ends.
    fn push_to(self: &Arc<Self>, own: PeerId, to: PeerId, address: &PeerAddress, outbox: &Arc<Outbox>) {
        // First of all: what the target says on the lane depends on it.
        if let Some(local) = &self.local {
            local.discover(own, to);
        }
        let hello = Hello::new(Purpose::Peer, self.session, to.incarnation(), own);
        let outcome = handshake::connect(address, &hello, &self.key, CONNECT_TIMEOUT).and_then(|lane| {
            outbox.add(lane.clone());
            self.receive_control(&*lane, outbox)
        });
        let gone = |why: &str| Error::new(ErrorCode::DeviceUnavailable, format!("the executor at {address}: {why}"));
        let error = match outcome {
            Ok(()) => gone("it closed the connection"),
            Err(error) => gone(error.cause()),
        };
        let mut state = self.lock();
        if state.out.get(&to).is_some_and(|current| Arc::ptr_eq(current, outbox)) {
            state.out.remove(&to);
        }
        drop(state);
        outbox.close(&error);
        self.exchange.push_lost(to, &error);
    }

    fn receive_control(&self, lane: &dyn Lane, outbox: &Arc<Outbox>) -> Result<()> {
        transfer::receive_control(lane, &self.stats, |message| match message {
            ControlMessage::Ready(transfer, place) => {
                if self.exchange.on_ready(transfer, place)? {
                    tell_abandoned(outbox, transfer);
                }
                Ok(())
            }
            ControlMessage::Landed(transfer) => self.exchange.on_landed(transfer),
            ControlMessage::Refused(transfer, error) => self.exchange.on_refused(transfer, error),
        })
    }

    /// Takes a lane on which another executor pushes.
    pub(crate) fn accept(self: &Arc<Self>, from: PeerId, lane: SharedLane) {
        let mut state = self.lock();
        if state.closed.is_some() {
            lane.shutdown();
            return;
        }
        state.incoming.push(lane.clone());
        drop(state);
        let peers = self.clone();
        spawn("accord-peer", move || {
            let inbox = Inbox::new(peers.stats.clone(), false);
            let sender = ControlSender::new(&peers.node_name, peers.stats.clone());
            sender.connect(lane.clone());
            peers.exchange.arrived(from, sender, inbox.clone());
            // However it ends, the pusher is gone.
            let _ = inbox.serve(&lane);
            lane.shutdown();
            inbox.close();
            peers.exchange.peer_lost(from);
            peers.lock().incoming.retain(|other| !Arc::ptr_eq(other, &lane));
        });
    }

    pub(crate) fn close(&self, error: &Error) {
        let mut state = self.lock();
        state.closed.get_or_insert_with(|| error.clone());
        let out: Vec<_> = state.out.drain().map(|(_, outbox)| outbox).collect();
        let incoming = std::mem::take(&mut state.incoming);
        drop(state);
        out.iter().for_each(|outbox| outbox.close(error));
        for lane in incoming {
            lane.shutdown();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
