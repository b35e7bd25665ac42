//! Starts on devices of a reservation, by jobs of its members.

use super::Scheduler;
use crate::bitset::BitSet;
use crate::demand::{Layout, PartDemand, Pick, carries, pick_of};
use crate::ids::{ClassId, JobId, ReservationId};
use crate::input::Reservation;
use crate::job::Job;
use crate::merged::merged;
use crate::pool::{ClaimsWithin, FirmClaim, Pool, Spot};
use crate::request::{Locality, Take};
use crate::time::Millis;
use std::collections::BTreeSet;

impl Scheduler {
    /// Returns jobs that may start on devices of a reservation, with the first one in order last. They are the first of
    /// each group of equal jobs, jobs with a reserved start, and jobs that administrators have put first.
    pub(super) fn reserved_candidates(&mut self) -> Vec<JobId> {
        let mut found: BTreeSet<JobId> = BTreeSet::new();
        for id in self.open_reservations.clone() {
            for job in self.members_of(id) {
                if self.suffices(id, job) {
                    found.insert(job);
                }
            }
        }
        let mut found: Vec<&Job> = found.into_iter().filter_map(|id| self.jobs.get(&id)).collect();
        found.sort_by(|one, other| {
            self.pool.step();
            self.order(other, one)
        });
        found.into_iter().map(|job| job.id).collect()
    }

    /// Returns the first waiting job of each group whose jobs may use a reservation.
    fn members_of(&self, id: ReservationId) -> BTreeSet<JobId> {
        let mut members: BTreeSet<JobId> = BTreeSet::new();
        let Some((reservation, _)) = self.reservations.get(&id) else { return members };
        for leaf in self.member_leaves(reservation) {
            members.extend(self.groups.of_account(leaf).map(|(_, turn)| turn.job));
        }
        for user in &reservation.members.users {
            members.extend(self.groups.of_user(user).map(|(_, _, turn)| turn.job));
        }
        if members.is_empty() {
            return members;
        }
        // Its own claims distinguish a job from others of its group, and an administrator may change its order.
        let single = self.with_reserved_start.iter().chain(self.front.values()).filter_map(|id| self.jobs.get(id));
        members.extend(single.filter(|job| self.is_for_job(reservation, job)).map(|job| job.id));
        members
    }

    /// Whether a reservation's devices suffice for a job, without the limits of accounts. A failed check is not
    /// repeated until the reservation gains capacity.
    fn suffices(&mut self, id: ReservationId, job: JobId) -> bool {
        self.pool.step();
        let Some(of) = self.jobs.get(&job) else { return false };
        if !self.is_named(id, of) || self.is_unfit(id, of) {
            return false;
        }
        let (shape, is_reserved_start) = (self.shapes.get(of.shape), of.reserved_start.is_some());
        let devices = self.devices_within(id, of);
        if shape.choices.iter().any(|choice| devices.find(shape.layout, choice).is_some()) {
            return true;
        }
        let (at, grown) = (of.shape, self.grown_within(id));
        let unfit =
            if is_reserved_start { self.unfit.entry(job).or_default() } else { &mut self.shapes.get_mut(at).unfit };
        unfit.retain(|known, _| self.open_reservations.contains(known));
        unfit.insert(id, grown);
        false
    }

    /// Whether a job requests this reservation, or none.
    fn is_named(&self, id: ReservationId, job: &Job) -> bool {
        let named = job.request.reservation.as_ref();
        self.reservations.get(&id).is_some_and(|(reservation, _)| named.is_none_or(|name| *name == reservation.name))
    }

    /// Whether a reservation's devices are known not to suffice for a job.
    fn is_unfit(&self, id: ReservationId, job: &Job) -> bool {
        let of_job = self.unfit.get(&job.id).filter(|_| job.reserved_start.is_some());
        let unfit = if job.reserved_start.is_some() { of_job } else { Some(&self.shapes.get(job.shape).unfit) };
        unfit.and_then(|unfit| unfit.get(&id)) == Some(&self.grown_within(id))
    }

    fn grown_within(&self, id: ReservationId) -> u64 {
        self.pool.within.get(&id).map_or(0, |within| within.grown)
    }

    /// Returns the free devices of a reservation for a job.
    fn devices_within<'a>(&'a self, id: ReservationId, job: &'a Job) -> DevicesWithin<'a> {
        let until = self.now.plus(job.lease_ms(self.policy.quantum()));
        let nodes = self.shapes.get(job.shape).nodes.as_ref();
        DevicesWithin::new(&self.pool, id, job, nodes, (self.now, until))
    }

