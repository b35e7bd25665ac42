//! Chooses the number of gangs of a region that leaves it open.
//!
//! Gangs have equal parts of a loop. If iterations differ in work, many consecutive gangs balance it. But a gang costs
//! 0.2 ns (2 to 6 ns with 32 workers) even without iterations, which matters to a short region. So a long region gets many
//! gangs and a short one few. The driver's events around some launches measure the region. No result depends on the choice:
//! regions whose gangs update the same memory, as reductions do, always get few.
//!
//! If a loop has few iterations most gangs have none, so that a tiny region may get fewer still.
//!
//! With even more gangs, each has a smaller part of a loop. Concurrent gangs are then close together in memory, like threads of hand-written kernels,
//! which makes memory access faster. Gangs of one warp can share thread blocks (`crates/image/src/gang_blocks.rs`). The device then holds twice as many at a
//! time, which a loop over arrays needs to saturate the memory. That exceeds the caches if each thread reads its own lines for a while, as in a row
//! of a sparse matrix. So the same events decide which of these *ways* is fastest.

use super::context::Context;
use super::driver::DriverError;
use accord_types::turn_lock::TurnLock;
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard};

/// Gangs per 8 that fit on the device at a time: enough that the last ones do not wait long.
const FEW: u32 = 16;
/// Enough to balance different work.
const MANY: u32 = 64;
/// Twice as many, and so many that each has only some iterations of a loop.
const MORE: u32 = 128;
const MOST: u32 = 512;
/// The least number of gangs, which suffices for a loop of some thousand rounds; more only cost.
const FEWEST: u32 = 1;
/// Mean duration from which on a region gets many gangs, and below which it gets few again.
const LONG_US: f32 = 200.0;
const SHORT_US: f32 = 100.0;
/// Mean duration below which a region may get even fewer, and from which on it no longer does.
const TINY_US: f32 = 20.0;
const NOT_TINY_US: f32 = 30.0;
/// Longest duration that a single launch counts as.
const LONGEST_US: f32 = 500.0;
/// The number of first launches that are measured, and the interval of measured ones after them. Odd, as the number of
/// launches in a program's loop usually is not.
const FIRST: u32 = 9;
const EVERY: u32 = 61;

/// A way to launch a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LaunchVariant {
    /// Gangs per 8 that fit on the device, if the number is open.
    eighths: u32,
    /// Whether gangs share thread blocks, if possible.
    pub(crate) together: bool,
}

impl LaunchVariant {
    /// Returns an open number of gangs, for a device on which `places` gangs fit at a time.
    pub(crate) fn gangs(self, places: u32) -> u32 {
        u32::try_from(u64::from(places) * u64::from(self.eighths) / 8).unwrap_or(u32::MAX).max(1)
    }
}

const fn way(eighths: u32, together: bool) -> LaunchVariant {
    LaunchVariant { eighths, together }
}

/// The duration of a region, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Length {
    Tiny,
    Short,
    Long,
}

/// The free choices of a launch. Each kind has its own ways, the usual one first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The number of gangs is given, or few; their arrangement in blocks is free.
    Blocks,
    /// Number and arrangement are free.
    Both,
    /// The number is free.
    Number,
    /// Whether there are fewest gangs, in blocks of several or of one.
    Tiny,
    TinyAlone,
    /// No choice.
    Nothing,
}

const KINDS: usize = 6;

impl Kind {
    fn of(open: bool, can_share: bool, length: Length) -> Self {
        match (open, length, can_share) {
            (true, Length::Long, true) => Self::Both,
            (true, Length::Long, false) => Self::Number,
            (true, Length::Tiny, true) => Self::Tiny,
            (true, Length::Tiny, false) => Self::TinyAlone,
            (true, Length::Short, true) | (false, _, true) => Self::Blocks,
            (true, Length::Short, false) | (false, _, false) => Self::Nothing,
        }
    }

