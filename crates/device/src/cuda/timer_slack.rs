//! How late the system may wake a thread.

use std::num::NonZeroU64;

const TIMER_SLACK_NS: u64 = 1_000;

/// Has the system wake this thread from its sleeps when it has asked for it, not up to 50 us later. For threads of our own, which look from time to
/// time. Where the system does not listen they sleep longer.
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(TIMER_SLACK_NS));
}
