//! Reservations: devices that are reserved for a time, for jobs of accounts and users, or for maintenance.

use super::{Scheduler, Timer};
use crate::effect::{Effect, EndCause, Refusal};
use crate::ids::{JobId, ReservationId};
use crate::input::{DrainTarget, Reservation, ReservedDevices};
use crate::job::Job;
use crate::phase::Phase;
use crate::pool::{Spot, Window};
use accord_types::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

impl ReservedDevices {
    /// Whether the two lists may have a device in common.
    #[must_use]
    pub fn meets(&self, others: &Self) -> bool {
        let (Self::Listed(own), Self::Listed(others)) = (self, others) else { return true };
        let nodes = |of: &[DrainTarget]| -> BTreeSet<_> {
            let whole =
                of.iter().filter_map(|target| if let DrainTarget::Node(id) = target { Some(*id) } else { None });
            whole.collect()
        };
        let (own_nodes, other_nodes): (BTreeSet<_>, BTreeSet<_>) = (nodes(own), nodes(others));
        let other_targets: BTreeSet<&DrainTarget> = others.iter().collect();
        let on_node = |target: &DrainTarget, nodes: &BTreeSet<accord_types::NodeId>| match target {
            DrainTarget::Node(id) => nodes.contains(id),
            DrainTarget::Device(device) => nodes.contains(&device.node),
        };
        own.iter().any(|target| other_targets.contains(target) || on_node(target, &other_nodes))
            || others.iter().any(|target| on_node(target, &own_nodes))
    }

    /// Whether the list includes a device.
    #[must_use]
    pub fn covers(&self, device: DeviceId) -> bool {
        match self {
            Self::All => true,
            Self::Listed(targets) => targets.iter().any(|target| target.covers(device)),
        }
    }
}

impl DrainTarget {
    /// Whether the target includes a device.
    #[must_use]
    pub fn covers(self, device: DeviceId) -> bool {
        match self {
            Self::Node(node) => node == device.node,
            Self::Device(own) => own == device,
        }
    }
}

impl Scheduler {
    pub(super) fn reserve(&mut self, mut reservation: Reservation, effects: &mut Vec<Effect>) {
        let name = self.reservations.get(&reservation.id).map(|(known, _)| known.name.clone());
        let before = self.remove_reservation(reservation.id);
        if reservation.ends <= self.now || reservation.ends <= reservation.starts {
            self.end_non_members(&before, effects);
            return self.end_unreserved(name, effects);
        }
        if let ReservedDevices::Listed(targets) = &mut reservation.devices {
            targets.sort_unstable();
        }
        let spots = self.spots_of(&reservation.devices);
        for &spot in &spots {
            self.pool.device_mut(spot).set_aside(Window::of(&reservation));
        }
        self.refresh_nodes(&spots);
        self.timers.insert((reservation.ends, Timer::Window(reservation.id)));
        if reservation.starts > self.now {
            self.timers.insert((reservation.starts, Timer::Window(reservation.id)));
        }
        let id = reservation.id;
        self.site_changed = true;
        self.reservations.insert(id, (reservation, spots));
        self.window_changes(id, effects);
        self.end_non_members(&before, effects);
        self.end_unreserved(name, effects);
    }

    /// Removes a reservation that is over or cancelled. Jobs on devices of other reservations may end, and so do jobs that
    /// wait for this one.
    pub(super) fn unreserve(&mut self, id: ReservationId, effects: &mut Vec<Effect>) {
        let name = self.reservations.get(&id).map(|(known, _)| known.name.clone());
        let spots = self.remove_reservation(id);
        self.end_non_members(&spots, effects);
        self.end_unreserved(name, effects);
    }

