//! The accounts that sessions run under. No account belongs to two users at one time.

use crate::users::{Account, RunsAs, Treatment, find_account, person, treatment};
use accord_trust::users::UserRules;
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, Result};
use nix::unistd::geteuid;
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The account of each session that has an executor.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// The holder of each account, by the account's number.
    in_use: ShortLock<HashMap<u32, Tenancy>>,
}

/// The user who holds an account at this time.
#[derive(Debug)]
struct Tenancy {
    person: String,
    sessions: usize,
    /// Number of ended sessions with processes that the kernel has not ended.
    left: usize,
}

/// One session's use of an account. Drop it when no process of the session is left: other users may then get the
/// account.
#[derive(Debug)]
pub(crate) struct AccountUse {
    accounts: Arc<Accounts>,
    uid: u32,
    is_left: bool,
}

impl Accounts {
    /// Takes the account for a new session of `user`.
    ///
    /// # Errors
    /// Returns the errors of [`treatment`]; `acc_error_device_unavailable` if another user holds the account, or each
    /// of the range.
    pub(crate) fn take(self: &Arc<Self>, rules: &UserRules, user: &str) -> Result<(RunsAs, Option<AccountUse>)> {
        self.assign(treatment(rules, user)?, user, &person(user), &|uid| find_account(&uid.to_string()).is_some())
    }

    fn assign(
        self: &Arc<Self>,
        treatment: Treatment,
        user: &str,
        person: &str,
        is_known: &dyn Fn(u32) -> bool,
    ) -> Result<(RunsAs, Option<AccountUse>)> {
        let account = match treatment {
            Treatment::Agent => return Ok((RunsAs::Agent, None)),
            Treatment::As(account) => account,
            Treatment::OneOf(range) => {
                let Some(uid) = self.claim_number(&range, person, is_known) else {
                    let left = self.left_in(&range);
                    let (first, last) = range.into_inner();
                    let mut why = format!("numbers {first} to {last}, as which users run here, are all in use");
                    if left > 0 {
                        let _ = write!(why, ", {left} of them by processes that do not end though they were killed");
                    }
                    return Err(Error::new(ErrorCode::DeviceUnavailable, why)
                        .remedy("try again later, or give the agent a longer range (--users)"));
                };
                return Ok((RunsAs::Other(Account::of_numbers(uid, uid)), Some(self.use_of(uid))));
            }
        };
        if !self.claim(account.uid, person) {
            let has = if self.left_in(&(account.uid..=account.uid)) > 0 {
                "processes of another user's session that do not end though they were killed"
            } else {
                "sessions of another user"
            };
            let why = format!("account {}, as which user {user} runs here, has {has}", account.name);
            let remedy = "try again later, or start the agent with a range of numbers (--users USER=UID-UID)";
            return Err(Error::new(ErrorCode::DeviceUnavailable, why).remedy(remedy));
        }
        let taken = self.use_of(account.uid);
        Ok((RunsAs::Other(account), Some(taken)))
    }

    fn use_of(self: &Arc<Self>, uid: u32) -> AccountUse {
        AccountUse { accounts: self.clone(), uid, is_left: false }
    }

    /// Counts a session of the person. Returns `false` if another person holds the account.
    fn claim(&self, uid: u32, person: &str) -> bool {
        count(&mut self.in_use.lock(), uid, person)
    }

    /// Counts a session of the person under the person's number of the range. Without one, takes the first free number
    /// that no user of the machine has.
    fn claim_number(&self, range: &RangeInclusive<u32>, person: &str, is_known: &dyn Fn(u32) -> bool) -> Option<u32> {
        // Whether a user of the machine has the number, for numbers looked up so far. A look-up is slow, so it is done
        // without the lock.
        let mut looked_up = HashMap::new();
        loop {
            let candidate = {
                let mut in_use = self.in_use.lock();
                let own = own_number(&in_use, range, person);
                let is_free = |uid: &u32| !in_use.contains_key(uid) && looked_up.get(uid) != Some(&true);
                let candidate = own.or_else(|| range.clone().find(is_free))?;
                if own.is_some() || looked_up.contains_key(&candidate) {
                    count(&mut in_use, candidate, person);
                    return Some(candidate);
                }
                candidate
            };
            looked_up.insert(candidate, is_known(candidate));
        }
    }

    /// Returns how many numbers of the range have processes that the kernel has not ended.
    fn left_in(&self, range: &RangeInclusive<u32>) -> usize {
        let in_use = self.in_use.lock();
        in_use.iter().filter(|(uid, tenancy)| range.contains(uid) && tenancy.left > 0).count()
    }

    /// Whether a process of this machine's user `uid` may belong to one of `user`'s sessions. It may if `uid` is the
    /// user's own account here, the account that its sessions run under, or root.
    ///
    /// # Errors
    /// Returns an error if this process does not serve the user.
    pub(crate) fn may_be(&self, rules: &UserRules, user: &str, uid: u32) -> Result<bool> {
        let account = match treatment(rules, user)? {
            Treatment::Agent => Some(geteuid().as_raw()),
            Treatment::As(account) => Some(account.uid),
            Treatment::OneOf(range) => self.number_of(&range, &person(user)),
        };
        let is_own = user.parse() == Ok(uid) || find_account(user).is_some_and(|own| own.uid == uid);
        Ok(uid == 0 || Some(uid) == account || is_own)
    }

