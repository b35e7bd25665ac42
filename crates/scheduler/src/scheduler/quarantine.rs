//! Quarantine: no job starts on a faulty device, and jobs that hold it are not charged for it.

use super::Scheduler;
use crate::effect::Effect;
use crate::input::DrainTarget;
use crate::job::Grant;
use crate::phase::Hold;
use crate::time::Millis;
use accord_types::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// Most percent of a class's devices that faults may put into quarantine; one device is always allowed.
const QUARANTINE_PERCENT: u32 = 10;

/// The quarantine of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quarantine {
    /// The fault, or the administrator's reason.
    pub reason: String,
    /// The time of its begin.
    pub since: Millis,
    /// The administrator who began it; `None` for a fault.
    pub by: Option<String>,
    /// Whether jobs that hold the device stay charged for it, because a region of theirs may have caused the fault.
    pub charged: bool,
}

/// Whether a job is charged for a device that it has or had.
pub(super) fn is_charged(quarantined: &BTreeMap<DeviceId, Quarantine>, grant: &Grant) -> bool {
    matches!(grant.hold, Hold::Held | Hold::Releasing) && charges(quarantined, grant.device)
}

/// Whether jobs that hold a device are charged for it.
pub(super) fn charges(quarantined: &BTreeMap<DeviceId, Quarantine>, device: DeviceId) -> bool {
    quarantined.get(&device).is_none_or(|quarantine| quarantine.charged)
}

impl Scheduler {
    /// Returns the devices in quarantine.
    pub fn quarantines(&self) -> impl Iterator<Item = (DeviceId, &Quarantine)> {
        self.quarantined.iter().map(|(device, quarantine)| (*device, quarantine))
    }

    /// Returns a device's quarantine, if there is one.
    #[must_use]
    pub fn quarantine_of(&self, device: DeviceId) -> Option<&Quarantine> {
        self.quarantined.get(&device)
    }

    /// Begins a device's quarantine. A fault begins none if too many devices of the class are in quarantine, because
    /// the fault of so many devices is more likely elsewhere. A fault of the device itself ends the charge that another
    /// fault has left.
    pub(super) fn quarantine(
        &mut self,
        device: DeviceId,
        (reason, by): (String, Option<String>),
        charged: bool,
        effects: &mut Vec<Effect>,
    ) {
        let name = self.name_of(DrainTarget::Device(device));
        let before = self.quarantined.get(&device);
        let was_charged = charges(&self.quarantined, device);
        let charged = charged && by.is_none() && was_charged;
        if by.is_none() {
            if before.is_some() && charged == was_charged {
                return;
            }
            if before.is_none()
                && let Some((out, installed)) = self.faulty_beside(device)
                && out + 1 > (installed * QUARANTINE_PERCENT / 100).max(1)
            {
                effects.push(Effect::Audit(format!(
                    "{name} is not put into quarantine ({reason}): {out} of {installed} devices of its class are in it, and at most \
                     {QUARANTINE_PERCENT} % may be; look at them, and take those that work out of it"
                )));
                return;
            }
        }
        effects.push(Effect::Audit(match &by {
            Some(by) => format!("{by} puts {name} into quarantine: {reason}"),
            None => format!("{name} is in quarantine: {reason}"),
        }));
        let since = before.map_or(self.now, |before| before.since);
        self.site_changed = true;
        if charged != was_charged {
            self.charge_holders(device, false);
        }
        self.quarantined.insert(device, Quarantine { reason, since, by, charged });
        if charged != was_charged {
            self.touch_holders(device);
        }
        self.look_at_health(device);
        effects.push(Effect::Quarantine { device });
    }

    /// Returns how many other devices of a device's class are in quarantine for a fault, and the number of the class's
    /// devices. A quarantined device counts even if its node no longer describes it, as for a GPU that has left the
    /// bus.
    fn faulty_beside(&self, device: DeviceId) -> Option<(u32, u32)> {
        let class = self.pool.device(self.pool.spot(device)?).class;
        let faulty = self.quarantined.iter().filter(|(other, quarantine)| **other != device && quarantine.by.is_none());
        let known = faulty.filter_map(|(other, _)| self.pool.spot(*other)).map(|spot| self.pool.device(spot));
        let (mut out, mut all) = (0, self.pool.index[class.index()].installed);
        for other in known.filter(|other| other.class == class) {
            out += 1;
            all += u32::from(other.absent);
        }
        Some((out, all))
    }

    /// Ends a device's quarantine.
    pub(super) fn unquarantine(&mut self, device: DeviceId, by: &str, effects: &mut Vec<Effect>) {
        if let Some(quarantine) = self.quarantined.remove(&device) {
            self.site_changed = true;
            let name = self.name_of(DrainTarget::Device(device));
            effects.push(Effect::Audit(format!("{by} takes {name} out of quarantine")));
            if !quarantine.charged {
                self.charge_holders(device, true);
                self.touch_holders(device);
            }
            self.look_at_health(device);
            effects.push(Effect::Quarantine { device });
        }
    }

    /// Begins or ends the charge of a device to its jobs' accounts. No quarantine may prevent the charge now.
    fn charge_holders(&mut self, device: DeviceId, charge: bool) {
        for id in self.holders([device]) {
            let Some(job) = self.jobs.get(&id) else { continue };
            for grant in job.grants.iter().filter(|grant| grant.device == device) {
                if is_charged(&self.quarantined, grant) {
                    self.accounts.hold(self.now, job.account, grant.class, grant.milli, job.long, charge);
                }
            }
        }
    }

    /// Recomputes the order of the accounts whose jobs hold a device.
    fn touch_holders(&mut self, device: DeviceId) {
        let jobs = self.holders([device]);
        let accounts: BTreeSet<u32> = jobs.iter().filter_map(|id| self.jobs.get(id)).map(|job| job.account).collect();
        for account in accounts {
            self.touch(account);
        }
    }

    /// Notes that a device is in use by a program without a job, or no longer.
    pub(super) fn note_use(&mut self, device: DeviceId, in_use: bool) {
        let changes = if in_use { self.used.insert(device) } else { self.used.remove(&device) };
        if changes {
            self.look_at_health(device);
        }
    }

    /// Whether the device itself prevents any start.
    pub(super) fn is_out_of_service(&self, device: DeviceId) -> bool {
        self.quarantined.contains_key(&device) || self.used.contains(&device)
    }

    fn look_at_health(&mut self, device: DeviceId) {
        let faulty = self.is_out_of_service(device);
        if let Some(spot) = self.pool.spot(device) {
            self.pool.device_mut(spot).faulty = faulty;
            self.pool.refresh(self.now, spot.node);
            self.pool.touch_claims(spot.node);
        }
    }
}
