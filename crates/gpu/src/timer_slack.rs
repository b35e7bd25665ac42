//! The slack by which the system may wake a thread late.

use std::num::NonZeroU64;

const TIMER_SLACK_NS: u64 = 1_000;

/// Makes the system end this thread's sleeps on time, not up to 50 us later. For Accord's own threads, which poll at intervals. If the system refuses they
/// sleep longer.
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
}
