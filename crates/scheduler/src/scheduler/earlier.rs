//! Jobs of an earlier scheduler, which keep their devices until they end.

use super::quarantine::is_charged;
use super::{Scheduler, Timer};
use crate::amount::{Amount, WHOLE};
use crate::class::ClassFilter;
use crate::demand::host_memory_of;
use crate::effect::LeasedDevice;
use crate::input::EarlierJob;
use crate::job::{Grant, Job};
use crate::phase::{Hold, Phase};
use crate::pool::{Holder, HostResources, Spot};
use crate::request::{Part, Request, Take};
use crate::suspension::{Suspension, SuspensionStage};
use crate::time::Millis;
use accord_types::DeviceId;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Scheduler {
    /// Adopts a job with the devices that it holds, unless other jobs hold them already. A suspended job holds none.
    pub(super) fn adopt(&mut self, earlier: EarlierJob) {
        let known = self.jobs.get(&earlier.id);
        let has = |device: DeviceId| {
            known.is_some_and(|job| job.grants.iter().any(|grant| grant.device == device && grant.hold != Hold::Freed))
        };
        let is_suspended = match known {
            Some(_) => self.stage_of(earlier.id).is_some_and(SuspensionStage::is_without_devices),
            None => earlier.is_suspended,
        };
        let spots: Vec<(Spot, LeasedDevice)> = earlier
            .devices
            .iter()
            .filter(|leased| !has(leased.device))
            .filter_map(|leased| Some((self.pool.spot(leased.device)?, *leased)))
            .filter(|(spot, leased)| is_suspended || self.has_space(*spot, leased))
            .collect();
        if spots.is_empty() {
            return;
        }
        if !self.jobs.contains_key(&earlier.id) {
            let mut job = self.started_earlier(&earlier);
            job.long = job.is_long(self.policy.quantum());
            match job.planned_end {
                Millis::NEVER => self.endless.insert(job.id),
                end => self.ends.insert((end, job.id)),
            };
            self.accounts.count(job.account, 1, 0);
            if job.suspension.is_none() {
                self.timers.insert((job.ends, Timer::Lease(job.id)));
                self.timers.insert((job.warned, Timer::Warn(job.id)));
            }
            self.last_job = self.last_job.max(job.id.0);
            self.jobs.insert(job.id, job);
        }
        let Some(job) = self.jobs.get_mut(&earlier.id).filter(|job| job.phase == Phase::Running) else { return };
        let (account, ends, long) = (job.account, job.planned_end, job.long);
        let mut nodes = BTreeSet::new();
        for (spot, LeasedDevice { device, amount, exclusive }) in spots {
            let class = self.pool.device_mut(spot).class;
            let of = &self.pool.classes[class.index()];
            let milli = u64::from(crate::arithmetic::charge(amount, exclusive, of));
            let host_memory = host_memory_of(of, if exclusive { Take::Exclusive } else { Take::Shared(amount) });
            let host_resources = HostResources { memory: host_memory, cores: 0 };
            let hold = if is_suspended { Hold::Suspended } else { Hold::Held };
            if hold.is_hold() {
                self.pool.hold(spot, Holder { job: earlier.id, amount, exclusive, long, ends, host_resources });
            }
            let grant =
                Grant { device, spot, class, amount, exclusive, milli, charged: milli, cores: 0, host_memory, hold };
            if is_charged(&self.quarantined, &grant) {
                self.accounts.hold(self.now, account, grant.holding(long), true);
            }
            nodes.insert(spot.node);
            job.grants.push(grant);
        }
        for node in nodes {
            self.pool.refresh(self.now, node);
            self.pool.touch_claims(node);
        }
        if is_suspended {
            self.without_devices.insert(earlier.id);
        }
        self.touch(account);
    }

    /// Whether a device has this much that no job holds.
    pub(super) fn has_space(&self, spot: Spot, leased: &LeasedDevice) -> bool {
        let device = &self.pool.node(spot.node).devices[spot.device as usize];
        let mut sum = leased.amount;
        for holder in &device.holders {
            sum = Amount {
                milli: sum.milli + holder.amount.milli,
                memory: sum.memory.saturating_add(holder.amount.memory).saturating_add(device.context),
            };
        }
        let whole = Amount { milli: WHOLE, memory: device.memory };
        let is_shared = !leased.exclusive && !device.holders.iter().any(|holder| holder.exclusive);
        (device.holders.is_empty() || is_shared) && whole.covers(sum)
    }

    fn started_earlier(&mut self, earlier: &EarlierJob) -> Job {
        let is_leaf = |at: &u32| self.accounts.get(*at).is_leaf;
        let account = self.accounts.named(&earlier.account).filter(is_leaf).unwrap_or(0);
        let request = Request::of(Part::whole(1, ClassFilter::ALL));
        // The job does not wait, so its shape is in no queue.
        let key = self.shape_key(account, None, &request, earlier.limit_ms);
        let shape = self.shapes.of(&key, &self.pool);
        self.shapes.leave(shape);
        let left_ms = earlier.limit_ms.unwrap_or(self.policy.quantum());
        let ends = if earlier.is_suspended { Millis::NEVER } else { self.now.plus(left_ms) };
        let suspension = earlier.is_suspended.then(|| Suspension::earlier(self.now, left_ms));
        Job {
            id: earlier.id,
            user: earlier.user.clone(),
            account,
            request: Arc::new(request),
            shape,
            origin: None,
            submitted: self.now,
            phase: Phase::Running,
            turn: self.accounts.turn(earlier.id, self.now, 0),
            front: None,
            on_hold: false,
            waits_until: None,
            kept_until: None,
            limit_ms: earlier.limit_ms,
            started: self.now,
            ends,
            warned: self.warning_time(ends),
            ending: None,
            grants: Vec::new(),
            paths: None,
            beyond_guarantees: Vec::new(),
            reserved_start: None,
            slipped: None,
            unplanned: [None; 3],
            announced: None,
            long: false,
            planned_end: earlier.limit_ms.map_or(Millis::NEVER, |_| ends),
            sessions: 0,
            suspension,
            suspension_refused: None,
            stood_still_ms: 0,
            went_on: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::amount::Amount;
    use crate::class::DeviceClass;
    use crate::node::{DeviceDescription, NodeDescription};
    use crate::{EarlierJob, Effect, Input, JobId, LeasedDevice, Millis, Policy, Scheduler};
    use accord_types::{DeviceId, DeviceType, NodeId};
    use std::collections::BTreeMap;

    fn node(id: u32) -> NodeDescription {
        let class =
            DeviceClass { kind: DeviceType::Cpu, model: "d".to_owned(), memory: 1 << 30, context: 0, compute: (0, 0) };
        NodeDescription {
            id: NodeId(id),
            name: format!("h{id}"),
            incarnation: 1,
            devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
            cores: 0,
            host_memory: 2 << 30,
            labels: BTreeMap::new(),
        }
    }

    fn earlier(id: u64, node: u32, ordinal: u32) -> EarlierJob {
        let device = DeviceId { node: NodeId(node), ordinal };
        EarlierJob {
            id: JobId(id),
            user: "alice".to_owned(),
            account: "site".to_owned(),
            devices: vec![LeasedDevice { device, amount: Amount { milli: 1_000, memory: 1 << 30 }, exclusive: true }],
            limit_ms: Some(60_000),
            is_suspended: false,
        }
    }

    #[test]
    fn devices_of_earlier_jobs_are_given_to_none_until_these_end() {
        let mut scheduler = Scheduler::new(Policy::default());
        let mut give = |at: u64, input: Input| {
            let mut effects = Vec::new();
            scheduler.apply(Millis(at), input, &mut effects);
            scheduler.check_invariants().unwrap();
            effects
        };
        let started = |effects: &[Effect], id: u64| {
            effects.iter().any(|effect| matches!(effect, Effect::Started { job, .. } if job.0 == id))
        };
        let ask = |count: &str| Input::Ask {
            user: "bob".to_owned(),
            account: "site".to_owned(),
            origin: None,
            request: count.parse().unwrap(),
        };
        give(0, ask("2:cpu"));
        // The waiting job does not precede the one that holds a device on the node.
        let effects = give(1, Input::NodeReturned(node(1), vec![earlier(7, 1, 0)]));
        assert!(!started(&effects, 1), "{effects:?}");
        // A job that ends before the waiting one may start goes first.
        assert!(started(&give(2, ask("1:cpu limit=30s")), 8));
        // Of two jobs that claim the same device, the first one keeps it.
        give(3, Input::NodeReturned(node(1), vec![earlier(9, 1, 0)]));
        give(4, Input::NodeReturned(node(2), vec![earlier(7, 2, 1)]));
        let effects = give(60_001, Input::Tick);
        let over = |effect: &Effect| matches!(effect, Effect::Release { job, .. } if job.0 == 7);
        assert_eq!(effects.iter().filter(|effect| over(effect)).count(), 2, "{effects:?}");
        let effects = give(60_002, Input::Released { job: JobId(7), node: NodeId(2) });
        assert!(started(&effects, 1), "{effects:?}");
    }

    #[test]
    fn nothing_is_placed_on_a_device_that_others_use() {
        let mut scheduler = Scheduler::new(Policy::default());
        let mut give = |input: Input| {
            let mut effects = Vec::new();
            scheduler.apply(Millis(1), input, &mut effects);
            scheduler.check_invariants().unwrap();
            effects.iter().filter(|effect| matches!(effect, Effect::Started { .. })).count()
        };
        let device = DeviceId { node: NodeId(1), ordinal: 0 };
        give(Input::InUse { device, in_use: true });
        give(Input::NodeJoined(node(1)));
        let ask = Input::Ask {
            user: "bob".to_owned(),
            account: "site".to_owned(),
            origin: None,
            request: "2:cpu".parse().unwrap(),
        };
        assert_eq!(give(ask), 0);
        assert_eq!(give(Input::InUse { device, in_use: false }), 1);
    }
}
