//! Samples the devices of a session, and reports their use to the agent.

use crate::config::UseSink;
use crate::device_use::{UseCounters, UseSampler};
use accord_device::Device;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, SessionId};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The samples of a session's devices, and the sink of the reports.
pub(crate) struct UseReports {
    sink: UseSink,
    began: Instant,
    state: ShortLock<Samples>,
}

struct Samples {
    sampler: UseSampler<u32>,
    devices: BTreeMap<u32, Metered>,
}

/// A device that was started.
#[derive(Clone, Default)]
struct Metered {
    counters: Arc<UseCounters>,
    device: Option<Weak<dyn Device>>,
}

impl UseReports {
    pub(crate) fn new(session: SessionId, sink: UseSink) -> Self {
        let state = ShortLock::new(Samples { sampler: UseSampler::new(session), devices: BTreeMap::new() });
        Self { sink, began: Instant::now(), state }
    }

    /// Returns the counters of a device that has started. They continue over restarts of the device.
    pub(crate) fn started(&self, ordinal: u32, device: &Arc<dyn Device>) -> Arc<UseCounters> {
        let mut state = self.lock();
        let metered = state.devices.entry(ordinal).or_default();
        metered.device = Some(Arc::downgrade(device));
        metered.counters.clone()
    }

    /// Keeps the fault that an error of a device shows, also of one that could not start.
    pub(crate) fn failed(&self, ordinal: u32, error: &Error) {
        let counters = error.fault().map(|_| self.lock().devices.entry(ordinal).or_default().counters.clone());
        if let Some(counters) = counters {
            counters.failed(error);
        }
    }

    /// Returns the time until the next sample is due.
    pub(crate) fn pause(&self) -> Duration {
        self.lock().sampler.until_next(self.began.elapsed())
    }

    /// Samples the devices if that is due, and reports the changes. `is_last`: the session is over.
    pub(crate) fn sample(&self, is_last: bool) {
        let now = self.began.elapsed();
        let state = self.lock();
        if !is_last && !state.sampler.until_next(now).is_zero() {
            return;
        }
        let devices = state.devices.clone();
        drop(state);
        let is_busy = |device: &Arc<dyn Device>| if is_last { Some(false) } else { device.is_busy() };
        let samples: Vec<_> = devices
            .into_iter()
            .map(|(ordinal, Metered { counters, device })| {
                // A device that was shut down is idle.
                let device = device.and_then(|device| device.upgrade());
                let busy = device.as_ref().map_or(Some(false), is_busy);
                (ordinal, counters.sample(busy, device.map_or(0, |device| device.operations())))
            })
            .collect();
        let mut state = self.lock();
        state.sampler.sample(now, samples);
        let report = state.sampler.report(now, is_last);
        drop(state);
        if !report.is_empty() {
            (self.sink)(&report);
        }
    }

    fn lock(&self) -> ShortGuard<'_, Samples> {
        self.state.lock()
    }
}
