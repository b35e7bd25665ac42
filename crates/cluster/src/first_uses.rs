//! First uses of devices by programs. A program without a request asks before it uses a device, because a job may hold
//! the device exclusively. The first use also informs the agent of the device's node of the session.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::input::ClientId;
use super::session::{Origin, Ranks, Session};
use super::session_end::SessionEnd;
use super::state::Cluster;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{DrainTarget, JobId};
use accord_types::{Count, DeviceId, Error, ErrorCode, NodeId, Rank, SessionId};
use std::collections::BTreeSet;

/// Most devices on unregistered nodes that a reconnected program may use.
const UNKNOWN_MAX: usize = 1_024;
/// Most nodes and devices that are searched for idle devices while there are reservations.
const IDLE_CHECKS_MAX: usize = 128;

impl Cluster {
    /// Answers whether a program may use a device. It may not if the device was given to a job exclusively, reserved or
    /// drained since the program's session opened.
    pub(super) fn may_use(&mut self, now: Millis, client: ClientId, device: DeviceId, out: &mut Vec<Effect>) {
        if self.is_awaited(now, client, device) {
            self.held_uses.push(client, device);
            return;
        }
        let error = self.refused_use(client, device);
        if error.is_none() {
            self.uses(now, client, device, out);
        }
        out.push(Effect::ToClient(client, ClientPush::UseAnswered(device, error)));
    }

    /// Whether the agent of a device's node may be about to reconnect after this coordinator's start, so that the
    /// answer must wait.
    fn is_awaited(&self, now: Millis, client: ClientId, device: DeviceId) -> bool {
        let session = self.clients.get(&client).and_then(|id| self.sessions.get(id));
        let begins = session.is_some_and(|session| session.is_shared() && !session.used.contains(&device));
        let is_unknown = self.nodes.get(&device.node).is_none();
        begins && is_unknown && self.may_be_named(now) && self.held_uses.has_space(client)
    }

    /// Answers the waiting queries about devices of a node whose agent is back, or of all nodes.
    pub(super) fn answer_held_uses(&mut self, now: Millis, node: Option<NodeId>, out: &mut Vec<Effect>) {
        for (device, client) in self.held_uses.take(node) {
            self.may_use(now, client, device, out);
        }
    }

    /// Notes the devices that a reconnected program uses, so that no job gets them. A session that this coordinator has
    /// opened must request each device again: the message can't name a device that the program may not use.
    pub(super) fn in_use(&mut self, now: Millis, client: ClientId, devices: &[DeviceId], out: &mut Vec<Effect>) {
        let Some(id) = self.clients.get(&client).copied() else { return };
        for &device in devices {
            let Some(session) = self.sessions.get(&id).filter(|session| session.is_shared()) else { return };
            if session.used.contains(&device) || session.freed.contains(&device) {
                continue;
            }
            if session.origin == Origin::Own {
                self.may_use(now, client, device, out);
                continue;
            }
            if let Some(holder) = self.allocations.owner_of(device) {
                return self.end_for_holder(id, device, holder, out);
            }
            self.begin_use(now, id, device, out);
        }
    }

    /// Returns the error if a program without a request may not begin to use a device.
    fn refused_use(&self, client: ClientId, device: DeviceId) -> Option<Error> {
        let session = self.sessions.get(self.clients.get(&client)?)?;
        if !session.is_shared() || session.used.contains(&device) {
            return None;
        }
        self.taken(device).or_else(|| self.absent(session, device))
    }

