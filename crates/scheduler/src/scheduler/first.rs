//! Reserved starts to which other jobs yield: those of jobs within a guarantee, and that of the first job beyond all
//! guarantees.
//!
//! They bound the longest wait of a job (`docs/site/shared-cluster.md`). The first job beyond all guarantees is the
//! first job of the account with the highest level. It stays first until it starts, unless an administrator puts
//! another job first, or a job is two levels higher.

use super::Scheduler;
use crate::demand::PartDemand;
use crate::effect::{Effect, SlipCause};
use crate::ids::{ClassId, JobId};
use crate::job::{Job, ReservedStart};
use crate::phase::Rank;
use crate::phase::{Hold, Phase};
use crate::plan::Plan;
use crate::policy::RELEASE_MS;
use crate::pool::Spot;
use crate::shapes::classes_of;
use crate::time::{Millis, RELEASE_EXPECTED_MS};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Levels by which a job must exceed the first one to replace it. One level is not enough, because ageing alone moves
/// two jobs by one level relative to each other.
pub(super) const LEVELS_ABOVE: i64 = 2;

/// Most devices of reserved starts that the start of the first job is planned without, so that a plan takes little time.
pub const DISPLACED_DEVICES_MAX: usize = 256;

/// Most accounts that are visited for the first job; accounts whose own limits stop it are skipped.
const ACCOUNTS_MAX: usize = 256;

impl Scheduler {
    /// Plans reserved starts of the jobs to which others yield.
    pub(super) fn reserve_first(&mut self, effects: &mut Vec<Effect>) {
        for id in self.entitled.clone() {
            let Some(job) = self.jobs.get(&id) else { continue };
            if !self.accounts.is_entitled(job.account, &self.shapes.get(job.shape).first_demand) {
                let classes = self.shapes.get(job.shape).classes;
                self.set_rank(id, if self.head == Some(id) { Rank::First } else { Rank::Later });
                self.pool.note_sooner(classes);
                self.leave_first(Some(id));
            }
        }
        self.reserve_entitled(effects);
        self.reserve_head(effects);
    }

    fn reserve_entitled(&mut self, effects: &mut Vec<Effect>) {
        let (depth, mut leaves) = (self.policy.backfill_depth, Vec::new());
        self.accounts.visit_entitled(self.now, &mut |leaf| {
            leaves.push(leaf);
            leaves.len() < depth
        });
        let soon = self.now.plus(RELEASE_EXPECTED_MS);
        let latest = self.now.plus(self.policy.quantum()).plus(self.policy.grace_ms).max(soon);
        for leaf in leaves {
            self.pool.step();
            let Some(turn) = self.accounts.get(leaf).queue.first() else { continue };
            let Some(job) = self.jobs.get(&turn.job) else { continue };
            let (id, reserved_start) = (job.id, job.reserved_start.as_ref());
            let own = reserved_start
                .filter(|reserved_start| reserved_start.rank == Rank::First)
                .map_or(&[][..], |reserved_start| &reserved_start.demand);
            let demand = &self.shapes.get(job.shape).first_demand;
            let is_done = reserved_start.is_some_and(|reserved_start| reserved_start.rank == Rank::Entitled);
            if is_done || self.stopped_by(leaf, job).is_some() || !self.accounts.is_first_entitled(leaf, demand, own) {
                continue;
            }
            if reserved_start.is_some_and(|reserved_start| reserved_start.starts <= latest) {
                self.set_rank(id, Rank::Entitled);
                self.pool.touched.push((id, None));
            } else if !self.is_unplanned(job, Rank::Entitled)
                || self.jobs_beyond_guarantees(id) != job.beyond_guarantees
            {
                self.plan_before(id, Rank::Entitled, latest, effects);
            }
        }
    }

