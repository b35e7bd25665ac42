//! The use of the devices that the program drives itself, sampled and reported by the thread that listens to the
//! coordinator.

use crate::cluster::LocalDeviceClient;
use accord_executor::device_use::UseSampler;
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
    sampler: ShortLock<UseSampler<DeviceId>>,
}

impl OwnUse {
    pub(crate) fn new(session: SessionId, devices: Vec<(DeviceId, Arc<dyn LocalDeviceClient>)>) -> Self {
        Self { began: Instant::now(), devices, sampler: ShortLock::new(UseSampler::new(session)) }
    }

    /// Returns the devices.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &Arc<dyn LocalDeviceClient>> {
        self.devices.iter().map(|(_, device)| device)
    }

    /// Returns the time until the next sample is due.
    pub(crate) fn pause(&self) -> Duration {
        self.lock().until_next(self.began.elapsed()).max(PAUSE_MIN)
    }

    /// Takes a sample if one is due, and returns the changes to report. `is_last` forces it at the end of a device or
    /// session.
    pub(crate) fn sample(&self, is_last: bool) -> Vec<(DeviceId, DeviceUse)> {
        let now = self.began.elapsed();
        if !is_last && !self.lock().until_next(now).is_zero() {
            return Vec::new();
        }
        // Devices that were never started have no sample.
        let samples = self.devices.iter().filter_map(|(id, device)| Some((*id, device.sample_use()?)));
        let samples: Vec<_> = samples.collect();
        let mut sampler = self.lock();
        sampler.sample(now, samples);
        sampler.report(now, is_last)
    }

    /// Makes the next report complete, for another coordinator.
    pub(crate) fn report_again(&self) {
        self.lock().report_again();
    }

    fn lock(&self) -> ShortGuard<'_, UseSampler<DeviceId>> {
        self.sampler.lock()
    }
}
