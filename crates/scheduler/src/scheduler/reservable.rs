//! The devices for a new reservation, and its conflicts.

use super::Scheduler;
use crate::demand::PartDemand;
use crate::ids::JobId;
use crate::input::{DrainTarget, Reservation, ReservedDevices};
use crate::phase::Phase;
use crate::pool::{Device, Node, Spot, Window};
use crate::request::{Locality, Request, Take};
use crate::shapes::{Shape, ShapeKey};
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A reservation to be created. A request gives its devices, or else `of`.
#[derive(Clone, Copy, Debug)]
pub struct Reservable<'a> {
    /// Its members, its first occurrence, and its devices without a request.
    pub of: &'a Reservation,
    /// All occurrences, including the first.
    pub times: &'a [(Millis, Millis)],
}

/// The reason why a request yields no devices to reserve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TooFew {
    /// A word or field of the request does not describe devices to reserve.
    Word(&'static str),
    /// Too few devices fit, without those of jobs whose limits reach into the reservation.
    Devices {
        /// The model of the first part.
        model: String,
        /// The number that is needed.
        needed: u64,
        /// The number that fits.
        there: u64,
        /// The number that would fit in addition if the jobs that hold the devices ended.
        held: u64,
    },
    /// No known class of devices fits.
    NoSuchDevices,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => {
                write!(f, "{word} does not say which devices are reserved: leave it out of the reservation's request")
            }
            Self::Devices { model, needed, there, held } => {
                let model = if model.is_empty() { "such devices" } else { model };
                write!(f, "{needed} of {model} are to be reserved, and {there} can be at that time")?;
                if *held > 0 {
                    write!(
                        f,
                        "; {held} more are held by jobs whose limits reach into it: --end ends these at its start"
                    )
                } else {
                    f.write_str("; reserve fewer, or at another time")
                }
            }
            Self::NoSuchDevices => f.write_str("the cluster has no such devices; see `accord info`"),
        }
    }
}

impl Scheduler {
    /// Chooses devices for a reservation, on the fewest nodes. Devices whose jobs end in time come first.
    ///
    /// # Errors
    /// Returns [`TooFew`] if no alternative of the request fits. Devices of jobs whose leases reach into the
    /// reservation count only if the reservation ends them.
    pub fn choose_reserved(&self, request: &Request, wanted: Reservable<'_>) -> Result<ReservedDevices, TooFew> {
        if let Some(word) = superfluous(request) {
            return Err(TooFew::Word(word));
        }
        let plain = Request { locality: Locality::OwnFirst, ..request.clone() };
        let key = ShapeKey { request: Arc::new(plain), limit_ms: None, labels: Vec::new(), own: None };
        let shape = Shape::new(key, &self.pool);
        let mut failed = TooFew::NoSuchDevices;
        for choice in &shape.choices {
            match self.choose(&shape, choice, wanted) {
                Ok(spots) => {
                    let devices = spots.into_iter().map(|spot| DrainTarget::Device(self.pool.device_id(spot)));
                    return Ok(ReservedDevices::Listed(devices.collect()));
                }
                Err(error) if failed == TooFew::NoSuchDevices => failed = error,
                Err(_) => {}
            }
        }
        Err(failed)
    }

    /// Returns devices for one choice of classes.
    fn choose(&self, shape: &Shape, choice: &[PartDemand], wanted: Reservable<'_>) -> Result<BTreeSet<Spot>, TooFew> {
        let mut taken = BTreeSet::new();
        for part in choice {
            let (mut free, mut held): (BTreeMap<u32, Vec<Spot>>, BTreeMap<u32, Vec<Spot>>) = Default::default();
            for (at, node) in (0..).zip(&self.pool.nodes) {
                if shape.nodes.as_ref().is_some_and(|nodes| !nodes.contains(at)) {
                    continue;
                }
                for spot in self.pool.spots_on(at).filter(|spot| !taken.contains(spot)) {
                    let device = self.pool.device(spot);
                    if device.class != part.class || !is_reservable(node, device, wanted) {
                        continue;
                    }
                    let of = if self.reaching_on(device, wanted.of).next().is_some() { &mut held } else { &mut free };
                    of.entry(at).or_default().push(spot);
                }
            }
            let held_count: usize = held.values().map(Vec::len).sum();
            let there: usize = free.values().map(Vec::len).sum();
            if wanted.of.end_jobs {
                held.into_iter().for_each(|(node, spots)| free.entry(node).or_default().extend(spots));
            }
            let needed = part.count.least as usize;
            let found = match shape.key.request.nodes {
                Some(nodes) => on_nodes(free, nodes as usize, needed / nodes as usize),
                None => on_fewest(free, needed),
            };
            let too_few = || TooFew::Devices {
                model: self.pool.classes[part.class.index()].model.clone(),
                needed: needed as u64,
                there: there as u64,
                held: if wanted.of.end_jobs { 0 } else { held_count as u64 },
            };
            taken.extend(found.ok_or_else(too_few)?);
        }
        Ok(taken)
    }

