//! The effects of a new policy on waiting and running jobs.

use super::check::is_within;
use super::draft::SITE;
use super::key_positions::{KeyPosition, KeyPositions};
use super::site::SitePolicy;
use super::{Account, Quota};
use crate::amount::WHOLE;
use crate::class::{ClassFilter, DeviceClass};
use crate::effect::AllowedPriorities;
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

/// The nodes of waiting and running jobs.
pub trait JobNodes {
    /// Returns the name of a node of a running job that lacks one of these labels.
    fn node_without(&self, job: JobId, labels: &[(String, String)]) -> Option<String>;

    /// Returns what keeps a waiting job from ever starting on the nodes that have these labels.
    fn lack_with(&self, job: JobId, labels: &[(String, String)]) -> Option<String>;
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
    /// A waiting job keeps a priority that its account would refuse to a new job.
    KeepsPriority {
        /// The job.
        job: JobId,
        /// Its priority.
        priority: i32,
        /// The account.
        account: String,
        /// The lowest and the highest priority of the account's jobs.
        allowed: (i32, i32),
    },
    /// A waiting job would never start, because too few of the nodes have the labels that an account requires.
    LacksNodes {
        /// The job.
        job: JobId,
        /// The account.
        account: String,
        /// What the nodes lack for the job.
        lack: String,
    },
    /// A running job would continue on a node without the labels that an account requires.
    StaysOnNode {
        /// The job.
        job: JobId,
        /// The name of the node.
        node: String,
        /// The account.
        account: String,
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
            Self::KeepsPriority { job, priority, account, allowed: (low, high) } => {
                let allowed = AllowedPriorities(*low, *high);
                write!(
                    f,
                    "job {job} would keep its priority {priority}, although new jobs of {account} may use {allowed} only"
                )
            }
            Self::LacksNodes { job, account, lack } => {
                write!(f, "job {job} would wait without end on the nodes of {account}: {lack}")
            }
            Self::StaysOnNode { job, node, account } => {
                write!(f, "job {job} would run on, on node {node}, which new jobs of {account} may not use")
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

impl Change {
    /// Returns the position of the key in the new file that brings the change; `None` if it is what the file no longer has.
    #[must_use]
    pub fn position(&self, new: &SitePolicy, keys: &KeyPositions<'_>) -> Option<KeyPosition> {
        let (name, key) = match self {
            Self::Ends { account, .. } | Self::ChargedToSite { account, .. } => (account, "users"),
            Self::NeverStarts { account, .. } | Self::HoldsMore { account, .. } => (account, "most"),
            Self::KeepsLimit { account, .. } => (account, "longest"),
            Self::KeepsPriority { account, .. } => (account, "priorities"),
            Self::LacksNodes { account, .. } | Self::StaysOnNode { account, .. } => (account, "nodes"),
        };
        match name.split_once('/') {
            Some((account, user)) => keys.of_user(account, user, key),
            // Priorities are the parent's unless the account has its own.
            None if key == "priorities" => {
                let above = new.path(name).into_iter().map(|at| &new.core.accounts[at].name);
                let mut same = above.take_while(|above| new.priorities_of(above) == new.priorities_of(name));
                same.find_map(|above| keys.of_key(above, key)).or_else(|| keys.of_account(name, key))
            }
            None => keys.of_account(name, key),
        }
    }
}

/// Returns the effects of `new` in the order of the jobs, then of the accounts.
#[must_use]
pub fn changes(old: &SitePolicy, new: &SitePolicy, jobs: &[JobSummary], nodes: &dyn JobNodes) -> Vec<Change> {
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
        changes.extend(change_of_nodes(old, new, job, nodes));
        if job.is_running() {
            continue;
        }
        let (priority, allowed) = (job.request.priority, new.priorities_of(&account));
        let may_use = |(low, high): (i32, i32)| (low..=high).contains(&priority);
        if may_use(old.priorities_of(&account)) && !may_use(allowed) {
            changes.push(Change::KeepsPriority { job: id, priority, account: account.clone(), allowed });
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

/// Returns the effect of other labels of nodes that an account requires, its own or those of the accounts above.
fn change_of_nodes(old: &SitePolicy, new: &SitePolicy, job: &JobSummary, nodes: &dyn JobNodes) -> Option<Change> {
    let (before, labels) = (old.labels_of(&job.account), new.labels_of(&job.account));
    let (_, account) = labels.iter().find(|(label, _)| before.iter().all(|(known, _)| known != label))?;
    let only = |all: &[((String, String), String)]| all.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>();
    let (before, labels, account, job, runs) =
        (only(&before), only(&labels), account.clone(), job.job, job.is_running());
    if runs {
        let node = nodes.node_without(job, &labels).filter(|_| nodes.node_without(job, &before).is_none())?;
        return Some(Change::StaysOnNode { job, node, account });
    }
    let lack = nodes.lack_with(job, &labels).filter(|_| nodes.lack_with(job, &before).is_none())?;
    Some(Change::LacksNodes { job, account, lack })
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