    /// Ends the jobs that wait for a reservation of a name, if there is none any more: they can't start anywhere else.
    fn end_unreserved(&mut self, name: Option<String>, effects: &mut Vec<Effect>) {
        let Some(name) = name else { return };
        if self.reservations.values().any(|(other, _)| other.name == name) {
            return;
        }
        let waiting = self.jobs.values().filter(|job| job.phase == Phase::Waiting);
        let named = waiting.filter(|job| job.request.reservation.as_ref() == Some(&name));
        for id in named.map(|job| job.id).collect::<Vec<JobId>>() {
            self.withdraw(id, EndCause::ReservationOver { name: name.clone() }, effects);
        }
    }

    /// Removes a reservation. Returns its devices.
    fn remove_reservation(&mut self, id: ReservationId) -> Vec<Spot> {
        let Some((reservation, spots)) = self.reservations.remove(&id) else { return Vec::new() };
        self.site_changed = true;
        self.open_reservations.remove(&id);
        self.timers.remove(&(reservation.starts, Timer::Window(id)));
        self.timers.remove(&(reservation.ends, Timer::Window(id)));
        for &spot in &spots {
            self.pool.device_mut(spot).windows.retain(|window| window.id != id);
        }
        self.refresh_nodes(&spots);
        self.pool.within.remove(&id);
        spots
    }

    /// Ends jobs on devices that a removed reservation has released, if another reservation there has begun and ends
    /// jobs. Until now the removed reservation may have protected the jobs.
    fn end_non_members(&mut self, spots: &[Spot], effects: &mut Vec<Effect>) {
        let mut others: BTreeMap<ReservationId, Vec<Spot>> = BTreeMap::new();
        for &spot in spots {
            for window in self.pool.device(spot).windows.iter().filter(|window| window.is_present(self.now)) {
                others.entry(window.id).or_default().push(spot);
            }
        }
        for (id, spots) in others {
            let Some((reservation, _)) = self.reservations.get(&id).filter(|(of, _)| of.end_jobs) else { continue };
            let name = reservation.name.clone();
            for job in self.non_members(reservation, &spots) {
                self.end(job, EndCause::Reserved { name: name.clone() }, effects);
            }
        }
    }

    /// Handles the begin of a reservation, which admits its members and may end other jobs, or its end.
    pub(super) fn window_changes(&mut self, id: ReservationId, effects: &mut Vec<Effect>) {
        let Some((reservation, spots)) = self.reservations.get(&id) else { return };
        if reservation.ends <= self.now {
            return self.unreserve(id, effects);
        }
        if reservation.starts > self.now {
            return;
        }
        let (name, spots) = (reservation.name.clone(), spots.clone());
        let ended = if reservation.end_jobs { self.non_members(reservation, &spots) } else { BTreeSet::new() };
        if !reservation.members.is_empty() {
            self.open_reservations.insert(id);
            self.refresh_nodes(&spots);
        }
        for job in ended {
            self.end(job, EndCause::Reserved { name: name.clone() }, effects);
        }
    }

    /// Returns the running jobs on a reservation's devices that may use neither it nor a reservation with precedence.
    fn non_members(&self, reservation: &Reservation, spots: &[Spot]) -> BTreeSet<JobId> {
        let own = Window::of(reservation);
        let has = |window: &Window, job: &Job| {
            let is_first = window.id == own.id || window.is_open(self.now) && window.has_precedence(&own);
            let reservation = self.reservations.get(&window.id).filter(|_| is_first);
            reservation.is_some_and(|(reservation, _)| self.is_for_job(reservation, job))
        };
        let mut non_members = BTreeSet::new();
        for device in spots.iter().map(|&spot| self.pool.device(spot)) {
            let jobs = device.holders.iter().filter_map(|holder| self.jobs.get(&holder.job));
            let running = jobs.filter(|job| job.phase == Phase::Running);
            let others = running.filter(|job| !device.windows.iter().any(|window| has(window, job)));
            non_members.extend(others.map(|job| job.id));
        }
        non_members
    }

