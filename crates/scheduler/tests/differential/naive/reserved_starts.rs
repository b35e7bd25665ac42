//! Reserved starts.

use super::*;

impl Naive {
    pub(super) fn lose(&mut self, id: JobId, cause: SlipCause) {
        let job = self.jobs.get_mut(&id).unwrap();
        if let Some(reserved_start) = job.reserved_start.take() {
            let first = job.slipped.map_or(reserved_start.starts, |(before, _)| before.min(reserved_start.starts));
            job.slipped = Some((first, cause));
        }
    }

    pub(super) fn check_reserved_starts(&mut self) {
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let Some(reserved_start) = self.jobs[&id].reserved_start.clone() else { continue };
            let lease = self.lease(&self.jobs[&id]);
            let cause = reserved_start.places.iter().find_map(|&at| {
                let device = self.device_id(at);
                let deadline = self.deadline(device);
                let set_aside = !self.is_sound(at)
                    || deadline != Millis::NEVER && reserved_start.ends > deadline
                    || self.reservations.values().any(|reservation| {
                        Self::is_reserved(reservation, device)
                            && !Self::leaves(reservation, reserved_start.starts, lease)
                    });
                let held = self
                    .holders_of(at)
                    .any(|(job, _)| job.planned_end > reserved_start.starts.plus(RELEASE_EXPECTED_MS));
                match (set_aside, held) {
                    (true, _) => Some(SlipCause::Devices),
                    (false, true) => Some(SlipCause::Leases),
                    (false, false) => None,
                }
            });
            if let Some(cause) = cause {
                self.lose(id, cause);
            }
        }
    }

    pub(super) fn reserved_start_is_due(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let reserved_start = self.jobs[&id].reserved_start.clone().unwrap();
        let holders: BTreeSet<JobId> =
            reserved_start.places.iter().flat_map(|&at| self.holders_of(at).map(|(job, _)| job.id)).collect();
        let is_held = !holders.is_empty();
        let later = self.now.plus(RELEASE_EXPECTED_MS);
        let is_kept =
            if is_held { self.now < reserved_start.planned.plus(RELEASE_MS) } else { reserved_start.rank == 1 };
        if is_kept {
            let job = self.jobs.get_mut(&id).unwrap();
            let ends = job.limit.map_or(Millis::NEVER, |limit| later.plus(limit));
            job.reserved_start = Some(NReservedStart { starts: later, ends, ..reserved_start });
            job.announced = Some(later);
            effects.push(Effect::Reserved { job: id, starts: later, slipped: Some(SlipCause::Leases) });
            return;
        }
        for other in holders {
            let other = self.jobs.get_mut(&other).unwrap();
            if other.planned_end <= self.now {
                other.planned_end = later;
            }
        }
        self.lose(id, SlipCause::Leases);
    }

    pub(super) fn reserve_starts(&mut self, effects: &mut Vec<Effect>) -> bool {
        let depth = self.policy.backfill_depth;
        if depth == 0 || self.waiting_in_order().is_empty() {
            return false;
        }
        let mut changed = self.reserve_first(effects);
        for id in self.first_jobs() {
            let with_reserved_start = self.jobs.values().filter(|job| job.reserved_start.is_some()).count();
            if with_reserved_start >= depth || self.jobs[&id].reserved_start.is_some() {
                continue;
            }
            let Some((starts, places, choice)) = self.plan(&self.jobs[&id], 0, &[]) else { continue };
            self.plan_reserved_start(id, starts, places, choice, 0, effects);
            changed = true;
        }
        changed
    }

    /// Returns the first jobs in order whose accounts allow a start.
    pub(super) fn first_jobs(&self) -> Vec<JobId> {
        let depth = self.policy.backfill_depth;
        let mut first = Vec::new();
        let has_hours = |id: &JobId| self.spent(self.jobs[id].account).is_none();
        for id in self.waiting_in_order().into_iter().filter(has_hours).take(2 * depth) {
            let job = &self.jobs[&id];
            if !self.is_stopped(job) && !self.is_stopped_by_guarantees(job) && first.len() < depth {
                first.push(id);
            }
        }
        first
    }

    fn plan_reserved_start(
        &mut self,
        id: JobId,
        starts: Millis,
        places: Vec<At>,
        choice: Vec<Want>,
        rank: u8,
        effects: &mut Vec<Effect>,
    ) {
        let job = self.jobs.get_mut(&id).unwrap();
        let ends = job.limit.map_or(Millis::NEVER, |limit| starts.plus(limit));
        let slipped = job.slipped.take().filter(|&(before, _)| before < starts).map(|(_, cause)| cause);
        job.reserved_start = Some(NReservedStart { starts, ends, places, choice, rank, planned: starts });
        if slipped.is_some() || job.announced != Some(starts) {
            effects.push(Effect::Reserved { job: id, starts, slipped });
        }
        job.announced = Some(starts);
    }

    pub(super) fn is_stopped(&self, job: &NJob) -> bool {
        self.too_many_run(job.account)
            || self.spent(job.account).is_some()
            || self.beyond_most(job.account, &self.first_demand(job))
    }

    /// Plans the reserved starts to which others yield. Returns whether anything has changed.
    fn reserve_first(&mut self, effects: &mut Vec<Effect>) -> bool {
        let mut changed = false;
        for id in self.jobs.keys().copied().collect::<Vec<_>>() {
            let job = &self.jobs[&id];
            if job.reserved_start.as_ref().is_some_and(|reserved_start| reserved_start.rank == 2)
                && !self.entitled(job.account, &self.first_demand(job))
            {
                self.set_rank(id, u8::from(self.head == Some(id)));
                self.leave_first(Some(id));
                changed = true;
            }
        }
        changed |= self.reserve_entitled(effects);
        let mut refused = BTreeSet::new();
        loop {
            let (before, first) = (self.head, self.first_of_all(&refused));
            let is_first = |id: &JobId| {
                self.jobs[id].reserved_start.as_ref().is_some_and(|reserved_start| reserved_start.rank == 1)
            };
            let demoted = before.filter(|before| first != Some(*before) && is_first(before));
            if let Some(before) = demoted {
                self.set_rank(before, 0);
            }
            self.head = first;
            let Some(id) = first else { return self.leave_first(demoted) || changed };
            let ends = self.jobs.values().map(|job| job.planned_end).filter(|&end| end != Millis::NEVER);
            let horizon = ends.max().unwrap_or(Millis(0)).max(self.now.plus(RELEASE_EXPECTED_MS));
            let present = self.jobs[&id].reserved_start.as_ref();
            let present = present.map(|reserved_start| (reserved_start.rank, reserved_start.starts));
            match present {
                Some((1 | 2, _)) => return self.leave_first(demoted) || changed,
                _ if self.plan_sooner(id, present.map_or(Millis::NEVER, |(_, starts)| starts), effects) => {
                    self.leave_first(demoted);
                    return true;
                }
                Some((_, starts)) if starts <= horizon => {
                    self.set_rank(id, 1);
                    self.leave_first(demoted);
                    return true;
                }
                _ if self.plan_before(id, 1, horizon, effects) => {
                    self.leave_first(demoted);
                    return true;
                }
                _ => {
                    refused.insert(id);
                    self.head = before;
                }
            }
            if let Some(before) = demoted {
                self.set_rank(before, 1);
            }
        }
    }

    /// Drops the reserved start of a job that now yields, if there are too many. Returns whether there is such a job.
    fn leave_first(&mut self, demoted: Option<JobId>) -> bool {
        let with_reserved_start = self.jobs.values().filter(|job| job.reserved_start.is_some()).count();
        if let Some(id) = demoted
            && with_reserved_start > self.policy.backfill_depth
            && self.jobs[&id].reserved_start.as_ref().is_some_and(|reserved_start| reserved_start.rank == 0)
        {
            self.lose(id, SlipCause::Order);
        }
        demoted.is_some()
    }

    fn set_rank(&mut self, id: JobId, rank: u8) {
        self.jobs.get_mut(&id).unwrap().reserved_start.as_mut().unwrap().rank = rank;
    }

    /// Returns the first job of a leaf.
    pub(super) fn leaf_first(&self, leaf: usize) -> Option<&NJob> {
        let waiting =
            self.jobs.values().filter(|job| job.account == leaf && job.phase == NPhase::Waiting && !job.on_hold);
        waiting.min_by_key(|job| self.turn(job))
    }

    fn reserve_entitled(&mut self, effects: &mut Vec<Effect>) -> bool {
        let firsts = (0..self.accounts.len()).filter(|&leaf| self.is_leaf(leaf));
        let firsts =
            firsts.filter(|&leaf| self.accounts[leaf].account_rank.is_some_and(|account_rank| !account_rank.0));
        let firsts = firsts.filter(|&leaf| self.spent(leaf).is_none());
        let mut firsts: Vec<&NJob> = firsts.filter_map(|leaf| self.leaf_first(leaf)).collect();
        firsts.sort_by(|one, other| self.order_of_accounts(one.account, other.account));
        let firsts: Vec<JobId> = firsts.into_iter().map(|job| job.id).take(self.policy.backfill_depth).collect();
        let latest = self.policy.quantum() + self.policy.grace_ms;
        let latest = self.now.plus(latest.max(RELEASE_EXPECTED_MS));
        let mut changed = false;
        for id in firsts {
            let job = &self.jobs[&id];
            let is_done = job.reserved_start.as_ref().is_some_and(|reserved_start| reserved_start.rank == 2);
            if is_done || self.is_stopped(job) || !self.first_entitled(job) {
                continue;
            }
            if job.reserved_start.as_ref().is_some_and(|reserved_start| reserved_start.starts <= latest) {
                self.set_rank(id, 2);
                changed = true;
            } else {
                changed |= self.plan_before(id, 2, latest, effects);
            }
        }
        changed
    }

    /// Whether a job is within a guarantee, with reserved starts to which others yield counted as held.
    fn first_entitled(&self, job: &NJob) -> bool {
        let demand = self.first_demand(job);
        self.path(job.account).into_iter().any(|account| {
            let quotas = &self.policy.accounts[account].guaranteed;
            let covered = demand.keys().all(|&class| quotas.iter().any(|quota| self.is_of(quota, class)));
            let within = |quota: &Quota| {
                let of = |demand: &BTreeMap<usize, u64>| -> u64 {
                    demand.iter().filter(|(class, _)| self.is_of(quota, **class)).map(|(_, milli)| milli).sum()
                };
                let claimed = self.below(account).filter(|other| other.id != job.id);
                let claimed = claimed.filter_map(|other| Some((other, other.reserved_start.as_ref()?)));
                let claimed = claimed.filter(|(_, reserved_start)| reserved_start.rank > 0);
                let claimed: u64 =
                    claimed.map(|(other, reserved_start)| of(&self.demand(other, &reserved_start.choice))).sum();
                of(&demand) == 0
                    || self.held(account, quota) + claimed + of(&demand) <= u64::from(quota.devices) * 1_000
            };
            !demand.is_empty() && covered && quotas.iter().all(within)
        })
    }

    fn first_of_all(&self, refused: &BTreeSet<JobId>) -> Option<JobId> {
        let suits = |job: &NJob| !refused.contains(&job.id) && !self.is_stopped(job);
        let waiting: Vec<&NJob> =
            self.jobs.values().filter(|job| job.phase == NPhase::Waiting && !job.on_hold).collect();
        let front = waiting.iter().filter(|job| job.front.is_some() && suits(job)).min_by_key(|job| job.front);
        if let Some(front) = front {
            return Some(front.id);
        }
        let is_first = |job: &NJob| self.leaf_first(job.account).is_some_and(|first| first.id == job.id);
        let account_rank = |job: &NJob| self.accounts[job.account].account_rank.unwrap();
        let present = waiting.iter().find(|job| Some(job.id) == self.head && is_first(job) && suits(job));
        let mut firsts: Vec<&NJob> =
            waiting.iter().copied().filter(|job| is_first(job) && suits(job) && account_rank(job).0).collect();
        firsts.sort_by(|one, other| {
            account_rank(one).1.cmp(&account_rank(other).1).then(self.order_of_accounts(one.account, other.account))
        });
        let above = |job: &&NJob| present.is_none_or(|present| account_rank(job).1 + 2 <= account_rank(present).1);
        firsts.first().filter(|job| above(job)).or(present).map(|job| job.id)
    }

    /// Plans a job's start and displaces as few starts of lower ranks as necessary for a start until `latest`.
    fn plan_before(&mut self, id: JobId, rank: u8, latest: Millis, effects: &mut Vec<Effect>) -> bool {
        let job = &self.jobs[&id];
        if rank == 1 && !self.may_fit_beside_guarantees(job, &self.first_demand(job)) {
            return false;
        }
        let mut best: Option<Planned> = None;
        let mut last = 0;
        for ignored in 0..=rank {
            last = ignored;
            // The job's own reserved start is always ignored.
            let found = self.plan(&self.jobs[&id], ignored, &[]);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.0 < best.0)
            {
                best = Some(found);
            }
            if best.as_ref().is_some_and(|best| best.0 <= latest) {
                break;
            }
        }
        if rank == 2 && best.as_ref().is_none_or(|best| best.0 > latest) {
            let beyond_guarantees = self.jobs_beyond_guarantees(&self.jobs[&id]);
            let found = self.plan(&self.jobs[&id], 2, &beyond_guarantees);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.0 < best.0)
            {
                best = Some(found);
            }
            let places = best.as_ref().map_or(Vec::new(), |best| best.1.clone());
            for other in beyond_guarantees {
                let other = self.jobs.get_mut(&other).unwrap();
                let mut held = other.grants.iter().filter(|grant| grant.hold == NHold::Held);
                if held.any(|grant| places.contains(&grant.at)) {
                    other.planned_end = other.ends;
                }
            }
        }
        let Some(mut best) = best else { return false };
        if rank == 1 {
            match self.moved_beside_guarantees(&self.jobs[&id], best, last) {
                Some(moved) => best = moved,
                None => return false,
            }
        }
        self.plan_instead_of_others(id, best, rank, effects);
        true
    }

    /// Returns a plan of the first job for the time at which jobs with long limits leave room besides all guarantees.
    fn moved_beside_guarantees(&self, job: &NJob, plan: Planned, ignored: u8) -> Option<Planned> {
        let (mut starts, mut places, choice) = plan;
        starts = starts.max(self.beside_guarantees(job, &choice)?);
        if !places.iter().all(|&at| self.is_left(job, at, starts)) {
            (starts, places) = self.plan_choice(job, &choice, starts, ignored, &[])?;
        }
        Some((starts, places, choice))
    }

    /// Plans the first job's start as if the jobs that yield to it had no reserved starts. Returns whether it gets one before `present`.
    fn plan_sooner(&mut self, id: JobId, present: Millis, effects: &mut Vec<Effect>) -> bool {
        let aside = self.yielding_to(id);
        let job = &self.jobs[&id];
        if aside.is_empty() || !self.may_fit_beside_guarantees(job, &self.first_demand(job)) {
            return false;
        }
        let mut without = self.clone();
        for other in &aside {
            without.jobs.get_mut(other).unwrap().reserved_start = None;
        }
        let job = &without.jobs[&id];
        let plan = without.plan(job, 0, &[]).and_then(|plan| without.moved_beside_guarantees(job, plan, 0));
        let Some(plan) = plan.filter(|plan| plan.0 < present) else { return false };
        self.plan_instead_of_others(id, plan, 1, effects);
        true
    }

    /// Returns jobs whose reserved starts yield to a job on its classes, those with the fewest devices.
    fn yielding_to(&self, id: JobId) -> Vec<JobId> {
        let classes =
            |job: &NJob| -> BTreeSet<usize> { self.choices(job).iter().flatten().map(|want| want.class).collect() };
        let own = classes(&self.jobs[&id]);
        let others = self.jobs.values().filter(|job| job.id != id && !classes(job).is_disjoint(&own));
        let yielding = others.filter_map(|job| Some((job.id, job.reserved_start.as_ref().filter(|of| of.rank == 0)?)));
        let mut sizes: Vec<(usize, JobId)> = yielding.map(|(id, of)| (of.places.len(), id)).collect();
        sizes.sort_unstable();
        let (mut few, mut devices) = (Vec::new(), 0);
        for (of_job, other) in sizes {
            devices += of_job;
            if devices > DISPLACED_DEVICES_MAX {
                break;
            }
            few.push(other);
        }
        few
    }

    /// Sets a job's reserved start. Those of lower ranks that overlap it are lost.
    fn plan_instead_of_others(&mut self, id: JobId, plan: Planned, rank: u8, effects: &mut Vec<Effect>) {
        let (starts, places, choice) = plan;
        self.lose(id, SlipCause::Order);
        let ends = self.jobs[&id].limit.map_or(Millis::NEVER, |limit| starts.plus(limit));
        for other in self.jobs.keys().copied().collect::<Vec<_>>() {
            let Some(reserved_start) = &self.jobs[&other].reserved_start else { continue };
            let meets = reserved_start.places.iter().any(|at| places.contains(at));
            if reserved_start.rank < rank && meets && reserved_start.starts < ends && starts < reserved_start.ends {
                self.lose(other, SlipCause::Order);
            }
        }
        self.plan_reserved_start(id, starts, places, choice, rank, effects);
    }

    /// Returns running jobs without a limit that exceed their guarantees and hold devices of a job's classes.
    fn jobs_beyond_guarantees(&self, job: &NJob) -> Vec<JobId> {
        let wanted: BTreeSet<usize> = self.choices(job).iter().flatten().map(|want| want.class).collect();
        let running = self.jobs.values().filter(|job| job.phase == NPhase::Running && job.planned_end == Millis::NEVER);
        let beyond_guarantees = running.filter(|other| {
            let held = other.grants.iter().filter(|grant| grant.hold == NHold::Held);
            let held: BTreeSet<usize> = held.map(|grant| grant.class).collect();
            held.iter().any(|class| wanted.contains(class)) && !self.is_within_guarantee(other, &held)
        });
        beyond_guarantees.map(|job| job.id).collect()
    }

    /// Returns when jobs with long limits leave room for the first job besides all guarantees.
    fn beside_guarantees(&self, job: &NJob, choice: &[Want]) -> Option<Millis> {
        let demand = self.demand(job, choice);
        if !self.is_long(job) || self.entitled(job.account, &demand) {
            return Some(Millis(0));
        }
        if !self.may_fit_beside_guarantees(job, &demand) {
            return None;
        }
        let mut ends: Vec<(Millis, JobId)> = self
            .jobs
            .values()
            .filter(|job| self.is_long(job) && job.phase != NPhase::Waiting && job.planned_end != Millis::NEVER)
            .map(|job| (job.planned_end, job.id))
            .collect();
        ends.sort_unstable();
        for count in 0..=ends.len() {
            let gone: Vec<JobId> = ends[..count].iter().map(|(_, job)| *job).collect();
            if self.fits_beside_guarantees(&[(job.account, demand.clone())], Some(&gone)) {
                return Some(ends[..count].last().map_or(Millis(0), |(time, _)| *time));
            }
        }
        None
    }

    /// Returns the holdings of ended jobs in a set of classes, of all jobs or of those below an account.
    fn charged_of(&self, gone: &[JobId], account: Option<usize>, set: &[usize]) -> u64 {
        let there = self.jobs.values().filter(|job| {
            gone.contains(&job.id) && account.is_none_or(|account| self.path(job.account).contains(&account))
        });
        let grants = there.flat_map(|job| &job.grants);
        let grants = grants.filter(|grant| self.is_charged(grant));
        grants.filter(|grant| set.contains(&grant.class)).map(|grant| grant.milli).sum()
    }

    fn may_fit_beside_guarantees(&self, job: &NJob, demand: &BTreeMap<usize, u64>) -> bool {
        let takes = [(job.account, demand.clone())];
        !self.is_long(job) || self.entitled(job.account, demand) || self.fits_beside_guarantees(&takes, None)
    }

    /// Whether demands of accounts fit besides all guarantees once some jobs with long limits have ended; `None` stands
    /// for all of them. Only sets of which the first demand takes some count.
    fn fits_beside_guarantees(&self, takes: &[(usize, BTreeMap<usize, u64>)], gone: Option<&[JobId]>) -> bool {
        let of = |demand: &BTreeMap<usize, u64>, set: &[usize]| -> u64 {
            set.iter().filter_map(|class| demand.get(class)).sum()
        };
        self.guaranteed_sets().into_iter().all(|set| {
            let taken: u64 = takes.iter().map(|(_, demand)| of(demand, &set)).sum();
            let (sound, long) = self.in_use(&set);
            let left = |gone| (long * 1_000).saturating_sub(self.charged_of(gone, None, &set));
            let mut needed = taken + gone.map_or(0, left);
            for (at, bound) in self.bounds_within(&set) {
                let own = takes.iter().filter(|(leaf, _)| self.path(*leaf).contains(&at));
                let more: u64 = own.map(|(_, demand)| of(demand, &self.set(bound))).sum();
                let left = gone.map_or(0, |gone| {
                    self.long_held(at, bound).saturating_sub(self.charged_of(gone, Some(at), &self.set(bound)))
                });
                needed += (u64::from(bound.devices) * 1_000).saturating_sub(left + more);
            }
            of(&takes[0].1, &set) == 0 || needed <= sound * 1_000
        })
    }

    /// Whether all guarantees can still be met within a quantum if a job with a long limit takes these devices, now and
    /// when the first job starts, if the job lasts until then and the first job has a long limit.
    pub(super) fn leaves_guarantees(&self, job: &NJob, taken: &BTreeMap<usize, u64>) -> bool {
        let own = (job.account, taken.clone());
        if !self.fits_beside_guarantees(std::slice::from_ref(&own), Some(&[])) {
            return false;
        }
        let head = self.head.filter(|&head| head != job.id).map(|head| &self.jobs[&head]);
        let Some(head) = head.filter(|head| self.is_long(head)) else { return true };
        let Some(start) = &head.reserved_start else { return true };
        if job.limit.is_some_and(|limit| self.now.plus(limit) <= start.planned) {
            return true;
        }
        let long = self.jobs.values().filter(|other| self.is_long(other) && other.phase != NPhase::Waiting);
        let gone: Vec<JobId> = long.filter(|other| other.planned_end <= start.planned).map(|other| other.id).collect();
        self.fits_beside_guarantees(&[own, (head.account, self.demand(head, &start.choice))], Some(&gone))
    }

    pub(super) fn is_stopped_by_guarantees(&self, job: &NJob) -> bool {
        let demand = self.first_demand(job);
        let whole = self.choices(job).first().is_some_and(|of| of.iter().all(|want| want.take == Take::Exclusive));
        whole && self.is_long(job) && !self.entitled(job.account, &demand) && !self.leaves_guarantees(job, &demand)
    }

    pub(super) fn is_long(&self, job: &NJob) -> bool {
        job.limit.is_some_and(|limit| limit > self.policy.quantum())
    }

    fn guaranteed_sets(&self) -> BTreeSet<Vec<usize>> {
        self.policy.accounts.iter().flat_map(|account| &account.guaranteed).map(|quota| self.set(quota)).collect()
    }

    /// Returns guarantees without a guaranteed ancestor that cover only classes of a set.
    fn bounds_within(&self, set: &[usize]) -> Vec<(usize, &Quota)> {
        let accounts = self.policy.accounts.iter().enumerate().filter(|(at, _)| {
            self.path(*at).iter().all(|above| above == at || self.policy.accounts[*above].guaranteed.is_empty())
        });
        let bounds = accounts.flat_map(|(at, account)| account.guaranteed.iter().map(move |quota| (at, quota)));
        bounds.filter(|(_, quota)| self.set(quota).iter().all(|class| set.contains(class))).collect()
    }

    /// Returns the number of devices that work and are not drained, and of those that jobs with long limits hold.
    fn in_use(&self, set: &[usize]) -> (u64, u64) {
        let places = self.places().into_iter().filter(|at| {
            set.contains(&self.nodes[at.0].devices[at.1].class)
                && self.is_sound(*at)
                && self.deadline(self.device_id(*at)) == Millis::NEVER
        });
        let places: Vec<At> = places.collect();
        let long = places.iter().filter(|&&at| self.holders_of(at).any(|(job, _)| self.is_long(job))).count();
        (places.len() as u64, long as u64)
    }

    fn long_held(&self, account: usize, quota: &Quota) -> u64 {
        let grants = self.below(account).filter(|job| self.is_long(job)).flat_map(|job| &job.grants);
        let charged = grants.filter(|grant| self.is_charged(grant));
        charged.filter(|grant| self.is_of(quota, grant.class)).map(|grant| grant.milli).sum()
    }

    /// Returns the time from which on a device is free of all known jobs and claims.
    fn available(&self, at: At, but: JobId, ignored: u8, beyond_guarantees: &[JobId]) -> Millis {
        let device = self.device_id(at);
        if !self.is_sound(at) || self.deadline(device) != Millis::NEVER {
            return Millis::NEVER;
        }
        let end = |job: &NJob| if beyond_guarantees.contains(&job.id) { job.ends } else { job.planned_end };
        let holders = self.holders_of(at).map(|(job, _)| end(job));
        let others = self.jobs.values().filter(|job| job.id != but);
        let reserved_starts = others
            .filter_map(|job| job.reserved_start.as_ref())
            .filter(|reserved_start| reserved_start.rank >= ignored);
        let claims = reserved_starts
            .filter(|reserved_start| reserved_start.places.contains(&at))
            .map(|reserved_start| reserved_start.ends);
        holders.chain(claims).max().unwrap_or(Millis(0))
    }

    /// Returns the time from which a node has cores and host memory, by the ends of jobs and of reserved starts.
    fn beside_from(
        &self,
        node: usize,
        needed: (u64, u64),
        but: JobId,
        ignored: u8,
        beyond_guarantees: &[JobId],
    ) -> Option<Millis> {
        let there = &self.nodes[node];
        if needed == (0, 0) {
            return Some(Millis(0));
        }
        let mut taken: Vec<(Millis, (u64, u64))> = Vec::new();
        for job in self.jobs.values() {
            let ends = if beyond_guarantees.contains(&job.id) { job.ends } else { job.planned_end };
            let held = job.grants.iter().filter(|grant| grant.at.0 == node && grant.hold.is_hold());
            taken.extend(held.map(|grant| (ends, self.beside_of(grant))));
            let reserved_start =
                job.reserved_start.as_ref().filter(|reserved_start| job.id != but && reserved_start.rank >= ignored);
            for (reserved_start, at) in reserved_start.iter().flat_map(|of| of.places.iter().map(move |at| (of, at))) {
                let class = self.nodes[at.0].devices[at.1].class;
                let want = reserved_start.choice.iter().find(|want| want.class == class).filter(|_| at.0 == node);
                taken.extend(want.map(|want| (reserved_start.ends, want.beside())));
            }
        }
        let left_at = |time: Millis| {
            let later = taken.iter().filter(|(ends, _)| *ends > time);
            let sum = later.fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1));
            (there.cores.saturating_sub(sum.0), there.memory.saturating_sub(sum.1))
        };
        let mut times: Vec<Millis> = taken.iter().map(|(ends, _)| *ends).chain([Millis(0)]).collect();
        times.sort_unstable();
        let has_enough = |time: &Millis| needed.0 <= left_at(*time).0 && needed.1 <= left_at(*time).1;
        times.into_iter().find(has_enough).filter(|time| *time != Millis::NEVER)
    }

    pub(super) fn lease(&self, job: &NJob) -> u64 {
        job.limit.unwrap_or(self.policy.quantum())
    }

    /// Whether a job that starts at a time does not overlap a reservation.
    fn leaves(reservation: &Reservation, starts: Millis, lease: u64) -> bool {
        starts.plus(lease) <= reservation.starts || reservation.ends <= starts
    }

    /// Whether a job that starts at a time overlaps no reservation of a device.
    fn is_left(&self, job: &NJob, at: At, starts: Millis) -> bool {
        let mut there = self.reservations.values().filter(|of| Self::is_reserved(of, self.device_id(at)));
        there.all(|reservation| Self::leaves(reservation, starts, self.lease(job)))
    }

    /// Returns the earliest start with one choice, not before `from`. It tries all times at which a reservation begins
    /// or ceases to block a start, and those at which devices become available.
    fn plan_choice(
        &self,
        job: &NJob,
        choice: &[Want],
        from: Millis,
        ignored: u8,
        beyond_guarantees: &[JobId],
    ) -> Option<(Millis, Vec<At>)> {
        let times: BTreeMap<At, Millis> = self
            .places()
            .into_iter()
            .filter(|at| self.is_allowed(job, at.0))
            .map(|at| (at, self.available(at, job.id, ignored, beyond_guarantees)))
            .filter(|(_, time)| *time != Millis::NEVER)
            .collect();
        let mut tried: BTreeSet<Millis> = times.values().copied().chain([from]).collect();
        for reservation in self.reservations.values() {
            tried.insert(reservation.ends);
            tried.insert(Millis((reservation.starts.0 + 1).saturating_sub(self.lease(job))));
        }
        let ends =
            self.jobs.values().map(|of| if beyond_guarantees.contains(&of.id) { of.ends } else { of.planned_end });
        let with_reserved_start =
            self.jobs.values().filter_map(|of| of.reserved_start.as_ref()).map(|reserved_start| reserved_start.ends);
        tried.extend(ends.chain(with_reserved_start).filter(|time| *time != Millis::NEVER));
        tried.insert(self.now.plus(1));
        let beside_from = |node, needed| self.beside_from(node, needed, job.id, ignored, beyond_guarantees);
        for time in tried.into_iter().filter(|&time| time >= from) {
            // A start that is possible now is planned a little later.
            let starts = if time <= self.now { self.now.plus(RELEASE_EXPECTED_MS) } else { time };
            let left = times.iter().filter(|(at, _)| self.is_left(job, **at, starts));
            let left: BTreeMap<At, Millis> = left.map(|(at, time)| (*at, *time)).collect();
            let found = crate::naive_place::plan(&self.nodes, &left, choice, &job.request, job.origin, &beside_from);
            if let Some((available, places)) = found.filter(|found| found.0 <= time) {
                let starts = available.max(from);
                return Some((if time <= self.now { starts } else { time }, places));
            }
        }
        None
    }

    /// Returns the earliest start of a job besides the reserved starts of others, ignoring ranks below `ignored`. Jobs
    /// in `beyond_guarantees` end with their quantum.
    fn plan(&self, job: &NJob, ignored: u8, beyond_guarantees: &[JobId]) -> Option<Planned> {
        if job.request.reservation.is_some() {
            return None;
        }
        let mut best: Option<Planned> = None;
        for choice in self.choices(job) {
            let found = self.plan_choice(job, &choice, Millis(0), ignored, beyond_guarantees);
            if let Some((starts, places)) = found
                && best.as_ref().is_none_or(|best| starts < best.0)
            {
                best = Some((starts, places, choice));
            }
        }
        if let Some(best) = &mut best
            && best.0 <= self.now
        {
            best.0 = self.now.plus(RELEASE_EXPECTED_MS);
        }
        best
    }
}
