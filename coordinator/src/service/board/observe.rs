//! Builds a board from the core's state. Each step takes a few nodes, sessions or jobs, so that the core is locked only
//! for short moments.

use super::super::driver::Driver;
use super::{
    Board, DeviceActivity, DeviceSeen, JobSeen, NodeSeen, Orders, QuarantineSeen, SessionSeen, UseSeen, index,
};
use accord_cluster::{Cluster, Millis, Node, NodeState, Session};
use accord_proto::v1;
use accord_scheduler::{AccountOrder, DrainTarget, JobId, JobView, Phase, SuspensionStage};
use accord_types::texts::{NAME_MAX, WORDS_MAX, cut};
use accord_types::{DeviceId, DeviceLoad, NodeId, SessionId, natural_order};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Most nodes, sessions or jobs that are visited under one lock.
pub(super) const AT_ONCE: usize = 128;
/// Time until a device counts as idle, in milliseconds: a shorter pause may lie between two regions.
const IDLE_AFTER_MS: u64 = 5_000;

/// Memory in use from which a device without a session is used by other programs. A test by the agent takes less.
const OTHERS_MEMORY_MIN: u64 = 1 << 30;

/// Tolerated difference of the clocks, in milliseconds.
const CLOCK_MOVES_MS: u64 = 1_000;

/// A board under construction.
struct Observer {
    board: Board,
    now: Millis,
    started_unix_ms: u64,
    places: HashMap<DeviceId, u32>,
    jobs: HashMap<JobId, u32>,
}

impl DeviceSeen {
    /// Shows the load by all programs of the machine, which sessions' samples are a part of.
    fn take_load(&mut self) {
        let activity = &mut self.activity;
        let DeviceLoad { busy_percent, memory_used } = activity.load;
        let (busy, memory) = (busy_percent.unwrap_or_default(), memory_used.unwrap_or_default());
        activity.by_others = self.uses.is_empty() && (busy > 0 || memory >= OTHERS_MEMORY_MIN);
        // A driver that reports memory but no utilization, as in MIG mode, does not say that no other program computes.
        let only_others = memory_used.is_some() && self.uses.is_empty();
        activity.percent = busy_percent.or(activity.percent.filter(|_| !only_others));
        activity.held = activity.held.max(memory);
    }
}

/// Access to the core's state, locked for the duration of a call.
pub(crate) trait CoreAccess {
    fn with_core<T>(&self, with_core: impl FnOnce(&Cluster) -> T) -> T;
}

impl CoreAccess for Driver {
    fn with_core<T>(&self, with_core: impl FnOnce(&Cluster) -> T) -> T {
        self.with_cluster(with_core)
    }
}

impl Board {
    /// Builds a board for a time that both clocks give.
    pub(super) fn observe(core: &impl CoreAccess, (now, unix_ms): (Millis, u64), before: Option<&Self>) -> Self {
        let mut observer = core.with_core(|cluster| Observer::begin(cluster, (now, unix_ms), before));
        let mut next = Some(NodeId(0));
        while let Some(from) = next {
            next = core.with_core(|cluster| observer.nodes(cluster, from));
        }
        let mut after = Some(None);
        while let Some(last) = after {
            after = core.with_core(|cluster| observer.jobs(cluster, last)).map(Some);
        }
        let accounts = core.with_core(|cluster| cluster.scheduler().account_order());
        observer.order_jobs(&accounts);
        let mut next = Some(SessionId(0));
        while let Some(from) = next {
            next = core.with_core(|cluster| observer.sessions(cluster, from));
        }
        observer.finish(before)
    }
}

impl Observer {
    fn begin(cluster: &Cluster, (now, unix_ms): (Millis, u64), before: Option<&Board>) -> Self {
        let scheduler = cluster.scheduler();
        // All times of a board use the current wall clock, which may have been set since the coordinator's start. A
        // small difference comes from reading two clocks, and is ignored so that it changes no rows.
        let started_unix_ms = unix_ms.saturating_sub(now.0);
        let of_before = before.map(|before| before.started_unix_ms);
        let near = of_before.filter(|before| before.abs_diff(started_unix_ms) <= CLOCK_MOVES_MS);
        let started_unix_ms = near.unwrap_or(started_unix_ms);
        Self {
            board: Board {
                unix_ms,
                started_unix_ms,
                paused: scheduler.is_paused(),
                others_jobs: cluster.others_jobs(),
                users: Vec::new(),
                by_name: HashMap::new(),
                nodes: Vec::new(),
                devices: Vec::new(),
                sessions: Vec::new(),
                jobs: Vec::new(),
                by_node_name: Arc::default(),
                orders: Orders::default(),
            },
            now,
            started_unix_ms,
            places: HashMap::new(),
            jobs: HashMap::new(),
        }
    }