    fn ways(self) -> &'static [LaunchVariant] {
        const BLOCKS: [LaunchVariant; 2] = [way(FEW, true), way(FEW, false)];
        const BOTH: [LaunchVariant; 4] = [way(MANY, true), way(MOST, true), way(MANY, false), way(MORE, true)];
        const NUMBER: [LaunchVariant; 3] = [way(MANY, false), way(MOST, false), way(MORE, false)];
        const TINY: [LaunchVariant; 2] = [way(FEW, true), way(FEWEST, true)];
        const TINY_ALONE: [LaunchVariant; 2] = [way(FEW, false), way(FEWEST, false)];
        const NOTHING: [LaunchVariant; 1] = [way(FEW, false)];
        match self {
            Self::Blocks => &BLOCKS,
            Self::Both => &BOTH,
            Self::Number => &NUMBER,
            Self::Tiny => &TINY,
            Self::TinyAlone => &TINY_ALONE,
            Self::Nothing => &NOTHING,
        }
    }
}

/// The choice for one region on one device.
pub(crate) struct Gangs {
    /// A [`Length`].
    length: AtomicU8,
    /// The fastest way of each kind.
    best: [AtomicU8; KINDS],
    launches: AtomicU32,
    /// `None` if there is no choice.
    meter: Option<TurnLock<Meter>>,
}

/// The durations of a region in each way.
#[derive(Clone, Copy, Default, Debug)]
struct Trial {
    us: [Option<f32>; WAYS_MAX],
}

const WAYS_MAX: usize = 4;

/// The duration of the region.
#[derive(Clone, Copy, Default, Debug)]
struct RegionDuration {
    mean_us: Option<f32>,
}

struct Meter {
    context: Arc<Context>,
    pace: RegionDuration,
    trials: [Trial; KINDS],
    /// The events around a measured launch.
    events: Option<[CUevent; 2]>,
    /// The launch between the events, until its time is read.
    under_way: Option<Measured>,
}

/// The subject of a measured launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Measured {
    /// The region's number of gangs was open.
    open: bool,
    /// The way of the launch.
    way: Option<(Kind, usize)>,
}

/// A launch that is being measured.
pub(crate) struct Measurement<'a> {
    /// The meter, which no other launch of the region uses meanwhile.
    meter: MutexGuard<'a, Meter>,
    measured: Measured,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Meter {}

impl Gangs {
    /// Creates the number that is always few.
    pub(crate) fn few() -> Self {
        let length = AtomicU8::new(Length::Short as u8);
        Self { length, best: Default::default(), launches: AtomicU32::new(0), meter: None }
    }

    /// Creates a number of gangs that adapts to the region's launches. Until they are measured the region counts as long,
    /// because it may have few launches, or only one.
    pub(crate) fn measured(context: &Arc<Context>) -> Self {
        let (pace, trials) = (RegionDuration::default(), Default::default());
        let meter = Meter { context: Arc::clone(context), pace, trials, events: None, under_way: None };
        Self { length: AtomicU8::new(Length::Long as u8), meter: Some(TurnLock::new(meter)), ..Self::few() }
    }

    /// Returns the way of a launch that is not measured.
    pub(crate) fn usual(&self, open: bool, can_share: bool) -> LaunchVariant {
        self.best_of(Kind::of(open, can_share, self.length()))
    }

    fn length(&self) -> Length {
        const LENGTHS: [Length; 3] = [Length::Tiny, Length::Short, Length::Long];
        LENGTHS[usize::from(self.length.load(Ordering::Relaxed))]
    }

    fn best_of(&self, kind: Kind) -> LaunchVariant {
        kind.ways()[usize::from(self.best[kind as usize].load(Ordering::Relaxed))]
    }

