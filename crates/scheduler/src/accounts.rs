//! The tree of accounts: their holdings and usage, and the order in which their jobs are tried.
//!
//! Each level of the tree keeps the children with waiting jobs in a sorted set. So a change of a job moves one account
//! at each level.

use crate::arithmetic::{Decay, share};
use crate::charge::Usage;
use crate::class::DeviceClass;
use crate::class_sums::{change, contains, sum_of, taken_of};
use crate::ids::{AccountId, ClassId, JobId};
use crate::places::Places;
use crate::policy::{Account, Policy, Quota};
use crate::saved::SavedAccount;
use crate::time::Millis;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Billed usage of a device for an hour, in thousandths of devices times milliseconds times thousandths of the weight.
const BILLED_HOUR: u128 = 3_600_000_000_000;

/// The order of a job within its account. A higher priority counts as an earlier request, by the ageing time for each
/// level. Then the lower number comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct JobOrder {
    pub(crate) aged: i64,
    pub(crate) job: JobId,
}

/// Whether a waiting job is in its account's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Queued {
    /// It is not, or not any more.
    No,
    /// It is, and an administrator put it first.
    PutFirst,
    /// It is, and has its place by its turn.
    InTurn,
}

/// An account's place among its siblings; the least is first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct AccountRank {
    /// Whether its first job is beyond every guarantee.
    beyond: bool,
    /// The level of its first job, negated.
    lowness: i64,
    /// Its dominant share over its weight.
    share: u64,
    account: u32,
}

/// The properties of a waiting job that determine its account's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub(crate) submitted: Millis,
    pub(crate) priority: i32,
    /// Demand of its first choice, in thousandths of devices by class.
    pub(crate) demand: Vec<(ClassId, u64)>,
}

/// The holding of a class by a job, in thousandths of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) class: ClassId,
    /// The part that counts for maxima and guarantees.
    pub(crate) milli: u64,
    /// The part that counts as usage.
    pub(crate) charged: u64,
    /// Whether the job's limit is longer than the quantum.
    pub(crate) long: bool,
}

/// A quota with its set of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bound {
    pub(crate) classes: u128,
    /// Thousandths of devices.
    pub(crate) milli: u64,
}

/// An account.
#[derive(Clone, Debug)]
pub(crate) struct AccountUse {
    pub(crate) parent: Option<u32>,
    /// The accounts from the site to this one.
    pub(crate) path: Vec<u32>,
    /// Whether the account has no children.
    pub(crate) is_leaf: bool,
    /// Whether the account or an ancestor limits its running jobs.
    pub(crate) bounds_running: bool,
    weight: u32,
    pub(crate) guaranteed: Vec<Bound>,
    pub(crate) most: Vec<Bound>,
    /// Thousandths of devices by class.
    pub(crate) held: Vec<u64>,
    /// The charge of its jobs in thousandths of devices, by class.
    pub(crate) charged: Vec<u64>,
    /// The part of `held` of jobs with a limit longer than the quantum.
    pub(crate) long: Vec<u64>,
    /// The demand of reserved starts of its first jobs, by class.
    pub(crate) claimed: Vec<u64>,
    /// Decayed thousandths of devices times milliseconds, by class.
    used: Vec<u64>,
    pub(crate) total: Usage,
    /// Billed usage of the current month.
    pub(crate) month: u128,
    /// Most billed usage of a month.
    month_max: Option<u128>,
    settled: Millis,
    last_start: Millis,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    /// The account's jobs that may start, in order.
    pub(crate) queue: BTreeSet<JobOrder>,
    children: BTreeSet<AccountRank>,
    account_rank: Option<AccountRank>,
    /// The jobs of `queue` that no administrator has put first.
    places: Places<JobOrder>,
    /// The children, each with the number of such jobs of it and of the accounts below it.
    places_below: Places<AccountRank>,
    /// The number of such jobs of the account and of those below it, as its parent counts it.
    counted: u64,
}

