//! The use of the devices that the program drives itself: sampled by the thread that listens to the coordinator, and
//! reported there.

use crate::cluster::LocalDeviceClient;
use accord_executor::device_use::{UseSampler, first_sample};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{DeviceId, DeviceUse, SessionId};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest read timeout of a socket.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The devices that the program drives itself, with the samples of their use.
pub(crate) struct OwnUse {
    began: Instant,
    devices: Vec<(DeviceId, Arc<dyn LocalDeviceClient>)>,
    state: ShortLock<Sampled>,
}

struct Sampled {
    sampler: UseSampler<DeviceId>,
    /// The time at which the next sample is due, since `began`.
    next: Duration,
}

impl OwnUse {
    pub(crate) fn new(session: SessionId, devices: Vec<(DeviceId, Arc<dyn LocalDeviceClient>)>) -> Self {
        let state = Sampled { sampler: UseSampler::default(), next: first_sample(session.0) };
        Self { began: Instant::now(), devices, state: ShortLock::new(state) }
    }

    /// Returns the devices.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Arc<dyn LocalDeviceClient>> {
        self.devices.iter().map(|(_, device)| device)
    }

    /// Returns the time until the next sample is due; `None` if there is no device.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let next = self.lock().next;
        (!self.devices.is_empty()).then(|| next.saturating_sub(self.began.elapsed()).max(PAUSE_MIN))
    }

    /// Takes a sample if one is due, and returns the changes to report. `is_last`: a device or the session ends.
    pub(crate) fn sample(&self, is_last: bool) -> Vec<(DeviceId, DeviceUse)> {
        let now = self.began.elapsed();
        if self.devices.is_empty() || now < self.lock().next && !is_last {
            return Vec::new();
        }
        // Devices that were never started have no sample.
        let samples = self.devices.iter().filter_map(|(id, device)| Some((*id, device.sample_use()?)));
        let samples: Vec<_> = samples.collect();
        let mut state = self.lock();
        state.sampler.sample(now, samples);
        state.next = now + state.sampler.period();
        state.sampler.report(now, is_last)
    }

    /// Has the next report contain everything, for another coordinator.
    pub(crate) fn report_again(&self) {
        self.lock().sampler.report_again();
    }

    fn lock(&self) -> ShortGuard<'_, Sampled> {
        self.state.lock()
    }
}
