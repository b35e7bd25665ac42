//! Reservations of administrators, and their occurrences in the scheduler.

use super::calendar::Calendar;
use super::time::Millis;
use accord_scheduler::saved::SavedTargets;
use accord_scheduler::{Input, Members, Reservation, ReservationId};
use accord_telemetry::log::AUDIT;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Most reservations at one time, without those that are over.
pub(super) const RESERVATIONS_MAX: usize = 256;
/// Most records of reservations, including those that are over.
const RECORDS_MAX: usize = 2 * RESERVATIONS_MAX;
/// Time for which the record of an expired reservation is kept, by the scheduler's clock. Within it, a wall clock that
/// ran ahead can be set back.
const OVER_KEPT_MS: u64 = 86_400_000;

/// Shift of the wall clock above which the times of reservations are recomputed.
const CLOCK_MOVES_MS: u64 = 1_000;

/// The record of a reservation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReservationRecord {
    pub(super) name: String,
    /// Its number in the order of creation.
    #[serde(default)]
    pub(super) created: u64,
    /// The administrator who created it.
    pub(super) by: String,
    pub(super) reason: String,
    pub(super) devices: SavedTargets,
    /// A description of the devices, for lists.
    pub(super) what: String,
    pub(super) accounts: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) end_jobs: bool,
    /// The first start by the clock of `zone`: `2026-12-01T08:00`.
    pub(super) first: String,
    pub(super) zone: String,
    pub(super) lasts_ms: u64,
    pub(super) weekly: bool,
    /// The weeks in the scheduler: their reservation ids and ends.
    pub(super) weeks: BTreeMap<u64, WeekRecord>,
}

/// A week of a reservation in the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WeekRecord {
    pub(super) id: u64,
    pub(super) ends: u64,
}

/// Converts a time by the wall clock to the scheduler's clock, given that `now` is `unix_ms`. Times before the
/// scheduler's time 0 become 0.
pub(super) fn scheduler_time(now: Millis, unix_ms: u64, at_unix_ms: u64) -> Millis {
    let (ahead, past) = (at_unix_ms.saturating_sub(unix_ms), unix_ms.saturating_sub(at_unix_ms));
    Millis(now.0.saturating_add(ahead).saturating_sub(past))
}

impl ReservationRecord {
    pub(super) fn calendar(&self) -> Result<Calendar, String> {
        Calendar::new(&self.first, &self.zone, self.lasts_ms, self.weekly)
    }

    /// Returns the reservation of one occurrence for the scheduler.
    pub(super) fn at(&self, id: u64, (starts, ends): (Millis, Millis)) -> Reservation {
        Reservation {
            id: ReservationId(id),
            name: self.name.clone(),
            devices: self.devices.clone().into(),
            starts: accord_scheduler::Millis(starts.0),
            ends: accord_scheduler::Millis(ends.0),
            created: self.created,
            members: Members { accounts: self.accounts.clone(), users: self.users.clone() },
            end_jobs: self.end_jobs,
        }
    }
}

/// A reservation with data derived from its record.
#[derive(Debug)]
struct Entry {
    record: ReservationRecord,
    calendar: Calendar,
    /// The time by the scheduler's clock at which the reservation was found to be over by the wall clock.
    over: Option<Millis>,
}

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct ReservationTable {
    by_name: BTreeMap<String, Entry>,
    last_id: u64,
    /// Difference of the wall clock and the scheduler's clock when times were last computed, in milliseconds.
    offset: u64,
    /// The earliest end of a known occurrence, or the present time after the wall clock was set.
    due: Option<Millis>,
    changed: BTreeSet<String>,
}

impl ReservationTable {
    /// Returns all records by name, including those of reservations that are over.
    pub(super) fn records(&self) -> impl Iterator<Item = &ReservationRecord> {
        self.by_name.values().map(|entry| &entry.record)
    }

    /// Returns the record of a reservation, even if it is over.
    pub(super) fn record(&self, name: &str) -> Option<&ReservationRecord> {
        self.by_name.get(name).map(|entry| &entry.record)
    }

    /// Returns the reservations whose name follows `name` and that are not over.
    pub(super) fn after(&self, name: &str) -> impl Iterator<Item = (&ReservationRecord, &Calendar)> {
        let entries = self.by_name.range::<str, _>((Bound::Excluded(name), Bound::Unbounded));
        entries.filter(|(_, entry)| entry.over.is_none()).map(|(_, entry)| (&entry.record, &entry.calendar))
    }

    /// Returns a reservation that is not over.
    pub(super) fn get(&self, name: &str) -> Option<(&ReservationRecord, &Calendar)> {
        let entry = self.by_name.get(name).filter(|entry| entry.over.is_none())?;
        Some((&entry.record, &entry.calendar))
    }

    /// Returns the number of reservations that are not over.
    pub(super) fn len(&self) -> usize {
        self.by_name.values().filter(|entry| entry.over.is_none()).count()
    }

