//! Nodes that join, change, leave or are lost.

use super::*;

impl Naive {
    pub(super) fn join(&mut self, description: &accord_scheduler::node::NodeDescription, effects: &mut Vec<Effect>) {
        let id = description.id;
        let at = self.nodes.iter().position(|node| node.id == id);
        let ordinals: BTreeSet<u32> = description.devices.iter().map(|device| device.ordinal).collect();
        if let Some(at) = at {
            let anew = self.nodes[at].incarnation != description.incarnation;
            self.lose_devices(id, |device| anew || !ordinals.contains(&device.ordinal), NHold::Freed, effects);
            if !anew && !self.nodes[at].up {
                for job in self.holders(id) {
                    effects.push(Effect::Release { job, node: id });
                }
            }
        }
        let at = at.unwrap_or_else(|| {
            self.nodes.push(NNode::new(id));
            self.nodes.len() - 1
        });
        let mut described = description.devices.clone();
        described.sort_by_key(|device| device.ordinal);
        self.nodes[at].devices.iter_mut().for_each(|device| device.absent = true);
        for device in described {
            let class = self.classes.iter().position(|class| *class == device.class).unwrap_or_else(|| {
                self.classes.push(device.class.clone());
                self.classes.len() - 1
            });
            let DeviceClass { memory, context, .. } = device.class;
            let new = NDevice { ordinal: device.ordinal, class, memory, context, absent: false };
            let devices = &mut self.nodes[at].devices;
            match devices.iter().position(|known| known.ordinal == device.ordinal) {
                Some(known) => devices[known] = new,
                None => devices.push(new),
            }
        }
        let mut number = |label: &str| {
            let name = (label.to_owned(), description.labels.get(label)?.clone());
            let known = self.domains.iter().position(|known| *known == name);
            Some(known.unwrap_or_else(|| {
                self.domains.push(name);
                self.domains.len() - 1
            }) as u32)
        };
        let (rack, switch) = (number("rack"), number("switch"));
        let node = &mut self.nodes[at];
        (node.rack, node.switch) = (rack, switch);
        node.up = true;
        node.incarnation = description.incarnation;
        node.name.clone_from(&description.name);
        node.labels.clone_from(&description.labels);
        (node.cores, node.memory) = (description.cores, description.host_memory);
        for account in &mut self.accounts {
            account.used.resize(self.classes.len(), 0);
        }
    }

    fn holders(&self, id: NodeId) -> BTreeSet<JobId> {
        let has = |job: &&NJob| job.grants.iter().any(|grant| grant.device.node == id && grant.hold.is_hold());
        self.jobs.values().filter(has).map(|job| job.id).collect()
    }

    pub(super) fn down(&mut self, id: NodeId, to: NHold, effects: &mut Vec<Effect>) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == id) {
            node.up = false;
            self.lose_devices(id, |_| true, to, effects);
        }
    }

    fn lose_devices(&mut self, id: NodeId, which: impl Fn(DeviceId) -> bool, to: NHold, effects: &mut Vec<Effect>) {
        let has = |job: &&NJob| job.grants.iter().any(|grant| grant.device.node == id && grant.hold != NHold::Freed);
        for job in self.jobs.values().filter(has).map(|job| job.id).collect::<Vec<_>>() {
            let of = &self.jobs[&job];
            let running = of.phase == NPhase::Running;
            let in_use = |hold: NHold| matches!(hold, NHold::Held | NHold::Suspended);
            // An agent that is silent keeps the memory of suspended jobs.
            let stays = |hold: NHold| hold == NHold::Suspended && to == NHold::Lost;
            let there = of.grants.iter().filter(|grant| grant.device.node == id && which(grant.device));
            let held: Vec<DeviceId> =
                there.filter(|grant| in_use(grant.hold) && !stays(grant.hold)).map(|grant| grant.device).collect();
            self.change(job, id, |device, hold| if which(device) && !stays(hold) { to } else { hold });
            let is_less = running && !held.is_empty();
            if is_less {
                effects.push(Effect::DevicesLost { job, devices: held });
            }
            if running && self.jobs[&job].grants.iter().all(|grant| !in_use(grant.hold)) {
                self.end(job, EndCause::Lost, effects);
            }
            if is_less {
                self.lost_while_suspending(job, id, effects);
            }
            self.forget(job);
        }
    }
}
