//! Usage of accounts and users by day.

use super::activity::Activity;
use super::clock::Clock;
use crate::charge::{Rate, Usage};
use crate::saved::{SavedRate, SavedRow};
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Milliseconds of a day. Days are in UTC.
pub const DAY_MS: u64 = 86_400_000;

/// Most rows of day, account and user. Beyond that the oldest day is dropped.
pub const USAGE_ROWS_MAX: usize = 65_536;

/// Stands for further accounts and users of a day that has too many.
const OTHERS: &str = "(others)";

/// An account and one of its users.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    /// The account.
    pub account: String,
    /// The user.
    pub user: String,
}

/// The usage of an account's user on a day.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Device time.
    pub usage: Usage,
    /// Number of started jobs.
    pub jobs: u64,
    /// The work on devices.
    pub activity: Activity,
    /// Device time of jobs with unknown use, in thousandths of devices times milliseconds.
    pub unknown_milli_ms: u128,
}

impl Row {
    fn add(&mut self, more: &Self) {
        self.usage.milli_ms += more.usage.milli_ms;
        self.usage.billed += more.usage.billed;
        self.jobs += more.jobs;
        self.activity.add(more.activity);
        self.unknown_milli_ms += more.unknown_milli_ms;
    }
}

/// The key for sums of usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UsageBy {
    /// User.
    User,
    /// Account.
    Account,
    /// Day.
    Day,
}

/// A sum of usage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UsageLine {
    /// The user, the account, or the day as `2026-11-29`.
    pub name: String,
    /// The usage.
    pub row: Row,
}

type Day = BTreeMap<Owner, Row>;

/// The rows, and the present charges.
#[derive(Clone, Debug)]
pub(super) struct UsageTable {
    since_unix_ms: u64,
    days: BTreeMap<u64, Arc<Day>>,
    rows: usize,
    /// Rates of owners with charged jobs, and the time until which they are included in `days`.
    rates: BTreeMap<Owner, (Rate, Millis)>,
    pub(super) changes: Option<UsageChanges>,
}

/// The changes since the last save.
#[derive(Clone, Debug, Default)]
pub(super) struct UsageChanges {
    pub(super) rows: BTreeSet<(u64, Owner)>,
    pub(super) rates: BTreeSet<Owner>,
}

impl UsageTable {
    pub(super) fn new(clock: Clock) -> Self {
        Self { since_unix_ms: clock.unix_ms, days: BTreeMap::new(), rows: 0, rates: BTreeMap::new(), changes: None }
    }

    /// Counts a started job.
    pub(super) fn started(&mut self, clock: Clock, account: &str, user: &str) {
        let owner = owner(account, user);
        self.row(clock.unix_ms / DAY_MS, owner).jobs += 1;
    }

    /// Counts work on devices.
    pub(super) fn did(&mut self, clock: Clock, account: &str, user: &str, activity: Activity) {
        if !activity.is_none() {
            self.row(clock.unix_ms / DAY_MS, owner(account, user)).activity.add(activity);
        }
    }

    /// Counts the device time of an ended job with unknown use.
    pub(super) fn unknown(&mut self, clock: Clock, account: &str, user: &str, used: Usage) {
        self.row(clock.unix_ms / DAY_MS, owner(account, user)).unknown_milli_ms += used.milli_ms;
    }

    /// Charges an owner for device time in the past.
    pub(super) fn charge_at_once(&mut self, clock: Clock, account: &str, user: &str, charged: Usage) {
        if charged != Usage::default() {
            let row = self.row(clock.unix_ms / DAY_MS, owner(account, user));
            row.usage.milli_ms += charged.milli_ms;
            row.usage.billed += charged.billed;
        }
    }

    /// Takes back the latest charges of an owner, day by day from the last one.
    pub(super) fn take_back(&mut self, clock: Clock, account: &str, user: &str, charged: Usage) {
        let (owner, mut left) = (owner(account, user), charged);
        self.settle(clock, &owner);
        let days: Vec<u64> = self.days.range(..=clock.unix_ms / DAY_MS).rev().map(|(day, _)| *day).collect();
        for day in days {
            if left == Usage::default() {
                return;
            }
            if self.days.get(&day).is_some_and(|rows| rows.contains_key(&owner)) {
                left = self.row(day, owner.clone()).usage.subtract(left);
            }
        }
    }

    /// Charges an owner until now, and changes the rate from now on by `by`.
    pub(super) fn charge(&mut self, clock: Clock, account: &str, user: &str, by: Rate, more: bool) {
        if by == Rate::default() {
            return;
        }
        let owner = owner(account, user);
        self.settle(clock, &owner);
        self.note_rate(&owner);
        let (rate, _) = self.rates.entry(owner.clone()).or_insert((Rate::default(), clock.now));
        let change = |of: u64, by: u64| if more { of.saturating_add(by) } else { of.saturating_sub(by) };
        *rate = Rate { milli: change(rate.milli, by.milli), billed: change(rate.billed, by.billed) };
        if *rate == Rate::default() {
            self.rates.remove(&owner);
        }
    }

