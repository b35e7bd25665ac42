//! The lease that programs without a request share: all devices that no job holds exclusively.
//!
//! A session with this lease opens in a few steps, however many devices there are. Its program gets the list of
//! devices. A node's agent learns of the session when the program is about to use the node, see [`super::first_uses`].

use super::node::{Node, device_of};
use super::order::{Viewer, number_devices};
use super::session::{LeaseTerms, Origin, Session};
use super::state::Cluster;
use super::steps::counted;
use accord_fabric::frame::session::DEVICES_MAX;
use accord_types::{
    Count, DeviceId, DeviceInfo, DeviceKind, Error, ErrorCode, Lease, LeasedDevice, NodeId, SessionId, SessionRequest,
};
use std::sync::Arc;

impl Cluster {
    /// Returns the terms for a program without a request, if a device is available.
    pub(super) fn share(&mut self, request: &SessionRequest) -> Result<LeaseTerms, Error> {
        if !self.offers(request.kind) {
            return Err(self.nothing_to_lease(request));
        }
        Ok(self.lease_of(Vec::new()))
    }

    /// Whether nodes offer a device of a kind, or of any kind, to programs without a request.
    fn offers(&mut self, kind: Option<DeviceKind>) -> bool {
        if self.nodes.offered(kind) == 0 {
            return false;
        }
        let version = (self.version, self.allocations.freed);
        if self.exhausted.get(&kind) == Some(&version) {
            return false;
        }
        let offers = |node: &&Node| {
            let mut devices = counted(node.devices.iter()).filter(|device| kind.is_none_or(|kind| device.kind == kind));
            node.takes_sessions() && devices.any(|device| self.allocations.is_shared(device.id))
        };
        // Most searches end at the node where the previous one ended.
        let from = self.offering.get(&kind).copied().unwrap_or(NodeId(0));
        let found = self.nodes.from(from).find(offers).or_else(|| self.nodes.values().find(offers)).map(|node| node.id);
        self.offering.extend(found.map(|node| (kind, node)));
        self.exhausted.extend(found.is_none().then_some((kind, version)));
        found.is_some()
    }

    /// Returns the number of devices offered to programs without a request, up to the size of one answer. It includes
    /// devices that jobs hold exclusively.
    pub(super) fn device_count(&self, kind: Option<DeviceKind>) -> usize {
        self.nodes.offered(kind).min(DEVICES_MAX)
    }

    /// Returns the number of devices of a session. A program without a request that has reconnected after a restart has
    /// those that are offered now, because this coordinator did not number them.
    pub fn device_count_of(&self, session: &Session) -> usize {
        match session.origin {
            Origin::Agent | Origin::Program if session.is_shared() => self.device_count(session.kind),
            _ => session.device_count,
        }
    }

    /// Returns the part that a session's job has asked for of the time of devices which it shares with other jobs, in
    /// thousandths. `None` if there are none, or the job has asked for their memory only.
    pub fn share_of(&self, session: &Session) -> Option<u32> {
        let job = self.allocations.job(self.allocations.job_by_key(session.job?)?)?;
        let shared = job.devices().iter().filter(|leased| !leased.exclusive && leased.amount.milli > 0);
        shared.map(|leased| leased.amount.milli).min()
    }

    fn nothing_to_lease(&self, request: &SessionRequest) -> Error {
        let (up, draining) = (self.nodes.up(), self.nodes.draining());
        if up == 0 {
            return Error::new(ErrorCode::DeviceUnavailable, "the cluster has no node whose agent lives")
                .remedy("start accord-node-agent on the nodes and look with `accord info`");
        }
        let what = match request.kind {
            None => "device".to_owned(),
            Some(kind) => kind.to_string(),
        };
        Error::new(
            ErrorCode::DeviceTypeUnavailable,
            format!("no node of the cluster offers a {what}: it has {} ({draining} draining)", Count(up, "node")),
        )
        .remedy("ask for another device type, or look with `accord info`")
    }

    /// Returns the devices in the order in which a process would number them if it opened a session now.
    pub fn numbering(&self, viewer: &Viewer<'_>) -> Vec<DeviceId> {
        self.numbering_and_rest(viewer).0
    }

