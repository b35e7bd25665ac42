//! Sessions open and end.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::input::ClientId;
use super::job::{Held, Keeper, Opener};
use super::node::Node;
use super::order::Viewer;
use super::scheduling::{gone, refusal};
use super::session::{LeaseTerms, Origin, Owner, Ranks, Session};
use super::session_end::SessionEnd;
use super::state::{Cluster, Limits};
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{DrainTarget, JobId};
use accord_types::{Count, DeviceId, Error, ErrorCode, NodeId, Rank, SessionId, SessionKey, SessionRequest};
use std::collections::BTreeSet;

impl Cluster {
    pub(super) fn open(
        &mut self,
        now: Millis,
        client: ClientId,
        request: SessionRequest,
        owner: Owner,
        out: &mut Vec<Effect>,
    ) {
        let mut opener = Opener { client, request, owner };
        if self.is_worth_waiting(now) {
            return self.held.push(Held::program(opener));
        }
        if opener.request.job.is_none() && opener.request.devices.is_none() {
            opener.request.devices = self.default_of(&opener);
        }
        if opener.request.job.is_some() || opener.request.devices.is_some() {
            return self.open_by_request(now, opener, out);
        }
        let Opener { client, request, owner } = opener;
        match self.place(client, &request, &owner.user) {
            Ok(lease) => {
                self.grant(now, client, request, owner, lease, None, out);
            }
            Err(error) => {
                let (user, program) = (&owner.user, &request.program);
                tracing::info!("user {user:?}, program {program:?} is refused a session: {}", error.cause());
                out.push(Effect::ToClient(client, ClientPush::Refused(error)));
            }
        }
    }

    /// The request of a program that asks for nothing, if the policy has one for its user. Ranks of one MPI program have one: that of the rank that came
    /// first, also where another policy has taken effect since.
    fn default_of(&self, opener: &Opener) -> Option<String> {
        let default = self.default_request(&opener.owner)?;
        let rank = opener.request.rank.filter(|rank| rank.size > 1 && rank.job != 0);
        let gang = rank.map(|rank| (opener.owner.user.clone(), rank.job, rank.size));
        let first = gang.and_then(|gang| self.allocations.job(self.allocations.job_of_gang(&gang)?));
        Some(first.map_or(default, |job| job.text.clone()))
    }

    /// A program that asks for devices, or is of a job.
    fn open_by_request(&mut self, now: Millis, opener: Opener, out: &mut Vec<Effect>) {
        let (client, rank) = (opener.client, opener.request.rank.filter(|rank| rank.size > 1));
        if let Err(error) = self.check_quota(client, &opener.owner.user) {
            return out.push(refusal(client, error));
        }
        if let Some(token) = opener.request.job {
            match self.own_job(token, &opener.owner) {
                Some(id) => return self.enter_job(now, id, opener, out),
                // An agent may be about to name it.
                None if self.may_be_named(now) => return self.held.push(Held::program(opener)),
                None if opener.request.devices.is_none() => return out.push(refusal(client, gone(token))),
                None => {}
            }
        }
        let Some(text) = opener.request.devices.clone() else { return };
        let gang = rank.map(|rank| (opener.owner.user.clone(), rank.job, rank.size));
        match rank.zip(gang.and_then(|gang| self.allocations.job_of_gang(&gang))) {
            Some((rank, id)) => match self.allocations.job(id).map(|job| job.text.clone()) {
                Some(other) if other != text => out.push(refusal(client, other_request(rank, &text, &other))),
                _ => self.enter_job(now, id, opener, out),
            },
            None => match rank.filter(|rank| rank.job == 0) {
                Some(rank) => out.push(refusal(client, unnamed_gang(rank, &text))),
                None => self.ask(now, opener, Keeper::Sessions, &text, out),
            },
        }
    }

