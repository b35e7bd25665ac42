//! Jobs that hold devices of this node. A restarted coordinator learns of them from the agent.

use accord_types::{HeldDevice, JobGrant, SessionId, SessionKey, SiteScript};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Most jobs that hold devices here, and most that are being released.
const JOBS_MAX: usize = 1_024;
/// Most scripts of the site at one time; those of further jobs wait.
const SCRIPTS_MAX: usize = 32;

/// Jobs by their keys.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    known: BTreeMap<SessionKey, JobEntry>,
    /// Jobs that hold no devices any more, but may have running executors.
    releasing: BTreeSet<SessionKey>,
    /// The failed scripts of released jobs, and the reasons: a coordinator that missed a report orders the release again.
    failed: BTreeMap<SessionKey, (SiteScript, String)>,
    /// Whether the site's scripts run for each job.
    has_scripts: bool,
}

#[derive(Debug)]
struct JobEntry {
    grant: JobGrant,
    /// `None` if no end is set.
    end: Option<Duration>,
    /// Whether its sessions were ended at its end.
    is_over: bool,
    scripts: Scripts,
    /// The first script that has failed, and the reason.
    failure: Option<(SiteScript, String)>,
}

/// The progress of the site's scripts for a job.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Scripts {
    /// The prolog has to run before the job may use the node.
    PrologDue,
    PrologRuns,
    /// The prolog has ended with this outcome, or the site has none.
    Begun(Result<(), String>),
    EpilogRuns,
    Over,
}

/// Whether a job may use the node, by the site's prolog. Names the job's number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    Admitted,
    /// The prolog has not ended.
    Waits(u64),
    /// The prolog has failed, for this reason.
    Refused(u64, String),
}

impl Jobs {
    /// Has the site's scripts run for each job.
    pub(super) fn with_scripts(self) -> Self {
        Self { has_scripts: true, ..self }
    }

    /// Adds a job, or changes the end of a known one: the last announcement counts.
    pub(super) fn announce(&mut self, now: Duration, mut grant: JobGrant) {
        let known = self.known.get(&grant.token.key);
        for device in &mut grant.devices {
            let mut before = known.iter().flat_map(|known| &known.grant.devices);
            if let Some(before) = before.find(|before| before.ordinal == device.ordinal) {
                // A coordinator that has lost its state announces the job without them.
                device.milli_cores = device.milli_cores.max(before.milli_cores);
                device.host_memory = device.host_memory.max(before.host_memory);
            }
        }
        let before = known.map(|known| (known.scripts.clone(), known.failure.clone()));
        let begun = if self.has_scripts { Scripts::PrologDue } else { Scripts::Begun(Ok(())) };
        self.add(now, grant, before.unwrap_or((begun, None)));
    }

    /// Adds a job that an earlier agent knew, and whose prolog has succeeded.
    pub(super) fn resume(&mut self, now: Duration, grant: JobGrant) {
        self.add(now, grant, (Scripts::Begun(Ok(())), None));
    }

    fn add(&mut self, now: Duration, grant: JobGrant, (scripts, failure): (Scripts, Option<(SiteScript, String)>)) {
        let end = grant.ends_in_ms.and_then(|left| now.checked_add(Duration::from_millis(left)));
        let key = grant.token.key;
        if self.known.len() >= JOBS_MAX && !self.known.contains_key(&key) {
            tracing::warn!("job {} is one more than the {JOBS_MAX} that may hold devices here", grant.token.job);
            return;
        }
        self.known.insert(key, JobEntry { grant, end, is_over: false, scripts, failure });
    }

    /// Returns what a job has of the node's devices; nothing if it is unknown.
    pub(super) fn devices(&self, job: SessionKey) -> &[HeldDevice] {
        self.known.get(&job).map_or(&[], |known| &known.grant.devices)
    }

    /// Returns the number of a known job.
    pub(super) fn number(&self, job: SessionKey) -> Option<u64> {
        Some(self.known.get(&job)?.grant.token.job)
    }

