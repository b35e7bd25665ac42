//! Sessions open and end.

use super::effect::{AgentOrder, DoorPush, Effect};
use super::input::DoorId;
use super::node::Node;
use super::order::Viewer;
use super::session::{LeaseTerms, Session};
use super::state::Cluster;
use super::time::Millis;
use accord_types::{Count, DeviceId, DeviceKind, Error, ErrorCode, SessionId, SessionRequest};
use std::collections::BTreeSet;

impl Cluster {
    pub(super) fn open(&mut self, now: Millis, door: DoorId, request: SessionRequest, out: &mut Vec<Effect>) {
        match self.place(door, &request) {
            Ok(lease) => self.grant(now, door, request, lease, out),
            Err(error) => out.push(Effect::ToDoor(door, DoorPush::Refused(error))),
        }
    }

    /// Finds the devices for a request. All devices are shared for now, so all that fit are its.
    fn place(&self, door: DoorId, request: &SessionRequest) -> Result<LeaseTerms, Error> {
        if self.doors.contains_key(&door) {
            return Err(Error::new(ErrorCode::InvalidArgument, "this connection has a session already"));
        }
        let max = self.limits.sessions_max;
        if self.sessions.len() >= max {
            return Err(Error::new(
                ErrorCode::DeviceUnavailable,
                format!("the cluster is full: it allows {}", Count(max, "session")),
            )
            .remedy("try again when other programs have ended"));
        }
        let viewer =
            Viewer { node_name: &request.node_name, rank: request.rank, kind: request.kind, order: request.order };
        let devices = self.numbering(&viewer);
        if devices.is_empty() {
            return Err(self.nothing_to_lease(request));
        }
        Ok(LeaseTerms { devices, memory_quota: self.limits.memory_quota, stream_quota: self.limits.stream_quota })
    }

    fn nothing_to_lease(&self, request: &SessionRequest) -> Error {
        let count = |test: fn(&Node) -> bool| self.nodes.values().filter(|node| test(node)).count();
        let (up, draining) = (count(Node::is_up), count(|node| node.is_up() && node.draining));
        if up == 0 {
            return Error::new(ErrorCode::DeviceUnavailable, "the cluster has no node whose agent lives")
                .remedy("start accord-node-agent on the nodes and look with `accord info`");
        }
        let what = match request.kind {
            None => "device",
            Some(DeviceKind::Cpu) => "CPU device",
            Some(DeviceKind::Cuda) => "GPU",
        };
        Error::new(
            ErrorCode::DeviceTypeUnavailable,
            format!("no node of the cluster offers a {what}: it has {} ({draining} draining)", Count(up, "node")),
        )
        .remedy("ask for another device type, or look with `accord info`")
    }

    fn grant(&mut self, now: Millis, door: DoorId, request: SessionRequest, lease: LeaseTerms, out: &mut Vec<Effect>) {
        let id = self.mint_session();
        let opened = self.started_unix_ms + now.0;
        let session = Session::open(id, door, request, lease, now, opened);
        for node in session.nodes.keys() {
            if let Some(link) = self.nodes.get(node).and_then(Node::link) {
                out.push(Effect::ToAgent(link, AgentOrder::SessionOpened(session.grant(*node))));
            }
        }
        out.push(Effect::ToDoor(door, DoorPush::Granted(id)));
        out.push(Effect::Changed);
        self.doors.insert(door, id);
        self.sessions.insert(id, session);
    }

    /// Several ranks of a node that crowd on one device while others idle are told so, once:
    /// almost always they forgot to choose by their local rank.
    pub(super) fn uses(&mut self, door: DoorId, device: u32, out: &mut Vec<Effect>) {
        let Some(session) = self.doors.get(&door).and_then(|id| self.sessions.get_mut(id)) else { return };
        let chosen = usize::try_from(device).ok().and_then(|index| session.lease.devices.get(index));
        let Some(&chosen) = chosen else { return };
        session.uses = Some(chosen);
        let (Some(_), id, node_name) = (session.rank, session.id, session.node_name.clone()) else { return };

        let ranks = self
            .sessions
            .values()
            .filter(|other| other.rank.is_some() && other.node_name == node_name)
            .filter(|other| other.uses == Some(chosen))
            .count();
        let used: BTreeSet<DeviceId> = self.sessions.values().filter_map(|other| other.uses).collect();
        let idle = self
            .sessions
            .get(&id)
            .map_or(0, |session| session.lease.devices.iter().filter(|device| !used.contains(device)).count());
        if ranks > 1 && idle > 0 && self.warned.insert(node_name.clone()) {
            let text = format!(
                "{ranks} ranks of node {node_name} use device number {device} while {idle} devices are idle; \
                 call acc_set_device_num(local_rank % acc_get_num_devices(type), type), \
                 or set ACCORD_DEVICE_ORDER=rank"
            );
            out.push(Effect::ToDoor(door, DoorPush::Warning(text)));
        }
    }

    pub(super) fn door_closed(&mut self, door: DoorId, out: &mut Vec<Effect>) {
        if let Some(&id) = self.doors.get(&door) {
            self.end(id, out);
        }
    }

    /// An administrator ends a session.
    pub(super) fn close(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        if let Some(door) = self.sessions.get(&id).and_then(|session| session.door) {
            let text = format!("an administrator has closed session {id}");
            out.push(Effect::ToDoor(door, DoorPush::Ended(text)));
        }
        self.end(id, out);
    }

    /// Ends a session: its executors are killed and its program's connection is closed.
    pub(super) fn end(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        let Some(session) = self.sessions.remove(&id) else { return };
        for node in session.nodes.keys().filter(|node| !session.lost.contains(node)) {
            if let Some(link) = self.nodes.get(node).and_then(Node::link) {
                out.push(Effect::ToAgent(link, AgentOrder::SessionClosed(id)));
            }
        }
        for node in &session.executors {
            if let Some(known) = self.executing.get_mut(node) {
                known.remove(&id);
                if known.is_empty() {
                    self.executing.remove(node);
                }
            }
        }
        if let Some(door) = session.door {
            self.doors.remove(&door);
            out.push(Effect::CloseDoor(door));
        }
        if !self.has_ended(id) {
            if self.ended.len() >= self.limits.ended_max {
                self.ended.pop_front();
            }
            self.ended.push_back(id);
        }
        if !self.sessions.values().any(|other| other.node_name == session.node_name) {
            self.warned.remove(&session.node_name);
        }
        out.push(Effect::Changed);
    }
}
