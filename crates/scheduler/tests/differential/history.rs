//! Random histories of a small cluster.

use crate::random::Random;
use accord_scheduler::amount::Amount;
use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::path_class::{PathClass, PathTimesByClass};
use accord_scheduler::policy::{Account, PreemptMode, Quota};
use accord_scheduler::request::{Alternative, Count, Locality, Part, Take};
use accord_scheduler::{
    AccountId, DrainTarget, Effect, Input, JobId, Members, Millis, Policy, Request, Reservation, ReservationId,
    ReservedDevices,
};
use accord_types::{DeviceId, DeviceType, NodeId};
use std::collections::{BTreeMap, BTreeSet};

impl Random {
    pub(crate) fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

const GIB: u64 = 1 << 30;
const USERS: [&str; 3] = ["eva", "tom", "uli"];
const RESERVATIONS: [&str; 2] = ["course", "service"];

/// A request of a user.
#[derive(Clone)]
struct Ask {
    user: String,
    account: String,
    origin: Option<NodeId>,
    request: Request,
    /// Whether another account may ask for the same.
    is_repeatable: bool,
}

/// A simulated driver, which plays users, agents and administrators.
pub(crate) struct History {
    pub(crate) random: Random,
    pub(crate) now: Millis,
    classes: Vec<DeviceClass>,
    nodes: Vec<NodeDescription>,
    up: BTreeSet<u32>,
    accounts: Vec<String>,
    /// Accounts that requested devices while they had no children. They never get any, because jobs are of accounts
    /// without children.
    askers: BTreeSet<String>,
    waiting: BTreeSet<JobId>,
    running: BTreeSet<JobId>,
    /// Confirmations that agents have yet to send.
    releasing: BTreeSet<(JobId, NodeId)>,
    /// Orders to suspend jobs, or to resume them, that agents have not answered.
    orders: Vec<(JobId, NodeId, bool)>,
    /// The requests of jobs, and the last one.
    asks: BTreeMap<JobId, Ask>,
    asked: Option<Ask>,
    reservations: u64,
    dense: bool,
}

impl History {
    /// Creates a history of at least `nodes.0` nodes, and at most `nodes.1`. In a `dense` one all nodes join first, and only accounts that may have
    /// jobs request devices.
    pub(crate) fn new(seed: u64, nodes: (u32, u32), dense: bool) -> (Self, Policy) {
        let mut random = Random::new(seed);
        let class = |model: &str, memory: u64, kind| DeviceClass {
            kind,
            model: model.to_owned(),
            memory: memory * GIB,
            context: if kind == DeviceType::Cpu { 0 } else { 2 * GIB },
            compute: (8, 0),
        };
        let classes = vec![
            class("a", 16, DeviceType::Nvidia),
            class("b", 80, DeviceType::Nvidia),
            class("cpu", 64, DeviceType::Cpu),
        ];
        let policy = policy(&mut random);
        let mut history = Self {
            random,
            now: Millis(0),
            classes,
            nodes: Vec::new(),
            up: BTreeSet::new(),
            accounts: policy.accounts.iter().map(|account| account.name.clone()).collect(),
            askers: BTreeSet::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            releasing: BTreeSet::new(),
            orders: Vec::new(),
            asks: BTreeMap::new(),
            asked: None,
            reservations: 0,
            dense,
        };
        for at in 0..nodes.0 + history.random.below(u64::from(nodes.1 - nodes.0 + 1)) as u32 {
            let node = history.node(at);
            history.nodes.push(node);
        }
        (history, policy)
    }

    fn node(&mut self, at: u32) -> NodeDescription {
        let mut devices = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let class = self.random.pick(&self.classes);
            for _ in 0..1 + self.random.below(4) {
                devices.push(DeviceDescription { ordinal: devices.len() as u32, class: class.clone() });
            }
        }
        let mut labels = BTreeMap::new();
        let rack = self.random.below(4);
        labels.insert("rack".to_owned(), format!("r{rack}"));
        if !self.random.one_in(4) {
            labels.insert("switch".to_owned(), format!("s{}", rack / 2));
        }
        NodeDescription {
            id: NodeId(at),
            name: format!("n{at}"),
            incarnation: 1,
            devices,
            cores: 8_000,
            host_memory: self.random.pick(&[64, 96, 256, 1_024]) * GIB,
            labels,
        }
    }

