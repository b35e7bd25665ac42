//! A site's whole policy: accounts and numbers for the scheduler, and the coordinator's own settings.

use super::{Account, Policy, Quota};
use crate::request::Request;
use accord_types::service_account;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The account of users in no other account.
pub const FALLBACK: &str = "default";

/// Default of [`SitePolicy::linger_ms`].
pub(super) const LINGER_MS: u64 = 30_000;

/// An entry of `users`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Member {
    /// A user, by name.
    User(String),
    /// The users of a Unix group: `@NAME`.
    Group(String),
    /// Every user: `*`.
    Everyone,
}

impl Member {
    /// Whether the entry includes a user with these Unix groups.
    #[must_use]
    pub fn includes(&self, user: &str, groups: &[&str]) -> bool {
        match self {
            Self::User(name) => name == user,
            Self::Group(name) => groups.contains(&name.as_str()),
            Self::Everyone => true,
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => f.write_str(name),
            Self::Group(name) => write!(f, "@{name}"),
            Self::Everyone => f.write_str("*"),
        }
    }
}

/// The limits of a user of an account. Absent fields set no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    /// The weight of the user's part of the account's share; `None` for 1.
    pub weight: Option<u32>,
    /// Most devices that the user may hold.
    pub most: Vec<Quota>,
    /// Most device-hours a month, weighted by billing.
    pub hours_a_month: Option<u64>,
    /// The longest time limit in milliseconds.
    pub longest_ms: Option<u64>,
    /// Most running jobs.
    pub running_max: Option<u32>,
    /// Most waiting jobs.
    pub waiting_max: Option<u32>,
}

/// The coordinator's rules for an account, besides [`Account`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountRules {
    /// The users who may use the account.
    pub users: Vec<Member>,
    /// Entries of `users` for which this account is the default among several.
    pub default_for: Vec<Member>,
    /// The request of programs that have none; `None` inherits the parent's.
    pub default: Option<Request>,
    /// The default time limit in milliseconds; `None` inherits the parent's.
    pub default_limit_ms: Option<u64>,
    /// Limits of each user.
    pub each_user: UserLimits,
    /// Limits of individual users, which replace `each_user`.
    pub user: BTreeMap<String, UserLimits>,
}

impl AccountRules {
    fn limits_of(&self, user: &str) -> &UserLimits {
        self.user.get(user).unwrap_or(&self.each_user)
    }
}

/// The part of other users' jobs that users see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OthersJobs {
    /// Only their number.
    #[default]
    Counts,
    /// Everything that their owners see.
    All,
}

impl OthersJobs {
    /// Both variants with their words in a policy.
    pub const WORDS: [(&'static str, Self); 2] = [("counts", Self::Counts), ("all", Self::All)];
}

/// The users who may suspend a running job and resume it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum SuspendBy {
    /// Its owner, and administrators.
    #[default]
    Owners,
    /// Administrators.
    Administrators,
}

impl SuspendBy {
    /// Both variants with their words in a policy.
    pub const WORDS: [(&'static str, Self); 2] = [("owners", Self::Owners), ("administrators", Self::Administrators)];
}

/// A site's policy, as in its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitePolicy {
    /// The scheduler's part, with the accounts of the file. [`SitePolicy::tree`] adds users.
    pub core: Policy,
    /// The rules of each account that the scheduler does not apply, in the order of `core.accounts`.
    pub rules: Vec<AccountRules>,
    /// The part of other users' jobs that users see.
    pub others_jobs: OthersJobs,
    /// The users who may suspend jobs.
    pub suspend_by: SuspendBy,
    /// Most bytes that a session may hold on each device; `None` for no limit.
    pub memory_quota: Option<u64>,
    /// Most streams that a session may use on each device; `None` for the coordinator's default.
    pub stream_quota: Option<u32>,
    /// Longest time of a session, in milliseconds; `None` for no limit.
    pub session_time_ms: Option<u64>,
    /// Time after which a job with idle exclusive devices is ended, in milliseconds; `None` for never.
    pub idle_ms: Option<u64>,
    /// Time for which a job of ranks or programs is kept without a session, in milliseconds.
    pub linger_ms: u64,
}

impl Default for SitePolicy {
    /// Returns a policy of one account without users and limits.
    fn default() -> Self {
        Self {
            core: Policy::default(),
            rules: vec![AccountRules::default()],
            others_jobs: OthersJobs::default(),
            suspend_by: SuspendBy::default(),
            memory_quota: None,
            stream_quota: None,
            session_time_ms: None,
            idle_ms: None,
            linger_ms: LINGER_MS,
        }
    }
}

/// The reason why a user may not use an account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoAccount {
    /// The user is in no account.
    Nowhere,
    /// The user is not in the requested account, but in these.
    NotThere {
        /// The requested account.
        wanted: String,
        /// The user's accounts.
        own: Vec<String>,
    },
}

impl fmt::Display for NoAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("the policy has no account for this user; ask an administrator"),
            Self::NotThere { wanted, own } => {
                write!(f, "the account {wanted:?} is not for this user; name one of these: {}", own.join(", "))
            }
        }
    }
}