    /// Returns the numbering, and the number of devices beyond what one answer lists.
    fn numbering_and_rest(&self, viewer: &Viewer<'_>) -> (Vec<DeviceId>, usize) {
        let usable = self.nodes.values().filter(|node| node.takes_sessions());
        number_devices(usable, viewer, DEVICES_MAX, |device| self.allocations.is_shared(device))
    }

    /// Returns the lease for a session's program.
    pub fn lease(&self, id: SessionId) -> Option<Lease> {
        self.lease_draft(id).map(LeaseDraft::lease)
    }

    /// Returns the lease for a session that opens now, still without descriptions of its devices.
    pub fn lease_draft(&self, id: SessionId) -> Option<LeaseDraft> {
        let session = self.sessions.get(&id)?;
        let (numbers, rest) = match session.is_shared() {
            true => self.numbering_and_rest(&session.viewer()),
            false => (session.lease.devices.clone(), 0),
        };
        let job = session.job.and_then(|key| self.allocations.job(self.allocations.job_by_key(key)?));
        let (mut nodes, mut devices): (Vec<NodeOfLease>, _) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for device in numbers {
            let Some(node) = self.nodes.get(&device.node) else { continue };
            if nodes.last().is_none_or(|last| last.id != node.id) {
                let (id, address) = (node.id, node.address.clone());
                nodes.push(NodeOfLease { id, address, devices: Arc::clone(&node.devices) });
            }
            let is_shared = job.is_some_and(|job| job.shares(device));
            devices.push(DeviceOfLease { node: nodes.len() - 1, ordinal: device.ordinal, is_shared });
        }
        let lease = Lease {
            session: id,
            key: session.owner.key,
            own_node: self.nodes.named(&session.node_name),
            devices: Vec::new(),
            memory_quota: session.lease.memory_quota,
            stream_quota: session.lease.stream_quota,
            plain_tcp: session.lease.plain_tcp,
            is_of_job: !session.is_shared(),
        };
        Some(LeaseDraft { lease, nodes, devices, rest })
    }
}

/// A lease without the descriptions of its devices, of which there may be tens of thousands. The driver makes it under its lock, and has the
/// descriptions copied later.
#[derive(Debug)]
pub struct LeaseDraft {
    /// The lease without devices.
    lease: Lease,
    nodes: Vec<NodeOfLease>,
    devices: Vec<DeviceOfLease>,
    rest: usize,
}

/// A node of a lease.
#[derive(Debug)]
struct NodeOfLease {
    id: NodeId,
    /// `host:port` of its agent.
    address: String,
    /// All of its devices.
    devices: Arc<Vec<DeviceInfo>>,
}

/// A device of a lease.
#[derive(Debug)]
struct DeviceOfLease {
    /// The position of its node in the draft.
    node: usize,
    ordinal: u32,
    is_shared: bool,
}

impl LeaseDraft {
    /// Returns a warning to the program if one answer does not list all devices.
    pub fn warning(&self) -> Option<String> {
        (self.rest > 0).then(|| left_out(self.devices.len(), self.rest))
    }

    /// Returns the lease with its devices.
    pub fn lease(self) -> Lease {
        let described = self.devices.iter().filter_map(|device| {
            let node = &self.nodes[device.node];
            let info = device_of(&node.devices, device.ordinal)?.clone();
            Some(LeasedDevice { info, address: node.address.clone(), is_shared: device.is_shared })
        });
        Lease { devices: described.collect(), ..self.lease }
    }
}

impl Session {
    /// Whether the session has the shared lease, because its program has no request.
    pub(super) fn is_shared(&self) -> bool {
        self.job.is_none() && !self.asked
    }

    fn viewer(&self) -> Viewer<'_> {
        Viewer { node_name: &self.node_name, rank: self.rank, kind: self.kind, order: self.order }
    }
}

/// Returns the message to a program about devices without a number.
fn left_out(listed: usize, rest: usize) -> String {
    format!(
        "the cluster offers {}, and a program gets {listed} at most: those of its own node and of the nodes that follow it; \
         ask for other devices by ACCORD_DEVICES",
        Count(listed + rest, "device"),
    )
}