    /// Chooses the way of a launch with an open number of gangs, or whose gangs can share blocks. If the launch is measured, the
    /// caller ends the measurement once it has enqueued the launch. The context is current.
    pub(crate) fn begin(
        &self,
        stream: CUstream,
        open: bool,
        can_share: bool,
    ) -> (LaunchVariant, Option<Measurement<'_>>) {
        let usual = || (self.usual(open, can_share), None);
        let Some(meter) = &self.meter else { return usual() };
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        if !is_measured(number) {
            return usual();
        }
        // Another thread is measuring its launch.
        let Some(mut meter) = meter.try_take() else { return usual() };
        if let Some((what, us)) = meter.read() {
            if what.open {
                let length = meter.pace.after(us, self.length());
                self.length.store(length as u8, Ordering::Relaxed);
            }
            if let Some((kind, way)) = what.way {
                let best = meter.trials[kind as usize].after(us, way);
                self.best[kind as usize].store(best, Ordering::Relaxed);
            }
        }
        let kind = Kind::of(open, can_share, self.length());
        let way = turn(number, kind.ways().len());
        let in_vain = meter.trials[kind as usize].is_slow(way) && !is_retried(number);
        if in_vain || !meter.begin(stream) {
            return (self.best_of(kind), None);
        }
        // The first launch may have to wait for its code.
        let measured = Measured { open, way: (number > 0).then_some((kind, way)) };
        (kind.ways()[way], Some(Measurement { meter, measured }))
    }
}

impl Measurement<'_> {
    /// Records the end of the launch in its stream. Not called if the driver has refused the launch.
    pub(crate) fn end(mut self, stream: CUstream) {
        self.meter.end(stream, self.measured);
    }
}

/// Whether launch `number` of a region is.
fn is_measured(number: u32) -> bool {
    number < FIRST || number.is_multiple_of(EVERY)
}

/// Whether a measured launch may use a way that is known to be slow: one of so many does.
fn is_retried(number: u32) -> bool {
    const RETRIED: u32 = 8;
    number < FIRST || (number / EVERY).is_multiple_of(RETRIED)
}

/// Returns the way of a measured launch, of so many ways. The order is irregular, so that launches that alternate, for
/// example between large and small, are spread over all ways.
fn turn(number: u32, ways: usize) -> usize {
    let (mut left, mut sum, ways) = (if number < FIRST { number } else { number / EVERY }, 0, ways as u32);
    while ways > 1 && left > 0 {
        sum += left % ways;
        left /= ways;
    }
    (sum % ways) as usize
}

/// Weight of the latest launch in a mean: 1 / 4.
fn mean(mean: Option<f32>, us: f32) -> f32 {
    const WEIGHT: f32 = 0.25;
    mean.map_or(us, |mean| mean + (us - mean) * WEIGHT)
}

impl Trial {
    /// Whether a way takes more than twice as long as the usual one.
    fn is_slow(&self, way: usize) -> bool {
        self.us[way].zip(self.us[0]).is_some_and(|(us, usual)| us > 2.0 * usual)
    }

    /// Records a launch's duration in one way. Returns the fastest way so far.
    fn after(&mut self, us: f32, way: usize) -> u8 {
        /// A smaller advantage over the usual way is chance.
        const FASTER: f32 = 1.03;
        self.us[way] = Some(mean(self.us[way], us));
        let Some(usual) = self.us[0] else { return 0 };
        let known = self.us.iter().zip(0u8..).filter_map(|(us, way)| us.map(|us| (us, way)));
        let (least, best) = known.fold((usual, 0), |best, next| if next.0 < best.0 { next } else { best });
        if least * FASTER < usual { best } else { 0 }
    }
}

impl RegionDuration {
    /// Records a launch's duration. Returns the region's duration class from now on.
    fn after(&mut self, us: f32, length: Length) -> Length {
        let mean = mean(self.mean_us, us.clamp(0.0, LONGEST_US));
        self.mean_us = Some(mean);
        let tiny = if length == Length::Tiny { NOT_TINY_US } else { TINY_US };
        let long = if length == Length::Long { SHORT_US } else { LONG_US };
        match mean {
            _ if mean < tiny => Length::Tiny,
            _ if mean < long => Length::Short,
            _ => Length::Long,
        }
    }
}