impl SitePolicy {
    /// Returns the account for a user's job: the requested one, or else the user's default.
    ///
    /// Entries by name precede those by Unix group, and these precede `*`. A service account of Kubernetes is in the
    /// account with its namespace's name, as if by a Unix group. Several entries of the same kind may place a user in
    /// several accounts. Then the account counts whose `default-for` has the entry, else the first one in the file.
    ///
    /// # Errors
    /// Returns [`NoAccount`] if the user is in no account, or not in the requested one.
    pub fn account_of(&self, user: &str, groups: &[&str], wanted: Option<&str>) -> Result<&str, NoAccount> {
        let own = self.own_accounts(user, groups);
        match wanted {
            Some(wanted) => own.iter().map(|(_, _, name)| *name).find(|name| *name == wanted).ok_or_else(|| {
                let own: Vec<String> = own.iter().map(|(_, _, name)| (*name).to_owned()).collect();
                if own.is_empty() { NoAccount::Nowhere } else { NoAccount::NotThere { wanted: wanted.to_owned(), own } }
            }),
            // Among equals the first one in the file counts.
            None => own
                .iter()
                .min_by_key(|(kind, other, _)| (*kind, *other))
                .map(|(_, _, name)| *name)
                .ok_or(NoAccount::Nowhere),
        }
    }

    /// Returns the accounts that a user may charge, and their ancestors.
    #[must_use]
    pub fn accounts_above(&self, user: &str, groups: &[&str]) -> BTreeSet<&str> {
        let own = self.own_accounts(user, groups).into_iter();
        own.flat_map(|(_, _, name)| self.path(name)).map(|at| self.core.accounts[at].name.as_str()).collect()
    }

    /// Returns the accounts that a user may charge, each with the kind of its entry and whether it is not the default.
    fn own_accounts(&self, user: &str, groups: &[&str]) -> Vec<(u8, bool, &str)> {
        let mut own: Vec<(u8, bool, &str)> = Vec::new();
        for (account, rules) in self.core.accounts.iter().zip(&self.rules) {
            let best = rules.users.iter().filter(|member| member.includes(user, groups)).map(|member| {
                let kind = match member {
                    Member::User(_) => 0,
                    Member::Group(_) => 1,
                    Member::Everyone => 2,
                };
                (kind, !rules.default_for.contains(member), account.name.as_str())
            });
            // The site itself has no users.
            let is_namespace = account.parent.is_some() && service_account::namespace(user) == Some(&*account.name);
            own.extend(best.chain(is_namespace.then_some((1, true, account.name.as_str()))).min());
        }
        if own.is_empty() {
            let fallback = self.core.accounts.iter().find(|account| account.name == FALLBACK);
            own.extend(fallback.map(|account| (3, true, account.name.as_str())));
        }
        own
    }

    /// Returns the name of a user's leaf account in [`SitePolicy::tree`].
    #[must_use]
    pub fn leaf(account: &str, user: &str) -> String {
        format!("{account}/{user}")
    }