    /// Whether a job holds devices here.
    pub(super) fn has(&self, job: SessionKey) -> bool {
        self.known.contains_key(&job)
    }

    /// Whether the site's scripts run for each job.
    pub(super) fn has_scripts(&self) -> bool {
        self.has_scripts
    }

    /// Returns whether a known job may use the node.
    pub(super) fn admission(&self, job: SessionKey) -> Option<Admission> {
        let JobEntry { grant, scripts, .. } = self.known.get(&job)?;
        let number = grant.token.job;
        Some(match scripts {
            Scripts::PrologDue | Scripts::PrologRuns => Admission::Waits(number),
            Scripts::Begun(Err(why)) => Admission::Refused(number, why.clone()),
            Scripts::Begun(Ok(())) | Scripts::EpilogRuns | Scripts::Over => Admission::Admitted,
        })
    }

    /// Returns how many further scripts may run.
    fn room(&self) -> usize {
        let runs = |known: &&JobEntry| matches!(known.scripts, Scripts::PrologRuns | Scripts::EpilogRuns);
        SCRIPTS_MAX.saturating_sub(self.known.values().filter(runs).count())
    }

    /// Returns the jobs whose prolog is due, and counts it as running.
    pub(super) fn due_prologs(&mut self, now: Duration) -> Vec<JobGrant> {
        let room = self.room();
        let Self { known, releasing, .. } = self;
        let due = |(key, known): &(&SessionKey, &mut JobEntry)| {
            known.scripts == Scripts::PrologDue && !releasing.contains(*key)
        };
        let begin = |(_, known): (_, &mut JobEntry)| {
            known.scripts = Scripts::PrologRuns;
            known.held(now)
        };
        known.iter_mut().filter(due).take(room).map(begin).collect()
    }

    /// Returns the jobs to release whose epilog is due, because nothing of them is in use any more. Counts it as running.
    pub(super) fn due_epilogs(&mut self, now: Duration, in_use: impl Fn(SessionKey) -> bool) -> Vec<JobGrant> {
        if !self.has_scripts {
            return Vec::new();
        }
        let room = self.room();
        let Self { known, releasing, .. } = self;
        let is_free = |job: &&SessionKey| !in_use(**job);
        let begin = |job: &SessionKey| {
            let known = known.get_mut(job).filter(|known| matches!(known.scripts, Scripts::Begun(_)))?;
            known.scripts = Scripts::EpilogRuns;
            Some(known.held(now))
        };
        releasing.iter().filter(is_free).filter_map(begin).take(room).collect()
    }

    /// Records the outcome of a script.
    pub(super) fn script_ended(&mut self, script: SiteScript, job: SessionKey, outcome: Result<(), String>) {
        let Some(known) = self.known.get_mut(&job) else { return };
        let why = outcome.as_ref().err().cloned();
        known.scripts = match (script, &known.scripts) {
            (SiteScript::Prolog, Scripts::PrologRuns) => Scripts::Begun(outcome),
            (SiteScript::Epilog, Scripts::EpilogRuns) => Scripts::Over,
            _ => return,
        };
        if known.failure.is_none() {
            known.failure = why.map(|why| (script, why));
        }
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

    /// Removes and returns the jobs to release of which nothing is in use any more, and for which no script runs or is due,
    /// with the first script that has failed and the reason.
    pub(super) fn released(
        &mut self,
        in_use: impl Fn(SessionKey) -> bool,
    ) -> Vec<(SessionKey, Option<(SiteScript, String)>)> {
        let awaits = |known: &JobEntry| match known.scripts {
            Scripts::PrologRuns | Scripts::EpilogRuns => true,
            Scripts::Begun(_) => self.has_scripts,
            Scripts::PrologDue | Scripts::Over => false,
        };
        let is_kept = |job: &SessionKey| in_use(*job) || self.known.get(job).is_some_and(awaits);
        let (left, released) = std::mem::take(&mut self.releasing).into_iter().partition(is_kept);
        self.releasing = left;
        let released: BTreeSet<SessionKey> = released;
        let Self { known, failed, .. } = self;
        let outcome = |job: SessionKey| {
            if let Some(failure) = known.remove(&job).and_then(|known| known.failure) {
                if failed.len() >= JOBS_MAX {
                    failed.pop_first();
                }
                failed.insert(job, failure);
            }
            (job, failed.get(&job).cloned())
        };
        released.into_iter().map(outcome).collect()
    }

    /// Returns the jobs that hold devices here, with the time that they have left.
    pub(super) fn held(&self, now: Duration, sessions: impl Fn(SessionKey) -> Vec<SessionId>) -> Vec<JobGrant> {
        let reported = |job: &JobEntry| JobGrant { sessions: sessions(job.grant.token.key), ..job.held(now) };
        self.known.values().map(reported).collect()
    }

    /// # Errors
    /// Returns an error if a bound is exceeded.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        let counts = [self.known.len(), self.releasing.len(), self.failed.len()];
        let is_bounded = counts.iter().all(|count| *count <= JOBS_MAX);
        is_bounded.then_some(()).ok_or_else(|| format!("jobs, jobs to release, and failed scripts: {counts:?}"))
    }
}

