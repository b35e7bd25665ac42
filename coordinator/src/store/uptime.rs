//! A monotonic clock: the time since the machine's start, including suspension.

use rustix::time::{ClockId, clock_gettime};
use std::fs;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The machine's boot, and the time since then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Uptime {
    /// Differs between boots of the machine; 0 if the system does not provide it.
    pub(super) boot: u64,
    /// Milliseconds since the boot.
    pub(super) ms: u64,
}

impl Uptime {
    pub(super) fn now() -> Self {
        let text = fs::read_to_string(BOOT_ID).unwrap_or_default();
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
        let boot = u64::from_str_radix(&digits, 16).unwrap_or(0);
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let ms = seconds.saturating_mul(1_000) + u64::try_from(time.tv_nsec / 1_000_000).unwrap_or(0);
        Self { boot, ms }
    }
}