    /// Whether a connection may have a session of this user.
    fn check_quota(&self, client: ClientId, user: &str) -> Result<(), Error> {
        if self.clients.contains_key(&client) || self.allocations.has_client(client) {
            return Err(Error::new(ErrorCode::InvalidArgument, "this connection has a session already"));
        }
        if self.sessions.len() >= self.limits.sessions_max {
            return Err(self.full());
        }
        if self.sessions.of_user(user) >= self.limits.session_quota {
            return Err(self.over_quota(user));
        }
        Ok(())
    }

    /// The devices of a program that asks for none: all that fit, but those that a job has to itself.
    fn place(&self, client: ClientId, request: &SessionRequest, user: &str) -> Result<LeaseTerms, Error> {
        self.check_quota(client, user)?;
        let viewer =
            Viewer { node_name: &request.node_name, rank: request.rank, kind: request.kind, order: request.order };
        let devices = self.numbering(&viewer);
        if devices.is_empty() {
            return Err(self.nothing_to_lease(request));
        }
        Ok(self.lease_of(devices))
    }

    /// A lease of these devices, by the limits in force.
    pub(super) fn lease_of(&self, devices: Vec<DeviceId>) -> LeaseTerms {
        let Limits { memory_quota, stream_quota, plain_tcp, .. } = self.limits;
        LeaseTerms { devices, memory_quota, stream_quota, plain_tcp }
    }

    pub(super) fn full(&self) -> Error {
        let cause = format!("the cluster is full: it allows {}", Count(self.limits.sessions_max, "session"));
        Error::new(ErrorCode::DeviceUnavailable, cause).remedy("try again when other programs have ended")
    }

