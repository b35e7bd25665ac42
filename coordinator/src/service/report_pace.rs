//! Limits the rate of a program's reports on its devices. A program that floods the coordinator is slowed down, and
//! other programs are not.

use std::time::Duration;

/// Average time between two reports. Programs report once a second.
const INTERVAL: Duration = Duration::from_millis(100);
/// Most reports at once after a pause.
const AT_ONCE: u32 = 8;

/// The rate limiter of one program. Times are counted from any fixed moment.
#[derive(Debug, Default)]
pub(super) struct ReportRateLimit {
    /// The time at which a full burst is available again.
    refilled: Duration,
}

impl ReportRateLimit {
    /// Counts a report. Returns the delay before the next message is read.
    fn count(&mut self, now: Duration) -> Duration {
        self.refilled = self.refilled.max(now) + INTERVAL;
        (self.refilled - now).saturating_sub(INTERVAL * AT_ONCE)
    }

    /// Counts a report, and sleeps until the next message may be read.
    pub(super) async fn keep(&mut self, now: Duration) {
        let wait = self.count(now);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_report_once_a_second_never_wait_and_floods_are_slowed_down() {
        let mut pace = ReportRateLimit::default();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            // The last report of a session may follow at once.
            assert_eq!([pace.count(now), pace.count(now)], [Duration::ZERO; 2]);
        }
        let (mut pace, mut now) = (ReportRateLimit::default(), Duration::ZERO);
        for _ in 0..1_000 {
            now += pace.count(now);
        }
        assert_eq!(now, INTERVAL * (1_000 - AT_ONCE));
    }
}
