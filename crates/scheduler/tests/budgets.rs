//! Quotas of accounts, and device-hours of a month: what exceeds them is refused, and does not start or go on.
#![forbid(unsafe_code)]

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::{JobSummary, SitePolicy, changes};
use accord_scheduler::{DrainTarget, Effect, EndCause, Input, JobId, Millis, Refusal, Scheduler, WaitReason};
use accord_types::{DeviceType, NodeId};
use std::collections::BTreeMap;

const MINUTE: u64 = 60_000;

struct Site {
    scheduler: Scheduler,
    now: u64,
}

impl Site {
    /// Creates a node with four GPUs, and an account with these keys whose user is `eva`.
    fn new(keys: &str) -> Self {
        let text = format!("[account.a]\nusers = [\"eva\"]\n{keys}\n[account.b]\nusers = [\"tom\"]\n");
        let policy = SitePolicy::read(&text, None).unwrap_or_else(|found| panic!("{found:?}")).tree([]);
        let mut site = Self { scheduler: Scheduler::new(policy), now: 0 };
        let class = DeviceClass {
            kind: DeviceType::Nvidia,
            model: "h200".to_owned(),
            memory: 1 << 37,
            context: 0,
            compute: (9, 0),
        };
        site.apply(Input::NodeJoined(NodeDescription {
            id: NodeId(0),
            name: "n0".to_owned(),
            incarnation: 1,
            devices: (0..4).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
            cores: 64_000,
            host_memory: 1 << 40,
            labels: BTreeMap::new(),
        }));
        site
    }

    /// Applies an input. Agents release devices at once.
    fn apply(&mut self, input: Input) -> Vec<Effect> {
        let mut all = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut all);
        let mut at = 0;
        while at < all.len() {
            if let Effect::Release { job, node } = all[at] {
                self.scheduler.apply(Millis(self.now), Input::Released { job, node }, &mut all);
            }
            at += 1;
        }
        all
    }

    fn ask(&mut self, user: &str, request: &str) -> Vec<Effect> {
        let account = if user == "eva" { "a/eva" } else { "b/tom" }.to_owned();
        self.apply(Input::Ask { user: user.to_owned(), account, origin: None, request: request.parse().unwrap() })
    }

    /// Lets time pass, in steps of a minute.
    fn pass(&mut self, minutes: u64) -> Vec<Effect> {
        let mut all = Vec::new();
        for _ in 0..minutes {
            self.now += MINUTE;
            all.extend(self.apply(Input::Tick));
        }
        all
    }
}

fn started(effects: &[Effect]) -> Vec<u64> {
    let started = effects.iter().filter_map(|effect| match effect {
        Effect::Started { job, .. } => Some(job.0),
        _ => None,
    });
    started.collect()
}

fn ended(effects: &[Effect]) -> Vec<(u64, EndCause)> {
    let ended = effects.iter().filter_map(|effect| match effect {
        Effect::Ended { job, cause } => Some((job.0, cause.clone())),
        _ => None,
    });
    ended.collect()
}

#[test]
fn a_waiting_job_of_a_spent_account_starts_with_the_next_month() {
    let mut site = Site::new("device-hours = 2");
    assert_eq!(started(&site.ask("eva", "4:nvidia limit=1h")), [1]);
    assert!(started(&site.ask("eva", "2:nvidia limit=1h")).is_empty());
    assert!(started(&site.ask("tom", "2:nvidia limit=1h")).is_empty());
    // The running job goes on to its limit. Then only the other account's job starts.
    let effects = site.pass(60);
    assert_eq!((ended(&effects), started(&effects)), (vec![(1, EndCause::Limit)], vec![3]));
    let spent = WaitReason::Spent { account: "a".to_owned() };
    assert_eq!(site.scheduler.reason(JobId(2)), Some(spent));
    assert!(site.ask("eva", "1:nvidia").contains(&Effect::Refused(Refusal::Spent { account: "a".to_owned() })));
    assert_eq!(started(&site.apply(Input::MonthBegan)), [2]);
}

#[test]
fn a_job_without_a_limit_is_not_renewed_once_its_account_is_spent() {
    let mut site = Site::new("device-hours = 8");
    assert_eq!(started(&site.ask("eva", "4:nvidia")), [1]);
    assert_eq!(started(&site.ask("tom", "4:nvidia")), [] as [u64; 0]);
    // The account of a user without device-hours is never spent.
    let (warned, causes) = (site.pass(181), |effects: &[Effect]| {
        let causes = effects.iter().filter_map(|effect| match effect {
            Effect::Warning { cause, .. } => Some(cause.clone()),
            _ => None,
        });
        causes.collect::<Vec<_>>()
    });
    assert_eq!((causes(&warned), ended(&warned)), (vec![EndCause::Spent], vec![(1, EndCause::Spent)]));
    assert_eq!(started(&warned), [2]);
    assert!(ended(&site.pass(600)).is_empty());
}