    fn reserve_head(&mut self, effects: &mut Vec<Effect>) {
        let mut refused = BTreeSet::new();
        loop {
            let (before, first) = (self.head, self.first_of_all(&refused));
            // While the start of its successor is planned, the reserved start of the previous first job yields.
            let demoted = before.filter(|&before| first != Some(before) && self.has_rank(before, Rank::First));
            let changes = demoted.map(|_| self.pool.changes());
            if let Some(before) = demoted {
                self.set_rank(before, Rank::Later);
            }
            self.head = first;
            let Some(id) = first else {
                self.leave_first(demoted);
                return;
            };
            let reserved_start = self.jobs.get(&id).and_then(|job| job.reserved_start.as_ref());
            let soon = self.now.plus(RELEASE_EXPECTED_MS);
            let horizon = self.ends.last().map_or(soon, |&(ends, _)| ends.max(soon));
            let present = reserved_start.map(|reserved_start| (reserved_start.rank, reserved_start.starts));
            let is_done = match present {
                Some((Rank::First | Rank::Entitled, _)) => true,
                _ if self.plan_sooner(id, present.map_or(Millis::NEVER, |(_, starts)| starts), effects) => true,
                Some((Rank::Later, starts)) if starts <= horizon => {
                    self.set_rank(id, Rank::First);
                    self.pool.touched.push((id, None));
                    true
                }
                _ => self.plan_before(id, Rank::First, horizon, effects),
            };
            if is_done {
                self.leave_first(demoted);
                return;
            }
            refused.insert(id);
            self.head = before;
            if let Some((before, changes)) = demoted.zip(changes) {
                self.set_rank(before, Rank::First);
                self.pool.forget_changes(changes);
            }
        }
    }

    /// Drops the reserved start of a job that now yields, if there are more than the policy allows.
    fn leave_first(&mut self, demoted: Option<JobId>) {
        let Some(id) = demoted else { return };
        self.pool.touched.push((id, None));
        if self.with_reserved_start.len() > self.policy.backfill_depth && self.has_rank(id, Rank::Later) {
            self.lose_reserved_start(id, SlipCause::Order);
        }
    }

    /// Returns the first job: the present one, unless another job replaces it.
    fn first_of_all(&self, refused: &BTreeSet<JobId>) -> Option<JobId> {
        let suits = |job: &&Job| {
            self.pool.step();
            !refused.contains(&job.id)
                && self.stopped_by(job.account, job).is_none()
                && (job.reserved_start.is_some() || !self.is_unplanned(job, Rank::First))
        };
        let front = self.front.values().filter_map(|id| self.jobs.get(id)).find(suits);
        if let Some(front) = front {
            return Some(front.id);
        }
        let is_first = |job: &&Job| {
            let first = self.accounts.get(job.account).queue.first();
            job.phase == Phase::Waiting && first.is_some_and(|turn| turn.job == job.id)
        };
        let present = self.head.and_then(|id| self.jobs.get(&id)).filter(is_first).filter(suits);
        let level = present.and_then(|job| self.accounts.lowness(job.account));
        let mut best: Option<(i64, &Job)> = None;
        let has_hours = |(_, leaf): &&(i64, u32)| self.accounts.spent(self.now, *leaf).is_none();
        for &(lowness, leaf) in self.accounts.firsts.iter().filter(has_hours).take(ACCOUNTS_MAX) {
            let is_above = level.is_none_or(|level| lowness.saturating_add(LEVELS_ABOVE) <= level);
            if !is_above || best.is_some_and(|(of_best, _)| of_best < lowness) {
                break;
            }
            let first = self.accounts.get(leaf).queue.first().and_then(|turn| self.jobs.get(&turn.job));
            let Some(job) = first.filter(suits) else { continue };
            let is_better = |(_, best): (i64, &Job)| self.accounts.compare(leaf, best.account) == Ordering::Less;
            if best.is_none_or(is_better) {
                best = Some((lowness, job));
            }
        }
        best.map(|(_, job)| job).or(present).map(|job| job.id)
    }

    /// Whether planning a start of this rank has failed, and no device of the job's classes has become available sooner
    /// since.
    pub(super) fn is_unplanned(&self, job: &Job, rank: Rank) -> bool {
        job.unplanned[rank as usize].is_some_and(|stamp| stamp >= self.sooner(job))
    }

