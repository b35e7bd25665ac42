//! Where a policy file says what changes for jobs.

use super::draft::SITE;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The position of a key in a policy file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPosition {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for KeyPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The tables of a policy file.
pub struct KeyPositions<'a> {
    text: &'a str,
    document: Spanned<DeTable<'a>>,
}

impl<'a> KeyPositions<'a> {
    /// Reads a file that [`super::SitePolicy::read`] has accepted.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, document: DeTable::parse_recoverable(text).0 }
    }

    /// Returns the position of a key that an account has itself.
    pub(super) fn of_key(&self, account: &str, key: &str) -> Option<KeyPosition> {
        if account == SITE { self.of(&[SITE, key]) } else { self.of(&["account", account, key]) }
    }

    /// Returns the position of an account's key; that of the account's name if it has no such key; `None` if the file has no such account.
    pub(super) fn of_account(&self, account: &str, key: &str) -> Option<KeyPosition> {
        let name = if account == SITE { self.of(&[SITE]) } else { self.of(&["account", account]) };
        self.of_key(account, key).or(name)
    }

    /// Returns the position of a key for a user of an account: its own, or that for each user.
    pub(super) fn of_user(&self, account: &str, user: &str, key: &str) -> Option<KeyPosition> {
        let own = self.of(&["account", account, "user", user]);
        let found = match own {
            Some(_) => self.of(&["account", account, "user", user, key]),
            None => self.of(&["account", account, "each-user", key]),
        };
        found.or(own).or_else(|| self.of(&["account", account]))
    }

    fn of(&self, keys: &[&str]) -> Option<KeyPosition> {
        let (last, tables) = keys.split_last()?;
        let table = tables.iter().try_fold(self.document.get_ref(), |table, key| match table.get(*key)?.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        })?;
        let key = table.keys().find(|key| key.get_ref() == last)?;
        let before = self.text.get(..key.span().start)?;
        let line = before.rsplit('\n').next().unwrap_or_default();
        Some(KeyPosition { line: before.matches('\n').count() + 1, column: line.chars().count() + 1 })
    }
}