#[test]
fn an_account_is_refused_more_parts_of_devices_than_it_may_hold() {
    let mut site = Site::new("most = { nvidia = 2 }");
    let refused = Effect::Refused(Refusal::MoreThanMost { account: "a".to_owned(), devices: 2 });
    for request in ["5:nvidia:50%", "1:nvidia + 3:nvidia:50%", "9:nvidia:32G", "3:nvidia"] {
        assert!(site.ask("eva", request).contains(&refused), "{request}");
    }
    assert_eq!(started(&site.ask("eva", "4:nvidia:50%")), [1]);
    // It waits until the other one ends.
    assert!(!site.ask("eva", "8:nvidia:32G").contains(&refused));
}

#[test]
fn the_audit_log_has_the_jobs_that_run_on_where_a_drain_is_due() {
    let mut site = Site::new("");
    site.ask("eva", "1:nvidia");
    for (end, what) in [(false, "run on"), (true, "end")] {
        let (by_time, by) = (Millis(site.now + MINUTE), "root".to_owned());
        let target = DrainTarget::Node(NodeId(0));
        site.apply(Input::Drain { target, by_time, end, reason: "fan".to_owned(), by });
        let line = format!("the drain of node n0 is due; these jobs there {what}: 1");
        assert!(site.pass(1).contains(&Effect::Audit(line)));
    }
}

#[test]
fn changes_of_a_policy_name_users_who_hold_more_and_jobs_with_longer_limits() {
    let read = |text: &str| SitePolicy::read(text, None).unwrap_or_else(|found| panic!("{found:?}"));
    let class =
        DeviceClass { kind: DeviceType::Nvidia, model: "h200".to_owned(), memory: 0, context: 0, compute: (9, 0) };
    let job = |job: u64, user: &str, request: &str, held: u32| JobSummary {
        job: JobId(job),
        user: user.to_owned(),
        groups: Vec::new(),
        account: "a".to_owned(),
        request: request.parse().unwrap(),
        held: if held > 0 { vec![(class.clone(), held)] } else { Vec::new() },
    };
    let jobs = [
        job(1, "ada", "6:nvidia limit=9h", 6),
        job(2, "ada", "1:nvidia limit=8h", 0),
        job(3, "ada", "1:nvidia limit=2h", 0),
        job(4, "eva", "1:nvidia", 0),
        job(5, "eva", "12:nvidia:50% limit=1h", 0),
        job(6, "eva", "12:nvidia:40% limit=1h", 0),
    ];
    let old = read("account.a.users = [\"ada\", \"eva\"]");
    let scheduler = Scheduler::default();
    let nodes = scheduler.nodes_of_jobs();
    assert!(changes(&old, &old, &jobs, &nodes).is_empty());
    let users = "[account.a]\nusers = [\"ada\", \"eva\"]\nlongest = \"3h\"\n";
    let new = read(&format!("{users}each-user = {{ most = {{ nvidia = 5 }}, longest = \"2h\" }}"));
    let reported: Vec<String> = changes(&old, &new, &jobs, &nodes).iter().map(ToString::to_string).collect();
    assert_eq!(
        reported,
        [
            "job 2 would keep its limit, although new jobs of a/ada may last 2h at most",
            "job 4 would keep its limit, although new jobs of a/eva may last 2h at most",
            "job 5 would wait without end: a/eva would have at most 5 of nvidia",
            "a/ada holds 6 of nvidia and would have at most 5: it would get no more until enough are free",
        ]
    );
}

#[test]
fn cores_are_charged_and_count_as_no_device_of_a_maximum() {
    let mut site = Site::new("most = { nvidia = 2 }\ndevice-hours = 3");
    // Of 64 cores and 4 devices, 16 cores are one device's part.
    assert_eq!(started(&site.ask("eva", "1:nvidia:cores=32 limit=4h")), [1]);
    assert_eq!(started(&site.ask("eva", "1:nvidia:cores=16 limit=4h")), [2]);
    assert_eq!(started(&site.ask("eva", "1:nvidia limit=4h")), [] as [u64; 0], "the account holds its two devices");
    assert_eq!((site.scheduler.rate(JobId(1)).milli, site.scheduler.rate(JobId(2)).milli), (2_000, 1_000));
    // Three device-hours an hour.
    site.pass(59);
    assert_eq!(site.scheduler.reason(JobId(3)), Some(WaitReason::Most { account: "a".to_owned() }));
    site.pass(1);
    assert_eq!(site.scheduler.reason(JobId(3)), Some(WaitReason::Spent { account: "a".to_owned() }));
}
