//! The connection to one node's executor, opened at its first use, and replaced by one to a new executor if it is lost.

use super::connection::Connection;
use super::node_spec::NodeSpec;
use super::opening::opening;
use super::reuse_policy::{Condition, Reuse, ReusePolicy};
use crate::executor_ends::LaneEnd;
use accord_fabric::frame::Command;
use accord_fabric::peer::PeerId;
use accord_fabric::route::Route;
use accord_fabric::stats::Counters;
use accord_fabric::transfer::Exchange;
use accord_types::backoff::Backoff;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Duration from which on a failed connection attempt was not refused, and is repeated once.
const IN_VAIN: Duration = Duration::from_secs(1);

/// The connection to one node's executor, with its replacements.
pub(crate) struct RemoteNode {
    pub(crate) spec: Arc<NodeSpec>,
    exchange: Arc<Exchange>,
    /// Held by a thread that starts a device and may connect for that. Other threads can query the state meanwhile.
    turn: TurnLock<()>,
    state: ShortLock<NodeConnection>,
}

#[derive(Default)]
struct NodeConnection {
    connection: Option<Arc<Connection>>,
    reuse: ReusePolicy,
    /// Number of executors that this node has had for the session.
    executors: u32,
    /// Whether the session is over.
    closed: bool,
    /// The reason why the session, or its part on this node, has ended.
    ended: Option<LaneEnd>,
    /// Reports on the node while a thread connects.
    signs_of_life: ConnectReport,
}

/// Reports on a connection that is still being made.
#[derive(Default)]
struct ConnectReport {
    /// Whether the coordinator does not hear from the node.
    doubted: bool,
}

impl NodeConnection {
    fn condition(&self) -> Condition {
        match &self.connection {
            None => Condition::Absent,
            Some(connection) => connection.machine().check().map_or_else(Condition::Lost, |()| Condition::Well),
        }
    }
}

impl RemoteNode {
    pub(crate) fn new(spec: NodeSpec, exchange: Arc<Exchange>) -> Arc<Self> {
        Arc::new(Self { spec: Arc::new(spec), exchange, turn: TurnLock::default(), state: ShortLock::default() })
    }

    /// Starts a device by `open`, over the present connection or a new one: the first, or one to a new executor if the
    /// old one or the device is lost. `name` is the device's for messages.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the agent can't be reached or refuses, or if other devices still use a
    /// lost executor; otherwise the errors of `open`.
    pub(crate) fn start(&self, device: u32, name: &str, open: impl Fn(&Arc<Connection>) -> Result<()>) -> Result<()> {
        let connection = self.connection(device, |reuse, condition| reuse.begin(device, name, condition))?;
        let error = match open(&connection) {
            Ok(()) => {
                self.opened(device);
                return Ok(());
            }
            Err(error) => error,
        };
        let connection = self.connection(device, |reuse, condition| reuse.failed(device, condition, error))?;
        match open(&connection) {
            Ok(()) => {
                self.opened(device);
                Ok(())
            }
            Err(error) => {
                self.end(device);
                Err(error)
            }
        }
    }

    /// Records that a device was shut down.
    pub(crate) fn end(&self, device: u32) {
        self.lock().reuse.end(device);
    }

    fn opened(&self, device: u32) {
        self.lock().reuse.opened(device);
    }

    /// Returns the connection for a device that starts, as `decide` chooses.
    fn connection(
        &self,
        device: u32,
        decide: impl FnOnce(&mut ReusePolicy, &Condition) -> Result<Reuse>,
    ) -> Result<Arc<Connection>> {
        let _turn = self.turn.take();
        let mut state = self.lock();
        let condition = state.condition();
        let with = decide(&mut state.reuse, &condition)?;
        let there = state.connection.clone().filter(|_| with == Reuse::Same);
        let old = if there.is_none() { state.connection.take() } else { None };
        state.signs_of_life = ConnectReport::default();
        let (closed, ended) = (state.closed, state.ended.as_ref().and_then(LaneEnd::error));
        drop(state);
        let outcome = match there {
            _ if closed => Err(over()),
            _ if ended.is_some() => Err(ended.unwrap_or_else(over)),
            Some(connection) => Ok(connection),
            None => {
                if let Some(old) = old {
                    old.lose("another executor takes its place");
                }
                self.connect_anew()
            }
        };
        outcome.map_err(|error| {
            self.end(device);
            error.node(&self.spec.node_name)
        })
    }

    fn connect_anew(&self) -> Result<Arc<Connection>> {
        let connection = opening(&self.spec.session.watchdog, &self.spec.node_name, || self.connect_with_retries())?;
        let mut state = self.lock();
        let (signs_of_life, closed, ended) =
            (std::mem::take(&mut state.signs_of_life), state.closed, state.ended.clone());
        if !closed {
            state.connection = Some(connection.clone());
        }
        drop(state);
        if closed {
            connection.close();
            return Err(over());
        }
        if signs_of_life.doubted {
            connection.doubt();
        }
        match ended {
            Some(end) => Err(connection.lose_to(&end)),
            None => Ok(connection),
        }
    }

