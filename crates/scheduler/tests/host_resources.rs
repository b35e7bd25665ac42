//! Jobs that need much of a node's cores or memory start in bounded time, however many small jobs there are.
#![forbid(unsafe_code)]

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{Effect, Input, JobId, Millis, Phase, Scheduler, WaitReason};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const MINUTE: u64 = 60_000;

const POLICY: &str = r#"
ageing = "30m"
quantum = "10m"
[account.small]
users = ["tom"]
[account.large]
users = ["eva"]
"#;

/// The policy in which the user of small jobs has device-hours.
const WITH_HOURS: &str = r#"
ageing = "30m"
quantum = "10m"
grace = "1m"
[account.small]
users = ["tom"]
device-hours = 1
[account.large]
users = ["eva"]
"#;

/// The minute at which the large job is requested.
const ASKED: u64 = 30;

/// The longest wait of the large job in minutes: two levels of ageing, and twice the longest limit.
const WAIT_MAX: u64 = 180;

/// A node with 8 devices, 16 cores and 64 GiB of memory, whose agent releases devices at once.
struct Cluster {
    scheduler: Scheduler,
    now: u64,
    last: JobId,
}

/// Returns the input for a node with 64 GiB of memory.
fn node(at: u32, kinds: &[DeviceType], cores: u64) -> Input {
    let class = |kind| DeviceClass { kind, model: "x".to_owned(), memory: 1 << 34, context: 0, compute: (9, 0) };
    let device = |(ordinal, &kind)| DeviceDescription { ordinal, class: class(kind) };
    Input::NodeJoined(NodeDescription {
        id: NodeId(at),
        name: format!("n{at}"),
        incarnation: 1,
        devices: (0..).zip(kinds).map(device).collect(),
        cores,
        host_memory: 64 << 30,
        labels: BTreeMap::new(),
    })
}

impl Cluster {
    fn new(policy: &str) -> Self {
        let mut cluster = Self::without_nodes(policy);
        cluster.apply(node(0, &[DeviceType::Nvidia; 8], 16_000));
        cluster
    }

    fn without_nodes(policy: &str) -> Self {
        let policy = SitePolicy::read(policy, None).unwrap_or_else(|found| panic!("{found:?}"));
        Self { scheduler: Scheduler::new(policy.tree([])), now: 0, last: JobId(0) }
    }

    fn apply(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut effects = Vec::new();
            self.scheduler.apply(Millis(self.now), input, &mut effects);
            self.scheduler.check_invariants().unwrap();
            inputs.extend(effects.into_iter().filter_map(|effect| match effect {
                Effect::Release { job, node } => Some(Input::Released { job, node }),
                Effect::Refused(refusal) => panic!("{refusal}"),
                Effect::Queued { job } => {
                    self.last = job;
                    None
                }
                _ => None,
            }));
        }
    }

    /// Goes on to a minute, in steps of one.
    fn pass_until(&mut self, minute: u64) {
        while self.now < minute * MINUTE {
            self.now += MINUTE;
            self.apply(Input::Tick);
        }
    }

    fn ask(&mut self, user: &str, account: &str, request: &str) -> JobId {
        let (user, account) = (user.to_owned(), format!("{account}/{user}"));
        self.apply(Input::Ask { user, account, origin: None, request: request.parse().unwrap() });
        self.last
    }

    fn runs(&self, job: JobId) -> bool {
        self.scheduler.job(job).is_some_and(|view| view.phase == Phase::Running)
    }
}

/// Has a user request small jobs all the time, and another user one large job, until that one starts.
fn check_wait(small: &str, large: &str) {
    let mut cluster = Cluster::new(POLICY);
    let mut large_job = None;
    for minute in 0..ASKED + WAIT_MAX {
        cluster.now = minute * MINUTE;
        cluster.apply(Input::Tick);
        cluster.ask("tom", "small", small);
        cluster.ask("tom", "small", small);
        if minute == ASKED {
            let job = cluster.ask("eva", "large", large);
            assert!(!cluster.runs(job), "the node is full");
            large_job = Some(job);
        }
        if large_job.is_some_and(|job| cluster.runs(job)) {
            return;
        }
    }
    panic!("{large} waits for more than {WAIT_MAX} minutes behind jobs of {small}");
}

#[test]
fn a_job_with_many_cores_starts_behind_small_jobs() {
    check_wait("1:nvidia:cores=2 limit=7m", "1:nvidia:cores=14 limit=1h");
}

#[test]
fn a_job_with_much_memory_starts_behind_small_jobs() {
    check_wait("1:nvidia:ram=8G limit=7m", "1:nvidia:ram=60G limit=1h");
}

#[test]
fn a_job_without_a_limit_is_not_renewed_on_claimed_cores() {
    let mut cluster = Cluster::new(POLICY);
    cluster.ask("tom", "small", "1:nvidia:cores=4 limit=35m");
    for _ in 0..6 {
        cluster.ask("tom", "small", "1:nvidia:cores=2 limit=1h");
    }
    // A device is free from now on, and all cores are free in an hour.
    let large = cluster.ask("eva", "large", "1:nvidia:cores=16 limit=1h");
    let mut endless = None;
    for minute in 0..=61 {
        cluster.now = minute * MINUTE;
        cluster.apply(Input::Tick);
        if minute == 36 {
            let job = cluster.ask("tom", "small", "1:nvidia:cores=2");
            assert!(cluster.runs(job), "its first quantum ends before the claim");
            endless = Some(job);
        }
    }
    assert!(cluster.runs(large) && endless.is_some_and(|job| !cluster.runs(job)));
}

