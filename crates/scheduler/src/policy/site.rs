//! A site's whole policy: the accounts and numbers of the scheduler's core, and what the coordinator keeps itself.

use super::{Account, Policy, Quota};
use crate::request::Request;
use accord_types::service_account;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The account of users who are in no other one.
pub const FALLBACK: &str = "default";

/// [`SitePolicy::linger_ms`] where the policy does not say.
pub(super) const LINGER_MS: u64 = 30_000;

/// An entry of `users`: the users that it names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Member {
    /// One user, by name.
    User(String),
    /// The users of a Unix group: `@NAME`.
    Group(String),
    /// Every user: `*`.
    Everyone,
}

impl Member {
    /// Whether the entry names a user who is in these Unix groups.
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

/// The limits of one user of an account. Absent fields set no limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserLimits {
    /// The user's part of the account's share, beside the other users' weights; none: 1.
    pub weight: Option<u32>,
    /// Devices that the user has at most at one time.
    pub most: Vec<Quota>,
    /// Device-hours a month at most, weighted by billing.
    pub hours_a_month: Option<u64>,
    /// The longest time limit in milliseconds.
    pub longest_ms: Option<u64>,
    /// Running jobs at one time at most.
    pub running_max: Option<u32>,
    /// Waiting jobs at one time at most.
    pub waiting_max: Option<u32>,
}

/// The coordinator's rules for an account beside [`Account`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccountRules {
    /// The users who may use the account.
    pub users: Vec<Member>,
    /// Entries of `users` whose default account it is, where they are in several.
    pub default_for: Vec<Member>,
    /// The request of programs that ask for nothing; none: the parent's.
    pub default: Option<Request>,
    /// The time limit of jobs that name none, in milliseconds; none: the parent's.
    pub default_limit_ms: Option<u64>,
    /// Limits of each user.
    pub each_user: UserLimits,
    /// Limits of single users, in place of `each_user`.
    pub user: BTreeMap<String, UserLimits>,
}

/// The part of others' jobs that users see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OthersJobs {
    /// How many there are.
    #[default]
    Counts,
    /// All that their owners see.
    All,
}

impl OthersJobs {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Counts, Self::All];

    /// Returns the word that a policy has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counts => "counts",
            Self::All => "all",
        }
    }
}

/// A site's policy as its file says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitePolicy {
    /// The core's part. Its accounts are those of the file; [`SitePolicy::tree`] adds users.
    pub core: Policy,
    /// The rest of each account, in the order of `core.accounts`.
    pub rules: Vec<AccountRules>,
    /// The part of others' jobs that users see.
    pub others_jobs: OthersJobs,
    /// Bytes that a session may hold on each device; none: no limit.
    pub memory_quota: Option<u64>,
    /// Streams that a session may use on each device; none: the coordinator's default.
    pub stream_quota: Option<u32>,
    /// Longest time of a session, in milliseconds; `None`: no limit.
    pub session_time_ms: Option<u64>,
    /// Time after which a job that did nothing with its exclusive devices is ended, in milliseconds; `None`: never.
    pub idle_ms: Option<u64>,
    /// The time for which a job of ranks or programs goes on without a session, in milliseconds.
    pub linger_ms: u64,
}

impl Default for SitePolicy {
    /// One account without users, and no limits.
    fn default() -> Self {
        Self {
            core: Policy::default(),
            rules: vec![AccountRules::default()],
            others_jobs: OthersJobs::default(),
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
    /// The user is not in the account that the request names, and is in these.
    NotThere {
        /// The account that the request names.
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
    /// Returns the account for a user's job: the one that the request names, or else the user's default.
    ///
    /// Entries by name come before those by Unix group, and these before `*`. A service account of Kubernetes is in the account with its namespace's
    /// name, as by a Unix group. A user whom several entries of one kind place in
    /// several accounts has the one whose `default-for` names the entry, or else the first one in the file.
    ///
    /// # Errors
    /// Returns [`NoAccount`] if the user is in no account, or not in the one that the request names.
    pub fn account_of(&self, user: &str, groups: &[&str], wanted: Option<&str>) -> Result<&str, NoAccount> {
        let own = self.own_accounts(user, groups);
        match wanted {
            Some(wanted) => own.iter().map(|(_, _, name)| *name).find(|name| *name == wanted).ok_or_else(|| {
                let own: Vec<String> = own.iter().map(|(_, _, name)| (*name).to_owned()).collect();
                if own.is_empty() { NoAccount::Nowhere } else { NoAccount::NotThere { wanted: wanted.to_owned(), own } }
            }),
            // The first of equals is the first one in the file.
            None => own
                .iter()
                .min_by_key(|(kind, other, _)| (*kind, *other))
                .map(|(_, _, name)| *name)
                .ok_or(NoAccount::Nowhere),
        }
    }

    /// Returns the accounts that a user's jobs may have, and those above them.
    #[must_use]
    pub fn accounts_above(&self, user: &str, groups: &[&str]) -> BTreeSet<&str> {
        let own = self.own_accounts(user, groups).into_iter();
        own.flat_map(|(_, _, name)| self.path(name)).map(|at| self.core.accounts[at].name.as_str()).collect()
    }

    /// Returns the accounts that a user's jobs may have, each with the kind of its entry and whether another one is the default.
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
            // The site's own account has no users.
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

    /// Returns the policy for the core: with a leaf account for each user that the file names, and for each of `seen`, which are
    /// accounts and users that came by group or by `*`. Users of one account share it by their weights.
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

    /// Returns the leaf account of a user, as [`SitePolicy::tree`] has it; none if there is no such account.
    #[must_use]
    pub fn user_account(&self, account: &str, user: &str) -> Option<Account> {
        self.core.account(account).map(|at| self.leaf_of(at.index(), user))
    }

    fn leaf_of(&self, at: usize, user: &str) -> Account {
        let (account, rules) = (&self.core.accounts[at], &self.rules[at]);
        let limits = rules.user.get(user).unwrap_or(&rules.each_user);
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

    /// Returns the request of a program of an account that asks for nothing; `None`: it asks for nothing indeed.
    #[must_use]
    pub fn default_request(&self, account: &str) -> Option<&Request> {
        self.path(account).into_iter().find_map(|at| self.rules[at].default.as_ref())
    }

    /// Returns the time limit of an account's jobs that name none: the nearest `default-limit`, but no more than the account's longest, which
    /// also is the limit where there is no `default-limit`. `None`: they are renewed by quantum.
    #[must_use]
    pub fn default_limit_ms(&self, account: &str) -> Option<u64> {
        let path = self.path(account);
        let default = path.iter().find_map(|&at| self.rules[at].default_limit_ms);
        default.into_iter().chain(path.iter().filter_map(|&at| self.core.accounts[at].longest_ms)).min()
    }

    /// Returns the names of the coordinator's flags that a policy also sets: both is an error.
    #[must_use]
    pub fn set_twice(&self, memory_quota: bool, stream_quota: bool, session_time: bool) -> Vec<&'static str> {
        let flags = [
            ("--memory-quota", memory_quota && self.memory_quota.is_some()),
            ("--stream-quota", stream_quota && self.stream_quota.is_some()),
            ("--session-time", session_time && self.session_time_ms.is_some()),
        ];
        flags.into_iter().filter(|(_, both)| *both).map(|(flag, _)| flag).collect()
    }

    /// Returns the positions of an account and of those above, up to the site. Empty if there is no such account.
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