    /// Returns the policy for the scheduler, with a leaf for each user in the file and for each pair of account and
    /// user in `seen`. Users of an account share it by their weights.
    #[must_use]
    pub fn tree<'a>(&'a self, seen: impl IntoIterator<Item = (&'a str, &'a str)>) -> Policy {
        let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (account, rules) in self.core.accounts.iter().zip(&self.rules) {
            let named = rules.users.iter().filter_map(|member| match member {
                Member::User(name) => Some(name.as_str()),
                Member::Group(_) | Member::Everyone => None,
            });
            users.entry(&account.name).or_default().extend(named);
        }
        for (account, user) in seen {
            if let Some(users) = users.get_mut(account) {
                users.insert(user);
            }
        }
        let mut policy = self.core.clone();
        for (at, account) in self.core.accounts.iter().enumerate() {
            let users = users.get(account.name.as_str()).into_iter().flatten();
            policy.accounts.extend(users.map(|user| self.leaf_of(at, user)));
        }
        policy
    }

    /// Returns the leaf of a user, as in [`SitePolicy::tree`]; `None` if the account does not exist.
    #[must_use]
    pub fn user_account(&self, account: &str, user: &str) -> Option<Account> {
        self.core.account(account).map(|at| self.leaf_of(at.index(), user))
    }

    /// Returns the limits of a user of an account; `None` if the account does not exist.
    pub(super) fn limits_of(&self, account: &str, user: &str) -> Option<&UserLimits> {
        self.core.account(account).map(|at| self.rules[at.index()].limits_of(user))
    }

    /// Returns the lowest and the highest priority that jobs of an account may use.
    pub(super) fn priorities_of(&self, account: &str) -> (i32, i32) {
        self.core.account(account).map_or((0, 0), |at| self.core.accounts[at.index()].priorities)
    }

    /// Returns the labels that nodes of an account's jobs have, each with the account that requires it: this one or one above.
    pub(super) fn labels_of(&self, account: &str) -> Vec<((String, String), String)> {
        let accounts = self.path(account).into_iter().map(|at| &self.core.accounts[at]);
        let labels = accounts.flat_map(|of| of.labels.iter().map(|label| (label.clone(), of.name.clone())));
        labels.collect()
    }

    fn leaf_of(&self, at: usize, user: &str) -> Account {
        let account = &self.core.accounts[at];
        let limits = self.rules[at].limits_of(user);
        let parent = u32::try_from(at).ok().map(crate::ids::AccountId);
        Account {
            most: limits.most.clone(),
            hours_a_month: limits.hours_a_month,
            priorities: account.priorities,
            longest_ms: limits.longest_ms,
            running_max: limits.running_max,
            waiting_max: limits.waiting_max,
            ..Account::plain(&Self::leaf(&account.name, user), parent, limits.weight.unwrap_or(1))
        }
    }

    /// Returns the request of an account's programs that have none; `None` if the policy has none either.
    #[must_use]
    pub fn default_request(&self, account: &str) -> Option<&Request> {
        self.path(account).into_iter().find_map(|at| self.rules[at].default.as_ref())
    }

    /// Returns the default time limit of an account's jobs: the nearest `default-limit`, limited by the account's
    /// longest, which is also the limit without a `default-limit`. `None` renews leases by quantum.
    #[must_use]
    pub fn default_limit_ms(&self, account: &str) -> Option<u64> {
        let path = self.path(account);
        let default = path.iter().find_map(|&at| self.rules[at].default_limit_ms);
        default.into_iter().chain(path.iter().filter_map(|&at| self.core.accounts[at].longest_ms)).min()
    }

    /// Returns the names of the coordinator's flags that the policy sets as well, which is an error.
    #[must_use]
    pub fn set_twice(&self, memory_quota: bool, stream_quota: bool, session_time: bool) -> Vec<&'static str> {
        let flags = [
            ("--memory-quota", memory_quota && self.memory_quota.is_some()),
            ("--stream-quota", stream_quota && self.stream_quota.is_some()),
            ("--session-time", session_time && self.session_time_ms.is_some()),
        ];
        flags.into_iter().filter(|(_, both)| *both).map(|(flag, _)| flag).collect()
    }

    /// Returns the indices of an account and its ancestors, up to the site; empty if the account does not exist.
    pub(super) fn path(&self, account: &str) -> Vec<usize> {
        let mut next = self.core.account(account);
        let mut path = Vec::new();
        while let Some(at) = next {
            path.push(at.index());
            next = self.core.accounts[at.index()].parent;
        }
        path
    }
}
