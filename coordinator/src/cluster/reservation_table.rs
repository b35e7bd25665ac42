//! Reservations as administrators make them, and their times that the scheduler knows.

use super::calendar::Calendar;
use super::time::Millis;
use accord_scheduler::saved::SavedTargets;
use accord_scheduler::{Input, Members, Reservation, ReservationId};
use accord_telemetry::log::AUDIT;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Reservations at one time, those that are over left out.
pub(super) const RESERVATIONS_MAX: usize = 256;
/// Records of reservations that are kept, those of reservations that are over included.
const RECORDS_MAX: usize = 2 * RESERVATIONS_MAX;
/// Time for which the record of a reservation that is over is kept, by the scheduler's clock: until then, a wall clock that was
/// ahead for a while can be set back.
const OVER_KEPT_MS: u64 = 86_400_000;

/// The time by which the wall clock may move before the times of reservations are computed anew.
const CLOCK_MOVES_MS: u64 = 1_000;

/// A reservation, as it is kept over a restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReservationRecord {
    pub(super) name: String,
    /// Its number in the order in which reservations were created.
    #[serde(default)]
    pub(super) created: u64,
    /// The administrator who made it.
    pub(super) by: String,
    pub(super) reason: String,
    pub(super) devices: SavedTargets,
    /// The devices in words, for lists.
    pub(super) what: String,
    pub(super) accounts: Vec<String>,
    pub(super) users: Vec<String>,
    pub(super) end_jobs: bool,
    /// The first start by the clock of `zone`: `2026-12-01T08:00`.
    pub(super) first: String,
    pub(super) zone: String,
    pub(super) lasts_ms: u64,
    pub(super) weekly: bool,
    /// The weeks that the scheduler knows: their numbers and ends there.
    pub(super) weeks: BTreeMap<u64, WeekRecord>,
}

/// One week of a reservation in the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WeekRecord {
    pub(super) id: u64,
    pub(super) ends: u64,
}

/// Returns the time by the scheduler's clock for a time by the wall clock, of which it is `unix_ms` now. Times before the
/// scheduler's time 0 are 0.
pub(super) fn scheduler_time(now: Millis, unix_ms: u64, at_unix_ms: u64) -> Millis {
    let (ahead, past) = (at_unix_ms.saturating_sub(unix_ms), unix_ms.saturating_sub(at_unix_ms));
    Millis(now.0.saturating_add(ahead).saturating_sub(past))
}

impl ReservationRecord {
    pub(super) fn calendar(&self) -> Result<Calendar, String> {
        Calendar::new(&self.first, &self.zone, self.lasts_ms, self.weekly)
    }

    /// The reservation of one time, as the scheduler has it.
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

/// A reservation with what is computed from its record.
#[derive(Debug)]
struct Entry {
    record: ReservationRecord,
    calendar: Calendar,
    /// The time, by the scheduler's clock, since which the reservation is over by the wall clock.
    over: Option<Millis>,
}

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct ReservationTable {
    by_name: BTreeMap<String, Entry>,
    last_id: u64,
    /// Milliseconds from the scheduler's clock to the wall clock when times were last computed.
    offset: u64,
    /// Time at which the first of the known times ends; the wall clock has moved: now.
    due: Option<Millis>,
    changed: BTreeSet<String>,
}

impl ReservationTable {
    /// Returns all records by name, those of reservations that are over included.
    pub(super) fn records(&self) -> impl Iterator<Item = &ReservationRecord> {
        self.by_name.values().map(|entry| &entry.record)
    }

    /// Returns the record of a reservation, also of one that is over.
    pub(super) fn record(&self, name: &str) -> Option<&ReservationRecord> {
        self.by_name.get(name).map(|entry| &entry.record)
    }

    /// Returns the reservations that are not over, by name, after a name.
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

    /// Returns a number that no reservation and no time of one has.
    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    /// Returns when times are to be computed anew.
    pub(super) fn due(&self) -> Option<Millis> {
        self.due
    }

    /// Returns the names of reservations that have changed since the last call.
    pub(super) fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Has times computed anew if the wall clock has moved against the scheduler's.
    pub(super) fn set_clock(&mut self, now: Millis, unix_ms: u64) {
        if !self.by_name.is_empty() && unix_ms.wrapping_sub(now.0).abs_diff(self.offset) > CLOCK_MOVES_MS {
            self.due = Some(now);
        }
    }

    /// Goes on with what is kept.
    ///
    /// # Errors
    /// Returns the reservation that is damaged.
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

    /// Numbers reservations of a state from before there were numbers, in the order of their first known weeks. The next
    /// [`Self::plan`] tells the scheduler.
    fn number_all(&mut self) {
        for (name, Entry { record, .. }) in &mut self.by_name {
            if record.created > 0 {
                continue;
            }
            let first = record.weeks.values().map(|week| week.id).min();
            record.created = first.unwrap_or(self.last_id + 1);
            self.last_id = self.last_id.max(record.created);
            // An end that no week has: the plan sends each week to the scheduler again, with the number.
            record.weeks.values_mut().for_each(|week| week.ends = 0);
            self.changed.insert(name.clone());
        }
    }

    /// Adds a reservation. It takes the place of one with its name that is over.
    pub(super) fn insert(&mut self, mut record: ReservationRecord, calendar: Calendar) {
        self.last_id += 1;
        record.created = self.last_id;
        self.by_name.insert(record.name.clone(), Entry { record, calendar, over: None });
    }

    /// Removes a reservation. Returns what the scheduler is to forget.
    pub(super) fn remove(&mut self, name: &str) -> Vec<Input> {
        let Some(Entry { record, .. }) = self.by_name.remove(name) else { return Vec::new() };
        self.changed.insert(record.name);
        record.weeks.values().map(|week| Input::Unreserve(ReservationId(week.id))).collect()
    }

    /// Computes the times of all reservations. Returns what changes for the scheduler. Records of reservations that have been over
    /// for [`OVER_KEPT_MS`] go.
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
                // The clocks may differ by a little without times being computed anew.
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

    /// Removes records that have been over for long enough, and the oldest of too many.
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