    /// Brings an owner's rows up to date, with the time divided at the wall clock's midnights.
    fn settle(&mut self, clock: Clock, owner: &Owner) {
        let Some((rate, settled)) = self.rates.get_mut(owner) else { return };
        let (rate, mut left) = (*rate, clock.now.since(*settled));
        *settled = clock.now;
        if left > 0 {
            self.note_rate(owner);
        }
        let mut until = clock.unix_ms;
        while left > 0 {
            // The last millisecond before `until` belongs to this day.
            let day = until.saturating_sub(1) / DAY_MS;
            let part = if day == 0 { left } else { left.min(until - day * DAY_MS) };
            self.row(day, owner.clone()).usage.add(rate, part);
            left -= part;
            until -= part.min(until);
        }
    }

    fn row(&mut self, day: u64, owner: Owner) -> &mut Row {
        let is_known = self.days.get(&day).is_some_and(|rows| rows.contains_key(&owner));
        let mut owner = owner;
        if !is_known {
            while self.rows >= USAGE_ROWS_MAX {
                let Some(oldest) = self.days.first_entry().filter(|oldest| *oldest.key() < day) else { break };
                let (oldest, rows) = oldest.remove_entry();
                self.rows -= rows.len();
                if let Some(changes) = &mut self.changes {
                    changes.rows.extend(rows.keys().map(|owner| (oldest, owner.clone())));
                }
                self.since_unix_ms = self.since_unix_ms.max((oldest + 1) * DAY_MS);
            }
            if self.rows >= USAGE_ROWS_MAX {
                owner = Owner { account: OTHERS.to_owned(), user: OTHERS.to_owned() };
            }
        }
        if let Some(changes) = &mut self.changes {
            changes.rows.insert((day, owner.clone()));
        }
        let rows = Arc::make_mut(self.days.entry(day).or_default());
        let before = rows.len();
        if before == 0 || !rows.contains_key(&owner) {
            self.rows += 1;
        }
        rows.entry(owner).or_default()
    }

    fn note_rate(&mut self, owner: &Owner) {
        if let Some(changes) = &mut self.changes {
            changes.rates.insert(owner.clone());
        }
    }

    pub(super) fn since_unix_ms(&self) -> u64 {
        self.since_unix_ms
    }

    /// Returns the record of a row.
    pub(super) fn saved_row(&self, day: u64, owner: &Owner) -> Option<SavedRow> {
        let row = self.days.get(&day)?.get(owner)?;
        let Owner { account, user } = owner.clone();
        let Row { usage, jobs, activity, unknown_milli_ms } = *row;
        Some(SavedRow { day, account, user, usage, jobs, activity, unknown_milli_ms })
    }

    /// Returns the record of an owner's rate.
    pub(super) fn saved_rate(&self, owner: &Owner) -> Option<SavedRate> {
        let (rate, settled) = *self.rates.get(owner)?;
        let Owner { account, user } = owner.clone();
        Some(SavedRate { account, user, rate, settled: settled.0 })
    }

    /// Returns the keys of all rows and of all rates.
    pub(super) fn all(&self) -> UsageChanges {
        let rows = self.days.iter().flat_map(|(day, rows)| rows.keys().map(|owner| (*day, owner.clone())));
        UsageChanges { rows: rows.collect(), rates: self.rates.keys().cloned().collect() }
    }

    /// Restores a table from records.
    pub(super) fn restore(since_unix_ms: u64, rows: Vec<SavedRow>, rates: Vec<SavedRate>) -> Self {
        let mut table =
            Self { since_unix_ms, days: BTreeMap::new(), rows: rows.len(), rates: BTreeMap::new(), changes: None };
        for SavedRow { day, account, user, usage, jobs, activity, unknown_milli_ms } in rows {
            let rows = Arc::make_mut(table.days.entry(day).or_default());
            rows.insert(Owner { account, user }, Row { usage, jobs, activity, unknown_milli_ms });
        }
        for SavedRate { account, user, rate, settled } in rates {
            table.rates.insert(Owner { account, user }, (rate, Millis(settled)));
        }
        table
    }

    pub(super) fn view(&mut self, clock: Clock) -> UsageView {
        for owner in self.rates.keys().cloned().collect::<Vec<_>>() {
            self.settle(clock, &owner);
        }
        UsageView { since_unix_ms: self.since_unix_ms, days: self.days.clone() }
    }
}

/// The usage until a time.
#[derive(Clone, Debug)]
pub struct UsageView {
    /// The time at which counting began, by the wall clock.
    pub since_unix_ms: u64,
    days: BTreeMap<u64, Arc<Day>>,
}

impl UsageView {
    /// Counts the device time of a running job with unknown use.
    pub(super) fn unknown(&mut self, clock: Clock, account: &str, user: &str, used: Usage) {
        let owner = owner(account, user);
        // A day with too many rows may lack this owner's row.
        if let Some(row) =
            self.days.get_mut(&(clock.unix_ms / DAY_MS)).and_then(|day| Arc::make_mut(day).get_mut(&owner))
        {
            row.unknown_milli_ms += used.milli_ms;
        }
    }

