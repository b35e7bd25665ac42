//! Faults of devices: which of them begin a quarantine, and when agents test devices.
//!
//! A fault that the device has caused begins a quarantine at once, if an agent reports it. A fault that a region may have caused begins one
//! when agents report that programs of two users have shown the same. A program's word begins none, not even as one of two: the agent tests the
//! device. A fault that begins no quarantine, because as many devices of its class are in quarantine as may be, does so once there are fewer.

use super::effect::{AgentOrder, Effect};
use super::input::LinkId;
use super::node::Node;
use super::session_uses::{Charged, Reporter};
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::class::DeviceClass;
use accord_scheduler::{Input, JobId, Phase, Quarantine};
use accord_telemetry::log::AUDIT;
use accord_types::texts::{WORDS_MAX, cut};
use accord_types::{DeviceFault, DeviceId, DeviceVerdict, NodeId, SessionKey, SiteScript};
use std::collections::BTreeMap;

/// The name in the audit log for a quarantine that a test has ended.
const TEST: &str = "a test by its agent";

impl Cluster {
    /// Handles the first report of a device's fault by a session.
    pub(super) fn fault_reported(
        &mut self,
        now: Millis,
        (device, by): (DeviceId, Reporter),
        charged: &Charged,
        fault: DeviceFault,
    ) {
        let is_own = by == Reporter::Agent && fault.is_of_device();
        let quarantine = self.allocations.scheduler().quarantine_of(device);
        if quarantine.is_some_and(|quarantine| !is_own || !quarantine.charged) {
            return;
        }
        if is_own {
            self.faults.note_own(now, device);
            return self.begin_quarantine(device, fault.to_string(), false);
        }
        let (user, job) = match charged {
            Charged::User(user) => (Some(user.as_str()), None),
            Charged::Job(job) => (self.allocations.job(*job).map(|job| job.user.as_str()), Some(*job)),
        };
        let Some(user) = user.map(str::to_owned) else { return };
        let same = self.faults.note_displayed(now, device, (&user, by), fault);
        if same == Some(Reporter::Agent) {
            self.begin_quarantine(device, format!("programs of two users have shown {fault}"), true);
        } else if same.is_some() || fault.is_of_device() {
            self.faults.doubt(now, device, job);
        }
    }

    /// Begins a quarantine for a fault, or ends the charge in an existing one. Jobs stay charged if a region may have
    /// caused the fault.
    fn begin_quarantine(&mut self, device: DeviceId, reason: String, charged: bool) {
        let uuid = self.uuid_of(device);
        self.allocations.push(Input::Quarantine { device, reason, by: None, charged, uuid });
    }

    /// Puts a job's devices on a node into quarantine, because a script of the site has failed there. A test of the device says nothing of what the
    /// script has left undone, so that only an administrator ends the quarantine.
    pub(super) fn script_failed(
        &mut self,
        now: Millis,
        link: LinkId,
        (key, script, why): (SessionKey, SiteScript, &str),
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        let Some(job) = self.allocations.job_by_key(key) else { return };
        let script = script.name();
        let reason = format!("the {script} of job {job} has failed: {why}");
        for device in self.allocations.releasing_of(key, node) {
            let quarantine = self.allocations.scheduler().quarantine_of(device);
            if quarantine.is_some_and(|quarantine| quarantine.by.is_some()) {
                continue;
            }
            let (by, reason) = (Some(format!("the site's {script}")), cut(&reason, WORDS_MAX).to_owned());
            let uuid = self.uuid_of(device);
            self.allocations.push(Input::Quarantine { device, reason, by, charged: false, uuid });
        }
    }

    /// Returns a device's UUID; an empty one if it has none, or no node has the device.
    pub fn uuid_of(&self, device: DeviceId) -> String {
        let info = self.nodes.get(&device.node).and_then(|node| node.device(device.ordinal));
        info.map_or_else(String::new, |info| info.uuid.clone())
    }

    /// A fault has begun no quarantine, because too many devices of its class are in quarantine. It is tried again when there may be fewer.
    pub(super) fn quarantine_refused(&mut self, now: Millis, device: DeviceId, fault: (String, bool), why: &str) {
        if self.faults.refuse(now, device, fault) {
            tracing::warn!(target: AUDIT, "{why}");
        }
    }

    /// Tries the first refused fault of each class again.
    pub(super) fn try_refused(&mut self) {
        let scheduler = self.allocations.scheduler();
        let mut classes: Vec<&DeviceClass> = Vec::new();
        let is_first = |(device, _): &(DeviceId, _)| {
            scheduler.class_of(*device).is_some_and(|class| {
                let is_new = !classes.contains(&class);
                classes.extend(is_new.then_some(class));
                is_new
            })
        };
        let first: Vec<(DeviceId, (String, bool))> = self.faults.refused().filter(is_first).collect();
        for (device, (reason, charged)) in first {
            self.begin_quarantine(device, reason, charged);
        }
    }

    /// Has quarantines follow their devices by UUID, after a node's agent has said which devices it has: to another number or node, and away from
    /// where another device is now.
    pub(super) fn follow_devices(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let with_uuids = node.devices.iter().filter(|info| !info.uuid.is_empty());
        let places: BTreeMap<&str, DeviceId> = with_uuids.map(|info| (info.uuid.as_str(), info.id)).collect();
        let uuid_at = |place: DeviceId| {
            let node = self.nodes.get(&place.node).filter(|node| node.is_up());
            node.and_then(|node| node.device(place.ordinal)).map_or("", |info| info.uuid.as_str())
        };
        let (mut leave, mut come) = (Vec::new(), Vec::new());
        for (uuid, place) in self.allocations.scheduler().quarantined_uuids() {
            let to = places.get(uuid).copied();
            let there = place.map_or("", uuid_at);
            let is_replaced = !there.is_empty() && place.is_some_and(|place| place.node == id);
            if there != uuid && (to.is_some() || is_replaced) {
                leave.extend(place.map(|_| Input::DeviceMoved { uuid: uuid.to_owned(), to: None }));
                come.extend(to.map(|to| Input::DeviceMoved { uuid: uuid.to_owned(), to: Some(to) }));
            }
        }
        // All leave their places before any comes to one that another one has left.
        for input in leave.into_iter().chain(come) {
            self.allocations.push(input);
        }
    }

