//! Starts on devices of a reservation, by jobs of the accounts and users that it is for.

use super::Scheduler;
use crate::demand::{Layout, PartDemand, Pick, carries, pick_of};
use crate::ids::JobId;
use crate::input::Reservation;
use crate::job::Job;
use crate::pool::Spot;
use crate::request::{Locality, Take};
use std::collections::BTreeMap;

/// Jobs of each account that are looked at for the devices of a reservation.
const MEMBERS_JOBS_MAX: usize = 64;

impl Scheduler {
    /// Returns jobs that may start on devices of a reservation that is for them.
    pub(super) fn reserved_candidates(&self) -> Vec<JobId> {
        let mut found = Vec::new();
        for (reservation, spots) in self.open_reservations() {
            if spots.iter().all(|&spot| self.pool.is_held(spot)) {
                continue;
            }
            for leaf in self.accounts.leaves() {
                let queue = &self.accounts.get(leaf).queue;
                if queue.is_empty() {
                    continue;
                }
                let jobs = queue.iter().take(MEMBERS_JOBS_MAX).map(|turn| turn.job);
                if self.is_for_account(reservation, leaf) {
                    found.extend(jobs);
                } else if !reservation.members.users.is_empty() {
                    let is_member =
                        |id: &JobId| self.jobs.get(id).is_some_and(|job| reservation.members.users.contains(&job.user));
                    found.extend(jobs.filter(is_member));
                }
            }
        }
        found
    }

    fn open_reservations(&self) -> impl Iterator<Item = &(Reservation, Vec<Spot>)> {
        self.open_reservations.iter().filter_map(|id| self.reservations.get(id))
    }

    /// Returns what a job can start with on devices of a reservation that is for it: of the one that it names, if it names one.
    pub(super) fn reserved_fit(&self, job: &Job) -> Option<(Vec<PartDemand>, Vec<Pick>)> {
        let shape = self.shapes.get(job.shape);
        for (reservation, spots) in self.open_reservations() {
            let is_named = job.request.reservation.as_ref().is_none_or(|name| *name == reservation.name);
            if !is_named || !self.is_for_job(reservation, job) {
                continue;
            }
            let until = self.now.plus(job.lease_ms(self.policy.quantum()));
            let allowed = |spot: &Spot| shape.nodes.as_ref().is_none_or(|nodes| nodes.contains(spot.node));
            let mut free: Vec<Spot> = spots
                .iter()
                .copied()
                .filter(allowed)
                .filter(|&spot| self.pool.is_free_within(spot, reservation.id, job.id, self.now, until))
                .collect();
            free.sort_unstable();
            for choice in shape.choices.iter().filter(|choice| apart(choice)) {
                let demand = shape.demand(choice, &self.pool.classes);
                if self.accounts.beyond_most(job.account, &demand).is_some() {
                    continue;
                }
                let picks = self.picks_within(shape.layout, job.origin, choice, &free);
                if let Some(picks) = picks.filter(|picks| carries(&self.pool, choice, picks)) {
                    return Some((choice.clone(), picks));
                }
            }
        }
        None
    }

    /// Returns the first of some free devices that are enough, with the least counts.
    fn picks_within(
        &self,
        layout: Layout,
        origin: Option<u32>,
        choice: &[PartDemand],
        free: &[Spot],
    ) -> Option<Vec<Pick>> {
        let of = |part: &PartDemand, spots: &[Spot], count: u32| -> Option<Vec<Spot>> {
            let of_class = spots.iter().copied().filter(|&spot| self.pool.device(spot).class == part.class);
            let first: Vec<Spot> = of_class.take(count as usize).collect();
            (first.len() == count as usize).then_some(first)
        };
        let own: Vec<Spot>;
        let mut picks = Vec::new();
        match layout {
            Layout::Any(locality @ (Locality::OwnFirst | Locality::Pack | Locality::Near | Locality::Local)) => {
                let free = if locality == Locality::Local {
                    own = free.iter().copied().filter(|spot| Some(spot.node) == origin).collect();
                    &own
                } else {
                    free
                };
                for (at, part) in choice.iter().enumerate() {
                    let spots = of(part, free, part.count.least)?;
                    picks.extend(spots.into_iter().map(|spot| pick_of(&self.pool, choice, at, spot)));
                }
            }
            Layout::Nodes(nodes) => {
                let mut by_node: BTreeMap<u32, Vec<Spot>> = BTreeMap::new();
                for &spot in free {
                    by_node.entry(spot.node).or_default().push(spot);
                }
                let mut left = nodes;
                for spots in by_node.values() {
                    let parts = choice.iter().map(|part| of(part, spots, part.count.least / nodes));
                    let Some(parts) = parts.collect::<Option<Vec<Vec<Spot>>>>() else { continue };
                    if left > 0 {
                        left -= 1;
                        for (at, spots) in parts.into_iter().enumerate() {
                            picks.extend(spots.into_iter().map(|spot| pick_of(&self.pool, choice, at, spot)));
                        }
                    }
                }
                if left > 0 {
                    return None;
                }
                picks.sort_by_key(|pick| (pick.part, pick.spot));
            }
            Layout::Chunks(chunks) => {
                let mut by_node: BTreeMap<u32, Vec<Spot>> = BTreeMap::new();
                for &spot in free {
                    by_node.entry(spot.node).or_default().push(spot);
                }
                let mut left = chunks;
                for mut spots in by_node.into_values() {
                    while left > 0 {
                        let parts = choice.iter().map(|part| of(part, &spots, part.count.least));
                        let Some(parts) = parts.collect::<Option<Vec<Vec<Spot>>>>() else { break };
                        left -= 1;
                        for (at, taken) in parts.into_iter().enumerate() {
                            spots.retain(|spot| !taken.contains(spot));
                            picks.extend(taken.into_iter().map(|spot| pick_of(&self.pool, choice, at, spot)));
                        }
                    }
                }
                if left > 0 {
                    return None;
                }
                picks.sort_by_key(|pick| (pick.part, pick.spot));
            }
            Layout::Any(_) => return None,
        }
        Some(picks)
    }
}

/// Whether parts are exclusive and of different classes.
fn apart(choice: &[PartDemand]) -> bool {
    let classes: std::collections::BTreeSet<_> = choice.iter().map(|part| part.class).collect();
    classes.len() == choice.len() && choice.iter().all(|part| part.take == Take::Exclusive)
}