impl JobEntry {
    /// Returns the grant with the time that it has left.
    fn held(&self, now: Duration) -> JobGrant {
        let left = |end: Duration| u64::try_from(end.saturating_sub(now).as_millis()).unwrap_or(u64::MAX);
        JobGrant { ends_in_ms: self.end.map(left), ..self.grant.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::JobToken;

    fn grant(job: u8, ends_in_ms: Option<u64>) -> JobGrant {
        let key = SessionKey([job; SessionKey::LEN]);
        let device =
            HeldDevice { ordinal: 0, milli: 1_000, memory: 0, exclusive: true, milli_cores: 0, host_memory: 0 };
        JobGrant {
            token: JobToken { job: job.into(), key },
            user: "alice".to_owned(),
            account: "site/alice".to_owned(),
            ends_in_ms,
            devices: vec![device],
            sessions: Vec::new(),
            is_suspended: false,
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
        assert_eq!(jobs.released(|_| true), []);
        assert_eq!(jobs.held(second * 2, |_| Vec::new()).len(), 2, "something of it is in use");
        assert_eq!(jobs.released(|_| false), [(key, None)]);
        assert_eq!(jobs.held(second, |_| Vec::new()), [grant(2, None)]);
        assert_eq!(jobs.released(|_| false), []);
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
    fn job_beyond_the_limit_is_not_saved() {
        let mut jobs = Jobs::default();
        for job in 0..=JOBS_MAX {
            let mut grant = grant(0, None);
            grant.token.key.0[..8].copy_from_slice(&job.to_le_bytes());
            jobs.announce(Duration::ZERO, grant);
        }
        assert_eq!(jobs.known.len(), JOBS_MAX);
        jobs.check_bounds().unwrap();
    }

    #[test]
    fn a_later_announcement_takes_no_cores_and_no_memory_away() {
        let mut jobs = Jobs::default();
        let with = |milli_cores, host_memory| {
            let mut job = grant(1, None);
            job.devices[0].milli_cores = milli_cores;
            job.devices[0].host_memory = host_memory;
            job
        };
        for (cores, memory) in [(2_000, 5), (0, 0), (1_000, 9)] {
            jobs.announce(Duration::ZERO, with(cores, memory));
        }
        assert_eq!(jobs.devices(grant(1, None).token.key), with(2_000, 9).devices);
    }

    #[test]
    fn scripts_of_further_jobs_wait_while_as_many_run_as_may() {
        let (mut jobs, now) = (Jobs::default().with_scripts(), Duration::ZERO);
        for job in 1..=40 {
            jobs.announce(now, grant(job, None));
        }
        let first = jobs.due_prologs(now);
        assert_eq!((first.len(), jobs.due_prologs(now).len()), (SCRIPTS_MAX, 0));
        for job in &first {
            jobs.script_ended(SiteScript::Prolog, job.token.key, Ok(()));
            jobs.release(job.token.key);
        }
        assert_eq!(jobs.due_prologs(now).len(), 40 - SCRIPTS_MAX);
        // Eight prologs run, so 24 of the 32 epilogs may.
        assert_eq!(jobs.due_epilogs(now, |_| false).len(), 2 * SCRIPTS_MAX - 40);
        assert_eq!(jobs.released(|_| false), [], "their epilogs run or are due");
    }

    #[test]
    fn a_job_uses_the_node_after_its_prolog_and_is_released_after_its_epilog() {
        let mut jobs = Jobs::default().with_scripts();
        let (now, job) = (Duration::ZERO, grant(7, None));
        let key = job.token.key;
        jobs.announce(now, job.clone());
        assert_eq!(jobs.admission(key), Some(Admission::Waits(7)));
        assert_eq!(jobs.due_prologs(now), vec![job.clone()]);
        // A coordinator that reconnects announces the job again.
        jobs.announce(now, job.clone());
        assert_eq!((jobs.due_prologs(now), jobs.admission(key)), (Vec::new(), Some(Admission::Waits(7))));
        jobs.script_ended(SiteScript::Prolog, key, Ok(()));
        assert_eq!(jobs.admission(key), Some(Admission::Admitted));
        jobs.release(key);
        assert_eq!(jobs.due_epilogs(now, |_| true), []);
        assert_eq!(jobs.due_epilogs(now, |_| false), vec![job.clone()]);
        assert_eq!((jobs.due_epilogs(now, |_| false), jobs.released(|_| false)), (Vec::new(), Vec::new()));
        jobs.script_ended(SiteScript::Epilog, key, Err("it fails".to_owned()));
        assert_eq!(jobs.released(|_| false), [(key, Some((SiteScript::Epilog, "it fails".to_owned())))]);
        // The report was lost with its connection.
        jobs.release(key);
        assert_eq!(jobs.released(|_| false), [(key, Some((SiteScript::Epilog, "it fails".to_owned())))]);
        assert_eq!(jobs.admission(key), None);
    }

    #[test]
    fn a_failed_prolog_keeps_its_job_off_the_node_and_the_epilog_runs_all_the_same() {
        let mut jobs = Jobs::default().with_scripts();
        let (now, job) = (Duration::ZERO, grant(7, None));
        let key = job.token.key;
        jobs.announce(now, job.clone());
        jobs.due_prologs(now);
        jobs.release(key);
        assert_eq!(jobs.due_epilogs(now, |_| false), [], "the prolog runs");
        assert_eq!(jobs.released(|_| false), []);
        jobs.script_ended(SiteScript::Prolog, key, Err("no disk".to_owned()));
        assert_eq!(jobs.admission(key), Some(Admission::Refused(7, "no disk".to_owned())));
        assert_eq!(jobs.due_epilogs(now, |_| false), [job]);
        // A coordinator that reconnects announces the job again.
        jobs.announce(now, grant(7, None));
        jobs.script_ended(SiteScript::Epilog, key, Err("nor at the end".to_owned()));
        assert_eq!(jobs.released(|_| false), [(key, Some((SiteScript::Prolog, "no disk".to_owned())))]);
    }

    #[test]
    fn no_script_runs_for_a_job_that_is_released_before_its_prolog() {
        let mut jobs = Jobs::default().with_scripts();
        let key = grant(7, None).token.key;
        jobs.announce(Duration::ZERO, grant(7, None));
        jobs.release(key);
        assert_eq!(jobs.due_prologs(Duration::ZERO), []);
        assert_eq!(jobs.due_epilogs(Duration::ZERO, |_| false), []);
        assert_eq!(jobs.released(|_| false), [(key, None)]);
        // The prolog has succeeded under the earlier agent.
        jobs.resume(Duration::ZERO, grant(8, None));
        jobs.release(grant(8, None).token.key);
        assert_eq!(jobs.due_epilogs(Duration::ZERO, |_| false), [grant(8, None)]);
    }
}
