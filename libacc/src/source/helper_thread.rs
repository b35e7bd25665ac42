//! Searches for names on a separate thread, so that neither a small stack nor broken or endless debug information prevents a
//! message.

use accord_types::threads;
use std::os::unix::thread::JoinHandleExt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest search for names, in processor time, because the message matters more. Time in which the machine does not run the search does not
/// count.
const LOOKUP_MAX: Duration = Duration::from_secs(3);
/// The further limit for a search that gets no processor, or whose file can't be read in time.
const STARVED_MAX: Duration = Duration::from_secs(30);
/// The interval at which the search's processor time is checked.
const PERIOD: Duration = Duration::from_millis(100);
/// Stack for the search: the calling thread may have little left.
const STACK_BYTES: usize = 4 << 20;

/// Runs `look` on another thread. Returns `None` if that takes too long.
pub(crate) fn on_helper_thread<R: Send + 'static>(look: impl FnOnce() -> R + Send + 'static) -> Option<R> {
    on_helper_thread_within(LOOKUP_MAX, look)
}

/// Runs `look` as [`helper_thread`], for at most `max` of processor time.
pub(crate) fn on_helper_thread_within<R: Send + 'static>(
    max: Duration,
    look: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (done, found) = mpsc::sync_channel(1);
    // A panic counts as no result.
    let search = move || {
        if let Ok(found) = threads::caught(look) {
            let _ = done.send(found);
        }
    };
    let thread = threads::spawn_with_stack("accord-source", STACK_BYTES, search).ok()?;
    let begin = Instant::now();
    loop {
        match found.recv_timeout(PERIOD) {
            Ok(found) => return Some(found),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if is_too_long(max, used(&thread), begin.elapsed()) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

fn is_too_long(max: Duration, used: Option<Duration>, waited: Duration) -> bool {
    used.unwrap_or(waited) >= max || waited >= max + STARVED_MAX
}

/// Returns the processor time of a thread, or `None` if the system does not report it.
fn used<T>(thread: &JoinHandle<T>) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: the thread is neither joined nor detached while its handle exists.
    if unsafe { libc::pthread_getcpuclockid(thread.as_pthread_t(), &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid for writing.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn lookup_time_limit_counts_processor_time() {
        let found = on_helper_thread_within(SHORT, || {
            std::thread::sleep(SHORT * 2);
            7
        });
        assert_eq!(found, Some(7));
    }

    #[test]
    fn a_search_that_panics_finds_nothing() {
        assert_eq!(on_helper_thread(|| assert_eq!(std::process::id(), 0, "on purpose")), None);
    }

    #[test]
    fn an_endless_search_is_left_alone() {
        let (stop, stopped) = mpsc::channel::<()>();
        let found =
            on_helper_thread_within(SHORT, move || while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {});
        assert_eq!(found, None);
        drop(stop);
    }

    #[test]
    fn waits_are_bounded() {
        let seconds = Duration::from_secs;
        assert!(is_too_long(seconds(3), Some(seconds(1)), seconds(33)), "of a file that does not come");
        assert!(!is_too_long(seconds(3), Some(seconds(2)), seconds(32)));
        assert!(is_too_long(seconds(3), None, seconds(3)));
    }
}
