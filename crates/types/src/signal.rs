//! Wake-ups for waiters of a table's changes, without a system call if no waiter is blocked.

use crate::short_lock::{ShortGuard, ShortLock};
use crate::spin_policy::{POLLS_PER_YIELD, SpinOutcome, SpinPolicy, poll_until};
use std::io::{self, ErrorKind};
use std::sync::Condvar;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Raised after each change of a table, with the table locked.
#[derive(Debug, Default)]
pub struct Signal {
    changed: Condvar,
    /// Number of threads that are blocked, or about to block; changed with the table locked.
    sleepers: AtomicU32,
    /// The number of raises so far.
    raised: AtomicU32,
}

impl Signal {
    /// Announces a change, and wakes all blocked waiters.
    pub fn raise(&self) {
        self.raised.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Wakes blocked waiters for a change that spinning waiters see by themselves. Called with the table locked, as
    /// [`Signal::raise`].
    pub fn wake(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
    }

    /// Blocks until the signal is raised, or until `end`.
    ///
    /// # Errors
    /// Returns [`ErrorKind::WouldBlock`] at `end`.
    pub fn wait<'a, T>(&self, table: ShortGuard<'a, T>, end: Option<Instant>) -> io::Result<ShortGuard<'a, T>> {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let woken = wait_until(&self.changed, table, end);
        // The table is locked again, or the wait has failed.
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        woken
    }

    /// Releases the table's lock until the signal is raised, or until `end`: spins for as long as recent waits took,
    /// then blocks.
    pub fn spin_then_wait<'a, T>(
        &self,
        table: &'a ShortLock<T>,
        mut guard: ShortGuard<'a, T>,
        end: Option<Instant>,
        spin: &mut SpinPolicy,
    ) -> ShortGuard<'a, T> {
        let (start, seen) = (Instant::now(), self.raised());
        if spin.limit() > Duration::ZERO {
            drop(guard);
            spin.spin(start, POLLS_PER_YIELD, || (self.raised() != seen).then_some(()));
            guard = table.lock();
        }
        if self.raised() == seen {
            guard = self.wait(guard, end).unwrap_or_else(|_| table.lock());
        }
        spin.waited(start.elapsed());
        guard
    }

    /// Returns the number of raises so far. Called with the table locked.
    pub fn raised(&self) -> u32 {
        self.raised.load(Ordering::Acquire)
    }

    /// Spins, without the table's lock, until the signal is raised after `seen`, for as long as recent waits took.
    pub fn spin_until(&self, seen: u32, spin: &SharedSpinPolicy) {
        spin.spin_until(|| self.raised() != seen);
    }
}

/// The recent durations of one kind of wait.
#[derive(Debug, Default)]
pub struct SharedSpinPolicy(ShortLock<SpinPolicy>);

impl From<SpinPolicy> for SharedSpinPolicy {
    fn from(policy: SpinPolicy) -> Self {
        Self(ShortLock::new(policy))
    }
}

impl SharedSpinPolicy {
    /// Whether spinning is worthwhile.
    pub fn has_any(&self) -> bool {
        self.policy().limit() > Duration::ZERO
    }

    /// Replaces the policy, including its record of waits.
    pub fn set(&self, policy: SpinPolicy) {
        *self.policy() = policy;
    }

    /// Spins for as long as recent waits took; returns whether `has_update` held.
    pub fn spin_until(&self, has_update: impl Fn() -> bool) -> bool {
        self.poll_until(POLLS_PER_YIELD, || has_update().then_some(())).is_some()
    }

    /// Spins as [`SharedSpinPolicy::spin_until`] until `found` returns a value; `looks` polls take about as long as to yield
    /// the core once.
    pub fn poll_until<T>(&self, looks: u32, found: impl FnMut() -> Option<T>) -> Option<T> {
        let limit = self.policy().limit();
        let looked = if limit > Duration::ZERO {
            poll_until(Instant::now(), limit, looks, found)
        } else {
            Err(SpinOutcome::Late)
        };
        if matches!(looked, Err(SpinOutcome::Oversubscribed)) {
            self.policy().oversubscribed();
        }
        looked.ok()
    }

    /// Waits until memory shows that `is_ready` holds: spins as [`SharedSpinPolicy::spin_until`], then calls `block`. Records
    /// the wait's duration.
    pub fn wait(&self, is_ready: impl Fn() -> bool, block: impl FnOnce()) {
        let start = Instant::now();
        if !self.spin_until(is_ready) {
            block();
        }
        self.waited(start);
    }

    /// Records a wait from `start` until now.
    pub fn waited(&self, start: Instant) {
        self.policy().waited(start.elapsed());
    }

    fn policy(&self) -> ShortGuard<'_, SpinPolicy> {
        self.0.lock()
    }
}

/// Waits for `changed`, until `end`.
pub fn wait_until<'a, T>(
    changed: &Condvar,
    state: ShortGuard<'a, T>,
    end: Option<Instant>,
) -> io::Result<ShortGuard<'a, T>> {
    let Some(end) = end else { return Ok(ShortGuard::wait(state, changed)) };
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::WouldBlock.into());
    }
    Ok(ShortGuard::wait_timeout(state, changed, left).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn wakes_spinning_and_blocked_waiters() {
        let (table, signal) = (Arc::new(ShortLock::new(0)), Arc::new(Signal::default()));
        let (of_thread, raised) = (table.clone(), signal.clone());
        let other = std::thread::spawn(move || {
            for _ in 0..1000 {
                let mut count = of_thread.lock();
                *count += 1;
                raised.raise();
            }
        });
        let mut count = table.lock();
        let end = Some(Instant::now() + Duration::from_secs(20));
        while *count < 1000 {
            count = signal.wait(count, end).unwrap();
        }
        drop(count);
        other.join().unwrap();
        assert_eq!((signal.raised(), signal.sleepers.load(Ordering::Relaxed)), (1000, 0));
        // After short waits the policy spins; a raise before `spin_until` is seen at once.
        let spin = SharedSpinPolicy::default();
        assert!(!spin.has_any());
        (0..40).for_each(|_| spin.waited(Instant::now()));
        signal.spin_until(999, &spin);
        let late = signal.wait(table.lock(), Some(Instant::now())).map(drop).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::WouldBlock);
    }
}
