//! Ended jobs.

use super::activity::{JobEvent, JobUse};
use crate::charge::Usage;
use crate::effect::{DevicesOnNode, EndCause};
use crate::ids::JobId;
use crate::request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most ended jobs; the oldest ones are dropped.
pub const HISTORY_JOBS_MAX: usize = 65_536;
/// Approximate limit on the size of ended jobs, in bytes.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;
/// Most jobs of a page.
const PAGE_JOBS_MAX: usize = 128;
/// Most jobs that a page visits, including skipped jobs of other users.
const PAGE_SCAN_MAX: usize = 8_192;

/// A job as its program requested it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission {
    /// Its user.
    pub user: String,
    /// Its account, without the user's part.
    pub account: String,
    /// Its request.
    pub request: Arc<Request>,
    /// The program that made the request.
    pub program: String,
    /// Time of the request, by the wall clock.
    pub asked_unix_ms: u64,
}

/// A job that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndedJob {
    /// Its number in the history, which is the order of ends.
    pub number: u64,
    /// The job.
    pub job: JobId,
    /// Its user, account and request.
    pub submission: Submission,
    /// Time of its start, by the wall clock; `None` if it never started.
    pub started_unix_ms: Option<u64>,
    /// Time of its end, by the wall clock.
    pub ended_unix_ms: u64,
    /// Duration of the wait.
    pub waited_ms: u64,
    /// Duration of the run.
    pub ran_ms: u64,
    /// Its devices.
    pub devices: Vec<DevicesOnNode>,
    /// The usage that was charged.
    pub used: Usage,
    /// Its use of the devices.
    pub did: JobUse,
    /// Messages to its program.
    pub events: Vec<JobEvent>,
    /// The reason for its end.
    pub cause: EndCause,
}

impl EndedJob {
    /// Returns the approximate size in bytes.
    fn bytes(&self) -> usize {
        let devices = self.devices.iter().map(|on| {
            size_of::<DevicesOnNode>() + on.node.len() + on.model.len() + on.ordinals.len() * size_of::<u32>()
        });
        let parts =
            self.submission.request.alternatives.iter().map(|one| one.parts.len() * size_of::<crate::request::Part>());
        let names = self
            .submission
            .request
            .only_nodes
            .iter()
            .chain(&self.submission.request.avoid_nodes)
            .map(|name| name.len() + 24);
        let labels = self.submission.request.labels.iter().map(|(name, value)| name.len() + value.len() + 48);
        let texts = self.submission.user.len() + self.submission.account.len() + self.submission.program.len();
        let events = self.events.iter().map(|event| size_of::<JobEvent>() + event.text.len());
        let all = devices.chain(events).chain(parts).chain(names).chain(labels).sum::<usize>() + texts;
        all + size_of::<Self>() + size_of::<Request>()
    }
}

/// A part of the history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryPage {
    /// Ended jobs, the latest first.
    pub jobs: Vec<EndedJob>,
    /// The `before` of the next page; `None` if there are no more jobs.
    pub next: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    jobs: BTreeMap<u64, EndedJob>,
    bytes: usize,
    last: u64,
    /// The end of the last job that was dropped.
    gone_unix_ms: u64,
    /// Numbers of jobs that were added, charged or dropped since they were saved; `None` if changes are not noted.
    pub(super) changed: Option<BTreeSet<u64>>,
}

impl History {
    /// Restores a history from records.
    pub(super) fn restore(jobs: BTreeMap<u64, EndedJob>, last: u64, gone_unix_ms: u64) -> Self {
        let bytes = jobs.values().map(EndedJob::bytes).sum();
        Self { jobs, bytes, last, gone_unix_ms, changed: None }
    }

