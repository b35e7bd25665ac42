//! Devices with faults, and the times of their tests.

use super::session_uses::Reporter;
use super::time::Millis;
use accord_scheduler::JobId;
use accord_types::{DeviceFault, DeviceId};
use std::collections::{BTreeMap, BTreeSet};

/// Most devices with known faults.
const DEVICES_MAX: usize = 16_384;
/// Most faults of a device that regions may have caused.
const EVIDENCE_MAX: usize = 8;
/// Time within which programs of two users have to hit the same fault.
const SAME_WITHIN_MS: u64 = 3_600_000;
/// Time until the first test of a device with a fault of its own, and longest time between two tests.
const PAUSE_MIN_MS: u64 = 30_000;
const PAUSE_MAX_MS: u64 = 3_600_000;
/// Time within which a repeated fault of a device doubles the time until its first test.
const AGAIN_WITHIN_MS: u64 = 86_400_000;

/// Faults that began no quarantine. For one more an earlier one is forgotten.
const REFUSED_MAX: usize = 1_024;
/// The time between two lines of the log on the refused quarantine of one device.
const REFUSED_AGAIN_MS: u64 = 3_600_000;

/// A fault that a region of a user may have caused.
#[derive(Debug)]
struct Evidence {
    user: String,
    by: Reporter,
    fault: DeviceFault,
    at: Millis,
}

/// The faults of one device.
#[derive(Debug, Default)]
struct Faults {
    evidence: Vec<Evidence>,
    /// Time of the last fault that the device itself has caused.
    own: Option<Millis>,
    /// The time until its next test.
    pause_ms: u64,
    /// Time of the next test, if one is planned.
    test: Option<Millis>,
    /// Number of the ordered test without an answer. It changes only if the test has a new reason. So a repeated order
    /// begins no second test, and an answer to an earlier reason does not count.
    order: Option<u64>,
    /// Time at which a test was last planned because of a program's report.
    doubted: Option<Millis>,
    /// The job of that program.
    doubter: Option<JobId>,
}

/// A fault that began no quarantine, because too many devices of its class were in quarantine.
#[derive(Debug)]
struct Refused {
    reason: String,
    charged: bool,
    /// The time at which the log last said so.
    logged: Millis,
}

/// The faults of all devices.
#[derive(Debug, Default)]
pub(super) struct FaultTable {
    devices: BTreeMap<DeviceId, Faults>,
    refused: BTreeMap<DeviceId, Refused>,
    /// Planned tests, the next one first.
    tests: BTreeSet<(Millis, DeviceId)>,
    /// The number of the last order.
    last_order: u64,
}

impl FaultTable {
    /// Returns the time of the next test.
    pub(super) fn next_test(&self) -> Option<Millis> {
        self.tests.first().map(|(at, _)| *at)
    }

    /// Notes a fault that the device itself has caused.
    pub(super) fn note_own(&mut self, now: Millis, device: DeviceId) {
        let faults = self.of(device);
        let is_again = faults.own.replace(now).is_some_and(|before| now.since(before) < AGAIN_WITHIN_MS);
        faults.pause_ms = if is_again { longer(faults.pause_ms) } else { PAUSE_MIN_MS };
    }

    /// Notes a fault that a user's region may have caused. If a program of another user hit the same fault, returns the
    /// less reliable reporter of the two. If agents reported both, the reports are dropped and the device's first test
    /// is due at once.
    pub(super) fn note_displayed(
        &mut self,
        now: Millis,
        device: DeviceId,
        (user, by): (&str, Reporter),
        fault: DeviceFault,
    ) -> Option<Reporter> {
        let faults = self.of(device);
        faults.evidence.retain(|evidence| now.since(evidence.at) < SAME_WITHIN_MS);
        let of_others = faults.evidence.iter().filter(|evidence| evidence.fault == fault && evidence.user != user);
        let same = of_others.map(|evidence| evidence.by.min(by)).max();
        if same == Some(Reporter::Agent) {
            faults.evidence.retain(|evidence| evidence.fault != fault);
            faults.pause_ms = 0;
            return same;
        }
        // A program's report does not replace an agent's.
        let is_replaced = |evidence: &Evidence| evidence.fault == fault && evidence.user == user && evidence.by <= by;
        faults.evidence.retain(|evidence| !is_replaced(evidence));
        if faults.evidence.len() >= EVIDENCE_MAX {
            // At the limit, a program's report is dropped before an agent's.
            let oldest_word = faults.evidence.iter().position(|evidence| evidence.by == Reporter::Program);
            faults.evidence.remove(oldest_word.unwrap_or(0));
        }
        faults.evidence.push(Evidence { user: user.to_owned(), by, fault, at: now });
        same
    }

