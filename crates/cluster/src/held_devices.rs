//! Devices that jobs and programs hold, and the nodes of these devices.

use super::allocations::Allocations;
use super::described::description;
use super::job::{Job, Stage};
use super::node::Node;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{DrainTarget, EarlierJob, Input, JobId};
use accord_types::{DeviceId, JobGrant, NodeId, SessionKey};

/// The reason of a drain by a node's own agent.
const LEAVING: &str = "its agent stops soon";

impl Allocations {
    /// Whether programs without a request may use the device.
    pub(super) fn is_shared(&self, device: DeviceId) -> bool {
        let scheduler = self.scheduler();
        !self.exclusive.contains_key(&device)
            && !scheduler.is_drained(DrainTarget::Device(device))
            && !scheduler.is_reserved(device)
            && scheduler.quarantine_of(device).is_none()
    }

    /// Returns the keys of jobs whose end the agent of a node has to confirm.
    pub(super) fn releasing_on(&self, node: NodeId) -> impl Iterator<Item = SessionKey> {
        let jobs = self.releasing.get(&node).into_iter().flatten();
        jobs.filter_map(|id| Some(self.jobs.get(id)?.token.key))
    }

    /// Returns the running jobs that use devices of a node.
    pub(super) fn jobs_on(&self, node: NodeId) -> impl Iterator<Item = &Job> {
        self.known_on(node).filter_map(|id| self.jobs.get(&id)).filter(move |job| job.uses(node))
    }

    /// Returns ended jobs that held devices of a node. A job that the current input itself ends is not included,
    /// because its sessions have not ended yet.
    pub(super) fn ended_on(&self, node: NodeId) -> impl Iterator<Item = JobId> {
        self.known_on(node).filter(|id| self.jobs.get(id).is_some_and(|job| matches!(job.stage, Stage::Ended)))
    }

    /// Returns jobs that hold devices of a node, or held some at their end.
    fn known_on(&self, node: NodeId) -> impl Iterator<Item = JobId> {
        counted(self.by_node.get(&node).into_iter().flatten().copied())
    }

    /// Notes a registered node, and the jobs that its agent reports.
    pub(super) fn node_joined(&mut self, node: &Node, grants: &[JobGrant]) {
        let earlier: Vec<EarlierJob> = grants.iter().filter_map(|grant| self.adopt(node, grant)).collect();
        self.inputs.push_back(match earlier.is_empty() {
            true => Input::NodeJoined(description(node)),
            false => Input::NodeReturned(description(node), earlier),
        });
        if node.draining {
            self.node_drained(node.id, true);
        } else if node.leaving {
            self.node_leaves(node.id);
        } else if self.scheduler().drain_reason(DrainTarget::Node(node.id)) == Some(LEAVING) {
            let (target, by) = (DrainTarget::Node(node.id), "its next agent".to_owned());
            self.inputs.push_back(Input::Undrain { target, by });
        }
    }

    /// Frees a node's devices because its machine has rebooted.
    pub(super) fn machine_restarted(&mut self, node: NodeId) {
        self.releasing.remove(&node);
        self.free_devices(node, |_| true);
        self.inputs.push_back(Input::NodeLeft(node));
    }

    /// Ends the exclusive hold on devices of a node by the owners that `is_of` selects.
    fn free_devices(&mut self, node: NodeId, is_of: impl Fn(JobId) -> bool) {
        let of_node = DeviceId { node, ordinal: 0 }..=DeviceId { node, ordinal: u32::MAX };
        let owned = counted(self.exclusive.range(of_node)).filter(|(_, owner)| is_of(**owner));
        for device in owned.map(|(device, _)| *device).collect::<Vec<_>>() {
            self.exclusive.remove(&device);
        }
    }

    /// Notes that a node's agent was stopped or is silent. Programs may continue there.
    pub(super) fn node_lost(&mut self, node: NodeId) {
        self.inputs.push_back(Input::NodeLost(node));
    }

