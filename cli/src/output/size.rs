//! Sizes and times in readable form.

/// Writes a number of bytes: `512 B`, `9.6 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 100.0);
    format!("{value:.decimals$} {}", UNITS.get(unit).unwrap_or(&""))
}

/// Writes a time span: `120 ms`, `34 s`, `2 h 5 min`.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Writes a short time, given in microseconds: `8.2 us`, `1.25 ms`.
pub(crate) fn time(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.1} us"),
        ..1e6 => format!("{:.2} ms", us / 1e3),
        _ => format!("{:.2} s", us / 1e6),
    }
}

/// Writes a rate, given in gigabytes per second: `11.4 GB/s`, `3.1 MB/s`.
pub(crate) fn rate(gigabytes: f64) -> String {
    match gigabytes {
        ..0.1 => format!("{:.1} MB/s", gigabytes * 1e3),
        _ => format!("{gigabytes:.1} GB/s"),
    }
}

/// Writes a number with its noun: `1 region`, `2 regions`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(200 << 30), "200 GiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn times_and_rates_are_short() {
        assert_eq!([8.23, 999.0, 1_250.0, 2.5e6].map(time), ["8.2 us", "999.0 us", "1.25 ms", "2.50 s"]);
        assert_eq!([0.0031, 0.1, 174.04].map(rate), ["3.1 MB/s", "0.1 GB/s", "174.0 GB/s"]);
    }

    #[test]
    fn ages_are_short() {
        assert_eq!(age(120), "120 ms");
        assert_eq!(age(34_999), "34 s");
        assert_eq!(age(7_500_000), "2 h 5 min");
    }
}
