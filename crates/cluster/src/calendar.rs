//! The times of a reservation by the wall clock of its time zone. Zones come from the crate's bundled database.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

/// Days of a week.
const WEEK_DAYS: u64 = 7;
/// A week by the clock, in milliseconds.
const WEEK_MS: u64 = WEEK_DAYS * 86_400_000;
/// Number of future weeks of a weekly reservation that the scheduler receives.
pub(super) const WEEKS_AHEAD: usize = 4;

/// Weeks after which weekly times in two time zones have the same distance again.
const WEEKS_OF_YEAR: usize = 54;

/// The times of a reservation.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    zone: TimeZone,
    first: DateTime,
    lasts_ms: u64,
    weekly: bool,
}

/// One occurrence of a reservation, in milliseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Occurrence {
    /// Weeks since the first occurrence.
    pub(super) week: u64,
    pub(super) starts: u64,
    pub(super) ends: u64,
}

impl Calendar {
    /// Reads the first start, `2026-12-01T08:00`, by the clock of a zone, `Europe/Berlin`.
    ///
    /// # Errors
    /// Returns why the time or the zone is invalid.
    pub(super) fn new(first: &str, zone: &str, lasts_ms: u64, weekly: bool) -> Result<Self, String> {
        let unknown = |_| format!("there is no time zone {zone:?}; write one as in Europe/Berlin, or UTC");
        let of_zone = TimeZoneDatabase::bundled().get(zone).map_err(unknown)?;
        let first: DateTime = first
            .parse()
            .map_err(|error| format!("{first:?} is no time: {error}; write one as in 2026-12-01T08:00"))?;
        if weekly && lasts_ms >= WEEK_MS {
            return Err("a weekly reservation lasts less than a week: leave --weekly out".to_owned());
        }
        let calendar = Self { zone: of_zone, first, lasts_ms, weekly };
        match calendar.occurrence(0) {
            Some(_) => Ok(calendar),
            None => Err(format!("{first} is no time that reservations can have")),
        }
    }

    fn occurrence(&self, week: u64) -> Option<Occurrence> {
        let days = i64::try_from(week.checked_mul(WEEK_DAYS)?).ok()?;
        let local = self.first.checked_add(Span::new().try_days(days).ok()?).ok()?;
        // A time that a change of the clock skips is shifted forward.
        let starts = self.zone.to_timestamp(local).ok()?.as_millisecond();
        let starts = u64::try_from(starts).ok()?;
        Some(Occurrence { week, starts, ends: starts.checked_add(self.lasts_ms)? })
    }

    /// Returns the current and next occurrences; none if the reservation is over.
    pub(super) fn ahead(&self, now: u64) -> Vec<Occurrence> {
        let first = self.occurrence(0).map_or(0, |first| first.starts);
        // A change of the clock moves a start by less than a week.
        let week = if self.weekly { (now.saturating_sub(first) / WEEK_MS).saturating_sub(2) } else { 0 };
        let count = if self.weekly { WEEKS_AHEAD } else { 1 };
        let weeks = (week..).take(count + 3).take_while(|week| self.weekly || *week == 0);
        weeks.filter_map(|week| self.occurrence(week)).filter(|of| of.ends > now).take(count).collect()
    }

    /// Whether an occurrence from `from` on overlaps one of `other`. Two weekly calendars are compared over a year.
    pub(super) fn meets(&self, other: &Self, from: u64) -> bool {
        let (one, other) = if self.weekly { (other, self) } else { (self, other) };
        // Within one time zone all weeks are alike.
        let weeks = if !one.weekly || one.zone == other.zone { 2 } else { WEEKS_OF_YEAR };
        let begun = |calendar: &Self| calendar.occurrence(0).map_or(0, |first| first.starts);
        let mut from = if one.weekly { from.max(begun(one)).max(begun(other)) } else { from };
        for _ in 0..weeks {
            let Some(time) = one.ahead(from).into_iter().next() else { return false };
            let next = other.ahead(time.starts.max(from)).into_iter().next();
            if next.is_some_and(|next| next.starts < time.ends) {
                return true;
            }
            from = time.ends;
        }
        false
    }

