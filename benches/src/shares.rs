//! The shares of accounts of the device time of one half-life, beside the fluid model. Each account always has jobs
//! that wait, from before the first start on, so in the model each gets the part of its weight at every moment. In a
//! cluster of a few of the largest jobs a share is whole jobs, which no fluid model has: its figures have no bar.

use crate::report::Report;
use crate::scheduler::{Random, class};
use accord_scheduler::class::ClassFilter;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::Account;
use accord_scheduler::request::Part;
use accord_scheduler::{AccountId, Effect, Input, JobId, Millis, Policy, Request, Scheduler};
use accord_types::NodeId;
use std::collections::{BTreeMap, BTreeSet};

const WEIGHTS: [u32; 4] = [1, 2, 3, 6];
/// The nodes of the cluster, and of a small one in which a job may take an eighth of all devices.
const NODES: u32 = 64;
const NODES_SMALL: u32 = 8;
const DEVICES: u32 = 8;
/// Number of waiting jobs of each account, after the first ones.
const WAITING: usize = 8;
/// Devices of jobs, which are equally frequent.
const SIZES: [u32; 6] = [1, 1, 1, 2, 4, 8];
const MINUTE: u64 = 60_000;
const HALF_LIFE: Millis = Millis(24 * 60 * MINUTE);
/// Time limit of all jobs, which end before, in minutes.
const LIMIT: u64 = 240;
/// Largest difference between a share and that of the model, in percentage points.
const POINTS_MAX: f64 = 5.0;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench shares");
    let weights = f64::from(WEIGHTS.iter().sum::<u32>());
    for (weight, share) in WEIGHTS.into_iter().zip(shares(NODES)?) {
        let of_model = 100.0 * f64::from(weight) / weights;
        report.put(&format!("weight {weight}"), "%", vec![share]);
        let what = format!("weight {weight}: {share:.1} % beside {of_model:.1} % of the model");
        report.at_most(&what, (share - of_model).abs(), "points", POINTS_MAX);
    }
    for (weight, share) in WEIGHTS.into_iter().zip(shares(NODES_SMALL)?) {
        report.put(&format!("weight {weight}, {NODES_SMALL} nodes"), "%", vec![share]);
    }
    Ok(report)
}

/// Returns the percentages of device time that the accounts have of so many nodes after a half-life.
fn shares(nodes: u32) -> Result<Vec<f64>, String> {
    let mut site = Site::new(nodes);
    while site.now < HALF_LIFE {
        site.step();
    }
    let used = site.used()?;
    let all: f64 = used.iter().sum();
    Ok(used.into_iter().map(|used| 100.0 * used / all).collect())
}

struct Site {
    scheduler: Scheduler,
    random: Random,
    now: Millis,
    /// The account of each job and its duration, in milliseconds.
    jobs: BTreeMap<JobId, (usize, u64)>,
    waiting: [usize; WEIGHTS.len()],
    ends: BTreeSet<(Millis, JobId)>,
}

fn name(account: usize) -> String {
    format!("weight{}", WEIGHTS[account])
}

impl Site {
    /// Creates a cluster in which each account has more jobs waiting than there are devices, and none has started.
    fn new(nodes: u32) -> Self {
        let of = |account: usize| Account::plain(&name(account), Some(AccountId::SITE), WEIGHTS[account]);
        let accounts = [Account::plain("site", None, 1)].into_iter().chain((0..WEIGHTS.len()).map(of)).collect();
        let policy = Policy { accounts, half_life_ms: HALF_LIFE.0, ..Policy::default() };
        let mut site = Self {
            scheduler: Scheduler::new(policy),
            random: Random(12_345),
            now: Millis(0),
            jobs: BTreeMap::new(),
            waiting: [0; WEIGHTS.len()],
            ends: BTreeSet::new(),
        };
        for at in 0..nodes {
            let device = |ordinal| DeviceDescription { ordinal, class: class(0) };
            let node = NodeDescription {
                id: NodeId(at),
                name: format!("n{at}"),
                incarnation: 1,
                devices: (0..DEVICES).map(device).collect(),
                cores: 128_000,
                host_memory: 1 << 40,
                labels: BTreeMap::new(),
            };
            site.apply(Input::NodeJoined(node), None);
        }
        // The first account would take all devices.
        site.pause(true);
        site.fill((nodes * DEVICES) as usize);
        site.pause(false);
        site
    }

    fn pause(&mut self, paused: bool) {
        self.apply(Input::Pause { paused, by: "root".to_owned() }, None);
    }

    /// Has each account ask until so many of its jobs wait.
    fn fill(&mut self, waiting: usize) {
        for account in 0..WEIGHTS.len() {
            while self.waiting[account] < waiting {
                let devices = SIZES[self.random.below(SIZES.len() as u64) as usize];
                let lasts = MINUTE * (1 + self.random.below(LIMIT - 1));
                let part = Part::whole(devices, ClassFilter::ALL);
                let request = Request { limit_ms: Some(MINUTE * LIMIT), ..Request::of(part) };
                let (user, account_name) = ("u".to_owned(), name(account));
                let input = Input::Ask { user, account: account_name, origin: None, request };
                self.apply(input, Some((account, lasts)));
            }
        }
    }

    /// Fills the queues, and goes on to the next end of a job or timer.
    fn step(&mut self) {
        self.fill(WAITING);
        let end = self.ends.first().copied();
        let due = self.scheduler.next_deadline().unwrap_or(Millis::NEVER);
        match end.filter(|(at, _)| *at <= due) {
            Some((at, job)) => {
                self.ends.pop_first();
                self.now = at;
                self.apply(Input::Ended { job }, None);
            }
            None => {
                self.now = due.max(self.now);
                self.apply(Input::Tick, None);
            }
        }
    }

    /// Passes an input to the scheduler. Agents release devices at once.
    fn apply(&mut self, input: Input, mut asked: Option<(usize, u64)>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.scheduler.apply(self.now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Queued { job } => {
                        if let Some((account, lasts)) = asked.take() {
                            self.waiting[account] += 1;
                            self.jobs.insert(job, (account, lasts));
                        }
                    }
                    Effect::Started { job, .. } => {
                        if let Some(&(account, lasts)) = self.jobs.get(&job) {
                            self.waiting[account] -= 1;
                            self.ends.insert((self.now.plus(lasts), job));
                        }
                    }
                    Effect::Release { job, node } => inputs.push(Input::Released { job, node }),
                    _ => {}
                }
            }
        }
    }

    /// Returns the device time of each account.
    fn used(&self) -> Result<Vec<f64>, String> {
        let of = |account: usize| {
            let used = self.scheduler.usage(&name(account));
            used.map(|used| used.milli_ms as f64).ok_or_else(|| format!("no account {}", name(account)))
        };
        (0..WEIGHTS.len()).map(of).collect()
    }
}
