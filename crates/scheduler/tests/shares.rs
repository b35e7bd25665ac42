//! Accounts whose jobs always wait share the device time by their weights, although their jobs differ in size and most have a reserved start.
#![forbid(unsafe_code)]

mod random;

use accord_scheduler::class::{ClassFilter, DeviceClass};
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::Account;
use accord_scheduler::request::Part;
use accord_scheduler::{AccountId, Effect, Input, JobId, Millis, Policy, Request, Scheduler};
use accord_types::{DeviceType, NodeId};
use random::Random;
use std::collections::{BTreeMap, BTreeSet};

const WEIGHTS: [u32; 3] = [1, 3, 6];
const NODES: u32 = 64;
const DEVICES: u32 = 8;
/// Devices of jobs, which are equally frequent.
const SIZES: [u32; 6] = [1, 1, 1, 2, 4, 8];
/// Number of waiting jobs of each account, after the first ones.
const WAITING: usize = 12;
const MINUTE: u64 = 60_000;
const DAY: Millis = Millis(24 * 60 * MINUTE);
/// Time limit of all jobs, in minutes. They end before.
const LIMIT: u64 = 240;
/// Largest difference between a share and that of the weights, in thousandths.
const DIFFERENCE_MAX: u128 = 40;

struct Site {
    scheduler: Scheduler,
    random: Random,
    now: Millis,
    waiting: [usize; WEIGHTS.len()],
    accounts: BTreeMap<JobId, usize>,
    ends: BTreeSet<(Millis, JobId)>,
}

fn name(account: usize) -> String {
    format!("weight{}", WEIGHTS[account])
}

impl Site {
    fn new(seed: u64) -> Self {
        let of = |account: usize| Account::plain(&name(account), Some(AccountId::SITE), WEIGHTS[account]);
        let accounts = [Account::plain("site", None, 1)].into_iter().chain((0..WEIGHTS.len()).map(of)).collect();
        let scheduler = Scheduler::new(Policy { accounts, half_life_ms: DAY.0, ..Policy::default() });
        let (waiting, accounts, ends) = ([0; WEIGHTS.len()], BTreeMap::new(), BTreeSet::new());
        let mut site = Self { scheduler, random: Random::new(seed), now: Millis(0), waiting, accounts, ends };
        let kind = DeviceType::Nvidia;
        let class = DeviceClass { kind, model: "h200".to_owned(), memory: 1 << 37, context: 0, compute: (9, 0) };
        for at in 0..NODES {
            let device = |ordinal| DeviceDescription { ordinal, class: class.clone() };
            site.apply(Input::NodeJoined(NodeDescription {
                id: NodeId(at),
                name: format!("n{at}"),
                incarnation: 1,
                devices: (0..DEVICES).map(device).collect(),
                cores: 128_000,
                host_memory: 1 << 40,
                labels: BTreeMap::new(),
            }));
        }
        site
    }

    /// Applies an input. Agents release devices at once.
    fn apply(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.scheduler.apply(self.now, input, &mut effects);
            for effect in effects {
                match effect {
                    Effect::Started { job, .. } => {
                        self.waiting[self.accounts[&job]] -= 1;
                        let lasts = MINUTE * (1 + self.random.below(LIMIT - 1));
                        self.ends.insert((self.now.plus(lasts), job));
                    }
                    Effect::Release { job, node } => inputs.push(Input::Released { job, node }),
                    _ => {}
                }
            }
        }
    }

    /// Has each account ask until so many of its jobs wait.
    fn fill(&mut self, waiting: usize) {
        for account in 0..WEIGHTS.len() {
            while self.waiting[account] < waiting {
                let devices = SIZES[self.random.below(SIZES.len() as u64) as usize];
                let part = Part::whole(devices, ClassFilter::ALL);
                let request = Request { limit_ms: Some(MINUTE * LIMIT), ..Request::of(part) };
                self.waiting[account] += 1;
                self.accounts.insert(JobId(self.scheduler.last_job().0 + 1), account);
                self.apply(Input::Ask { user: "u".to_owned(), account: name(account), origin: None, request });
            }
        }
    }

    /// Goes on to the next end of a job or timer.
    fn step(&mut self) {
        let due = self.scheduler.next_deadline().unwrap_or(Millis::NEVER);
        match self.ends.first().copied().filter(|(at, _)| *at <= due) {
            Some((at, job)) => {
                self.ends.pop_first();
                self.now = at;
                self.apply(Input::Ended { job });
            }
            None => {
                self.now = due.max(self.now);
                self.apply(Input::Tick);
            }
        }
    }
}

#[test]
fn accounts_share_device_time_by_their_weights() {
    let mut site = Site::new(12_345);
    let pause = |paused: bool| Input::Pause { paused, by: "root".to_owned() };
    // All accounts have jobs before the first start, so that none takes what others have not asked for yet.
    site.apply(pause(true));
    site.fill((NODES * DEVICES) as usize);
    site.apply(pause(false));
    while site.now < DAY {
        site.fill(WAITING);
        site.step();
    }
    let used = |account: usize| site.scheduler.usage(&name(account)).unwrap().milli_ms;
    let all: u128 = (0..WEIGHTS.len()).map(used).sum();
    let weights: u32 = WEIGHTS.iter().sum();
    for (account, weight) in WEIGHTS.into_iter().enumerate() {
        let (share, of_weight) = (used(account) * 1_000 / all, u128::from(1_000 * weight / weights));
        assert!(share.abs_diff(of_weight) <= DIFFERENCE_MAX, "weight {weight}: {share} for {of_weight} of 1000");
    }
}