    /// Returns an unused number for a reservation or an occurrence.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// Returns when occurrences must be recomputed.
    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }

    /// Returns the names of reservations that have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Schedules a recomputation if the wall clock has moved relative to the scheduler's clock.
    pub(super) fn set_clock(&mut self, now: Millis, unix_ms: u64) {
        if !self.by_name.is_empty() && unix_ms.wrapping_sub(now.0).abs_diff(self.offset) > CLOCK_MOVES_MS {
            self.due = Some(now);
        }
    }

    /// Restores the table from records.
    ///
    /// # Errors
    /// Returns the name of a damaged reservation.
    pub(super) fn restore(records: Vec<ReservationRecord>) -> Result<Self, String> {
        let mut table = Self::default();
        for record in records {
            let calendar = record.calendar().map_err(|why| format!("reservation {}: {why}", record.name))?;
            let last = record.weeks.values().map(|week| week.id).max().unwrap_or(0);
            table.last_id = table.last_id.max(last).max(record.created);
            table.by_name.insert(record.name.clone(), Entry { record, calendar, over: None });
        }
        table.number_all();
        Ok(table)
    }

    /// Numbers reservations of an old state without numbers, in the order of their first known weeks. The next
    /// [`Self::plan`] updates the scheduler.
    fn number_all(&mut self) {
        for (name, Entry { record, .. }) in &mut self.by_name {
            if record.created > 0 {
                continue;
            }
            let first = record.weeks.values().map(|week| week.id).min();
            record.created = first.unwrap_or(self.last_id + 1);
            self.last_id = self.last_id.max(record.created);
            // An impossible end makes the plan send each week to the scheduler again, with the number.
            record.weeks.values_mut().for_each(|week| week.ends = 0);
            self.changed.insert(name.clone());
        }
    }

    /// Adds a reservation, which replaces an expired one with the same name.
    pub(super) fn insert(&mut self, mut record: ReservationRecord, calendar: Calendar) {
        self.last_id += 1;
        record.created = self.last_id;
        self.by_name.insert(record.name.clone(), Entry { record, calendar, over: None });
    }

    /// Removes a reservation. Returns the inputs that remove it from the scheduler.
    pub(super) fn remove(&mut self, name: &str) -> Vec<Input> {
        let Some(Entry { record, .. }) = self.by_name.remove(name) else { return Vec::new() };
        self.changed.insert(record.name);
        record.weeks.values().map(|week| Input::Unreserve(ReservationId(week.id))).collect()
    }

    /// Computes the occurrences of all reservations, and returns the changes for the scheduler. Removes records that
    /// have been over for [`OVER_KEPT_MS`].
    pub(super) fn plan(&mut self, now: Millis, unix_ms: u64) -> Vec<Input> {
        let mut inputs = Vec::new();
        self.offset = unix_ms.wrapping_sub(now.0);
        self.due = None;
        for (name, Entry { record, calendar, over }) in &mut self.by_name {
            let ahead = calendar.ahead(unix_ms);
            *over = if ahead.is_empty() { over.or(Some(now)) } else { None };
            let mut weeks = BTreeMap::new();
            for of in &ahead {
                let at = |unix| scheduler_time(now, unix_ms, unix);
                let (starts, ends) = (at(of.starts), at(of.ends));
                let known = record.weeks.get(&of.week).copied();
                let kept = known.filter(|known| known.ends.abs_diff(ends.0) <= CLOCK_MOVES_MS);
                let week = kept.unwrap_or_else(|| {
                    let id = known.map_or(self.last_id + 1, |known| known.id);
                    self.last_id = self.last_id.max(id);
                    inputs.push(Input::Reserve(Box::new(record.at(id, (starts, ends)))));
                    WeekRecord { id, ends: ends.0 }
                });
                weeks.insert(of.week, week);
                // The clocks may drift by this much before occurrences are recomputed.
                let ends = Millis(week.ends).max(now.plus(CLOCK_MOVES_MS));
                self.due = Some(self.due.map_or(ends, |due| due.min(ends)));
            }
            let gone = record.weeks.iter().filter(|(week, _)| !weeks.contains_key(week));
            inputs.extend(gone.map(|(_, week)| Input::Unreserve(ReservationId(week.id))));
            if record.weeks != weeks {
                record.weeks = weeks;
                self.changed.insert(name.clone());
            }
        }
        self.forget_over(now);
        inputs
    }

    /// Removes records that have been over for long enough, and the oldest ones beyond the limit.
    fn forget_over(&mut self, now: Millis) {
        let over = self.by_name.iter().filter_map(|(name, entry)| Some((entry.over?, name.clone())));
        let over: BTreeSet<(Millis, String)> = over.collect();
        for (since, name) in over {
            let ends = since.plus(OVER_KEPT_MS);
            if ends > now && self.by_name.len() <= RECORDS_MAX {
                self.due = Some(self.due.map_or(ends, |due| due.min(ends)));
                break;
            }
            tracing::warn!(target: AUDIT, "the record of the reservation {name:?} is removed: the reservation is over");
            self.by_name.remove(&name);
            self.changed.insert(name);
        }
    }
}
