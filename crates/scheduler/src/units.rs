//! Sizes and times in requests and policies.

/// Returns a size in the largest unit that divides it: `20G`, `1536M`, `1000B`.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let units = [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K'), (0, 'B')];
    let (shift, unit) = units.into_iter().find(|(shift, _)| bytes.trailing_zeros() >= *shift).unwrap_or((0, 'B'));
    let (shift, unit) = if bytes == 0 { (0, 'B') } else { (shift, unit) };
    format!("{}{unit}", bytes >> shift)
}

/// Returns a time in the largest unit that divides it: `2h`, `90m`, `1500ms`.
#[must_use]
pub fn time_text(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];
    let fitting = units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1_000, "s"));
    format!("{}{name}", ms / unit)
}

/// Returns a time in days, hours, minutes and seconds: `3d 2m`. Milliseconds are rounded up.
#[must_use]
pub fn long_time_text(ms: u64) -> String {
    let mut left = ms.div_ceil(1_000);
    let mut text = String::new();
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        let (count, rest) = (left / unit, left % unit);
        if count > 0 {
            text.push_str(&format!("{}{count}{name}", if text.is_empty() { "" } else { " " }));
        }
        left = rest;
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Returns thousandths as a decimal number: `8`, `0.5`, `1.25`.
#[must_use]
pub fn milli_text(milli: u64) -> String {
    let text = format!("{}.{:03}", milli / 1_000, milli % 1_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads a decimal number with at most three decimals. Returns thousandths.
#[must_use]
pub fn parse_milli(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let part: u64 = format!("{part:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::settings::{parse_bytes, parse_time};

    #[test]
    fn texts_are_read_as_what_they_were_written_for() {
        for bytes in [0, 1, 1000, 1024, 1536 << 20, 20 << 30, 1 << 50, u64::MAX] {
            assert_eq!(parse_bytes(&size_text(bytes)), Some(bytes), "{bytes}");
        }
        for ms in [0, 1, 1_500, 60_000, 5_400_000, 7_200_000, 86_400_000 * 14] {
            let read = parse_time(&time_text(ms)).map(|time| time.as_millis());
            assert_eq!(read, Some(u128::from(ms)), "{ms}");
        }
        for milli in [0, 1, 10, 500, 1_000, 1_250, 96_000, u64::MAX] {
            assert_eq!(parse_milli(&milli_text(milli)), Some(milli), "{milli}");
        }
        assert_eq!([size_text(20 << 30), time_text(5_400_000), milli_text(500)], ["20G", "90m", "0.5"]);
    }

    #[test]
    fn long_times_are_in_several_units() {
        let texts = [0, 1, 62 * 60_000, 3 * 86_400_000 + 120_000, 90_061_000].map(long_time_text);
        assert_eq!(texts, ["0s", "1s", "1h 2m", "3d 2m", "1d 1h 1m 1s"]);
    }

    #[test]
    fn other_numbers_are_refused() {
        for bad in ["", ".", "1.", ".5", "-1", "1.0000", "1e3", "99999999999999999999", "18446744073709551.616"] {
            assert_eq!(parse_milli(bad), None, "{bad}");
        }
    }
}
