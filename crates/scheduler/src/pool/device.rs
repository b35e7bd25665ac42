//! A device, its holders, and the limits of its use.

use super::host_resources::HostResources;
use crate::amount::{Amount, WHOLE};
use crate::class::DeviceClass;
use crate::effect::SlipCause;
use crate::ids::{ClassId, JobId, ReservationId};
use crate::input::Reservation;
use crate::time::{Millis, RELEASE_EXPECTED_MS};

/// A device, by the positions of its node and within it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Spot {
    pub(crate) node: u32,
    pub(crate) device: u32,
}

/// A job on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    pub(crate) job: JobId,
    pub(crate) amount: Amount,
    pub(crate) exclusive: bool,
    /// Whether the job's limit is longer than the quantum.
    pub(crate) long: bool,
    /// The end for planning; [`Millis::NEVER`] for a lease without a limit.
    pub(crate) ends: Millis,
    /// The resources of the node that it takes beside the device.
    pub(crate) host_resources: HostResources,
}

/// A reserved start on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub(crate) job: JobId,
    pub(crate) starts: Millis,
    /// The end of the job's limit after that start.
    pub(crate) ends: Millis,
    /// The end of the lease, which a reservation may cut short. Without a limit it is the end of the first quantum.
    pub(crate) lease_ends: Millis,
    /// The resources of the node that the job takes beside the device.
    pub(crate) host_resources: HostResources,
}

/// A reservation on a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Window {
    pub(crate) starts: Millis,
    pub(crate) ends: Millis,
    /// Whether it is for accounts or users, not for maintenance.
    pub(crate) has_members: bool,
    /// Its number in the order of creation.
    pub(crate) created: u64,
    pub(crate) id: ReservationId,
}

impl Window {
    pub(crate) fn of(reservation: &Reservation) -> Self {
        let Reservation { id, starts, ends, created, .. } = *reservation;
        Self { starts, ends, has_members: !reservation.members.is_empty(), created, id }
    }

    /// Whether jobs of its members may start on the device now.
    pub(crate) fn is_open(&self, now: Millis) -> bool {
        self.has_members && self.is_present(now)
    }

    pub(crate) fn is_present(&self, now: Millis) -> bool {
        self.starts <= now && now < self.ends
    }

    /// Whether a job that starts at a time does not overlap it.
    pub(crate) fn leaves(&self, starts: Millis, lease_ms: u64) -> bool {
        self.ends <= starts || starts.plus(lease_ms) <= self.starts
    }

    /// Whether it takes precedence over another one: maintenance first, then the one created earlier.
    pub(crate) fn has_precedence(&self, other: &Self) -> bool {
        let place = |of: &Self| (of.has_members, of.created, of.id);
        place(self) < place(other)
    }

    /// Returns when it takes the device from jobs of another reservation.
    pub(crate) fn preempts_at(&self, other: &Self) -> Millis {
        match (self.has_precedence(other), self.ends > other.ends) {
            (true, _) => self.starts,
            (false, true) => self.starts.max(other.ends),
            (false, false) => Millis::NEVER,
        }
    }
}

/// The reserved starts that keep a job of a reservation's members from one of its devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimsWithin {
    /// Those of all jobs.
    All,
    /// Those of all jobs but the job itself.
    OfOthers(JobId),
    /// None: the job names the reservation, so that it can't start anywhere else.
    None,
}

/// The times until which a device of a reservation that has begun is free for its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FreeWithin {
    /// The claim on jobs that leave reserved starts of others alone.
    pub(super) beside_claims: Millis,
    /// The claim on jobs that name the reservation, to which reserved starts after the reservation yield.
    pub(super) for_named: Millis,
}

/// The free capacity of a device for new jobs, by which it is indexed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vacancy {
    /// Lost, faulty, or exclusively held.
    None,
    /// Not held by a job, and free until the given time.
    Whole(Millis),
    /// Shared with this capacity left, and free until the given time.
    Part(Amount, Millis),
}

/// A device.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: u32,
    pub(crate) class: ClassId,
    /// Bytes of memory for its first process.
    pub(crate) memory: u64,
    /// Bytes of the driver's share for each further process.
    pub(crate) context: u64,
    pub(crate) holders: Vec<Holder>,
    /// Whether it is in quarantine, or in use by a program without a job.
    pub(crate) faulty: bool,
    /// Whether its node no longer describes it.
    pub(crate) absent: bool,
    /// The deadline of its own drain.
    pub(crate) drained: Option<Millis>,
    pub(crate) claims: Vec<Claim>,
    /// Its reservations, sorted so that the lists of two devices can be compared.
    pub(crate) windows: Vec<Window>,
    /// The vacancy in the index.
    pub(super) filed: Vacancy,
    pub(super) filed_available: Millis,
    /// The reservations under which the index has that time.
    pub(super) filed_windows: Vec<Window>,
    pub(super) filed_use: Use,
    pub(super) filed_within: Vec<(ReservationId, FreeWithin)>,
}

/// The count of a device for guarantees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Use {
    /// Whether it works and is not drained.
    pub(super) sound: bool,
    /// Whether it works and a job with a limit longer than the quantum holds it.
    pub(super) long: bool,
}