// A failure here only loses a measurement; the launch itself reports a lost device.
impl Meter {
    /// Returns the duration of the last measured launch in microseconds, if it has ended.
    fn read(&mut self) -> Option<(Measured, f32)> {
        let (what, [start, end]) = self.under_way.zip(self.events)?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive and support timing. An event that has not happened is an error.
        unsafe { self.context.driver.cuEventElapsedTime(&raw mut milliseconds, start, end) }.ok()?;
        self.under_way = None;
        Some((what, milliseconds * 1e3))
    }

    fn begin(&mut self, stream: CUstream) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        if self.events.is_none() {
            self.events = self.make().ok();
        }
        // SAFETY: the event is alive, and of the stream's context.
        self.events.is_some_and(|[start, _]| unsafe { self.context.driver.cuEventRecord(start, stream) }.is_ok())
    }

    fn end(&mut self, stream: CUstream, what: Measured) {
        // SAFETY: as above.
        let ends = |[_, end]: &[CUevent; 2]| unsafe { self.context.driver.cuEventRecord(*end, stream) }.is_ok();
        self.under_way = self.events.as_ref().is_some_and(ends).then_some(what);
    }

    fn make(&self) -> Result<[CUevent; 2], DriverError> {
        let mut events = [null_mut(); 2];
        for event in &mut events {
            // SAFETY: `event` is valid for writing.
            unsafe { self.context.driver.cuEventCreate(event, 0) }?;
        }
        Ok(events)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let Ok(_current) = self.context.enter() else { return };
        for event in self.events.into_iter().flatten() {
            // SAFETY: the event has no other owner.
            let _ = unsafe { self.context.driver.cuEventDestroy_v2(event) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a region gets many gangs after launches of these durations.
    fn after(many: bool, launches: impl IntoIterator<Item = f32>) -> bool {
        length_after(if many { Length::Long } else { Length::Short }, launches) == Length::Long
    }

    fn length_after(length: Length, launches: impl IntoIterator<Item = f32>) -> Length {
        let mut pace = RegionDuration::default();
        launches.into_iter().fold(length, |length, us| pace.after(us, length))
    }

    #[test]
    fn tiny_regions_may_get_fewest() {
        assert_eq!(length_after(Length::Long, [15.0]), Length::Tiny);
        assert_eq!(length_after(Length::Short, [25.0; 9]), Length::Short);
        assert_eq!(
            length_after(Length::Short, [15.0, 25.0, 25.0, 25.0]),
            Length::Tiny,
            "in between all stays as it is"
        );
        assert_eq!(length_after(Length::Tiny, [15.0, 90.0, 90.0]), Length::Short);
        assert_eq!(
            [way(FEWEST, true), way(FEW, true), way(MOST, false)].map(|way| way.gangs(8448)),
            [1056, 16_896, 540_672]
        );
        assert_eq!([way(FEWEST, true).gangs(4), way(MOST, true).gangs(u32::MAX)], [1, u32::MAX]);
    }

    #[test]
    fn slow_ways_are_tried_seldom() {
        let mut trial = Trial::default();
        assert!(!trial.is_slow(1));
        for (us, way) in [(10.0, 0), (19.0, 1), (150.0, 2)] {
            trial.after(us, way);
        }
        assert_eq!([0, 1, 2].map(|way| trial.is_slow(way)), [false, false, true]);
        let retried = (0..100 * EVERY).filter(|&number| is_measured(number) && is_retried(number)).count();
        assert_eq!(retried, 9 + 12);
    }

    #[test]
    fn long_regions_get_many_and_short_ones_few() {
        assert!(!after(true, [8.0]), "one short launch is enough to know");
        assert!(after(true, [150.0; 20]), "in between all stays as it is");
        assert!(!after(false, [150.0; 20]));
        assert!(after(false, [300.0]));
        let many_short = std::iter::repeat_n(20.0, 20);
        assert!(!after(false, many_short.clone().chain([1e6])), "one launch that waited long says little");
        assert!(after(false, many_short.chain([500.0; 4])));
        assert!(after(true, (0..40).map(|block| if block % 2 == 0 { 30.0 } else { 500.0 })), "blocks differ");
    }

    #[test]
    fn the_first_launches_are_measured_and_some_later_ones() {
        let measured: Vec<_> = (0..200).filter(|&number| is_measured(number)).collect();
        assert_eq!(measured, [0, 1, 2, 3, 4, 5, 6, 7, 8, 61, 122, 183]);
    }

    #[test]
    fn without_a_choice_there_are_few() {
        let gangs = Gangs::few();
        for can_share in [true, false] {
            let (chosen, measurement) = gangs.begin(null_mut(), true, can_share);
            assert_eq!(chosen, way(FEW, can_share));
            assert!(measurement.is_none());
        }
    }

    #[test]
    fn the_usual_way_stays_unless_another_one_is_faster() {
        let after = |launches: &[(f32, usize)]| {
            let mut trial = Trial::default();
            launches.iter().fold(0, |_, &(us, way)| trial.after(us, way))
        };
        assert_eq!(after(&[(100.0, 1); 5]), 0, "nothing to compare with");
        assert_eq!(after(&[(100.0, 0), (99.0, 1), (100.0, 0)]), 0);
        assert_eq!(after(&[(1760.0, 0), (970.0, 2)]), 2);
        assert_eq!(after(&[(970.0, 1), (980.0, 3), (1760.0, 0), (960.0, 2)]), 2, "the fastest of all");
        let back = [[(1760.0, 0), (970.0, 1)].as_slice(), &[(600.0, 0); 12]].concat();
        assert_eq!(after(&back), 0, "the program's data are others now");
    }

    #[test]
    fn each_kind_of_launch_has_ways_of_its_own() {
        let lengths = [Length::Tiny, Length::Short, Length::Long];
        for (open, can_share, length) in (0..12).map(|at| (at & 1 > 0, at & 2 > 0, lengths[at / 4])) {
            let ways = Kind::of(open, can_share, length).ways();
            assert!((1..=WAYS_MAX).contains(&ways.len()));
            assert_eq!(ways.iter().any(|way| way.together), can_share, "{ways:?}");
            assert_eq!(ways[0].together, can_share);
            assert_eq!(ways.iter().any(|way| way.eighths > FEW), open && length == Length::Long, "{ways:?}");
            assert_eq!(ways.iter().any(|way| way.eighths < FEW), open && length == Length::Tiny, "{ways:?}");
        }
    }

    #[test]
    fn all_ways_are_measured_and_share_what_alternates() {
        let first = |ways| -> Vec<usize> { (0..FIRST).map(|number| turn(number, ways)).collect() };
        assert_eq!(first(2), [0, 1, 1, 0, 1, 0, 0, 1, 1]);
        assert_eq!(first(3), [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        assert_eq!(first(4), [0, 1, 2, 3, 1, 2, 3, 0, 2]);
        assert_eq!(first(1), [0; 9]);
        for (ways, every) in [(2, 2), (2, 4), (2, 8), (4, 2), (4, 4), (4, 8), (3, 3), (3, 9)] {
            let turns = ways * every * 64;
            for one in 0..ways {
                let taken = (9..turns + 9).filter(|&at| turn(at as u32 * EVERY, ways) == one);
                let mut kinds = vec![0i64; every];
                taken.for_each(|at| kinds[at % every] += 1);
                let even = (turns / ways / every) as i64;
                assert!(kinds.iter().all(|count| (count - even).abs() <= even / 4), "{ways} {every}: {kinds:?}");
            }
        }
    }
}
