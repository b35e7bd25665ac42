//! The way to one node's executor, connected at its first use, and anew to another one if that is lost.

use super::live::Live;
use super::users::{Condition, Users, With};
use accord_device::cuda::Neighbors;
use accord_device::image::Images;
use accord_fabric::exchange::Exchange;
use accord_fabric::stats::Counters;
use accord_fabric::wire::{self, Command};
use accord_fabric::{Key, ProgramSpec};
use accord_types::{Error, ErrorCode, NodeId, Result, SessionId, SpanSink, TransferId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a link needs to know.
pub(crate) struct LinkSpec {
    pub(crate) node: NodeId,
    pub(crate) node_name: String,
    /// `host:port` of the node's agent.
    pub(crate) address: String,
    pub(crate) session: SessionId,
    /// Streams that the program's queues have on a device; more queues share them.
    pub(crate) streams: usize,
    pub(crate) key: Key,
    pub(crate) program: Arc<ProgramSpec>,
    /// The program's code for GPUs.
    pub(crate) images: Arc<Images>,
    pub(crate) trace: Option<Arc<dyn SpanSink>>,
    /// Processes of this machine, if GPUs of this one copy to theirs directly.
    pub(crate) neighbors: Option<Arc<Neighbors>>,
    /// Transfers are numbered through the whole session.
    pub(crate) transfers: Arc<AtomicU64>,
}

impl LinkSpec {
    /// The next transfer.
    pub(crate) fn transfer(&self) -> TransferId {
        TransferId(self.transfers.fetch_add(1, Ordering::Relaxed))
    }
}

/// The way to one node's executor.
pub(crate) struct Link {
    pub(crate) spec: Arc<LinkSpec>,
    exchange: Arc<Exchange>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    live: Option<Arc<Live>>,
    users: Users,
    /// Executors that this link has had.
    executors: u32,
    /// The session is over.
    closed: bool,
}

impl State {
    fn condition(&self) -> Condition {
        match &self.live {
            None => Condition::Absent,
            Some(live) => live.core().check().map_or_else(Condition::Lost, |()| Condition::Well),
        }
    }
}

impl Link {
    pub(crate) fn new(spec: LinkSpec, exchange: Arc<Exchange>) -> Arc<Self> {
        Arc::new(Self { spec: Arc::new(spec), exchange, state: Mutex::default() })
    }

    /// Starts a device by `open`, over the connection that there is, or a new one: the first, or one to a new
    /// executor if the old one or the device is lost. `name` is the device's for messages.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` if the agent can't be reached or refuses, or if other devices hold on to a lost
    /// executor; those of `open`.
    pub(crate) fn start(&self, device: u32, name: &str, open: impl Fn(&Arc<Live>) -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        let condition = state.condition();
        let with = state.users.begin(device, name, &condition)?;
        let live = self.connection(&mut state, with).inspect_err(|_| state.users.end(device))?;
        drop(state);
        let error = match open(&live) {
            Ok(()) => return self.opened(device),
            Err(error) => error,
        };
        let mut state = self.lock();
        let condition = state.condition();
        let with = state.users.failed(device, &condition, error)?;
        let live = self.connection(&mut state, with).inspect_err(|_| state.users.end(device))?;
        drop(state);
        match open(&live) {
            Ok(()) => self.opened(device),
            Err(error) => {
                self.end(device);
                Err(error)
            }
        }
    }

    /// A device was shut down.
    pub(crate) fn end(&self, device: u32) {
        self.lock().users.end(device);
    }

    fn opened(&self, device: u32) -> Result<()> {
        self.lock().users.opened(device);
        Ok(())
    }

    fn connection(&self, state: &mut State, with: With) -> Result<Arc<Live>> {
        if state.closed {
            return Err(Error::new(ErrorCode::DeviceShutdown, "the session is over").node(&self.spec.node_name));
        }
        if with == With::This
            && let Some(live) = &state.live
        {
            return Ok(live.clone());
        }
        if let Some(old) = state.live.take() {
            old.lose("another executor takes its place");
        }
        let party = wire::party(self.spec.node, state.executors).map_err(|error| error.node(&self.spec.node_name))?;
        state.executors += 1;
        let live = Live::connect(self.spec.clone(), party, self.exchange.clone())
            .map_err(|error| error.node(&self.spec.node_name))?;
        Ok(state.live.insert(live).clone())
    }

    /// The connection, if there is one.
    pub(crate) fn connected(&self) -> Option<Arc<Live>> {
        self.lock().live.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The coordinator says that the node is lost.
    pub(crate) fn lose(&self, why: &str) {
        if let Some(live) = self.connected() {
            live.lose(why);
        }
    }

    /// Sends what is left and closes the connection, for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let live = state.live.clone();
        drop(state);
        if let Some(live) = live {
            live.close();
        }
    }

    /// What went over this connection, as this side counts it.
    pub(crate) fn counters(&self) -> Counters {
        self.connected().map(|live| live.stats.read()).unwrap_or_default()
    }

    /// As the executor counts: its lanes to this program, and its lanes to other executors.
    ///
    /// # Errors
    /// When the link is lost.
    pub(crate) fn executor_counters(&self) -> Result<(Counters, Counters)> {
        let live = self.connected().ok_or_else(|| {
            Error::new(ErrorCode::DeviceUnavailable, "no device of it was started").node(&self.spec.node_name)
        })?;
        let reply = live.ask(|ticket| Command::Stats { ticket }, &[])?;
        let (program, rest) = Counters::decode(&reply.payload);
        Ok((program, Counters::decode(rest).0))
    }
}
