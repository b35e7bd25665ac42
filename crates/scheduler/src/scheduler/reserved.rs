//! Starts on devices of a reservation, by jobs of the accounts that it is for.

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
    /// Returns jobs that may start on devices of a reservation that is for their accounts.
    pub(super) fn reserved_candidates(&self) -> Vec<JobId> {
        let mut found = Vec::new();
        for (reservation, spots) in self.open_reservations() {
            if spots.iter().all(|&spot| self.pool.is_held(spot)) {
                continue;
            }
            for leaf in self.accounts.leaves() {
                if self.is_for(reservation, leaf) {
                    let queue = self.accounts.get(leaf).queue.iter().take(MEMBERS_JOBS_MAX);
                    found.extend(queue.map(|turn| turn.job));
                }
            }
        }
        found
    }

    fn open_reservations(&self) -> impl Iterator<Item = &(Reservation, Vec<Spot>)> {
        self.open_reservations.iter().filter_map(|id| self.reservations.get(id))
    }

    /// Whether a reservation is for an account: it names the account or one above.
    pub(super) fn is_for(&self, reservation: &Reservation, account: u32) -> bool {
        let named = |name: &String| self.accounts.named(name);
        reservation.accounts.iter().filter_map(named).any(|at| self.accounts.get(account).path.contains(&at))
    }

    /// Returns what a job can start with on devices of a reservation that is for its account.
    pub(super) fn reserved_fit(&self, job: &Job) -> Option<(Vec<PartDemand>, Vec<Pick>)> {
        let shape = self.shapes.get(job.shape);
        for (reservation, spots) in self.open_reservations() {
            if !self.is_for(reservation, job.account) {
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
                let picks = self.picks_within(shape.layout, choice, &free);
                if let Some(picks) = picks.filter(|picks| carries(&self.pool, choice, picks)) {
                    return Some((choice.clone(), picks));
                }
            }
        }
        None
    }

    /// Returns the first of some free devices that are enough, with the least counts.
    fn picks_within(&self, layout: Layout, choice: &[PartDemand], free: &[Spot]) -> Option<Vec<Pick>> {
        let of = |part: &PartDemand, spots: &[Spot], count: u32| -> Option<Vec<Spot>> {
            let of_class = spots.iter().copied().filter(|&spot| self.pool.device(spot).class == part.class);
            let first: Vec<Spot> = of_class.take(count as usize).collect();
            (first.len() == count as usize).then_some(first)
        };
        let mut picks = Vec::new();
        match layout {
            Layout::Any(Locality::OwnFirst | Locality::Pack | Locality::Near) => {
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
            Layout::Any(_) | Layout::Chunks(_) => return None,
        }
        Some(picks)
    }
}

/// Whether parts are exclusive and of different classes.
fn apart(choice: &[PartDemand]) -> bool {
    let classes: std::collections::BTreeSet<_> = choice.iter().map(|part| part.class).collect();
    classes.len() == choice.len() && choice.iter().all(|part| part.take == Take::Exclusive)
}