    fn connect_with_retries(&self) -> Result<Arc<Connection>> {
        let begun = Instant::now();
        let mut backoff = Backoff::new(self.spec.open_limit, self.spec.session.id.0);
        let mut in_vain = false;
        loop {
            let error = match self.new_connection() {
                Ok(connection) => return Ok(connection),
                Err(error) if error.code() == ErrorCode::DeviceUnavailable => error,
                Err(error) => return Err(error),
            };
            if error.is_transient() {
                // A stopped coordinator announces the session to the agent when it continues.
                let Some(pause) = backoff.pause(begun.elapsed()).filter(|_| !self.is_over()) else { return Err(error) };
                std::thread::sleep(pause);
            } else if begun.elapsed() < IN_VAIN || std::mem::replace(&mut in_vain, true) {
                // A first failure without an answer may be due to a suspended process or an overloaded agent.
                return Err(error);
            }
        }
    }

    /// Whether a new connection would be useless.
    fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed || state.ended.is_some()
    }

    fn new_connection(&self) -> Result<Arc<Connection>> {
        let mut state = self.lock();
        let peer = PeerId::executor(self.spec.node, state.executors)?;
        state.executors += 1;
        drop(state);
        Connection::connect(self.spec.clone(), peer, self.exchange.clone())
    }

    /// Returns the connection, if there is one.
    pub(crate) fn connected(&self) -> Option<Arc<Connection>> {
        self.lock().connection.clone()
    }

    fn lock(&self) -> ShortGuard<'_, NodeConnection> {
        self.state.lock()
    }

    /// Records that the coordinator does not hear from the node, whose executor may be fine all the same.
    pub(crate) fn doubt(&self) {
        let mut state = self.lock();
        state.signs_of_life.doubted = true;
        let connection = state.connection.clone();
        drop(state);
        if let Some(connection) = connection {
            connection.doubt();
        }
    }

    /// Records that the session was ended from outside.
    pub(crate) fn lose(&self, why: &str) {
        let end = LaneEnd::Session(why.to_owned());
        let mut state = self.lock();
        state.ended = Some(end.clone());
        let connection = state.connection.clone();
        drop(state);
        if let Some(connection) = connection {
            connection.lose_to(&end);
        }
    }

    /// Sends the remaining frames and closes the connection for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let connection = state.connection.clone();
        drop(state);
        if let Some(connection) = connection {
            connection.close();
        }
    }

    /// Returns the traffic of this connection, as this side counts it.
    pub(crate) fn counters(&self) -> Counters {
        self.connected().map(|connection| connection.link.stats().read()).unwrap_or_default()
    }

    /// Returns the route of the lanes.
    ///
    /// # Errors
    /// Returns an error if there is no connection.
    pub(crate) fn route(&self) -> Result<Route> {
        let connection = self.connection_or_error()?;
        connection.link.route().cloned().ok_or_else(|| Error::new(ErrorCode::DeviceUnavailable, "it has no route"))
    }

    fn connection_or_error(&self) -> Result<Arc<Connection>> {
        self.connected().ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, "no device of it was started").node(&self.spec.node_name)
        })
    }

    /// Returns the traffic as the executor counts it: of its lanes to this program, and of its lanes to other
    /// executors.
    ///
    /// # Errors
    /// Returns an error if the connection is lost.
    pub(crate) fn executor_counters(&self) -> Result<(Counters, Counters)> {
        let connection = self.connection_or_error()?;
        let reply = connection.ask(|ticket| Command::Stats { ticket }, &[])?;
        let (program, rest) = Counters::decode(&reply.payload);
        Ok((program, Counters::decode(rest).0))
    }
}

fn over() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the session is over")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::SessionSpec;
    use crate::watchdog::Watchdog;
    use accord_fabric::route::{Endpoint, LaneTerms, TransportChoice};
    use accord_fabric::transport::PeerAddress;
    use accord_fabric::{Key, ProgramSpec};
    use accord_types::{NodeId, SessionId};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc;

    /// A time limit that nothing here reaches.
    const SOON: Duration = Duration::from_secs(5);

    fn node(address: &str) -> Arc<RemoteNode> {
        let spec = NodeSpec {
            node: NodeId(2),
            node_name: "h2".to_owned(),
            endpoint: Endpoint { node: NodeId(2), address: PeerAddress::new(address) },
            transport: LaneTerms::from(TransportChoice::Tcp),
            streams: 1,
            open_limit: Duration::ZERO,
            session: Arc::new(SessionSpec {
                id: SessionId(7),
                key: Key::random().unwrap(),
                program: ProgramSpec::default(),
                images: Arc::default(),
                trace: None,
                same_host: None,
                watchdog: Watchdog::new(None),
                world_news: Arc::default(),
                executor_ends: Arc::default(),
                next_transfer: AtomicU64::new(1),
            }),
        };
        RemoteNode::new(spec, Exchange::new())
    }

    /// An agent that accepts the connection and stays silent delays only the connecting thread. Reports on other nodes
    /// arrive on one common thread.
    #[test]
    fn node_report_does_not_wait_for_a_connecting_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = node(&listener.local_addr().unwrap().to_string());
        std::thread::scope(|scope| {
            let starts = scope.spawn(|| node.start(0, "dev0", |_| Ok(())));
            let (taken, _) = listener.accept().unwrap();
            let (signs_of_life, all) = mpsc::channel();
            let node = &node;
            let hears = scope.spawn(move || {
                node.doubt();
                node.lose("an administrator has ended it");
                assert!(node.connected().is_none());
                signs_of_life.send(()).unwrap();
            });
            let signs_of_life = all.recv_timeout(SOON / 2);
            // The attempt fails, and no thread tries again.
            drop((taken, listener));
            assert!(starts.join().unwrap().is_err());
            hears.join().unwrap();
            signs_of_life.expect("it waited for the one who connects");
        });
    }
}
