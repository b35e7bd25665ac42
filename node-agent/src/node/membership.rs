//! The node's membership in the cluster: registration, heartbeats, and reconnection.

use super::effect::{AgentEnding, AgentReport, Disconnect, Effect};
use super::executors::ExecutorId;
use super::state::{Membership, Node, PAUSE_MIN};
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::route::Endpoint;
use accord_types::{HeldDevice, JobGrant, SessionGrant, SessionId, SessionKey, SiteScript};
use std::collections::BTreeSet;
use std::time::Duration;

/// The longest pause before connecting again.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Most sessions of a job that a registration names.
const SESSIONS_NAMED_MAX: usize = 1_024;
/// Shortest period of heartbeats that a coordinator may ask for.
const PERIOD_MIN: Duration = Duration::from_millis(10);

impl Node {
    /// Whether the coordinator counts the node as registered.
    pub fn is_in(&self) -> bool {
        matches!(self.link, Membership::In { .. })
    }

    /// Records that the coordinator has registered the node. Its announcements of sessions follow. Earlier grants stay
    /// in force, because sessions outlive a coordinator.
    pub fn registered(&mut self, now: Duration, endpoint: Endpoint, period: Duration) {
        if self.link == Membership::Connecting {
            self.endpoint = Some(endpoint);
            self.period = period.max(PERIOD_MIN);
            self.pause = PAUSE_MIN;
            self.link = Membership::In { beat: now };
            self.report_departure_again();
            self.kept_changes += 1;
        }
    }