    /// Notes the scheduler's effects.
    pub(crate) fn take_note(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Queued { job } => {
                    self.waiting.insert(*job);
                    self.asks.extend(self.asked.clone().map(|asked| (*job, asked)));
                }
                Effect::Suspend { job, node } => self.orders.push((*job, *node, true)),
                Effect::Resume { job, node } => self.orders.push((*job, *node, false)),
                Effect::Started { job, .. } => {
                    self.waiting.remove(job);
                    self.running.insert(*job);
                }
                Effect::Ended { job, .. } => {
                    self.waiting.remove(job);
                    self.running.remove(job);
                }
                Effect::Release { job, node } => {
                    self.releasing.insert((*job, *node));
                }
                _ => {}
            }
        }
    }

    /// Returns the next input and its time.
    pub(crate) fn next(&mut self) -> (Millis, Input) {
        let step = match self.random.below(8) {
            0..3 => 0,
            3..6 => self.random.below(3_000),
            6 => self.random.below(20_000),
            _ => self.random.below(90_000),
        };
        self.now = self.now.plus(step);
        (self.now, self.input())
    }

    fn input(&mut self) -> Input {
        let are_new =
            self.dense && self.nodes.iter().any(|node| node.incarnation == 1 && !self.up.contains(&node.id.0));
        if are_new || self.up.len() < self.nodes.len() && self.random.one_in(3) {
            return self.join();
        }
        if !self.orders.is_empty() && self.random.one_in(3) {
            return self.answer();
        }
        let by = "root".to_owned();
        match self.random.below(106) {
            0..40 => self.ask(),
            40..62 => match self.some_release() {
                Some((job, node)) => Input::Released { job, node },
                None => self.ask(),
            },
            62..76 => match some(&mut self.random, &self.running) {
                Some(job) if self.random.one_in(10) => Input::Abandoned { job, seen: None },
                Some(job) => Input::Ended { job },
                None => Input::Tick,
            },
            77..79 => match some(&mut self.random, &self.waiting) {
                Some(job) => Input::Cancel { job, by },
                None => Input::Tick,
            },
            79 => match some(&mut self.random, &self.running) {
                Some(job) => Input::Cancel { job, by },
                None => Input::Tick,
            },
            80 => self.down(),
            81 => self.join_again(),
            82 | 83 => self.drain(),
            84 => match self.some_device() {
                Some(device) if self.random.one_in(2) => {
                    let by = self.random.one_in(4).then_some(by);
                    Input::Quarantine {
                        device,
                        reason: "ECC".to_owned(),
                        by,
                        charged: self.random.one_in(2),
                        uuid: String::new(),
                    }
                }
                Some(device) => Input::Unquarantine { device, by },
                None => Input::Tick,
            },
            76 | 85 | 86 => self.reserve(),
            87 => {
                let mut policy = policy(&mut self.random);
                if self.random.one_in(2) && policy.accounts.len() > 3 {
                    policy.accounts.pop();
                }
                self.accounts = policy.accounts.iter().map(|account| account.name.clone()).collect();
                Input::PolicyApplied { policy: Box::new(policy), by }
            }
            88..90 => match some(&mut self.random, &self.waiting) {
                Some(job) => Input::Hold { job, held: self.random.one_in(2) },
                None => Input::Tick,
            },
            90 => match some(&mut self.random, &self.waiting) {
                Some(job) => Input::ToFront { job, by },
                None => Input::Tick,
            },
            91 => {
                let jobs = self.waiting.union(&self.running).copied().collect();
                match some(&mut self.random, &jobs) {
                    Some(job) => Input::SetLimit { job, limit_ms: 1_000 + self.random.below(60_000), by },
                    None => Input::Tick,
                }
            }
            92..94 => match some(&mut self.random, &self.waiting) {
                Some(job) => Input::Connected { job, connected: self.random.one_in(2) },
                None => Input::Tick,
            },
            94 => Input::Pause { paused: self.random.one_in(3), by },
            95 => Input::MonthBegan,
            96 => self.another_user(),
            97 => match self.some_device() {
                Some(device) => {
                    let account = self.random.pick(&self.accounts);
                    Input::Used { account, device, milli_ms: self.random.below(10_000_000) }
                }
                None => Input::Tick,
            },
            98 => match some(&mut self.random, &self.running) {
                Some(job) => Input::Idle { job },
                None => Input::Tick,
            },
            99 => {
                let mut times = PathTimesByClass::default();
                for class in PathClass::ALL {
                    let ns = 50_000 + self.random.below(200_000);
                    times.set(class, (!self.random.one_in(3)).then_some(ns));
                }
                Input::PathTimes(times)
            }
            100..103 => match some(&mut self.random, &self.running) {
                Some(job) => Input::Suspend { job, by: self.owner_or_root(job), reason: String::new() },
                None => Input::Tick,
            },
            103..106 => match some(&mut self.random, &self.running) {
                Some(job) => Input::Resume { job, by: self.owner_or_root(job) },
                None => Input::Tick,
            },
            _ => Input::Tick,
        }
    }

    fn owner_or_root(&mut self, job: JobId) -> String {
        let owner = self.asks.get(&job).filter(|_| self.random.one_in(2));
        owner.map_or_else(|| "root".to_owned(), |asked| asked.user.clone())
    }

    /// Returns an agent's answer to an order, which may be an old one.
    fn answer(&mut self) -> Input {
        let at = if self.random.one_in(4) { self.random.below(self.orders.len() as u64) as usize } else { 0 };
        let (job, node, suspend) = self.orders.remove(at);
        let outcome = if self.random.one_in(6) { Err("no memory".to_owned()) } else { Ok(()) };
        match suspend {
            true => Input::Suspended { job, node, outcome },
            false => Input::Resumed { job, node, outcome },
        }
    }

    /// Returns a request by a user of a group, for the first time or again.
    fn another_user(&mut self) -> Input {
        let group = format!("site/g{}", self.random.below(2));
        let name = format!("{group}/n{}", self.random.below(3));
        if self.askers.contains(&group) {
            return Input::Tick;
        }
        let at = self.accounts.iter().position(|known| *known == group).unwrap_or(0);
        let mut account = Account::plain(&name, Some(AccountId(at as u32)), 1 + self.random.below(3) as u32);
        account.priorities = (-1, 2);
        if self.random.one_in(3) {
            account.most.push(Quota { class: ClassFilter::ALL, devices: 2 });
        }
        if self.random.one_in(6) {
            account.hours_a_month = Some(1);
        }
        if !self.accounts.contains(&name) {
            self.accounts.push(name);
        }
        Input::AccountAdded(Box::new(account))
    }

    fn some_release(&mut self) -> Option<(JobId, NodeId)> {
        let at = self.random.below(self.releasing.len() as u64) as usize;
        let owed = self.releasing.iter().nth(at).copied()?;
        self.releasing.remove(&owed);
        // A lost agent confirms nothing.
        self.up.contains(&owed.1.0).then_some(owed)
    }

    fn some_device(&mut self) -> Option<DeviceId> {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let node = &self.nodes[at];
        let ordinal = self.random.below(node.devices.len() as u64) as u32;
        Some(DeviceId { node: node.id, ordinal })
    }

    fn join(&mut self) -> Input {
        let down: Vec<usize> = (0..self.nodes.len()).filter(|&at| !self.up.contains(&(at as u32))).collect();
        let at = self.random.pick(&down);
        if self.random.one_in(2) {
            self.nodes[at].incarnation += 1;
        }
        self.up.insert(at as u32);
        Input::NodeJoined(self.nodes[at].clone())
    }

    /// Returns a new description of a node that is up: a new incarnation, or other devices, cores or labels.
    fn join_again(&mut self) -> Input {
        let Some(&at) = self.up.iter().next_back() else { return Input::Tick };
        let node = &mut self.nodes[at as usize];
        match self.random.below(3) {
            0 => node.incarnation += 1,
            1 => node.cores = 2_000 + self.random.below(4) * 2_000,
            _ => {
                let mut fewer = node.clone();
                let at = self.random.below(fewer.devices.len() as u64) as usize;
                if fewer.devices.len() > 1 {
                    fewer.devices.remove(at);
                }
                return Input::NodeJoined(fewer);
            }
        }
        Input::NodeJoined(node.clone())
    }

    fn down(&mut self) -> Input {
        let nodes: Vec<u32> = self.up.iter().copied().collect();
        if nodes.is_empty() {
            return Input::Tick;
        }
        let node = self.random.pick(&nodes);
        self.up.remove(&node);
        if self.random.one_in(3) { Input::NodeLeft(NodeId(node)) } else { Input::NodeLost(NodeId(node)) }
    }

    fn drain(&mut self) -> Input {
        let Some(device) = self.some_device() else { return Input::Tick };
        let target = if self.random.one_in(2) { DrainTarget::Node(device.node) } else { DrainTarget::Device(device) };
        if self.random.one_in(2) {
            return Input::Undrain { target, by: "root".to_owned() };
        }
        Input::Drain {
            target,
            by_time: self.now.plus(self.random.below(60_000)),
            end: self.random.one_in(2),
            reason: "service".to_owned(),
            by: "root".to_owned(),
        }
    }

    fn reserve(&mut self) -> Input {
        if self.random.one_in(3) {
            return Input::Unreserve(ReservationId(self.random.below(self.reservations.max(1))));
        }
        let by = |device: DeviceId, whole: bool| {
            if whole { DrainTarget::Node(device.node) } else { DrainTarget::Device(device) }
        };
        let mut devices = BTreeSet::new();
        for _ in 0..1 + self.random.below(4) {
            let whole = self.random.one_in(6);
            devices.extend(self.some_device().map(|device| by(device, whole)));
        }
        let devices = match self.random.one_in(16) {
            true => ReservedDevices::All,
            false => ReservedDevices::Listed(devices.into_iter().collect()),
        };
        let starts = self.now.plus(self.random.below(60_000));
        let id = ReservationId(if self.random.one_in(4) { 0 } else { self.reservations });
        self.reservations += 1;
        let reservation = Reservation {
            id,
            name: self.random.pick(&RESERVATIONS).to_owned(),
            devices,
            starts,
            ends: starts.plus(self.random.below(40_000)),
            created: self.random.below(3),
            members: Members {
                accounts: if self.random.one_in(2) { vec![self.random.pick(&self.accounts)] } else { Vec::new() },
                users: if self.random.one_in(4) { vec![self.random.pick(&USERS).to_owned()] } else { Vec::new() },
            },
            end_jobs: self.random.one_in(3),
        };
        Input::Reserve(Box::new(reservation))
    }

    /// Returns a new request, or that of a running job by another account with the highest priority. Each is repeated once: equal requests of one
    /// account wait for each other, which the naive scheduler does not know.
    fn ask(&mut self) -> Input {
        let mut asked = self.new_ask();
        let again = some(&mut self.random, &self.running).filter(|_| self.random.one_in(4));
        let again = again.and_then(|job| self.asks.get_mut(&job));
        if let Some(again) = again.filter(|again| again.is_repeatable && again.account != asked.account) {
            again.is_repeatable = false;
            asked = Ask { origin: again.origin, request: again.request.clone(), is_repeatable: false, ..asked };
            (asked.request.priority, asked.request.reservation) = (2, None);
            asked.request.alternatives.truncate(1);
        }
        self.asked = Some(asked.clone());
        let Ask { user, account, origin, request, .. } = asked;
        Input::Ask { user, account, origin, request }
    }

    fn new_ask(&mut self) -> Ask {
        let has_others_below =
            |account: &String| self.accounts.iter().any(|known| known.starts_with(&format!("{account}/")));
        let leaves = self.accounts.iter().filter(|account| !self.dense || !has_others_below(account));
        let account = self.random.pick(&leaves.cloned().collect::<Vec<_>>());
        if !has_others_below(&account) {
            self.askers.insert(account.clone());
        }
        let origin = (!self.random.one_in(3)).then(|| NodeId(self.random.below(self.nodes.len() as u64) as u32));
        let user = self.random.pick(&USERS).to_owned();
        Ask { user, account, origin, request: self.request(), is_repeatable: true }
    }

    fn request(&mut self) -> Request {
        let mut request = Request::of(self.part());
        for _ in 0..self.random.below(3) {
            if self.random.one_in(3) {
                let part = self.part();
                request.alternatives[0].parts.push(part);
            }
            if self.random.one_in(3) {
                request.alternatives.push(Alternative { parts: vec![self.part()] });
            }
        }
        request.locality = match self.random.below(12) {
            0 => Locality::Local,
            1 => Locality::Spread,
            2 | 3 => Locality::Near,
            4 => Locality::Pack,
            _ => Locality::OwnFirst,
        };
        if request.locality != Locality::Local && self.random.one_in(4) {
            let nodes = 1 + self.random.below(3) as u32;
            for part in request.alternatives.iter_mut().flat_map(|alternative| &mut alternative.parts) {
                part.count.least *= nodes;
                part.count.most *= nodes;
            }
            request.nodes = Some(nodes);
        } else if request.locality != Locality::Local && self.random.one_in(4) {
            request.ranks = 1 + self.random.below(4) as u32;
            request.per_rank = true;
            for part in request.alternatives.iter_mut().flat_map(|alternative| &mut alternative.parts) {
                part.count.most = part.count.least;
            }
        }
        if self.random.one_in(8) {
            request.labels.push(("rack".to_owned(), "r1".to_owned()));
        }
        if self.random.one_in(10) {
            request.avoid_nodes.push("n0".to_owned());
        }
        if self.random.one_in(16) {
            request.only_nodes.extend(["n1".to_owned(), "n2".to_owned()]);
        }
        if self.random.one_in(8) {
            request.reservation = Some(self.random.pick(&RESERVATIONS).to_owned());
        }
        request.limit_ms = (!self.random.one_in(4)).then(|| 1_000 + 5_000 * self.random.below(12));
        request.wait_ms = self.random.one_in(6).then(|| self.random.below(60_000));
        request.priority = self.random.below(4) as i32 - 1;
        request
    }

    fn part(&mut self) -> Part {
        let class = match self.random.below(6) {
            0 => ClassFilter::ALL,
            1 => ClassFilter { kind: DeviceType::Cpu, ..ClassFilter::ALL },
            2 => ClassFilter { memory_at_least: 20 * GIB, ..ClassFilter::ALL },
            3 => ClassFilter { kind: DeviceType::Nvidia, model: Some("b".to_owned()), ..ClassFilter::ALL },
            _ => ClassFilter { kind: DeviceType::Nvidia, ..ClassFilter::ALL },
        };
        let large = if self.random.one_in(4) { 8 } else { 3 };
        let least = 1 + self.random.below(large) as u32;
        let most = if self.random.one_in(5) { least + self.random.below(4) as u32 } else { least };
        let take = match self.random.below(8) {
            0 | 1 => Take::Shared(Amount { milli: 250, memory: 4 * GIB }),
            2 => Take::Shared(Amount { milli: 0, memory: 6 * GIB }),
            3 => Take::Shared(Amount { milli: 600, memory: 0 }),
            _ => Take::Exclusive,
        };
        let (cores, host_memory) = match self.random.below(8) {
            0 => (1_500, 10 * GIB),
            1 => (3_500, 0),
            2 => (5_000, 40 * GIB),
            _ => (0, 0),
        };
        Part { count: Count { least, most }, class, take, cores, host_memory }
    }
}

