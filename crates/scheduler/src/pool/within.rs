//! Free devices of reservations that have begun, for jobs of their members.

use super::device::FreeWithin;
use super::{ClaimsWithin, Pool, Spot, Vacancy};
use crate::ids::{ClassId, ReservationId};
use crate::time::Millis;
use std::collections::BTreeSet;

/// The free devices of a reservation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservedFreeDevices {
    /// The pool's stamp at which it last gained a device, or a device became free for longer.
    pub(crate) grown: u64,
    /// Free devices by class, and by the time until which the reservation's jobs may hold them beside reserved starts.
    beside_claims: BTreeSet<(ClassId, Millis, Spot)>,
    /// The same for jobs that name the reservation.
    for_named: BTreeSet<(ClassId, Millis, Spot)>,
}

impl ReservedFreeDevices {
    /// Updates a device, which was free until `old` and is free until `new`. Returns whether the reservation has gained
    /// capacity.
    pub(super) fn file(
        &mut self,
        class: ClassId,
        spot: Spot,
        old: Option<FreeWithin>,
        new: Option<FreeWithin>,
    ) -> bool {
        let mut has_grown = false;
        for (free, of) in [
            (&mut self.beside_claims, (|of| of.beside_claims) as fn(FreeWithin) -> Millis),
            (&mut self.for_named, |of| of.for_named),
        ] {
            let (old, new) = (old.map(of), new.map(of));
            if old != new {
                old.map(|until| free.remove(&(class, until, spot)));
                new.map(|until| free.insert((class, until, spot)));
            }
            has_grown |= new > old;
        }
        has_grown
    }
}

impl Pool {
    /// Returns a reservation's free devices of a class for a job that lasts until a time, those with the earliest bound
    /// first. For a job that names the reservation no claims count, else those of all jobs.
    pub(crate) fn free_within(
        &self,
        id: ReservationId,
        class: ClassId,
        until: Millis,
        is_named: bool,
    ) -> impl Iterator<Item = (Millis, Spot)> {
        let from = (class, until, Spot { node: 0, device: 0 });
        let last = (class, Millis::NEVER, Spot { node: u32::MAX, device: u32::MAX });
        let within = self.within.get(&id).into_iter();
        let free = within.flat_map(move |within| {
            let free = if is_named { &within.for_named } else { &within.beside_claims };
            free.range(from..=last)
        });
        free.inspect(|_| self.steps.count()).map(|&(_, until, spot)| (until, spot))
    }

    /// Returns until when a reservation's device is free for a job that may use it; `None` if it is not free.
    pub(crate) fn free_within_for(
        &self,
        spot: Spot,
        id: ReservationId,
        counts: ClaimsWithin,
        now: Millis,
    ) -> Option<Millis> {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        self.step();
        let window = device.windows.iter().find(|window| window.id == id)?;
        let is_free = matches!(device.filed, Vacancy::Whole(_));
        is_free.then(|| device.free_within(window, counts, now, node.drained))
    }
}
