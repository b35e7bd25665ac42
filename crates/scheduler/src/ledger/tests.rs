//! Usage is the integral of leases, for any sequence of events.

use super::*;
use crate::class::{ClassFilter, DeviceClass};
use crate::effect::LeasedDevice;
use crate::node::{DeviceDescription, NodeDescription};
use crate::policy::{Account, Policy};
use crate::request::{Part, Request, Take};
use accord_types::{DeviceId, DeviceType};
use proptest::prelude::*;

const NODES: u32 = 3;
const DEVICES: u32 = 4;
const USERS: [&str; 3] = ["eva", "tom", "ada"];

fn class(node: u32) -> DeviceClass {
    let (kind, model) = if node == 0 { (DeviceType::Cpu, "") } else { (DeviceType::Nvidia, "h200") };
    DeviceClass { kind, model: model.to_owned(), memory: 1_000, context: 0, compute: (0, 0) }
}

fn node(id: u32, incarnation: u64) -> NodeDescription {
    NodeDescription {
        id: NodeId(id),
        name: format!("n{id}"),
        incarnation,
        devices: (0..DEVICES).map(|ordinal| DeviceDescription { ordinal, class: class(id) }).collect(),
        cores: 64_000,
        host_memory: 1 << 40,
        labels: BTreeMap::new(),
    }
}

fn policy(weight: u32) -> Policy {
    let mut policy = Policy::default();
    let group = Account::plain("physics", Some(crate::ids::AccountId::SITE), 1);
    policy.accounts.push(group);
    for user in USERS {
        policy.accounts.push(Account::plain(&format!("physics/{user}"), Some(crate::ids::AccountId(1)), 1));
    }
    policy.billing = vec![(ClassFilter { model: Some("h200".to_owned()), ..ClassFilter::ALL }, weight)];
    policy
}

/// The test's own account of each device of a lease: the charged user and amount.
struct Book {
    held: BTreeMap<(JobId, DeviceId), (u64, u64)>,
    of_user: BTreeMap<String, Usage>,
    of_job: BTreeMap<JobId, Usage>,
    user_of: BTreeMap<JobId, String>,
    over: BTreeSet<JobId>,
    did: BTreeMap<String, u64>,
    weight: u32,
}

impl Book {
    fn weigh(&self, node: u32, milli: u64) -> u64 {
        milli * if node == 0 { 1_000 } else { u64::from(self.weight) }
    }

    fn pass(&mut self, ms: u64) {
        for ((job, _), (milli, billed)) in &self.held {
            for sum in
                [self.of_user.entry(self.user_of[job].clone()).or_default(), self.of_job.entry(*job).or_default()]
            {
                sum.milli_ms += u128::from(*milli) * u128::from(ms);
                sum.billed += u128::from(*billed) * u128::from(ms);
            }
        }
    }

    fn started(&mut self, job: JobId, devices: &[LeasedDevice]) {
        for leased in devices {
            // The larger of the parts of time and memory.
            let memory = leased.amount.memory * 1_000 / 1_000;
            let milli = if leased.exclusive { 1_000 } else { memory.max(leased.amount.milli.into()).clamp(1, 1_000) };
            let billed = self.weigh(leased.device.node.0, milli);
            self.held.insert((job, leased.device), (milli, billed));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask { user: usize, count: u32, class: u8, share: u32, limit: u64 },
    Pass(u64),
    End(u64),
    Cancel(u64),
    Release(u32),
    Lose(u32),
    Return(u32, bool),
    Leave(u32),
    Policy(u32),
    Did(u64, u64),
    ProgramDid(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..USERS.len(), 1u32..4, 0u8..3, 0u32..1_500, 1u64..200_000)
            .prop_map(|(user, count, class, share, limit)| Step::Ask { user, count, class, share, limit }),
        6 => (0u64..100_000).prop_map(Step::Pass),
        3 => (1u64..40).prop_map(Step::End),
        1 => (1u64..40).prop_map(Step::Cancel),
        6 => (0..NODES).prop_map(Step::Release),
        1 => (0..NODES).prop_map(Step::Lose),
        2 => (0..NODES, any::<bool>()).prop_map(|(node, anew)| Step::Return(node, anew)),
        1 => (0..NODES).prop_map(Step::Leave),
        1 => (1u32..5_000).prop_map(Step::Policy),
        3 => (1u64..40, 0u64..10_000).prop_map(|(job, busy)| Step::Did(job, busy)),
        2 => (0..USERS.len(), 0u64..10_000).prop_map(|(user, busy)| Step::ProgramDid(user, busy)),
    ]
}

struct World {
    scheduler: Scheduler,
    ledger: Ledger,
    book: Book,
    clock: Clock,
    incarnations: [u64; NODES as usize],
    releasing: Vec<(JobId, NodeId)>,
    ended: usize,
}

impl World {
    fn new() -> Self {
        let clock = Clock { now: Millis(0), unix_ms: 20_786 * DAY_MS - 300_000 };
        let mut world = Self {
            scheduler: Scheduler::new(policy(4_000)),
            ledger: Ledger::new(clock),
            book: Book {
                held: BTreeMap::new(),
                of_user: BTreeMap::new(),
                of_job: BTreeMap::new(),
                user_of: BTreeMap::new(),
                over: BTreeSet::new(),
                did: BTreeMap::new(),
                weight: 4_000,
            },
            clock,
            incarnations: [1; NODES as usize],
            releasing: Vec::new(),
            ended: 0,
        };
        for id in 0..NODES {
            world.apply(Input::NodeJoined(node(id, 1)));
        }
        world
    }