/// Has eva request devices from a program on a node. Returns the effects.
fn ask_from(cluster: &mut Cluster, own: u32, request: &str) -> Vec<Effect> {
    let (user, account, request) = ("eva".to_owned(), "large/eva".to_owned(), request.parse().unwrap());
    let (input, mut effects) = (Input::Ask { user, account, origin: Some(NodeId(own)), request }, Vec::new());
    cluster.scheduler.apply(Millis(cluster.now), input, &mut effects);
    effects
}

#[test]
fn a_job_of_several_parts_starts_once_another_job_takes_the_node_that_its_parts_cannot_share() {
    let mut cluster = Cluster::without_nodes(POLICY);
    cluster.apply(node(0, &[DeviceType::Cpu, DeviceType::Nvidia], 8_000));
    cluster.apply(node(1, &[DeviceType::Cpu], 8_000));
    let ask = |cluster: &mut Cluster, request: &str| ask_from(cluster, 0, request);
    // The first part takes the cores of the node with the only GPU, on which it is placed first.
    let effects = ask(&mut cluster, "1:cpu:cores=6 + 1:nvidia:cores=6 limit=1h");
    assert!(matches!(effects[..], [Effect::Queued { .. }]), "{effects:?}");
    let effects = ask(&mut cluster, "1:cpu limit=1h");
    // No start is reserved first: it would decide on devices for a later time.
    assert!(
        matches!(effects[..], [Effect::Queued { .. }, Effect::Started { .. }, Effect::Started { .. }]),
        "{effects:?}"
    );
}

#[test]
fn a_job_of_several_parts_starts_if_they_fit_from_its_own_node_on_but_not_from_another() {
    let mut cluster = Cluster::without_nodes(POLICY);
    cluster.apply(node(0, &[DeviceType::Cpu, DeviceType::Nvidia], 8_000));
    cluster.apply(node(1, &[DeviceType::Nvidia], 8_000));
    // From node 0 on, the GPU takes the cores of the only node with a CPU device.
    let request = "1:nvidia:cores=6 + 1:cpu:cores=6 limit=1h";
    let effects = ask_from(&mut cluster, 0, request);
    assert!(matches!(effects[..], [Effect::Queued { .. }]), "{effects:?}");
    let effects = ask_from(&mut cluster, 1, request);
    assert!(matches!(effects[..], [Effect::Queued { .. }, Effect::Started { .. }]), "{effects:?}");
}

#[test]
fn a_job_whose_account_has_hours_again_is_not_renewed_on_claimed_cores() {
    let mut cluster = Cluster::new(WITH_HOURS);
    let endless = cluster.ask("tom", "small", "1:nvidia:cores=2");
    cluster.ask("eva", "large", "1:nvidia:cores=14 limit=75m");
    cluster.pass_until(5);
    // Its reserved start is at minute 75, once the end of the job without a limit is known.
    let large = cluster.ask("eva", "large", "1:nvidia:cores=16 limit=1h");
    // The hours are spent at minute 60. The job is warned at minute 69, and would be renewed until minute 80.
    cluster.pass_until(69);
    assert!(cluster.runs(endless));
    cluster.apply(Input::MonthBegan);
    cluster.pass_until(70);
    assert!(!cluster.runs(endless));
    cluster.pass_until(75);
    assert!(cluster.runs(large));
}

#[test]
fn an_explanation_names_the_job_whose_reserved_start_needs_the_cores() {
    let mut cluster = Cluster::new(POLICY);
    cluster.ask("tom", "small", "1:nvidia:cores=8 limit=30m");
    let large = cluster.ask("eva", "large", "1:nvidia:cores=16 limit=1h");
    let small = cluster.ask("tom", "small", "1:nvidia:cores=4 limit=1h");
    let reason = cluster.scheduler.reason(small);
    assert_eq!(reason, Some(WaitReason::Claimed { model: "x".to_owned(), by: large }));
    let before = cluster.ask("tom", "small", "1:nvidia:cores=4 limit=30m");
    assert!(cluster.runs(before) && !cluster.runs(small));
    cluster.apply(Input::Cancel { job: large, by: "eva".to_owned() });
    assert!(cluster.runs(small));
}

#[test]
fn a_search_costs_no_more_where_more_jobs_are_on_nodes_with_claims() {
    const NODES: u32 = 20;
    let steps = |jobs: u32| {
        let mut cluster = Cluster::without_nodes(POLICY);
        for at in 0..NODES {
            cluster.apply(node(at, &[DeviceType::Nvidia; 16], 64_000));
        }
        for _ in 0..jobs * NODES {
            let job = cluster.ask("tom", "small", "1:nvidia:cores=1 spread limit=1h");
            assert!(cluster.runs(job));
        }
        // Its reserved start is in an hour, on four devices and all cores of each node.
        let all = format!("{}:nvidia:cores=16 nodes={NODES} limit=1h", 4 * NODES);
        let all = cluster.ask("eva", "large", &all);
        assert!(cluster.scheduler.explain(all).unwrap().starts == Some(Millis(60 * MINUTE)));
        let before = cluster.scheduler.steps();
        let job = cluster.ask("tom", "small", "1:nvidia:cores=1 limit=2h");
        assert!(!cluster.runs(job));
        cluster.scheduler.steps() - before
    };
    let (few, many) = (steps(1), steps(8));
    assert!(many <= few + few / 4, "{few} steps, {many} with more jobs");
}