    /// Handles the result of a test. It counts only if the test was ordered after the quarantine, or the program's
    /// report.
    pub(super) fn device_tested(
        &mut self,
        now: Millis,
        (link, ordinal): (LinkId, u32),
        (number, verdict): (u64, DeviceVerdict),
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        let device = DeviceId { node, ordinal };
        let Some(name) = self.nodes.get(&node).filter(|node| node.device(ordinal).is_some()).map(|node| &node.name)
        else {
            return;
        };
        if !self.faults.take_answer(device, number) {
            return;
        }
        let is_faulty = self.is_faulty(device);
        match verdict {
            DeviceVerdict::Works if is_faulty => {
                self.faults.works(device);
                self.allocations.push(Input::Unquarantine { device, by: TEST.to_owned() });
            }
            DeviceVerdict::Works => self.faults.works(device),
            DeviceVerdict::Faulty(why) => {
                tracing::warn!("a test of device {ordinal} of node {name} fails: {}", cut(&why, WORDS_MAX));
                if is_faulty {
                    self.faults.fails(now, device);
                    self.begin_quarantine(device, cut(&why, WORDS_MAX).to_owned(), false);
                } else if !self.is_quarantined(device) {
                    self.faults.note_own(now, device);
                    self.begin_quarantine(device, cut(&why, WORDS_MAX).to_owned(), false);
                }
            }
            DeviceVerdict::Unknown(why) => {
                tracing::info!("a test of device {ordinal} of node {name} says nothing: {}", cut(&why, WORDS_MAX));
                if is_faulty {
                    self.faults.fails(now, device);
                }
            }
        }
    }

    /// Orders the tests that are due.
    pub(super) fn order_tests(&mut self, now: Millis, out: &mut Vec<Effect>) {
        while let Some(device) = self.faults.take_due(now) {
            if self.is_faulty(device) {
                // The test is repeated if there is no answer.
                self.faults.plan_test(now, device);
            } else if self.is_held_by_another(device, self.faults.doubter(device)) {
                // A program's report is no reason to disturb another job that holds the device by now.
                self.faults.plan_test(now, device);
                continue;
            }
            let node = self.nodes.get(&device.node).filter(|node| node.device(device.ordinal).is_some());
            if let Some(link) = node.and_then(Node::link) {
                let unix_ms = self.started_unix_ms.saturating_add(now.0);
                let number = self.faults.order(unix_ms, device);
                out.push(Effect::ToAgent(link, AgentOrder::TestDevice(device.ordinal, number)));
            }
        }
    }

    /// Informs the jobs of a device whose quarantine has begun or ended, and plans tests of a faulty device.
    pub(super) fn quarantine_changed(&mut self, now: Millis, device: DeviceId, out: &mut Vec<Effect>) {
        let quarantine = self.allocations.scheduler().quarantine_of(device).cloned();
        if self.is_faulty(device) {
            self.faults.plan_first_test(now, device);
        } else {
            self.faults.plan_no_test(device);
        }
        if quarantine.is_some() {
            self.faults.forget_refusal(device);
        }
        self.try_refused();
        let Some(node) = self.nodes.get(&device.node).map(|node| node.name.clone()) else { return };
        for job in self.allocations.scheduler().holders([device]) {
            if self.allocations.scheduler().job(job).is_none_or(|job| job.phase != Phase::Running) {
                continue;
            }
            let named = format!("device {} of node {node}", device.ordinal);
            let text = match &quarantine {
                Some(Quarantine { reason, charged: true, .. }) => {
                    format!(
                        "{named} is in quarantine, and job {job} is charged for it until a test shows the fault: {reason}"
                    )
                }
                Some(quarantine) => {
                    format!("{named} is in quarantine, and job {job} is not charged for it: {}", quarantine.reason)
                }
                None => format!("{named} is out of quarantine, and job {job} is charged for it"),
            };
            self.allocations.note_event(now, job, &text);
            self.warn_job(job, text, out);
        }
        self.changed(out);
    }

    /// Plans tests of devices that were quarantined before the coordinator's start.
    pub(super) fn restore_tests(&mut self, now: Millis) {
        let quarantines = self.allocations.scheduler().quarantines();
        let faulty = quarantines.filter(|(_, quarantine)| quarantine.by.is_none()).map(|(device, _)| device);
        for device in faulty.collect::<Vec<_>>() {
            self.faults.note_own(now, device);
            self.faults.plan_first_test(now, device);
        }
    }

    /// Whether a job other than `job` holds the device.
    pub(super) fn is_held_by_another(&self, device: DeviceId, job: Option<JobId>) -> bool {
        self.allocations.scheduler().holders([device]).into_iter().any(|holder| Some(holder) != job)
    }

    fn is_quarantined(&self, device: DeviceId) -> bool {
        self.allocations.scheduler().quarantine_of(device).is_some()
    }

    /// Whether a fault, not an administrator, has put the device into quarantine.
    fn is_faulty(&self, device: DeviceId) -> bool {
        self.allocations.scheduler().quarantine_of(device).is_some_and(|quarantine| quarantine.by.is_none())
    }
}
