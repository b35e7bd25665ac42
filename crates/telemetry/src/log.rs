//! Messages of the services to standard error: one line each, nothing else.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// From now on, Accord's own messages of `level` and above go to standard error, each with the
/// time and the name of `program`. Does nothing if somebody takes the messages already.
pub fn to_stderr(program: &'static str, level: LevelFilter) {
    let _ = tracing::subscriber::set_global_default(Lines { program, level });
}

struct Lines {
    program: &'static str,
    level: LevelFilter,
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.is_event() && metadata.target().starts_with("accord")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let _ = write!(line.0, "{} {} {level}: ", Utc(now.as_secs()), self.program);
        event.record(&mut line);
        line.0.push('\n');
        // Nobody can be told that standard error is gone.
        let _ = std::io::stderr().write_all(line.0.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

/// Seconds since 1970 as a date and time of day.
struct Utc(u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 86_400;
        // Years begin in March here, so that the leap day comes last: 400 years have 146,097 days.
        let days = self.0 / DAY + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let seconds = self.0 % DAY;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::Utc;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Utc(951_782_400).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(Utc(1_795_255_262).to_string(), "2026-11-21T10:01:02Z");
    }
}
