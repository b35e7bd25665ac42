//! The way to one node's executor, connected at its first use.

use super::live::Live;
use accord_device::cuda::Neighbors;
use accord_device::image::Images;
use accord_fabric::exchange::Exchange;
use accord_fabric::stats::Counters;
use accord_fabric::wire::Command;
use accord_fabric::{Key, ProgramSpec};
use accord_types::{NodeId, Result, SessionId, SpanSink, TransferId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a link needs to know.
pub(crate) struct LinkSpec {
    pub(crate) node: NodeId,
    pub(crate) node_name: String,
    /// `host:port` of the node's agent.
    pub(crate) address: String,
    pub(crate) session: SessionId,
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
    live: Mutex<Option<Arc<Live>>>,
}

impl Link {
    pub(crate) fn new(spec: LinkSpec, exchange: Arc<Exchange>) -> Arc<Self> {
        Arc::new(Self { spec: Arc::new(spec), exchange, live: Mutex::default() })
    }

    /// The connection, made now if need be. A lost one stays lost: its queues and memory are gone.
    ///
    /// # Errors
    /// `acc_error_device_unavailable` if the agent can't be reached or refuses.
    pub(crate) fn live(&self) -> Result<Arc<Live>> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let connected = Live::connect(self.spec.clone(), self.exchange.clone())
            .map_err(|error| error.node(&self.spec.node_name))?;
        Ok(live.insert(connected).clone())
    }

    /// The connection, if it was ever made.
    pub(crate) fn connected(&self) -> Option<Arc<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The coordinator says that the node is lost.
    pub(crate) fn lose(&self, why: &str) {
        if let Some(live) = self.connected() {
            live.lose(why);
        }
    }

    /// Sends what is left and closes the connection.
    pub(crate) fn close(&self) {
        if let Some(live) = self.connected() {
            live.close();
        }
    }

    /// What went over this link, as this side counts it.
    pub(crate) fn counters(&self) -> Counters {
        self.connected().map(|live| live.stats.read()).unwrap_or_default()
    }

    /// As the executor counts: its lanes to this program, and its lanes to other executors.
    ///
    /// # Errors
    /// When the link is lost.
    pub(crate) fn executor_counters(&self) -> Result<(Counters, Counters)> {
        let reply = self.live()?.ask(|ticket| Command::Stats { ticket }, &[])?;
        let (program, rest) = Counters::decode(&reply.payload);
        Ok((program, Counters::decode(rest).0))
    }
}
