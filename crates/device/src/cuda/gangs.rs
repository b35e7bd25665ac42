//! How many gangs a region gets whose number is open.
//!
//! Gangs have equal parts of a loop. Where iterations differ in work, many gangs, which follow one another, even that out; but
//! a gang costs 0.2 ns (with 32 workers 2 to 6 ns) even if there is nothing for it, which a short region feels. So a long region gets
//! many and a short one few, by events of the driver around some of its launches. No result depends on it: regions whose gangs update
//! the same memory, as reductions do, always get few.
//!
//! Gangs of one warp can share thread blocks (`image/gang_blocks.rs`). The device then holds twice as many of them at a time, which a loop over
//! arrays needs to keep the memory busy. Where each thread reads lines of its own for a while, as in a row of a sparse matrix, twice as many
//! are more than the caches hold. So the same events tell which of both is faster. The number of gangs is the same either way.

use super::context::Context;
use super::driver::DriverError;
use cudarc::driver::sys::{CUevent, CUstream};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Gangs for each that the device has room for at a time: enough for the last ones not to wait long.
const FEW: u32 = 2;
/// Enough to even out what differs between them.
const MANY: u32 = 8;
/// A region that takes so long on average gets many, and one that then takes less than the other gets few again.
const LONG_US: f32 = 200.0;
const SHORT_US: f32 = 100.0;
/// A single launch counts for at most so much.
const LONGEST_US: f32 = 500.0;
/// These launches are measured, and one of so many that follow. Odd, as programs' loops over blocks tend not to be.
const FIRST: u32 = 8;
const EVERY: u32 = 61;

/// The choice for one region on one device.
pub(crate) struct Gangs {
    many: AtomicBool,
    /// Gangs that could share blocks are faster in blocks of their own.
    alone: AtomicBool,
    launches: AtomicU32,
    /// None if there is no choice.
    meter: Option<Mutex<Meter>>,
}

/// How long a region takes with gangs that share blocks, and with gangs that don't.
#[derive(Clone, Copy, Default, Debug)]
struct Trial {
    together_us: Option<f32>,
    alone_us: Option<f32>,
}

/// How long the region takes.
#[derive(Clone, Copy, Default, Debug)]
struct Pace {
    mean_us: Option<f32>,
}

struct Meter {
    context: Arc<Context>,
    pace: Pace,
    trial: Trial,
    /// Around a launch.
    events: Option<[CUevent; 2]>,
    /// The launch between the events, until it is read.
    under_way: Option<Measured>,
}

/// What a measured launch says something about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Measured {
    /// The region's number of gangs was open.
    open: bool,
    /// Its gangs can share blocks, and did or did not.
    together: Option<bool>,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Meter {}

impl Gangs {
    /// Always few.
    pub(crate) fn few() -> Self {
        Self { many: AtomicBool::new(false), alone: AtomicBool::new(false), launches: AtomicU32::new(0), meter: None }
    }

    /// As the region's launches turn out. Until that is known it is taken for a long one, whose launches may be as few as one.
    pub(crate) fn measured(context: &Arc<Context>) -> Self {
        let (pace, trial) = (Pace::default(), Trial::default());
        let meter = Meter { context: Arc::clone(context), pace, trial, events: None, under_way: None };
        Self { many: AtomicBool::new(true), meter: Some(Mutex::new(meter)), ..Self::few() }
    }

    /// For each that the device has room for at a time.
    pub(crate) fn for_each_place(&self) -> u32 {
        if self.many.load(Ordering::Relaxed) { MANY } else { FEW }
    }

    /// Puts a launch with an open number of gangs, or whose gangs can share blocks, into a stream. `launch` is told whether they shall. The
    /// context is current.
    pub(crate) fn launch(
        &self,
        stream: CUstream,
        open: bool,
        can_share: bool,
        launch: impl FnOnce(bool) -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let usual = can_share && !self.alone.load(Ordering::Relaxed);
        let Some(meter) = &self.meter else { return launch(usual) };
        let number = self.launches.fetch_add(1, Ordering::Relaxed);
        if !is_measured(number) {
            return launch(usual);
        }
        // Another thread measures a launch of its own.
        let Ok(mut meter) = meter.try_lock() else { return launch(usual) };
        if let Some((what, us)) = meter.read() {
            if what.open {
                let many = meter.pace.after(us, self.many.load(Ordering::Relaxed));
                self.many.store(many, Ordering::Relaxed);
            }
            if let Some(together) = what.together {
                self.alone.store(meter.trial.after(us, together), Ordering::Relaxed);
            }
        }
        let begun = meter.begin(stream);
        let together = can_share && if begun { is_together(number) } else { usual };
        launch(together)?;
        if begun {
            // The first one may have to wait for the code.
            meter.end(stream, Measured { open, together: (can_share && number > 0).then_some(together) });
        }
        Ok(())
    }
}

