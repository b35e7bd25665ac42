//! The format of a line.

use accord_types::printable;
use accord_types::texts::shorten;
use std::fmt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most bytes of a line, without its end.
const LINE_MAX: usize = 4 << 10;

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Sets the program whose messages these are. The first call counts.
pub(super) fn begin_with(program: &'static str) {
    let _ = PROGRAM.set(program);
}

/// Returns a text as one line with control characters escaped.
pub(super) fn displayed(mut text: String) -> String {
    shorten(&mut text, LINE_MAX);
    format!("{}\n", printable(&text))
}

/// Returns a message with its time, program and level.
pub(super) fn message(level: &str, message: &dyn fmt::Display) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let program = PROGRAM.get().copied().unwrap_or("accord");
    displayed(format!("{} {program} {level}: {message}", Utc(now.as_secs())))
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
    use super::*;

    #[test]
    fn a_message_is_one_line_that_a_terminal_only_shows() {
        let displayed = message("info", &"\u{1b}]0;owned\u{7}\nfake: a line");
        assert!(displayed.ends_with("accord info: \\u{1b}]0;owned\\u{7}\\nfake: a line\n"), "{displayed:?}");
        assert!(message("info", &"x".repeat(1 << 20)).len() <= LINE_MAX + 1);
    }

    #[test]
    fn seconds_become_dates() {
        assert_eq!(Utc(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(Utc(951_782_400).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(Utc(1_795_255_262).to_string(), "2026-11-21T10:01:02Z");
    }
}