    fn unix_ms(&self, at: Millis) -> u64 {
        self.started_unix_ms.saturating_add(at.0)
    }

    /// Adds some nodes. Returns where to continue.
    fn nodes(&mut self, cluster: &Cluster, from: NodeId) -> Option<NodeId> {
        let mut last = None;
        for node in cluster.nodes_from(from).take(AT_ONCE) {
            self.node(cluster, node);
            last = Some(node.id);
        }
        last.and_then(|last| last.0.checked_add(1)).map(NodeId)
    }

    fn node(&mut self, cluster: &Cluster, node: &Node) {
        let scheduler = cluster.scheduler();
        let drain = scheduler.drain_reason(DrainTarget::Node(node.id)).map(|reason| cut(reason, WORDS_MAX));
        let state = match node.state {
            NodeState::Up { .. } if node.is_drained() || drain.is_some() => v1::NodeState::Draining,
            NodeState::Up { .. } => v1::NodeState::Up,
            NodeState::Lost => v1::NodeState::Lost,
            NodeState::Gone => v1::NodeState::Gone,
        };
        let (place, first) = (index(self.board.nodes.len()), index(self.board.devices.len()));
        let reason = drain.unwrap_or_default();
        for info in node.devices.iter() {
            let own = scheduler.drain_reason(DrainTarget::Device(info.id)).map(|reason| cut(reason, WORDS_MAX));
            let quarantine = scheduler.quarantine_of(info.id);
            let (condition, why) = match quarantine {
                _ if !node.is_up() => (v1::DeviceCondition::Lost, ""),
                Some(fault) => (v1::DeviceCondition::Quarantined, cut(&fault.reason, WORDS_MAX)),
                None => match own {
                    Some(own) => (v1::DeviceCondition::Drained, own),
                    None if state == v1::NodeState::Draining => (v1::DeviceCondition::Drained, reason),
                    None => (v1::DeviceCondition::Free, ""),
                },
            };
            let fault = quarantine.filter(|_| condition == v1::DeviceCondition::Quarantined);
            let quarantine = fault.map(|fault| QuarantineSeen {
                since_unix_ms: self.unix_ms(Millis(fault.since.0)),
                is_charged: fault.charged,
            });
            self.places.insert(info.id, index(self.board.devices.len()));
            self.board.devices.push(DeviceSeen {
                node: place,
                ordinal: info.id.ordinal,
                name: cut(&info.name, NAME_MAX).to_owned(),
                memory: info.memory,
                condition,
                reason: why.to_owned(),
                activity: DeviceActivity {
                    held: 0,
                    percent: Some(0),
                    load: cluster.load_of(info.id),
                    by_others: false,
                    idle_since_unix_ms: None,
                },
                quarantine,
                uses: Vec::new(),
                jobs: Vec::new(),
                users: Vec::new(),
            });
        }
        self.board.nodes.push(NodeSeen {
            id: node.id,
            name: node.name.clone(),
            state,
            reason: reason.to_owned(),
            heard_unix_ms: self.unix_ms(node.contact.last),
            devices: first..index(self.board.devices.len()),
            sessions: 0,
        });
    }

    /// Adds some jobs. Returns the last of them.
    fn jobs(&mut self, cluster: &Cluster, after: Option<JobId>) -> Option<JobId> {
        let mut last = None;
        for job in cluster.scheduler().jobs(after).take(AT_ONCE) {
            last = Some(job.job);
            self.job(cluster, &job);
        }
        last
    }

    fn job(&mut self, cluster: &Cluster, job: &JobView) {
        let user = self.board.user(cut(&job.user, NAME_MAX));
        let active = cluster.last_use_by(job.job).unwrap_or(self.now);
        let is_suspended = cluster.scheduler().stage_of(job.job).is_some_and(SuspensionStage::is_without_devices);
        let held = job.devices.iter().filter(|_| !is_suspended);
        let devices = held.filter_map(|leased| self.places.get(&leased.device).copied());
        let is_exclusive = !job.devices.is_empty() && job.devices.iter().all(|leased| leased.exclusive);
        let seen = JobSeen {
            id: job.job,
            user,
            phase: job.phase,
            place: cluster.scheduler().waiting_place(job.job),
            is_exclusive,
            started_unix_ms: job.started.map(|at| self.unix_ms(Millis(at.0))),
            active_unix_ms: self.unix_ms(active),
            devices: devices.collect(),
            words: OnceLock::new(),
        };
        let counts = &mut self.board.users[user as usize];
        *(if seen.is_waiting() { &mut counts.waiting } else { &mut counts.running }) += 1;
        self.board.jobs.push(seen);
    }