    /// Returns the accounts with waiting jobs that may use a reservation.
    fn member_leaves<'a>(&'a self, reservation: &'a Reservation) -> impl Iterator<Item = u32> + 'a {
        let accounts = self.groups.accounts().take_while(|_| !reservation.members.accounts.is_empty());
        accounts.filter(move |&leaf| {
            self.pool.step();
            self.is_for_account(reservation, leaf)
        })
    }

    /// Returns a start of a job on devices of a reservation, the requested one if it requests one.
    pub(super) fn reserved_fit(&self, job: &Job) -> Option<(Vec<PartDemand>, Vec<Pick>)> {
        let shape = self.shapes.get(job.shape);
        for &id in &self.open_reservations {
            let Some((reservation, _)) = self.reservations.get(&id) else { continue };
            if !self.is_named(id, job) || self.is_unfit(id, job) || !self.is_for_job(reservation, job) {
                continue;
            }
            let devices = self.devices_within(id, job);
            for choice in &shape.choices {
                let demand = shape.demand(choice, &self.pool.classes);
                if self.accounts.beyond_most(job.account, &demand).is_some() {
                    continue;
                }
                if let Some(picks) = devices.find(shape.layout, choice) {
                    return Some((choice.clone(), picks));
                }
            }
        }
        None
    }
}

/// The free devices of a reservation that has begun, for one job.
struct DevicesWithin<'a> {
    pool: &'a Pool,
    id: ReservationId,
    job: &'a Job,
    /// The nodes that the job may use; `None` for all nodes.
    nodes: Option<&'a BitSet>,
    now: Millis,
    /// The job's end if it starts now.
    until: Millis,
    /// The reserved starts that it leaves alone.
    counts: ClaimsWithin,
    /// Devices of the job's own reserved start, whose claims do not count.
    own: BTreeSet<(Millis, Spot)>,
    /// The same devices without times, for lookups.
    own_spots: BTreeSet<Spot>,
}

impl<'a> DevicesWithin<'a> {
    fn new(
        pool: &'a Pool,
        id: ReservationId,
        job: &'a Job,
        nodes: Option<&'a BitSet>,
        (now, until): (Millis, Millis),
    ) -> Self {
        // A job that names a reservation comes before jobs that wait for its end.
        let is_named = job.request.reservation.is_some();
        let counts = if is_named { ClaimsWithin::None } else { ClaimsWithin::OfOthers(job.id) };
        let spots = job.reserved_start.iter().flat_map(|reserved_start| &reserved_start.spots);
        let own = spots.filter_map(|&spot| Some((pool.free_within_for(spot, id, counts, now)?, spot)));
        let own: BTreeSet<(Millis, Spot)> = own.collect();
        let own_spots = own.iter().map(|&(_, spot)| spot).collect();
        Self { own, own_spots, pool, id, job, nodes, now, until, counts }
    }

    fn allows(&self, node: u32) -> bool {
        self.nodes.is_none_or(|nodes| nodes.contains(node))
    }

    /// Returns the free devices of a class, those with the earliest bound first.
    fn free(&self, class: ClassId) -> impl Iterator<Item = Spot> {
        let free = self.pool.free_within(self.id, class, self.until, self.counts == ClaimsWithin::None);
        let others = free.filter(|(_, spot)| !self.own_spots.contains(spot));
        let own = self.own.range((self.until, Spot { node: 0, device: 0 })..).copied();
        let own = own.filter(move |&(_, spot)| self.pool.device(spot).class == class);
        let both: Vec<Box<dyn Iterator<Item = (Millis, Spot)> + '_>> = vec![Box::new(others), Box::new(own)];
        merged(both).map(|(_, spot)| spot).filter(|spot| self.allows(spot.node))
    }

    /// Returns the free devices of a class on a node, in the same order.
    fn free_on(&self, node: u32, class: ClassId) -> Vec<Spot> {
        let spots = self.pool.spots_on(node).filter(|&spot| self.allows(node) && self.pool.device(spot).class == class);
        let free =
            spots.filter_map(|spot| Some((self.pool.free_within_for(spot, self.id, self.counts, self.now)?, spot)));
        let free: BTreeSet<(Millis, Spot)> = free.filter(|&(until, _)| self.until <= until).collect();
        free.into_iter().map(|(_, spot)| spot).collect()
    }

