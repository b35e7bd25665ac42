//! Sessions of an earlier coordinator, as reported by agents that serve them and by their programs.

use super::effect::{ClientPush, Effect};
use super::input::ClientId;
use super::session::{Origin, Owner, Session};
use super::session_uses::Charged;
use super::state::Cluster;
use super::time::Millis;
use accord_types::{Error, ErrorCode, NodeId, SessionGrant, SessionId, SessionRequest};

impl Cluster {
    /// Adopts a session that an agent reports.
    pub(super) fn adopt(&mut self, now: Millis, node: NodeId, grant: &SessionGrant, out: &mut Vec<Effect>) {
        let devices = self.nodes.get(&node).map_or(&[][..], |node| &node.devices);
        let ordinals: Vec<u32> = devices.iter().map(|device| device.id.ordinal).collect();
        let id = grant.session;
        let is_known = |known: &&Session| known.origin != Origin::Program || repeats_claim(known, grant);
        if let Some(known) = self.sessions.get(&id).filter(is_known) {
            // An agent that names another key knows nothing of the session, whatever it says.
            if known.owner.key == grant.key {
                self.sessions.join(node, &ordinals, grant);
            }
            return;
        }
        self.refuse_another(node, grant, out);
        let program = self.sessions.remove(id);
        if program.is_none() && (self.has_ended(id) || self.sessions.len() >= self.limits.sessions_max) {
            return;
        }
        let mut session = Session::adopt(grant, now);
        if let Some(end) = program.as_ref().and_then(|program| program.ends) {
            self.ends.remove(&(end, id));
        }
        if let Some(program) = program {
            session.client = program.client;
            session.since = program.since;
            session.rank = program.rank;
            session.order = program.order;
            session.kind = program.kind;
            (session.nodes, session.executors) = (program.nodes, program.executors);
            (session.lost, session.left) = (program.lost, program.left);
            (session.used, session.freed) = (program.used, program.freed);
        }
        session.join(node, &ordinals, grant);
        self.ends.extend(session.ends.map(|end| (end, id)));
        self.sessions.insert(session);
        self.sessions_returned([id].iter());
    }

    /// Refuses a client that has claimed a session which, according to an agent, belongs to another program.
    fn refuse_another(&mut self, node: NodeId, grant: &SessionGrant, out: &mut Vec<Effect>) {
        let id = grant.session;
        let Some(known) = self.sessions.get(&id) else { return };
        if known.owner.key == grant.key && known.owner.user == grant.user {
            return;
        }
        out.extend(known.client.map(|client| Effect::ToClient(client, ClientPush::Refused(not_yours(id)))));
        self.close_at_agents(id, Some(node), None, out);
        self.forget(id, out);
    }

    /// Assigns sessions of an earlier coordinator to its jobs.
    pub(super) fn sessions_returned<'a>(&mut self, sessions: impl Iterator<Item = &'a SessionId>) {
        for id in sessions {
            let Some(session) = self.sessions.get_mut(id).filter(|_| self.allocations.job_of(*id).is_none()) else {
                continue;
            };
            if let Some(key) = self.allocations.session_returned(*id, &session.owner.user) {
                session.job = Some(key);
            }
        }
    }

    /// Reconnects a program to its session.
    pub(super) fn attach(
        &mut self,
        now: Millis,
        client: ClientId,
        id: SessionId,
        request: SessionRequest,
        owner: Owner,
        out: &mut Vec<Effect>,
    ) {
        let refused = |error| Effect::ToClient(client, ClientPush::Refused(error));
        if self.clients.contains_key(&client) {
            let error = Error::new(ErrorCode::InvalidArgument, "this connection has a session already");
            return out.push(refused(error));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            if session.owner != owner {
                return out.push(match session.origin {
                    // The owner is not known yet. A client without an answer tries again.
                    Origin::Program => Effect::CloseClient(client),
                    Origin::Own | Origin::Agent => refused(not_yours(id)),
                });
            }
            if let Some(before) = session.client.replace(client) {
                self.clients.remove(&before);
                out.push(Effect::CloseClient(before));
            }
        } else if self.has_ended(id) {
            let unknown = || format!("session {id} has ended at the coordinator");
            let text = self.session_ends.of(id).map_or_else(unknown, |why| why.text(id));
            return out.push(Effect::ToClient(client, ClientPush::Ended(text)));
        } else if self.sessions.len() >= self.limits.sessions_max
            || self.sessions.of_user(&owner.user) >= self.limits.session_quota
        {
            // The program has its devices already. A client without an answer tries again, when there may be room.
            return out.push(Effect::CloseClient(client));
        } else if self.is_recorded_as_anothers(id, &owner)
            || self.may_be_of_default(id, &request, &owner) && self.may_be_named(now)
        {
            // The owner is about to come back, or an agent is about to name the session, with or without a job. A client without an answer tries again.
            return out.push(Effect::CloseClient(client));
        } else {
            let opened = self.started_unix_ms + now.0;
            // Agents learn of the session when its program begins to use their nodes.
            let lease = self.lease_of(Vec::new());
            let may_be_of_default = self.may_be_of_default(id, &request, &owner);
            let mut session = Session::claimed(id, client, request, owner, lease, now, opened);
            // The session is of a job, or its number is made up, unless an agent names the session without a job.
            session.asked |= may_be_of_default;
            session.ends = (self.limits.session_ms > 0).then(|| now.plus(self.limits.session_ms));
            self.ends.extend(session.ends.map(|end| (end, id)));
            self.sessions.insert(session);
            self.sessions_returned([id].iter());
        }
        self.clients.insert(client, id);
        out.push(Effect::ToClient(client, ClientPush::Attached));
        // Sends the losses that the program has missed.
        let lost = self.sessions.get(&id).map(|session| &session.lost | &session.left).unwrap_or_default();
        for node in lost {
            let name = self.nodes.get(&node).map(|node| node.name.clone()).unwrap_or_default();
            out.push(Effect::ToClient(client, ClientPush::NodeLost(node, name)));
        }
        out.push(Effect::Changed);
    }

    /// Whether a session that only a client names may be of a job by the policy's default request, or of a program that
    /// the policy refuses. A session that the records hold without a job is older than the policy.
    fn may_be_of_default(&self, id: SessionId, request: &SessionRequest, owner: &Owner) -> bool {
        let asks = request.devices.is_some() || request.job.is_some();
        let is_recorded = || matches!(self.device_uses.recorded(id), Some(Charged::User(user)) if *user == owner.user);
        !asks && !matches!(self.allocations.default_request(&owner.user), Ok(None)) && !is_recorded()
    }

    /// Whether the records hold a session as another user's.
    fn is_recorded_as_anothers(&self, id: SessionId, owner: &Owner) -> bool {
        match self.device_uses.recorded(id) {
            Some(Charged::User(user)) => *user != owner.user,
            Some(Charged::Job(job)) => self.allocations.job(*job).is_some_and(|job| job.user != owner.user),
            None => false,
        }
    }
}

/// Whether an agent was first told of a claimed session by this coordinator, on a client's word alone. Such an agent does not vouch for the session, which
/// may be another program's whose agents have not registered yet.
fn repeats_claim(claimed: &Session, grant: &SessionGrant) -> bool {
    let Owner { key, user } = &claimed.owner;
    // An earlier coordinator opened the session at another time.
    (*key, user, claimed.opened_unix_ms) == (grant.key, &grant.user, grant.opened_unix_ms)
}

fn not_yours(id: SessionId) -> Error {
    Error::new(ErrorCode::DeviceUnavailable, format!("session {id} is another program's"))
        .remedy("start the program again")
}
