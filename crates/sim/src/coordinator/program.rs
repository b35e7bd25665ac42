//! A model of a program.

use accord_cluster::ClientId;
use accord_types::{DeviceId, DeviceKind, NodeId, OrderPolicy, Rank, SessionId, SessionRequest};
use std::collections::{BTreeMap, BTreeSet};

/// One program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) request: SessionRequest,
    pub(super) alive: bool,
    /// The connection that the program has or tries to make.
    pub(super) client: Option<ClientId>,
    pub(super) session: Option<SessionId>,
    /// Whether the coordinator has confirmed on this connection that the session is the program's.
    pub(super) attached: bool,
    /// Whether the program knows that its session has ended.
    pub(super) notified_of_end: bool,
    /// Devices that the coordinator has granted.
    pub(super) used: BTreeSet<DeviceId>,
    /// Requested devices, with the agent (by index) that the program connects to after the grant.
    pub(super) asked: BTreeMap<DeviceId, usize>,
    /// The reason for each agent whose node's devices were refused.
    pub(super) refused: BTreeMap<usize, String>,
    /// Agents (by index) with an executor that the program is connected to.
    pub(super) connected: BTreeSet<usize>,
    /// Nodes that were reported lost.
    pub(super) lost: BTreeSet<NodeId>,
}

impl Program {
    pub(super) fn new(index: usize, node_name: String, order: OrderPolicy, kind: Option<DeviceKind>) -> Self {
        let place = u32::try_from(index).unwrap_or(0);
        let rank = index.is_multiple_of(2).then_some(Rank {
            rank: place % 4,
            size: 4,
            local_rank: place % 2,
            local_size: 2,
            job: 0,
        });
        // Some programs request devices of their own.
        let devices =
            (index % 5 == 1 && rank.is_none()).then(|| if index % 10 == 1 { "1:cpu" } else { "1-2:cpu" }.to_owned());
        let request =
            SessionRequest { node_name, pid: place, program: "app".into(), rank, kind, order, devices, job: None };
        Self {
            request,
            alive: true,
            client: None,
            session: None,
            attached: false,
            notified_of_end: false,
            used: BTreeSet::new(),
            asked: BTreeMap::new(),
            refused: BTreeMap::new(),
            connected: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }
}