    /// Returns the known devices of a reservation.
    pub(super) fn spots_of(&self, devices: &ReservedDevices) -> Vec<Spot> {
        let mut spots: Vec<Spot> = match devices {
            ReservedDevices::All => (0..).zip(&self.pool.nodes).flat_map(|(at, _)| self.pool.spots_on(at)).collect(),
            ReservedDevices::Listed(targets) => {
                targets.iter().flat_map(|&target| self.spots_of_target(target)).collect()
            }
        };
        spots.sort_unstable();
        spots.dedup();
        spots
    }

    fn spots_of_target(&self, target: DrainTarget) -> Vec<Spot> {
        match target {
            DrainTarget::Node(id) => self.pool.node_at(id).map_or_else(Vec::new, |at| self.pool.spots_on(at).collect()),
            DrainTarget::Device(id) => self.pool.spot(id).into_iter().collect(),
        }
    }

    /// Whether a reservation has the device now.
    #[must_use]
    pub fn is_reserved(&self, device: DeviceId) -> bool {
        self.reservation_of(device).is_some()
    }

    /// Returns the reservation that has a device now; of several, the one that ends last.
    #[must_use]
    pub fn reservation_of(&self, device: DeviceId) -> Option<&Reservation> {
        if self.reservations.is_empty() {
            return None;
        }
        let windows = &self.pool.device(self.pool.spot(device)?).windows;
        let present = windows.iter().filter(|window| window.starts <= self.now && self.now < window.ends);
        let last = present.max_by_key(|window| (window.ends, window.id))?;
        self.reservations.get(&last.id).map(|(reservation, _)| reservation)
    }

    /// Refuses a job that requests a reservation which does not exist, or which the user may not use.
    pub(super) fn check_reservation(&self, name: &str, user: &str, account: u32) -> Result<(), Refusal> {
        let mut is_known = false;
        for (reservation, _) in self.reservations.values().filter(|(reservation, _)| reservation.name == name) {
            let is_user = reservation.members.users.iter().any(|member| member == user);
            if is_user || self.is_for_account(reservation, account) {
                return Ok(());
            }
            is_known = true;
        }
        Err(Refusal::Reservation { name: name.to_owned(), is_known })
    }

    /// Whether a job may use a reservation, by its account or its user.
    pub(super) fn is_for_job(&self, reservation: &Reservation, job: &Job) -> bool {
        reservation.members.users.contains(&job.user) || self.is_for_account(reservation, job.account)
    }

    /// Whether a reservation includes an account or an ancestor.
    pub(super) fn is_for_account(&self, reservation: &Reservation, account: u32) -> bool {
        let named = |name: &String| self.accounts.named(name);
        reservation.members.accounts.iter().filter_map(named).any(|at| self.accounts.get(account).path.contains(&at))
    }

    /// Adds the reservations of a node to its new devices.
    pub(super) fn reserve_devices_of(&mut self, at: u32) {
        let node = self.pool.node(at).id;
        for (reservation, spots) in self.reservations.values_mut() {
            let covers = |device: DeviceId| match &reservation.devices {
                ReservedDevices::All => true,
                ReservedDevices::Listed(targets) => {
                    let is_listed = |target| targets.binary_search(&target).is_ok();
                    is_listed(DrainTarget::Device(device)) || is_listed(DrainTarget::Node(node))
                }
            };
            let window = Window::of(reservation);
            for spot in self.pool.spots_on(at).collect::<Vec<_>>() {
                let device = self.pool.device(spot);
                let is_new = device.windows.iter().all(|known| known.id != reservation.id);
                self.pool.step();
                if is_new && covers(self.pool.device_id(spot)) {
                    spots.push(spot);
                    self.pool.device_mut(spot).set_aside(window);
                }
            }
        }
    }

    fn refresh_nodes(&mut self, spots: &[Spot]) {
        let nodes: BTreeSet<u32> = spots.iter().map(|spot| spot.node).collect();
        for node in nodes {
            self.pool.refresh(self.now, node);
            self.pool.touch_claims(node);
        }
    }
}
