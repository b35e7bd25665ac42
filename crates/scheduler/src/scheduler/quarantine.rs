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

/// Devices in quarantine that no node has. Of more the one that has been in quarantine longest is forgotten.
const AWAY_MAX: usize = 1_024;

/// The reason why nothing is placed on a device.
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
    /// The device's UUID, by which the quarantine follows it; empty if it has none.
    pub uuid: String,
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

    /// Returns the UUIDs of devices in quarantine, and their places; `None` for those that no node has.
    pub fn quarantined_uuids(&self) -> impl Iterator<Item = (&str, Option<DeviceId>)> {
        let there = self.quarantined.iter().map(|(device, quarantine)| (quarantine.uuid.as_str(), Some(*device)));
        let away = self.away.keys().map(|uuid| (uuid.as_str(), None));
        there.filter(|(uuid, _)| !uuid.is_empty()).chain(away)
    }

    /// Begins a device's quarantine. A fault begins none if too many devices of the class are in quarantine for one: a fault of so many devices is
    /// more likely not theirs. A fault that is known to be the device's ends the charge that another one has left.
    pub(super) fn quarantine(&mut self, device: DeviceId, new: Quarantine, effects: &mut Vec<Effect>) {
        let name = self.name_of(DrainTarget::Device(device));
        let before = self.quarantined.get(&device);
        let was_charged = charges(&self.quarantined, device);
        let charged = new.charged && new.by.is_none() && was_charged;
        let Quarantine { reason, by, uuid, .. } = new;
        if by.is_none() {
            if before.is_some() && charged == was_charged {
                return;
            }
            if before.is_none()
                && let Some((out, installed)) = self.faulty_beside(device)
                && out + 1 > (installed * QUARANTINE_PERCENT / 100).max(1)
            {
                let why = format!(
                    "{name} is not put into quarantine ({reason}): {out} of {installed} devices of its class are in it, and at most \
                     {QUARANTINE_PERCENT} % may be; look at them, and take those that work out of it"
                );
                return effects.push(Effect::QuarantineRefused { device, reason, charged, why });
            }
        }
        effects.push(Effect::Audit(match &by {
            Some(by) => format!("{by} puts {name} into quarantine: {reason}"),
            None => format!("{name} is in quarantine: {reason}"),
        }));
        let since = before.map_or(self.now, |before| before.since);
        self.put_into_quarantine(device, Quarantine { reason, since, by, charged, uuid }, effects);
    }

    fn put_into_quarantine(&mut self, device: DeviceId, quarantine: Quarantine, effects: &mut Vec<Effect>) {
        let ends_charge = charges(&self.quarantined, device) && !quarantine.charged;
        self.site_changed = true;
        if ends_charge {
            self.charge_holders(device, false);
        }
        self.quarantined.insert(device, quarantine);
        if ends_charge {
            self.touch_holders(device);
        }
        self.check_health(device);
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
        if self.take_out_of_quarantine(device, effects).is_some() {
            let name = self.name_of(DrainTarget::Device(device));
            effects.push(Effect::Audit(format!("{by} takes {name} out of quarantine")));
        }
    }

    fn take_out_of_quarantine(&mut self, device: DeviceId, effects: &mut Vec<Effect>) -> Option<Quarantine> {
        let quarantine = self.quarantined.remove(&device)?;
        self.site_changed = true;
        if !quarantine.charged {
            self.charge_holders(device, true);
            self.touch_holders(device);
        }
        self.check_health(device);
        effects.push(Effect::Quarantine { device });
        Some(quarantine)
    }

    /// Has a quarantine follow its device to another place, or keeps it until a node has the device.
    pub(super) fn device_moved(&mut self, uuid: &str, to: Option<DeviceId>, effects: &mut Vec<Effect>) {
        let there = self.quarantined.iter().find(|(_, quarantine)| quarantine.uuid == uuid);
        let moved = match there.map(|(from, _)| *from) {
            Some(from) => self.take_out_of_quarantine(from, effects).map(|quarantine| (from, quarantine)),
            None => self.away.remove(uuid),
        };
        let Some((from, quarantine)) = moved else { return };
        self.site_changed = true;
        let name = |device| self.name_of(DrainTarget::Device(device));
        if let Some(to) = to {
            let text = format!("{} is in quarantine, which was {}: {}", name(to), name(from), quarantine.reason);
            effects.push(Effect::Audit(text));
            return self.put_into_quarantine(to, quarantine, effects);
        }
        effects.push(Effect::Audit(format!("{} has left the node, and stays in quarantine: {uuid}", name(from))));
        self.away.insert(uuid.to_owned(), (from, quarantine));
        if self.away.len() > AWAY_MAX {
            let oldest = self.away.iter().min_by_key(|(_, (_, quarantine))| quarantine.since);
            if let Some(oldest) = oldest.map(|(uuid, _)| uuid.clone()) {
                self.away.remove(&oldest);
            }
        }
    }

    /// Begins or ends the charge of a device to its jobs' accounts. No quarantine may prevent the charge now.
    fn charge_holders(&mut self, device: DeviceId, charge: bool) {
        for id in self.holders([device]) {
            let Some(job) = self.jobs.get(&id) else { continue };
            for grant in job.grants.iter().filter(|grant| grant.device == device) {
                if is_charged(&self.quarantined, grant) {
                    self.accounts.hold(self.now, job.account, grant.holding(job.long), charge);
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
            self.check_health(device);
        }
    }

    /// Whether the device itself prevents any start.
    pub(super) fn is_out_of_service(&self, device: DeviceId) -> bool {
        self.quarantined.contains_key(&device) || self.used.contains(&device) || self.is_awaited(device)
    }

    /// Notes whether anything prevents starts on a device.
    pub(super) fn check_health(&mut self, device: DeviceId) {
        let faulty = self.is_out_of_service(device);
        if let Some(spot) = self.pool.spot(device) {
            self.pool.device_mut(spot).faulty = faulty;
            self.pool.refresh(self.now, spot.node);
            self.pool.touch_claims(spot.node);
        }
    }
}
