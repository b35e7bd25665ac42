//! Deadlines, as administrators write them.

use accord_types::settings::parse_time;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 24 * 60 * 60;

/// Parses a deadline, a time from now or a time of day in UTC. Returns the time until then.
///
/// # Errors
/// Returns the valid forms of a deadline if the text has none of them.
pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let forms = "use a time from now such as 30m or 2h, or a time of day in UTC such as 18:00";
    until(text, unix.as_secs()).ok_or_else(|| forms.to_owned())
}

/// Returns the time of day in UTC at a time since 1970: `18:00`.
pub(crate) fn time_of_day(unix: Duration) -> String {
    let minutes = unix.as_secs() % DAY / 60;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

fn until(text: &str, unix: u64) -> Option<Duration> {
    let Some((hour, minute)) = text.split_once(':') else { return parse_time(text) };
    let (hour, minute): (u64, u64) = (hour.parse().ok()?, minute.parse().ok()?);
    let of_day = (hour < 24 && minute < 60).then_some(hour * 3600 + minute * 60)?;
    Some(Duration::from_secs((of_day + DAY - unix % DAY) % DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_a_time_from_now_or_of_day() {
        let at = |text: &str| until(text, 16 * 3600 + 30).map(|time| time.as_secs());
        assert_eq!((at("2h"), at("18:00"), at("16:00")), (Some(7200), Some(7170), Some(DAY - 30)));
        assert_eq!((at("24:00"), at("6 pm"), at("18:60"), at("")), (None, None, None, None));
        assert_eq!(time_of_day(Duration::from_secs(7 * DAY + 16 * 3600 + 59)), "16:00");
    }
}
