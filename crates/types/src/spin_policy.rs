//! How long a waiting thread spins before it blocks.
//!
//! To wake a thread on an idle core takes several times as long as the rest of a short wait. So a reading thread spins
//! first, yielding its core in between, if recent waits were short. It never spins on a single core, nor for some waits
//! after another thread wanted the core.
//!
//! A thread that waits for a device on the program's behalf spins for longer where there are enough cores, as the
//! device's driver would. At most half as many threads of a process as it has cores do so at one time: an agent has
//! some for each rank of its node, and the ranks need the cores.

use crate::settings::SPIN_CORES;
use crate::{Error, ErrorCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads block at once if recent waits took longer than this on average.
const SHORT: Duration = Duration::from_micros(100);
/// [`SHORT`] for a long spin.
const LONG: Duration = Duration::from_millis(4);
/// Fewest cores for a long spin.
const CORES_MIN: usize = 4;
/// Weight of the latest wait in the average: 1 / 8.
const SHIFT: u32 = 3;
/// The part of the longest wait that decays with each later one: 1 / 32.
const LONGEST_SHIFT: u32 = 5;
/// A thread that keeps the core for this long after a yield has work for it.
pub const OVERSUBSCRIBED: Duration = Duration::from_micros(30);
/// The number of waits without spinning after that.
const PAUSE: u32 = 16;
/// Polls of memory before the core is yielded once, which takes about as long: less than a microsecond.
pub const POLLS_PER_YIELD: u32 = 16;

/// Polls of a thread whose waits are mostly shorter than [`QUICK`]: to yield the core, or to read the clock, takes a
/// considerable part of such a wait.
const QUICK_POLLS: u32 = 8 * POLLS_PER_YIELD;
/// The longest wait for a thread on another core that answers at once.
const QUICK: Duration = Duration::from_micros(3);
/// The duration that such a wait is recorded with.
const QUICK_WAIT: Duration = Duration::from_micros(1);

/// A record of recent waits, which decides how long to spin.
#[derive(Clone, Copy, Debug)]
pub struct SpinPolicy {
    /// The longest average for spinning, in nanoseconds like the other fields.
    short: u64,
    average: u64,
    /// The longest short wait lately: waits are of several kinds, such as a kernel's and those for messages.
    longest: u64,
    cores: usize,
    pause: u32,
}

/// Converts a duration to nanoseconds; a `u64` holds 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Default for SpinPolicy {
    /// Creates the policy of this process and its cores.
    fn default() -> Self {
        Self::new(cores())
    }
}

/// The number of cores that this process assumes.
static CORES: OnceLock<usize> = OnceLock::new();

