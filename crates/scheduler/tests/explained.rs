//! An explanation names what a job waits for: each step removes the named reason, until the job starts.
#![forbid(unsafe_code)]

mod random;

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{
    DrainTarget, Effect, Input, JobId, Members, Millis, Phase, Request, Reservation, ReservationId, ReservationState,
    ReservedDevices, Scheduler, WaitReason,
};
use accord_types::{DeviceId, DeviceType, NodeId};
use random::Random;

const POLICY: &str = r#"
[account.most]
users = ["a"]
most = { nvidia = 6 }
[account.running]
users = ["b"]
running-jobs = 1
[account.plain]
users = ["c"]
[account.guaranteed]
users = ["d"]
guaranteed = { nvidia = 4 }
"#;

/// An hour in milliseconds.
const HOUR: u64 = 3_600_000;

/// Most steps until a job starts.
const STEPS: usize = 40;

impl Random {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

struct Cluster {
    random: Random,
    scheduler: Scheduler,
    now: u64,
}

impl Cluster {
    fn new(seed: u64) -> Self {
        let policy = SitePolicy::read(POLICY, None).unwrap_or_else(|found| panic!("{found:?}")).tree([]);
        let random = Random::new(seed);
        let mut cluster = Self { random, scheduler: Scheduler::new(policy), now: 0 };
        for (node, model) in [(0, "h200"), (1, "h200"), (2, "t4")] {
            let class = DeviceClass {
                kind: DeviceType::Nvidia,
                model: model.to_owned(),
                memory: 1 << 37,
                context: 0,
                compute: (9, 0),
            };
            let device = |ordinal| DeviceDescription { ordinal, class: class.clone() };
            cluster.apply(Input::NodeJoined(NodeDescription {
                id: NodeId(node),
                name: format!("n{node}"),
                incarnation: 1,
                devices: (0..4).map(device).collect(),
                cores: 64_000,
                host_memory: 1 << 40,
                labels: [("rack".to_owned(), format!("r{}", node / 2))].into(),
            }));
        }
        cluster
    }

    /// Applies an input. Agents release devices at once.
    fn apply(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.now += 1;
            let mut effects = Vec::new();
            self.scheduler.apply(Millis(self.now), input, &mut effects);
            inputs.extend(effects.into_iter().filter_map(|effect| match effect {
                Effect::Release { job, node } => Some(Input::Released { job, node }),
                Effect::Refused(refusal) => panic!("{refusal}"),
                _ => None,
            }));
        }
    }

    /// Requests devices, or one device with cores or memory.
    fn ask(&mut self, is_of_cores: bool) {
        let (account, user) = self.random.pick(&[("most", "a"), ("running", "b"), ("plain", "c"), ("guaranteed", "d")]);
        let what = self.random.pick(&["nvidia", "nvidia/h200", "nvidia/t4"]);
        let count = if is_of_cores { 1 } else { 1 + self.random.below(4) };
        let place = self.random.pick(&["", " near", " pack", " spread", " nodes=1"]);
        let limit = self.random.pick(&["", " limit=10m", " limit=5h", " limit=5h", " limit=5h"]);
        // A node has enough for the largest request.
        let beside = self.random.pick(&["", ":ram=700G", ":cores=20", ":cores=40", ":cores=60"]);
        let beside = if count == 1 { beside } else { "" };
        let request: Request = format!("{count}:{what}{beside}{place}{limit}").parse().unwrap();
        let (user, account) = (user.to_owned(), format!("{account}/{user}"));
        self.apply(Input::Ask { user, account, origin: None, request });
    }

    /// Reserves devices for maintenance now or soon. The reservation's number is its name.
    fn reserve(&mut self, id: u64) {
        let device = DeviceId { node: NodeId(self.random.below(3) as u32), ordinal: self.random.below(4) as u32 };
        let whole = self.random.below(3) == 0;
        let target = if whole { DrainTarget::Node(device.node) } else { DrainTarget::Device(device) };
        let starts = Millis(self.now + self.random.below(HOUR));
        self.apply(Input::Reserve(Box::new(Reservation {
            id: ReservationId(id),
            name: id.to_string(),
            devices: ReservedDevices::Listed(vec![target]),
            starts,
            ends: starts.plus(1_000 * HOUR),
            created: 0,
            members: Members::default(),
            end_jobs: false,
        })));
    }

    /// Reserves a node for a user soon, and has the user request devices of it.
    fn ask_reserved(&mut self) -> JobId {
        let starts = Millis(self.now + HOUR / 2);
        self.apply(Input::Reserve(Box::new(Reservation {
            id: ReservationId(100),
            name: "course".to_owned(),
            devices: ReservedDevices::Listed(vec![DrainTarget::Node(NodeId(0))]),
            starts,
            ends: starts.plus(1_000 * HOUR),
            created: 0,
            members: Members { accounts: Vec::new(), users: vec!["c".to_owned()] },
            end_jobs: false,
        })));
        let request = "2:nvidia reservation=course limit=10m".parse().unwrap();
        let (user, account) = ("c".to_owned(), "plain/c".to_owned());
        self.apply(Input::Ask { user, account, origin: None, request });
        self.scheduler.last_job()
    }

