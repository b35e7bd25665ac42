//! Accounts: usage, quotas, order.

use super::*;

impl Naive {
    pub(super) fn path(&self, account: usize) -> Vec<usize> {
        let mut path = vec![account];
        while let Some(parent) = self.policy.accounts[path[0]].parent {
            path.insert(0, parent.index());
        }
        path
    }

    pub(super) fn is_leaf(&self, account: usize) -> bool {
        self.policy.accounts.iter().all(|other| other.parent.is_none_or(|parent| parent.index() != account))
    }

    pub(super) fn below(&self, account: usize) -> impl Iterator<Item = &NJob> {
        let parent = |account: &usize| self.policy.accounts[*account].parent.map(|parent| parent.index());
        self.jobs.values().filter(move |job| std::iter::successors(Some(job.account), parent).any(|of| of == account))
    }

    pub(super) fn is_of(&self, quota: &Quota, class: usize) -> bool {
        quota.class.matches(&self.classes[class])
    }

    pub(super) fn charged(&self, account: usize, class: usize) -> u64 {
        let grants = self.below(account).flat_map(|job| &job.grants);
        let charged = grants.filter(|grant| self.is_charged(grant));
        charged.filter(|grant| grant.class == class).map(|grant| grant.charged).sum()
    }

    pub(super) fn held(&self, account: usize, quota: &Quota) -> u64 {
        let grants = self.below(account).flat_map(|job| &job.grants).filter(|grant| self.is_charged(grant));
        grants.filter(|grant| self.is_of(quota, grant.class)).map(|grant| grant.milli).sum()
    }

    pub(super) fn settle(&mut self, account: usize) {
        let passed = self.now.since(self.accounts[account].settled);
        for class in 0..self.classes.len() {
            let (held, weight) = (self.charged(account, class), self.weight(class));
            let of = &mut self.accounts[account];
            if passed > 0 {
                of.used[class] = decayed(of.used[class], passed, self.policy.half_life_ms) + held * passed;
                of.total += u128::from(held * passed);
                of.month += u128::from(held * passed) * weight;
            }
        }
        self.accounts[account].settled = self.now;
    }

    /// Returns the exact usage in thousandths of devices times milliseconds.
    pub(crate) fn usage(&self, account: &str) -> Option<u128> {
        let at = self.policy.accounts.iter().position(|known| known.name == account)?;
        let passed = self.now.since(self.accounts[at].settled);
        let held: u64 = (0..self.classes.len()).map(|class| self.charged(at, class)).sum();
        Some(self.accounts[at].total + u128::from(held * passed))
    }

    pub(super) fn turn(&self, job: &NJob) -> (i64, JobId) {
        (job.submitted.0 as i64 - i64::from(job.request.priority) * self.policy.ageing_ms as i64, job.id)
    }

    pub(super) fn touch(&mut self, leaf: usize) {
        let path = self.path(leaf);
        path.iter().for_each(|&account| self.settle(account));
        let waiting =
            self.jobs.values().filter(|job| job.account == leaf && job.phase == NPhase::Waiting && !job.on_hold);
        let head = waiting.min_by_key(|job| self.turn(job));
        let mut below = head.map(|head| {
            let since = head.submitted.max(self.accounts[leaf].last_start);
            let aged = (self.now.since(since) / self.policy.ageing_ms) as i64;
            (!self.entitled(leaf, &self.first_demand(head)), -(i64::from(head.request.priority) + aged))
        });
        for &account in path.iter().rev() {
            let account_rank = below.map(|(beyond, lowness)| (beyond, lowness, self.share(account)));
            self.accounts[account].account_rank = account_rank;
            if let Some(parent) = self.policy.accounts[account].parent {
                let children =
                    (0..self.accounts.len()).filter(|&child| self.policy.accounts[child].parent == Some(parent));
                let first = children.filter_map(|child| Some((self.accounts[child].account_rank?, child))).min();
                below = first.map(|((beyond, lowness, _), _)| (beyond, lowness));
            }
        }
        let active = self.jobs.values().any(|job| job.account == leaf && job.phase != NPhase::Over);
        if active && self.accounts[leaf].settle_at.is_none() {
            self.accounts[leaf].settle_at = Some(self.now.plus(SETTLE_MS));
        }
    }

    pub(super) fn share(&self, account: usize) -> u64 {
        let shares = (0..self.classes.len()).map(|class| {
            let devices = self.nodes.iter().flat_map(|node| &node.devices);
            let installed = devices.filter(|device| device.class == class && !device.absent).count() as u32;
            let used = self.accounts[account].used[class];
            share(self.charged(account, class), used, installed, self.policy.half_life_ms)
        });
        shares.max().unwrap_or(0) / u64::from(self.policy.accounts[account].weight)
    }

    pub(super) fn entitled(&self, leaf: usize, demand: &BTreeMap<usize, u64>) -> bool {
        self.path(leaf).into_iter().any(|account| {
            let quotas = &self.policy.accounts[account].guaranteed;
            let covered = demand.keys().all(|&class| quotas.iter().any(|quota| self.is_of(quota, class)));
            let within = |quota: &Quota| {
                let taken: u64 = demand.iter().filter(|(class, _)| self.is_of(quota, **class)).map(|(_, of)| of).sum();
                taken == 0 || self.held(account, quota) + taken <= u64::from(quota.devices) * 1_000
            };
            !demand.is_empty() && covered && quotas.iter().all(within)
        })
    }