fn cores() -> usize {
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Takes the number of cores from [`SPIN_CORES`], if that is set. Must be called before any thread waits.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if the value is not valid.
pub fn read_cores(lookup: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    if let Some(cores) = cores_set(lookup)? {
        let known = *CORES.get_or_init(|| cores);
        debug_assert_eq!(known, cores, "a thread has waited before");
    }
    Ok(())
}

fn cores_set(lookup: impl Fn(&str) -> Option<String>) -> Result<Option<usize>, Error> {
    let Some((name, text)) = SPIN_CORES.find(lookup) else { return Ok(None) };
    match text.trim().parse() {
        Ok(cores) if cores > 0 => Ok(Some(cores)),
        _ => Err(Error::new(ErrorCode::InvalidArgument, format!("{name} is \"{text}\""))
            .remedy("set it to a number of cores, 1 or more, or unset it")),
    }
}

impl SpinPolicy {
    /// Creates a policy for a process that may use this many cores.
    pub fn new(cores: usize) -> Self {
        Self::up_to(SHORT, cores)
    }

    /// Creates a policy for a thread of this process that waits for a device on the program's behalf.
    pub fn long_spin() -> Self {
        Self::long_spin_with_cores(cores())
    }

    /// Creates a policy for polls that are system calls. Returns `None` if there are too few cores.
    pub fn where_cores_abound() -> Option<Self> {
        (cores() >= CORES_MIN).then(Self::default)
    }

    /// Creates a policy as [`SpinPolicy::long_spin`], for a process that may use this many cores.
    pub fn long_spin_with_cores(cores: usize) -> Self {
        Self::up_to(if cores < CORES_MIN { SHORT } else { LONG }, cores)
    }

    fn up_to(short: Duration, cores: usize) -> Self {
        let short = nanos(short);
        Self { short, average: 2 * short, longest: 0, cores, pause: 0 }
    }

    /// Returns how long to spin before blocking.
    pub fn limit(&self) -> Duration {
        if self.cores > 1 && self.pause == 0 && self.average < self.short {
            Duration::from_nanos(2 * self.average.max(self.longest))
        } else {
            Duration::ZERO
        }
    }

    /// Polls memory briefly, if recent waits were shorter than [`QUICK`], before anything that takes time. A value that
    /// is found ends the wait, which is recorded.
    pub fn quickly<T>(&mut self, mut found: impl FnMut() -> Option<T>) -> Option<T> {
        if self.average >= nanos(QUICK) || self.limit() == Duration::ZERO {
            return None;
        }
        for _ in 0..QUICK_POLLS {
            if let Some(found) = found() {
                self.waited(QUICK_WAIT);
                return Some(found);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Spins until `found` returns a value, at most for [`SpinPolicy::limit`] after `start`, which is now. Polls `polls`
    /// times before the core is yielded once.
    pub fn spin<T>(&mut self, start: Instant, polls: u32, found: impl FnMut() -> Option<T>) -> Option<T> {
        let limit = self.limit();
        if limit.is_zero() {
            return None;
        }
        let looked = poll_until(start, limit, polls, found);
        if matches!(looked, Err(SpinOutcome::Oversubscribed)) {
            self.oversubscribed();
        }
        looked.ok()
    }

    /// Waits until memory shows that `is_ready` holds: spins as [`SpinPolicy::spin`], then calls `block`. Records the
    /// wait's duration.
    pub fn wait(&mut self, is_ready: impl Fn() -> bool, block: impl FnOnce()) {
        let start = Instant::now();
        if self.spin(start, POLLS_PER_YIELD, || is_ready().then_some(())).is_none() {
            block();
        }
        self.waited(start.elapsed());
    }

    /// Records a wait of this duration.
    pub fn waited(&mut self, time: Duration) {
        self.pause = self.pause.saturating_sub(1);
        let time = nanos(time);
        self.longest = self.longest - (self.longest >> LONGEST_SHIFT);
        if time < self.short {
            self.longest = self.longest.max(time);
        }
        // A single long wait must not outweigh many short ones for long.
        let time = time.min(8 * self.short);
        self.average = self.average - (self.average >> SHIFT) + (time >> SHIFT);
    }

    /// Records that another thread has wanted the core.
    pub fn oversubscribed(&mut self) {
        self.pause = PAUSE;
    }
}

/// The outcome of spinning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpinOutcome {
    /// The poll succeeded.
    Ready,
    /// The limit has passed.
    Late,
    /// Another thread wants the core.
    Oversubscribed,
}

/// Number of this process's threads that are in a long spin.
static LONG_SPINS: AtomicUsize = AtomicUsize::new(0);

/// A count of [`LONG_SPINS`] that is released on drop.
struct LongSpin;

impl LongSpin {
    /// Returns `None` if the most allowed threads are in a long spin.
    fn begin() -> Option<Self> {
        let max = (cores() / 2).max(1);
        let take = |looks: usize| (looks < max).then_some(looks + 1);
        LONG_SPINS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok().map(|_| Self)
    }
}

impl Drop for LongSpin {
    fn drop(&mut self) {
        LONG_SPINS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Polls memory until `limit` after `since`, which must be the current time.
pub fn spin_until(since: Instant, limit: Duration, ready: impl Fn() -> bool) -> SpinOutcome {
    poll_until(since, limit, POLLS_PER_YIELD, || ready().then_some(())).err().unwrap_or(SpinOutcome::Ready)
}

/// Spins as [`spin_until`] until `found` returns a value; polls `looks` times before the core is yielded once. The clock,
/// too, is read once in that many polls, since it takes as long as several.
///
/// # Errors
/// Returns [`SpinOutcome::Late`] or [`SpinOutcome::Oversubscribed`] if the spin ended without a value.
pub fn poll_until<T>(
    since: Instant,
    limit: Duration,
    looks: u32,
    mut found: impl FnMut() -> Option<T>,
) -> Result<T, SpinOutcome> {
    let (mut before, mut long) = (since, None);
    loop {
        for _ in 0..looks {
            if let Some(found) = found() {
                return Ok(found);
            }
            std::hint::spin_loop();
        }
        std::thread::yield_now();
        let now = Instant::now();
        if now - before > OVERSUBSCRIBED {
            return found().ok_or(SpinOutcome::Oversubscribed);
        }
        if now - since >= limit {
            return found().ok_or(SpinOutcome::Late);
        }
        if now - since >= 2 * SHORT && long.is_none() {
            long = LongSpin::begin();
            if long.is_none() {
                return found().ok_or(SpinOutcome::Late);
            }
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(cores: usize, waits: &[u64]) -> SpinPolicy {
        let mut spin = SpinPolicy::new(cores);
        waits.iter().for_each(|&us| spin.waited(Duration::from_micros(us)));
        spin
    }

    #[test]
    fn short_waits_extend_spinning_and_long_waits_end_it() {
        assert_eq!(SpinPolicy::new(4).limit(), Duration::ZERO, "nothing is known yet");
        let short = after(4, &[20; 30]);
        assert!(short.limit() >= Duration::from_micros(40) && short.limit() < 2 * SHORT);
        let mut long = short;
        (0..3).for_each(|_| long.waited(Duration::from_secs(1)));
        assert_eq!(long.limit(), Duration::ZERO);
        (0..30).for_each(|_| long.waited(Duration::from_micros(20)));
        assert!(long.limit() > Duration::ZERO, "and back");
    }

    #[test]
    fn device_waits_spin_longer_with_free_cores() {
        let waited = |cores, us| {
            let mut spin = SpinPolicy::long_spin_with_cores(cores);
            (0..40).for_each(|_| spin.waited(Duration::from_micros(us)));
            spin.limit()
        };
        assert!(waited(8, 1_000) >= Duration::from_millis(1) && waited(8, 3_000) <= 2 * LONG);
        assert_eq!([waited(8, 10_000), waited(2, 1_000), waited(1, 10)], [Duration::ZERO; 3]);
        assert!(waited(2, 20) > Duration::ZERO);
    }

    #[test]
    fn repeated_long_wait_among_short_ones_is_spun_through() {
        let mut spin = SpinPolicy::long_spin_with_cores(8);
        for _ in 0..20 {
            (0..7).for_each(|_| spin.waited(Duration::from_micros(5)));
            spin.waited(Duration::from_micros(800));
        }
        (0..7).for_each(|_| spin.waited(Duration::from_micros(5)));
        assert!(spin.limit() > Duration::from_millis(1) && spin.limit() < Duration::from_millis(2));
        // A wait too long for a spin does not count as the longest.
        (0..200).for_each(|_| spin.waited(Duration::from_micros(5)));
        spin.waited(2 * LONG);
        (0..20).for_each(|_| spin.waited(Duration::from_micros(5)));
        assert!(spin.limit() < Duration::from_micros(500), "{:?}", spin.limit());
    }

    #[test]
    fn quick_poll_precedes_spinning() {
        let mut quick = after(4, &[1; 60]);
        let mut looks = 0..;
        assert_eq!(quick.quickly(|| looks.next().filter(|&look| look == 5)), Some(5));
        assert_eq!(quick.quickly(|| looks.next().filter(|_| false)), None);
        assert_eq!(looks.next(), Some(6 + QUICK_POLLS), "for a moment only");
        // A quick success is recorded as a wait, so that longer waits decay.
        let mut average = after(4, &[2; 60]);
        let before = average.average;
        average.quickly(|| Some(()));
        assert!(average.average < before);
        for mut other in [after(4, &[20; 60]), after(1, &[1; 60]), SpinPolicy::new(4)] {
            assert_eq!(other.quickly(|| Some(())), None);
        }
        quick.oversubscribed();
        assert_eq!(quick.quickly(|| Some(())), None, "others want the core");
    }

    #[test]
    fn spin_cores_setting_is_used() {
        let set = |text: &'static str| cores_set(|name| (name == SPIN_CORES.name).then(|| text.to_owned()));
        assert_eq!([set(""), set(" 8 "), set("1")], [Ok(None), Ok(Some(8)), Ok(Some(1))]);
        for wrong in ["0", "-1", "all", "2.5"] {
            let why = set(wrong).unwrap_err().to_string();
            assert!(why.contains(&format!("ACCORD_SPIN_CORES is \"{wrong}\"")) && why.contains("1 or more"), "{why}");
        }
    }

    #[test]
    fn one_core_is_left_to_the_others() {
        assert_eq!(after(1, &[1; 50]).limit(), Duration::ZERO);
    }

    #[test]
    fn spinning_pauses_on_an_oversubscribed_core() {
        let mut spin = after(4, &[5; 30]);
        spin.oversubscribed();
        for _ in 0..PAUSE {
            assert_eq!(spin.limit(), Duration::ZERO);
            spin.waited(Duration::from_micros(5));
        }
        assert!(spin.limit() > Duration::ZERO);
    }

    #[test]
    fn number_of_long_spinning_threads_is_bounded() {
        let held: Vec<_> = std::iter::from_fn(LongSpin::begin).collect();
        assert!(!held.is_empty() && held.len() <= cores());
        // Without a permit this would end only by its limit or by another thread that wants the core.
        assert_ne!(spin_until(Instant::now(), Duration::from_secs(3600), || false), SpinOutcome::Ready);
        let begun = Instant::now();
        drop(held);
        // A short spin needs no permit.
        assert_eq!(spin_until(begun, Duration::from_secs(3600), || true), SpinOutcome::Ready);
        assert_eq!(LONG_SPINS.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn spinning_ends_with_the_event_or_at_its_limit() {
        assert_eq!(spin_until(Instant::now(), Duration::from_secs(60), || true), SpinOutcome::Ready);
        assert_ne!(spin_until(Instant::now(), Duration::from_micros(50), || false), SpinOutcome::Ready);
        // Another thread may want the core meanwhile.
        let third = || {
            let mut looks = 0..3;
            poll_until(Instant::now(), Duration::from_secs(60), 1, || looks.next().filter(|&look| look == 2))
        };
        assert!((0..1000).any(|_| third() == Ok(2)));
        assert_ne!(poll_until(Instant::now(), Duration::from_micros(50), 1, || None::<()>), Ok(()));
    }
}
