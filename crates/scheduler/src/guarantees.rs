//! Guarantees of accounts: which jobs are within them, and what they leave for jobs with long limits.
//!
//! A job whose limit is longer than the quantum can't return its devices in time. Such jobs get no more than their own
//! guarantees and the devices that no account is guaranteed. All other devices return within a quantum, so that each
//! account can have its guarantee by then.

use crate::accounts::Accounts;
use crate::class_sums::{change, contains, sum_of, taken_of};
use crate::ids::ClassId;

/// An account's additional demand, in thousandths by class.
pub(crate) type AdditionalDemand<'a> = (u32, &'a [(ClassId, u64)]);

impl Accounts {
    /// Determines the accounts with guarantees.
    pub(crate) fn note_guarantees(&mut self) {
        let has = |at: u32| !self.get(at).guaranteed.is_empty();
        let is_top = |at: u32| has(at) && self.get(at).path.iter().all(|&above| above == at || !has(above));
        let all = 0..u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.guaranteed = all.filter(|&at| is_top(at)).collect();
        self.guaranteed_sets =
            self.all.iter().flat_map(|account| &account.guaranteed).map(|bound| bound.classes).collect();
    }

    /// Whether a demand is within the guarantee of its account or of an ancestor.
    pub(crate) fn is_entitled(&self, leaf: u32, demand: &[(ClassId, u64)]) -> bool {
        self.is_entitled_beside(leaf, demand, |_, _| 0)
    }

    /// The same check with reserved starts of first jobs counted as held, except the job's own claim `own`.
    pub(crate) fn is_first_entitled(&self, leaf: u32, demand: &[(ClassId, u64)], own: &[(ClassId, u64)]) -> bool {
        self.is_entitled_beside(leaf, demand, |account, classes| {
            sum_of(&self.get(account).claimed, classes) - taken_of(own, classes)
        })
    }

    fn is_entitled_beside(&self, leaf: u32, demand: &[(ClassId, u64)], claimed: impl Fn(u32, u128) -> u64) -> bool {
        self.get(leaf).path.iter().any(|&account| {
            let bounds = &self.get(account).guaranteed;
            let covered = |&(class, _): &(ClassId, u64)| bounds.iter().any(|bound| contains(bound.classes, class));
            !demand.is_empty()
                && demand.iter().all(covered)
                && bounds.iter().all(|bound| {
                    let taken = taken_of(demand, bound.classes);
                    let others = || self.held_of(account, bound.classes) + claimed(account, bound.classes);
                    taken == 0 || others() + taken <= bound.milli
                })
        })
    }

    /// Whether an account's holdings of a set of classes are within its guarantee or that of an ancestor.
    pub(crate) fn is_within_guarantee(&self, leaf: u32, classes: u128) -> bool {
        self.get(leaf).path.iter().any(|&account| {
            let bounds = &self.get(account).guaranteed;
            let covered = bounds.iter().fold(0, |set, bound| set | bound.classes);
            classes & !covered == 0
                && bounds
                    .iter()
                    .all(|bound| bound.classes & classes == 0 || self.held_of(account, bound.classes) <= bound.milli)
        })
    }

    /// Counts a hold of a leaf's job as one with a long limit, or no longer.
    pub(crate) fn change_long(&mut self, leaf: u32, class: ClassId, milli: u64, more: bool) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at] as usize;
            change(&mut self.all[account].long[class.index()], milli, more);
        }
    }

    /// Adds a reserved start of a leaf's first job to the claims of the leaf and its ancestors, or subtracts it.
    pub(crate) fn claim(&mut self, leaf: u32, demand: &[(ClassId, u64)], more: bool) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at] as usize;
            for &(class, milli) in demand {
                change(&mut self.all[account].claimed[class.index()], milli, more);
            }
        }
    }
}