    /// Notes that planning a start of this rank has failed.
    pub(super) fn note_unplanned(&mut self, id: JobId, rank: Rank) {
        let Some(sooner) = self.jobs.get(&id).map(|job| self.sooner(job)) else { return };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.unplanned[rank as usize] = Some(sooner);
        }
    }

    /// Returns the last stamp at which a device of the job's classes became available sooner than planned. Of a job whose parts may take each
    /// other's cores or memory a later device counts too: with it, an earlier part may leave the node to the next one.
    fn sooner(&self, job: &Job) -> u64 {
        let shape = self.shapes.get(job.shape);
        let any_change = shape.has_parts_in_each_others_way();
        let stamp = |class: usize| {
            let index = &self.pool.index[class];
            if any_change { index.sooner.max(index.rescheduled) } else { index.sooner }
        };
        classes_of(shape.classes).map(stamp).max().unwrap_or(0)
    }

    /// Plans the first job's start anew, with starts of jobs after it aside. Returns whether it gets one before `present`. Without this, jobs
    /// would start in the order in which their starts were planned, and not in that of their accounts' shares.
    fn plan_sooner(&mut self, id: JobId, present: Millis, effects: &mut Vec<Effect>) -> bool {
        let mut aside = self.yielding_to(id);
        if aside.is_empty() || !self.may_fit_beside_guarantees(id) {
            return false;
        }
        let changes = self.pool.changes();
        aside.push(id);
        for &other in &aside {
            self.set_claims(other, false);
        }
        let plan = self.plan(id).and_then(|(choice, plan)| self.beside_guarantees(id, choice, plan));
        for other in aside {
            self.set_claims(other, true);
        }
        self.pool.forget_changes(changes);
        let Some((choice, plan)) = plan.filter(|(_, plan)| plan.starts < present) else { return false };
        self.lose_reserved_start(id, SlipCause::Order);
        self.make_way(id, Rank::First, &plan);
        self.plan_reserved_start(id, choice, plan, Rank::First, effects);
        true
    }

    /// Returns jobs whose reserved starts yield to a job on its classes: those with the fewest devices, and as many as have
    /// [`DISPLACED_DEVICES_MAX`] together.
    fn yielding_to(&self, id: JobId) -> Vec<JobId> {
        let classes = |job: &Job| self.shapes.get(job.shape).classes;
        let Some(own) = self.jobs.get(&id).map(classes) else { return Vec::new() };
        let others = self.with_reserved_start.iter().filter(|&&other| other != id && self.has_rank(other, Rank::Later));
        let sizes = others.filter_map(|other| {
            self.pool.step();
            let job = self.jobs.get(other).filter(|job| classes(job) & own != 0)?;
            Some((job.reserved_start.as_ref()?.spots.len(), *other))
        });
        let mut sizes: Vec<(usize, JobId)> = sizes.collect();
        sizes.sort_unstable();
        let mut devices = 0;
        let few = sizes.into_iter().take_while(|&(of_job, _)| {
            devices += of_job;
            devices <= DISPLACED_DEVICES_MAX
        });
        few.map(|(_, other)| other).collect()
    }

    /// Plans a job's start and displaces as few yielding starts as necessary for a start until `latest`. A job within a
    /// guarantee may also count on the ends of quanta of jobs without a limit. Returns whether a start was planned.
    fn plan_before(&mut self, id: JobId, rank: Rank, latest: Millis, effects: &mut Vec<Effect>) -> bool {
        if rank == Rank::First && !self.may_fit_beside_guarantees(id) {
            return false;
        }
        let changes = self.pool.changes();
        let mut aside: Vec<JobId> = Vec::new();
        let mut best: Option<(Vec<PartDemand>, Plan)> = None;
        // Planned first without displacing any start, then also on devices of lower ranks.
        for ignored in [None, Some(Rank::Later), Some(Rank::First)] {
            if ignored.is_some_and(|ignored| ignored >= rank) {
                break;
            }
            let of_rank: Vec<JobId> = match ignored {
                None => vec![id],
                Some(ignored) => {
                    self.with_reserved_start.iter().copied().filter(|&other| self.has_rank(other, ignored)).collect()
                }
            };
            for other in of_rank {
                if !aside.contains(&other) {
                    self.set_claims(other, false);
                    aside.push(other);
                }
            }
            let plan = self.plan(id);
            if plan.as_ref().is_some_and(|(_, plan)| best.as_ref().is_none_or(|(_, best)| plan.starts < best.starts)) {
                best = plan;
            }
            if best.as_ref().is_some_and(|(_, best)| best.starts <= latest) {
                break;
            }
        }
        let mut beyond_guarantees = Vec::new();
        if rank == Rank::Entitled && best.as_ref().is_none_or(|(_, best)| best.starts > latest) {
            beyond_guarantees = self.jobs_beyond_guarantees(id);
            self.end_beyond_guarantees(&beyond_guarantees, |_| true);
            let plan = self.plan(id);
            if plan.as_ref().is_some_and(|(_, plan)| best.as_ref().is_none_or(|(_, best)| plan.starts < best.starts)) {
                best = plan;
            }
        }
        let is_planned = best.is_some();
        if rank == Rank::First {
            best = best.and_then(|(choice, plan)| self.beside_guarantees(id, choice, plan));
        }
        for other in aside {
            self.set_claims(other, true);
        }
        self.pool.forget_changes(changes);
        let spots = best.as_ref().map_or(&[][..], |(_, plan)| &plan.spots);
        let spots: BTreeSet<Spot> = spots.iter().copied().collect();
        let classes = self.end_beyond_guarantees(&beyond_guarantees, |spot| spots.contains(&spot));
        if classes != 0 {
            self.pool.note_sooner(classes);
        }
        if !is_planned {
            self.note_unplanned(id, rank);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.beyond_guarantees = beyond_guarantees;
            }
        }
        let Some((choice, plan)) = best else { return false };
        self.lose_reserved_start(id, SlipCause::Order);
        self.make_way(id, rank, &plan);
        self.plan_reserved_start(id, choice, plan, rank, effects);
        true
    }

    /// Returns running jobs without a limit that exceed their guarantees and hold devices of a job's classes. The lease of one that is being
    /// suspended has no end.
    fn jobs_beyond_guarantees(&self, id: JobId) -> Vec<JobId> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let wanted = self.shapes.get(job.shape).classes;
        let is_lent = |other: &&Job| {
            self.pool.step();
            let held = other.grants.iter().filter(|grant| grant.hold == Hold::Held);
            let held = held.fold(0u128, |set, grant| set | 1 << grant.class.index());
            other.ends != Millis::NEVER && held & wanted != 0 && !self.accounts.is_within_guarantee(other.account, held)
        };
        let endless = self.endless.iter().filter_map(|other| self.jobs.get(other));
        endless.filter(is_lent).map(|other| other.id).collect()
    }

    /// Sets the planned end of each of these jobs: the end of its quantum if it holds a `needed` device, otherwise
    /// none. Returns the classes of the jobs with such an end.
    fn end_beyond_guarantees(&mut self, beyond_guarantees: &[JobId], needed: impl Fn(Spot) -> bool) -> u128 {
        let mut classes = 0;
        for &id in beyond_guarantees {
            let Some(job) = self.jobs.get(&id) else { continue };
            let is_needed = job.grants.iter().any(|grant| grant.hold == Hold::Held && needed(grant.spot));
            let planned = if is_needed { job.ends } else { Millis::NEVER };
            if is_needed {
                classes = job.grants.iter().fold(classes, |set, grant| set | 1 << grant.class.index());
            }
            let nodes: BTreeSet<u32> = job.grants.iter().map(|grant| grant.spot.node).collect();
            if job.planned_end != planned {
                self.set_planned_end(id, planned);
            }
            if is_needed {
                nodes.into_iter().for_each(|node| self.pool.ends_are_sooner(node));
            }
        }
        classes
    }

    fn has_rank(&self, id: JobId, rank: Rank) -> bool {
        self.jobs
            .get(&id)
            .and_then(|job| job.reserved_start.as_ref())
            .is_some_and(|reserved_start| reserved_start.rank == rank)
    }

    /// Drops the reserved starts of lower ranks that overlap a plan.
    fn make_way(&mut self, id: JobId, rank: Rank, plan: &Plan) {
        let limit = self.jobs.get(&id).and_then(|job| job.limit_ms);
        let ends = limit.map_or(Millis::NEVER, |limit| plan.starts.plus(limit));
        let mut overlapped = BTreeSet::new();
        for &spot in &plan.spots {
            let claims = self.pool.device(spot).claims.iter();
            let overlapping = claims.filter(|claim| claim.starts < ends && plan.starts < claim.ends);
            overlapped.extend(overlapping.map(|claim| claim.job));
        }
        for other in overlapped {
            if self
                .jobs
                .get(&other)
                .and_then(|job| job.reserved_start.as_ref())
                .is_some_and(|reserved_start| reserved_start.rank < rank)
            {
                self.lose_reserved_start(other, SlipCause::Order);
            }
        }
    }

    /// Changes the rank of a job's reserved start.
    fn set_rank(&mut self, id: JobId, rank: Rank) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(reserved_start) = job.reserved_start.as_mut() else { return };
        let (account, demand) = (job.account, reserved_start.demand.clone());
        let before = std::mem::replace(&mut reserved_start.rank, rank);
        self.count_rank(id, account, &demand, before, false);
        self.count_rank(id, account, &demand, rank, true);
        self.set_firm_claims(id, true);
    }

    /// Adds a reserved start to the claims of its accounts if others yield to it, or removes it.
    pub(super) fn count_rank(&mut self, id: JobId, account: u32, demand: &[(ClassId, u64)], rank: Rank, more: bool) {
        if rank == Rank::Entitled && more {
            self.entitled.insert(id);
        } else if rank == Rank::Entitled {
            self.entitled.remove(&id);
        }
        if rank != Rank::Later {
            self.accounts.claim(account, demand, more);
        }
    }

    /// Handles a missed reserved start. Late releases of devices move it. The first job also keeps its devices while it
    /// waits for other jobs with long limits.
    pub(super) fn reserved_start_is_due(&mut self, id: JobId, effects: &mut Vec<Effect>) {
        let Some(reserved_start) = self.jobs.get(&id).and_then(|job| job.reserved_start.as_ref()) else { return };
        let ReservedStart { rank, planned, spots, starts, .. } = reserved_start.clone();
        let is_held = spots.iter().any(|&spot| self.pool.is_held(spot));
        let is_kept = if is_held { self.now < planned.plus(RELEASE_MS) } else { rank == Rank::First };
        if !is_kept {
            let holders = spots.iter().flat_map(|&spot| &self.pool.device(spot).holders);
            let overdue = holders.filter(|holder| holder.ends <= self.now).map(|holder| holder.job);
            for other in overdue.collect::<BTreeSet<JobId>>() {
                self.set_planned_end(other, self.now.plus(RELEASE_EXPECTED_MS));
            }
            return self.lose_reserved_start(id, SlipCause::Leases);
        }
        let later = self.now.plus(RELEASE_EXPECTED_MS);
        self.timers.remove(&(super::reserved_starts::due(starts), super::Timer::Promise(id)));
        if let Some(job) = self.jobs.get_mut(&id) {
            job.announced = Some(later);
            if let Some(reserved_start) = &mut job.reserved_start {
                reserved_start.starts = later;
            }
        }
        self.timers.insert((super::reserved_starts::due(later), super::Timer::Promise(id)));
        self.set_claims(id, true);
        for spot in spots {
            self.pool.touch_claims(spot.node);
        }
        effects.push(Effect::Reserved { job: id, starts: later, slipped: Some(SlipCause::Leases) });
    }
}
