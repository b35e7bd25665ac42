//! Creates and deletes reservations, after checking for conflicts.

use super::allocations::Allocations;
use super::calendar::{Calendar, Occurrence};
use super::new_reservation::{NewReservation, ReservedTarget};
use super::reservation_table::{RESERVATIONS_MAX, ReservationRecord, scheduler_time};
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::request::words::is_name;
use accord_scheduler::{DrainTarget, JobId, Reservable, Reservation, ReservedDevices, TextError};
use accord_telemetry::log::AUDIT;
use accord_types::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// Longest duration of a reservation, in milliseconds.
const LASTS_MAX_MS: u64 = 366 * 86_400_000;
/// Longest time until a reservation's first start, in milliseconds.
const AHEAD_MAX_MS: u64 = 3_660 * 86_400_000;
/// Most conflicting jobs that an error names.
const JOBS_NAMED_MAX: usize = 8;

/// The reason for refusing to create or delete a reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// The request is malformed.
    Malformed(String),
    /// A node, device, account or reservation does not exist.
    Unknown(String),
    /// Jobs or other reservations are in the way.
    InTheWay(String),
}

/// A reservation, for tools.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservationView {
    /// Its name.
    pub name: String,
    /// The administrator who created it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// A description of its devices.
    pub what: String,
    /// Its devices as names of nodes with ordinals; no ordinals stand for the whole node, an empty list for the
    /// cluster.
    pub devices: Vec<(String, Vec<u32>)>,
    /// Accounts that may use it.
    pub accounts: Vec<String>,
    /// Users that may use it.
    pub users: Vec<String>,
    /// Whether other jobs are ended at its start.
    pub end_jobs: bool,
    /// Whether it repeats each week.
    pub weekly: bool,
    /// The current or next start by the wall clock.
    pub starts_unix_ms: u64,
    /// The end of this occurrence.
    pub ends_unix_ms: u64,
    /// The start with offset and zone.
    pub starts: String,
    /// The end with offset and zone.
    pub ends: String,
}

impl Allocations {
    /// Recomputes the occurrences of reservations if they are due.
    pub(super) fn check_reservations(&mut self) {
        if self.reservations.due().is_some_and(|due| due <= self.now) {
            self.plan_reservations();
        }
    }

    pub(super) fn plan_reservations(&mut self) {
        let clock = self.books().clock(self.now);
        let inputs = self.reservations.plan(self.now, clock.unix_ms);
        self.inputs.extend(inputs);
    }
}

impl Cluster {
    /// Checks a new reservation, and chooses its devices.
    ///
    /// # Errors
    /// Returns the error of the request, or the conflict.
    pub fn check_reservation(&self, now: Millis, mut new: NewReservation) -> Result<NewReservation, ReserveError> {
        let unix_ms = self.clock(now).unix_ms;
        if let ReservedTarget::Listed(names) = &mut new.devices {
            names.sort();
            names.dedup();
            // Single devices of a node that is listed as a whole are redundant.
            let whole = names.iter().filter(|(_, ordinal)| ordinal.is_none()).map(|(node, _)| node.clone());
            let whole: BTreeSet<String> = whole.collect();
            names.retain(|(node, ordinal)| ordinal.is_none() || !whole.contains(node));
        }
        let calendar = self.check_names(&new)?;
        let ahead = calendar.ahead(unix_ms);
        let Some(first) = ahead.first() else {
            let text = calendar.text(unix_ms);
            return Err(ReserveError::Malformed(format!("the reservation would be over: it is {text}")));
        };
        if first.starts.saturating_sub(unix_ms) > AHEAD_MAX_MS {
            return Err(ReserveError::Malformed("a reservation begins within ten years".to_owned()));
        }
        let at = |unix: u64| accord_scheduler::Millis(scheduler_time(now, unix_ms, unix).0);
        let times: Vec<_> = ahead.iter().map(|of: &Occurrence| (at(of.starts), at(of.ends))).collect();
        let scheduler = self.scheduler();
        let mut of = self.of_new(&new, (Millis(at(first.starts).0), Millis(at(first.ends).0)))?;
        if let ReservedTarget::Request(text) = &new.devices {
            let request = text.parse().map_err(|error: TextError| ReserveError::Malformed(error.to_string()))?;
            let chosen = scheduler.choose_reserved(&request, Reservable { of: &of, times: &times });
            of.devices = chosen.map_err(|why| ReserveError::InTheWay(why.to_string()))?;
            new.devices = self.named_targets(&of.devices);
        }
        let near = scheduler.in_the_way(Reservable { of: &of, times: &times }).map(str::to_owned);
        if let Some(other) = near.or_else(|| self.meeting(&of, &calendar, unix_ms)) {
            return Err(ReserveError::InTheWay(format!(
                "the reservation {other} has some of these devices at that time; choose other devices or another time, or delete it"
            )));
        }
        let reaching: Vec<JobId> = scheduler.reaching(&of).into_iter().collect();
        if !reaching.is_empty() && !new.end_jobs {
            let mut jobs: Vec<String> = reaching.iter().take(JOBS_NAMED_MAX).map(JobId::to_string).collect();
            if reaching.len() > JOBS_NAMED_MAX {
                jobs.push(format!("{} more", reaching.len() - JOBS_NAMED_MAX));
            }
            let (noun, verb) = if reaching.len() == 1 { ("job", "reaches") } else { ("jobs", "reach") };
            return Err(ReserveError::InTheWay(format!(
                "the limit of running {noun} {} {verb} into the reservation; begin later, or end what is left at its start (--end)",
                jobs.join(", ")
            )));
        }
        Ok(new)
    }

