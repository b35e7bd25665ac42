//! Reservations as administrators make them, and their times that the scheduler knows.

use super::calendar::Calendar;
use super::time::Millis;
use accord_scheduler::saved::SavedTargets;
use accord_scheduler::{Input, Members, Reservation, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Reservations at one time.
pub(super) const RESERVATIONS_MAX: usize = 256;

/// The time by which the wall clock may move before the times of reservations are computed anew.
const CLOCK_MOVES_MS: u64 = 1_000;

/// A reservation, as it is kept over a restart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReservationRecord {
    pub(super) name: String,
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
    /// The weeks that the scheduler knows: their numbers and starts there.
    pub(super) weeks: BTreeMap<u64, WeekRecord>,
}

/// One week of a reservation in the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct WeekRecord {
    pub(super) id: u64,
    pub(super) starts: u64,
}

impl ReservationRecord {
    pub(super) fn calendar(&self) -> Result<Calendar, String> {
        Calendar::new(&self.first, &self.zone, self.lasts_ms, self.weekly)
    }

    /// The reservation of one time, as the scheduler has it.
    pub(super) fn at(&self, id: u64, starts: Millis) -> Reservation {
        Reservation {
            id: ReservationId(id),
            name: self.name.clone(),
            devices: self.devices.clone().into(),
            starts: accord_scheduler::Millis(starts.0),
            ends: accord_scheduler::Millis(starts.plus(self.lasts_ms).0),
            members: Members { accounts: self.accounts.clone(), users: self.users.clone() },
            end_jobs: self.end_jobs,
        }
    }
}

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct ReservationTable {
    by_name: BTreeMap<String, (ReservationRecord, Calendar)>,
    last_id: u64,
    /// Milliseconds from the scheduler's clock to the wall clock when times were last computed.
    offset: u64,
    /// Time at which the first of the known times ends; the wall clock has moved: now.
    due: Option<Millis>,
    changed: BTreeSet<String>,
}

impl ReservationTable {
    /// Returns the reservations by name.
    pub(super) fn all(&self) -> impl Iterator<Item = (&ReservationRecord, &Calendar)> {
        self.by_name.values().map(|(record, calendar)| (record, calendar))
    }

    pub(super) fn get(&self, name: &str) -> Option<&(ReservationRecord, Calendar)> {
        self.by_name.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Returns a number that no time of a reservation has.
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
            table.last_id = table.last_id.max(last);
            table.by_name.insert(record.name.clone(), (record, calendar));
        }
        Ok(table)
    }

    pub(super) fn insert(&mut self, record: ReservationRecord, calendar: Calendar) {
        self.by_name.insert(record.name.clone(), (record, calendar));
    }

    /// Removes a reservation. Returns what the scheduler is to forget.
    pub(super) fn remove(&mut self, name: &str) -> Vec<Input> {
        let Some((record, _)) = self.by_name.remove(name) else { return Vec::new() };
        self.changed.insert(record.name);
        record.weeks.values().map(|week| Input::Unreserve(ReservationId(week.id))).collect()
    }

    /// Computes the times of all reservations. Returns what changes for the scheduler. Those that are over go.
    pub(super) fn plan(&mut self, now: Millis, unix_ms: u64) -> Vec<Input> {
        let (mut inputs, mut over) = (Vec::new(), Vec::new());
        self.offset = unix_ms.wrapping_sub(now.0);
        self.due = None;
        for (name, (record, calendar)) in &mut self.by_name {
            let ahead = calendar.ahead(unix_ms);
            if ahead.is_empty() {
                over.push(name.clone());
                continue;
            }
            let mut weeks = BTreeMap::new();
            for of in &ahead {
                let (ahead, past) = (of.starts.saturating_sub(unix_ms), unix_ms.saturating_sub(of.starts));
                let starts = Millis((now.0 + ahead).saturating_sub(past));
                let known = record.weeks.get(&of.week).copied();
                let kept = known.filter(|known| known.starts.abs_diff(starts.0) <= CLOCK_MOVES_MS);
                let week = kept.unwrap_or_else(|| {
                    let id = known.map_or(self.last_id + 1, |known| known.id);
                    self.last_id = self.last_id.max(id);
                    inputs.push(Input::Reserve(Box::new(record.at(id, starts))));
                    WeekRecord { id, starts: starts.0 }
                });
                weeks.insert(of.week, week);
                // The clocks may differ by a little without times being computed anew.
                let ends = Millis(week.starts).plus(record.lasts_ms).max(now.plus(CLOCK_MOVES_MS));
                self.due = Some(self.due.map_or(ends, |due| due.min(ends)));
            }
            let gone = record.weeks.iter().filter(|(week, _)| !weeks.contains_key(week));
            inputs.extend(gone.map(|(_, week)| Input::Unreserve(ReservationId(week.id))));
            if record.weeks != weeks {
                record.weeks = weeks;
                self.changed.insert(name.clone());
            }
        }
        for name in over {
            inputs.extend(self.remove(&name));
        }
        inputs
    }
}
