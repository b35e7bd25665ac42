//! Starts on devices of a reservation, by jobs of the accounts and users that it is for.

use super::Scheduler;
use crate::demand::{Layout, PartDemand, Pick, carries, pick_of};
use crate::ids::{ClassId, JobId};
use crate::input::Reservation;
use crate::job::Job;
use crate::pool::Spot;
use crate::request::{Locality, Take};
use std::collections::{BTreeMap, BTreeSet};

impl Scheduler {
    /// Returns jobs that may start on devices of a reservation that is for them, the first one in order last: the first of each group
    /// of equal jobs, those with a reserved start, and those that administrators put first.
    pub(super) fn reserved_candidates(&self) -> Vec<JobId> {
        let mut found: BTreeSet<JobId> = BTreeSet::new();
        for (reservation, spots) in self.open_reservations() {
            let mut members: BTreeSet<(usize, JobId)> = BTreeSet::new();
            for leaf in self.member_leaves(reservation) {
                members.extend(self.groups.of_account(leaf).map(|(shape, turn)| (shape, turn.job)));
            }
            for user in &reservation.members.users {
                members.extend(self.groups.of_user(user).map(|(_, shape, turn)| (shape, turn.job)));
            }
            if members.is_empty() {
                continue;
            }
            // Claims of its own make a job differ from others of its group; an administrator, its place in the order.
            let single = self.promised.iter().chain(self.front.values()).filter_map(|id| self.jobs.get(id));
            members.extend(single.filter(|job| self.is_for_job(reservation, job)).map(|job| (job.shape, job.id)));
            let free = self.free_of_classes(spots);
            let fitting = members.into_iter().filter(|&(shape, _)| {
                self.pool.step();
                self.may_fit_within(reservation, shape, &free)
            });
            found.extend(fitting.map(|(_, job)| job));
        }
        let mut found: Vec<&Job> = found.into_iter().filter_map(|id| self.jobs.get(&id)).collect();
        found.sort_by(|one, other| {
            self.pool.step();
            self.order(other, one)
        });
        found.into_iter().map(|job| job.id).collect()
    }

    /// Returns the accounts with waiting jobs that a reservation is for.
    fn member_leaves<'a>(&'a self, reservation: &'a Reservation) -> impl Iterator<Item = u32> + 'a {
        let accounts = self.groups.accounts().take_while(|_| !reservation.members.accounts.is_empty());
        accounts.filter(move |&leaf| {
            self.pool.step();
            self.is_for_account(reservation, leaf)
        })
    }

    /// Returns the number of devices of each class that no job holds.
    fn free_of_classes(&self, spots: &[Spot]) -> BTreeMap<ClassId, u32> {
        let mut free = BTreeMap::new();
        for &spot in spots {
            self.pool.step();
            if !self.pool.is_held(spot) {
                *free.entry(self.pool.device(spot).class).or_default() += 1;
            }
        }
        free
    }

    /// Whether a reservation with so many free devices of each class has enough for jobs of a shape, and is not another one than they name.
    fn may_fit_within(&self, reservation: &Reservation, shape: usize, free: &BTreeMap<ClassId, u32>) -> bool {
        let shape = self.shapes.get(shape);
        let is_named = shape.key.request.reservation.as_ref().is_none_or(|name| *name == reservation.name);
        let is_enough = |part: &PartDemand| free.get(&part.class).is_some_and(|&free| free >= part.count.least);
        is_named && shape.choices.iter().any(|choice| choice.iter().all(is_enough))
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
                .inspect(|_| self.pool.step())
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
    let classes: BTreeSet<_> = choice.iter().map(|part| part.class).collect();
    classes.len() == choice.len() && choice.iter().all(|part| part.take == Take::Exclusive)
}
