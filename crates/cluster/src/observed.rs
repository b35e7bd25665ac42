//! The present use of devices for boards: utilization, and jobs that leave devices idle.

use super::session::Session;
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::{DeviceId, SessionId};
use std::collections::BTreeMap;

/// The recent use of a device by a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseNow {
    /// Utilization in percent; `None` if unknown.
    pub busy_percent: Option<u32>,
    /// Bytes of the device's memory that the session holds.
    pub held: u64,
    /// The time since which the session has left the device idle.
    pub idle_since: Millis,
}

impl Cluster {
    /// Returns the recent use of devices by a session. The use of a device without a report is unknown.
    pub fn uses_now(&self, now: Millis, session: &Session) -> BTreeMap<DeviceId, UseNow> {
        let mut uses: BTreeMap<DeviceId, UseNow> = BTreeMap::new();
        let known = self.device_uses.sessions.get(&session.id);
        for ((device, _), reported) in known.into_iter().flat_map(|known| &known.reports) {
            let one = UseNow {
                busy_percent: reported.counted.busy_ms.map(|_| reported.pace.percent(now)),
                held: reported.counted.held,
                idle_since: reported.pace.idle_since().unwrap_or(session.since),
            };
            // If a program and an agent report the same device, both count.
            uses.entry(*device).and_modify(|all| *all = all.and(one)).or_insert(one);
        }
        let unknown = UseNow { busy_percent: None, held: 0, idle_since: session.since };
        for device in &session.used {
            uses.entry(*device).or_insert(unknown);
        }
        uses
    }

    /// Returns the job of a session.
    pub fn job_of(&self, session: SessionId) -> Option<JobId> {
        self.allocations.sessions.get(&session).copied()
    }

    /// Returns when a job's devices were last busy, or else when the job got them.
    pub fn last_use_by(&self, job: JobId) -> Option<Millis> {
        self.allocations.job(job).map(|job| job.active)
    }
}

impl UseNow {
    /// Returns the sum of two uses of the same device.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            busy_percent: self.busy_percent.zip(other.busy_percent).map(|(one, two)| (one + two).min(100)),
            held: self.held.saturating_add(other.held),
            idle_since: self.idle_since.max(other.idle_since),
        }
    }
}