impl Device {
    pub(super) fn new(ordinal: u32, class: ClassId, of: &DeviceClass) -> Self {
        Self {
            ordinal,
            class,
            memory: of.memory,
            context: of.context,
            holders: Vec::new(),
            faulty: false,
            absent: false,
            drained: None,
            claims: Vec::new(),
            windows: Vec::new(),
            filed: Vacancy::None,
            filed_available: Millis::NEVER,
            filed_windows: Vec::new(),
            filed_use: Use::default(),
            filed_within: Vec::new(),
        }
    }

    /// Adds a reservation.
    pub(crate) fn set_aside(&mut self, window: Window) {
        self.windows.push(window);
        self.windows.sort_unstable();
    }

    pub(super) fn usage(&self, node_drained: Option<Millis>) -> Use {
        let sound = !self.faulty && !self.absent && self.drained.is_none() && node_drained.is_none();
        Use { sound, long: sound && self.holders.iter().any(|holder| holder.long) }
    }

    /// Returns the capacity left for another job. `None` if a holder is exclusive, nothing is left, or the driver's
    /// share for another process does not fit.
    pub(crate) fn left(&self) -> Option<Amount> {
        let mut left = Amount { milli: WHOLE, memory: self.memory };
        for holder in &self.holders {
            if holder.exclusive {
                return None;
            }
            left.milli = left.milli.saturating_sub(holder.amount.milli);
            left.memory = left.memory.checked_sub(holder.amount.memory)?.checked_sub(self.context)?;
        }
        (left != Amount::default()).then_some(left)
    }

    /// Returns the first time at which a new job must have left the device.
    pub(super) fn free_until(&self, now: Millis, node_drained: Option<Millis>) -> Millis {
        let claims = self.claims.iter().map(|claim| claim.starts);
        let windows = self.windows.iter().filter(|window| window.ends > now).map(|window| window.starts);
        claims.chain(windows).chain(self.drained).chain(node_drained).min().unwrap_or(Millis::NEVER)
    }

    /// Returns the first time at which a job of a reservation's members must have left the device.
    pub(super) fn free_within(
        &self,
        own: &Window,
        counts: ClaimsWithin,
        now: Millis,
        node_drained: Option<Millis>,
    ) -> Millis {
        let counted = |claim: &&Claim| match counts {
            ClaimsWithin::All => true,
            ClaimsWithin::OfOthers(job) => claim.job != job,
            ClaimsWithin::None => false,
        };
        let claims = self.claims.iter().filter(counted).map(|claim| claim.starts);
        let others = self.windows.iter().filter(|window| window.id != own.id && window.ends > now);
        let windows = others.map(|window| window.preempts_at(own));
        claims.chain(windows).chain(self.drained).chain(node_drained).min().unwrap_or(Millis::NEVER)
    }

    /// Returns the reservations for whose jobs the device is free now, each with the times until which it is.
    pub(super) fn open_windows(&self, now: Millis, node_drained: Option<Millis>) -> Vec<(ReservationId, FreeWithin)> {
        if self.faulty || self.absent || !self.holders.is_empty() {
            return Vec::new();
        }
        let open = self.windows.iter().filter(|window| window.is_open(now));
        let until = |window: &Window, counts| self.free_within(window, counts, now, node_drained);
        let free = |window: &Window| FreeWithin {
            beside_claims: until(window, ClaimsWithin::All),
            for_named: until(window, ClaimsWithin::None),
        };
        open.map(|window| (window.id, free(window))).collect()
    }

    /// Returns the time of [`Device::available`] in the index.
    pub(crate) fn filed_time(&self) -> Millis {
        self.filed_available
    }

    pub(super) fn vacancy(&self, now: Millis, node_drained: Option<Millis>) -> Vacancy {
        if self.faulty || self.absent {
            return Vacancy::None;
        }
        let until = self.free_until(now, node_drained);
        if self.holders.is_empty() {
            return Vacancy::Whole(until);
        }
        self.left().map_or(Vacancy::None, |left| Vacancy::Part(left, until))
    }

    /// Returns the time from which on only reservations may prevent a new job.
    pub(super) fn available(&self, node_drained: Option<Millis>) -> Millis {
        if self.faulty || self.absent || self.drained.is_some() || node_drained.is_some() {
            return Millis::NEVER;
        }
        let holders = self.holders.iter().map(|holder| holder.ends);
        let claims = self.claims.iter().map(|claim| claim.ends);
        holders.chain(claims).max().unwrap_or(Millis(0))
    }

    /// Returns the reason why a claim can't be kept, if any. The device may be drained before its end, be reserved
    /// meanwhile, or be held for longer.
    pub(super) fn breaks(&self, claim: &Claim, node_drained: Option<Millis>) -> Option<SlipCause> {
        let deadline = self.drained.into_iter().chain(node_drained).min().unwrap_or(Millis::NEVER);
        let set_aside = self.faulty
            || self.absent
            || (deadline != Millis::NEVER && claim.ends > deadline)
            || self.windows.iter().any(|window| window.starts < claim.lease_ends && claim.starts < window.ends);
        if set_aside {
            return Some(SlipCause::Devices);
        }
        let latest = claim.starts.plus(RELEASE_EXPECTED_MS);
        let held = self.holders.iter().any(|holder| holder.ends > latest);
        held.then_some(SlipCause::Leases)
    }
}