    /// Returns the person's number of the range, if there is one at this time.
    fn number_of(&self, range: &RangeInclusive<u32>, person: &str) -> Option<u32> {
        own_number(&self.in_use.lock(), range, person)
    }
}

fn own_number(in_use: &HashMap<u32, Tenancy>, range: &RangeInclusive<u32>, person: &str) -> Option<u32> {
    in_use.iter().find(|(uid, tenancy)| range.contains(uid) && tenancy.person == person).map(|(uid, _)| *uid)
}

/// Counts a session of the person. Returns `false` if another person holds the account.
fn count(in_use: &mut HashMap<u32, Tenancy>, uid: u32, person: &str) -> bool {
    let tenancy = in_use.entry(uid).or_insert_with(|| Tenancy { person: person.to_owned(), sessions: 0, left: 0 });
    let is_own = tenancy.person == person;
    tenancy.sessions += usize::from(is_own);
    is_own
}

impl AccountUse {
    /// Marks an ended session that still has processes: other users don't get the account until this is dropped.
    pub(crate) fn keep_back(&mut self) {
        self.is_left = true;
        if let Some(tenancy) = self.accounts.in_use.lock().get_mut(&self.uid) {
            tenancy.left += 1;
        }
        tracing::warn!("account {} goes to no other user until they have ended", self.uid);
    }
}

impl Drop for AccountUse {
    fn drop(&mut self) {
        let mut in_use = self.accounts.in_use.lock();
        if let Some(tenancy) = in_use.get_mut(&self.uid) {
            tenancy.left -= usize::from(self.is_left);
            tenancy.sessions -= 1;
            if tenancy.sessions == 0 {
                in_use.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid_of(taken: &(RunsAs, Option<AccountUse>)) -> u32 {
        let RunsAs::Other(account) = &taken.0 else { panic!("{taken:?}") };
        account.uid
    }

    #[test]
    fn users_of_a_range_have_one_number_each_while_they_have_sessions() {
        let accounts = Arc::<Accounts>::default();
        let take = |user: &str| accounts.assign(Treatment::OneOf(500..=503), user, user, &|uid| uid == 501);
        let (alice, bob) = (take("alice").unwrap(), take("bob").unwrap());
        // 501 belongs to a user of the machine.
        assert_eq!((uid_of(&alice), uid_of(&bob)), (500, 502));
        let again = take("alice").unwrap();
        assert_eq!(uid_of(&again), 500);
        assert_eq!(accounts.number_of(&(500..=503), "bob"), Some(502));
        let eva = take("eva").unwrap();
        assert!(take("carol").unwrap_err().cause().contains("all in use"));
        drop(alice);
        assert!(take("carol").is_err(), "alice has another session");
        drop(again);
        assert_eq!(uid_of(&take("carol").unwrap()), 500);
        drop((bob, eva));
    }

    #[test]
    fn an_account_of_several_users_is_one_users_at_a_time() {
        let accounts = Arc::<Accounts>::default();
        let take = |user: &str| accounts.assign(Treatment::As(Account::of_numbers(500, 500)), user, user, &|_| false);
        let alice = take("alice").unwrap();
        assert!(take("bob").unwrap_err().cause().contains("has sessions of another user"));
        drop(alice);
        assert_eq!(uid_of(&take("bob").unwrap()), 500);
    }

    #[test]
    fn one_user_has_one_number_though_two_sessions_begin_at_a_time() {
        let accounts = Arc::<Accounts>::default();
        let first = ShortLock::new(None);
        let take = |is_known: &dyn Fn(u32) -> bool| {
            accounts.assign(Treatment::OneOf(500..=503), "alice", "alice", is_known).unwrap()
        };
        // The other session begins while 500 is being looked up.
        let second = take(&|uid| {
            if uid == 500 {
                let taken = take(&|uid| uid == 500);
                *first.lock() = Some(taken);
            }
            uid == 500
        });
        let first = first.lock().take().unwrap();
        assert_eq!((uid_of(&first), uid_of(&second)), (501, 501));
    }

    #[test]
    fn an_account_is_kept_back_while_processes_of_its_session_are_left() {
        let accounts = Arc::<Accounts>::default();
        let take = |user: &str| accounts.assign(Treatment::OneOf(500..=500), user, user, &|_| false);
        let (_, Some(mut alice)) = take("alice").unwrap() else { panic!() };
        alice.keep_back();
        let error = take("bob").unwrap_err();
        assert!(error.cause().contains("1 of them by processes that do not end"), "{error}");
        let one = |user: &str| accounts.assign(Treatment::As(Account::of_numbers(500, 500)), user, user, &|_| false);
        assert!(one("bob").unwrap_err().cause().contains("processes of another user's session that do not end"));
        // The remaining processes are alice's own.
        drop(take("alice").unwrap());
        drop(alice);
        assert_eq!(uid_of(&take("bob").unwrap()), 500);
    }
}