/// All accounts.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) all: Vec<AccountUse>,
    half_life_ms: u64,
    ageing_ms: u64,
    /// Accounts by name.
    by_name: BTreeMap<String, u32>,
    /// Accounts with a guarantee and without a guaranteed ancestor.
    pub(crate) guaranteed: Vec<u32>,
    /// The sets of classes that have guarantees.
    pub(crate) guaranteed_sets: BTreeSet<u128>,
    /// Leaves whose first job is beyond every guarantee, by that job's level.
    pub(crate) firsts: BTreeSet<(i64, u32)>,
    /// Billing weights by class.
    billing: Vec<u32>,
    /// Installed devices by class.
    installed: Vec<u32>,
    pub(crate) steps: u64,
    /// Accounts whose usage has changed since they were saved; `None` if changes are not noted.
    changed: Option<BTreeSet<u32>>,
}

/// Returns the set of the classes that a filter matches.
pub(crate) fn class_set(filter: &crate::class::ClassFilter, classes: &[DeviceClass]) -> u128 {
    let matching = classes.iter().enumerate().filter(|(_, class)| filter.matches(class));
    matching.fold(0, |set, (at, _)| set | 1 << at)
}

impl AccountUse {
    fn hold(&mut self, Holding { class, milli, charged, long }: Holding, more: bool) {
        change(&mut self.held[class.index()], milli, more);
        change(&mut self.charged[class.index()], charged, more);
        if long {
            change(&mut self.long[class.index()], milli, more);
        }
    }

    /// Sets the known classes, and which of them the account's quotas cover.
    fn set_classes(&mut self, described: &Account, classes: &[DeviceClass]) {
        for by_class in [&mut self.held, &mut self.charged, &mut self.long, &mut self.claimed, &mut self.used] {
            by_class.resize(classes.len(), 0);
        }
        let bound = |quota: &Quota| Bound {
            classes: class_set(&quota.class, classes),
            milli: u64::from(quota.devices) * u64::from(crate::amount::WHOLE),
        };
        self.guaranteed = described.guaranteed.iter().map(bound).collect();
        self.most = described.most.iter().map(bound).collect();
    }
}

