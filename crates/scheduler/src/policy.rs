//! The site's policy: the data that the core decides by, and the file that administrators write.

mod changes;
mod check;
mod draft;
mod finding;
mod keys;
mod read;
mod site;
#[cfg(test)]
mod tests;
mod values;
mod wait;
mod write;

pub use changes::{Change, JobSummary, changes};
pub use check::{Inventory, MEMBERS_MAX};
pub use draft::SITE;
pub use finding::{FINDINGS_MAX, Finding};
pub use read::{ACCOUNTS_MAX, BILLING_MAX, POLICY_BYTES_MAX};
pub use site::{AccountRules, FALLBACK, Member, NoAccount, OthersJobs, SitePolicy, UserLimits};
pub use wait::{Bound, LongestWait, RELEASE_MS};

use crate::class::{ClassFilter, DeviceClass};
use crate::ids::AccountId;

/// Backfill computes reserved starts for so many waiting jobs unless the policy says otherwise.
pub const BACKFILL_DEPTH: usize = 64;

/// Waiting requests at one time, of all users.
pub const WAITING_MAX: usize = 65_536;

/// A number of devices of some classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The classes.
    pub class: ClassFilter,
    /// Number of devices.
    pub devices: u32,
}

/// One account of the tree: site, group or user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// Its name, unique in the policy. That of a user's leaf is `ACCOUNT/USER`.
    pub name: String,
    /// Its parent, which comes before it in the list; none for the site.
    pub parent: Option<AccountId>,
    /// Its part of the parent's share, beside its siblings' weights. At least 1.
    pub weight: u32,
    /// Devices that it gets before weights count.
    pub guaranteed: Vec<Quota>,
    /// Devices that it has at most at one time.
    pub most: Vec<Quota>,
    /// Device-hours a month at most, weighted by billing; none: without end.
    pub hours_a_month: Option<u64>,
    /// The lowest and the highest priority that its jobs may name.
    pub priorities: (i32, i32),
    /// The longest time limit in milliseconds; none: without end.
    pub longest_ms: Option<u64>,
    /// Nodes that its jobs may use, by labels; empty: all.
    pub labels: Vec<(String, String)>,
    /// Running jobs at one time at most.
    pub running_max: Option<u32>,
    /// Waiting jobs at one time at most.
    pub waiting_max: Option<u32>,
}

impl Account {
    /// An account without quotas and limits.
    #[must_use]
    pub fn plain(name: &str, parent: Option<AccountId>, weight: u32) -> Self {
        Self {
            name: name.to_owned(),
            parent,
            weight,
            guaranteed: Vec::new(),
            most: Vec::new(),
            hours_a_month: None,
            priorities: (0, 0),
            longest_ms: None,
            labels: Vec::new(),
            running_max: None,
            waiting_max: None,
        }
    }
}

/// The site's policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The accounts, parents before children; the first is the site.
    pub accounts: Vec<Account>,
    /// Usage counts half after this time, in milliseconds.
    pub half_life_ms: u64,
    /// A starving account's first job gains a priority level each time this has passed, in milliseconds.
    pub ageing_ms: u64,
    /// Jobs without a limit hold their devices for multiples of this time, in milliseconds.
    pub quantum_ms: u64,
    /// Between the warning of a lease's end and the end, in milliseconds.
    pub grace_ms: u64,
    /// The limit of jobs that name none, in milliseconds; none: they are renewed by quantum.
    pub default_limit_ms: Option<u64>,
    /// The longest wait of a request in milliseconds; none: without end.
    pub longest_wait_ms: Option<u64>,
    /// The time for which a waiting request keeps its place without a connection, in milliseconds.
    pub keep_ms: u64,
    /// Reserved starts at one time.
    pub backfill_depth: usize,
    /// Sessions at most on a device that is shared by memory alone.
    pub sharers_max: u32,
    /// Billing weights in thousandths; the first filter that matches counts. Others: 1,000.
    pub billing: Vec<(ClassFilter, u32)>,
}

impl Default for Policy {
    /// One account, everything allowed.
    fn default() -> Self {
        const MINUTE: u64 = 60_000;
        Self {
            accounts: vec![Account::plain("site", None, 1)],
            half_life_ms: 7 * 24 * 60 * MINUTE,
            ageing_ms: 24 * 60 * MINUTE,
            quantum_ms: 60 * MINUTE,
            grace_ms: MINUTE,
            default_limit_ms: None,
            longest_wait_ms: None,
            keep_ms: 5 * MINUTE,
            backfill_depth: BACKFILL_DEPTH,
            sharers_max: 4,
            billing: Vec::new(),
        }
    }
}

impl Policy {
    /// Returns the account with this name.
    #[must_use]
    pub fn account(&self, name: &str) -> Option<AccountId> {
        let at = self.accounts.iter().position(|account| account.name == name)?;
        u32::try_from(at).ok().map(AccountId)
    }

    /// Returns the time for which jobs without a limit hold their devices: longer than the warning before its end.
    #[must_use]
    pub fn quantum(&self) -> u64 {
        self.quantum_ms.max(self.grace_ms.saturating_add(1))
    }

    /// Returns the billing weight of a class, in thousandths.
    #[must_use]
    pub fn billing_of(&self, class: &DeviceClass) -> u32 {
        self.billing.iter().find(|(filter, _)| filter.matches(class)).map_or(1_000, |&(_, weight)| weight)
    }
}
