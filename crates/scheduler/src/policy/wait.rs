//! The longest wait of a job, by the formula in docs/site/shared-cluster.md.

use super::site::SitePolicy;
use super::{Account, AccountId, SITE};
use crate::request::words::PRIORITY_MAX;
use crate::scheduler::SETTLE_MS;

/// Longest time until the devices of an ended job are free, in milliseconds, unless a node is lost.
pub const RELEASE_MS: u64 = 60_000;

/// The longest waits of an account's jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongestWait {
    /// The account.
    pub account: String,
    /// Wait of a job within the guarantee of the account or an ancestor, in milliseconds; `None` without a guarantee.
    pub guaranteed_ms: Option<u64>,
    /// Wait of a user's first waiting job.
    pub first: Bound,
    /// Number of users and accounts in the file whose first jobs may precede it.
    pub others: usize,
}

/// A bounded time, or the reason why there is no bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// At most so long.
    AtMost {
        /// The time in milliseconds.
        ms: u64,
        /// Additional time for each further user with a waiting job that a group or `*` admits, in milliseconds.
        each_further_user_ms: u64,
    },
    /// Jobs of an account may run without limit.
    None {
        /// The account.
        endless: String,
    },
}

impl SitePolicy {
    /// Returns the longest waits of each account's jobs, in the order of the file.
    ///
    /// A job within a guarantee waits for at most a quantum, because longer jobs get no idle guarantees. Any other job
    /// waits until its priority, which grows with age, exceeds all others, and then for one job of each other user.
    /// Each of these has a reserved start to which all but guarantees yield. That start waits for jobs with the longest
    /// limit, and for jobs that use idle guarantees for a quantum.
    #[must_use]
    pub fn longest_waits(&self) -> Vec<LongestWait> {
        let users = |at: usize| self.rules[at].users.len().max(1);
        let has_jobs = |at: &usize| at != &0 || self.core.accounts.len() == 1;
        let accounts: Vec<usize> = (0..self.core.accounts.len()).filter(has_jobs).collect();
        let leaves: usize = accounts.iter().map(|&at| users(at)).sum();
        let endless = accounts.iter().find(|&&at| self.limit_of(at).is_none());
        let longest = accounts.iter().filter_map(|&at| self.limit_of(at)).max().unwrap_or(0);
        let highest = accounts.iter().map(|&at| self.core.accounts[at].priorities.1).max().unwrap_or(PRIORITY_MAX);
        let turn = longest.saturating_add(self.core.quantum()).saturating_add(2 * RELEASE_MS);
        let wait = |at: usize| {
            let account = &self.core.accounts[at];
            let levels = u64::try_from(i64::from(highest) - i64::from(account.priorities.0) + 1).unwrap_or(1);
            let ageing = levels.saturating_mul(self.core.ageing_ms).saturating_add(SETTLE_MS);
            let others = leaves - 1;
            let turns = u64::try_from(others + 1).unwrap_or(u64::MAX);
            let ms = ageing.saturating_add(turns.saturating_mul(turn));
            let first = match endless {
                Some(&endless) => Bound::None { endless: self.core.accounts[endless].name.clone() },
                None => Bound::AtMost { ms, each_further_user_ms: turn },
            };
            let guaranteed_ms = self
                .is_guaranteed(at)
                .then(|| self.core.quantum().saturating_add(self.core.grace_ms).saturating_add(RELEASE_MS));
            LongestWait { account: account.name.clone(), guaranteed_ms, first, others }
        };
        accounts.iter().map(|&at| wait(at)).collect()
    }

    /// Returns the longest time limit of an account's jobs; `None` for no limit. A job may request any limit up to
    /// `longest`, and a job without a limit is renewed if nothing limits it.
    fn limit_of(&self, at: usize) -> Option<u64> {
        self.up(at).filter_map(|account| account.longest_ms).min()
    }

    fn is_guaranteed(&self, at: usize) -> bool {
        self.up(at).any(|account| !account.guaranteed.is_empty())
    }

    fn up(&self, at: usize) -> impl Iterator<Item = &Account> {
        let start = self.core.accounts.get(at);
        std::iter::successors(start, |account| account.parent.map(|AccountId(at)| &self.core.accounts[at as usize]))
    }
}

impl LongestWait {
    /// Returns the waits as text, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        use crate::units::long_time_text;
        let mut lines = Vec::new();
        if let Some(ms) = self.guaranteed_ms {
            lines.push(format!("within its guarantee: {}", long_time_text(ms)));
        }
        lines.push(match &self.first {
            Bound::AtMost { ms, each_further_user_ms } => format!(
                "otherwise: {} for a user's first waiting job, and {} more for each further user whom a group or * brings",
                long_time_text(*ms),
                long_time_text(*each_further_user_ms)
            ),
            Bound::None { endless } if endless == SITE => {
                "otherwise: without bound, as jobs may run without end: set longest in [site]".to_owned()
            }
            Bound::None { endless } => {
                format!("otherwise: without bound, as jobs of {endless} may run without end: set its longest")
            }
        });
        lines
    }
}
