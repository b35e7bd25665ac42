//! The way to one node's executor, connected at its first use, and anew to another one if that is lost.

use super::connection::Connection;
use super::node_spec::NodeSpec;
use super::opening::opening;
use super::reuse_policy::{Condition, Reuse, ReusePolicy};
use accord_fabric::frame::Command;
use accord_fabric::peer::PeerId;
use accord_fabric::route::Route;
use accord_fabric::stats::Counters;
use accord_fabric::transfer::Exchange;
use accord_types::{Error, ErrorCode, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A try to connect that fails after so long was not refused, and is made again, once.
const IN_VAIN: Duration = Duration::from_secs(1);

/// The way to one node's executor.
pub(crate) struct RemoteNode {
    pub(crate) spec: Arc<NodeSpec>,
    exchange: Arc<Exchange>,
    state: Mutex<NodeConnection>,
}

#[derive(Default)]
struct NodeConnection {
    connection: Option<Arc<Connection>>,
    reuse: ReusePolicy,
    /// Executors that this node has had for the session.
    executors: u32,
    /// The session is over.
    closed: bool,
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
        Arc::new(Self { spec: Arc::new(spec), exchange, state: Mutex::default() })
    }

    /// Starts a device by `open`, over the connection that there is, or a new one: the first, or one to a new
    /// executor if the old one or the device is lost. `name` is the device's for messages.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` if the agent can't be reached or refuses, or if other devices hold on to a lost
    /// executor; those of `open`.
    pub(crate) fn start(&self, device: u32, name: &str, open: impl Fn(&Arc<Connection>) -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        let condition = state.condition();
        let with = state.reuse.begin(device, name, &condition)?;
        let connection = self.connection(&mut state, with).inspect_err(|_| state.reuse.end(device))?;
        drop(state);
        let error = match open(&connection) {
            Ok(()) => {
                self.opened(device);
                return Ok(());
            }
            Err(error) => error,
        };
        let mut state = self.lock();
        let condition = state.condition();
        let with = state.reuse.failed(device, &condition, error)?;
        let connection = self.connection(&mut state, with).inspect_err(|_| state.reuse.end(device))?;
        drop(state);
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

    /// A device was shut down.
    pub(crate) fn end(&self, device: u32) {
        self.lock().reuse.end(device);
    }

    fn opened(&self, device: u32) {
        self.lock().reuse.opened(device);
    }

    fn connection(&self, state: &mut NodeConnection, with: Reuse) -> Result<Arc<Connection>> {
        if state.closed {
            return Err(Error::new(ErrorCode::DeviceShutdown, "the session is over").node(&self.spec.node_name));
        }
        if with == Reuse::Same
            && let Some(connection) = &state.connection
        {
            return Ok(connection.clone());
        }
        if let Some(old) = state.connection.take() {
            old.lose("another executor takes its place");
        }
        let begun = Instant::now();
        let connection = opening(&self.spec.watchdog, &self.spec.node_name, || match self.new_connection(state) {
            // Nobody has refused it: this process may have slept meanwhile, or the agent had more to do than it could.
            Err(error) if error.code() == ErrorCode::DeviceUnavailable && begun.elapsed() >= IN_VAIN => {
                self.new_connection(state)
            }
            outcome => outcome,
        });
        let connection = connection.map_err(|error| error.node(&self.spec.node_name))?;
        Ok(state.connection.insert(connection).clone())
    }

    fn new_connection(&self, state: &mut NodeConnection) -> Result<Arc<Connection>> {
        let peer = PeerId::executor(self.spec.node, state.executors)?;
        state.executors += 1;
        Connection::connect(self.spec.clone(), peer, self.exchange.clone())
    }

    /// The connection, if there is one.
    pub(crate) fn connected(&self) -> Option<Arc<Connection>> {
        self.lock().connection.clone()
    }

    fn lock(&self) -> MutexGuard<'_, NodeConnection> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coordinator hears nothing of the node. Its executor may be well all the same.
    pub(crate) fn doubt(&self) {
        if let Some(connection) = self.connected() {
            connection.doubt();
        }
    }

    /// Somebody has ended the session.
    pub(crate) fn lose(&self, why: &str) {
        if let Some(connection) = self.connected() {
            connection.lose(why);
        }
    }

    /// Sends what is left and closes the connection, for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let connection = state.connection.clone();
        drop(state);
        if let Some(connection) = connection {
            connection.close();
        }
    }

    /// What went over this connection, as this side counts it.
    pub(crate) fn counters(&self) -> Counters {
        self.connected().map(|connection| connection.link.stats().read()).unwrap_or_default()
    }

    /// How the lanes go.
    ///
    /// # Errors
    /// When there is no connection.
    pub(crate) fn route(&self) -> Result<Route> {
        let connection = self.connection_or_error()?;
        connection.link.route().cloned().ok_or_else(|| Error::new(ErrorCode::DeviceUnavailable, "it has no route"))
    }

    fn connection_or_error(&self) -> Result<Arc<Connection>> {
        self.connected().ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, "no device of it was started").node(&self.spec.node_name)
        })
    }

    /// As the executor counts: its lanes to this program, and its lanes to other executors.
    ///
    /// # Errors
    /// When the connection is lost.
    pub(crate) fn executor_counters(&self) -> Result<(Counters, Counters)> {
        let connection = self.connection_or_error()?;
        let reply = connection.ask(|ticket| Command::Stats { ticket }, &[])?;
        let (program, rest) = Counters::decode(&reply.payload);
        Ok((program, Counters::decode(rest).0))
    }
}
