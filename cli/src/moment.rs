//! Moments by the wall clock of a time zone, as administrators write them.

use crate::failure::{Failure, Result};
use accord_types::settings::parse_time;
use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use std::str::FromStr;
use std::time::Duration;

/// A moment without its time zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// The present moment.
    Now,
    /// After a time.
    After(Duration),
    /// The next time at which the clock shows this.
    TimeOfDay(Time),
    /// A day and a time.
    At(DateTime),
}

impl FromStr for Start {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "now" {
            return Ok(Self::Now);
        }
        if let Some(after) = parse_time(text) {
            return Ok(Self::After(after));
        }
        let of_day = if text.contains('-') { None } else { text.parse().ok().map(Self::TimeOfDay) };
        let moment = of_day.or_else(|| text.parse().ok().map(Self::At));
        moment.ok_or_else(|| "write now, a time from now as in 2h, 18:00, or 2026-12-01T08:00".to_owned())
    }
}

impl Start {
    /// Returns the moment by a zone's clock, as seen from another one.
    pub(crate) fn at(self, seen: &ZonedDateTime) -> Result<ZonedDateTime> {
        let beyond = |error: jiff::Error| Failure::usage(format!("there is no such time: {error}"));
        match self {
            Self::Now => Ok(seen.clone()),
            Self::After(after) => seen.checked_add(after).map_err(beyond),
            Self::TimeOfDay(time) => {
                let today =
                    seen.date().to_datetime(time).to_zoned_datetime(seen.time_zone().clone()).map_err(beyond)?;
                if &today >= seen {
                    return Ok(today);
                }
                let tomorrow = seen.date().checked_add(1.day()).map_err(beyond)?;
                tomorrow.to_datetime(time).to_zoned_datetime(seen.time_zone().clone()).map_err(beyond)
            }
            Self::At(at) => at.to_zoned_datetime(seen.time_zone().clone()).map_err(beyond),
        }
    }
}

/// Returns a time zone by its name, or this machine's.
pub(crate) fn zone(name: Option<&str>) -> Result<TimeZone> {
    if let Some(name) = name {
        let unknown =
            |_| Failure::usage(format!("--zone {name:?} is no time zone: write one as in Europe/Berlin, or UTC"));
        return TimeZone::get(name).map_err(unknown);
    }
    let own = TimeZone::system();
    match own.iana_name() {
        Some(_) => Ok(own),
        None if own.is_unknown() => Ok(TimeZone::UTC),
        None => Err(Failure::usage("this machine's time zone has no name: write it, as in --zone Europe/Berlin")),
    }
}

/// Returns the time now by a zone's clock.
pub(crate) fn now(zone: TimeZone) -> ZonedDateTime {
    Timestamp::now().to_zoned_datetime(zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        let seen: ZonedDateTime = "2026-10-24T20:00[Europe/Berlin]".parse().unwrap();
        text.parse::<Start>().unwrap().at(&seen).unwrap().to_string()
    }

    #[test]
    fn a_moment_is_now_a_time_from_now_a_time_of_day_or_a_day_and_time() {
        assert_eq!(at("now"), "2026-10-24T20:00:00+02:00[Europe/Berlin]");
        assert_eq!(at("90m"), "2026-10-24T21:30:00+02:00[Europe/Berlin]");
        assert_eq!(at("21:15"), "2026-10-24T21:15:00+02:00[Europe/Berlin]");
        // The clock is set back in that night.
        assert_eq!(at("06:00"), "2026-10-25T06:00:00+01:00[Europe/Berlin]");
        assert_eq!(at("12h"), "2026-10-25T07:00:00+01:00[Europe/Berlin]");
        assert_eq!(at("2026-12-01T08:00"), "2026-12-01T08:00:00+01:00[Europe/Berlin]");
        assert_eq!(at("2026-12-01 08:00"), at("2026-12-01T08:00"));
        assert_eq!(at("2026-12-01"), "2026-12-01T00:00:00+01:00[Europe/Berlin]");
        for wrong in ["", "tomorrow", "25:00", "2026-13-01", "2026-12-01T08:00Z"] {
            assert!(wrong.parse::<Start>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_zone_is_named() {
        assert_eq!(zone(Some("Asia/Tokyo")).unwrap().iana_name(), Some("Asia/Tokyo"));
        assert!(zone(Some("Mars/Olympus")).unwrap_err().to_string().contains("\"Mars/Olympus\" is no time zone"));
    }
}
