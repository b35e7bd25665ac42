//! The effects of a new policy on waiting and running jobs.

use super::check::is_within;
use super::draft::SITE;
use super::site::SitePolicy;
use super::{Account, Quota};
use crate::amount::WHOLE;
use crate::class::{ClassFilter, DeviceClass};
use crate::ids::JobId;
use crate::request::{Alternative, Request, Take};
use crate::units::long_time_text;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A waiting or running job, to compare policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobSummary {
    /// The job.
    pub job: JobId,
    /// Its attested user.
    pub user: String,
    /// The user's Unix groups.
    pub groups: Vec<String>,
    /// Its account, without the user's part.
    pub account: String,
    /// Its request.
    pub request: Request,
    /// Its devices by class; empty if it waits.
    pub held: Vec<(DeviceClass, u32)>,
}

impl JobSummary {
    /// Whether the job has devices.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.held.is_empty()
    }
}

/// An effect of a new policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A waiting job would end, because its user may no longer use the account.
    Ends {
        /// The job.
        job: JobId,
        /// Its user.
        user: String,
        /// The account.
        account: String,
    },
    /// A running job would continue, charged to the site.
    ChargedToSite {
        /// The job.
        job: JobId,
        /// The account that is charged now.
        account: String,
    },
    /// A waiting job would never start, because it requests more than an account may have.
    NeverStarts {
        /// The job.
        job: JobId,
        /// The account.
        account: String,
        /// The class of devices.
        class: ClassFilter,
        /// The number that the account may have.
        most: u32,
    },
    /// A waiting job keeps a limit that an account would refuse to a new job.
    KeepsLimit {
        /// The job.
        job: JobId,
        /// The account, or the leaf of the job's user.
        account: String,
        /// The longest limit of the account's jobs, in milliseconds.
        longest_ms: u64,
    },
    /// An account or a user holds more than it may have. Its running jobs continue, and it gets no further devices until enough
    /// are free.
    HoldsMore {
        /// The account, or the leaf of a user.
        account: String,
        /// The class of devices.
        class: ClassFilter,
        /// The number that it holds.
        held: u64,
        /// The number that it may have.
        most: u32,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ends { job, user, account } => {
                write!(f, "job {job} would stop waiting: {user} would not be in the account {account}")
            }
            Self::ChargedToSite { job, account } => {
                write!(f, "job {job} would run on, charged to the site and no longer to {account}")
            }
            Self::NeverStarts { job, account, class, most } => {
                write!(f, "job {job} would wait without end: {account} would have at most {most} of {class}")
            }
            Self::KeepsLimit { job, account, longest_ms } => {
                let longest = long_time_text(*longest_ms);
                write!(f, "job {job} would keep its limit, although new jobs of {account} may last {longest} at most")
            }
            Self::HoldsMore { account, class, held, most } => {
                write!(
                    f,
                    "{account} holds {held} of {class} and would have at most {most}: it would get no more until enough are free"
                )
            }
        }
    }
}

/// Returns the effects of `new` in the order of the jobs, then of the accounts.
#[must_use]
pub fn changes(old: &SitePolicy, new: &SitePolicy, jobs: &[JobSummary]) -> Vec<Change> {
    let mut changes = Vec::new();
    for job in jobs {
        let may = |policy: &SitePolicy| {
            let groups: Vec<&str> = job.groups.iter().map(String::as_str).collect();
            policy.account_of(&job.user, &groups, Some(&job.account)).is_ok()
        };
        let (id, account) = (job.job, job.account.clone());
        if may(old) && !may(new) {
            if !job.is_running() {
                changes.push(Change::Ends { job: id, user: job.user.clone(), account });
            } else if account != SITE {
                changes.push(Change::ChargedToSite { job: id, account });
            }
            continue;
        }
        if job.is_running() {
            continue;
        }
        if too_long(old, job).is_none()
            && let Some((longest_ms, account)) = too_long(new, job)
        {
            changes.push(Change::KeepsLimit { job: id, account, longest_ms });
        }
        if beyond_ever(old, job).is_none()
            && let Some((account, quota)) = beyond_ever(new, job)
        {
            changes.push(Change::NeverStarts { job: id, account, class: quota.class, most: quota.devices });
        }
    }
    let before: BTreeSet<_> =
        holding_more(old, jobs).into_iter().map(|(account, quota, _)| (account, quota.class.to_string())).collect();
    for (account, quota, held) in holding_more(new, jobs) {
        if !before.contains(&(account.clone(), quota.class.to_string())) {
            changes.push(Change::HoldsMore { account, class: quota.class, held, most: quota.devices });
        }
    }
    changes
}

