//! The time of a decision, from an event to its effects, with 80,000 devices, 98 % of them busy, and 1,000 waiting
//! jobs.
//!
//! The mix is fixed: 10,000 nodes of 8 devices in 5 classes; 200 accounts on 3 levels; 100 shapes with ranges, alternatives, shares and
//! gangs of 1 to 512 nodes; 64 reservations. Jobs end at random times before their limits. An event is a request, the end of a job's
//! command, or the release of its devices on one node.

use crate::report::Report;
use accord_scheduler::amount::Amount;
use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::{Account, Quota};
use accord_scheduler::request::{Alternative, Count, Part, Take};
use accord_scheduler::{
    AccountId, DrainTarget, Effect, Input, JobId, Members, Millis, Policy, Request, Reservation, ReservationId,
    ReservedDevices, Scheduler,
};
use accord_types::{DeviceId, DeviceType, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

const NODES: u32 = 10_000;
const DEVICES: u32 = 8;
const WAITING: usize = 1_000;
const SHAPES: u64 = 100;
const EVENTS: usize = 20_000;
const SINGLE: usize = 20_000;

/// Busy share of all devices, in thousandths.
const BUSY: u64 = 980;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench scheduler");
    let mut site = Site::new();
    site.fill();
    let busy = site.busy_milli();
    site.run(EVENTS / 10);
    let mut samples = site.run(EVENTS);
    let jobs = (site.running.len(), site.waiting.len());
    for (event, times) in &samples {
        report.put(&format!("{event}_busy"), "us", times.clone());
    }
    let mut all: Vec<f64> = samples.remove("all").unwrap_or_default();
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
    println!(
        "{busy} of 1000 busy, {} running, {} waiting; {} starts; p90 {:.1} us, p99.9 {:.1} us, worst {:.0} us",
        jobs.0,
        jobs.1,
        site.starts,
        at(0.9),
        at(0.999),
        at(1.0),
    );
    report.at_most("80,000 devices, 98 % busy, 1,000 waiting: an event, median", at(0.5), "us", 60.0);
    report.at_most("the same, 99th of 100", at(0.99), "us", 100.0);
    let single = single();
    report.put("one_free_device", "us", single);
    let median = report.median("one_free_device")?;
    report.at_most("one free device, no queue: a request", median, "us", 1.0);
    Ok(report)
}

/// A pseudo-random number generator (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % end
    }
}

/// Returns one of the mix's five classes.
pub(crate) fn class(at: u32) -> DeviceClass {
    let (model, memory) = [("h200", 141), ("h100", 80), ("a100", 40), ("l40s", 48), ("t4", 16)][at as usize];
    DeviceClass { kind: DeviceType::Nvidia, model: model.to_owned(), memory: memory << 30, context: 0, compute: (8, 0) }
}

fn node(at: u32) -> NodeDescription {
    let class = class(at % 5);
    let device = |ordinal| DeviceDescription { ordinal, class: class.clone() };
    NodeDescription {
        id: NodeId(at),
        name: format!("n{at}"),
        incarnation: 1,
        devices: (0..DEVICES).map(device).collect(),
        cores: 128_000,
        host_memory: 1 << 40,
        labels: BTreeMap::from([("rack".to_owned(), format!("r{}", at / 32))]),
    }
}

fn policy() -> Policy {
    let mut accounts = vec![Account::plain("site", None, 1)];
    for group in 0..19 {
        let at = AccountId(accounts.len() as u32);
        let mut of = Account::plain(&format!("g{group}"), Some(AccountId::SITE), 1 + group % 4);
        if group % 5 == 0 {
            of.guaranteed.push(Quota { class: ClassFilter::ALL, devices: 400 });
        }
        accounts.push(of);
        for user in 0..if group == 0 { 8 } else { 10 } {
            let mut account = Account::plain(&format!("g{group}/u{user}"), Some(at), 1 + user % 3);
            account.most.push(Quota { class: ClassFilter::ALL, devices: 8_000 });
            account.priorities = (0, 2);
            accounts.push(account);
        }
    }
    Policy { accounts, ..Policy::default() }
}

