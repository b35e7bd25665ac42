//! Rules of agents and coordinators: which users are served, and under which account.

use std::str::FromStr;

/// Rules for which users are served, and under which account; the first rule that matches counts.
///
/// ```text
/// !bob, alice=grid, 1001=1001:100, root, *
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserRules(Vec<Rule>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    /// A name or a number; `None` matches every user but root.
    user: Option<String>,
    treatment: Treatment,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Treatment {
    Refuse,
    AsThemselves,
    /// The account: a name, a number, or numbers of user and group.
    As(String),
}

impl Default for UserRules {
    /// Serves every user that the system knows under the own account, except root.
    fn default() -> Self {
        Self(vec![Rule { user: None, treatment: Treatment::AsThemselves }])
    }
}

impl FromStr for UserRules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = |text: &str| -> Result<Rule, String> {
            let (user, treatment) = match text.split_once('=') {
                _ if text.is_empty() => return Err("a rule is empty".to_owned()),
                Some((user, account)) if !user.trim().is_empty() && !account.trim().is_empty() => {
                    (user.trim(), Treatment::As(account.trim().to_owned()))
                }
                Some(_) => return Err(format!("\"{text}\" names no user, or no account")),
                None => match text.strip_prefix('!') {
                    Some("" | "*") => return Err("! needs a user's name".to_owned()),
                    Some(user) => (user, Treatment::Refuse),
                    None => (text, Treatment::AsThemselves),
                },
            };
            let user = (user != "*").then(|| user.to_owned());
            Ok(Rule { user, treatment })
        };
        text.split(',').map(|text| rule(text.trim())).collect::<Result<_, _>>().map(Self)
    }
}

impl UserRules {
    /// Returns the account for `user`, and whether a rule names the user; `None` if the user is refused.
    pub fn account_of<'a>(&'a self, user: &'a str) -> Option<(&'a str, bool)> {
        self.accounts_of(user).next().flatten()
    }

    /// Returns the account for `user` by each matching rule, in their order. A caller tries the next rule if `*` names
    /// no user that exists.
    pub fn accounts_of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = Option<(&'a str, bool)>> {
        let fits = move |rule: &&Rule| rule.user.as_deref().is_none_or(|named| named == user);
        self.0.iter().filter(fits).map(move |rule| match &rule.treatment {
            Treatment::Refuse => None,
            Treatment::AsThemselves => Some((user, rule.user.is_some())),
            Treatment::As(account) => Some((account.as_str(), true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules: UserRules = "!bob, alice=grid, root, *".parse().unwrap();
        let of = |user| rules.account_of(user);
        assert_eq!((of("bob"), of("alice")), (None, Some(("grid", true))));
        assert_eq!((of("root"), of("eva")), (Some(("root", true)), Some(("eva", false))));
        assert_eq!("*".parse::<UserRules>().unwrap(), UserRules::default());
    }

    #[test]
    fn rules_without_a_meaning_are_refused() {
        for bad in ["", "a,,b", "=b", "a=", "!", "!*"] {
            assert!(bad.parse::<UserRules>().is_err(), "{bad:?}");
        }
    }
}
