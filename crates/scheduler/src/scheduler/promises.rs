//! Reserved starts of the first waiting jobs that can't start. They are kept, and lost only for a recorded reason.

use super::{Scheduler, Timer};
use crate::effect::{Effect, SlipCause};
use crate::ids::JobId;
use crate::job::{Job, Promise};
use crate::phase::Rank;
use crate::plan::{Plan, Planner};
use crate::pool::{Beside, Spot};
use crate::saved::SavedPromise;
use crate::search::{PartDemand, Pick};
use crate::time::{Millis, RELEASE_EXPECTED_MS};
use accord_types::{DeviceId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Plans reserved starts of the jobs to which others yield, and of the first jobs in order that have none.
    pub(super) fn reserve_starts(&mut self, effects: &mut Vec<Effect>) {
        let depth = self.policy.backfill_depth;
        if self.waiting == 0 || depth == 0 {
            return;
        }
        self.reserve_first(effects);
        if self.promised.len() >= depth {
            return;
        }
        for id in self.first_jobs(depth) {
            if self.promised.len() >= depth {
                return;
            }
            let Some(job) = self.jobs.get(&id).filter(|job| job.promise.is_none()) else { continue };
            if self.is_unplanned(job, Rank::Later) {
                continue;
            }
            match self.plan(id) {
                Some((choice, plan)) => self.promise(id, choice, plan, Rank::Later, effects),
                None => self.note_unplanned(id, Rank::Later),
            }
        }
    }

    /// Returns the first jobs in order whose accounts allow a start. Visits at most twice as many.
    fn first_jobs(&self, depth: usize) -> Vec<JobId> {
        let (mut found, mut seen) = (Vec::new(), 0);
        let mut look = |account: u32, id: JobId, is_front: bool| {
            self.pool.step();
            let Some(job) = self.jobs.get(&id).filter(|job| is_front || job.front.is_none()) else { return true };
            seen += 1;
            if self.stopped_by(account, job).is_none() && !self.is_stopped_by_guarantees(job) {
                found.push(id);
            }
            found.len() < depth && seen < 2 * depth
        };
        let enough = !self.front.values().all(|&id| match self.jobs.get(&id) {
            Some(job) => look(job.account, id, true),
            None => true,
        });
        if !enough {
            self.accounts.visit(&mut |account, id| look(account, id, false));
        }
        found
    }

    /// Returns the earliest start over all choices; the first choice among equals.
    pub(super) fn plan(&mut self, id: JobId) -> Option<(Vec<PartDemand>, Plan)> {
        self.pool.settle_chunks();
        let job = self.jobs.get(&id).filter(|job| job.request.reservation.is_none())?;
        let (shape, planner) = (self.shapes.get(job.shape), self.planner(job));
        let plans = shape.choices.iter().enumerate();
        let plans = plans.filter_map(|(at, choice)| Some((at, planner.plan(choice, Millis(0))?)));
        let (choice, mut plan) = plans.min_by_key(|(at, plan)| (plan.starts, *at))?;
        if plan.starts <= self.now {
            plan.starts = self.now.plus(RELEASE_EXPECTED_MS);
        }
        Some((shape.choices[choice].clone(), plan))
    }

    pub(super) fn planner<'a>(&'a self, job: &Job) -> Planner<'a> {
        let shape = self.shapes.get(job.shape);
        Planner {
            pool: &self.pool,
            origin: job.origin,
            nodes: shape.nodes.as_ref(),
            layout: shape.layout,
            now: self.now,
            lease_ms: job.lease_ms(self.policy.quantum()),
        }
    }

    /// Sets a job's reserved start.
    pub(super) fn promise(
        &mut self,
        id: JobId,
        choice: Vec<PartDemand>,
        plan: Plan,
        rank: Rank,
        effects: &mut Vec<Effect>,
    ) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let starts = plan.starts;
        let slipped = job.slipped.take().filter(|&(before, _)| before < starts).map(|(_, cause)| cause);
        let is_known = job.announced == Some(starts) && slipped.is_none();
        let demand = self.shapes.get(job.shape).demand(&choice, &self.pool.classes);
        self.keep(id, Promise { starts, spots: plan.spots, choice, rank, demand, planned: starts });
        if !is_known {
            effects.push(Effect::Reserved { job: id, starts, slipped });
        }
    }

    /// Sets devices aside for a job's reserved start.
    fn keep(&mut self, id: JobId, promise: Promise) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (starts, account, rank, demand) = (promise.starts, job.account, promise.rank, promise.demand.clone());
        (job.announced, job.promise) = (Some(starts), Some(promise));
        self.count_rank(id, account, &demand, rank, true);
        self.set_claims(id, true);
        self.promised.insert(id);
        self.pool.touched.push((id, None));
        self.timers.insert((due(starts), Timer::Promise(id)));
    }

    /// Returns a job's reserved start, to be saved.
    pub(super) fn saved_promise(&self, job: &Job, promise: &Promise) -> Option<SavedPromise> {
        let mut devices: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for id in promise.spots.iter().map(|&spot| self.pool.device_id(spot)) {
            devices.entry(id.node.0).or_default().push(id.ordinal);
        }
        let choice = self.shapes.get(job.shape).choices.iter().position(|choice| *choice == promise.choice)?;
        Some(SavedPromise { starts: promise.starts.0, planned: promise.planned.0, rank: promise.rank, choice, devices })
    }

    /// Takes over a waiting job's reserved start as it was saved. The next pass checks whether it can be kept.
    pub(super) fn restore_promise(&mut self, id: JobId, saved: SavedPromise) {
        let Some(shape) = self.jobs.get(&id).map(|job| self.shapes.get(job.shape)) else { return };
        let Some(choice) = shape.choices.get(saved.choice).cloned() else { return };
        let demand = shape.demand(&choice, &self.pool.classes);
        let devices = saved
            .devices
            .iter()
            .flat_map(|(node, ordinals)| ordinals.iter().map(|&ordinal| DeviceId { node: NodeId(*node), ordinal }));
        let Some(spots) = devices.map(|device| self.pool.spot(device)).collect::<Option<Vec<Spot>>>() else { return };
        let is_of_choice = |spot: &Spot| choice.iter().any(|part| part.class == self.pool.device(*spot).class);
        if spots.iter().all(is_of_choice) {
            let (starts, planned, rank) = (Millis(saved.starts), Millis(saved.planned), saved.rank);
            self.keep(id, Promise { starts, spots, choice, rank, demand, planned });
            self.head = self.head.or((rank == Rank::First).then_some(id));
        }
    }

    pub(super) fn refresh_all(&mut self, spots: &[Spot]) {
        let nodes: BTreeSet<u32> = spots.iter().map(|spot| spot.node).collect();
        for node in nodes {
            self.pool.refresh(self.now, node);
        }
    }

    /// Drops a job's reserved start.
    pub(super) fn drop_promise(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (account, Some(promise)) = (job.account, job.promise.take()) else { return };
        self.count_rank(id, account, &promise.demand, promise.rank, false);
        for &spot in &promise.spots {
            let claims = &mut self.pool.device_mut(spot).claims;
            let takes_beside = claims.iter().any(|claim| claim.job == id && claim.beside != Beside::default());
            claims.retain(|claim| claim.job != id);
            if takes_beside {
                self.pool.beside_is_sooner(spot.node);
            }
        }
        self.refresh_all(&promise.spots);
        for &spot in &promise.spots {
            self.pool.touch_claims(spot.node);
        }
        self.promised.remove(&id);
        self.ready.remove(&id);
        self.unfit.remove(&id);
        self.timers.remove(&(due(promise.starts), Timer::Promise(id)));
    }

    /// Drops a job's reserved start and notes the reason. The earliest lost start is kept.
    pub(super) fn lose_promise(&mut self, id: JobId, cause: SlipCause) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(promise) = &job.promise else { return };
        job.slipped = Some(match job.slipped {
            Some((before, _)) => (before.min(promise.starts), cause),
            None => (promise.starts, cause),
        });
        self.drop_promise(id);
    }

    /// Checks the reserved starts whose devices have changed: they may start, or can't be kept. Losing one affects
    /// later ones.
    pub(super) fn check_promises(&mut self) {
        while !self.pool.touched.is_empty() {
            let mut touched = std::mem::take(&mut self.pool.touched);
            touched.sort_unstable();
            touched.dedup();
            for (id, node) in touched {
                self.pool.step();
                self.check_promise(id, node);
            }
        }
    }

    /// Checks a reserved start. `node` has the changed devices; `None` if any device may have changed.
    fn check_promise(&mut self, id: JobId, node: Option<u32>) {
        self.unfit.remove(&id);
        let Some((job, promise)) = self.jobs.get(&id).and_then(|job| Some((job, job.promise.as_ref()?))) else {
            return;
        };
        let breaks = |spot: &Spot| self.pool.breaks(*spot, id);
        let changed = node.is_none_or(|node| self.pool.spots_on(node).any(|spot| breaks(&spot).is_some()));
        if let Some(cause) = promise.spots.iter().filter(|_| changed).find_map(breaks) {
            self.lose_promise(id, cause);
        } else if self.promised_picks(job).is_some() {
            self.ready.insert(id);
        } else {
            self.ready.remove(&id);
        }
    }

    /// Returns the devices of a job's reserved start if all are free for the duration of its lease.
    pub(super) fn promised_picks(&self, job: &Job) -> Option<Vec<Pick>> {
        let promise = job.promise.as_ref()?;
        let until = self.now.plus(job.lease_ms(self.policy.quantum()));
        let choice = &promise.choice;
        let is_free = |spot: &Spot| {
            self.pool.step();
            self.pool.is_free_for(*spot, job.id, self.now, until)
        };
        if !promise.spots.iter().all(is_free) {
            return None;
        }
        let mut picks = Vec::with_capacity(promise.spots.len());
        for &spot in &promise.spots {
            let class = self.pool.device(spot).class;
            let part = choice.iter().position(|part| part.class == class)?;
            picks.push(crate::search::pick_of(&self.pool, choice, part, spot));
        }
        picks.sort_by_key(|pick| (pick.part, pick.spot));
        crate::search::carries(&self.pool, choice, &picks).then_some(picks)
    }
}

/// Returns when a reserved start counts as missed.
pub(super) fn due(starts: Millis) -> Millis {
    starts.plus(RELEASE_EXPECTED_MS)
}