    /// A node's agent stops soon: no job starts there until [`Self::node_joined`] finds another agent. An administrator's drain stays.
    pub(super) fn node_leaves(&mut self, node: NodeId) {
        if !self.scheduler().is_drained(DrainTarget::Node(node)) {
            self.drain_for_agent(node);
        }
    }

    /// Drains a node whose agent stops soon.
    pub(super) fn drain_for_agent(&mut self, node: NodeId) {
        let (target, by_time) = (DrainTarget::Node(node), accord_scheduler::Millis(0));
        let (reason, by) = (LEAVING.to_owned(), "its agent".to_owned());
        self.inputs.push_back(Input::Drain { target, by_time, end: false, reason, by });
    }

    /// A node takes part in no new session, or does again. A drain that the scheduler knows keeps its deadline.
    pub(super) fn node_drained(&mut self, node: NodeId, drained: bool) {
        let (target, by) = (DrainTarget::Node(node), "an administrator".to_owned());
        if drained && self.scheduler().is_drained(target) {
            return;
        }
        self.inputs.push_back(match drained {
            true => {
                let by_time = accord_scheduler::Millis(0);
                Input::Drain { target, by_time, end: false, reason: "accord drain".to_owned(), by }
            }
            false => Input::Undrain { target, by },
        });
    }

    /// Notes that a job has lost devices on lost nodes.
    pub(super) fn lost(&mut self, id: JobId, devices: &[DeviceId]) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.lost.extend(devices.iter().map(|device| device.node));
        }
    }

    /// Returns the job that holds a device exclusively.
    pub(super) fn owner_of(&self, device: DeviceId) -> Option<JobId> {
        self.exclusive.get(&device).copied()
    }

    /// Whether a job or a reservation has had a device to itself since this time, or longer.
    pub(super) fn is_held_since(&self, device: DeviceId, time: Millis) -> bool {
        let is_reserved = || self.scheduler().reservation_of(device).is_some_and(|held| held.starts.0 <= time.0);
        self.owner_of(device).is_some_and(|job| self.job(job).is_none_or(|job| job.started <= time)) || is_reserved()
    }

    /// Counts a program without a request that uses a device.
    pub(super) fn used(&mut self, device: DeviceId) {
        let users = self.used.entry(device).or_default();
        *users += 1;
        if *users == 1 {
            self.inputs.push_back(Input::InUse { device, in_use: true });
        }
    }

    /// Removes a program without a request from the users of a device.
    pub(super) fn unused(&mut self, device: DeviceId) {
        let Some(users) = self.used.get_mut(&device) else { return };
        *users -= 1;
        if *users == 0 {
            self.used.remove(&device);
            self.inputs.push_back(Input::InUse { device, in_use: false });
        }
    }

    /// Makes the agent of a node responsible for ending a job there. Returns the job's key.
    pub(super) fn release(&mut self, id: JobId, node: NodeId) -> Option<SessionKey> {
        let Some(job) = self.jobs.get_mut(&id) else {
            self.inputs.push_back(Input::Released { job: id, node });
            return None;
        };
        job.lost.insert(node);
        self.releasing.entry(node).or_default().insert(id);
        Some(job.token.key)
    }

    /// Returns the devices of a node that the release of a job is awaited for.
    pub(super) fn releasing_of(&self, key: SessionKey, node: NodeId) -> Vec<DeviceId> {
        let job = self.job_by_key(key).filter(|id| self.releasing.get(&node).is_some_and(|jobs| jobs.contains(id)));
        let held = job.and_then(|id| self.jobs.get(&id)).map(Job::held_devices).unwrap_or_default();
        held.into_iter().map(|leased| leased.device).filter(|device| device.node == node).collect()
    }

    /// Notes that the agent of a node confirms the end of a job there.
    pub(super) fn released(&mut self, node: NodeId, key: SessionKey) {
        let Some(id) = self.job_by_key(key) else { return };
        let Some(jobs) = self.releasing.get_mut(&node) else { return };
        if !jobs.remove(&id) {
            return;
        }
        if jobs.is_empty() {
            self.releasing.remove(&node);
        }
        self.free_devices(node, |owner| owner == id);
        self.inputs.push_back(Input::Released { job: id, node });
    }
}
