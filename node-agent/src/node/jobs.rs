//! Jobs that hold devices of this node. A restarted coordinator learns of them from the agent.

use accord_types::{JobGrant, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Most jobs that hold devices here, and most that are being released.
const JOBS_MAX: usize = 1_024;

/// Jobs by their keys.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: BTreeMap<SessionKey, Known>,
    /// Jobs that hold no devices any more, but may have running executors.
    releasing: BTreeSet<SessionKey>,
}

#[derive(Debug)]
struct Known {
    grant: JobGrant,
    /// `None` if no end is set.
    end: Option<Duration>,
    /// Whether its sessions were ended at its end.
    is_over: bool,
}

impl Jobs {
    /// Adds a job, or changes the end of a known one: the last announcement counts.
    pub(super) fn announce(&mut self, now: Duration, grant: JobGrant) {
        let end = grant.ends_in_ms.and_then(|left| now.checked_add(Duration::from_millis(left)));
        let key = grant.token.key;
        if self.known.len() >= JOBS_MAX && !self.known.contains_key(&key) {
            tracing::warn!("job {} is one more than the {JOBS_MAX} that may hold devices here", grant.token.job);
            return;
        }
        self.known.insert(key, Known { grant, end, is_over: false });
    }

    /// Whether no job holds devices here.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Returns the next end of a job that was not noticed yet.
    pub(super) fn next_end(&self) -> Option<Duration> {
        self.known.values().filter(|known| !known.is_over).filter_map(|known| known.end).min()
    }

    /// Returns numbers and keys of the jobs that have reached their end, each job once.
    pub(super) fn notice_ends(&mut self, now: Duration) -> Vec<(u64, SessionKey)> {
        let over = self.known.values_mut().filter(|known| !known.is_over && known.end.is_some_and(|end| end <= now));
        let noticed = over.map(|known| {
            known.is_over = true;
            (known.grant.token.job, known.grant.token.key)
        });
        noticed.collect()
    }

    /// Begins to release a job. Registrations name it until nothing of it is in use.
    pub(super) fn release(&mut self, job: SessionKey) {
        if self.releasing.len() < JOBS_MAX {
            self.releasing.insert(job);
        }
    }

    /// Removes and returns the jobs to release of which nothing is in use any more.
    pub(super) fn released(&mut self, in_use: impl Fn(SessionKey) -> bool) -> impl Iterator<Item = SessionKey> {
        let (left, released) = std::mem::take(&mut self.releasing).into_iter().partition(|job| in_use(*job));
        self.releasing = left;
        let released: BTreeSet<SessionKey> = released;
        released.iter().for_each(|job| drop(self.known.remove(job)));
        released.into_iter()
    }

    /// Returns the jobs that hold devices here, with the time that they have left.
    pub(super) fn held(&self, now: Duration, sessions: impl Fn(SessionKey) -> Vec<SessionId>) -> Vec<JobGrant> {
        let left = |end: Duration| u64::try_from(end.saturating_sub(now).as_millis()).unwrap_or(u64::MAX);
        let known = self.known.values();
        let told = |job: &Known| {
            let sessions = sessions(job.grant.token.key);
            JobGrant { ends_in_ms: job.end.map(left), sessions, ..job.grant.clone() }
        };
        known.map(told).collect()
    }

    /// # Errors
    /// Returns an error if a bound is exceeded.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        let counts = (self.known.len(), self.releasing.len());
        let is_bounded = counts.0 <= JOBS_MAX && counts.1 <= JOBS_MAX;
        is_bounded.then_some(()).ok_or_else(|| format!("jobs and jobs to release: {counts:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{HeldDevice, JobToken};

    fn grant(job: u8, ends_in_ms: Option<u64>) -> JobGrant {
        let key = SessionKey([job; SessionKey::LEN]);
        let device = HeldDevice { ordinal: 0, milli: 1_000, memory: 0, exclusive: true };
        JobGrant {
            token: JobToken { job: job.into(), key },
            user: "alice".to_owned(),
            account: "site/alice".to_owned(),
            ends_in_ms,
            devices: vec![device],
            sessions: Vec::new(),
        }
    }

    #[test]
    fn a_job_is_kept_with_its_latest_end_until_it_is_released() {
        let (mut jobs, second) = (Jobs::default(), Duration::from_secs(1));
        jobs.announce(Duration::ZERO, grant(1, Some(5_000)));
        jobs.announce(Duration::ZERO, grant(2, None));
        jobs.announce(second, grant(1, Some(9_000)));
        assert_eq!(jobs.held(second * 2, |_| Vec::new()), [grant(1, Some(8_000)), grant(2, None)]);
        let key = grant(1, None).token.key;
        jobs.release(key);
        assert_eq!(jobs.released(|_| true).count(), 0);
        assert_eq!(jobs.held(second * 2, |_| Vec::new()).len(), 2, "something of it is in use");
        assert_eq!(jobs.released(|_| false).collect::<Vec<_>>(), [key]);
        assert_eq!(jobs.held(second, |_| Vec::new()), [grant(2, None)]);
        assert_eq!(jobs.released(|_| false).count(), 0);
    }

    #[test]
    fn the_end_of_a_job_is_noticed_once_and_moves_as_the_coordinator_says() {
        let (mut jobs, second) = (Jobs::default(), Duration::from_secs(1));
        jobs.announce(Duration::ZERO, grant(1, Some(1_000)));
        assert_eq!((jobs.notice_ends(second / 2), jobs.next_end()), (Vec::new(), Some(second)));
        jobs.announce(second / 2, grant(1, Some(1_500)));
        assert_eq!((jobs.notice_ends(second), jobs.next_end()), (Vec::new(), Some(second * 2)));
        jobs.announce(second, grant(1, Some(500)));
        assert_eq!(jobs.notice_ends(second * 3 / 2), [(1, grant(1, None).token.key)]);
        assert_eq!((jobs.notice_ends(second * 2), jobs.next_end()), (Vec::new(), None));
        jobs.announce(second * 2, grant(1, None));
        assert_eq!((jobs.notice_ends(second * 9), jobs.next_end()), (Vec::new(), None));
    }

    #[test]
    fn one_job_too_many_is_not_kept() {
        let mut jobs = Jobs::default();
        for job in 0..=JOBS_MAX {
            let mut grant = grant(0, None);
            grant.token.key.0[..8].copy_from_slice(&job.to_le_bytes());
            jobs.announce(Duration::ZERO, grant);
        }
        assert_eq!(jobs.known.len(), JOBS_MAX);
        jobs.check_bounds().unwrap();
    }
}
