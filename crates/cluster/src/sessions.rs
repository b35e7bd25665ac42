//! Opens and ends sessions.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::input::ClientId;
use super::job::{DeferredRequest, Keeper, Opener};
use super::node::Node;
use super::scheduling::{denied, refusal};
use super::session::{LeaseTerms, Origin, Owner, Session};
use super::session_end::SessionEnd;
use super::state::{Cluster, Limits};
use super::steps::counted;
use super::time::Millis;
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
            return self.held.push(DeferredRequest::program(opener));
        }
        if opener.request.job.is_none() && opener.request.devices.is_none() {
            match self.default_of(&opener) {
                Ok(default) => opener.request.devices = default,
                Err(error) => return out.push(denied(client, &opener.owner.user, "devices", error)),
            }
        }
        if opener.request.job.is_some() || opener.request.devices.is_some() {
            return self.open_by_request(now, opener, out);
        }
        let Opener { client, request, owner } = opener;
        if let Err(error) = self.check_quota(client, &owner.user) {
            return out.push(denied(client, &owner.user, "a session", error));
        }
        match self.share(&request) {
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

    /// Returns the policy's request for a program that has none, if there is one. Ranks of one MPI program share the
    /// first rank's request, even after a change of the policy.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the policy gives the user no devices: the user is in no account, or
    /// its account has spent its device-hours.
    fn default_of(&self, opener: &Opener) -> Result<Option<String>, Error> {
        let default = match self.allocations.default_request(&opener.owner.user) {
            Ok(None) => return Ok(None),
            Ok(Some(request)) => Ok(request.to_string()),
            Err(error) => Err(error),
        };
        let rank = opener.request.rank.filter(|rank| rank.size > 1 && rank.job != 0);
        let gang = rank.map(|rank| (opener.owner.user.clone(), rank.job, rank.size));
        let first = gang.and_then(|gang| self.allocations.job(self.allocations.job_of_gang(&gang)?));
        first.map_or(default, |job| Ok(job.text.clone())).map(Some)
    }

    /// Opens the session of a program with a request, or in a job.
    fn open_by_request(&mut self, now: Millis, opener: Opener, out: &mut Vec<Effect>) {
        let (client, rank) = (opener.client, opener.request.rank.filter(|rank| rank.size > 1));
        if let Err(error) = self.check_quota(client, &opener.owner.user) {
            return out.push(denied(client, &opener.owner.user, "a session", error));
        }
        if let Some(token) = opener.request.job {
            match self.own_job(token, &opener.owner) {
                Some(id) => return self.enter_job(now, id, opener, out),
                // An agent may be about to name the job.
                None if self.may_be_named(now) => return self.held.push(DeferredRequest::program(opener)),
                None if opener.request.devices.is_none() => {
                    return out.push(self.refuse_token(client, token, &opener.owner));
                }
                None => {}
            }
        }
        let Some(text) = opener.request.devices.clone() else { return };
        let gang = rank.map(|rank| (opener.owner.user.clone(), rank.job, rank.size));
        let known = gang.and_then(|gang| self.allocations.job_of_gang(&gang));
        match rank.zip(known.filter(|id| !self.end_if_broken(now, *id, out))) {
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

    /// Refuses a connection that has a session already, or a user whose quota is exhausted.
    pub(super) fn check_quota(&self, client: ClientId, user: &str) -> Result<(), Error> {
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

    /// Returns the terms of a lease of these devices, with the limits in force.
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

    /// Opens a session. A session in a job has the job's key, and the nodes that the job has lost, whose devices keep
    /// their numbers.
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
        session.device_count = match job {
            Some(_) => session.lease.devices.len(),
            None => self.device_count(session.kind),
        };
        tracing::info!("{} has opened, with {}", session.called(), Count(session.device_count, "device"));
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

    /// Ends a session for an administrator.
    pub(super) fn close(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        if let Some(session) = self.sessions.get(&id) {
            tracing::warn!("{} has ended: an administrator has closed it", session.called());
        }
        self.finish(id, Some(SessionEnd::Administrator), out);
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

    /// Ends a session for its program, the clock or an administrator, or because a job has a device that its program uses. The owner of a session that
    /// only a returned client names is not known yet: ending the session at all agents could end another user's.
    pub(super) fn finish(&mut self, id: SessionId, why: Option<SessionEnd>, out: &mut Vec<Effect>) {
        match self.sessions.get(&id).map(|session| session.origin) {
            Some(Origin::Program) => {
                self.notify_program(id, why.as_ref(), out);
                self.close_at_agents(id, None, why.as_ref(), out);
                self.forget(id, out);
            }
            _ => self.end(id, why, out),
        }
    }

    /// Informs a session's program of the reason for its end.
    fn notify_program(&self, id: SessionId, why: Option<&SessionEnd>, out: &mut Vec<Effect>) {
        let client = self.sessions.get(&id).and_then(|session| session.client);
        if let (Some(client), Some(why)) = (client, why) {
            out.push(Effect::ToClient(client, ClientPush::Ended(why.text(id))));
        }
    }

    /// Has the agents end a session that only its program has named, and that they were told of, but for the agent of one node. An agent that
    /// is away hears of it when it is back. An agent that knows the session by another key has it from an earlier coordinator: it is another
    /// program's.
    pub(super) fn close_at_agents(
        &mut self,
        id: SessionId,
        but: Option<NodeId>,
        why: Option<&SessionEnd>,
        out: &mut Vec<Effect>,
    ) {
        let Some(session) = self.sessions.get(&id) else { return };
        let nodes = counted(session.nodes.keys()).filter(|node| Some(**node) != but);
        let key = session.owner.key;
        for node in nodes.filter_map(|node| self.nodes.get(node)) {
            match node.link() {
                Some(link) => out.push(Effect::ToAgent(link, AgentOrder::ClaimClosed(id, key, why.cloned()))),
                None => self.unclosed.insert(node.id, id, key, self.limits.ended_max),
            }
        }
    }

    /// Drops a session, which continues if agents serve it.
    pub(super) fn forget(&mut self, id: SessionId, out: &mut Vec<Effect>) {
        self.remove(id, out);
    }

    /// Ends a session. The program learns the reason from here and from its executors, which are killed, and its
    /// connection is closed.
    pub(super) fn end(&mut self, id: SessionId, why: Option<SessionEnd>, out: &mut Vec<Effect>) {
        self.notify_program(id, why.as_ref(), out);
        let Some(session) = self.remove(id, out) else { return };
        self.free_earlier_uses(id);
        if let Some(why) = &why {
            self.session_ends.insert(id, why.clone(), self.limits.ended_max);
        }
        let close = |node: &Node| Some(Effect::ToAgent(node.link()?, AgentOrder::SessionClosed(id, why.clone())));
        match session.origin {
            Origin::Own => {
                let nodes = counted(session.nodes.keys()).filter(|node| !session.lost.contains(node));
                out.extend(nodes.filter_map(|node| close(self.nodes.get(node)?)));
            }
            // The nodes of an earlier coordinator's session are not all known here, so all agents are informed.
            Origin::Agent | Origin::Program => out.extend(self.nodes.values().filter_map(close)),
        }
        if !self.has_ended(id) {
            self.ended.insert(id, self.limits.ended_max);
        }
    }

    /// Removes a session from all tables, and closes its program's connection.
    fn remove(&mut self, id: SessionId, out: &mut Vec<Effect>) -> Option<Session> {
        let session = self.sessions.remove(id)?;
        self.note_use(self.allocations.now, &session);
        self.uses_end(&session);
        self.allocations.session_ended(id);
        for device in &session.used {
            self.allocations.unused(*device);
            self.unmet_uses.remove(&(*device, id));
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

/// Returns the error of ranks of one MPI program with different requests.
fn other_request(rank: Rank, text: &str, other: &str) -> Error {
    let cause =
        format!("rank {} asks for {text:?}, and another rank of its MPI program has asked for {other:?}", rank.rank);
    Error::new(ErrorCode::InvalidArgument, cause).remedy("set ACCORD_DEVICES alike in all ranks")
}

/// Returns the error of ranks whose launcher does not name their job, which can't be distinguished from those of
/// another job.
fn unnamed_gang(rank: Rank, text: &str) -> Error {
    let cause =
        format!("one of {} ranks asks for {text:?}, and their launcher does not say what the others are of", rank.size);
    Error::new(ErrorCode::InvalidArgument, cause)
        .remedy(format!("start them by accord run -np {} --devices {text:?}, which asks for all", rank.size))
}
