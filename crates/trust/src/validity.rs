//! Reads the expiry of a certificate.

use crate::der::{INTEGER, SEQUENCE, element};
use rustls::pki_types::CertificateDer;
use std::time::Duration;

/// The explicit tag of a certificate's version.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SECONDS_A_DAY: u64 = 24 * 60 * 60;

/// Returns the end of a certificate's validity, counted from 1970; `None` if the certificate is malformed.
pub fn expiry(certificate: &CertificateDer<'_>) -> Option<Duration> {
    // RFC 5280, 4.1: the validity follows version, serial number, algorithm and issuer.
    let (signed, _) = element(SEQUENCE, element(SEQUENCE, certificate)?.0)?;
    let rest = element(VERSION, signed).map_or(signed, |(_, rest)| rest);
    let (_serial, rest) = element(INTEGER, rest)?;
    let (_algorithm, rest) = element(SEQUENCE, rest)?;
    let (_issuer, rest) = element(SEQUENCE, rest)?;
    let (validity, _) = element(SEQUENCE, rest)?;
    let (_, rest) = time(validity)?;
    let (end, _) = time(rest)?;
    Some(Duration::from_secs(end))
}

/// Returns the time at the beginning of `der`, in seconds since 1970, and the bytes after it. Certificates use UTC with
/// full seconds.
fn time(der: &[u8]) -> Option<(u64, &[u8])> {
    let digits = |text: &[u8]| {
        text.iter().try_fold(0_u64, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
    };
    let (year, text, rest) = if let Some((text, rest)) = element(UTC_TIME, der) {
        let (year, text) = text.split_at_checked(2)?;
        let year = digits(year)?;
        // RFC 5280, 4.1.2.5.1.
        (if year >= 50 { 1900 + year } else { 2000 + year }, text, rest)
    } else {
        let (text, rest) = element(GENERALIZED_TIME, der)?;
        let (year, text) = text.split_at_checked(4)?;
        (digits(year)?, text, rest)
    };
    let text = text.strip_suffix(b"Z").filter(|text| text.len() == 10)?;
    let mut parts = text.chunks(2).map(digits);
    let mut part = |least, most| parts.next().flatten().filter(|part| (least..=most).contains(part));
    let (month, day) = (part(1, 12)?, part(1, 31)?);
    let (hour, minute, second) = (part(0, 23)?, part(0, 59)?, part(0, 60)?);
    let seconds = days(year, month, day)? * SECONDS_A_DAY + hour * 3600 + minute * 60 + second;
    Some((seconds, rest))
}

/// Returns the number of days from 1970 to a day of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    // The year is counted from March, so that the leap day is its last day.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let before_year = year * 365 + year / 4 - year / 100 + year / 400;
    let before_month = (153 * month + 2) / 5;
    (before_year + before_month + day - 1).checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tag: u8, text: &str) -> Option<u64> {
        let der = [&[tag, text.len() as u8], text.as_bytes()].concat();
        time(&der).map(|(seconds, _)| seconds)
    }

    #[test]
    fn times_of_both_forms_are_read() {
        // date -u -d '2026-11-29 16:30:05' +%s and so on.
        assert_eq!(of(UTC_TIME, "261129163005Z"), Some(1_795_969_805));
        assert_eq!(of(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(of(UTC_TIME, "240229235959Z"), Some(1_709_251_199));
        assert_eq!(of(GENERALIZED_TIME, "20500301000000Z"), Some(2_529_705_600));
        assert_eq!(of(GENERALIZED_TIME, "20000229120000Z"), Some(951_825_600));
    }

    #[test]
    fn malformed_times_are_refused() {
        for text in ["", "2611291630Z", "261129163005", "261329163005Z", "26112916300xZ", "690101000000Z"] {
            let after_1970 = of(UTC_TIME, text);
            assert!(after_1970.is_none() || text.starts_with("69"), "{text}: {after_1970:?}");
        }
        assert_eq!(of(GENERALIZED_TIME, "19691231235959Z"), None);
        assert_eq!(of(GENERALIZED_TIME, "00000101000000Z"), None);
        assert_eq!(expiry(&CertificateDer::from(&[0x30, 0x02, 0x30, 0x00][..])), None);
    }
}