impl Accounts {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut accounts = Self {
            all: Vec::new(),
            half_life_ms: policy.half_life_ms,
            ageing_ms: policy.ageing_ms.max(1),
            by_name: BTreeMap::new(),
            guaranteed: Vec::new(),
            guaranteed_sets: BTreeSet::new(),
            firsts: BTreeSet::new(),
            billing: Vec::new(),
            installed: Vec::new(),
            steps: 0,
            changed: None,
        };
        policy.accounts.iter().for_each(|account| accounts.push(account));
        accounts
    }

    /// Appends an account, also to its parent's children. The account holds no devices, and its quotas are not resolved
    /// to classes yet.
    fn push(&mut self, account: &Account) {
        let at = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let parent = account.parent.map(|parent| parent.0);
        let mut path = parent.map_or_else(Vec::new, |parent: u32| self.all[parent as usize].path.clone());
        path.push(at);
        if let Some(parent) = parent {
            self.all[parent as usize].is_leaf = false;
        }
        self.by_name.insert(account.name.clone(), at);
        self.all.push(AccountUse {
            parent,
            path,
            is_leaf: true,
            bounds_running: account.running_max.is_some()
                || parent.is_some_and(|parent| self.all[parent as usize].bounds_running),
            weight: account.weight.max(1),
            guaranteed: Vec::new(),
            most: Vec::new(),
            held: Vec::new(),
            charged: Vec::new(),
            long: Vec::new(),
            claimed: Vec::new(),
            used: Vec::new(),
            total: Usage::default(),
            month: 0,
            month_max: account.hours_a_month.map(|hours| u128::from(hours) * BILLED_HOUR),
            settled: Millis(0),
            last_start: Millis(0),
            running: 0,
            waiting: 0,
            queue: BTreeSet::new(),
            children: BTreeSet::new(),
            account_rank: None,
            places: Places::default(),
            places_below: Places::default(),
            counted: 0,
        });
    }

    /// Adds an account to the policy in effect.
    pub(crate) fn add(&mut self, now: Millis, account: &Account, classes: &[DeviceClass]) {
        self.push(account);
        if let Some(added) = self.all.last_mut() {
            added.settled = now;
            added.set_classes(account, classes);
        }
        self.note(u32::try_from(self.all.len().saturating_sub(1)).unwrap_or(u32::MAX));
        if !account.guaranteed.is_empty() {
            self.note_guarantees();
        }
    }

    /// Returns the accounts without children.
    pub(crate) fn leaves(&self) -> Vec<u32> {
        (0..u32::try_from(self.all.len()).unwrap_or(u32::MAX)).filter(|&at| self.get(at).is_leaf).collect()
    }

    /// Takes over usage and holdings from accounts of the same name under the previous policy.
    pub(crate) fn inherit(&mut self, old: &Self, names: impl Iterator<Item = (usize, usize)>) {
        for (new, old_at) in names {
            let (to, from) = (&mut self.all[new], &old.all[old_at]);
            to.used.clone_from(&from.used);
            (to.total, to.month, to.settled, to.last_start) = (from.total, from.month, from.settled, from.last_start);
        }
        if old.changed.is_some() {
            self.note_changes();
        }
    }

    /// Begins to note accounts whose usage changes. All accounts count as changed at first.
    pub(crate) fn note_changes(&mut self) {
        self.changed.get_or_insert_default();
        self.note_all();
    }

    /// Stops noting changes.
    pub(crate) fn forget_changes(&mut self) {
        self.changed = None;
    }

    /// Returns the accounts whose usage has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> BTreeSet<u32> {
        self.changed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&mut self, account: u32) {
        if let Some(changed) = &mut self.changed {
            changed.insert(account);
        }
    }

    fn note_all(&mut self) {
        if let Some(changed) = &mut self.changed {
            changed.extend(0..u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        }
    }

    /// Returns the record of an account's usage.
    pub(crate) fn saved(&self, account: u32) -> SavedAccount {
        let of = self.get(account);
        let used = if of.used.iter().all(|used| *used == 0) { Vec::new() } else { of.used.clone() };
        let (settled, last_start) = (of.settled.0, of.last_start.0);
        SavedAccount { used, total: of.total, month: of.month, settled, last_start }
    }

    /// Restores an account's usage from its record.
    pub(crate) fn restore(&mut self, account: u32, saved: SavedAccount) {
        let of = &mut self.all[account as usize];
        for (used, saved) in of.used.iter_mut().zip(saved.used) {
            *used = saved;
        }
        (of.total, of.month) = (saved.total, saved.month);
        (of.settled, of.last_start) = (Millis(saved.settled), Millis(saved.last_start));
    }

    /// Restores a hold of a leaf and its ancestors, which existed when they were last settled.
    pub(crate) fn restore_hold(&mut self, leaf: u32, holding: Holding) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at];
            self.all[account as usize].hold(holding, true);
        }
    }

    /// Sets the known classes, the number of devices of each, and which of them quotas cover.
    pub(crate) fn set_classes(&mut self, policy: &Policy, classes: &[DeviceClass], installed: Vec<u32>) {
        self.installed = installed;
        if self.billing.len() == classes.len() && !classes.is_empty() {
            return;
        }
        self.billing = classes.iter().map(|class| policy.billing_of(class)).collect();
        for (account, described) in self.all.iter_mut().zip(&policy.accounts) {
            account.set_classes(described, classes);
        }
        self.note_guarantees();
    }

    /// Returns the account with this name.
    pub(crate) fn named(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, account: u32) -> &AccountUse {
        &self.all[account as usize]
    }

    /// Brings the usage of an account up to `now`.
    pub(crate) fn settle(&mut self, now: Millis, account: u32) {
        self.steps += 1;
        let of = &mut self.all[account as usize];
        let passed = now.since(of.settled);
        if passed == 0 {
            return;
        }
        of.settled = now;
        if let Some(changed) = &mut self.changed {
            changed.insert(account);
        }
        let decay = Decay::over(passed, self.half_life_ms);
        for (at, (used, &charged)) in of.used.iter_mut().zip(&of.charged).enumerate() {
            if charged == 0 && *used == 0 {
                continue;
            }
            *used = decay.of(*used).saturating_add(charged.saturating_mul(passed));
            let milli_ms = u128::from(charged) * u128::from(passed);
            let billed = milli_ms * u128::from(self.billing[at]);
            of.total.milli_ms += milli_ms;
            of.total.billed += billed;
            of.month += billed;
        }
    }

    /// Returns the usage of an account until `now`.
    pub(crate) fn usage(&self, now: Millis, account: u32) -> Usage {
        let of = self.get(account);
        let passed = u128::from(now.since(of.settled));
        let mut usage = of.total;
        for (&charged, &weight) in of.charged.iter().zip(&self.billing) {
            usage.milli_ms += u128::from(charged) * passed;
            usage.billed += u128::from(charged) * passed * u128::from(weight);
        }
        usage
    }

    /// Adds to the holdings of a leaf and its ancestors, or subtracts.
    pub(crate) fn hold(&mut self, now: Millis, leaf: u32, holding: Holding, more: bool) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at];
            self.settle(now, account);
            self.all[account as usize].hold(holding, more);
        }
    }

    /// Charges an account and its ancestors for a class of devices, in thousandths of devices times milliseconds.
    pub(crate) fn use_up(&mut self, now: Millis, account: u32, class: ClassId, milli_ms: u64) {
        let billed = u128::from(milli_ms) * u128::from(self.billing[class.index()]);
        for at in 0..self.all[account as usize].path.len() {
            let account = self.all[account as usize].path[at];
            self.settle(now, account);
            self.note(account);
            let of = &mut self.all[account as usize];
            of.used[class.index()] = of.used[class.index()].saturating_add(milli_ms);
            of.total.milli_ms += u128::from(milli_ms);
            of.total.billed += billed;
            of.month += billed;
        }
    }

    /// Takes back what an account and its ancestors were charged for a class of devices, in thousandths of devices times
    /// milliseconds.
    pub(crate) fn take_back(&mut self, now: Millis, account: u32, class: ClassId, milli_ms: u64) {
        let milli = u128::from(milli_ms);
        let billed = milli * u128::from(self.billing[class.index()]);
        for at in 0..self.all[account as usize].path.len() {
            let account = self.all[account as usize].path[at];
            self.settle(now, account);
            self.note(account);
            let of = &mut self.all[account as usize];
            of.used[class.index()] = of.used[class.index()].saturating_sub(milli_ms);
            of.total.milli_ms = of.total.milli_ms.saturating_sub(milli);
            of.total.billed = of.total.billed.saturating_sub(billed);
            of.month = of.month.saturating_sub(billed);
        }
    }

    /// Returns the first of a leaf and its ancestors that has spent its device-hours of the month.
    pub(crate) fn spent(&self, now: Millis, leaf: u32) -> Option<u32> {
        self.get(leaf).path.iter().copied().find(|&account| self.has_spent(now, account))
    }

    /// Whether an account has spent its own device-hours of the month.
    fn has_spent(&self, now: Millis, account: u32) -> bool {
        let of = self.get(account);
        of.month_max.is_some_and(|max| {
            let passed = u128::from(now.since(of.settled));
            let charged = of.charged.iter().zip(&self.billing);
            let rate: u128 = charged.map(|(&charged, &weight)| u128::from(charged) * u128::from(weight)).sum();
            of.month + rate * passed >= max
        })
    }

    /// Resets all monthly budgets.
    pub(crate) fn begin_month(&mut self, now: Millis) {
        for account in 0..u32::try_from(self.all.len()).unwrap_or(u32::MAX) {
            self.settle(now, account);
            self.all[account as usize].month = 0;
        }
        self.note_all();
    }

    /// Counts running or waiting jobs of a leaf and its ancestors.
    pub(crate) fn count(&mut self, leaf: u32, running: i32, waiting: i32) {
        for at in 0..self.all[leaf as usize].path.len() {
            let account = self.all[leaf as usize].path[at] as usize;
            let of = &mut self.all[account];
            of.running = of.running.saturating_add_signed(running);
            of.waiting = of.waiting.saturating_add_signed(waiting);
        }
    }

    pub(crate) fn started(&mut self, now: Millis, leaf: u32) {
        self.all[leaf as usize].last_start = now;
        self.note(leaf);
    }

    /// Returns the order of a job within its account.
    pub(crate) fn turn(&self, job: JobId, submitted: Millis, priority: i32) -> JobOrder {
        let ahead = i64::from(priority).saturating_mul(i64::try_from(self.ageing_ms).unwrap_or(i64::MAX));
        let submitted = i64::try_from(submitted.0).unwrap_or(i64::MAX);
        JobOrder { aged: submitted.saturating_sub(ahead), job }
    }

    /// Returns what an account holds of a set of classes, in thousandths of devices.
    pub(crate) fn held_of(&self, account: u32, classes: u128) -> u64 {
        sum_of(&self.all[account as usize].held, classes)
    }

    /// Returns an account that the demand would take beyond its maximum.
    pub(crate) fn beyond_most(&self, leaf: u32, demand: &[(ClassId, u64)]) -> Option<u32> {
        self.get(leaf).path.iter().copied().find(|&account| {
            self.get(account).most.iter().any(|bound| {
                let taken = taken_of(demand, bound.classes);
                taken > 0 && self.held_of(account, bound.classes) + taken > bound.milli
            })
        })
    }

    /// Returns how many more thousandths of a class an account may take.
    pub(crate) fn left_of_most(&self, leaf: u32, class: ClassId) -> u64 {
        let bounds = self.get(leaf).path.iter().flat_map(|&account| {
            let bounds = self.get(account).most.iter().filter(|bound| contains(bound.classes, class));
            bounds.map(move |bound| bound.milli.saturating_sub(self.held_of(account, bound.classes)))
        });
        bounds.min().unwrap_or(u64::MAX)
    }

    /// Recomputes the order of a leaf and its ancestors, after a change of its first job, its usage or the time.
    pub(crate) fn rank(&mut self, now: Millis, leaf: u32, head: Option<&Head>) {
        let mut below = head.map(|head| {
            let since = head.submitted.max(self.get(leaf).last_start);
            let aged = i64::try_from(now.since(since) / self.ageing_ms).unwrap_or(i64::MAX);
            (!self.is_entitled(leaf, &head.demand), -i64::from(head.priority).saturating_add(aged))
        });
        if let Some(old) = self.get(leaf).account_rank.filter(|old| old.beyond) {
            self.firsts.remove(&(old.lowness, leaf));
        }
        if let Some((true, lowness)) = below {
            self.firsts.insert((lowness, leaf));
        }
        let mut account = leaf;
        loop {
            self.steps += 1;
            let account_rank =
                below.map(|(beyond, lowness)| AccountRank { beyond, lowness, share: self.share(account), account });
            let Some(parent) = self.place(account, account_rank) else { return };
            below = self.get(parent).children.first().map(|first| (first.beyond, first.lowness));
            account = parent;
        }
    }

    /// Gives an account its place among its siblings, with the number of its jobs by now. Returns its parent.
    fn place(&mut self, account: u32, account_rank: Option<AccountRank>) -> Option<u32> {
        let of = &mut self.all[account as usize];
        let counted = of.places.total() + of.places_below.total();
        let old = std::mem::replace(&mut of.account_rank, account_rank);
        let is_same = std::mem::replace(&mut of.counted, counted) == counted && old == account_rank;
        let parent = of.parent?;
        if !is_same {
            let above = &mut self.all[parent as usize];
            if let Some(old) = old.filter(|_| old != account_rank) {
                above.children.remove(&old);
                above.places_below.set(old, 0);
            }
            if let Some(account_rank) = account_rank {
                above.children.insert(account_rank);
                above.places_below.set(account_rank, counted);
            }
        }
        Some(parent)
    }

    /// Puts a job into its account's queue, in its place or behind the jobs that administrators put first, or takes it out. The caller ranks the
    /// account.
    pub(crate) fn queue(&mut self, leaf: u32, turn: JobOrder, queued: Queued) {
        let of = &mut self.all[leaf as usize];
        match queued {
            Queued::No => of.queue.remove(&turn),
            Queued::PutFirst | Queued::InTurn => of.queue.insert(turn),
        };
        of.places.set(turn, u64::from(queued == Queued::InTurn));
    }

    /// An administrator has put a queued job first: it has no place among the others.
    pub(crate) fn put_first(&mut self, leaf: u32, turn: JobOrder) {
        self.all[leaf as usize].places.set(turn, 0);
        let mut account = leaf;
        while let Some(parent) = self.place(account, self.get(account).account_rank) {
            account = parent;
        }
    }

    /// Returns how many jobs precede a place in an account, without the jobs that administrators put first. Calls `step` in each loop.
    pub(crate) fn before(&self, leaf: u32, turn: JobOrder, step: impl Fn() + Copy) -> u64 {
        let mut before = self.get(leaf).places.before(turn, step);
        for &account in &self.get(leaf).path {
            let of = self.get(account);
            if let (Some(parent), Some(account_rank)) = (of.parent, of.account_rank) {
                before += self.get(parent).places_below.before(account_rank, step);
            }
        }
        before
    }

    /// Returns the level of a leaf's first job, negated; none if it has none.
    pub(crate) fn lowness(&self, leaf: u32) -> Option<i64> {
        self.get(leaf).account_rank.map(|account_rank| account_rank.lowness)
    }

    /// Visits in order the leaves whose first job is within a guarantee, until `visit` returns `false`. Skips accounts
    /// that have spent their device-hours.
    pub(crate) fn visit_entitled(&self, now: Millis, visit: &mut impl FnMut(u32) -> bool) {
        self.visit_entitled_below(AccountId::SITE.0, now, visit);
    }

    fn visit_entitled_below(&self, account: u32, now: Millis, visit: &mut impl FnMut(u32) -> bool) -> bool {
        let of = self.get(account);
        if self.has_spent(now, account) {
            return true;
        }
        if of.is_leaf {
            return of.account_rank.is_none_or(|account_rank| account_rank.beyond) || visit(account);
        }
        of.children
            .iter()
            .take_while(|child| !child.beyond)
            .all(|child| self.visit_entitled_below(child.account, now, visit))
    }

    /// Returns an account's dominant share over its weight.
    pub(crate) fn share(&self, account: u32) -> u64 {
        let of = self.get(account);
        let classes = of.charged.iter().zip(&of.used).zip(&self.installed);
        let shares = classes.map(|((&charged, &used), &devices)| share(charged, used, devices, self.half_life_ms));
        shares.max().unwrap_or(0) / u64::from(of.weight)
    }

    /// Compares the order of two leaves with waiting jobs.
    pub(crate) fn compare(&self, one: u32, other: u32) -> Ordering {
        let (one, other) = (&self.get(one).path, &self.get(other).path);
        let parting = one.iter().zip(other).find(|(one, other)| one != other);
        parting.map_or(Ordering::Equal, |(&one, &other)| self.get(one).account_rank.cmp(&self.get(other).account_rank))
    }

    /// Visits the jobs that may start, in order, until `visit` returns `false`.
    pub(crate) fn visit(&self, visit: &mut impl FnMut(u32, JobId) -> bool) {
        self.visit_below(AccountId::SITE.0, &|_| false, visit);
    }

    /// Visits jobs as [`Accounts::visit`], without those of accounts that have spent their device-hours.
    pub(crate) fn visit_unspent(&self, now: Millis, visit: &mut impl FnMut(u32, JobId) -> bool) {
        self.visit_below(AccountId::SITE.0, &|account| self.has_spent(now, account), visit);
    }

    /// Visits the jobs of an account and of those below it, without accounts that `skips` names. Returns whether `visit`
    /// always returned `true`.
    fn visit_below(
        &self,
        account: u32,
        skips: &impl Fn(u32) -> bool,
        visit: &mut impl FnMut(u32, JobId) -> bool,
    ) -> bool {
        let of = self.get(account);
        skips(account)
            || of.queue.iter().all(|turn| visit(account, turn.job))
                && of.children.iter().all(|child| self.visit_below(child.account, skips, visit))
    }

    /// Visits the accounts that have waiting jobs, in order.
    pub(crate) fn visit_queues(&self, visit: &mut impl FnMut(u32)) {
        self.visit_queues_below(AccountId::SITE.0, visit);
    }

    fn visit_queues_below(&self, account: u32, visit: &mut impl FnMut(u32)) {
        let of = self.get(account);
        if !of.queue.is_empty() {
            visit(account);
        }
        for child in &of.children {
            self.visit_queues_below(child.account, visit);
        }
    }
}
