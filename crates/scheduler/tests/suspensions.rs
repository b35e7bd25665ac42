//! Suspended jobs keep the scheduler's invariants, whatever happens meanwhile, also over restarts.

use accord_scheduler::class::DeviceClass;
use accord_scheduler::node::{DeviceDescription, NodeDescription};
use accord_scheduler::policy::PreemptMode;
use accord_scheduler::saved::SavedScheduler;
use accord_scheduler::{ANSWER_MS, Effect, Input, JobId, Millis, Phase, Policy, Scheduler, SuspensionStage};
use accord_types::{DeviceType, NodeId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const NODES: u32 = 3;
const REQUESTS: &[&str] = &[
    "1:nvidia limit=1h",
    "2:nvidia limit=10m",
    "3:nvidia limit=2h",
    "1:nvidia:50% limit=1h",
    "1:nvidia",
    "1:nvidia limit=1h priority=1",
    "4:nvidia limit=20m priority=2",
    "2:nvidia:50% limit=1h priority=2",
];

/// Returns a policy by which jobs give way to those of a higher priority after this time.
fn policy(exempt_ms: u64) -> Policy {
    let (preempt_mode, usual) = (PreemptMode::Suspend, Policy::default());
    let mut policy = Policy { preempt_mode, preempt_exempt_ms: exempt_ms, quantum_ms: 600_000, ..usual };
    policy.accounts[0].priorities = (0, 9);
    policy
}

fn node(id: u32, incarnation: u64) -> NodeDescription {
    let class =
        DeviceClass { kind: DeviceType::Nvidia, model: "d".to_owned(), memory: 1 << 30, context: 0, compute: (0, 0) };
    NodeDescription {
        id: NodeId(id),
        name: format!("h{id}"),
        incarnation,
        devices: (0..2).map(|ordinal| DeviceDescription { ordinal, class: class.clone() }).collect(),
        cores: 0,
        host_memory: 2 << 30,
        labels: BTreeMap::new(),
    }
}

/// Something that happens; small numbers choose jobs and nodes.
#[derive(Clone, Debug)]
enum Event {
    Ask(&'static str),
    Suspend(u64),
    Resume(u64),
    /// An agent answers its oldest order.
    Answer(u32, bool),
    Cancel(u64),
    Limit(u64, u64),
    Lost(u32),
    Left(u32),
    Joined(u32),
    Released(u64, u32),
    Wait(u64),
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop::sample::select(REQUESTS).prop_map(Event::Ask),
        4 => (1u64..8).prop_map(Event::Suspend),
        4 => (1u64..8).prop_map(Event::Resume),
        12 => (0..NODES, prop::bool::weighted(0.8)).prop_map(|(node, is_done)| Event::Answer(node, is_done)),
        1 => (1u64..8).prop_map(Event::Cancel),
        1 => (1u64..8, 1u64..7_200_000).prop_map(|(job, limit)| Event::Limit(job, limit)),
        1 => (0..NODES).prop_map(Event::Lost),
        1 => (0..NODES).prop_map(Event::Left),
        3 => (0..NODES).prop_map(Event::Joined),
        3 => (1u64..8, 0..NODES).prop_map(|(job, node)| Event::Released(job, node)),
        3 => (1u64..1_000_000).prop_map(Event::Wait),
        1 => Just(Event::Restart),
    ]
}

struct Site {
    scheduler: Scheduler,
    now: u64,
    incarnations: [u64; NODES as usize],
    up: [bool; NODES as usize],
    /// Orders that agents have not answered, oldest first.
    orders: Vec<(NodeId, JobId, bool)>,
}

impl Site {
    fn give(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.scheduler.apply(Millis(self.now), input, &mut effects);
        self.scheduler.check_invariants().unwrap();
        for effect in effects {
            match effect {
                Effect::Suspend { job, node } => self.orders.push((node, job, true)),
                Effect::Resume { job, node } => self.orders.push((node, job, false)),
                _ => {}
            }
        }
    }

    fn restart(&mut self) {
        let nodes: Vec<(NodeDescription, bool)> =
            (0..NODES).map(|id| (node(id, self.incarnations[id as usize]), self.up[id as usize])).collect();
        let names: Vec<String> = self.scheduler.account_names().map(str::to_owned).collect();
        let account = |name: &String| Some((name.clone(), self.scheduler.saved_account(name)?));
        let saved = SavedScheduler {
            classes: self.scheduler.saved_classes(),
            accounts: names.iter().filter_map(account).collect(),
            jobs: self.scheduler.job_ids().filter_map(|id| self.scheduler.saved_job(id)).collect(),
            counters: self.scheduler.saved_counters(),
            site: self.scheduler.saved_site(),
        };
        let stages: BTreeMap<JobId, Option<SuspensionStage>> =
            self.scheduler.job_ids().map(|id| (id, self.scheduler.stage_of(id))).collect();
        let policy = self.scheduler.policy().clone();
        self.scheduler = Scheduler::restore(Millis(self.now), policy, &nodes, saved).unwrap();
        self.scheduler.check_invariants().unwrap();
        for (id, stage) in stages {
            assert_eq!(self.scheduler.stage_of(id), stage, "job {id}");
        }
    }

    /// Ends all jobs that run, and lets agents carry all orders out, until only suspended jobs are left.
    fn settle(&mut self) {
        (0..NODES).for_each(|id| self.happens(Event::Joined(id)));
        for _ in 0..40 {
            self.now += ANSWER_MS;
            self.give(Input::Tick);
            for job in self.scheduler.job_ids().collect::<Vec<_>>() {
                let phase = self.scheduler.job(job).map(|job| job.phase);
                for node in (0..NODES).map(NodeId) {
                    match (phase, self.scheduler.stage_of(job)) {
                        (Some(Phase::Releasing), _) => self.give(Input::Released { job, node }),
                        (_, Some(SuspensionStage::Suspending)) => {
                            self.give(Input::Suspended { job, node, outcome: Ok(()) });
                        }
                        (_, Some(SuspensionStage::Resuming | SuspensionStage::Undoing)) => {
                            self.give(Input::Resumed { job, node, outcome: Ok(()) });
                        }
                        _ => {}
                    }
                }
                if self.scheduler.stage_of(job).is_none() {
                    self.give(Input::Cancel { job, by: "eva".to_owned() });
                }
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Ask(request) => self.give(Input::Ask {
                user: "eva".to_owned(),
                account: "site".to_owned(),
                origin: None,
                request: request.parse().unwrap(),
            }),
            Event::Suspend(job) => {
                self.give(Input::Suspend { job: JobId(job), by: "admin".to_owned(), reason: String::new() });
            }
            Event::Resume(job) => self.give(Input::Resume { job: JobId(job), by: "admin".to_owned() }),
            Event::Answer(node, is_done) => {
                let Some(at) = self.orders.iter().position(|(of, ..)| of.0 == node) else { return };
                let (node, job, suspend) = self.orders.remove(at);
                let outcome = if is_done { Ok(()) } else { Err("no memory".to_owned()) };
                self.give(match suspend {
                    true => Input::Suspended { job, node, outcome },
                    false => Input::Resumed { job, node, outcome },
                });
            }
            Event::Cancel(job) => self.give(Input::Cancel { job: JobId(job), by: "eva".to_owned() }),
            Event::Limit(job, limit_ms) => {
                self.give(Input::SetLimit { job: JobId(job), limit_ms, by: "admin".to_owned() });
            }
            Event::Lost(id) => {
                self.up[id as usize] = false;
                self.give(Input::NodeLost(NodeId(id)));
            }
            Event::Left(id) => {
                self.up[id as usize] = false;
                self.orders.retain(|(node, ..)| node.0 != id);
                self.give(Input::NodeLeft(NodeId(id)));
            }
            Event::Joined(id) => {
                self.up[id as usize] = true;
                self.give(Input::NodeJoined(node(id, self.incarnations[id as usize])));
            }
            Event::Released(job, id) => self.give(Input::Released { job: JobId(job), node: NodeId(id) }),
            Event::Wait(ms) => {
                self.now += ms;
                self.give(Input::Tick);
            }
            Event::Restart => self.restart(),
        }
    }
}

proptest! {
    #[test]
    fn suspended_jobs_keep_the_invariants_and_go_on(
        events in prop::collection::vec(event(), 1..120),
        exempt_ms in prop::sample::select(&[0u64, 300_000]),
    ) {
        let mut scheduler = Scheduler::new(policy(exempt_ms));
        scheduler.note_changes();
        let mut site =
            Site { scheduler, now: 1, incarnations: [1; NODES as usize], up: [true; NODES as usize], orders: Vec::new() };
        for id in 0..NODES {
            site.give(Input::NodeJoined(node(id, 1)));
        }
        for event in events {
            site.happens(event);
        }
        site.settle();
        for job in site.scheduler.job_ids() {
            let suspension = site.scheduler.suspension(job);
            let cause = suspension.as_ref().map(|suspension| suspension.cause.preempted_by());
            prop_assert_eq!(cause, Some(None), "job {} does not go on: {:?}", job, suspension);
        }
    }
}

/// Starts a job that has both devices of a node, and returns a function that gives inputs at a time.
fn one_job(limit: &str) -> impl FnMut(u64, Input) -> (Vec<Effect>, Option<SuspensionStage>) {
    let mut scheduler = Scheduler::new(Policy::default());
    let mut give = move |at: u64, input: Input| {
        let mut effects = Vec::new();
        scheduler.apply(Millis(at), input, &mut effects);
        scheduler.check_invariants().unwrap();
        let stage = scheduler.stage_of(JobId(1));
        (effects, stage)
    };
    give(0, Input::NodeJoined(node(0, 1)));
    let request = format!("2:nvidia limit={limit}").parse().unwrap();
    give(0, Input::Ask { user: "eva".to_owned(), account: "site".to_owned(), origin: None, request });
    give
}

fn suspend() -> Input {
    Input::Suspend { job: JobId(1), by: "admin".to_owned(), reason: String::new() }
}

fn suspended(outcome: Result<(), String>) -> Input {
    Input::Suspended { job: JobId(1), node: NodeId(0), outcome }
}

fn resumed(outcome: Result<(), String>) -> Input {
    Input::Resumed { job: JobId(1), node: NodeId(0), outcome }
}

fn resume() -> Input {
    Input::Resume { job: JobId(1), by: "admin".to_owned() }
}

#[test]
fn the_limit_stands_still_while_a_job_is_suspended() {
    let mut give = one_job("1h");
    give(600_000, suspend());
    give(601_000, suspended(Ok(())));
    assert_eq!(give(90_000_000, resume()).1, Some(SuspensionStage::Resuming));
    let (effects, stage) = give(90_001_000, resumed(Ok(())));
    let ends = effects.iter().find_map(|effect| match effect {
        Effect::LeaseEnds { ends, .. } => Some(ends.0),
        _ => None,
    });
    // Ten minutes had passed.
    assert_eq!((stage, ends), (None, Some(90_001_000 + 3_000_000)));
}

#[test]
fn an_agent_that_does_not_answer_ends_the_attempt() {
    let mut give = one_job("1h");
    give(1_000, suspend());
    let (effects, stage) = give(1_000_000, Input::Tick);
    assert_eq!(stage, Some(SuspensionStage::Undoing));
    let failed = |effect: &Effect| matches!(effect, Effect::SuspensionFailed { why, .. } if why.contains("h0"));
    assert!(effects.iter().any(failed), "{effects:?}");
    // Its work may be held back until the agent has obeyed.
    let (effects, stage) = give(2_000_000, Input::Tick);
    assert_eq!(stage, Some(SuspensionStage::Undoing));
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resume { .. })), "{effects:?}");
    assert_eq!(give(2_000_001, resumed(Ok(()))).1, None, "the job goes on");
}