    /// Whether a job requests cores.
    fn takes_cores(&self, job: JobId) -> bool {
        self.scheduler.request(job).is_some_and(|request| request.alternatives[0].parts[0].cores > 0)
    }

    fn of_phase(&self, phase: Phase) -> Vec<JobId> {
        self.scheduler.jobs(None).filter(|view| view.phase == phase).map(|view| view.job).collect()
    }

    /// Ends a running job that the explanation names.
    fn end(&mut self, why: &WaitReason, named: impl Fn(&accord_scheduler::JobView) -> bool) {
        let meant = self.scheduler.jobs(None).find(|view| view.phase == Phase::Running && named(view));
        let meant = meant.unwrap_or_else(|| panic!("{why:?}: nothing that is named is in use")).job;
        self.apply(Input::Ended { job: meant });
    }

    /// Removes the reason for a job's wait.
    fn free(&mut self, job: JobId, why: &WaitReason) {
        let by = "root".to_owned();
        match why {
            WaitReason::OnHold => self.apply(Input::Hold { job, held: false }),
            WaitReason::Paused => self.apply(Input::Pause { paused: false, by }),
            WaitReason::Running { account } | WaitReason::Most { account } => {
                let name = account.clone();
                self.end(why, |view| view.account == name || view.account.starts_with(&format!("{name}/")));
            }
            WaitReason::Spent { .. } => self.apply(Input::MonthBegan),
            WaitReason::Guarantee => self.end(why, |view| !view.account.starts_with("guaranteed/")),
            WaitReason::Devices { model, .. }
            | WaitReason::HostMemory { model, .. }
            | WaitReason::Cores { model, .. } => {
                let nodes: &[u32] = if model == "t4" { &[2] } else { &[0, 1] };
                self.end(why, |view| view.devices.iter().any(|of| nodes.contains(&of.device.node.0)));
            }
            WaitReason::Claimed { by, .. } | WaitReason::First { by } => {
                self.apply(Input::Cancel { job: *by, by: "root".to_owned() });
            }
            WaitReason::Reserved { name, .. } => self.apply(Input::Unreserve(ReservationId(name.parse().unwrap()))),
            WaitReason::Reservation { state: ReservationState::Ahead, .. } => {
                self.now += HOUR;
                self.apply(Input::Tick);
            }
            WaitReason::Reservation { state: ReservationState::Full, .. } => {
                self.end(why, |view| view.devices.iter().any(|of| of.device.node == NodeId(0)));
            }
            WaitReason::Reservation { state: ReservationState::Gone, .. } => panic!("{job} names none that is over"),
            WaitReason::Never(lack) => panic!("{job} could start: {lack}"),
            WaitReason::NoSuchDevices => panic!("{job} can start"),
        }
    }
}

#[test]
fn a_job_starts_once_what_its_explanation_names_is_free() {
    let count = accord_test_tier::pick(1_000, 5_000);
    let first = accord_test_tier::first_seed(count);
    let mut reasons = std::collections::BTreeSet::new();
    for seed in first..first + count {
        let mut cluster = Cluster::new(seed);
        let reservations = if cluster.random.below(4) == 0 { 1 + cluster.random.below(4) } else { 0 };
        for id in 0..reservations {
            cluster.reserve(id);
        }
        let is_of_cores = cluster.random.below(4) == 0;
        for _ in 0..12 {
            cluster.ask(is_of_cores);
        }
        let named = (reservations == 0 && cluster.random.below(8) == 0).then(|| cluster.ask_reserved());
        let waiting = cluster.of_phase(Phase::Waiting);
        let (first, last) = (waiting.first().copied(), waiting.last().copied());
        // One job with cores waits before it, which may have a reserved start. No others must take the freed devices.
        let is_second = named.is_none() && cluster.random.below(2) == 0;
        let Some(job) = named.or(if is_second { last } else { first }) else { continue };
        let before = waiting.iter().copied().find(|&other| is_second && other < job && cluster.takes_cores(other));
        for &other in waiting.iter().filter(|&&other| other != job && Some(other) != before) {
            cluster.apply(Input::Cancel { job: other, by: "root".to_owned() });
        }
        if cluster.random.below(4) == 0 {
            cluster.apply(Input::Hold { job, held: true });
        }
        if cluster.random.below(4) == 0 {
            cluster.apply(Input::Pause { paused: true, by: "root".to_owned() });
        }
        let mut steps = 0;
        while let Some(why) = cluster.scheduler.explain(job).and_then(|explained| explained.reason) {
            reasons.insert(format!("{why:?}").split([' ', '{']).next().unwrap_or_default().to_owned());
            assert!(steps < STEPS, "seed {seed}: job {job} waits still, for {why:?}");
            cluster.free(job, &why);
            steps += 1;
        }
    }
    let found: Vec<&str> = reasons.iter().map(String::as_str).collect();
    let expected = [
        "Claimed",
        "Cores",
        "Devices",
        "Guarantee",
        "HostMemory",
        "Most",
        "OnHold",
        "Paused",
        "Reservation",
        "Reserved",
        "Running",
    ];
    assert_eq!(found, expected);
}
