//! How many gangs a region gets whose number is open.
//!
//! Gangs have equal parts of a loop. Where iterations differ in work, many gangs, which follow one another, even that out; but
//! a gang costs 0.2 ns (with 32 workers 2 to 6 ns) even if there is nothing for it, which a short region feels. So a long region gets
//! many and a short one few, by events of the driver around some of its launches. No result depends on it: regions whose gangs update
//! the same memory, as reductions do, always get few.

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
    launches: AtomicU32,
    /// None if there is no choice.
    meter: Option<Mutex<Meter>>,
}

/// How long the region takes.
#[derive(Clone, Copy, Default, Debug)]
struct Pace {
    mean_us: Option<f32>,
}

struct Meter {
    context: Arc<Context>,
    pace: Pace,
    /// Around a launch.
    events: Option<[CUevent; 2]>,
    under_way: bool,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Meter {}

impl Gangs {
    /// Always few.
    pub(crate) fn few() -> Self {
        Self { many: AtomicBool::new(false), launches: AtomicU32::new(0), meter: None }
    }

    /// As the region's launches turn out. Until that is known it is taken for a long one, whose launches may be as few as one.
    pub(crate) fn measured(context: &Arc<Context>) -> Self {
        let meter = Meter { context: Arc::clone(context), pace: Pace::default(), events: None, under_way: false };
        Self { many: AtomicBool::new(true), launches: AtomicU32::new(0), meter: Some(Mutex::new(meter)) }
    }

    /// For each that the device has room for at a time.
    pub(crate) fn for_each_place(&self) -> u32 {
        if self.many.load(Ordering::Relaxed) { MANY } else { FEW }
    }

    /// Puts a launch with an open number of gangs into a stream. The context is current.
    pub(crate) fn launch(
        &self,
        stream: CUstream,
        launch: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<(), DriverError> {
        let Some(meter) = &self.meter else { return launch() };
        if !is_measured(self.launches.fetch_add(1, Ordering::Relaxed)) {
            return launch();
        }
        // Another thread measures a launch of its own.
        let Ok(mut meter) = meter.try_lock() else { return launch() };
        if let Some(us) = meter.read() {
            let many = meter.pace.after(us, self.many.load(Ordering::Relaxed));
            self.many.store(many, Ordering::Relaxed);
        }
        let begun = meter.begin(stream);
        launch()?;
        if begun {
            meter.end(stream);
        }
        Ok(())
    }
}

/// Whether launch `number` of a region is.
fn is_measured(number: u32) -> bool {
    number < FIRST || number.is_multiple_of(EVERY)
}

impl Pace {
    /// A launch took so long; whether the region is to have many gangs from now on.
    fn after(&mut self, us: f32, many: bool) -> bool {
        /// Weight of the latest launch in the mean: 1 / 4.
        const WEIGHT: f32 = 0.25;
        let us = us.clamp(0.0, LONGEST_US);
        let mean = self.mean_us.map_or(us, |mean| mean + (us - mean) * WEIGHT);
        self.mean_us = Some(mean);
        mean >= if many { SHORT_US } else { LONG_US }
    }
}

// What fails here costs a measurement; the launch itself tells of a lost device.
impl Meter {
    /// How long the last launch took, if it has ended since.
    fn read(&mut self) -> Option<f32> {
        let [start, end] = self.events.filter(|_| self.under_way)?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive, and made for timing. One that has not happened is an error.
        unsafe { self.context.driver.cuEventElapsedTime(&raw mut milliseconds, start, end) }.ok()?;
        self.under_way = false;
        Some(milliseconds * 1e3)
    }

    fn begin(&mut self, stream: CUstream) -> bool {
        if self.under_way {
            return false;
        }
        if self.events.is_none() {
            self.events = self.make().ok();
        }
        // SAFETY: the event is alive, and of the stream's context.
        self.events.is_some_and(|[start, _]| unsafe { self.context.driver.cuEventRecord(start, stream) }.is_ok())
    }

    fn end(&mut self, stream: CUstream) {
        // SAFETY: as above.
        self.under_way =
            self.events.is_some_and(|[_, end]| unsafe { self.context.driver.cuEventRecord(end, stream) }.is_ok());
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
        assert_eq!(gangs.launch(null_mut(), || Ok(())), Ok(()));
        assert_eq!(gangs.for_each_place(), FEW);
    }
}