    /// Records that the connection broke, or could not be made.
    pub fn disconnected(&mut self, now: Duration, why: Disconnect) {
        if self.link == Membership::Left {
            return;
        }
        match why {
            Disconnect::Replaced(why) => return self.leave(AgentEnding::Refused(why)),
            // Another coordinator may return at the same address, and programs go on here without one.
            Disconnect::Refused(_) if self.endpoint.is_some() => self.pause = PAUSE_MAX,
            Disconnect::Refused(why) => return self.leave(AgentEnding::Refused(why)),
            Disconnect::Unreachable(_) => {}
        }
        self.link = Membership::Away { again: now + self.pause };
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Ends the agent, which was asked to or can't go on.
    pub fn leave(&mut self, why: AgentEnding) {
        if self.link != Membership::Left {
            self.link = Membership::Left;
            self.ending = Some(why);
        }
    }

    /// Records that a node of the cluster is lost. An MPI world ends with any of its nodes.
    pub fn node_lost(&mut self, name: &str, is_of_world: bool) {
        if is_of_world {
            self.leave(AgentEnding::WorldLost(name.to_owned()));
        }
    }

    /// Records that a lease names this node's devices.
    pub fn opened(&mut self, now: Duration, grant: SessionGrant) {
        let Self { grants, executors, drivers, .. } = self;
        grants.announce(now, grant, |session| executors.has(session) || drivers.has(session));
    }

    /// Records that a session has ended, which ends its executor. The executor reports the `reason` to its program; it
    /// is empty if the program ended the session.
    pub fn closed(&mut self, now: Duration, session: SessionId, reason: &str, ends: &mut Vec<ExecutorId>) {
        let ending = (!reason.is_empty()).then(|| ExecutorEnding::Session(reason.to_owned()));
        self.end_session(session, ending.as_ref(), ends);
        if ending.is_some() {
            self.expect_heed(now, session);
        }
    }

    /// Ends a session as [`Node::closed`], if the agent knows it by this key: the coordinator has only a program's word for it. A session with another
    /// key is another program's, and goes on. The program may come back: then the session is announced again.
    pub fn claim_closed(
        &mut self,
        now: Duration,
        (session, key): (SessionId, SessionKey),
        reason: &str,
        ends: &mut Vec<ExecutorId>,
    ) {
        if self.grants.find(now, session).is_some_and(|grant| grant.key == key) {
            self.closed(now, session, reason, ends);
            self.grants.may_return(session);
        }
    }

    /// Records that a job holds devices here.
    pub fn job_started(&mut self, now: Duration, grant: JobGrant) {
        self.jobs.announce(now, grant);
        self.kept_changes += 1;
    }

    /// Releases a job and ends its sessions. The coordinator is informed once their executors have ended and no program
    /// of the job drives devices. Programs are not killed: a job that has lost only this node goes on elsewhere.
    pub fn release(&mut self, job: SessionKey, ends: &mut Vec<ExecutorId>) {
        self.jobs.release(job);
        self.suspensions.forget(job);
        for session in self.grants.of_job(job) {
            self.end_session(session, None, ends);
        }
        self.kept_changes += 1;
    }

    pub(super) fn end_session(
        &mut self,
        session: SessionId,
        ending: Option<&ExecutorEnding>,
        ends: &mut Vec<ExecutorId>,
    ) {
        self.grants.withdraw(session);
        self.drivers.session_ended(session);
        self.kept_changes += 1;
        self.executors.end(session, ending, ends);
    }

    /// Returns the sessions that have an executor or will soon, and those whose programs drive devices here. Excludes
    /// ended sessions.
    pub fn running(&self, now: Duration) -> BTreeSet<SessionId> {
        let driven = self.drivers.all().map(|(_, driver)| driver.session);
        let running = self.executors.running().chain(driven);
        running.filter(|session| self.grants.find(now, *session).is_some()).collect()
    }

    /// Returns what a job has of the node's devices; nothing without a job.
    pub fn held_by(&self, job: Option<SessionKey>) -> Vec<HeldDevice> {
        job.map(|job| self.jobs.devices(job).to_vec()).unwrap_or_default()
    }

    /// Returns the jobs that hold devices here, with their known sessions.
    pub(super) fn jobs_held(&self, now: Duration) -> Vec<JobGrant> {
        let held = self.jobs.held(now, |job| self.grants.of_job(job).into_iter().take(SESSIONS_NAMED_MAX).collect());
        let with_suspension = |job: JobGrant| JobGrant { is_suspended: self.suspensions.has(job.token.key), ..job };
        held.into_iter().map(with_suspension).collect()
    }

    pub(super) fn attend(&mut self, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        match self.link {
            Membership::Away { again } if again <= now => {
                self.reported = self.running(now);
                self.reasons.clear();
                self.uses.report_again();
                self.loads.report_again();
                self.link = Membership::Connecting;
                let sessions = self.reported.iter().filter_map(|session| self.grants.find(now, *session)).collect();
                let jobs = self.jobs_held(now);
                let previous = self.endpoint.as_ref().map(|endpoint| endpoint.node).or(self.previous);
                let granted = self.grants.known().collect();
                effects.push(Effect::Connect { previous, sessions, granted, jobs });
            }
            Membership::In { beat } => {
                // The last report of a session precedes its end. That of a closed session follows: its executor still runs.
                if beat <= now || self.uses.has_ended() || self.running(now) != self.reported {
                    self.report_uses(&mut effects);
                }
                self.report_sessions(now, &mut effects);
                self.report_ended_uses(&mut effects);
                self.confirm_releases(now, &mut effects);
                if beat <= now {
                    self.report_loads(&mut effects);
                    self.link = Membership::In { beat: now + self.period };
                    effects.push(Effect::Send(AgentReport::Heartbeat(self.reported.iter().copied().collect())));
                }
            }
            Membership::Away { .. } | Membership::Connecting | Membership::Left => {}
        }
        self.begin_prologs(now, &mut effects);
        self.attend_suspensions(&mut effects);
        self.end_overdue(now, &mut effects);
        self.attend_measuring(now, &mut effects);
        self.attend_testing(&mut effects);
        self.attend_departure(now, &mut effects);
        effects.extend(self.ending.take().map(Effect::Leave));
        effects
    }

    /// Confirms the release of jobs that have no executor here and no program that drives devices, after the site's epilog.
    fn confirm_releases(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let Self { jobs, executors, drivers, kept_changes, .. } = self;
        let in_use = |job| executors.has_job(job) || drivers.has_job(job);
        let epilogs = jobs.due_epilogs(now, in_use).into_iter();
        effects.extend(epilogs.map(|job| Effect::RunScript(SiteScript::Epilog, job)));
        for (job, failed) in jobs.released(in_use) {
            let failed = failed.map(|(script, why)| AgentReport::ScriptFailed(job, script, why));
            effects.extend(failed.map(Effect::Send));
            effects.push(Effect::Send(AgentReport::JobReleased(job)));
            *kept_changes += 1;
        }
    }

    /// Reports sessions that have started or ended since the last report, before a heartbeat names them.
    fn report_sessions(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let running = self.running(now);
        for session in self.reported.difference(&running) {
            effects.push(Effect::Send(AgentReport::Ended(*session, self.reasons.remove(session).unwrap_or_default())));
        }
        for grant in running.difference(&self.reported).filter_map(|session| self.grants.find(now, *session)) {
            effects.push(Effect::Send(AgentReport::Started(grant)));
        }
        self.reported = running;
        self.reasons.clear();
    }
}