fn some(random: &mut Random, of: &BTreeSet<JobId>) -> Option<JobId> {
    of.iter().nth(random.below(of.len() as u64) as usize).copied()
}

/// Returns a policy with a site, two groups and their users. Its periods are so short that all timers expire.
fn policy(random: &mut Random) -> Policy {
    let quota = |random: &mut Random, least: u64| Quota {
        class: match random.below(3) {
            0 => ClassFilter { model: Some("a".to_owned()), ..ClassFilter::ALL },
            1 => ClassFilter { kind: DeviceType::Nvidia, ..ClassFilter::ALL },
            _ => ClassFilter::ALL,
        },
        devices: (least + random.below(6)) as u32,
    };
    let mut accounts = vec![Account::plain("site", None, 1)];
    for group in 0..2 {
        let at = AccountId(accounts.len() as u32);
        accounts.push(Account::plain(&format!("site/g{group}"), Some(AccountId::SITE), 1 + random.below(3) as u32));
        for user in 0..1 + random.below(3) {
            let name = format!("site/g{group}/u{user}");
            accounts.push(Account::plain(&name, Some(at), 1 + random.below(3) as u32));
        }
    }
    for account in &mut accounts {
        account.priorities = (-1, 2);
        if random.one_in(4) {
            account.guaranteed.push(quota(random, 1));
        }
        if random.one_in(5) {
            account.most.push(quota(random, 2));
        }
        if random.one_in(8) {
            account.running_max = Some(1 + random.below(3) as u32);
        }
        if random.one_in(8) {
            account.waiting_max = Some(3 + random.below(5) as u32);
        }
        if random.one_in(8) {
            account.hours_a_month = Some(1 + random.below(3));
        }
        if random.one_in(12) {
            account.longest_ms = Some(30_000);
        }
        if random.one_in(12) {
            account.labels.push(("rack".to_owned(), "r0".to_owned()));
        }
    }
    Policy {
        accounts,
        half_life_ms: 120_000,
        ageing_ms: 30_000,
        quantum_ms: 10_000 + 5_000 * random.below(4),
        grace_ms: 2_000,
        preempt_mode: if random.one_in(4) { PreemptMode::Off } else { PreemptMode::Suspend },
        preempt_exempt_ms: random.pick(&[0, 0, 0, 5_000, 40_000]),
        default_limit_ms: random.one_in(2).then_some(15_000),
        longest_wait_ms: random.one_in(4).then_some(200_000),
        keep_ms: 10_000,
        backfill_depth: random.below(6) as usize,
        sharers_max: 1 + random.below(4) as u32,
        // So that some minutes spend an hour.
        billing: vec![(ClassFilter { kind: DeviceType::Cpu, ..ClassFilter::ALL }, 50_000), (ClassFilter::ALL, 100_000)],
    }
}
