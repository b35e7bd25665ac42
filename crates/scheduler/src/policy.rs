//! The site's policy: the data by which the core decides, and the file that administrators write.

mod changes;
mod check;
mod draft;
mod finding;
mod key_positions;
mod keys;
mod read;
mod site;
#[cfg(test)]
mod tests;
mod values;
mod wait;
mod write;

pub use changes::{Change, JobNodes, JobSummary, changes};
pub use check::{Inventory, MEMBERS_MAX};
pub use draft::SITE;
pub use finding::{FINDINGS_MAX, Finding};
pub use key_positions::{KeyPosition, KeyPositions};
pub use read::{ACCOUNTS_MAX, BILLING_MAX, POLICY_BYTES_MAX};
pub use site::{AccountRules, FALLBACK, Member, NoAccount, OthersJobs, SitePolicy, SuspendBy, UserLimits};
pub use wait::{Bound, LongestWait, RELEASE_MS};

use crate::class::{ClassFilter, DeviceClass};
use crate::ids::AccountId;

/// Default number of waiting jobs for which backfill computes reserved starts.
pub const BACKFILL_DEPTH: usize = 64;

/// Most waiting requests of all users.
pub const WAITING_MAX: usize = 65_536;

/// A number of devices of some classes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The classes.
    pub class: ClassFilter,
    /// Number of devices.
    pub devices: u32,
}

/// An account of the tree: site, group or user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The name, unique in the policy. The leaf of a user is `ACCOUNT/USER`.
    pub name: String,
    /// The parent, which precedes it in the list; `None` for the site.
    pub parent: Option<AccountId>,
    /// The weight of its part of the parent's share, at least 1.
    pub weight: u32,
    /// Devices that it may have before weights count.
    pub guaranteed: Vec<Quota>,
    /// Most devices that it may hold.
    pub most: Vec<Quota>,
    /// Most device-hours a month, weighted by billing; `None` for no limit.
    pub hours_a_month: Option<u64>,
    /// The lowest and highest priority that its jobs may request.
    pub priorities: (i32, i32),
    /// The longest time limit in milliseconds; `None` for no limit.
    pub longest_ms: Option<u64>,
    /// Labels of nodes that its jobs may use; empty for all nodes.
    pub labels: Vec<(String, String)>,
    /// Most running jobs.
    pub running_max: Option<u32>,
    /// Most waiting jobs.
    pub waiting_max: Option<u32>,
}

impl Account {
    /// Creates an account without quotas and limits.
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

/// The way in which running jobs give way to waiting ones of a higher priority or within a guarantee.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PreemptMode {
    /// They don't.
    #[default]
    Off,
    /// They are suspended, and resume by themselves.
    Suspend,
}

impl PreemptMode {
    /// The modes with their words in a policy.
    pub const WORDS: [(&'static str, Self); 2] = [("off", Self::Off), ("suspend", Self::Suspend)];
}

/// The site's policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// The accounts, parents before children; the first is the site.
    pub accounts: Vec<Account>,
    /// Time after which usage counts half, in milliseconds.
    pub half_life_ms: u64,
    /// Time for which an account's first job must wait to gain a priority level, in milliseconds.
    pub ageing_ms: u64,
    /// Quantum of leases without a limit, in milliseconds.
    pub quantum_ms: u64,
    /// Time between the warning and the end of a lease, in milliseconds.
    pub grace_ms: u64,
    /// The way in which running jobs give way to waiting ones.
    pub preempt_mode: PreemptMode,
    /// Time after its start for which a job does not give way, in milliseconds.
    pub preempt_exempt_ms: u64,
    /// Default time limit of jobs in milliseconds; `None` renews their leases by quantum.
    pub default_limit_ms: Option<u64>,
    /// The longest wait of a request in milliseconds; `None` for no limit.
    pub longest_wait_ms: Option<u64>,
    /// Time for which a waiting request keeps its place without a connection, in milliseconds.
    pub keep_ms: u64,
    /// Most reserved starts.
    pub backfill_depth: usize,
    /// Most sessions on a device that is shared by memory alone.
    pub sharers_max: u32,
    /// Billing weights in thousandths. The first matching filter counts; the default is 1,000.
    pub billing: Vec<(ClassFilter, u32)>,
}

impl Default for Policy {
    /// Returns a policy of one account without limits.
    fn default() -> Self {
        const MINUTE: u64 = 60_000;
        Self {
            accounts: vec![Account::plain("site", None, 1)],
            half_life_ms: 7 * 24 * 60 * MINUTE,
            ageing_ms: 24 * 60 * MINUTE,
            quantum_ms: 60 * MINUTE,
            grace_ms: MINUTE,
            preempt_mode: PreemptMode::Off,
            preempt_exempt_ms: 10 * MINUTE,
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

    /// Returns the quantum of leases without a limit, which is longer than the grace time before its end.
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