    /// Returns the name of a reservation with members that conflicts with `of` at any future time.
    fn meeting(&self, of: &Reservation, calendar: &Calendar, unix_ms: u64) -> Option<String> {
        let mut others = self.allocations.reservations.after("").filter(|_| !of.members.is_empty());
        let meets = |(record, other): &(&ReservationRecord, &Calendar)| {
            calendar.meets(other, unix_ms) && of.devices.meets(&record.devices.clone().into())
        };
        others.find(meets).map(|(record, _)| record.name.clone())
    }

    fn check_names(&self, new: &NewReservation) -> Result<Calendar, ReserveError> {
        let table = &self.allocations.reservations;
        let name = &new.name;
        if !is_name(name) {
            let form = "it has letters, digits, '.', '_' and '-'";
            return Err(ReserveError::Malformed(format!("{name:?} can't name a reservation: {form}")));
        }
        if table.get(name).is_some() {
            let delete = format!("accord reservation delete {name}");
            return Err(ReserveError::InTheWay(format!(
                "there is a reservation {name} already; delete it first: {delete}"
            )));
        }
        if table.len() >= RESERVATIONS_MAX {
            let cause = format!("there are {RESERVATIONS_MAX} reservations, the most that there may be; delete one");
            return Err(ReserveError::InTheWay(cause));
        }
        let policy = &self.allocations.in_effect.policy;
        if let Some(unknown) = new.accounts.iter().find(|account| policy.core.account(account).is_none()) {
            return Err(ReserveError::Unknown(format!("the policy has no account {unknown:?}")));
        }
        if new.lasts_ms == 0 || new.lasts_ms > LASTS_MAX_MS {
            return Err(ReserveError::Malformed(
                "a reservation lasts a year at most, and ends after its start".to_owned(),
            ));
        }
        Calendar::new(&new.first, &new.zone, new.lasts_ms, new.weekly).map_err(ReserveError::Malformed)
    }

    /// Returns the reservation for the scheduler, without the devices of a request.
    fn of_new(&self, new: &NewReservation, times: (Millis, Millis)) -> Result<Reservation, ReserveError> {
        let devices = self.devices_of(&new.devices)?;
        let id = self.allocations.reservations.next_id();
        Ok(Reservation { devices, ..record_of(new, &ReservedDevices::All).at(id, times) })
    }

    /// Returns the devices of a reservation by number; none for a request.
    fn devices_of(&self, devices: &ReservedTarget) -> Result<ReservedDevices, ReserveError> {
        Ok(match devices {
            ReservedTarget::All => ReservedDevices::All,
            ReservedTarget::Request(_) => ReservedDevices::Listed(Vec::new()),
            ReservedTarget::Listed(names) => {
                let targets = names.iter().map(|(name, ordinal)| self.target(name, *ordinal));
                ReservedDevices::Listed(targets.collect::<Result<_, _>>()?)
            }
        })
    }

    fn target(&self, name: &str, ordinal: Option<u32>) -> Result<DrainTarget, ReserveError> {
        let node = self.node_named(name).ok_or_else(|| ReserveError::Unknown(format!("there is no node {name}")))?;
        let Some(ordinal) = ordinal else { return Ok(DrainTarget::Node(node.id)) };
        match node.device(ordinal) {
            Some(_) => Ok(DrainTarget::Device(DeviceId { node: node.id, ordinal })),
            None => Err(ReserveError::Unknown(format!("node {name} has no device {ordinal}"))),
        }
    }

    /// Returns the names of devices, as an administrator would list them.
    fn named_targets(&self, devices: &ReservedDevices) -> ReservedTarget {
        let ReservedDevices::Listed(targets) = devices else { return ReservedTarget::All };
        let named = targets.iter().filter_map(|target| {
            let (node, ordinal) = match *target {
                DrainTarget::Node(node) => (node, None),
                DrainTarget::Device(device) => (device.node, Some(device.ordinal)),
            };
            Some((self.node(node)?.name.clone(), ordinal))
        });
        ReservedTarget::Listed(named.collect())
    }

