//! The users of this machine that sessions' executors run as. The coordinator attests the owner of a session; the agent
//! itself decides which users it serves, and under which accounts.

use accord_trust::users::UserRules;
use accord_types::{Error, ErrorCode, Result};
use nix::unistd::{Uid, User, geteuid, getgrouplist};
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// A user of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    pub(crate) home: PathBuf,
}

impl Account {
    /// Creates an account that need not be in the system's database.
    pub(crate) fn of_numbers(uid: u32, gid: u32) -> Self {
        Self { name: uid.to_string(), uid, gid, groups: Vec::new(), home: "/".into() }
    }
}

/// The user that a session's executor runs as.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RunsAs {
    /// The agent's own user.
    Agent,
    /// Another user.
    Other(Account),
}

/// The rules' decision for a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Treatment {
    /// Sessions run as the agent's own user.
    Agent,
    /// Sessions run as this account.
    As(Account),
    /// Sessions run under one of these numbers, which no other user has at the time.
    OneOf(RangeInclusive<u32>),
}

/// Returns the treatment of sessions of `user` by this process.
///
/// # Errors
/// Returns an error with a remedy if this process does not serve the user.
pub(crate) fn treatment(rules: &UserRules, user: &str) -> Result<Treatment> {
    decide(rules, user, geteuid().as_raw(), &find_account)
}

/// Returns the identity of a user on this machine, equal for all names of one account.
pub(crate) fn person(user: &str) -> String {
    find_account(user).map_or_else(|| user.to_owned(), |account| account.uid.to_string())
}

fn decide(rules: &UserRules, user: &str, own: u32, find: &dyn Fn(&str) -> Option<Account>) -> Result<Treatment> {
    let refused = |why: String, remedy: String| Err(Error::new(ErrorCode::DeviceUnavailable, why).remedy(remedy));
    if own != 0 {
        let is_own = user.parse() == Ok(own) || find(user).is_some_and(|account| account.uid == own);
        return if is_own {
            Ok(Treatment::Agent)
        } else {
            let why =
                format!("the session is user {user}'s, and this agent, which is not root's, serves user {own} only");
            refused(why, "start agents as root, or one for each user".to_owned())
        };
    }
    let mut is_unknown = false;
    for rule in rules.accounts_of(user) {
        let Some((account, named)) = rule else { break };
        if let Some(range) = range_of(account).filter(|_| named) {
            return Ok(Treatment::OneOf(range));
        }
        // A number without an account belongs to the user that a rule assigns it to.
        match find(account).or_else(|| named.then(|| by_number(account)).flatten()) {
            Some(account) if account.uid != 0 => return Ok(Treatment::As(account)),
            Some(_) if named => return Ok(Treatment::Agent),
            Some(_) => {
                return refused(
                    "this agent runs no programs as root".to_owned(),
                    format!("use an account of your own, or start the agent with --users {user}"),
                );
            }
            None => is_unknown = true,
        }
        if named {
            break;
        }
    }
    if is_unknown {
        return refused(
            format!("user {user} is unknown on this machine"),
            format!("add the user, or start the agent with --users {user}=ACCOUNT"),
        );
    }
    refused(
        format!("this agent serves no sessions of user {user}"),
        "ask who runs it, or change its --users".to_owned(),
    )
}

/// Queries the system's database.
pub(crate) fn find_account(name: &str) -> Option<Account> {
    let found = User::from_name(name).ok().flatten();
    let user = match name.parse() {
        Ok(uid) if found.is_none() => User::from_uid(Uid::from_raw(uid)).ok().flatten()?,
        _ => found?,
    };
    let text = CString::new(user.name.as_str()).ok()?;
    let groups = getgrouplist(&text, user.gid).ok()?;
    Some(Account {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        groups: groups.into_iter().map(nix::unistd::Gid::as_raw).collect(),
        home: user.dir,
    })
}

/// Parses `UID` or `UID:GID`.
fn by_number(text: &str) -> Option<Account> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    let (uid, gid): (u32, u32) = (uid.parse().ok()?, gid.parse().ok()?);
    Some(Account::of_numbers(uid, gid))
}

