//! Free devices of reservations that have begun, for jobs of their members.

use super::{Pool, Spot, Vacancy};
use crate::ids::{ClassId, JobId, ReservationId};
use crate::time::Millis;
use std::collections::BTreeSet;

/// The free devices of a reservation.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservedFreeDevices {
    /// The pool's stamp at which it last gained a device, or a device became free for longer.
    pub(crate) grown: u64,
    /// Free devices by class, and by the time until which the reservation's jobs may hold them.
    free: BTreeSet<(ClassId, Millis, Spot)>,
}

impl ReservedFreeDevices {
    /// Updates a device, which was free until `old` and is free until `new`. Returns whether the reservation has gained
    /// capacity.
    pub(super) fn file(&mut self, class: ClassId, spot: Spot, old: Option<Millis>, new: Option<Millis>) -> bool {
        if old == new {
            return false;
        }
        old.map(|until| self.free.remove(&(class, until, spot)));
        new.map(|until| self.free.insert((class, until, spot)));
        new > old
    }
}

impl Pool {
    /// Returns a reservation's free devices of a class for a job that lasts until a time, those with the earliest bound
    /// first.
    pub(crate) fn free_within(
        &self,
        id: ReservationId,
        class: ClassId,
        until: Millis,
    ) -> impl Iterator<Item = (Millis, Spot)> {
        let from = (class, until, Spot { node: 0, device: 0 });
        let last = (class, Millis::NEVER, Spot { node: u32::MAX, device: u32::MAX });
        let free = self.within.get(&id).into_iter().flat_map(move |within| within.free.range(from..=last));
        free.inspect(|_| self.steps.count()).map(|&(_, until, spot)| (until, spot))
    }

    /// Returns until when a reservation's device is free for a job that may use it; `None` if it is not free.
    pub(crate) fn free_within_for(&self, spot: Spot, id: ReservationId, job: JobId, now: Millis) -> Option<Millis> {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        self.step();
        let window = device.windows.iter().find(|window| window.id == id)?;
        let is_free = matches!(device.filed, Vacancy::Whole(_));
        is_free.then(|| device.free_within(window, Some(job), now, node.drained))
    }
}