    /// Returns the name of a reservation that conflicts with a new one on given devices.
    #[must_use]
    pub fn in_the_way(&self, wanted: Reservable<'_>) -> Option<&str> {
        let spots = self.spots_of(&wanted.of.devices);
        let windows = spots.iter().flat_map(|&spot| &self.pool.device(spot).windows);
        let window = windows.into_iter().find(|window| is_in_the_way(window, wanted))?;
        self.reservations.get(&window.id).map(|(reservation, _)| reservation.name.as_str())
    }

    /// Returns the running jobs that may not use a reservation and whose leases reach into its first occurrence.
    #[must_use]
    pub fn reaching(&self, reservation: &Reservation) -> BTreeSet<JobId> {
        let spots = self.spots_of(&reservation.devices);
        spots.iter().flat_map(|&spot| self.reaching_on(self.pool.device(spot), reservation)).collect()
    }

    fn reaching_on<'a>(&'a self, device: &'a Device, reservation: &'a Reservation) -> impl Iterator<Item = JobId> + 'a {
        let reaches = move |id: &JobId| {
            let job = self.jobs.get(id).filter(|job| job.phase == Phase::Running);
            job.is_some_and(|job| job.ends > reservation.starts && !self.is_for_job(reservation, job))
        };
        device.holders.iter().map(|holder| holder.job).filter(reaches)
    }
}

/// Whether a device works, is not drained, and is free of conflicting reservations.
fn is_reservable(node: &Node, device: &Device, wanted: Reservable<'_>) -> bool {
    let sound = node.up && !device.faulty && !device.absent && device.drained.is_none() && node.drained.is_none();
    sound && !device.windows.iter().any(|window| is_in_the_way(window, wanted))
}

/// Whether another reservation conflicts with a new one. Maintenance may overlap any reservation.
fn is_in_the_way(window: &Window, wanted: Reservable<'_>) -> bool {
    let at_one_time = |&(starts, ends): &(Millis, Millis)| window.starts < ends && starts < window.ends;
    !wanted.of.members.is_empty() && window.id != wanted.of.id && wanted.times.iter().any(at_one_time)
}

/// Returns a word of a request that does not describe devices to reserve.
fn superfluous(request: &Request) -> Option<&'static str> {
    let parts = || request.alternatives.iter().flat_map(|alternative| &alternative.parts);
    let words = [
        ("a range", parts().any(|part| part.count.least != part.count.most)),
        ("a share or memory", parts().any(|part| part.take != Take::Exclusive)),
        ("cores", parts().any(|part| part.cores > 0)),
        ("ram", parts().any(|part| part.host_memory > 0)),
        ("per-rank", request.per_rank),
        ("local", request.locality == Locality::Local),
        ("near", request.locality == Locality::Near),
        ("spread", request.locality == Locality::Spread),
        ("limit", request.limit_ms.is_some()),
        ("wait", request.wait_ms.is_some()),
        ("priority", request.priority != 0),
        ("account", request.account.is_some()),
        ("reservation", request.reservation.is_some()),
    ];
    words.into_iter().find(|(_, is_there)| *is_there).map(|(word, _)| word)
}

/// Returns `count` devices, from the nodes with the most, so that few nodes are used.
fn on_fewest(by_node: BTreeMap<u32, Vec<Spot>>, count: usize) -> Option<Vec<Spot>> {
    let mut nodes: Vec<Vec<Spot>> = by_node.into_values().collect();
    nodes.sort_by_key(|spots| std::cmp::Reverse(spots.len()));
    let found: Vec<Spot> = nodes.into_iter().flatten().take(count).collect();
    (found.len() == count).then_some(found)
}

/// Returns `each` devices on each of `nodes` nodes.
fn on_nodes(by_node: BTreeMap<u32, Vec<Spot>>, nodes: usize, each: usize) -> Option<Vec<Spot>> {
    let enough: Vec<Vec<Spot>> = by_node.into_values().filter(|spots| spots.len() >= each).take(nodes).collect();
    let is_enough = enough.len() == nodes;
    is_enough.then(|| enough.into_iter().flat_map(|spots| spots.into_iter().take(each)).collect())
}
