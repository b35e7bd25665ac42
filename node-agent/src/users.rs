//! As which user of this machine a session's executor runs. Whose a session is the coordinator attests; which users are served, and as whom, is
//! the agent's own to decide.

use accord_trust::users::UserRules;
use accord_types::{Error, ErrorCode, Result};
use nix::unistd::{Uid, User, geteuid, getgrouplist};
use std::ffi::CString;
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

/// Whom a session's executor belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RunsAs {
    /// The agent's own user.
    Agent,
    /// Another one.
    Other(Account),
}

/// As whom this process runs sessions of `user`.
///
/// # Errors
/// If it does not serve them, with what to do about it.
pub(crate) fn runs_as(rules: &UserRules, user: &str) -> Result<RunsAs> {
    decide(rules, user, geteuid().as_raw(), &find_account)
}

/// Whether a process of this machine's user `uid` may be one of `user`'s sessions: under the user's own name here, or as the account that
/// the user has here. Root may be anybody.
///
/// # Errors
/// If this process does not serve the user.
pub(crate) fn may_be(rules: &UserRules, user: &str, uid: u32) -> Result<bool> {
    let account = match runs_as(rules, user)? {
        RunsAs::Agent => geteuid().as_raw(),
        RunsAs::Other(account) => account.uid,
    };
    Ok(uid == 0 || uid == account || find_account(user).is_some_and(|own| own.uid == uid))
}

fn decide(rules: &UserRules, user: &str, own: u32, find: &dyn Fn(&str) -> Option<Account>) -> Result<RunsAs> {
    let refused = |why: String, remedy: String| Err(Error::new(ErrorCode::DeviceUnavailable, why).remedy(remedy));
    if own != 0 {
        let is_own = user.parse() == Ok(own) || find(user).is_some_and(|account| account.uid == own);
        return if is_own {
            Ok(RunsAs::Agent)
        } else {
            let why =
                format!("the session is user {user}'s, and this agent, which is not root's, serves user {own} only");
            refused(why, "start agents as root, or one for each user".to_owned())
        };
    }
    let Some((account, named)) = rules.account_of(user) else {
        return refused(
            format!("this agent serves no sessions of user {user}"),
            "ask who runs it, or change its --users".to_owned(),
        );
    };
    // Numbers that stand in no database are whom a rule says, and nobody else.
    let Some(account) = find(account).or_else(|| named.then(|| by_number(account)).flatten()) else {
        return refused(
            format!("user {user} is unknown on this machine"),
            format!("add the user, or start the agent with --users {user}=ACCOUNT"),
        );
    };
    if account.uid != 0 {
        return Ok(RunsAs::Other(account));
    }
    if named {
        return Ok(RunsAs::Agent);
    }
    refused(
        "this agent runs nobody's programs as root".to_owned(),
        format!("use an account of your own, or start the agent with --users {user}"),
    )
}

/// Looks into the system's database.
fn find_account(name: &str) -> Option<Account> {
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

/// `UID` or `UID:GID`.
fn by_number(text: &str) -> Option<Account> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    let (uid, gid): (u32, u32) = (uid.parse().ok()?, gid.parse().ok()?);
    Some(Account { name: uid.to_string(), uid, gid, groups: Vec::new(), home: "/".into() })
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

    fn decide(text: &str, user: &str) -> Result<RunsAs, String> {
        super::decide(&rules(text), user, 0, &known).map_err(|error| error.cause().to_owned())
    }

    fn uid(text: &str, user: &str) -> Option<u32> {
        match decide(text, user).ok()? {
            RunsAs::Agent => Some(0),
            RunsAs::Other(account) => Some(account.uid),
        }
    }

    #[test]
    fn by_default_users_are_themselves_and_nobody_is_root() {
        assert_eq!(rules("*"), UserRules::default());
        assert_eq!(decide("*", "alice"), Ok(RunsAs::Other(account("alice", 1000))));
        for root in ["root", "toor", "0"] {
            assert_eq!(decide("*", root), Err("this agent runs nobody's programs as root".to_owned()));
        }
        assert_eq!(decide("*", "mallory"), Err("user mallory is unknown on this machine".to_owned()));
        assert_eq!(decide("*", "60001"), Err("user 60001 is unknown on this machine".to_owned()));
    }

    #[test]
    fn the_first_rule_that_fits_counts() {
        let site = "!bob, alice=grid, 60001=60001:7, root, *";
        assert_eq!(decide(site, "bob"), Err("this agent serves no sessions of user bob".to_owned()));
        assert_eq!((uid(site, "alice"), uid(site, "grid"), uid(site, "root")), (Some(500), Some(500), Some(0)));
        let RunsAs::Other(number) = decide(site, "60001").unwrap() else { panic!() };
        assert_eq!((number.uid, number.gid, number.groups), (60001, 7, Vec::new()));
        assert_eq!(uid("*=grid", "mallory"), Some(500));
        assert!(decide("alice", "bob").is_err());
    }

    #[test]
    fn an_agent_that_is_not_roots_serves_its_own_user_only() {
        let decide = |user| super::decide(&rules("*"), user, 1000, &known);
        assert_eq!(decide("alice").unwrap(), RunsAs::Agent);
        assert_eq!(decide("1000").unwrap(), RunsAs::Agent);
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
