//! The scheduler and the ledger, which receives each of the scheduler's inputs.

use super::time::Millis;
use accord_scheduler::follower::{InputLog, Missing};
use accord_scheduler::ledger::{AffectedJobs, Clock, Ledger, month_of};
use accord_scheduler::{Effect, Input, Policy, Scheduler};

/// The scheduler and its ledger.
#[derive(Debug)]
pub(super) struct SchedulingState {
    scheduler: Scheduler,
    /// Inputs that the copy for queries has not received.
    log: InputLog,
    ledger: Ledger,
    clock: Clock,
    month: u64,
    stamp: u64,
}

impl SchedulingState {
    /// Creates a scheduler without nodes.
    pub(super) fn new(policy: Policy) -> Self {
        let clock = Clock::default();
        Self::restored(Scheduler::new(policy), Ledger::new(clock), clock, 0)
    }

    /// Takes over a scheduler, its ledger, and the month of their budgets.
    pub(super) fn restored(scheduler: Scheduler, ledger: Ledger, clock: Clock, month: u64) -> Self {
        Self { scheduler, log: InputLog::default(), ledger, clock, month, stamp: 0 }
    }

    /// Returns the current month of monthly budgets.
    pub(super) fn month(&self) -> u64 {
        self.month
    }

    pub(super) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    /// Sets the wall clock. Returns whether a new month has begun.
    pub(super) fn set_clock(&mut self, now: Millis, unix_ms: u64) -> bool {
        let is_first = self.clock == Clock::default();
        self.clock = Clock { now: accord_scheduler::Millis(now.0), unix_ms };
        if is_first {
            self.ledger = Ledger::new(self.clock);
        }
        let month = month_of(unix_ms);
        // Setting the clock back begins no month.
        let begins = month > self.month;
        self.month = self.month.max(month);
        begins && !is_first
    }

    /// Passes an input to the scheduler and the ledger.
    pub(super) fn apply(&mut self, now: Millis, input: Input, decided: &mut Vec<Effect>) {
        let (touched, is_tick, before) = (AffectedJobs::by(&input), input == Input::Tick, decided.len());
        let now = accord_scheduler::Millis(now.0);
        let unix_ms = self.clock.unix_ms + now.since(self.clock.now);
        self.log.note(now, &input);
        self.scheduler.apply(now, input, decided);
        let decided = &decided[before..];
        self.ledger.observe(Clock { now, unix_ms }, touched, decided, &self.scheduler);
        if !is_tick || !decided.is_empty() {
            self.stamp += 1;
        }
    }

    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Returns the inputs since the last call for the copy of the scheduler, or the whole scheduler if there is no copy.
    pub(super) fn missing(&mut self, has_copy: bool) -> Missing {
        self.log.take(&self.scheduler, has_copy)
    }

    /// Returns how many inputs the copy has not received.
    pub(super) fn lacking(&self) -> usize {
        self.log.lacking()
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(super) fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Returns both clocks at a time.
    pub(super) fn clock(&self, now: Millis) -> Clock {
        let now = accord_scheduler::Millis(now.0);
        Clock { now, unix_ms: self.clock.unix_ms + now.since(self.clock.now) }
    }

    /// Returns a number that differs after every change of jobs, devices or the policy.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }
}