    fn apply(&mut self, input: Input) {
        let (touched, mut effects) = (AffectedJobs::by(&input), Vec::new());
        let asks = if let Input::Ask { user, .. } = &input { Some(user.clone()) } else { None };
        self.scheduler.apply(self.clock.now, input, &mut effects);
        self.ledger.observe(self.clock, touched, &effects, &self.scheduler);
        for effect in &effects {
            match effect {
                Effect::Queued { job } => drop(self.book.user_of.insert(*job, asks.clone().unwrap())),
                Effect::Started { job, devices, .. } => self.book.started(*job, devices),
                Effect::DevicesLost { job, devices } => {
                    for device in devices {
                        self.book.held.remove(&(*job, *device));
                    }
                }
                Effect::Ended { job, .. } => {
                    self.book.over.insert(*job);
                    self.ended += 1;
                }
                Effect::Release { job, node } => self.releasing.push((*job, *node)),
                _ => {}
            }
        }
    }

    /// Advances the time, and processes everything that is due at its time.
    fn pass(&mut self, ms: u64) {
        let until = self.clock.now.plus(ms);
        loop {
            let due = self.scheduler.next_deadline().filter(|due| *due <= until).unwrap_or(until).max(self.clock.now);
            let passed = due.since(self.clock.now);
            self.book.pass(passed);
            self.clock = Clock { now: due, unix_ms: self.clock.unix_ms + passed };
            self.apply(Input::Tick);
            if due == until {
                return;
            }
        }
    }

    /// Removes devices of a node from the book, for all jobs or for ended ones.
    fn forget(&mut self, id: NodeId, only_over: bool) {
        let over = &self.book.over;
        self.book.held.retain(|(job, device), _| device.node != id || only_over && !over.contains(job));
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Ask { user, count, class, share, limit } => {
                let kind = [DeviceType::NotHost, DeviceType::Cpu, DeviceType::Nvidia][usize::from(class)];
                let mut part = Part::whole(count, ClassFilter { kind, ..ClassFilter::ALL });
                if (1..1_000).contains(&share) {
                    part.take = Take::Shared(crate::amount::Amount { milli: share, memory: u64::from(share) / 3 });
                }
                let request = Request { limit_ms: Some(limit), ..Request::of(part) };
                let (user, account) = (USERS[user].to_owned(), format!("physics/{}", USERS[user]));
                self.apply(Input::Ask { user, account, origin: None, request });
            }
            Step::Pass(ms) => self.pass(ms),
            Step::End(job) => self.apply(Input::Ended { job: JobId(job) }),
            Step::Cancel(job) => self.apply(Input::Cancel { job: JobId(job), by: "root".to_owned() }),
            Step::Release(at) => {
                let Some(at) = (at as usize).checked_rem(self.releasing.len()) else { return };
                let (job, node) = self.releasing.swap_remove(at);
                if self.book.over.contains(&job) {
                    self.book.held.retain(|(held, device), _| *held != job || device.node != node);
                }
                self.apply(Input::Released { job, node });
            }
            Step::Lose(id) => {
                self.apply(Input::NodeLost(NodeId(id)));
                self.forget(NodeId(id), false);
            }
            Step::Leave(id) => {
                self.apply(Input::NodeLeft(NodeId(id)));
                self.forget(NodeId(id), false);
            }
            Step::Return(id, anew) => {
                self.incarnations[id as usize] += u64::from(anew);
                if anew {
                    // Leases of the earlier incarnation are over; new ones count.
                    self.forget(NodeId(id), false);
                }
                self.apply(Input::NodeJoined(node(id, self.incarnations[id as usize])));
            }
            Step::Did(job, busy_ms) => {
                let job = JobId(job);
                // Agents report until a job's devices are free.
                if self.scheduler.job(job).is_some() {
                    *self.book.did.entry(self.book.user_of[&job].clone()).or_default() += busy_ms;
                }
                let activity = Activity { busy_ms, bytes_in: 2 * busy_ms, bytes_out: 3 * busy_ms };
                self.ledger.job_did(self.clock, job, activity);
            }
            Step::ProgramDid(user, busy_ms) => {
                let (user, milli_ms) = (USERS[user], busy_ms * 1_000);
                let device = DeviceId { node: NodeId(1), ordinal: 2 };
                // The scheduler knows every node that was ever up.
                self.apply(Input::Used { account: format!("physics/{user}"), device, milli_ms });
                let billed = u128::from(milli_ms) * u128::from(self.book.weight);
                let charged = Usage { milli_ms: milli_ms.into(), billed };
                let activity = Activity { busy_ms, bytes_in: 2 * busy_ms, bytes_out: 3 * busy_ms };
                self.ledger.program_did(self.clock, "physics", user, charged, activity);
                let sum = self.book.of_user.entry(user.to_owned()).or_default();
                sum.milli_ms += charged.milli_ms;
                sum.billed += charged.billed;
                *self.book.did.entry(user.to_owned()).or_default() += busy_ms;
            }
            Step::Policy(weight) => {
                self.book.weight = weight;
                let held: Vec<_> = self.book.held.iter().map(|(of, (milli, _))| (*of, *milli)).collect();
                for ((job, device), milli) in held {
                    let billed = self.book.weigh(device.node.0, milli);
                    self.book.held.insert((job, device), (milli, billed));
                }
                self.apply(Input::PolicyApplied { policy: Box::new(policy(weight)), by: "root".to_owned() });
            }
        }
    }