    /// Writes a time with its offset and zone: `2026-12-01 08:00 +01:00 Europe/Berlin`.
    pub(super) fn text(&self, unix_ms: u64) -> String {
        let at = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let Some(at) = at.map(|at| at.to_zoned_datetime(self.zone.clone())) else { return String::new() };
        let name = self.zone.iana_name().unwrap_or("UTC");
        match name {
            "UTC" => at.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            name => format!("{} {name}", at.strftime("%Y-%m-%d %H:%M %:z")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn unix(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    #[test]
    fn a_weekly_time_is_the_same_by_the_clock_of_its_zone_before_and_after_summer_time() {
        let calendar = Calendar::new("2026-03-26T08:00", "Europe/Berlin", 4 * HOUR, true).unwrap();
        let starts = |now: &str| calendar.ahead(unix(now)).into_iter().map(|of| of.starts).collect::<Vec<_>>();
        let expected =
            ["2026-03-26T07:00:00Z", "2026-04-02T06:00:00Z", "2026-04-09T06:00:00Z", "2026-04-16T06:00:00Z"].map(unix);
        assert_eq!(starts("2026-01-01T00:00:00Z"), expected);
        assert_eq!(starts("2026-03-26T10:59:59Z")[0], expected[0]);
        assert_eq!(starts("2026-03-26T11:00:00Z")[0], expected[1]);
        assert_eq!(calendar.ahead(unix("2029-06-01T00:00:00Z")).len(), WEEKS_AHEAD);
        assert_eq!(calendar.text(expected[0]), "2026-03-26 08:00 +01:00 Europe/Berlin");
        assert_eq!(calendar.text(expected[1]), "2026-04-02 08:00 +02:00 Europe/Berlin");
    }

    #[test]
    fn a_single_time_is_over_at_its_end() {
        let calendar = Calendar::new("2026-12-01T08:00", "UTC", HOUR, false).unwrap();
        let at = Occurrence { week: 0, starts: unix("2026-12-01T08:00:00Z"), ends: unix("2026-12-01T09:00:00Z") };
        assert_eq!(calendar.ahead(at.ends - 1), [at]);
        assert_eq!(calendar.ahead(at.ends), []);
        assert_eq!(calendar.text(at.starts), "2026-12-01 08:00 UTC");
    }

    #[test]
    fn times_that_meet_are_found_however_far_ahead() {
        let calendar = |first, zone, weekly| Calendar::new(first, zone, HOUR, weekly).unwrap();
        let weekly = calendar("2026-12-01T08:00", "UTC", true);
        let meets = |one: &Calendar, other: &Calendar| {
            let met = one.meets(other, unix("2026-11-20T00:00:00Z"));
            assert_eq!(met, other.meets(one, unix("2026-11-20T00:00:00Z")));
            met
        };
        assert!(meets(&weekly, &calendar("2028-12-05T08:30", "UTC", false)));
        assert!(!meets(&weekly, &calendar("2028-12-05T09:00", "UTC", false)));
        assert!(!meets(&weekly, &calendar("2028-12-06T08:30", "UTC", false)));
        assert!(!meets(&weekly, &calendar("2026-11-24T08:30", "UTC", false)), "before its first time");
        assert!(meets(&weekly, &calendar("2027-06-01T08:59", "UTC", true)));
        assert!(!meets(&weekly, &calendar("2027-06-01T09:00", "UTC", true)));
        // They overlap from the end of March on.
        assert!(meets(&weekly, &calendar("2026-12-01T10:00", "Europe/Berlin", true)));
        assert!(!meets(&weekly, &calendar("2026-12-01T11:00", "Europe/Berlin", true)));
    }

    #[test]
    fn invalid_time_or_zone_is_named() {
        let error = |first, zone, lasts, weekly| Calendar::new(first, zone, lasts, weekly).unwrap_err();
        assert!(error("2026-12-01T08:00", "Europe/Berlim", HOUR, false).contains("no time zone \"Europe/Berlim\""));
        assert!(error("tomorrow", "UTC", HOUR, false).contains("\"tomorrow\" is no time"));
        assert!(error("1969-12-01T08:00", "UTC", HOUR, false).contains("is no time that reservations can have"));
        assert!(error("2026-12-01T08:00", "UTC", WEEK_MS, true).contains("less than a week"));
    }
}