    /// Returns sums by name, of one user or of all users.
    #[must_use]
    pub fn by(&self, by: UsageBy, user: Option<&str>) -> Vec<UsageLine> {
        let mut sums: BTreeMap<String, Row> = BTreeMap::new();
        for (day, owner, row) in self.rows() {
            if user.is_some_and(|user| user != owner.user) {
                continue;
            }
            let name = match by {
                UsageBy::User => owner.user.clone(),
                UsageBy::Account => owner.account.clone(),
                UsageBy::Day => day_text(day),
            };
            sums.entry(name).or_default().add(row);
        }
        sums.into_iter().map(|(name, row)| UsageLine { name, row }).collect()
    }

    fn rows(&self) -> impl Iterator<Item = (u64, &Owner, &Row)> {
        self.days.iter().flat_map(|(day, rows)| rows.iter().map(|(owner, row)| (*day, owner, row)))
    }
}

fn owner(account: &str, user: &str) -> Owner {
    Owner { account: account.to_owned(), user: user.to_owned() }
}

/// Returns the date of a day since 1970, as `2026-11-29`.
fn day_text(day: u64) -> String {
    let (year, month, of_month) = date(day);
    format!("{year:04}-{month:02}-{of_month:02}")
}

/// Returns the month of a wall clock time, counted from year 0, in UTC.
#[must_use]
pub fn month_of(unix_ms: u64) -> u64 {
    let (year, month, _) = date(unix_ms / DAY_MS);
    year * 12 + month - 1
}

/// Returns year, month and day of the month for a day since 1970.
fn date(day: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the leap day is the last day. An era has 400 years.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (of_month, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { milli: 2_000, billed: 3_000_000 };

    fn at(now: u64, unix_ms: u64) -> Clock {
        Clock { now: Millis(now), unix_ms }
    }

    #[test]
    fn days_are_written_as_dates() {
        let texts = [0, 59, 11_016, 20_786, 20_819].map(day_text);
        assert_eq!(texts, ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-29", "2027-01-01"]);
    }

    #[test]
    fn months_begin_on_their_first_day() {
        let months = [20_786, 20_787, 20_788, 20_818, 20_819].map(|day| month_of(day * DAY_MS));
        assert_eq!(months, [24_322, 24_322, 24_323, 24_323, 24_324]);
    }

    #[test]
    fn a_lease_over_midnight_counts_on_both_days() {
        let midnight = 20_786 * DAY_MS;
        let mut table = UsageTable::new(at(0, midnight - 1_000));
        table.charge(at(0, midnight - 1_000), "physics", "eva", RATE, true);
        table.charge(at(3_000, midnight + 2_000), "physics", "eva", RATE, false);
        let days = table.view(at(9_000, midnight + 8_000)).by(UsageBy::Day, None);
        let milli_ms: Vec<_> = days.iter().map(|line| (line.name.as_str(), line.row.usage.milli_ms)).collect();
        assert_eq!(milli_ms, [("2026-11-28", 2_000_000), ("2026-11-29", 4_000_000)]);
    }

    #[test]
    fn a_wall_clock_that_jumps_charges_no_second_twice() {
        let day = 20_786 * DAY_MS;
        let mut table = UsageTable::new(at(0, day));
        table.charge(at(0, day + 7_200_000), "physics", "eva", RATE, true);
        // The clock jumps an hour back, then two forward.
        let _ = table.view(at(60_000, day + 3_660_000));
        let view = table.view(at(120_000, day + 10_920_000));
        assert_eq!(
            view.by(UsageBy::User, Some("eva"))[0].row.usage,
            Usage { milli_ms: 2_000 * 120_000, billed: 3_000_000 * 120_000 }
        );
        assert!(view.by(UsageBy::User, Some("tom")).is_empty());
    }

    #[test]
    fn the_oldest_day_goes_when_there_are_too_many_rows() {
        let mut table = UsageTable::new(at(0, 5 * DAY_MS + 7));
        for user in 0..USAGE_ROWS_MAX {
            table.started(at(0, 5 * DAY_MS + 7), "a", &user.to_string());
        }
        // No older day can be dropped, so further users are counted together.
        table.started(at(0, 5 * DAY_MS + 7), "a", "late");
        let jobs = |table: &mut UsageTable| table.view(at(0, 6 * DAY_MS)).by(UsageBy::Day, None);
        assert_eq!(jobs(&mut table)[0].row.jobs, USAGE_ROWS_MAX as u64 + 1);
        assert_eq!(table.view(at(0, 0)).by(UsageBy::User, Some(OTHERS)).len(), 1);
        table.started(at(0, 6 * DAY_MS), "a", "0");
        assert_eq!(jobs(&mut table).len(), 1);
        let view = table.view(at(0, 6 * DAY_MS));
        assert_eq!((view.since_unix_ms, table.rows), (6 * DAY_MS, 1));
    }
}