/// Draws a shape. Small shapes are drawn more often, so that large ones don't dominate.
pub(crate) fn shape(random: &mut Random) -> u64 {
    let shape = match random.below(100) {
        0..55 => random.below(40),
        55..75 => 40 + random.below(20),
        75..85 => 60 + random.below(10),
        85..92 => 70 + random.below(10),
        92..96 => 80 + random.below(8),
        _ => 88 + random.below(12).min(random.below(12)),
    };
    shape % SHAPES
}

/// Returns one of the fixed shapes.
pub(crate) fn request(shape: u64) -> Request {
    let mut random = Random(shape * 7_919 + 17);
    let filter = |at: u64| match at % 6 {
        5 => ClassFilter { kind: DeviceType::Nvidia, ..ClassFilter::ALL },
        of => ClassFilter { model: Some(class(of as u32).model), ..ClassFilter::ALL },
    };
    let part = |count: u32, of: u64| Part::whole(count, filter(of));
    let mut request = match shape {
        0..40 => Request::of(part(1 + (shape % 4) as u32, shape)),
        40..60 => Request::of(part(DEVICES, shape)),
        60..70 => {
            let amount = Amount { milli: 100 * (1 + shape as u32 % 5), memory: 4 << 30 };
            Request::of(Part { take: Take::Shared(amount), ..part(1, shape) })
        }
        70..80 => Request::of(Part { count: Count { least: 2, most: 4 + shape as u32 % 5 }, ..part(2, shape) }),
        80..88 => {
            let mut request = Request::of(part(8, shape));
            request.alternatives.push(Alternative { parts: vec![part(16, shape + 1)] });
            request
        }
        _ => {
            let nodes = [2, 2, 4, 4, 8, 8, 16, 32, 64, 128, 256, 512][(shape - 88) as usize];
            let mut request = Request::of(part(nodes * DEVICES, shape % 5));
            request.nodes = Some(nodes);
            request
        }
    };
    request.limit_ms = Some(600_000 * (1 + random.below(144)));
    request
}

struct Site {
    scheduler: Scheduler,
    random: Random,
    now: Millis,
    running: Vec<JobId>,
    at: BTreeMap<JobId, usize>,
    waiting: BTreeSet<JobId>,
    releasing: Vec<(JobId, NodeId)>,
    devices: BTreeMap<JobId, u64>,
    starts: usize,
    effects: Vec<Effect>,
    accounts: Vec<String>,
}

impl Site {
    fn new() -> Self {
        let policy = policy();
        let inner: BTreeSet<AccountId> = policy.accounts.iter().filter_map(|account| account.parent).collect();
        let leaf = |at: usize| !inner.contains(&AccountId(at as u32));
        let leaves = policy.accounts.iter().enumerate().filter(|(at, _)| leaf(*at));
        let accounts = leaves.map(|(_, account)| account.name.clone()).collect();
        let mut site = Self {
            scheduler: Scheduler::new(policy),
            random: Random(12_345),
            now: Millis(1_000),
            running: Vec::new(),
            at: BTreeMap::new(),
            waiting: BTreeSet::new(),
            releasing: Vec::new(),
            devices: BTreeMap::new(),
            starts: 0,
            effects: Vec::new(),
            accounts,
        };
        for at in 0..NODES {
            site.apply(Input::NodeJoined(node(at)));
        }
        for at in 0..64 {
            let starts = Millis(3_600_000 * (24 + at));
            let first = (at as u32 * 131) % NODES;
            let devices = (first..first + 4).flat_map(|node| (0..DEVICES).map(move |ordinal| (node % NODES, ordinal)));
            let reservation = Reservation {
                id: ReservationId(at),
                name: format!("service {at}"),
                devices: ReservedDevices::Listed(
                    devices
                        .map(|(node, ordinal)| DrainTarget::Device(DeviceId { node: NodeId(node), ordinal }))
                        .collect(),
                ),
                starts,
                ends: starts.plus(7_200_000),
                created: at,
                members: Members::default(),
                end_jobs: false,
            };
            site.apply(Input::Reserve(Box::new(reservation)));
        }
        site
    }