/// Whether launch `number` of a region is.
fn is_measured(number: u32) -> bool {
    number < FIRST || number.is_multiple_of(EVERY)
}

/// Whether gangs share blocks in a measured launch. No order in which a program's launches differ, as large and small ones by turns, gives all of
/// one kind to one of both ways.
fn is_together(number: u32) -> bool {
    let measured = if number < FIRST { number } else { number / EVERY };
    measured.count_ones().is_multiple_of(2)
}

/// Weight of the latest launch in a mean: 1 / 4.
fn mean(mean: Option<f32>, us: f32) -> f32 {
    const WEIGHT: f32 = 0.25;
    mean.map_or(us, |mean| mean + (us - mean) * WEIGHT)
}

impl Trial {
    /// A launch took so long; whether gangs are to have blocks of their own from now on.
    fn after(&mut self, us: f32, together: bool) -> bool {
        /// Less is chance.
        const FASTER: f32 = 1.03;
        let known = if together { &mut self.together_us } else { &mut self.alone_us };
        *known = Some(mean(*known, us));
        self.together_us.zip(self.alone_us).is_some_and(|(together, alone)| alone * FASTER < together)
    }
}

impl Pace {
    /// A launch took so long; whether the region is to have many gangs from now on.
    fn after(&mut self, us: f32, many: bool) -> bool {
        let mean = mean(self.mean_us, us.clamp(0.0, LONGEST_US));
        self.mean_us = Some(mean);
        mean >= if many { SHORT_US } else { LONG_US }
    }
}

// What fails here costs a measurement; the launch itself tells of a lost device.
impl Meter {
    /// How long the last launch took, in microseconds, if it has ended since.
    fn read(&mut self) -> Option<(Measured, f32)> {
        let (what, [start, end]) = self.under_way.zip(self.events)?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive, and made for timing. One that has not happened is an error.
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
            // SAFETY: nobody else has it.
            let _ = unsafe { self.context.driver.cuEventDestroy_v2(event) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a region has many gangs after launches of these lengths.
    fn after(many: bool, launches: impl IntoIterator<Item = f32>) -> bool {
        let mut pace = Pace::default();
        launches.into_iter().fold(many, |many, us| pace.after(us, many))
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
        assert_eq!(measured, [0, 1, 2, 3, 4, 5, 6, 7, 61, 122, 183]);
    }

    #[test]
    fn without_a_choice_there_are_few() {
        let gangs = Gangs::few();
        let mut told = None;
        let mut launch = |can_share| {
            let tell = |together| {
                told = Some(together);
                Ok(())
            };
            assert_eq!(gangs.launch(null_mut(), true, can_share, tell), Ok(()));
            told
        };
        assert_eq!([launch(true), launch(false)], [Some(true), Some(false)]);
        assert_eq!(gangs.for_each_place(), FEW);
    }

    #[test]
    fn gangs_share_blocks_unless_they_are_faster_alone() {
        let after = |launches: &[(f32, bool)]| {
            let mut trial = Trial::default();
            launches.iter().fold(false, |_, &(us, together)| trial.after(us, together))
        };
        assert!(!after(&[(100.0, false); 5]), "nothing to compare with");
        assert!(!after(&[(100.0, true), (99.0, false), (100.0, true)]));
        assert!(after(&[(1760.0, true), (970.0, false)]));
        let back = [[(1760.0, true), (970.0, false)].as_slice(), &[(600.0, true); 12]].concat();
        assert!(!after(&back), "the program's data are others now");
    }

    #[test]
    fn both_ways_are_measured_and_share_what_alternates() {
        let first: Vec<bool> = (0..8).map(is_together).collect();
        assert_eq!(first, [true, false, false, true, false, true, true, false]);
        for every in [2, 4, 8] {
            let together = (0..1024).map(|at| at * EVERY).filter(|&number| is_together(number));
            let kinds: Vec<u32> = together.map(|number| number / EVERY % every).collect();
            assert!((0..every).all(|kind| kinds.iter().filter(|&&of| of == kind).count() == 512 / every as usize));
        }
    }
}
