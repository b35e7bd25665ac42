//! Snapshots of jobs and devices for queries that would block the core for too long.

use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::follower::Missing;
use accord_scheduler::ledger::{Clock, HistoryPage, JobUse, Totals, UsageView};
use accord_scheduler::policy::{Account, NoAccount, OthersJobs};
use accord_scheduler::{JobId, Scheduler, Usage};

/// The state of jobs at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Differs from that of an earlier snapshot if anything has changed.
    pub stamp: u64,
    /// Both clocks at that moment.
    pub clock: Clock,
    /// Inputs that the copy of the scheduler has not received, or the whole scheduler.
    pub missing: Missing,
    /// The jobs of other users that a user sees.
    pub others_jobs: OthersJobs,
}

impl Cluster {
    /// Sets the wall clock.
    pub fn set_wall_clock(&mut self, now: Millis, unix_ms: u64) {
        self.allocations.set_clock(now, unix_ms);
    }

    /// Returns the stamp of a snapshot taken now.
    pub fn stamp(&self) -> u64 {
        self.allocations.books().stamp()
    }

    /// Returns how many inputs the copy of the scheduler has not received.
    pub fn lacking(&self) -> usize {
        self.allocations.books().lacking()
    }

    /// Returns a snapshot with the inputs that the copy of the scheduler has not received, or the whole scheduler if
    /// there is no copy.
    pub fn snapshot(&mut self, now: Millis, has_copy: bool) -> Snapshot {
        let others_jobs = self.others_jobs();
        let books = self.allocations.books_mut();
        Snapshot { stamp: books.stamp(), clock: books.clock(now), missing: books.missing(has_copy), others_jobs }
    }

    /// Returns the usage until now.
    pub fn usage(&mut self, now: Millis) -> UsageView {
        let books = self.allocations.books_mut();
        let clock = books.clock(now);
        let usage = books.ledger_mut().usage(clock);
        self.record();
        usage
    }

    /// Returns both clocks at a time.
    pub fn clock(&self, now: Millis) -> Clock {
        self.allocations.books().clock(now)
    }

    /// Returns the scheduler, for short queries.
    pub fn scheduler(&self) -> &Scheduler {
        self.allocations.scheduler()
    }

    /// Returns the program that requested a job, and the wall clock time of the request.
    pub fn program_of(&self, job: JobId) -> Option<(&str, u64)> {
        self.allocations.books().ledger().program(job)
    }

    /// Returns the device time of a job and its use of devices so far.
    pub fn job_use(&self, now: Millis, job: JobId) -> Option<(Usage, JobUse)> {
        let books = self.allocations.books();
        books.ledger().job_use(books.clock(now), job)
    }

    /// Returns the numbers of jobs that have started and ended.
    pub fn job_totals(&self) -> Totals {
        self.allocations.books().ledger().totals()
    }

    /// Returns a page of ended jobs, of one user or of all.
    pub fn ended_jobs(&self, now: Millis, user: Option<&str>, before: Option<u64>) -> HistoryPage {
        let books = self.allocations.books();
        books.ledger().history(books.clock(now), user, before)
    }

    /// Returns the time since which ended jobs are kept, by the wall clock.
    pub fn history_since(&self) -> u64 {
        self.allocations.books().ledger().since_unix_ms()
    }

    /// Returns the leaf account that a user's request is charged to, which may be new to the scheduler.
    ///
    /// # Errors
    /// Returns the reason why the user may not use the account.
    pub fn account_for(&self, user: &str, wanted: Option<&str>) -> Result<Account, String> {
        let account = self.allocations.account_of(user, wanted).map_err(|why| why.to_string())?;
        let leaf = self.allocations.in_effect.policy.user_account(&account, user);
        leaf.ok_or_else(|| NoAccount::Nowhere.to_string())
    }

    /// Returns the default time limit of jobs charged to a user's leaf account.
    pub fn default_limit(&self, leaf: &str) -> Option<u64> {
        let account = leaf.rsplit_once('/').map_or(leaf, |(account, _)| account);
        self.allocations.in_effect.policy.default_limit_ms(account)
    }
}