    /// Whether the holdings of a job's accounts in the classes `mine` are within a guarantee.
    pub(super) fn is_within_guarantee(&self, job: &NJob, mine: &BTreeSet<usize>) -> bool {
        self.path(job.account).into_iter().any(|account| {
            let quotas = &self.policy.accounts[account].guaranteed;
            let covered = mine.iter().all(|&class| quotas.iter().any(|quota| self.is_of(quota, class)));
            let within = |quota: &Quota| {
                !mine.iter().any(|&class| self.is_of(quota, class))
                    || self.held(account, quota) <= u64::from(quota.devices) * 1_000
            };
            covered && quotas.iter().all(within)
        })
    }

    pub(super) fn beyond_most(&self, leaf: usize, demand: &BTreeMap<usize, u64>) -> bool {
        self.path(leaf).into_iter().any(|account| {
            self.policy.accounts[account].most.iter().any(|quota| {
                let taken: u64 = demand.iter().filter(|(class, _)| self.is_of(quota, **class)).map(|(_, of)| of).sum();
                taken > 0 && self.held(account, quota) + taken > u64::from(quota.devices) * 1_000
            })
        })
    }

    pub(super) fn too_many_run(&self, leaf: usize) -> bool {
        self.path(leaf).into_iter().any(|account| {
            let running = self.below(account).filter(|job| job.phase == NPhase::Running).count();
            self.policy.accounts[account].running_max.is_some_and(|max| running >= max as usize)
        })
    }

    /// Returns the billing weight of a class in thousandths.
    fn weight(&self, class: usize) -> u128 {
        self.policy.billing_of(&self.classes[class]).into()
    }

    /// Returns the first of an account and those above it that has spent its device-hours of the month.
    pub(super) fn spent(&self, leaf: usize) -> Option<usize> {
        self.path(leaf).into_iter().find(|&account| {
            let classes = 0..self.classes.len();
            let rate: u128 = classes.map(|class| u128::from(self.charged(account, class)) * self.weight(class)).sum();
            let passed = self.now.since(self.accounts[account].settled);
            let used = self.accounts[account].month + rate * u128::from(passed);
            let max = self.policy.accounts[account].hours_a_month;
            max.is_some_and(|hours| used >= u128::from(hours) * 1_000 * 1_000 * 3_600_000)
        })
    }

    /// Compares the order of two waiting jobs.
    pub(crate) fn order(&self, one: &NJob, other: &NJob) -> Ordering {
        match (one.front, other.front) {
            (Some(one), Some(other)) => return one.cmp(&other),
            (Some(_), None) => return Ordering::Less,
            (None, Some(_)) => return Ordering::Greater,
            (None, None) => {}
        }
        self.order_of_accounts(one.account, other.account).then_with(|| self.turn(one).cmp(&self.turn(other)))
    }

    pub(super) fn order_of_accounts(&self, one: usize, other: usize) -> Ordering {
        for (mine, theirs) in self.path(one).into_iter().zip(self.path(other)) {
            if mine != theirs {
                return (self.accounts[mine].account_rank, mine).cmp(&(self.accounts[theirs].account_rank, theirs));
            }
        }
        Ordering::Equal
    }

    pub(super) fn use_up(&mut self, account: &str, device: DeviceId, milli_ms: u64) {
        let Some(node) = self.nodes.iter().position(|node| node.id == device.node) else { return };
        let Some(found) = self.nodes[node].devices.iter().find(|known| known.ordinal == device.ordinal) else { return };
        let (class, at) = (found.class, self.policy.account(account).map_or(0, |at| at.index()));
        for above in self.path(at) {
            self.settle(above);
            self.accounts[above].used[class] += milli_ms;
            self.accounts[above].total += u128::from(milli_ms);
            self.accounts[above].month += u128::from(milli_ms) * self.weight(class);
        }
        if self.is_leaf(at) {
            self.touch(at);
        }
    }

    pub(super) fn apply_policy(&mut self, policy: Policy, effects: &mut Vec<Effect>) {
        (0..self.accounts.len()).for_each(|account| self.settle(account));
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.lose(id, SlipCause::Policy);
        }
        self.head = None;
        let old = std::mem::replace(&mut self.policy, policy);
        let old_accounts = std::mem::take(&mut self.accounts);
        for account in &self.policy.accounts {
            let before = old.accounts.iter().position(|known| known.name == account.name);
            let mut new = before.map_or_else(NAccount::default, |before| old_accounts[before].clone());
            (new.settle_at, new.account_rank) = (None, None);
            new.used.resize(self.classes.len(), 0);
            if before.is_none() {
                new.settled = Millis(0);
            }
            self.accounts.push(new);
        }
        let mut gone = Vec::new();
        for job in self.jobs.values_mut() {
            let name = &old.accounts[job.account].name;
            let at = self.policy.accounts.iter().position(|known| known.name == *name);
            let leaf = at.filter(|&at| {
                self.policy.accounts.iter().all(|other| other.parent.is_none_or(|parent| parent.index() != at))
            });
            if leaf.is_none() && job.phase == NPhase::Waiting {
                gone.push(job.id);
            }
            job.account = leaf.unwrap_or(0);
        }
        for account in &mut self.accounts {
            account.settled = self.now;
        }
        (0..self.accounts.len())
            .filter(|&account| self.is_leaf(account))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|account| self.touch(account));
        for id in gone {
            self.finish(id, EndCause::NoAccount, effects);
        }
    }
}