/// Parses `UID-UID`; a range never includes root.
fn range_of(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-')?;
    let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (0 < first && first <= last && last < u32::MAX).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> UserRules {
        text.parse().unwrap()
    }

    fn account(name: &str, uid: u32) -> Account {
        Account { name: name.to_owned(), uid, gid: uid, groups: vec![uid, 44], home: "/".into() }
    }

    fn known(name: &str) -> Option<Account> {
        let found = [("root", 0), ("toor", 0), ("alice", 1000), ("bob", 1001), ("grid", 500)];
        found
            .iter()
            .find(|(known, uid)| *known == name || *uid.to_string() == *name)
            .map(|(name, uid)| account(name, *uid))
    }

    fn decide(text: &str, user: &str) -> Result<Treatment, String> {
        super::decide(&rules(text), user, 0, &known).map_err(|error| error.cause().to_owned())
    }

    fn uid(text: &str, user: &str) -> Option<u32> {
        match decide(text, user).ok()? {
            Treatment::Agent => Some(0),
            Treatment::As(account) => Some(account.uid),
            Treatment::OneOf(range) => Some(*range.start()),
        }
    }

    #[test]
    fn by_default_users_are_themselves_and_never_root() {
        assert_eq!(rules("*"), UserRules::default());
        assert_eq!(decide("*", "alice"), Ok(Treatment::As(account("alice", 1000))));
        for root in ["root", "toor", "0"] {
            assert_eq!(decide("*", root), Err("this agent runs no programs as root".to_owned()));
        }
        assert_eq!(decide("*", "mallory"), Err("user mallory is unknown on this machine".to_owned()));
        assert_eq!(decide("*", "60001"), Err("user 60001 is unknown on this machine".to_owned()));
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let site = "!bob, alice=grid, 60001=60001:7, root, *";
        assert_eq!(decide(site, "bob"), Err("this agent serves no sessions of user bob".to_owned()));
        assert_eq!((uid(site, "alice"), uid(site, "grid"), uid(site, "root")), (Some(500), Some(500), Some(0)));
        let Treatment::As(number) = decide(site, "60001").unwrap() else { panic!() };
        assert_eq!((number.uid, number.gid, number.groups), (60001, 7, Vec::new()));
        assert_eq!(uid("*=grid", "mallory"), Some(500));
        assert!(decide("alice", "bob").is_err());
    }

    #[test]
    fn users_that_the_machine_does_not_know_have_a_number_of_a_range() {
        let site = "!bob, *, *=60000-60999";
        assert_eq!(decide(site, "alice"), Ok(Treatment::As(account("alice", 1000))));
        assert_eq!(decide(site, "mallory"), Ok(Treatment::OneOf(60_000..=60_999)));
        assert_eq!(decide(site, "bob"), Err("this agent serves no sessions of user bob".to_owned()));
        assert!(decide(site, "root").is_err());
        for none in ["*=0-9", "*=9-8", "*=a-b"] {
            assert!(decide(none, "mallory").is_err(), "{none}");
        }
    }

    #[test]
    fn an_agent_that_is_not_roots_serves_its_own_user_only() {
        let decide = |user| super::decide(&rules("*"), user, 1000, &known);
        assert_eq!(decide("alice").unwrap(), Treatment::Agent);
        assert_eq!(decide("1000").unwrap(), Treatment::Agent);
        for other in ["bob", "root", "0", "mallory"] {
            assert!(decide(other).is_err(), "{other}");
        }
        assert!(super::decide(&rules("bob=alice"), "bob", 1000, &known).is_err());
    }

    #[test]
    fn the_systems_database_is_asked() {
        let root = find_account("root").unwrap();
        assert_eq!((root.uid, root.gid, root.groups.contains(&0)), (0, 0, true));
        assert_eq!(find_account("0"), Some(root));
        assert_eq!(find_account("no such user"), None);
    }
}
