//! The use of devices by sessions, as programs and agents report it. It is charged to users and counted for jobs.
//!
//! Reports hold cumulative counters. Only their growth counts, so a lost or repeated report changes nothing. No report
//! counts for more than the time since the session's start allows.

use super::allocations::Allocations;
use super::effect::Effect;
use super::input::{ClientId, LinkId};
use super::session::{Origin, Session};
use super::session_uses::{Charged, Ended, Reporter, SessionUses};
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::ledger::Activity;
use accord_scheduler::{Input, JobId, Usage};
use accord_types::{DeviceId, DeviceUse, NodeId, SessionId};

/// Time in which agents and programs name the sessions of an earlier coordinator, in milliseconds.
const NAMED_WITHIN_MS: u64 = 60_000;

impl Cluster {
    /// Counts a program's report on devices that it drives itself.
    pub(super) fn program_used(&mut self, now: Millis, client: ClientId, uses: &[(DeviceId, DeviceUse)]) {
        let Some(&id) = self.clients.get(&client) else { return };
        for (device, used) in uses {
            self.used(now, id, (*device, Reporter::Program), *used);
        }
    }

    /// Counts an agent's report on its devices.
    pub(super) fn agent_used(
        &mut self,
        now: Millis,
        link: LinkId,
        uses: &[(SessionId, u32, DeviceUse)],
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        for (session, ordinal, used) in uses {
            self.used(now, *session, (DeviceId { node, ordinal: *ordinal }, Reporter::Agent), *used);
        }
    }

    /// Notes that a program uses devices, so that reports are expected.
    pub(super) fn uses_some(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id).filter(|session| self.is_counted(session)) else { return };
        let charged = || charged(&self.allocations, session);
        let known = self.device_uses.open(session, self.started_unix_ms, charged);
        if known.is_some_and(|uses| !uses.uses_some)
            && let Some(uses) = self.device_uses.sessions.get_mut(&id)
        {
            uses.uses_some = true;
        }
    }

    /// Notes that a session has ended. Its executors may still send last reports.
    pub(super) fn uses_end(&mut self, session: &Session) {
        let table = &mut self.device_uses;
        if !session.executors.is_empty() {
            table.open(session, self.started_unix_ms, || charged(&self.allocations, session));
            let ended = Ended { nodes: session.nodes.clone(), executors: session.executors.clone() };
            if let Some(oldest) = table.end(session.id, ended) {
                self.forget_uses(oldest);
            }
        } else {
            self.forget_uses(session.id);
        }
    }

    /// Notes that executors of sessions on a node have sent their last reports and ended.
    pub(super) fn use_ended(&mut self, now: Millis, link: LinkId, sessions: &[SessionId], out: &mut Vec<Effect>) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        for session in sessions {
            self.executor_uses_end(*session, node);
        }
    }

    fn executor_uses_end(&mut self, id: SessionId, node: NodeId) {
        let uses = self.device_uses.sessions.get_mut_unnoted(&id);
        let Some(ended) = uses.and_then(|uses| uses.ended.as_mut()) else { return };
        ended.executors.remove(&node);
        if ended.executors.is_empty() {
            self.forget_uses(id);
        }
    }

    /// Drops the use of a session that no report will follow for.
    fn forget_uses(&mut self, id: SessionId) {
        let is_silent = self.device_uses.is_silent(id);
        let uses = self.device_uses.remove(id);
        if let Some(SessionUses { charged: Charged::Job(job), .. }) = uses
            && is_silent
        {
            self.allocations.books_mut().ledger_mut().job_use_unknown(job);
        }
    }

    /// Drops restored sessions that were not named in time.
    pub(super) fn end_unnamed_uses(&mut self, now: Millis) {
        if now < self.began.plus(NAMED_WITHIN_MS) {
            return;
        }
        while let Some((&id, _)) = self.earlier_used.first_key_value() {
            self.free_earlier_uses(id);
        }
        for id in std::mem::take(&mut self.device_uses.unnamed) {
            if let Some(oldest) = self.device_uses.end_reported(id) {
                self.forget_uses(oldest);
            }
        }
    }

    fn used(&mut self, now: Millis, id: SessionId, key: (DeviceId, Reporter), used: DeviceUse) {
        let (device, by) = key;
        let open = self.sessions.get(&id);
        let known = match open {
            Some(session) if self.is_counted(session) => {
                let charged = || charged(&self.allocations, session);
                self.device_uses.open(session, self.started_unix_ms, charged).map(|uses| &*uses)
            }
            _ => self.device_uses.sessions.get(&id),
        };
        let node = self.nodes.get(&device.node);
        let Some(info) = node.and_then(|node| node.device(device.ordinal)) else { return };
        // Only agents know the lease of an earlier coordinator's session. A program drives the devices of its own node.
        let is_own = |session: &Session| {
            by == Reporter::Program
                && (session.origin != Origin::Own || session.used.contains(&device))
                && node.is_some_and(|node| node.name == session.node_name)
        };
        if !known.is_some_and(|known| known.has(device, open) || open.is_some_and(is_own)) {
            return;
        }
        let used = DeviceUse { held: used.held.min(info.memory), ..used };
        let used = DeviceUse { fault: used.fault.filter(|_| self.may_show(id, key)), ..used };
        let before = self.device_uses.fault(id, key);
        let Some((charged, activity, is_unknown)) = self.device_uses.count(now, id, key, used) else { return };
        if let Some(fault) = self.device_uses.fault(id, key).filter(|fault| before != Some(*fault)) {
            self.fault_reported(now, key, &charged, fault);
        }
        match charged {
            Charged::Job(job) => self.allocations.job_did(now, job, activity, is_unknown),
            Charged::User(user) => self.allocations.program_did(now, &user, device, activity),
        }
    }

    /// Whether reports of a session are counted. A job that no agent has named yet can't be charged.
    fn is_counted(&self, session: &Session) -> bool {
        session.is_shared() || session.job.is_some() || self.device_uses.sessions.contains_key(&session.id)
    }

    /// Whether a fault that is reported of a device counts. An agent knows its executors' faults. A program can know faults only of the devices of
    /// its own node, and others' jobs on the device must not suffer for its word.
    fn may_show(&self, id: SessionId, (device, by): (DeviceId, Reporter)) -> bool {
        let Some(session) = self.sessions.get(&id) else { return by == Reporter::Agent };
        let job = session.job.and_then(|key| self.allocations.job_by_key(key));
        let is_own_node = || self.nodes.get(&device.node).is_some_and(|node| node.name == session.node_name);
        by == Reporter::Agent || is_own_node() && !self.is_held_by_another(device, job)
    }

    /// Returns the use by all sessions since the coordinator's start.
    pub fn done_on_devices(&self) -> Activity {
        self.device_uses.done
    }

    /// Returns the use of each device by a session, with the memory that it holds there now.
    pub fn device_uses(&self, session: SessionId) -> impl Iterator<Item = (DeviceId, DeviceUse)> + '_ {
        self.device_uses.of(session)
    }
}

