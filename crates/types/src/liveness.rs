//! Detection of hung processes by their silence. A busy process still answers checks, on a thread of its own, so work
//! has no time limit.
//!
//! A process with a pending wait checks every [`POLL_INTERVAL`]; without one there are no checks.

use std::time::Duration;

/// The interval of checks while a wait is pending.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Silence after which the program warns which process it waits for.
pub const WARN_AFTER: Duration = Duration::from_secs(5);
/// The longest interval between two checks that counts as the peer's silence. A longer one means that this process was
/// suspended.
const CHECK_GAP_MAX: Duration = Duration::from_secs(1);

/// The result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// No change.
    Well,
    /// The peer has been silent for this long; reported once.
    Silent(Duration),
    /// The peer has been silent for this long and is considered hung.
    Hung(Duration),
}

/// The liveness of one process.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    looked: Option<Duration>,
    signs_of_life: u64,
    silence: Duration,
    reported: bool,
}

impl Liveness {
    /// Checks the process at `now`. `signs_of_life` grows with each sign of life; `awaited` says whether a wait for the process
    /// is pending. The process is hung after `timeout`, or never if that is `None`.
    pub fn check_alive(
        &mut self,
        now: Duration,
        signs_of_life: u64,
        awaited: bool,
        timeout: Option<Duration>,
    ) -> Verdict {
        let since = self.looked.replace(now).map_or(Duration::ZERO, |before| now.saturating_sub(before));
        if !awaited || signs_of_life != self.signs_of_life {
            self.signs_of_life = signs_of_life;
            self.silence = Duration::ZERO;
            self.reported = false;
            if !awaited {
                self.looked = None;
            }
            return Verdict::Well;
        }
        self.silence += since.min(CHECK_GAP_MAX);
        if timeout.is_some_and(|timeout| self.silence >= timeout) {
            return Verdict::Hung(self.silence);
        }
        if self.silence >= WARN_AFTER && !std::mem::replace(&mut self.reported, true) {
            return Verdict::Silent(self.silence);
        }
        Verdict::Well
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn silence_is_reported_once_and_then_ends_the_wait() {
        let mut liveness = Liveness::default();
        let mut reported = Vec::new();
        for at in (0..40_000).step_by(250) {
            match liveness.check_alive(ms(at), 7, true, Some(TIMEOUT)) {
                Verdict::Well => {}
                verdict => reported.push((at, verdict)),
            }
            if let Some((_, Verdict::Hung(_))) = reported.last() {
                break;
            }
        }
        // The first check records the signs of life before it.
        assert_eq!(reported, [(5_000, Verdict::Silent(ms(5_000))), (30_000, Verdict::Hung(ms(30_000)))]);
    }

    #[test]
    fn without_a_time_it_is_told_and_nothing_more() {
        let mut liveness = Liveness::default();
        let verdicts: Vec<_> = (0..4_000).map(|n| liveness.check_alive(ms(n * 250), 1, true, None)).collect();
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict != Verdict::Well).count(), 1);
    }

    #[test]
    fn own_sleep_does_not_count_as_a_peers_silence() {
        let mut liveness = Liveness::default();
        liveness.check_alive(ms(0), 1, true, Some(TIMEOUT));
        assert_eq!(liveness.check_alive(ms(3_600_000), 1, true, Some(TIMEOUT)), Verdict::Well);
        assert_eq!(liveness.check_alive(ms(3_600_250), 2, true, Some(TIMEOUT)), Verdict::Well);
    }

    /// Simulates, by seeds, a process with irregular signs of life, and suspensions of this process.
    #[test]
    fn only_silence_while_something_is_awaited_ends_it() {
        for seed in 1..2_000u64 {
            let mut state = seed;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below
            };
            let mut liveness = Liveness::default();
            let (mut now, mut signs_of_life, mut silent, mut awaited) = (0, 1, 0, false);
            for _ in 0..400 {
                let step = if random(50) == 0 { random(100_000) } else { 250 };
                now += step;
                let before = awaited;
                if random(200) == 0 {
                    awaited = !awaited;
                }
                let life = random(if seed % 3 == 0 { 1_000 } else { 30 }) == 0;
                signs_of_life += u64::from(life);
                silent = if life || !awaited || !before { 0 } else { silent + step.min(1_000) };
                let verdict = liveness.check_alive(ms(now), signs_of_life, awaited, Some(TIMEOUT));
                // The first check with a pending wait may record a sign of life from long before.
                match verdict {
                    Verdict::Hung(_) => {
                        assert!(silent >= 30_000, "seed {seed}: {silent} ms");
                        break;
                    }
                    _ => assert!(silent < 30_250, "seed {seed}: {silent} ms of silence are nothing"),
                }
            }
        }
    }
}
