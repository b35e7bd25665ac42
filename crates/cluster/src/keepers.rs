//! The keepers of a job: the command that holds it, programs that wait for it, and its sessions.

use super::allocations::Allocations;
use super::input::ClientId;
use super::job::{Keeper, Opener, Stage};
use accord_scheduler::{Input, JobId};
use accord_types::SessionId;

/// Time for which a job without sessions continues without its command's connection, the same as for a waiting request.
const KEPT_MS: u64 = 300_000;
/// The same after a coordinator's start. A command that runs reconnects within seconds; one that has ended meanwhile
/// holds devices for nothing.
pub(super) const BACK_MS: u64 = 30_000;

impl Allocations {
    /// Returns the job of a session.
    pub(super) fn job_of(&self, session: SessionId) -> Option<JobId> {
        self.sessions.get(&session).copied()
    }

    /// Whether a connection waits for a job's start, or holds a job.
    pub(super) fn has_client(&self, client: ClientId) -> bool {
        self.waiting.contains_key(&client) || self.commands.contains_key(&client)
    }

    /// Returns the command that holds a job or waits for one.
    pub(super) fn holder_of(&self, id: JobId) -> Option<ClientId> {
        match self.jobs.get(&id)?.keeper {
            Keeper::Command(client) => client,
            Keeper::Sessions => None,
        }
    }

    /// Notes that a session of a running job has opened.
    pub(super) fn session_opened(&mut self, id: JobId, session: SessionId) {
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.sessions.insert(session);
            if job.keeper == Keeper::Sessions {
                job.seen = None;
            }
            self.sessions.insert(session, id);
            self.inputs.push_back(Input::SessionOpened { job: id, session });
        }
    }

    /// Notes that a session has ended.
    pub(super) fn session_ended(&mut self, session: SessionId) {
        let Some(id) = self.sessions.remove(&session) else { return };
        self.inputs.push_back(Input::SessionClosed { job: id, session });
        if let Some(job) = self.jobs.get_mut_unnoted(&id) {
            job.sessions.remove(&session);
            job.seen(self.now);
            let idle_ms = match job.keeper {
                Keeper::Command(_) if job.seen.is_some() => BACK_MS,
                Keeper::Command(_) => KEPT_MS,
                // The command of an earlier coordinator's job may be about to reconnect.
                Keeper::Sessions if job.gang.is_some() || job.is_earlier => self.linger_ms(),
                Keeper::Sessions => 0,
            };
            self.check_keeper(id, idle_ms);
        }
    }

    /// Schedules the end of a running job without a keeper, after `idle_ms`.
    pub(super) fn check_keeper(&mut self, id: JobId, idle_ms: u64) {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        let is_idle = matches!(job.stage, Stage::Running(_)) && !job.is_kept();
        if is_idle == job.idle_until.is_some() {
            return;
        }
        if let Some(before) = job.idle_until.take() {
            self.idle.remove(&(before, id));
        } else if idle_ms == 0 {
            self.end_unkept(id);
        } else {
            let until = self.now.plus(idle_ms);
            job.idle_until = Some(until);
            self.idle.insert((until, id));
        }
    }

    /// Ends a running job that has no keeper.
    pub(super) fn end_unkept(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let seen = job.seen.map(|seen| accord_scheduler::Millis(seen.0));
        if seen.is_none() && job.keeper == Keeper::Sessions {
            return self.inputs.push_back(Input::Ended { job: id });
        }
        if let Some(seen) = seen {
            let clock = self.books().clock(self.now);
            self.books_mut().ledger_mut().take_back(clock, id, seen);
        }
        self.inputs.push_back(Input::Abandoned { job: id, seen });
    }

    /// Makes a program wait for a job's start, also after it has reconnected.
    pub(super) fn wait_for(&mut self, id: JobId, opener: Opener) {
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        self.waiting.insert(opener.client, id);
        job.openers.insert(opener.client, opener);
        self.inputs.push_back(Input::Connected { job: id, connected: true });
    }

    /// Reconnects a command to its job. Returns its previous connection.
    pub(super) fn reconnect(&mut self, id: JobId, client: ClientId) -> Option<ClientId> {
        let job = self.jobs.get_mut(&id)?;
        if job.is_earlier && job.keeper == Keeper::Sessions {
            job.keeper = Keeper::Command(None);
        }
        let Keeper::Command(before) = &mut job.keeper else { return None };
        let before = before.replace(client);
        before.map(|before| self.commands.remove(&before));
        job.seen = None;
        self.commands.insert(client, id);
        self.inputs.push_back(Input::Connected { job: id, connected: true });
        self.check_keeper(id, 0);
        before
    }

    /// Handles the end of a connection that waits for a job or holds one. If `is_lost`, the process may be alive, and
    /// the job is kept for a while.
    pub(super) fn client_gone(&mut self, client: ClientId, is_lost: bool) {
        let waits = self.waiting.remove(&client);
        let Some(id) = waits.or_else(|| self.commands.remove(&client)) else { return };
        let Some(job) = self.jobs.get_mut_unnoted(&id) else { return };
        job.openers.remove(&client);
        let is_command = matches!(job.keeper, Keeper::Command(_));
        if let Keeper::Command(holder) = &mut job.keeper {
            *holder = None;
        }
        // The sessions of a command's job end with the command.
        if job.is_kept() && (is_lost || !is_command) {
            return;
        }
        match (&job.stage, is_lost) {
            (Stage::Waiting, true) => self.inputs.push_back(Input::Connected { job: id, connected: false }),
            (Stage::Waiting, false) => self.inputs.push_back(Input::Cancel { job: id, by: job.user.clone() }),
            (Stage::Running(_), true) => self.check_keeper(id, KEPT_MS),
            (Stage::Running(_), false) => self.inputs.push_back(Input::Ended { job: id }),
            (Stage::Ended, _) => {}
        }
    }
}
