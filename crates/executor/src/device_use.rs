//! Counts and samples a session's use of its devices. Without I/O or clock.
//!
//! Samples show how busy a device is. A sample of a busy device counts for the time since the last sample. The sum is right
//! on average, however short kernels are, because the times of samples don't depend on them. A device that has taken
//! operations between two reports without a busy sample counts as busy for [`LEAST_BUSY`], so that it does not seem idle.

use accord_types::{DeviceFault, DeviceUse, Error, SessionId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Time between two samples of busy devices.
pub const SAMPLE_PERIOD: Duration = Duration::from_millis(250);
/// Time between two samples of idle devices, and between two reports.
pub const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// The busy time in a report of a device whose operations fell between its samples.
const LEAST_BUSY: Duration = Duration::from_millis(1);
/// Number of idle samples after which the longer period begins.
const IDLE_SAMPLES: u32 = 8;

/// The counts of one device's bytes, updated where copies and memory are requested.
#[derive(Debug, Default)]
pub struct UseCounters {
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    held: AtomicU64,
    /// The fault's number on the wire; 0: none.
    fault: AtomicU32,
}

impl UseCounters {
    /// Keeps the fault that an error of the device shows, if it shows one.
    pub fn failed(&self, error: &Error) {
        let Some(fault) = error.fault() else { return };
        let _ = self.fault.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |known| {
            let known = DeviceFault::from_wire(known);
            let is_worse = known.is_none_or(|known| fault.is_of_device() && !known.is_of_device());
            is_worse.then_some(fault.to_wire())
        });
    }

    /// Counts bytes that are copied to the device.
    pub fn copied_in(&self, bytes: u64) {
        self.bytes_in.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are copied from the device.
    pub fn copied_out(&self, bytes: u64) {
        self.bytes_out.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts memory of the device that the session holds from now on.
    pub fn mapped(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts memory that the session frees.
    pub fn unmapped(&self, bytes: u64) {
        // The device refuses memory that is returned twice.
        let _ = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| Some(held.saturating_sub(bytes)));
    }

    /// Counts the end of the device, which frees its memory.
    pub fn unmapped_all(&self) {
        self.held.store(0, Ordering::Relaxed);
    }

    /// Returns a sample of the device's use. `busy`: whether its queues are not empty; `None` if unknown. `operations`: the
    /// number that they have taken.
    pub fn sample(&self, busy: Option<bool>, operations: u64) -> UseSample {
        let [bytes_in, bytes_out, held] =
            [&self.bytes_in, &self.bytes_out, &self.held].map(|counter| counter.load(Ordering::Relaxed));
        let fault = DeviceFault::from_wire(self.fault.load(Ordering::Relaxed));
        UseSample { busy, operations, bytes_in, bytes_out, held, fault }
    }
}

/// A device's use at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseSample {
    busy: Option<bool>,
    operations: u64,
    bytes_in: u64,
    bytes_out: u64,
    held: u64,
    fault: Option<DeviceFault>,
}

/// Makes reports from samples: at most one per [`REPORT_PERIOD`], and only for devices whose use has changed. `K` names a
/// device.
#[derive(Debug)]
pub struct UseSampler<K> {
    devices: BTreeMap<K, Sampled>,
    /// The times of the last sample and the last report, since the session's begin.
    sampled: Option<Duration>,
    reported: Option<Duration>,
    /// The time at which the next sample is due.
    next: Duration,
    idle_samples: u32,
}

#[derive(Debug)]
struct Sampled {
    busy: Option<Duration>,
    operations: u64,
    /// Whether operations were taken since the last report, and no sample has shown the device busy since.
    has_missed: bool,
    used: DeviceUse,
    reported: Option<DeviceUse>,
}

impl Sampled {
    fn busy_ms(&self) -> Option<u64> {
        self.busy.map(|busy| u64::try_from(busy.as_millis()).unwrap_or(u64::MAX))
    }

    /// Counts operations that no sample has shown.
    fn count_missed(&mut self) {
        if std::mem::take(&mut self.has_missed) {
            self.busy = self.busy.map(|busy| busy + LEAST_BUSY);
            self.used.busy_ms = self.busy_ms();
        }
    }
}

impl<K> Default for UseSampler<K> {
    fn default() -> Self {
        Self { devices: BTreeMap::new(), sampled: None, reported: None, next: Duration::ZERO, idle_samples: 0 }
    }
}

impl<K: Copy + Ord> UseSampler<K> {
    /// Returns the sampler of a session that begins now.
    pub fn new(session: SessionId) -> Self {
        Self { next: first_sample(session.0), ..Self::default() }
    }

    /// Returns the time until the next sample is due.
    pub fn until_next(&self, now: Duration) -> Duration {
        self.next.saturating_sub(now)
    }

    /// Records samples of devices, at a time since the session's start.
    pub fn sample(&mut self, now: Duration, samples: impl IntoIterator<Item = (K, UseSample)>) {
        let passed = self.sampled.map_or(SAMPLE_PERIOD, |before| now.saturating_sub(before));
        // A process that was stopped meanwhile has no samples of that time.
        let counts = passed.min(2 * self.period());
        self.sampled = Some(now);
        self.idle_samples = self.idle_samples.saturating_add(1);
        for (device, sample) in samples {
            let device = self.devices.entry(device).or_insert_with(|| Sampled {
                busy: Some(Duration::ZERO),
                operations: 0,
                has_missed: false,
                used: DeviceUse::default(),
                reported: None,
            });
            device.busy =
                device.busy.zip(sample.busy).map(|(so_far, busy)| if busy { so_far + counts } else { so_far });
            let UseSample { busy, operations, bytes_in, bytes_out, held, fault } = sample;
            let used = DeviceUse { busy_ms: device.busy_ms(), bytes_in, bytes_out, held, fault };
            let took_some = operations > device.operations;
            if used != device.used || device.reported.is_none() || took_some {
                self.idle_samples = 0;
            }
            device.has_missed = (device.has_missed || took_some) && busy == Some(false);
            (device.operations, device.used) = (operations, used);
        }
        self.next = now + self.period();
    }

    /// Returns the changes since the last report, if one is due. `is_last`: no report follows.
    pub fn report(&mut self, now: Duration, is_last: bool) -> Vec<(K, DeviceUse)> {
        if !is_last && self.reported.is_some_and(|before| now.saturating_sub(before) < REPORT_PERIOD) {
            return Vec::new();
        }
        self.devices.values_mut().for_each(Sampled::count_missed);
        let changed = self.devices.iter_mut().filter(|(_, device)| device.reported != Some(device.used));
        let report: Vec<(K, DeviceUse)> = changed
            .map(|(key, device)| {
                device.reported = Some(device.used);
                (*key, device.used)
            })
            .collect();
        if !report.is_empty() {
            self.reported = Some(now);
        }
        report
    }

    /// Makes the next report complete, for a new receiver.
    pub fn report_again(&mut self) {
        self.devices.values_mut().for_each(|device| device.reported = None);
        self.reported = None;
    }

    /// Returns the time between two samples.
    fn period(&self) -> Duration {
        if self.devices.is_empty() || self.idle_samples >= IDLE_SAMPLES { REPORT_PERIOD } else { SAMPLE_PERIOD }
    }
}

/// Returns the time of a session's first sample: anywhere in a period, spread by the session's number.
fn first_sample(session: u64) -> Duration {
    // Spreads close numbers over all bits (Fibonacci hashing).
    let spread = session.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let period = u64::try_from(SAMPLE_PERIOD.as_millis()).unwrap_or(1);
    Duration::from_millis(1 + spread % period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::ErrorCode;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn reports_come_once_a_second_and_only_of_what_has_changed() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        sampler.sample(ms(100), [(3, counters.sample(Some(false), 0)), (4, counters.sample(Some(false), 0))]);
        // An idle device is reported as such.
        assert_eq!(sampler.report(ms(100), false).len(), 2);
        counters.copied_in(10);
        counters.copied_out(4);
        counters.mapped(64);
        sampler.sample(ms(350), [(3, counters.sample(Some(true), 0))]);
        assert_eq!(sampler.report(ms(350), false), []);
        sampler.sample(ms(1_100), [(3, counters.sample(Some(false), 0))]);
        let used = DeviceUse { busy_ms: Some(250), bytes_in: 10, bytes_out: 4, held: 64, fault: None };
        assert_eq!(sampler.report(ms(1_100), false), [(3, used)]);
        sampler.sample(ms(5_000), [(3, counters.sample(Some(false), 0))]);
        assert_eq!(sampler.report(ms(5_000), true), []);
        counters.unmapped(60);
        counters.unmapped(60);
        sampler.sample(ms(5_001), [(3, counters.sample(Some(false), 0))]);
        assert_eq!(sampler.report(ms(5_001), true), [(3, DeviceUse { held: 0, ..used })]);
        sampler.report_again();
        assert_eq!(sampler.report(ms(5_002), false).len(), 2);
    }

    #[test]
    fn the_device_s_own_fault_is_reported_rather_than_one_of_a_region() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        let mut reported = |at| {
            sampler.sample(ms(at), [(0, counters.sample(Some(false), 0))]);
            sampler.report(ms(at), true).first().map(|(_, used)| used.fault)
        };
        let displayed = |fault| {
            counters.failed(&Error::new(ErrorCode::Execution, "it failed").device_fault(fault));
            fault
        };
        assert_eq!(reported(0), Some(None));
        let (illegal, misaligned) = (displayed(DeviceFault::signal(11)), displayed(DeviceFault::signal(7)));
        assert_eq!((reported(1), misaligned.is_some()), (Some(illegal), true));
        counters.failed(&Error::new(ErrorCode::OutOfMemory, "it is full"));
        assert_eq!(reported(2), None);
        let missing = displayed(Some(DeviceFault::MISSING));
        assert_eq!(reported(3), Some(missing));
        displayed(illegal);
        assert_eq!(reported(4), None);
    }

    #[test]
    fn busy_time_is_unknown_if_a_sample_is_missing() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        for (at, busy) in [(0, Some(true)), (250, None), (500, Some(true))] {
            sampler.sample(ms(at), [(0, counters.sample(busy, 0))]);
        }
        assert_eq!(sampler.report(ms(500), true)[0].1.busy_ms, None);
    }

    #[test]
    fn a_device_whose_operations_all_fall_between_samples_is_not_idle() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        let mut reported = |second: u64, operations| {
            for at in (0..4).map(|quarter| second * 1_000 + quarter * 250) {
                sampler.sample(ms(at), [(0, counters.sample(Some(false), operations))]);
            }
            sampler.report(ms(second * 1_000 + 999), false).first().and_then(|(_, used)| used.busy_ms)
        };
        assert_eq!(
            [(0, 0), (1, 20), (2, 40), (3, 40)].map(|(second, taken)| reported(second, taken)),
            [Some(0), Some(1), Some(2), None]
        );
    }

    #[test]
    fn idle_devices_are_sampled_less_often() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        assert_eq!(sampler.period(), REPORT_PERIOD);
        for at in 0..20 {
            sampler.sample(ms(at * 250), [(0, counters.sample(Some(at == 0), 0))]);
            sampler.report(ms(at * 250), false);
        }
        assert_eq!(sampler.period(), REPORT_PERIOD);
        sampler.sample(ms(9_000), [(0, counters.sample(Some(true), 0))]);
        assert_eq!(sampler.period(), SAMPLE_PERIOD);
    }

    #[test]
    fn a_process_that_was_stopped_is_not_charged_for_it() {
        let (mut sampler, counters) = (UseSampler::<u32>::default(), UseCounters::default());
        sampler.sample(ms(0), [(0, counters.sample(Some(false), 0))]);
        sampler.sample(ms(3_600_000), [(0, counters.sample(Some(true), 0))]);
        assert!(sampler.report(ms(3_600_000), true)[0].1.busy_ms <= Some(2_000));
    }

    #[test]
    fn first_samples_are_spread_over_a_period() {
        let firsts: Vec<Duration> = (0..1_000).map(first_sample).collect();
        assert!(firsts.iter().all(|first| *first <= SAMPLE_PERIOD));
        let early = firsts.iter().filter(|first| **first <= SAMPLE_PERIOD / 4).count();
        assert!((200..300).contains(&early), "{early}");
    }

    proptest! {
        /// Work of any length at any time: over many sessions the samples add up to its length.
        #[test]
        fn on_average_samples_count_the_time_that_a_device_is_busy(begin in 0..2_000_u64, len in 1..3_000_u64) {
            let counters = UseCounters::default();
            let mut counted = 0;
            const SESSIONS: u64 = 400;
            for session in 0..SESSIONS {
                let (mut sampler, mut now) = (UseSampler::<u32>::default(), first_sample(session));
                while now < ms(6_000) {
                    let busy = now >= ms(begin) && now < ms(begin + len);
                    sampler.sample(now, [(0, counters.sample(Some(busy), 0))]);
                    now += sampler.period();
                }
                counted += sampler.report(now, true)[0].1.busy_ms.unwrap();
            }
            let mean = counted / SESSIONS;
            prop_assert!(mean.abs_diff(len) <= 60 + len / 20, "{mean} of {len}");
        }
    }
}
