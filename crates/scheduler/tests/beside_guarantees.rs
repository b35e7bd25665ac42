//! Jobs with limits longer than the quantum beside guarantees and the reserved start of the first job.
#![forbid(unsafe_code)]

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{Effect, Input, JobId, Millis, Request, Scheduler, WaitReason};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const MINUTE: u64 = 60_000;

const POLICY: &str = r#"
quantum = "10s"
grace = "2s"
[account.physics]
users = ["bob"]
guaranteed = { nvidia = 2 }
[account.default]
"#;

/// Users of the account for all, by name.
const USERS: [(&str, &str); 4] = [("default", "ann"), ("default", "dave"), ("default", "erin"), ("default", "fay")];

/// Nodes with two devices each.
struct Cluster {
    scheduler: Scheduler,
    now: u64,
}

impl Cluster {
    fn new(nodes: u32) -> Self {
        let policy = SitePolicy::read(POLICY, None).unwrap_or_else(|found| panic!("{found:?}"));
        let mut cluster = Self { scheduler: Scheduler::new(policy.tree(USERS)), now: 0 };
        for node in 0..nodes {
            let class = DeviceClass {
                kind: DeviceType::Nvidia,
                model: "h200".to_owned(),
                memory: 141 << 30,
                context: 0,
                compute: (9, 0),
            };
            cluster.apply(Input::NodeJoined(NodeDescription {
                id: NodeId(node),
                name: format!("n{node}"),
                incarnation: 1,
                devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
                cores: 0,
                host_memory: 0,
                labels: BTreeMap::new(),
            }));
        }
        cluster
    }

    fn apply(&mut self, input: Input) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut effects);
        self.scheduler.check_invariants().unwrap();
        let released: Vec<Input> = effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Release { job, node } => Some(Input::Released { job: *job, node: *node }),
                _ => None,
            })
            .collect();
        for input in released {
            effects.extend(self.apply(input));
        }
        effects
    }

    /// Lets time pass until `until`. Returns the effects.
    fn pass(&mut self, until: u64) -> Vec<Effect> {
        let mut all = Vec::new();
        while let Some(next) = self.scheduler.next_deadline().filter(|next| next.0 <= until) {
            self.now = next.0.max(self.now);
            all.extend(self.apply(Input::Tick));
        }
        self.now = until;
        all.extend(self.apply(Input::Tick));
        all
    }

    /// Requests devices. Returns whether the job starts at once.
    fn ask(&mut self, user: &str, account: &str, request: &str) -> bool {
        let (user, account) = (user.to_owned(), account.to_owned());
        let request: Request = request.parse().unwrap();
        let effects = self.apply(Input::Ask { user, account, origin: None, request });
        effects.iter().any(|effect| matches!(effect, Effect::Started { .. }))
    }

    fn starts(&self, job: u64) -> Option<Millis> {
        self.scheduler.explain(JobId(job)).unwrap().starts
    }
}

#[test]
fn a_long_job_that_ends_before_the_first_jobs_start_uses_free_devices() {
    let mut cluster = Cluster::new(3);
    assert!(cluster.ask("ann", "default/ann", "2:nvidia limit=30m"));
    assert!(cluster.ask("bob", "physics/bob", "2:nvidia limit=10m"));
    assert!(!cluster.ask("dave", "default/dave", "4:nvidia limit=10m"));
    assert_eq!(cluster.starts(3), Some(Millis(30 * MINUTE)));
    // The account uses its guarantee in full.
    assert!(cluster.ask("erin", "default/erin", "1:nvidia limit=1m"));
    // This one would be there when the first job starts.
    assert!(!cluster.ask("erin", "default/erin", "1:nvidia limit=31m"));
    let effects = cluster.pass(30 * MINUTE);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Started { job: JobId(3), .. })), "{effects:?}");
}

#[test]
fn a_long_job_uses_a_device_that_the_first_job_does_not_need_once_others_have_ended() {
    let mut cluster = Cluster::new(5);
    assert!(cluster.ask("ann", "default/ann", "4:nvidia limit=30m"));
    assert!(!cluster.ask("dave", "default/dave", "5:nvidia limit=10m"));
    assert_eq!(cluster.starts(2), Some(Millis(30 * MINUTE)));
    // At that time the first job has five of the ten devices, this one has one, and two are guaranteed.
    assert!(cluster.ask("erin", "default/erin", "1:nvidia limit=40m"));
    let effects = cluster.pass(30 * MINUTE);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Started { job: JobId(2), .. })), "{effects:?}");
}

#[test]
fn a_long_job_leaves_what_the_first_job_and_guarantees_need_together() {
    let mut cluster = Cluster::new(5);
    assert!(cluster.ask("ann", "default/ann", "1:nvidia limit=20m"));
    assert!(cluster.ask("fay", "default/fay", "4:nvidia limit=60m"));
    assert!(!cluster.ask("dave", "default/dave", "4:nvidia limit=10m"));
    assert_eq!(cluster.starts(3), Some(Millis(20 * MINUTE)));
    // A device is free that the first job does not claim: eight devices are in use then, and two are guaranteed.
    assert!(!cluster.ask("erin", "default/erin", "1:nvidia limit=40m"));
    let effects = cluster.pass(20 * MINUTE);
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Started { job: JobId(3), .. })), "{effects:?}");
}

#[test]
fn a_guarantee_comes_back_within_a_quantum_beside_backfilled_jobs() {
    let mut cluster = Cluster::new(3);
    assert!(cluster.ask("ann", "default/ann", "2:nvidia limit=30m"));
    assert!(!cluster.ask("dave", "default/dave", "4:nvidia limit=30m"));
    // Two of the four free devices are guaranteed.
    assert!(cluster.ask("erin", "default/erin", "2:nvidia limit=10m"));
    assert!(!cluster.ask("erin", "default/erin", "1:nvidia limit=10m"));
    assert!(cluster.ask("bob", "physics/bob", "2:nvidia limit=10m"));
}

#[test]
fn a_job_that_guarantees_exclude_waits_for_no_devices() {
    let mut cluster = Cluster::new(1);
    assert!(cluster.ask("ann", "default/ann", "2:nvidia limit=5s"));
    assert!(!cluster.ask("dave", "default/dave", "2:nvidia limit=10m"));
    assert_eq!(cluster.scheduler.reason(JobId(2)), Some(WaitReason::Guarantee));
    cluster.pass(MINUTE);
    assert_eq!(cluster.scheduler.reason(JobId(2)), Some(WaitReason::Guarantee));
}