    /// Orders the jobs as the queue does: running jobs by number, waiting jobs in their order, jobs on hold.
    fn order_jobs(&mut self, accounts: &AccountOrder) {
        self.board.jobs.sort_by_cached_key(|job| match (job.is_waiting(), &job.place) {
            (false, _) => (0, None, job.id),
            (true, Some(place)) => (1, Some(accounts.key(place)), job.id),
            (true, None) => (2, None, job.id),
        });
        for (at, job) in (0..).zip(&self.board.jobs) {
            self.jobs.insert(job.id, at);
            for device in &job.devices {
                let device = &mut self.board.devices[*device as usize];
                device.jobs.push(at);
                device.users.push(job.user);
                if device.condition == v1::DeviceCondition::Free {
                    device.condition = v1::DeviceCondition::Held;
                }
            }
        }
    }

    /// Adds some sessions. Returns where to continue.
    fn sessions(&mut self, cluster: &Cluster, from: SessionId) -> Option<SessionId> {
        let mut last = None;
        for session in cluster.sessions_from(from).take(AT_ONCE) {
            self.session(cluster, session);
            last = Some(session.id);
        }
        last.and_then(|last| last.0.checked_add(1)).map(SessionId)
    }

    fn session(&mut self, cluster: &Cluster, session: &Session) {
        let (number, user) = (index(self.board.sessions.len()), self.board.user(cut(&session.owner.user, NAME_MAX)));
        self.board.users[user as usize].sessions += 1;
        let mut nodes = Vec::new();
        for (device, used) in cluster.uses_now(self.now, session) {
            let Some(place) = self.places.get(&device) else { continue };
            let idle_since_unix_ms = self.unix_ms(used.idle_since);
            let device = &mut self.board.devices[*place as usize];
            device.activity.held = device.activity.held.saturating_add(used.held);
            device.activity.percent =
                device.activity.percent.zip(used.busy_percent).map(|(one, two)| (one + two).min(100));
            device.users.push(user);
            if device.condition == v1::DeviceCondition::Free {
                device.condition = v1::DeviceCondition::Used;
            }
            let (percent, held) = (used.busy_percent, used.held);
            device.uses.push(UseSeen { session: number, percent, held, idle_since_unix_ms });
            nodes.push(device.node);
        }
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes {
            self.board.nodes[node as usize].sessions += 1;
        }
        let program = cut(&session.program, NAME_MAX).to_owned();
        self.board.sessions.push(SessionSeen { user, job: cluster.job_of(session.id), program });
    }

    /// Finds idle devices and sums the use up by user.
    fn finish(self, before: Option<&Board>) -> Board {
        let mut board = self.board;
        for at in 0..board.devices.len() {
            board.devices[at].activity.idle_since_unix_ms = board.idle_since(&board.devices[at]);
            let device = &mut board.devices[at];
            device.take_load();
            device.users.sort_unstable();
            device.users.dedup();
            let device = &board.devices[at];
            for user in &device.users {
                let of_user = |used: &&UseSeen| board.sessions[used.session as usize].user == *user;
                let uses = || device.uses.iter().filter(of_user);
                let percent = uses().map(|used| used.percent).sum::<Option<u32>>();
                let seen = &mut board.users[*user as usize];
                seen.devices += 1;
                seen.held = uses().fold(seen.held, |sum, used| sum.saturating_add(used.held));
                seen.idle += u32::from(device.activity.idle_since_unix_ms.is_some());
                match percent {
                    Some(percent) => (seen.known, seen.percent) = (seen.known + 1, seen.percent + percent.min(100)),
                    None => seen.unknown += 1,
                }
            }
        }
        board.by_node_name = board.order_of_nodes(before);
        board
    }
}

impl Board {
    /// Returns since when a device has been idle that a single job holds.
    fn idle_since(&self, device: &DeviceSeen) -> Option<u64> {
        let [job] = device.jobs[..] else { return None };
        let job = &self.jobs[job as usize];
        if device.activity.percent != Some(0) || !job.is_exclusive || job.phase != Phase::Running {
            return None;
        }
        let last = device.uses.iter().map(|used| used.idle_since_unix_ms).max();
        // Without a session of the job, the device has been idle since the job's start.
        last.or(job.started_unix_ms).or(Some(job.active_unix_ms)).filter(|since| since + IDLE_AFTER_MS <= self.unix_ms)
    }

    /// Returns the nodes in the order of their names. The order of the previous board is reused if the nodes are the
    /// same.
    fn order_of_nodes(&self, before: Option<&Self>) -> Arc<Vec<u32>> {
        let ids = |board: &Self| board.nodes.iter().map(|node| node.id).collect::<Vec<_>>();
        if let Some(before) = before
            && ids(before) == ids(self)
        {
            return before.by_node_name.clone();
        }
        let mut order: Vec<u32> = (0..index(self.nodes.len())).collect();
        order.sort_by(|a, b| natural_order(&self.nodes[*a as usize].name, &self.nodes[*b as usize].name));
        Arc::new(order)
    }
}
