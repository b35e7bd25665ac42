//! The properties of a node that are known before it is connected.

use crate::executor_ends::ExecutorEnds;
use crate::lost_nodes::LostNodes;
use crate::watchdog::Watchdog;
use accord_device::SameHostPeers;
use accord_device::image::Images;
use accord_fabric::route::{Endpoint, LaneTerms};
use accord_fabric::{Key, ProgramSpec};
use accord_types::{NodeId, SessionId, SpanSink, TransferId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// One node of the session.
pub(crate) struct NodeSpec {
    pub(crate) node: NodeId,
    pub(crate) node_name: String,
    /// The endpoint of the node's agent.
    pub(crate) endpoint: Endpoint,
    /// The possible transports of the lanes.
    pub(crate) transport: LaneTerms,
    /// Number of the program's streams on a device; further queues share them.
    pub(crate) streams: usize,
    /// The time for which opening is retried while the agent refuses temporarily: it may not know the session yet.
    pub(crate) open_limit: Duration,
    pub(crate) session: Arc<SessionSpec>,
}

/// The properties of a session that all its nodes share.
pub(crate) struct SessionSpec {
    pub(crate) id: SessionId,
    pub(crate) key: Key,
    pub(crate) program: ProgramSpec,
    /// The program's code for GPUs.
    pub(crate) images: Arc<Images>,
    pub(crate) trace: Option<Arc<dyn SpanSink>>,
    /// Processes of this machine, if GPUs of this process copy to theirs directly.
    pub(crate) same_host: Option<Arc<SameHostPeers>>,
    /// Checks whether executors live.
    pub(crate) watchdog: Arc<Watchdog>,
    /// The dead nodes of an MPI job.
    pub(crate) world_news: Arc<LostNodes>,
    /// The reasons for which executors have ended.
    pub(crate) executor_ends: Arc<ExecutorEnds>,
    /// Number of the next transfer: they are unique in the session.
    pub(crate) next_transfer: AtomicU64,
}

impl NodeSpec {
    /// Returns the next transfer's number.
    pub(crate) fn transfer(&self) -> TransferId {
        TransferId(self.session.next_transfer.fetch_add(1, Ordering::Relaxed))
    }
}