    /// Returns the error of a device that is not available to programs without a request.
    fn taken(&self, device: DeviceId) -> Option<Error> {
        let node = self.nodes.get(&device.node).map_or("?", |node| node.name.as_str());
        let called = format!("device {} of node {node}", device.ordinal);
        let scheduler = self.scheduler();
        let (cause, remedy) = if let Some(holder) = self.allocations.owner_of(device) {
            (format!("job {holder} has {called} to itself"), "use another device, or ask for devices by ACCORD_DEVICES")
        } else if let Some(reservation) = scheduler.reservation_of(device) {
            let name = &reservation.name;
            let times = self.reservation_times(self.allocations.now, name);
            let until = times.map_or_else(String::new, |(_, ends)| format!(" until {ends}"));
            (format!("the reservation {name} has {called}{until}"), "use another device")
        } else if scheduler.is_drained(DrainTarget::Device(device)) {
            (format!("{called} is drained"), "use another device")
        } else if let Some(quarantine) = scheduler.quarantine_of(device) {
            (format!("{called} is in quarantine: {}", quarantine.reason), "use another device")
        } else {
            return None;
        };
        Some(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy).node(node))
    }

    /// Returns the error of a device whose node's agent can't be informed of the session. Programs drive devices of
    /// their own node without the agent.
    fn absent(&self, session: &Session, device: DeviceId) -> Option<Error> {
        let Some(node) = self.nodes.get(&device.node) else {
            // The node is known from an earlier coordinator only. It may be the program's own node, which has not
            // registered yet.
            let may_be_own = session.origin != Origin::Own && self.nodes.named(&session.node_name).is_none();
            let error = || Error::new(ErrorCode::DeviceUnavailable, "the device's node is not known any more");
            return (!may_be_own).then(error).map(|error| error.remedy("use another device"));
        };
        let name = node.name.as_str();
        let is_there = node.is_up() && !session.lost.contains(&device.node);
        let exists = self.device(device).is_some();
        if exists && (is_there || name == session.node_name) {
            return None;
        }
        let cause = match exists {
            true => format!("the agent of node {name} was lost or stopped"),
            false => format!("node {name} has no device {}", device.ordinal),
        };
        Some(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("use another device").node(name))
    }

    /// Notes the first use of a device by a program. If more ranks of an MPI program than necessary use one device
    /// while others are idle, the ranks are warned once.
    fn uses(&mut self, now: Millis, client: ClientId, device: DeviceId, out: &mut Vec<Effect>) {
        let Some(id) = self.clients.get(&client).copied() else { return };
        self.uses_some(id);
        let Some(session) = self.sessions.get(&id) else { return };
        if session.is_shared() {
            self.begin_use(now, id, device, out);
        } else if !session.nodes.get(&device.node).is_some_and(|ordinals| ordinals.contains(&device.ordinal)) {
            return;
        }
        let Some(session) = self.sessions.get(&id) else { return };
        if session.uses.is_some() || session.origin != Origin::Own {
            // Its first use is known already, or unknown for a session of an earlier coordinator.
            return;
        }
        let (rank, ranks) = (session.rank, session.ranks());
        self.sessions.set_first_use(id, device);
        if let (Some(rank), Some(ranks)) = (rank, ranks) {
            self.warn_crowd(client, id, rank, ranks, device, out);
        }
    }

    /// Notes that a program without a request uses a device from now on.
    fn begin_use(&mut self, now: Millis, id: SessionId, device: DeviceId, out: &mut Vec<Effect>) {
        let Some(session) = self.sessions.get(&id) else { return };
        if self.device(device).is_none() && session.used.len() >= UNKNOWN_MAX {
            return;
        }
        if self.sessions.get_mut(&id).is_some_and(|session| session.used.insert(device)) {
            self.allocations.used(device);
        }
        self.introduce(now, id, device, out);
        if self.sessions.get(&id).is_some_and(|session| !session.nodes.contains_key(&device.node)) {
            self.unmet_uses.insert((device, id));
        }
    }

    /// Informs the agent of a node that has registered of the sessions whose programs use its devices already. Sessions
    /// that use a job's device are ended.
    pub(super) fn meet_users(&mut self, now: Millis, node: NodeId, out: &mut Vec<Effect>) {
        let uses: Vec<(DeviceId, SessionId)> = self.unmet_on(node).collect();
        for (device, id) in uses {
            // The session may have ended meanwhile, or be part of a job.
            let is_open = self.unmet_uses.remove(&(device, id));
            if !is_open || !self.sessions.get(&id).is_some_and(Session::is_shared) {
                continue;
            }
            match self.allocations.owner_of(device) {
                Some(holder) => self.end_for_holder(id, device, holder, out),
                None => self.introduce(now, id, device, out),
            }
        }
    }

    /// Devices of a node that sessions use without the knowledge of the node's agent.
    pub(super) fn unmet_on(&self, node: NodeId) -> impl Iterator<Item = (DeviceId, SessionId)> {
        let first = (DeviceId { node, ordinal: 0 }, SessionId(0));
        let last = (DeviceId { node, ordinal: u32::MAX }, SessionId(u64::MAX));
        counted(self.unmet_uses.range(first..=last)).copied()
    }

    /// Frees the devices of a node that programs elsewhere have used. Their executors ended with the node's agent, and the next agent is told of no
    /// session that has lost the node. Programs of the node itself may go on.
    pub(super) fn free_lost_uses(&mut self, node: NodeId) {
        let Some(name) = self.nodes.get(&node).map(|node| node.name.clone()) else { return };
        let of_node = DeviceId { node, ordinal: 0 }..=DeviceId { node, ordinal: u32::MAX };
        for id in self.sessions.on(node).collect::<Vec<_>>() {
            let lost = |session: &&mut Session| session.lost.contains(&node) && session.node_name != name;
            let Some(session) = self.sessions.get_mut(&id).filter(lost) else { continue };
            let used: Vec<DeviceId> = counted(session.used.range(of_node.clone())).copied().collect();
            for device in used {
                session.used.remove(&device);
                session.freed.insert(device);
                self.unmet_uses.remove(&(device, id));
                self.allocations.unused(device);
            }
        }
    }

    /// Keeps jobs off the devices that programs of before this coordinator's start use, by its records.
    pub(super) fn hold_earlier_uses(&mut self) {
        for (id, device) in self.device_uses.unnamed_of_users() {
            self.earlier_used.entry(id).or_default().insert(device);
            self.allocations.used(device);
        }
    }

    /// Releases the devices that were held for an earlier use by a session.
    pub(super) fn free_earlier_uses(&mut self, id: SessionId) {
        for device in self.earlier_used.remove(&id).into_iter().flatten() {
            self.allocations.unused(device);
        }
    }

    /// Tells a node's agent of a session that is about to use the node, with all devices but those that a job or a reservation has had to itself since
    /// before the session opened. An executor that runs learns of no further device: one that is held only since then is named, and used only if
    /// [`Cluster::may_use`] lets the program. No agent is told of a session because its program alone says that it uses a device that is reserved,
    /// drained or in quarantine.
    fn introduce(&mut self, now: Millis, id: SessionId, device: DeviceId, out: &mut Vec<Effect>) {
        let node = device.node;
        let Some(known) = self.nodes.get(&node).filter(|known| known.is_up()) else { return };
        let Some(session) = self.sessions.get(&id).filter(|session| !session.lost.contains(&node)) else { return };
        let is_claim = session.origin == Origin::Program && !self.allocations.is_shared(device);
        if is_claim || session.nodes.get(&node).is_some_and(|ordinals| ordinals.contains(&device.ordinal)) {
            return;
        }
        let link = known.link();
        let ids = known.devices.iter().map(|device| device.id);
        let opened = self.opened(session);
        let is_named = |id: &DeviceId| *id == device || !self.allocations.is_held_since(*id, opened);
        let named = ids.filter(is_named).map(|id| id.ordinal).collect();
        self.sessions.introduce(id, node, named);
        if let (Some(link), Some(session)) = (link, self.sessions.get(&id)) {
            out.push(Effect::ToAgent(link, AgentOrder::SessionOpened(session.grant(now, node))));
        }
    }

    /// Returns the time at which a session opened. Agents know that time of sessions that an earlier coordinator opened; a program's word does not count.
    fn opened(&self, session: &Session) -> Millis {
        match session.origin {
            Origin::Agent => Millis(session.opened_unix_ms.saturating_sub(self.started_unix_ms)).min(session.since),
            Origin::Own | Origin::Program => session.since,
        }
    }

    /// Returns a number of devices that are idle and that a program without a request may use: there may be more, as it looks at few devices.
    fn idle_at_least(&self, session: &Session) -> usize {
        if self.allocations.reservations.len() > 0 {
            let nodes = self.nodes.values().take(IDLE_CHECKS_MAX).filter(|node| node.takes_sessions());
            let devices = nodes.flat_map(|node| node.devices.iter()).take(IDLE_CHECKS_MAX);
            let of_kind = devices.filter(|device| session.kind.is_none_or(|kind| device.kind == kind));
            let is_idle = |device: &DeviceId| self.allocations.is_shared(*device) && self.sessions.is_idle(*device);
            return of_kind.map(|device| device.id).filter(is_idle).count();
        }
        let scheduler = self.scheduler();
        let drained =
            counted(scheduler.drains()).filter(|(target, _)| matches!(target, DrainTarget::Device(_))).count();
        let withheld = self.allocations.exclusive.len() + drained + scheduler.quarantines().count();
        session.device_count.saturating_sub(self.sessions.in_first_use() + withheld)
    }

    /// Warns a rank of an MPI program if more ranks than necessary use one device while others are idle.
    fn warn_crowd(
        &mut self,
        client: ClientId,
        id: SessionId,
        rank: Rank,
        ranks: Ranks,
        chosen: DeviceId,
        out: &mut Vec<Effect>,
    ) {
        let Some(session) = self.sessions.get(&id) else { return };
        let crowd = self.sessions.crowd(&ranks, chosen);
        // With more ranks than devices, ranks must share.
        let share = usize::try_from(rank.size).unwrap_or(usize::MAX).div_ceil(session.device_count.max(1));
        if crowd.len() <= share || self.warned.contains(&ranks) {
            return;
        }
        let idle = if session.is_shared() {
            self.idle_at_least(session)
        } else {
            counted(session.lease.devices.iter()).filter(|device| self.sessions.is_idle(**device)).count()
        };
        if idle > 0 {
            let nodes: BTreeSet<&str> = crowd.sessions().map(|session| session.node_name.as_str()).collect();
            let nodes: Vec<&str> = nodes.into_iter().collect();
            let place = self.nodes.get(&chosen.node).map_or("?", |node| node.name.as_str());
            let text = format!(
                "{} of node{} {} use device {} of node {place} while {} idle; \
                 call acc_set_device_num(rank % acc_get_num_devices(type), type) before anything else uses a device, \
                 or set ACCORD_DEVICE_ORDER=rank for a program that names no device",
                Count(crowd.len(), "rank"),
                if nodes.len() == 1 { "" } else { "s" },
                nodes.join(", "),
                chosen.ordinal,
                if idle == 1 { "1 device is".to_owned() } else { format!("{idle} devices are") },
            );
            self.warned.insert(ranks);
            out.push(Effect::ToClient(client, ClientPush::Warning(text)));
        }
    }

    /// Ends the session of a program without a request that has reconnected after a job was given its device.
    fn end_for_holder(&mut self, id: SessionId, device: DeviceId, holder: JobId, out: &mut Vec<Effect>) {
        let node = self.nodes.get(&device.node).map_or("?", |node| node.name.as_str());
        let text = format!(
            "job {holder} has device {} of node {node} to itself; ask for devices by ACCORD_DEVICES",
            device.ordinal
        );
        tracing::info!("session {id} has ended: {text}");
        self.finish(id, Some(SessionEnd::Job(text.into())), out);
    }
}