    /// Returns the nodes of a class's free devices, in the order of the devices.
    fn nodes_of(&self, class: ClassId) -> impl Iterator<Item = u32> {
        let mut seen = BTreeSet::new();
        self.free(class).map(|spot| spot.node).filter(move |&node| seen.insert(node))
    }

    /// Returns the first sufficient devices for the parts of a choice, with the least counts.
    fn find(&self, layout: Layout, choice: &[PartDemand]) -> Option<Vec<Pick>> {
        if !apart(choice) {
            return None;
        }
        let mut spots = match layout {
            Layout::Any(Locality::OwnFirst | Locality::Pack | Locality::Near) => {
                let of_part = |part: &PartDemand| first(self.free(part.class), part.count.least);
                choice.iter().map(of_part).collect::<Option<Vec<_>>>()?
            }
            Layout::Any(Locality::Local) => self.chunk_on(self.job.origin?, choice, 1, &BTreeSet::new())?,
            Layout::Any(_) => return None,
            Layout::Nodes(nodes) => self.chunks(choice, nodes, nodes, false)?,
            Layout::Chunks(_) if self.job.request.locality == Locality::Spread => return None,
            Layout::Chunks(chunks) => self.chunks(choice, chunks, 1, true)?,
        };
        let parts = spots.iter_mut().enumerate();
        let picks = parts.flat_map(|(at, spots)| spots.drain(..).map(move |spot| (at, spot)));
        let mut picks: Vec<Pick> = picks.map(|(at, spot)| pick_of(self.pool, choice, at, spot)).collect();
        picks.sort_by_key(|pick| (pick.part, pick.spot));
        let yielding = self.yielding(&picks);
        let counts = |claim: &FirmClaim| claim.job != self.job.id && !yielding.contains(&claim.job);
        carries(self.pool, choice, &picks, (self.now, self.until), counts).then_some(picks)
    }

    /// Returns the jobs whose reserved starts on these devices yield, with the cores and the memory that they claim.
    fn yielding(&self, picks: &[Pick]) -> BTreeSet<JobId> {
        let named = picks.iter().filter(|_| self.counts == ClaimsWithin::None);
        named.flat_map(|pick| &self.pool.device(pick.spot).claims).map(|claim| claim.job).collect()
    }

    /// Returns the devices of chunks by part. Each chunk has an equal share of each count and is on one node. A node
    /// has several chunks only if `several`.
    fn chunks(&self, choice: &[PartDemand], chunks: u32, shares: u32, several: bool) -> Option<Vec<Vec<Spot>>> {
        let mut found: Vec<Vec<Spot>> = vec![Vec::new(); choice.len()];
        let mut left = chunks;
        for node in self.nodes_of(choice.first()?.class) {
            let mut taken = BTreeSet::new();
            while left > 0 && (several || taken.is_empty()) {
                let Some(chunk) = self.chunk_on(node, choice, shares, &taken) else { break };
                left -= 1;
                for (all, spots) in found.iter_mut().zip(chunk) {
                    taken.extend(spots.iter().copied());
                    all.extend(spots);
                }
            }
            if left == 0 {
                return Some(found);
            }
        }
        None
    }

    /// Returns devices of one node by part: a share of each count, without taken devices.
    fn chunk_on(
        &self,
        node: u32,
        choice: &[PartDemand],
        shares: u32,
        taken: &BTreeSet<Spot>,
    ) -> Option<Vec<Vec<Spot>>> {
        let of_part = |part: &PartDemand| {
            let free = self.free_on(node, part.class).into_iter().filter(|spot| !taken.contains(spot));
            first(free, part.count.least / shares)
        };
        choice.iter().map(of_part).collect()
    }
}

/// Returns the first `count` devices; `None` if there are fewer.
fn first(spots: impl Iterator<Item = Spot>, count: u32) -> Option<Vec<Spot>> {
    let first: Vec<Spot> = spots.take(count as usize).collect();
    (first.len() == count as usize).then_some(first)
}

/// Whether parts are exclusive and of different classes.
fn apart(choice: &[PartDemand]) -> bool {
    let classes: BTreeSet<_> = choice.iter().map(|part| part.class).collect();
    classes.len() == choice.len() && choice.iter().all(|part| part.take == Take::Exclusive)
}