    pub(super) fn job(&self, number: u64) -> Option<&EndedJob> {
        self.jobs.get(&number)
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.jobs.keys().copied()
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn note(&mut self, number: u64) {
        if let Some(changed) = &mut self.changed {
            changed.insert(number);
        }
    }

    /// Adds a job. Returns its number.
    pub(super) fn add(&mut self, job: EndedJob) -> u64 {
        self.last += 1;
        let job = EndedJob { number: self.last, ..job };
        self.bytes += job.bytes();
        self.jobs.insert(self.last, job);
        self.note(self.last);
        while self.jobs.len() > HISTORY_JOBS_MAX || self.bytes > HISTORY_BYTES_MAX && self.jobs.len() > 1 {
            let Some((number, oldest)) = self.jobs.pop_first() else { break };
            self.note(number);
            self.bytes -= oldest.bytes();
            self.gone_unix_ms = oldest.ended_unix_ms;
        }
        self.last
    }

    pub(super) fn gone_unix_ms(&self) -> u64 {
        self.gone_unix_ms
    }

    pub(super) fn set_used(&mut self, number: u64, used: Usage) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.used = used;
        }
    }

    pub(super) fn set_did(&mut self, number: u64, did: JobUse) {
        if let Some(job) = self.jobs.get_mut(&number) {
            job.did = did;
            self.note(number);
        }
    }

    pub(super) fn page(&self, user: Option<&str>, before: Option<u64>) -> HistoryPage {
        let mut page = HistoryPage { jobs: Vec::new(), next: None };
        let earlier = self.jobs.range(..before.unwrap_or(u64::MAX)).rev();
        for (looks, (number, job)) in earlier.enumerate() {
            if looks == PAGE_SCAN_MAX || page.jobs.len() == PAGE_JOBS_MAX {
                page.next = Some(number + 1);
                break;
            }
            if user.is_none_or(|user| user == job.submission.user) {
                page.jobs.push(job.clone());
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::ClassFilter;
    use crate::request::Part;

    fn job(number: u64, user: &str, devices: usize) -> EndedJob {
        EndedJob {
            number: 0,
            job: JobId(number),
            submission: Submission {
                user: user.to_owned(),
                account: "site".to_owned(),
                request: Arc::new(Request::of(Part::whole(1, ClassFilter::ALL))),
                program: "app".to_owned(),
                asked_unix_ms: 0,
            },
            started_unix_ms: None,
            ended_unix_ms: 0,
            waited_ms: 0,
            ran_ms: 0,
            devices: vec![DevicesOnNode {
                node: "n".to_owned(),
                model: "cpu".to_owned(),
                ordinals: vec![0; devices],
                milli: 1_000,
                memory: 0,
                exclusive: true,
            }],
            used: Usage::default(),
            did: JobUse::default(),
            events: Vec::new(),
            cause: EndCause::Done,
        }
    }

    #[test]
    fn pages_go_back_to_the_first_job_and_have_each_once() {
        let mut history = History::default();
        for number in 1..=1_000 {
            history.add(job(number, if number % 3 == 0 { "eva" } else { "tom" }, 1));
        }
        for (user, count) in [(None, 1_000), (Some("eva"), 333), (Some("ida"), 0)] {
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let page = history.page(user, before);
                assert!(page.jobs.len() <= PAGE_JOBS_MAX);
                found.extend(page.jobs.iter().map(|job| job.job.0));
                before = page.next;
                if before.is_none() {
                    break;
                }
            }
            assert_eq!(found.len(), count);
            assert!(found.windows(2).all(|pair| pair[0] > pair[1]));
        }
        assert_eq!(history.page(None, Some(0)), HistoryPage { jobs: Vec::new(), next: None });
    }

    #[test]
    fn a_page_does_not_look_at_all_jobs_of_others() {
        let mut history = History::default();
        history.add(job(1, "eva", 1));
        for number in 0..PAGE_SCAN_MAX as u64 + 10 {
            history.add(job(number + 2, "tom", 1));
        }
        let first = history.page(Some("eva"), None);
        assert!(first.jobs.is_empty() && first.next.is_some());
        assert_eq!(history.page(Some("eva"), first.next).jobs.len(), 1);
    }

    #[test]
    fn the_oldest_jobs_go_by_number_and_by_bytes() {
        let mut history = History::default();
        for number in 1..=HISTORY_JOBS_MAX as u64 + 5 {
            history.add(job(number, "eva", 1));
        }
        assert_eq!((history.jobs.len(), history.jobs.first_key_value().unwrap().0), (HISTORY_JOBS_MAX, &6));
        for number in 0..20 {
            history.add(job(number, "eva", 1 << 20));
        }
        assert!(history.bytes <= HISTORY_BYTES_MAX && history.jobs.len() >= 15, "{}", history.bytes);
        let counted: usize = history.jobs.values().map(EndedJob::bytes).sum();
        assert_eq!(counted, history.bytes);
    }
}
