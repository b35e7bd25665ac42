//! Groups of waiting jobs that are equal for the devices of reservations.

use crate::accounts::JobOrder;
use std::collections::{BTreeMap, BTreeSet};

/// The properties that determine which reserved devices a waiting job may use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Group {
    pub(super) account: u32,
    /// The index of the shape, whose request may name a reservation.
    pub(super) shape: usize,
    pub(super) user: String,
}

/// Waiting jobs by group, and the groups of each user.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    turns: BTreeMap<Group, BTreeSet<JobOrder>>,
    by_user: BTreeMap<String, BTreeSet<(u32, usize)>>,
}

impl Groups {
    pub(super) fn insert(&mut self, group: Group, turn: JobOrder) {
        let of_user = self.by_user.entry(group.user.clone()).or_default();
        of_user.insert((group.account, group.shape));
        self.turns.entry(group).or_default().insert(turn);
    }

    pub(super) fn remove(&mut self, group: &Group, turn: JobOrder) {
        let Some(turns) = self.turns.get_mut(group) else { return };
        turns.remove(&turn);
        if !turns.is_empty() {
            return;
        }
        self.turns.remove(group);
        if let Some(of_user) = self.by_user.get_mut(&group.user) {
            of_user.remove(&(group.account, group.shape));
            if of_user.is_empty() {
                self.by_user.remove(&group.user);
            }
        }
    }

    /// Returns the accounts with groups.
    pub(super) fn accounts(&self) -> impl Iterator<Item = u32> + '_ {
        let from = |account| Group { account, shape: 0, user: String::new() };
        let next = move |at: u32| self.turns.range(from(at)..).next().map(|(group, _)| group.account);
        std::iter::successors(next(0), move |&account| next(account.checked_add(1)?))
    }

    /// Returns the groups of an account, each with its first job.
    pub(super) fn of_account(&self, account: u32) -> impl Iterator<Item = (usize, JobOrder)> {
        let first = Group { account, shape: 0, user: String::new() };
        let from = self.turns.range(first..).take_while(move |(group, _)| group.account == account);
        from.filter_map(|(group, turns)| Some((group.shape, *turns.first()?)))
    }

    /// Returns the groups of a user, each with its account and its first job.
    pub(super) fn of_user<'a>(&'a self, user: &'a str) -> impl Iterator<Item = (u32, usize, JobOrder)> + 'a {
        self.by_user.get(user).into_iter().flatten().filter_map(move |&(account, shape)| {
            let turns = self.turns.get(&Group { account, shape, user: user.to_owned() })?;
            Some((account, shape, *turns.first()?))
        })
    }
}
