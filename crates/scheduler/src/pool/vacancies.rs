//! The capacity of devices for a job, and its duration.

use super::{Pool, Spot, Vacancy};
use crate::amount::Amount;
use crate::effect::SlipCause;
use crate::ids::{ClassId, JobId, ReservationId};
use crate::time::Millis;

impl Pool {
    /// Returns the number of working devices of a set of classes, and of those that long jobs hold.
    pub(crate) fn in_use(&self, classes: u128) -> (u64, u64) {
        let members = self.index.iter().enumerate().filter(|(at, _)| classes >> at & 1 == 1);
        members.fold((0, 0), |(sound, long), (_, index)| (sound + index.sound, long + index.long))
    }

    /// Returns the charge for a device of a node, of which a job also takes cores.
    pub(crate) fn charge_with_cores(&self, charge: u64, cores: u64, class: ClassId, node: u32) -> u64 {
        if cores == 0 {
            return charge;
        }
        let node = self.node(node);
        let devices = node.devices.iter().filter(|device| device.class == class && !device.absent).count() as u64;
        crate::arithmetic::charge_with_cores(charge, cores, node.host.cores, devices)
    }

    /// Returns the number of free devices of a class on a node, with or without a bound.
    pub(crate) fn free_on(&self, node: u32, class: ClassId) -> u64 {
        let devices = self.node(node).devices.iter().filter(|device| device.class == class);
        devices.filter(|device| matches!(device.filed, Vacancy::Whole(_))).count() as u64
    }

    /// Returns the number of devices of a class that are free until a time.
    pub(crate) fn free_until(&self, class: ClassId, until: Millis) -> u64 {
        let index = &self.index[class.index()];
        let bounded = index.bounded_devices.range(until..).inspect(|_| self.step());
        index.open + bounded.map(|(_, spots)| spots.len() as u64).sum::<u64>()
    }

    /// Returns the capacity of a device for a job that lasts until `until`; `None` if the job may not stay so long.
    pub(crate) fn space(&self, spot: Spot, until: Millis, with_bounded: bool) -> Option<(Amount, bool)> {
        let device = self.device(spot);
        match device.filed {
            Vacancy::Whole(free_until) if free_until == Millis::NEVER || with_bounded && until <= free_until => {
                Some((Amount { milli: crate::amount::WHOLE, memory: device.memory }, true))
            }
            Vacancy::Part(left, free_until) if until <= free_until => Some((left, false)),
            _ => None,
        }
    }

    /// Whether a device is free for a job from now until a time. Only reserved starts before the job's own count.
    pub(crate) fn is_free_for(&self, spot: Spot, job: JobId, now: Millis, until: Millis) -> bool {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        let own = device.claims.iter().find(|claim| claim.job == job).map_or(Millis::NEVER, |claim| claim.starts);
        let before = device.claims.iter().filter(|claim| claim.job != job && claim.starts <= own);
        let claims = before.map(|claim| claim.starts);
        let windows = device.windows.iter().filter(|window| window.ends > now).map(|window| window.starts);
        node.up
            && device.holders.is_empty()
            && matches!(device.filed, Vacancy::Whole(_))
            && claims.chain(windows).chain(device.drained).chain(node.drained).all(|from| until <= from)
    }

    /// Whether a device is reserved before a time for others than the members of the reservations `own`.
    pub(crate) fn is_set_aside(
        &self,
        spot: Spot,
        now: Millis,
        until: Millis,
        own: impl Fn(ReservationId) -> bool,
    ) -> bool {
        let node = self.node(spot.node);
        let device = &node.devices[spot.device as usize];
        let open = device.windows.iter().filter(|window| window.is_open(now) && own(window.id));
        let first = open.reduce(|one, other| if other.has_precedence(one) { other } else { one });
        let others = device.windows.iter().filter(|window| window.ends > now && !own(window.id));
        let windows = others.map(|window| first.map_or(window.starts, |first| window.preempts_at(first)));
        let limits = device.claims.iter().map(|claim| claim.starts).chain(windows);
        limits.chain(device.drained).chain(node.drained).any(|from| from < until)
    }

    /// Whether a job holds a device.
    pub(crate) fn is_held(&self, spot: Spot) -> bool {
        !self.device(spot).holders.is_empty()
    }

    /// Returns the reason why a claim of `job` on a device can't be kept, if any.
    pub(crate) fn breaks(&self, spot: Spot, job: JobId) -> Option<SlipCause> {
        let node = self.node(spot.node);
        if !node.up {
            return Some(SlipCause::Devices);
        }
        let device = &node.devices[spot.device as usize];
        let own = device.claims.iter().find(|claim| claim.job == job)?;
        device.breaks(own, node.drained)
    }
}
