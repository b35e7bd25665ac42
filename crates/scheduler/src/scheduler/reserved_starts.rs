//! Reserved starts of the first waiting jobs that can't start. They are kept, and lost only for a recorded reason.

use super::{Scheduler, Timer};
use crate::effect::{Effect, SlipCause};
use crate::ids::JobId;
use crate::job::{Job, ReservedStart};
use crate::phase::Rank;
use crate::plan::{Plan, Planner};
use crate::pool::{Claim, FirmClaim, HostResources, Spot};
use crate::saved::SavedReservedStart;
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
        if self.with_reserved_start.len() >= depth {
            return;
        }
        for id in self.first_jobs(depth) {
            if self.with_reserved_start.len() >= depth {
                return;
            }
            let Some(job) = self.jobs.get(&id).filter(|job| job.reserved_start.is_none()) else { continue };
            if self.is_unplanned(job, Rank::Later) {
                continue;
            }
            match self.plan(id) {
                Some((choice, plan)) => self.plan_reserved_start(id, choice, plan, Rank::Later, effects),
                None => self.note_unplanned(id, Rank::Later),
            }
        }
    }

    /// Returns the first jobs in order whose accounts allow a start. Visits at most twice as many of accounts with
    /// device-hours.
    pub(super) fn first_jobs(&self, depth: usize) -> Vec<JobId> {
        let (mut found, mut seen) = (Vec::new(), 0);
        if depth == 0 {
            return found;
        }
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
            Some(job) if self.accounts.spent(self.now, job.account).is_none() => look(job.account, id, true),
            _ => true,
        });
        if !enough {
            self.accounts.visit_unspent(self.now, &mut |account, id| look(account, id, false));
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
    pub(super) fn plan_reserved_start(
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
        self.keep(id, ReservedStart { starts, spots: plan.spots, choice, rank, demand, planned: starts });
        if !is_known {
            effects.push(Effect::Reserved { job: id, starts, slipped });
        }
    }

    /// Sets devices aside for a job's reserved start.
    fn keep(&mut self, id: JobId, reserved_start: ReservedStart) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (starts, account, rank, demand) =
            (reserved_start.starts, job.account, reserved_start.rank, reserved_start.demand.clone());
        (job.announced, job.reserved_start) = (Some(starts), Some(reserved_start));
        self.count_rank(id, account, &demand, rank, true);
        self.set_claims(id, true);
        self.with_reserved_start.insert(id);
        self.pool.touched.push((id, None));
        self.timers.insert((due(starts), Timer::Promise(id)));
    }

    /// Adds the claims of a job's reserved start to its devices and their nodes, or removes them.
    pub(super) fn set_claims(&mut self, id: JobId, on: bool) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(reserved_start) = &job.reserved_start else { return };
        let starts = reserved_start.starts;
        let ends = job.limit_ms.map_or(Millis::NEVER, |limit| starts.plus(limit));
        let lease_ends = starts.plus(job.lease_ms(self.policy.quantum()));
        let (choice, spots) = (reserved_start.choice.clone(), reserved_start.spots.clone());
        for &spot in &spots {
            let device = self.pool.device_mut(spot);
            device.claims.retain(|claim| claim.job != id);
            let part = choice.iter().find(|part| part.class == device.class);
            let host_resources = part.map(PartDemand::host_resources).unwrap_or_default();
            if on {
                device.claims.push(Claim { job: id, starts, ends, lease_ends, host_resources });
            } else if host_resources != HostResources::default() {
                self.pool.beside_is_sooner(spot.node);
            }
        }
        self.set_firm_claims(id, on);
        self.refresh_all(&spots);
    }

    /// Updates the claims of a job's reserved start on cores and host memory of its nodes: there are some if other jobs yield to it.
    pub(super) fn set_firm_claims(&mut self, id: JobId, on: bool) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(ReservedStart { starts, spots, choice, rank, .. }) = &job.reserved_start else { return };
        let (starts, rank) = (*starts, *rank);
        let ends = job.limit_ms.map_or(Millis::NEVER, |limit| starts.plus(limit));
        let mut of_nodes: BTreeMap<u32, HostResources> = BTreeMap::new();
        for spot in spots {
            let class = self.pool.device(*spot).class;
            let each = choice.iter().find(|part| part.class == class).map(PartDemand::host_resources);
            let of_node = of_nodes.entry(spot.node).or_default();
            *of_node = of_node.plus(each.unwrap_or_default(), 1);
        }
        for (node, host_resources) in of_nodes {
            let is_firm = on && rank != Rank::Later && host_resources != HostResources::default();
            let left = HostResources::default();
            let claim = is_firm.then_some(FirmClaim { job: id, rank, starts, ends, host_resources, left });
            self.pool.set_firm_claim(node, id, claim);
        }
    }

    /// Returns a job's reserved start, to be saved.
    pub(super) fn saved_reserved_start(&self, job: &Job, reserved_start: &ReservedStart) -> Option<SavedReservedStart> {
        let mut devices: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for id in reserved_start.spots.iter().map(|&spot| self.pool.device_id(spot)) {
            devices.entry(id.node.0).or_default().push(id.ordinal);
        }
        let choice = self.shapes.get(job.shape).choices.iter().position(|choice| *choice == reserved_start.choice)?;
        Some(SavedReservedStart {
            starts: reserved_start.starts.0,
            planned: reserved_start.planned.0,
            rank: reserved_start.rank,
            choice,
            devices,
        })
    }

    /// Takes over a waiting job's reserved start as it was saved. The next pass checks whether it can be kept.
    pub(super) fn restore_reserved_start(&mut self, id: JobId, saved: SavedReservedStart) {
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
            self.keep(id, ReservedStart { starts, spots, choice, rank, demand, planned });
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
    pub(super) fn drop_reserved_start(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (account, Some(reserved_start)) = (job.account, job.reserved_start.take()) else { return };
        self.count_rank(id, account, &reserved_start.demand, reserved_start.rank, false);
        for &spot in &reserved_start.spots {
            let claims = &mut self.pool.device_mut(spot).claims;
            let takes_host_resources =
                claims.iter().any(|claim| claim.job == id && claim.host_resources != HostResources::default());
            claims.retain(|claim| claim.job != id);
            if takes_host_resources {
                self.pool.beside_is_sooner(spot.node);
            }
        }
        self.refresh_all(&reserved_start.spots);
        for &spot in &reserved_start.spots {
            self.pool.set_firm_claim(spot.node, id, None);
            self.pool.touch_claims(spot.node);
        }
        self.with_reserved_start.remove(&id);
        self.ready.remove(&id);
        self.unfit.remove(&id);
        self.timers.remove(&(due(reserved_start.starts), Timer::Promise(id)));
    }

    /// Drops a job's reserved start and notes the reason. The earliest lost start is kept.
    pub(super) fn lose_reserved_start(&mut self, id: JobId, cause: SlipCause) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let Some(reserved_start) = &job.reserved_start else { return };
        job.slipped = Some(match job.slipped {
            Some((before, _)) => (before.min(reserved_start.starts), cause),
            None => (reserved_start.starts, cause),
        });
        self.drop_reserved_start(id);
    }

    /// Checks the reserved starts whose devices have changed: they may start, or can't be kept. Losing one affects
    /// later ones.
    pub(super) fn check_reserved_starts(&mut self) {
        while !self.pool.touched.is_empty() {
            let mut touched = std::mem::take(&mut self.pool.touched);
            touched.sort_unstable();
            touched.dedup();
            for (id, node) in touched {
                self.pool.step();
                self.check_reserved_start(id, node);
            }
        }
    }

    /// Checks a reserved start. `node` has the changed devices; `None` if any device may have changed.
    fn check_reserved_start(&mut self, id: JobId, node: Option<u32>) {
        self.unfit.remove(&id);
        let Some((job, reserved_start)) = self.jobs.get(&id).and_then(|job| Some((job, job.reserved_start.as_ref()?)))
        else {
            return;
        };
        let breaks = |spot: &Spot| self.pool.breaks(*spot, id);
        let changed = node.is_none_or(|node| self.pool.spots_on(node).any(|spot| breaks(&spot).is_some()));
        if let Some(cause) = reserved_start.spots.iter().filter(|_| changed).find_map(breaks) {
            self.lose_reserved_start(id, cause);
        } else if self.reserved_picks(job).is_some() {
            self.ready.insert(id);
        } else {
            self.ready.remove(&id);
        }
    }

    /// Returns the devices of a job's reserved start if all are free for the duration of its lease.
    pub(super) fn reserved_picks(&self, job: &Job) -> Option<Vec<Pick>> {
        let reserved_start = job.reserved_start.as_ref()?;
        let until = self.now.plus(job.lease_ms(self.policy.quantum()));
        let choice = &reserved_start.choice;
        let is_free = |spot: &Spot| {
            self.pool.step();
            self.pool.is_free_for(*spot, job.id, self.now, until)
        };
        if !reserved_start.spots.iter().all(is_free) {
            return None;
        }
        let mut picks = Vec::with_capacity(reserved_start.spots.len());
        for &spot in &reserved_start.spots {
            let class = self.pool.device(spot).class;
            let part = choice.iter().position(|part| part.class == class)?;
            picks.push(crate::search::pick_of(&self.pool, choice, part, spot));
        }
        picks.sort_by_key(|pick| (pick.part, pick.spot));
        let (rank, starts) = (reserved_start.rank, reserved_start.starts);
        let counts = |claim: &FirmClaim| claim.precedes(rank, starts, job.id);
        crate::search::carries(&self.pool, choice, &picks, (self.now, until), counts).then_some(picks)
    }
}

/// Returns when a reserved start counts as missed.
pub(super) fn due(starts: Millis) -> Millis {
    starts.plus(RELEASE_EXPECTED_MS)
}