    fn ask(&mut self) -> Input {
        let shape = shape(&mut self.random);
        let account = self.accounts[self.random.below(self.accounts.len() as u64) as usize].clone();
        let origin = (self.random.below(2) == 0).then(|| NodeId(self.random.below(u64::from(NODES)) as u32));
        let mut request = request(shape);
        request.priority = self.random.below(3) as i32;
        Input::Ask { user: "u".to_owned(), account, origin, request }
    }

    fn apply(&mut self, input: Input) -> f64 {
        self.effects.clear();
        let began = Instant::now();
        self.scheduler.apply(self.now, input, &mut self.effects);
        let took = began.elapsed().as_nanos() as f64 / 1_000.0;
        for effect in &self.effects {
            match effect {
                Effect::Queued { job } => {
                    self.waiting.insert(*job);
                }
                Effect::Started { job, devices, .. } => {
                    self.starts += 1;
                    self.waiting.remove(job);
                    self.at.insert(*job, self.running.len());
                    self.running.push(*job);
                    self.devices.insert(*job, devices.iter().map(|of| u64::from(of.amount.milli)).sum());
                }
                Effect::Ended { job, .. } => {
                    self.devices.remove(job);
                    if let Some(at) = self.at.remove(job) {
                        self.running.swap_remove(at);
                        if let Some(moved) = self.running.get(at) {
                            self.at.insert(*moved, at);
                        }
                    }
                }
                Effect::Release { job, node } => self.releasing.push((*job, *node)),
                _ => {}
            }
        }
        took
    }

    fn busy_milli(&self) -> u64 {
        self.devices.values().sum::<u64>() / u64::from(NODES * DEVICES)
    }

    /// Issues requests until the devices are busy and the queue is full.
    fn fill(&mut self) {
        while self.busy_milli() < BUSY || self.waiting.len() < WAITING {
            self.now = self.now.plus(1);
            let input = self.ask();
            if self.waiting.len() >= WAITING
                && let Some(&job) = self.waiting.first()
            {
                self.apply(Input::Cancel { job, by: "u".to_owned() });
                self.waiting.remove(&job);
            }
            self.apply(input);
        }
    }

    /// Issues events, and returns their times in microseconds.
    fn run(&mut self, events: usize) -> BTreeMap<&'static str, Vec<f64>> {
        let mut samples: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
        for _ in 0..events {
            self.now = self.now.plus(self.random.below(50));
            let (event, input) = if self.waiting.len() < WAITING {
                ("ask", self.ask())
            } else if !self.releasing.is_empty() {
                let at = self.random.below(self.releasing.len() as u64) as usize;
                let (job, node) = self.releasing.swap_remove(at);
                ("release", Input::Released { job, node })
            } else {
                let at = self.random.below(self.running.len() as u64) as usize;
                ("end", Input::Ended { job: self.running[at] })
            };
            let before = self.starts;
            let took = self.apply(input);
            samples.entry("all").or_default().push(took);
            samples.entry(event).or_default().push(took);
            if self.starts > before {
                samples.entry("start").or_default().push(took);
            }
        }
        samples
    }
}

/// Measures requests for one device while there are free ones and no waiting jobs.
fn single() -> Vec<f64> {
    let mut site = Site::new();
    let request = request(1);
    let request = Request {
        alternatives: vec![Alternative { parts: vec![Part::whole(1, request.alternatives[0].parts[0].class.clone())] }],
        ..request
    };
    let mut samples = Vec::with_capacity(SINGLE);
    for at in 0..SINGLE {
        site.now = site.now.plus(1);
        let account = site.accounts[at % site.accounts.len()].clone();
        let origin = Some(NodeId(at as u32 % NODES));
        let input = Input::Ask { user: "u".to_owned(), account, origin, request: request.clone() };
        samples.push(site.apply(input));
        if let Some(&job) = site.running.first() {
            site.apply(Input::Ended { job });
            while let Some((job, node)) = site.releasing.pop() {
                site.apply(Input::Released { job, node });
            }
        }
    }
    samples
}
