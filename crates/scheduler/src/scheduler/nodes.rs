//! Nodes that join, change, leave, are lost or return.

use super::Scheduler;
use crate::effect::{Effect, EndCause};
use crate::ids::JobId;
use crate::input::DrainTarget;
use crate::node::NodeDescription;
use crate::phase::{Hold, Phase};
use accord_types::{DeviceId, NodeId};
use std::collections::BTreeSet;

impl Scheduler {
    pub(super) fn node_joined(&mut self, description: &NodeDescription, effects: &mut Vec<Effect>) {
        let id = description.id;
        let known = self.pool.node_at(id).map(|at| self.pool.node(at));
        let (returns, anew) =
            known.map_or((false, false), |node| (!node.up, node.incarnation != description.incarnation));
        let classes = self.pool.classes.len();
        if anew {
            self.lose_devices(id, |_| true, Hold::Freed, effects);
        } else {
            let described: BTreeSet<u32> = description.devices.iter().map(|device| device.ordinal).collect();
            self.lose_devices(id, |device| !described.contains(&device.ordinal), Hold::Freed, effects);
            if returns {
                let holders = self.holders_on(id);
                effects.extend(holders.into_iter().map(|job| Effect::Release { job, node: id }));
            }
        }
        let at = self.pool.put(self.now, description);
        let drained = self.drains.get(&DrainTarget::Node(id)).map(|drain| drain.by_time);
        self.pool.nodes[at as usize].drained = drained;
        self.adorn_devices(at);
        if self.pool.classes.len() > classes {
            self.shapes.note_classes(&self.pool.classes);
            self.candidates.extend(self.shapes.waiting());
        }
        self.shapes.note_node(at, &self.pool.nodes[at as usize]);
        self.accounts.set_classes(&self.policy, &self.pool.classes, self.pool.installed());
        self.pool.refresh(self.now, at);
        self.pool.touch_claims(at);
    }

    /// Applies earlier drains, quarantines and uses to new devices.
    fn adorn_devices(&mut self, at: u32) {
        let awaited: BTreeSet<DeviceId> = self.awaited_devices().collect();
        let (quarantined, used) = (&self.quarantined, &self.used);
        let node = &mut self.pool.nodes[at as usize];
        for device in &mut node.devices {
            let id = DeviceId { node: node.id, ordinal: device.ordinal };
            device.drained = self.drains.get(&DrainTarget::Device(id)).map(|drain| drain.by_time);
            device.faulty = quarantined.contains_key(&id) || used.contains(&id) || awaited.contains(&id);
        }
        self.reserve_devices_of(at);
    }

    /// Handles the loss of a node, or its departure after which no job holds its devices.
    pub(super) fn node_down(&mut self, id: NodeId, left: bool, effects: &mut Vec<Effect>) {
        let Some(at) = self.pool.node_at(id) else { return };
        let to = if left { Hold::Freed } else { Hold::Lost };
        self.pool.set_up(self.now, at, false);
        self.lose_devices(id, |_| true, to, effects);
    }

    /// Returns the jobs that hold devices of a node.
    fn holders_on(&self, id: NodeId) -> BTreeSet<JobId> {
        let Some(at) = self.pool.node_at(id) else { return BTreeSet::new() };
        let devices = self.pool.node(at).devices.iter();
        devices.flat_map(|device| device.holders.iter().map(|holder| holder.job)).collect()
    }

    /// Takes devices of a node from their jobs. A running job without any device left ends.
    fn lose_devices(&mut self, id: NodeId, which: impl Fn(DeviceId) -> bool, to: Hold, effects: &mut Vec<Effect>) {
        let suspended: Vec<JobId> = self.suspended_on(id).collect();
        for job in self.holders_on(id).into_iter().chain(suspended).collect::<BTreeSet<_>>() {
            let running = self.jobs.get(&job).is_some_and(|job| job.phase == Phase::Running);
            let in_use = |hold: Hold| matches!(hold, Hold::Held | Hold::Suspended);
            // An agent that is silent has the memory of suspended jobs still.
            let stays = |hold: Hold| hold == Hold::Suspended && to == Hold::Lost;
            let held: Vec<DeviceId> = self.jobs.get(&job).map_or_else(Vec::new, |job| {
                let there = job.grants.iter().filter(|grant| grant.device.node == id && which(grant.device));
                there.filter(|grant| in_use(grant.hold) && !stays(grant.hold)).map(|grant| grant.device).collect()
            });
            self.change_grants(job, id, |device, hold| if which(device) && !stays(hold) { to } else { hold });
            if running && !held.is_empty() {
                effects.push(Effect::DevicesLost { job, devices: held.clone() });
            }
            let alive = self.jobs.get(&job).is_some_and(|job| job.grants.iter().any(|grant| in_use(grant.hold)));
            if running && !alive {
                self.end(job, EndCause::Lost, effects);
            }
            if running && !held.is_empty() {
                self.lost_while_suspending(job, id, effects);
            }
            self.forget_if_free(job);
        }
    }
}