/// Returns who is charged for a session's use.
fn charged(allocations: &Allocations, session: &Session) -> Charged {
    let job = session.job.and_then(|key| allocations.job_by_key(key));
    job.map_or_else(|| Charged::User(session.owner.user.clone()), Charged::Job)
}

impl Allocations {
    /// Counts a job's use of its devices.
    fn job_did(&mut self, now: Millis, id: JobId, activity: Activity, is_unknown: bool) {
        let books = self.books_mut();
        let clock = books.clock(now);
        books.ledger_mut().job_did(clock, id, activity);
        if is_unknown {
            books.ledger_mut().job_use_unknown(id);
        }
        if !activity.is_none() {
            self.job_is_active(now, id);
        }
    }

    /// Charges a user's account for a device that a program used without a request.
    fn program_did(&mut self, now: Millis, user: &str, device: DeviceId, activity: Activity) {
        if activity.is_none() {
            return;
        }
        let account = self.account_of(user, None).unwrap_or_else(|_| accord_scheduler::policy::SITE.to_owned());
        let leaf = self.know_user(&account, user).unwrap_or_else(|| account.clone());
        let scheduler = self.scheduler();
        let weight = scheduler.class_of(device).map_or(1_000, |class| scheduler.policy().billing_of(class));
        let milli_ms = activity.busy_ms.saturating_mul(1_000);
        let charged = Usage { milli_ms: milli_ms.into(), billed: u128::from(milli_ms) * u128::from(weight) };
        if milli_ms > 0 {
            self.push(Input::Used { account: leaf, device, milli_ms });
        }
        let books = self.books_mut();
        let clock = books.clock(now);
        books.ledger_mut().program_did(clock, &account, user, charged, activity);
    }
}
