//! An account as read from its table, with places for findings.

use super::site::{AccountRules, Member};
use super::{Account, Quota};
use std::ops::Range;

/// The name of the tree's root.
pub const SITE: &str = "site";

/// A range of bytes in the file.
pub(super) type Span = Range<usize>;

/// An account whose parent is known by name only.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// The place of its name.
    pub(super) name: Span,
    pub(super) account: Account,
    pub(super) rules: AccountRules,
    pub(super) parent: Option<(String, Span)>,
    pub(super) guaranteed: Vec<(Quota, Span)>,
    pub(super) most: Vec<(Quota, Span)>,
    pub(super) users: Vec<(Member, Span)>,
    pub(super) default_for: Vec<(Member, Span)>,
    /// Its priorities; `None` inherits its parent's.
    pub(super) priorities: Option<(i32, i32)>,
    pub(super) default_place: Span,
    pub(super) default_limit_place: Span,
}

impl Draft {
    pub(super) fn new(account: Account, name: Span) -> Self {
        Self {
            default_place: name.clone(),
            default_limit_place: name.clone(),
            name,
            account,
            rules: AccountRules::default(),
            parent: None,
            guaranteed: Vec::new(),
            most: Vec::new(),
            users: Vec::new(),
            default_for: Vec::new(),
            priorities: None,
        }
    }

    pub(super) fn take_quotas(&mut self) {
        let quotas = |from: &[(Quota, Span)]| from.iter().map(|(quota, _)| quota.clone()).collect();
        (self.account.guaranteed, self.account.most) = (quotas(&self.guaranteed), quotas(&self.most));
    }

    pub(super) fn take_members(&mut self) {
        let members = |from: &[(Member, Span)]| from.iter().map(|(member, _)| member.clone()).collect();
        (self.rules.users, self.rules.default_for) = (members(&self.users), members(&self.default_for));
    }
}
