//! The pace at which one program's reports of its use of devices are accepted: a program that reports without end waits
//! for the coordinator, and not others for that program.

use std::time::Duration;

/// Time between two reports, on average. Programs report once a second.
const INTERVAL: Duration = Duration::from_millis(100);
/// Reports that are accepted at once after a pause.
const AT_ONCE: u32 = 8;

/// The pace of one program's reports. Times are those since any moment of the past.
#[derive(Debug, Default)]
pub(super) struct ReportPace {
    /// The time from which as many reports are accepted at once again.
    refilled: Duration,
}

impl ReportPace {
    /// Counts a report. Returns how long to wait before the next message is read.
    fn count(&mut self, now: Duration) -> Duration {
        self.refilled = self.refilled.max(now) + INTERVAL;
        (self.refilled - now).saturating_sub(INTERVAL * AT_ONCE)
    }

    /// Counts a report, and waits until the next message may be read.
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
        let mut pace = ReportPace::default();
        for second in 0..100 {
            let now = Duration::from_secs(second);
            // The last report of a session may follow at once.
            assert_eq!([pace.count(now), pace.count(now)], [Duration::ZERO; 2]);
        }
        let (mut pace, mut now) = (ReportPace::default(), Duration::ZERO);
        for _ in 0..1_000 {
            now += pace.count(now);
        }
        assert_eq!(now, INTERVAL * (1_000 - AT_ONCE));
    }
}