    fn check(&mut self) {
        let view = self.ledger.usage(self.clock);
        let found: BTreeMap<String, Usage> =
            view.by(UsageBy::User, None).into_iter().map(|line| (line.name, line.row.usage)).collect();
        for user in USERS {
            let (found, wanted) = (found.get(user), self.book.of_user.get(user));
            let of_account = self.scheduler.usage(&format!("physics/{user}")).unwrap();
            assert_eq!(of_account.milli_ms, wanted.copied().unwrap_or_default().milli_ms, "{user}");
            assert_eq!(found.copied().unwrap_or_default(), wanted.copied().unwrap_or_default(), "{user}");
        }
        for line in view.by(UsageBy::User, None) {
            let busy_ms = self.book.did.get(&line.name).copied().unwrap_or_default();
            let activity = Activity { busy_ms, bytes_in: 2 * busy_ms, bytes_out: 3 * busy_ms };
            assert_eq!(line.row.activity, activity, "{}", line.name);
        }
        let sum = |lines: Vec<UsageLine>| lines.iter().map(|line| line.row.usage.billed).sum::<u128>();
        assert_eq!(sum(view.by(UsageBy::Day, None)), sum(view.by(UsageBy::Account, None)));
        assert_eq!(self.scheduler.usage("site").unwrap().milli_ms, found.values().map(|usage| usage.milli_ms).sum());
        let mut before = None;
        let mut ended = 0;
        loop {
            let page = self.ledger.history(self.clock, None, before);
            for job in &page.jobs {
                ended += 1;
                assert_eq!(job.used, self.book.of_job.get(&job.job).copied().unwrap_or_default(), "job {}", job.job);
                assert_eq!(job.started_unix_ms.is_some(), !job.devices.is_empty());
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(ended, self.ended);
    }
}

proptest! {
    #[test]
    fn usage_is_the_integral_of_leases(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
            world.check();
        }
        world.pass(1_000_000);
        world.check();
    }
}

#[test]
fn the_ledger_keeps_nothing_of_jobs_whose_devices_are_free() {
    let mut world = World::new();
    for user in 0..3 {
        world.take(Step::Ask { user, count: 3, class: 0, share: 0, limit: 60_000 });
    }
    world.ledger.name_program(JobId(1), "heat");
    world.pass(1_000);
    assert_eq!(world.ledger.program(JobId(1)), Some(("heat", 20_786 * DAY_MS - 300_000)));
    world.pass(200_000);
    while !world.releasing.is_empty() {
        world.take(Step::Release(0));
    }
    world.check();
    assert!(world.ledger.open.is_empty() && world.ledger.on_node.is_empty());
    let page = world.ledger.history(world.clock, Some("eva"), None);
    let [job] = &page.jobs[..] else { panic!("{page:?}") };
    assert_eq!(
        (job.submission.program.as_str(), job.submission.account.as_str(), job.waited_ms, job.ran_ms),
        ("heat", "physics", 0, 60_000)
    );
    assert_eq!(job.cause, EndCause::Limit);
}

#[test]
fn unknown_use_of_a_job_stays_unknown_after_its_end() {
    let mut world = World::new();
    world.take(Step::Ask { user: 0, count: 2, class: 0, share: 0, limit: 60_000 });
    world.pass(1_000);
    world.ledger.job_did(world.clock, JobId(1), Activity { busy_ms: 500, ..Activity::default() });
    let unknown = |world: &mut World| world.ledger.usage(world.clock).by(UsageBy::User, None)[0].row.unknown_milli_ms;
    assert_eq!(unknown(&mut world), 0);
    world.ledger.job_use_unknown(JobId(1));
    assert_eq!(unknown(&mut world), 2_000_000);
    world.ledger.job_event(world.clock, JobId(1), "a warning");
    world.pass(100_000);
    while !world.releasing.is_empty() {
        world.take(Step::Release(0));
    }
    let page = world.ledger.history(world.clock, None, None);
    assert!(page.jobs[0].did.is_unknown && page.jobs[0].events.len() == 1, "{page:?}");
    assert_eq!(unknown(&mut world), page.jobs[0].used.milli_ms);
}