/// Returns the account, the job's own or an ancestor, that may never have what any alternative of the job requests.
fn beyond_ever(policy: &SitePolicy, job: &JobSummary) -> Option<(String, Quota)> {
    let ranks = if job.request.per_rank { u64::from(job.request.ranks) } else { 1 };
    let mut last = None;
    for alternative in &job.request.alternatives {
        last = Some(beyond(policy, job, alternative, ranks)?);
    }
    last
}

fn beyond(policy: &SitePolicy, job: &JobSummary, alternative: &Alternative, ranks: u64) -> Option<(String, Quota)> {
    let is_beyond = |quota: &&Quota| {
        let parts = alternative.parts.iter().filter(|part| is_within(&part.class, &quota.class));
        let milli = parts.map(|part| {
            let each = match part.take {
                Take::Exclusive => WHOLE,
                Take::Shared(amount) => amount.milli,
            };
            u64::from(part.count.least) * u64::from(each)
        });
        milli.sum::<u64>() * ranks > u64::from(quota.devices) * u64::from(WHOLE)
    };
    let own = policy.limits_of(&job.account, &job.user);
    let leaf = own.and_then(|own| own.most.iter().find(is_beyond));
    if let Some(quota) = leaf {
        return Some((SitePolicy::leaf(&job.account, &job.user), quota.clone()));
    }
    let accounts = policy.path(&job.account).into_iter().map(|at| &policy.core.accounts[at]);
    let found =
        |account: &Account| account.most.iter().find(is_beyond).map(|quota| (account.name.clone(), quota.clone()));
    accounts.into_iter().find_map(found)
}

/// Returns the shortest of the longest limits of a job's user, its account and the accounts above, with whose it is, if
/// the job's limit is longer.
fn too_long(policy: &SitePolicy, job: &JobSummary) -> Option<(u64, String)> {
    let own = policy.limits_of(&job.account, &job.user).and_then(|own| own.longest_ms);
    let own = own.map(|longest| (longest, SitePolicy::leaf(&job.account, &job.user)));
    let accounts = policy.path(&job.account).into_iter().map(|at| &policy.core.accounts[at]);
    let above = accounts.filter_map(|account| Some((account.longest_ms?, account.name.clone())));
    let (longest, account) = own.into_iter().chain(above).min()?;
    job.request.limit_ms.is_none_or(|limit| limit > longest).then_some((longest, account))
}

/// Returns the accounts and the leaves of users whose jobs hold more than they may have.
fn holding_more(policy: &SitePolicy, jobs: &[JobSummary]) -> Vec<(String, Quota, u64)> {
    type Held<'a> = Vec<&'a (DeviceClass, u32)>;
    let mut of_account: BTreeMap<usize, Held<'_>> = BTreeMap::new();
    let mut of_user: BTreeMap<(&str, &str), Held<'_>> = BTreeMap::new();
    for job in jobs {
        for at in policy.path(&job.account) {
            of_account.entry(at).or_default().extend(&job.held);
        }
        of_user.entry((&job.account, &job.user)).or_default().extend(&job.held);
    }
    let accounts = of_account.into_iter().map(|(at, held)| {
        let account = &policy.core.accounts[at];
        (account.name.clone(), &account.most[..], held)
    });
    let users = of_user.into_iter().filter_map(|((account, user), held)| {
        let limits = policy.limits_of(account, user)?;
        Some((SitePolicy::leaf(account, user), &limits.most[..], held))
    });
    let mut found = Vec::new();
    for (name, most, devices) in accounts.chain(users) {
        for quota in most {
            let matching = devices.iter().filter(|(class, _)| quota.class.matches(class));
            let sum: u64 = matching.map(|(_, count)| u64::from(*count)).sum();
            if sum > u64::from(quota.devices) {
                found.push((name.clone(), quota.clone(), sum));
            }
        }
    }
    found
}