#[test]
fn a_refused_undoing_is_tried_again_after_a_while() {
    let mut give = one_job("1h");
    let orders = |effects: &[Effect]| effects.iter().filter(|effect| matches!(effect, Effect::Resume { .. })).count();
    give(1_000, suspend());
    assert_eq!(orders(&give(2_000, suspended(Err("busy".to_owned()))).0), 1);
    let (effects, stage) = give(3_000, resumed(Err("no memory".to_owned())));
    assert_eq!((orders(&effects), stage), (0, Some(SuspensionStage::Undoing)), "{effects:?}");
    assert_eq!(orders(&give(7_000, Input::Tick).0), 0);
    assert_eq!(orders(&give(8_000, Input::Tick).0), 1);
    assert_eq!(give(9_000, resumed(Ok(()))).1, None, "the job goes on");
}

#[test]
fn devices_of_a_job_that_is_to_be_resumed_take_no_other_job() {
    let mut give = one_job("1h");
    let ask = |request: &str| Input::Ask {
        user: "eva".to_owned(),
        account: "site".to_owned(),
        origin: None,
        request: request.parse().unwrap(),
    };
    let started = |effects: &[Effect], job: u64| {
        effects.iter().any(|effect| matches!(effect, Effect::Started { job: started, .. } if started.0 == job))
    };
    give(1, suspend());
    give(2, suspended(Ok(())));
    assert!(started(&give(3, ask("1:nvidia limit=10m")).0, 2));
    assert_eq!(give(4, resume()).1, Some(SuspensionStage::Waiting));
    // One device is free, and kept for the job that waits.
    assert!(!started(&give(5, ask("1:nvidia limit=1m")).0, 3));
    give(6, Input::Cancel { job: JobId(2), by: "eva".to_owned() });
    let (effects, stage) = give(7, Input::Released { job: JobId(2), node: NodeId(0) });
    assert_eq!(stage, Some(SuspensionStage::Resuming));
    assert!(!started(&effects, 3), "{effects:?}");
}
