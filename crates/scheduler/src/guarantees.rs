//! What accounts are guaranteed: which jobs are within it, and what it leaves for jobs with long limits.
//!
//! A job whose limit is longer than the quantum keeps its devices for too long to give them back. Such jobs get no more devices than
//! their own guarantees and what no account is guaranteed. All other devices return within a quantum, so that each account
//! can have its guarantee by then.

use crate::accounts::{Accounts, change, contains, sum_of, taken_of};
use crate::ids::ClassId;

/// An account's further demand beside its holdings, in thousandths by class.
pub(crate) type Takes<'a> = (u32, &'a [(ClassId, u64)]);

impl Accounts {
    /// Takes over which accounts have guarantees.
    pub(crate) fn note_guarantees(&mut self) {
        let has = |at: u32| !self.get(at).guaranteed.is_empty();
        let is_top = |at: u32| has(at) && self.get(at).path.iter().all(|&above| above == at || !has(above));
        let all = 0..u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.guaranteed = all.filter(|&at| is_top(at)).collect();
        self.guaranteed_sets =
            self.all.iter().flat_map(|account| &account.guaranteed).map(|bound| bound.classes).collect();
    }

    /// Whether what a job takes is within the guarantee of its account or of one above.
    pub(crate) fn is_entitled(&self, leaf: u32, demand: &[(ClassId, u64)]) -> bool {
        self.is_entitled_beside(leaf, demand, |_, _| 0)
    }

    /// The same, reserved starts of first jobs counted as held. `own` is claimed for the job itself.
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

    /// Whether what an account holds of a set of classes is within its guarantee or that of one above.
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

    /// Returns how many thousandths of a set of classes are guaranteed and not held by jobs with long limits, once accounts have taken more.
    pub(crate) fn unused_guarantees(&self, classes: u128, takes: &[Takes<'_>]) -> u64 {
        let mut unused = 0;
        for &account in &self.guaranteed {
            for bound in self.get(account).guaranteed.iter().filter(|bound| bound.classes & !classes == 0) {
                let own = takes.iter().filter(|(leaf, _)| self.get(*leaf).path.contains(&account));
                let more: u64 = own.map(|(_, demand)| taken_of(demand, bound.classes)).sum();
                unused += bound.milli.saturating_sub(sum_of(&self.get(account).long, bound.classes) + more);
            }
        }
        unused
    }

    /// Counts what a job of a leaf holds as held by one with a long limit, or no longer.
    pub(crate) fn change_long(&mut self, leaf: u32, class: ClassId, milli: u64, more: bool) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at] as usize;
            change(&mut self.all[account].long[class.index()], milli, more);
        }
    }

    /// Adds to, or takes from, what reserved starts of first jobs of a leaf and its ancestors take.
    pub(crate) fn claim(&mut self, leaf: u32, demand: &[(ClassId, u64)], more: bool) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at] as usize;
            for &(class, milli) in demand {
                change(&mut self.all[account].claimed[class.index()], milli, more);
            }
        }
    }
}