    /// Creates a checked reservation.
    pub(super) fn reserve(&mut self, new: NewReservation) {
        let Ok(devices) = self.devices_of(&new.devices) else { return };
        let record = record_of(&new, &devices);
        let Ok(calendar) = record.calendar() else { return };
        let first = calendar.ahead(self.clock(self.allocations.now).unix_ms).first().copied();
        let when = first.map_or_else(String::new, |first| calendar.text(first.starts));
        let name = &new.name;
        tracing::warn!(target: AUDIT, "{} makes the reservation {name:?} of {}, from {when}: {}", new.by, record.what, new.reason);
        self.allocations.reservations.insert(record, calendar);
        self.allocations.plan_reservations();
    }

    /// Deletes a reservation.
    pub(super) fn unreserve(&mut self, name: &str, by: &str) {
        let inputs = self.allocations.reservations.remove(name);
        tracing::warn!(target: AUDIT, "{by} removes the reservation {name:?}");
        self.allocations.inputs.extend(inputs);
    }

    /// Whether a reservation with this name exists.
    pub fn has_reservation(&self, name: &str) -> bool {
        self.allocations.reservations.get(name).is_some()
    }

    /// Returns the reservations whose name follows `after` and that are not over, in the order of their names.
    pub fn reservations<'a>(&'a self, now: Millis, after: &'a str) -> impl Iterator<Item = ReservationView> + 'a {
        let unix_ms = self.clock(now).unix_ms;
        let after = self.allocations.reservations.after(after);
        after.filter_map(move |(record, calendar)| self.view(record, calendar, unix_ms))
    }

    /// Returns a reservation that is not over.
    pub fn reservation(&self, now: Millis, name: &str) -> Option<ReservationView> {
        let (record, calendar) = self.allocations.reservations.get(name)?;
        self.view(record, calendar, self.clock(now).unix_ms)
    }

    /// Returns the current or next start and end of a reservation, with offset and zone.
    pub fn reservation_times(&self, now: Millis, name: &str) -> Option<(String, String)> {
        let (_, calendar) = self.allocations.reservations.get(name)?;
        let next = calendar.ahead(self.clock(now).unix_ms).into_iter().next()?;
        Some((calendar.text(next.starts), calendar.text(next.ends)))
    }

    /// Returns the accounts that a user may charge, and their ancestors. The user may use a reservation for any of
    /// these.
    pub fn accounts_above(&self, user: &str) -> BTreeSet<&str> {
        self.allocations.accounts_above(user)
    }

    fn view(&self, record: &ReservationRecord, calendar: &Calendar, unix_ms: u64) -> Option<ReservationView> {
        let next = calendar.ahead(unix_ms).into_iter().next()?;
        Some(ReservationView {
            name: record.name.clone(),
            by: record.by.clone(),
            reason: record.reason.clone(),
            what: record.what.clone(),
            devices: self.by_node(&record.devices.clone().into()),
            accounts: record.accounts.clone(),
            users: record.users.clone(),
            end_jobs: record.end_jobs,
            weekly: record.weekly,
            starts_unix_ms: next.starts,
            ends_unix_ms: next.ends,
            starts: calendar.text(next.starts),
            ends: calendar.text(next.ends),
        })
    }

    fn by_node(&self, devices: &ReservedDevices) -> Vec<(String, Vec<u32>)> {
        let ReservedDevices::Listed(targets) = devices else { return Vec::new() };
        let mut by_node: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for target in targets {
            let (node, ordinal) = match *target {
                DrainTarget::Node(node) => (node, None),
                DrainTarget::Device(device) => (device.node, Some(device.ordinal)),
            };
            let Some(node) = self.node(node) else { continue };
            by_node.entry(node.name.clone()).or_default().extend(ordinal);
        }
        by_node.into_iter().collect()
    }
}

fn record_of(new: &NewReservation, devices: &ReservedDevices) -> ReservationRecord {
    let new = new.clone();
    ReservationRecord {
        what: what(&new.devices),
        name: new.name,
        created: 0,
        by: new.by,
        reason: new.reason,
        devices: devices.into(),
        accounts: new.accounts,
        users: new.users,
        end_jobs: new.end_jobs,
        first: new.first,
        zone: new.zone,
        lasts_ms: new.lasts_ms,
        weekly: new.weekly,
        weeks: BTreeMap::new(),
    }
}

/// Describes the devices of a reservation.
fn what(devices: &ReservedTarget) -> String {
    match devices {
        ReservedTarget::All => "all devices".to_owned(),
        ReservedTarget::Request(text) => text.clone(),
        ReservedTarget::Listed(names) => {
            let mut by_node: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (node, ordinal) in names {
                by_node.entry(node).or_default().extend(ordinal.map(|ordinal| ordinal.to_string()));
            }
            let one = |(node, ordinals): (&str, Vec<String>)| match ordinals.len() {
                0 => node.to_owned(),
                _ => format!("{node}/{}", ordinals.join(",")),
            };
            by_node.into_iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }
}