    fn over_quota(&self, user: &str) -> Error {
        let many = Count(self.limits.session_quota, "session");
        let cause = format!("user {user} has {many}, the quota of one user (--session-quota)");
        Error::new(ErrorCode::DeviceUnavailable, cause).remedy("try again when other programs of that user have ended")
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

    /// Opens a session. One of a job has its key, and the nodes that the job has lost: their devices keep their numbers.
    #[expect(clippy::too_many_arguments, reason = "the parts of a session")]
    pub(super) fn grant(
        &mut self,
        now: Millis,
        client: ClientId,
        request: SessionRequest,
        owner: Owner,
        lease: LeaseTerms,
        job: Option<(SessionKey, BTreeSet<NodeId>)>,
        out: &mut Vec<Effect>,
    ) -> SessionId {
        let id = self.mint_session();
        let opened = self.started_unix_ms + now.0;
        let mut session = Session::open(id, client, request, owner, lease, now, opened);
        tracing::info!("{} has opened, with {}", session.called(), Count(session.lease.devices.len(), "device"));
        session.ends = (self.limits.session_ms > 0).then(|| now.plus(self.limits.session_ms));
        self.ends.extend(session.ends.map(|end| (end, id)));
        if let Some((key, lost)) = job {
            session.job = Some(key);
            session.lost = session.nodes.keys().copied().filter(|node| lost.contains(node)).collect();
        }
        for node in counted(session.nodes.keys()).filter(|node| !session.lost.contains(node)) {
            if let Some(link) = self.nodes.get(node).and_then(Node::link) {
                out.push(Effect::ToAgent(link, AgentOrder::SessionOpened(session.grant(now, *node))));
            }
        }
        out.push(Effect::ToClient(client, ClientPush::Granted(id)));
        for node in &session.lost {
            let name = self.nodes.get(node).map(|node| node.name.clone()).unwrap_or_default();
            out.push(Effect::ToClient(client, ClientPush::NodeLost(*node, name)));
        }
        out.push(Effect::Changed);
        self.clients.insert(client, id);
        self.sessions.insert(session);
        id
    }

    /// A program asks whether it may use a device. It may not if a job was given the device to itself, or the device was reserved or
    /// drained, since the program's session opened.
    pub(super) fn may_use(&mut self, client: ClientId, device: u32, out: &mut Vec<Effect>) {
        let error = self.unused(client, device).and_then(|chosen| self.taken(chosen));
        if error.is_none() {
            self.uses(client, device, out);
        }
        out.push(Effect::ToClient(client, ClientPush::UseAnswered(device, error)));
    }

    /// Returns the device, if a program that asked for nothing does not use it yet.
    fn unused(&self, client: ClientId, device: u32) -> Option<DeviceId> {
        let session = self.sessions.get(self.clients.get(&client)?)?;
        let chosen = *session.lease.devices.get(usize::try_from(device).ok()?)?;
        let is_new = session.origin == Origin::Own && session.job.is_none() && !session.used.contains(&chosen);
        is_new.then_some(chosen)
    }

    /// The error of a program that asked for nothing at a device that it may not begin to use.
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

    /// Ranks of one program, on whatever nodes, that crowd on one device while others idle are told so, once.
    pub(super) fn uses(&mut self, client: ClientId, device: u32, out: &mut Vec<Effect>) {
        let Some(session) = self.clients.get(&client).and_then(|id| self.sessions.get_mut(id)) else { return };
        let chosen = usize::try_from(device).ok().and_then(|index| session.lease.devices.get(index));
        let Some(&chosen) = chosen else { return };
        let id = session.id;
        self.uses_some(id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.origin == Origin::Own && session.job.is_none() && session.used.insert(chosen) {
            let id = session.id;
            self.allocations.used(chosen);
            if let Some(holder) = self.allocations.owner_of(chosen) {
                return self.end_for_holder(id, chosen, holder, out);
            }
        }
        let Some(session) = self.clients.get(&client).and_then(|id| self.sessions.get_mut(id)) else { return };
        if session.uses.is_some() || session.origin != Origin::Own {
            // It goes on to others, maybe to all; or the order of its devices is not known here.
            return;
        }
        let (id, rank, ranks) = (session.id, session.rank, session.ranks());
        self.sessions.set_first_use(id, chosen);
        if let (Some(rank), Some(ranks)) = (rank, ranks) {
            self.warn_crowd(client, id, rank, ranks, chosen, out);
        }
    }

    /// Tells a rank of an MPI program if more ranks than have to use one device while others idle.
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
        let (devices, crowd) = (&session.lease.devices, self.sessions.crowd(&ranks, chosen));
        // With more ranks than devices some share.
        let share = usize::try_from(rank.size).unwrap_or(usize::MAX).div_ceil(devices.len());
        if crowd.len() <= share || self.warned.contains(&ranks) {
            return;
        }
        let idle = counted(devices.iter()).filter(|device| self.sessions.is_idle(**device)).count();
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

    /// A program that has asked for nothing uses a device that was given to a job meanwhile. Programs of earlier releases don't ask before.
    fn end_for_holder(&mut self, id: SessionId, device: DeviceId, holder: JobId, out: &mut Vec<Effect>) {
        let node = self.nodes.get(&device.node).map_or("?", |node| node.name.as_str());
        let text = format!(
            "job {holder} has device {} of node {node} to itself; ask for devices by ACCORD_DEVICES",
            device.ordinal
        );
        tracing::info!("session {id} has ended: {text}");
        self.end(id, Some(SessionEnd::Job(text.into())), out);
    }

    pub(super) fn client_gone(&mut self, client: ClientId, is_lost: bool, out: &mut Vec<Effect>) {
        self.forget_held(client);
        self.allocations.client_gone(client, is_lost);
        if let Some(&id) = self.clients.get(&client) {
            if let Some(session) = self.sessions.get(&id) {
                tracing::info!("{} has ended: its program has gone", session.called());
            }
            self.finish(id, None, out);
        }
    }

    /// An administrator ends a session.
    pub(super) fn close(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        if let Some(session) = self.sessions.get(&id) {
            tracing::warn!("{} has ended: an administrator has closed it", session.called());
        }
        self.end(id, Some(SessionEnd::Administrator), out);
    }

    /// Ends the sessions whose time is over.
    pub(super) fn end_overdue(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some(&(end, id)) = self.ends.first()
            && end <= now
        {
            self.ends.pop_first();
            if let Some(session) = self.sessions.get(&id) {
                tracing::warn!("{} has ended: its time is over (--session-time)", session.called());
            }
            self.finish(id, Some(SessionEnd::TimeIsOver), out);
        }
    }

    /// A session is over as far as its program or the clock say. The owner of one that only a returned client names is
    /// not known yet: ending it for all could end another user's.
    fn finish(&mut self, id: SessionId, why: Option<SessionEnd>, out: &mut Vec<Effect>) {
        match self.sessions.get(&id).map(|session| session.origin) {
            Some(Origin::Program) => {
                self.tell_program(id, why.as_ref(), out);
                self.forget(id, out);
            }
            _ => self.end(id, why, out),
        }
    }

    /// Tells a session's program why the session ends.
    fn tell_program(&self, id: SessionId, why: Option<&SessionEnd>, out: &mut Vec<Effect>) {
        let client = self.sessions.get(&id).and_then(|session| session.client);
        if let (Some(client), Some(why)) = (client, why) {
            out.push(Effect::ToClient(client, ClientPush::Ended(why.text(id))));
        }
    }

    /// Drops what is known of a session, which goes on if agents know of it.
    pub(super) fn forget(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        self.remove(id, out);
    }

    /// Ends a session: its program is told why, from here and by its executors, which are killed; its connection is closed.
    pub(super) fn end(&mut self, id: SessionId, why: Option<SessionEnd>, out: &mut Vec<Effect>) {
        self.tell_program(id, why.as_ref(), out);
        let Some(session) = self.remove(id, out) else { return };
        if let Some(why) = &why {
            self.session_ends.insert(id, why.clone(), self.limits.ended_max);
        }
        let close = |node: &Node| Some(Effect::ToAgent(node.link()?, AgentOrder::SessionClosed(id, why.clone())));
        match session.origin {
            Origin::Own => {
                let nodes = counted(session.nodes.keys()).filter(|node| !session.lost.contains(node));
                out.extend(nodes.filter_map(|node| close(self.nodes.get(node)?)));
            }
            // Of what an earlier coordinator granted only a part is known here: all agents are told.
            Origin::Agent | Origin::Program => out.extend(self.nodes.values().filter_map(close)),
        }
        if !self.has_ended(id) {
            self.ended.insert(id, self.limits.ended_max);
        }
    }

    /// Takes a session out of all tables, and closes its program's connection.
    fn remove(&mut self, id: SessionId, out: &mut Vec<Effect>) -> Option<Session> {
        let session = self.sessions.remove(id)?;
        self.note_use(self.allocations.now, &session);
        self.uses_end(&session);
        self.allocations.session_ended(id);
        for device in &session.used {
            self.allocations.unused(*device);
        }
        if let Some(end) = session.ends {
            self.ends.remove(&(end, id));
        }
        for node in &session.executors {
            if let Some(known) = self.executing.get_mut(node) {
                known.remove(&id);
                if known.is_empty() {
                    self.executing.remove(node);
                }
            }
        }
        if let Some(client) = session.client {
            self.clients.remove(&client);
            out.push(Effect::CloseClient(client));
        }
        if let Some(ranks) = session.ranks()
            && !self.sessions.has_ranks(&ranks)
        {
            self.warned.remove(&ranks);
        }
        out.push(Effect::Changed);
        Some(session)
    }
}

/// The ranks of one program have one job.
fn other_request(rank: Rank, text: &str, other: &str) -> Error {
    let cause =
        format!("rank {} asks for {text:?}, and another rank of its MPI program has asked for {other:?}", rank.rank);
    Error::new(ErrorCode::InvalidArgument, cause).remedy("set ACCORD_DEVICES alike in all ranks")
}

/// Ranks whose launcher does not name their job can't be told from those of another one.
fn unnamed_gang(rank: Rank, text: &str) -> Error {
    let cause =
        format!("one of {} ranks asks for {text:?}, and their launcher does not say what the others are of", rank.size);
    Error::new(ErrorCode::InvalidArgument, cause)
        .remedy(format!("start them by accord run -np {} --devices {text:?}, which asks for all", rank.size))
}