    /// Notes a fault that began no quarantine, and whether a region may have caused it. Returns whether the log is to say so.
    pub(super) fn refuse(&mut self, now: Millis, device: DeviceId, (reason, charged): (String, bool)) -> bool {
        let before = self.refused.remove(&device).map(|before| before.logged);
        let logged = before.filter(|before| now.since(*before) < REFUSED_AGAIN_MS);
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_first();
        }
        self.refused.insert(device, Refused { reason, charged, logged: logged.unwrap_or(now) });
        logged.is_none()
    }

    /// Returns the devices whose faults began no quarantine, with these.
    pub(super) fn refused(&self) -> impl Iterator<Item = (DeviceId, (String, bool))> {
        self.refused.iter().map(|(device, refused)| (*device, (refused.reason.clone(), refused.charged)))
    }

    /// Forgets that a device's fault began no quarantine.
    pub(super) fn forget_refusal(&mut self, device: DeviceId) {
        self.refused.remove(&device);
    }

    /// Plans a test for a program's word that the device has caused a fault, unless it was tested for that lately. `job` is the program's job.
    pub(super) fn doubt(&mut self, now: Millis, device: DeviceId, job: Option<JobId>) {
        let faults = self.of(device);
        if faults.doubted.is_none_or(|before| now.since(before) >= PAUSE_MIN_MS) {
            (faults.doubted, faults.doubter, faults.order) = (Some(now), job, None);
            self.plan(device, Some(now));
        }
    }

    /// Returns the number of the ordered test of a device. It starts at the time `unix_ms`, so that it differs from
    /// earlier coordinators' numbers, for which answers may still arrive.
    pub(super) fn order(&mut self, unix_ms: u64, device: DeviceId) -> u64 {
        let next = self.last_order.saturating_add(1).max(unix_ms);
        let number = *self.of(device).order.get_or_insert(next);
        self.last_order = self.last_order.max(number);
        number
    }

    /// Whether this answer is the expected one, which is then no longer expected.
    pub(super) fn take_answer(&mut self, device: DeviceId, number: u64) -> bool {
        let faults = self.devices.get_mut(&device);
        faults.is_some_and(|faults| faults.order.take_if(|order| *order == number).is_some())
    }

    /// Returns the job of the program whose report last caused a test.
    pub(super) fn doubter(&self, device: DeviceId) -> Option<JobId> {
        self.devices.get(&device)?.doubter
    }

    /// Plans the first test of a device that has just been quarantined.
    pub(super) fn plan_first_test(&mut self, now: Millis, device: DeviceId) {
        let faults = self.of(device);
        faults.order = None;
        let pause_ms = faults.pause_ms;
        self.plan(device, Some(now.plus(pause_ms)));
    }

    /// Plans the next test of a device.
    pub(super) fn plan_test(&mut self, now: Millis, device: DeviceId) {
        let pause_ms = self.of(device).pause_ms.max(PAUSE_MIN_MS);
        self.plan(device, Some(now.plus(pause_ms)));
    }

    /// Plans the next test of a quarantined device after a failed one, with a longer pause.
    pub(super) fn fails(&mut self, now: Millis, device: DeviceId) {
        let faults = self.of(device);
        faults.pause_ms = longer(faults.pause_ms);
        self.plan_test(now, device);
    }

    /// Notes that a device has passed a test.
    pub(super) fn works(&mut self, device: DeviceId) {
        self.forget_refusal(device);
        if let Some(faults) = self.devices.get_mut(&device) {
            faults.evidence.clear();
            faults.doubted = None;
        }
        self.plan_no_test(device);
    }

    /// Cancels the planned test of a device, and ignores the answer to an ordered one.
    pub(super) fn plan_no_test(&mut self, device: DeviceId) {
        if let Some(faults) = self.devices.get_mut(&device) {
            faults.order = None;
        }
        self.plan(device, None);
    }

    /// Removes and returns a device whose test is due.
    pub(super) fn take_due(&mut self, now: Millis) -> Option<DeviceId> {
        let (_, device) = *self.tests.first().filter(|(at, _)| *at <= now)?;
        self.plan(device, None);
        Some(device)
    }

    fn plan(&mut self, device: DeviceId, at: Option<Millis>) {
        let Some(faults) = self.devices.get_mut(&device) else { return };
        if let Some(before) = std::mem::replace(&mut faults.test, at) {
            self.tests.remove(&(before, device));
        }
        self.tests.extend(at.map(|at| (at, device)));
    }

    fn of(&mut self, device: DeviceId) -> &mut Faults {
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&device) {
            self.devices.retain(|_, faults| faults.test.is_some());
        }
        self.devices.entry(device).or_default()
    }

    /// Checks that the planned tests match the devices.
    pub(super) fn check(&self) -> Result<(), String> {
        let planned = self.devices.iter().filter_map(|(device, faults)| Some((faults.test?, *device)));
        if planned.clone().count() != self.tests.len() || !planned.clone().all(|test| self.tests.contains(&test)) {
            return Err(format!("tests of devices are planned, and kept are {:?}", self.tests));
        }
        Ok(())
    }
}

/// Returns the doubled pause, within bounds.
fn longer(pause_ms: u64) -> u64 {
    pause_ms.saturating_mul(2).clamp(PAUSE_MIN_MS, PAUSE_MAX_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::NodeId;

    #[test]
    fn the_log_says_once_an_hour_that_a_device_s_fault_begins_no_quarantine() {
        let mut table = FaultTable::default();
        let mut is_said = |at: u64, ordinal: u32| {
            let device = DeviceId { node: NodeId(1), ordinal };
            table.refuse(Millis(at), device, ("an error".to_owned(), false))
        };
        assert_eq!([is_said(0, 0), is_said(1_000, 0), is_said(1_000, 1)], [true, false, true]);
        assert_eq!([is_said(REFUSED_AGAIN_MS - 1, 0), is_said(REFUSED_AGAIN_MS, 0)], [false, true]);
        assert!(!is_said(2 * REFUSED_AGAIN_MS - 1, 0));
        // However many there are, no more are kept.
        for ordinal in 0..2 * u32::try_from(REFUSED_MAX).unwrap() {
            is_said(0, ordinal);
        }
        assert_eq!(table.refused.len(), REFUSED_MAX);
    }
}
