//! Jobs and devices at one moment, for questions that take longer than the core may be kept from its work.

use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::follower::Missing;
use accord_scheduler::ledger::{Clock, HistoryPage, JobUse, Totals, UsageView};
use accord_scheduler::policy::{Account, NoAccount, OthersJobs};
use accord_scheduler::{JobId, Scheduler, Usage};

/// Jobs at one moment, for questions.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Differs from that of an earlier one if anything has changed.
    pub stamp: u64,
    /// Both clocks when it was made.
    pub clock: Clock,
    /// Inputs that the copy of the scheduler lacks, or the whole scheduler.
    pub missing: Missing,
    /// The part of others' jobs that users see.
    pub others_jobs: OthersJobs,
}

impl Cluster {
    /// Says what the wall clock shows.
    pub fn set_wall_clock(&mut self, now: Millis, unix_ms: u64) {
        self.allocations.set_clock(now, unix_ms);
    }

    /// The stamp of a snapshot of now.
    pub fn stamp(&self) -> u64 {
        self.allocations.books().stamp()
    }

    /// Returns how many inputs the scheduler's copy for questions lacks.
    pub fn lacking(&self) -> usize {
        self.allocations.books().lacking()
    }

    /// Returns jobs and devices as they are now: the inputs that the one copy of the scheduler lacks, or everything without a copy.
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

    /// Both clocks at a moment.
    pub fn clock(&self, now: Millis) -> Clock {
        self.allocations.books().clock(now)
    }

    /// The scheduler, for short questions.
    pub fn scheduler(&self) -> &Scheduler {
        self.allocations.scheduler()
    }

    /// The program that asked for a job, and when it did by the wall clock.
    pub fn program_of(&self, job: JobId) -> Option<(&str, u64)> {
        self.allocations.books().ledger().program(job)
    }

    /// Returns the device time that a job holds and its use of devices so far.
    pub fn job_use(&self, now: Millis, job: JobId) -> Option<(Usage, JobUse)> {
        let books = self.allocations.books();
        books.ledger().job_use(books.clock(now), job)
    }

    /// Returns the numbers of jobs that have started and ended.
    pub fn job_totals(&self) -> Totals {
        self.allocations.books().ledger().totals()
    }

    /// A page of ended jobs: of one user, or of all.
    pub fn ended_jobs(&self, now: Millis, user: Option<&str>, before: Option<u64>) -> HistoryPage {
        let books = self.allocations.books();
        books.ledger().history(books.clock(now), user, before)
    }

    /// Returns the time since which ended jobs are kept, by the wall clock.
    pub fn history_since(&self) -> u64 {
        self.allocations.books().ledger().since_unix_ms()
    }

    /// The leaf account that a user's request is charged to, which the scheduler may not know yet.
    ///
    /// # Errors
    /// Returns the reason why the user may not use the account.
    pub fn account_for(&self, user: &str, wanted: Option<&str>) -> Result<Account, String> {
        let account = self.allocations.account_of(user, wanted).map_err(|why| why.to_string())?;
        let leaf = self.allocations.in_effect.policy.user_account(&account, user);
        leaf.ok_or_else(|| NoAccount::Nowhere.to_string())
    }

    /// The time limit of a user's jobs of an account that name none.
    pub fn default_limit(&self, leaf: &str) -> Option<u64> {
        let account = leaf.rsplit_once('/').map_or(leaf, |(account, _)| account);
        self.allocations.in_effect.policy.default_limit_ms(account)
    }
}
