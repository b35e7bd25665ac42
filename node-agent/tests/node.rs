//! The rules of an agent, one by one and under random orders of events, with the test's own clock.

mod granted;

use accord_fabric::ending::ExecutorEnding;
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::Endpoint;
use accord_node_agent::node::{
    AgentEnding, AgentReport, CommandLane, Disconnect, DriverId, EXECUTORS_MAX, Effect, ExecutorId, LanePath, Node,
    ProcessId, Quota,
};
use accord_types::{HeldDevice, JobGrant, JobToken, NodeId, SessionGrant, SessionId, SessionKey};
use granted::grant;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const HERE: LanePath = LanePath { leaves_machine: false, is_of_world: false };

/// An agent under the test's control.
struct Bench {
    node: Node,
    now: Duration,
    ends: Vec<ExecutorId>,
}

impl Bench {
    /// Returns an agent that has registered.
    fn new() -> Self {
        let mut bench = Self { node: Node::new("h1".into(), false, false), now: Duration::ZERO, ends: Vec::new() };
        bench.poll();
        bench.register();
        bench
    }

    fn register(&mut self) {
        let endpoint = Endpoint::new(NodeId(3), "10.0.0.1:7");
        self.node.registered(self.now, endpoint, Duration::from_millis(500));
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn poll(&mut self) -> Vec<Effect> {
        let mut effects = self.node.poll(self.now, &mut self.ends);
        self.node.check_invariants(self.now).unwrap();
        // `uses.rs` tests these.
        effects.retain(|effect| !matches!(effect, Effect::Send(AgentReport::UseEnded(_))));
        effects
    }

    fn begin(&mut self, lane: &mut CommandLane) -> Result<Option<ExecutorId>, String> {
        self.node.begin(self.now, lane, &mut self.ends).map_err(|error| error.cause().to_owned())
    }

    /// Starts an executor of the session.
    fn run(&mut self, session: SessionId) -> ExecutorId {
        let mut lane = CommandLane::new(self.now, session);
        let executor = self.begin(&mut lane).unwrap().expect("there is none yet");
        self.node.started(self.now, session, executor, &mut self.ends);
        executor
    }

    fn close(&mut self, session: SessionId) {
        self.node.closed(self.now, session, "", &mut self.ends);
    }

    fn lose(&mut self, why: Disconnect) -> Duration {
        self.node.disconnected(self.now, why);
        self.node.next().map_or(Duration::MAX, |next| next - self.now)
    }
}

fn unreachable() -> Disconnect {
    Disconnect::Unreachable("nothing listens".to_owned())
}

fn connects(effects: &[Effect]) -> Option<Vec<SessionId>> {
    effects.iter().find_map(|effect| match effect {
        Effect::Connect { sessions, .. } => Some(sessions.iter().map(|grant| grant.session).collect()),
        _ => None,
    })
}

#[test]
fn pauses_grow_until_a_coordinator_registers_the_node() {
    let mut bench = Bench::new();
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let pause = bench.lose(unreachable());
        pauses.push(pause.as_millis());
        bench.now += pause;
        assert!(connects(&bench.poll()).is_some());
    }
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1_000, 1_000]);
    bench.register();
    assert_eq!(bench.lose(unreachable()), Duration::from_millis(50));
}

#[test]
fn a_refusal_ends_an_agent_that_was_never_in_and_no_other_one() {
    let refused = || Disconnect::Refused("another authority".to_owned());
    let mut node = Node::new("h1".into(), false, false);
    node.poll(Duration::ZERO, &mut Vec::new());
    node.disconnected(Duration::ZERO, refused());
    let ending = Effect::Leave(AgentEnding::Refused("another authority".to_owned()));
    assert_eq!(node.poll(Duration::ZERO, &mut Vec::new()), [ending]);
    // The effect is returned once, and nothing happens afterwards.
    node.disconnected(Duration::ZERO, unreachable());
    assert!(node.poll(Duration::from_secs(9), &mut Vec::new()).is_empty());

    let mut bench = Bench::new();
    assert_eq!(bench.lose(refused()), Duration::from_secs(1));
    assert!(bench.poll().is_empty());
    bench.pass(1_000);
    assert!(connects(&bench.poll()).is_some());
    bench.node.disconnected(bench.now, Disconnect::Replaced("a later one".to_owned()));
    assert_eq!(bench.poll(), [Effect::Leave(AgentEnding::Refused("a later one".to_owned()))]);
}

#[test]
fn a_world_ends_with_any_of_its_nodes() {
    let mut bench = Bench::new();
    bench.poll();
    bench.node.node_lost("h2", false);
    assert!(bench.poll().is_empty());
    bench.node.node_lost("h2", true);
    assert_eq!(bench.poll(), [Effect::Leave(AgentEnding::WorldLost("h2".to_owned()))]);
}

#[test]
fn the_coordinator_is_told_of_executors_before_a_heartbeat_names_them() {
    let mut bench = Bench::new();
    assert_eq!(bench.poll(), [Effect::Send(AgentReport::Heartbeat(vec![]))]);
    bench.node.opened(bench.now, grant(A, None));
    let executor = bench.run(A);
    bench.pass(500);
    let words = bench.poll();
    assert_eq!(
        words,
        [Effect::Send(AgentReport::Started(grant(A, None))), Effect::Send(AgentReport::Heartbeat(vec![A]))]
    );
    assert!(!bench.node.ended(A, executor, "signal: 6 (SIGABRT)"));
    assert_eq!(bench.poll(), [Effect::Send(AgentReport::Ended(A, "signal: 6 (SIGABRT)".to_owned()))]);
    assert!(bench.poll().is_empty());
}

/// Events during a registration are reported after it, because the registration could not contain them.
#[test]
fn events_during_registration_are_reported_after_it() {
    let mut bench = Bench::new();
    bench.poll();
    bench.node.opened(bench.now, grant(A, None));
    bench.node.opened(bench.now, grant(B, None));
    let executor = bench.run(A);
    let pause = bench.lose(unreachable());
    bench.now += pause;
    assert_eq!(connects(&bench.poll()), Some(vec![A]));
    bench.run(B);
    bench.node.ended(A, executor, "");
    assert!(bench.poll().is_empty());
    bench.register();
    let words = bench.poll();
    assert_eq!(words[0], Effect::Send(AgentReport::Ended(A, String::new())));
    assert_eq!(words[1], Effect::Send(AgentReport::Started(grant(B, None))));
}

#[test]
fn a_second_command_lane_waits_for_the_end_of_the_first_ones_executor() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    let first = bench.run(A);
    bench.poll();
    let (mut second, mut third) = (CommandLane::new(bench.now, A), CommandLane::new(bench.now, A));
    assert_eq!(bench.begin(&mut second), Ok(None));
    assert_eq!(bench.begin(&mut third), Ok(None));
    assert_eq!(std::mem::take(&mut bench.ends), [first]);
    // The session goes on here, so its end is not reported.
    bench.node.ended(A, first, "signal: 9 (SIGKILL)");
    assert!(bench.poll().is_empty());
    assert!(bench.node.executor_of(bench.now, A).is_err());
    let next = bench.begin(&mut second).unwrap().unwrap();
    assert_ne!(next, first);
    assert!(bench.begin(&mut third).unwrap_err().contains("just being opened"));
    // The rejected program, which may be the second lane's, tries again.
    let mut again = CommandLane::new(bench.now, A);
    assert!(bench.node.begin(bench.now, &mut again, &mut bench.ends).unwrap_err().is_transient());
    bench.node.started(bench.now, A, next, &mut bench.ends);
    assert_eq!(bench.node.executor_of(bench.now, A).unwrap(), next);
    assert!(bench.ends.is_empty() && bench.poll().is_empty());
    // Late events of the first executor do not affect the second.
    bench.node.unreachable(A, first, &mut bench.ends);
    bench.node.ended(A, first, "");
    assert_eq!(bench.node.executor_of(bench.now, A).unwrap(), next);
}

#[test]
fn an_executor_that_does_not_end_blocks_no_session_for_ever() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    bench.run(A);
    let mut lane = CommandLane::new(bench.now, A);
    assert_eq!(bench.begin(&mut lane), Ok(None));
    bench.now = Node::begun_within(&lane);
    assert!(bench.begin(&mut lane).unwrap_err().contains("does not end"));
    bench.poll();
    assert!(bench.node.running(bench.now).is_empty(), "it counts as one that goes on");
}

#[test]
fn lane_without_an_executor_gets_the_previous_end_reason() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    let reported = |bench: &Bench| bench.node.executor_of(bench.now, A).unwrap_err();
    assert_eq!(reported(&bench).cause(), "session s1 has no executor on node h1 any more");
    let executor = bench.run(A);
    assert_eq!(bench.node.executor_of(bench.now, A).unwrap(), executor);
    bench.node.ended(A, executor, "exit status: 1");
    let error = reported(&bench);
    assert!(error.cause().ends_with("any more: its process has ended: exit status: 1"), "{error}");
    assert_eq!(error.remedy_text(), Some("see the agent's messages"));
    // For an orderly end there is no reason to report.
    let executor = bench.run(A);
    bench.node.ended(A, executor, "");
    assert_eq!(reported(&bench).cause(), "session s1 has no executor on node h1 any more");
}

#[test]
fn a_session_that_ends_while_its_executor_starts_has_none() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    let mut lane = CommandLane::new(bench.now, A);
    let executor = bench.begin(&mut lane).unwrap().unwrap();
    bench.close(A);
    assert!(bench.ends.is_empty(), "there is nothing yet that could end");
    bench.node.started(bench.now, A, executor, &mut bench.ends);
    assert_eq!(bench.ends, [executor]);
    assert!(!bench.node.is_idle());
    assert!(bench.node.ended(A, executor, "signal: 9 (SIGKILL)"), "that was to be expected");
    assert!(bench.node.is_idle());
}

#[test]
fn a_session_ends_with_its_time_whether_a_coordinator_is_there_or_not() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, Some(300)));
    let executor = bench.run(A);
    bench.poll();
    bench.lose(unreachable());
    bench.pass(299);
    bench.poll();
    assert!(bench.ends.is_empty());
    bench.pass(1);
    bench.poll();
    assert_eq!(bench.ends, [executor]);
    let mut lane = CommandLane::new(bench.now, A);
    assert!(bench.begin(&mut lane).unwrap_err().contains("has ended"));
}

#[test]
fn a_lane_waits_for_the_word_of_its_session() {
    let mut bench = Bench { node: Node::new("h1".into(), false, false), now: Duration::ZERO, ends: Vec::new() };
    bench.poll();
    let since = bench.now;
    let key_of = |bench: &Bench| {
        bench.node.key_of(bench.now, Purpose::Command, A, since).map_err(|error| error.cause().to_owned())
    };
    assert_eq!(key_of(&bench), Ok(None));
    bench.register();
    assert_eq!(key_of(&bench), Ok(None));
    bench.now = Node::key_within(since);
    assert!(key_of(&bench).unwrap_err().contains("has not told node h1"));
    bench.node.opened(bench.now, grant(A, None));
    assert_eq!(key_of(&bench), Ok(Some(grant(A, None).key)));
    bench.close(A);
    assert!(key_of(&bench).unwrap_err().contains("has ended"));
}

#[test]
fn lanes_for_another_node_or_in_clear_are_refused() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    let hello = Hello::new(Purpose::Bulk, A, 0, PeerId::PROGRAM);
    let admit = |hello: &Hello, way| bench.node.admit(bench.now, hello, way).is_ok();
    assert!(admit(&hello, HERE) && admit(&hello, LanePath { is_of_world: true, leaves_machine: true }));
    assert!(!admit(&hello, LanePath { leaves_machine: true, ..HERE }), "in clear");
    assert!(admit(&Hello { secure: true, ..hello }, LanePath { leaves_machine: true, ..HERE }));
    assert!(admit(&Hello { to: Some(NodeId(3)), ..hello }, HERE));
    assert!(!admit(&Hello { to: Some(NodeId(2)), ..hello }, HERE), "another node is meant");
    assert!(!admit(&Hello { session: B, ..hello }, HERE), "it was not announced");
}

/// An event. The number chooses a session, a lane or an executor.
#[derive(Clone, Copy, Debug)]
enum AgentInput {
    Opened(usize),
    Closed(usize),
    Lane(usize),
    Started(usize),
    NotStarted(usize),
    Ended(usize),
    Unreachable(usize),
    Lost,
    Registered,
    Passes(u64),
}

fn happens() -> impl Strategy<Value = AgentInput> {
    let any = 0..8usize;
    prop_oneof![
        2 => any.clone().prop_map(AgentInput::Opened),
        1 => any.clone().prop_map(AgentInput::Closed),
        6 => any.clone().prop_map(AgentInput::Lane),
        6 => any.clone().prop_map(AgentInput::Started),
        1 => any.clone().prop_map(AgentInput::NotStarted),
        4 => any.clone().prop_map(AgentInput::Ended),
        1 => any.prop_map(AgentInput::Unreachable),
        1 => Just(AgentInput::Lost),
        2 => Just(AgentInput::Registered),
        3 => (0..5_000u64).prop_map(AgentInput::Passes),
    ]
}

/// The surroundings of an agent's rules.
struct AgentModel {
    bench: Bench,
    granted: BTreeSet<SessionId>,
    closed: BTreeSet<SessionId>,
    waiting: Vec<(SessionId, CommandLane)>,
    starting: BTreeMap<ExecutorId, SessionId>,
    hosts: BTreeMap<ExecutorId, SessionId>,
    connecting: bool,
    /// The sessions that the coordinator believes to run here.
    reported: BTreeSet<SessionId>,
}

impl AgentModel {
    fn happen(&mut self, what: AgentInput) {
        let session = |index: usize| SessionId(index as u64 % 3);
        let nth = |of: &BTreeMap<ExecutorId, SessionId>, index: usize| {
            of.iter().nth(index % of.len().max(1)).map(|(executor, session)| (*executor, *session))
        };
        let bench = &mut self.bench;
        match what {
            AgentInput::Opened(index) => {
                bench.node.opened(bench.now, grant(session(index), None));
                self.granted.insert(session(index));
            }
            AgentInput::Closed(index) => {
                bench.close(session(index));
                self.closed.insert(session(index));
            }
            AgentInput::Lane(index) => {
                self.waiting.push((session(index), CommandLane::new(bench.now, session(index))));
            }
            AgentInput::Started(index) => {
                if let Some((executor, session)) = nth(&self.starting, index) {
                    self.starting.remove(&executor);
                    self.hosts.insert(executor, session);
                    bench.node.started(bench.now, session, executor, &mut bench.ends);
                }
            }
            AgentInput::NotStarted(index) => {
                if let Some((executor, session)) = nth(&self.starting, index) {
                    self.starting.remove(&executor);
                    bench.node.not_started(session, executor);
                }
            }
            AgentInput::Ended(index) => {
                if let Some((executor, session)) = nth(&self.hosts, index) {
                    self.hosts.remove(&executor);
                    bench.node.ended(session, executor, "");
                }
            }
            AgentInput::Unreachable(index) => {
                if let Some((executor, session)) = nth(&self.hosts, index) {
                    bench.node.unreachable(session, executor, &mut bench.ends);
                }
            }
            AgentInput::Lost if bench.node.is_in() || self.connecting => {
                self.connecting = false;
                bench.node.disconnected(bench.now, unreachable());
            }
            AgentInput::Registered if self.connecting => {
                self.connecting = false;
                bench.register();
            }
            AgentInput::Lost | AgentInput::Registered => {}
            AgentInput::Passes(ms) => bench.pass(ms),
        }
    }

    /// Retries all waiting lanes, then polls.
    fn settle(&mut self) {
        for (session, mut lane) in std::mem::take(&mut self.waiting) {
            match self.bench.begin(&mut lane) {
                Ok(Some(executor)) => {
                    assert!(self.granted.contains(&session) && !self.closed.contains(&session), "{session}");
                    let of = |of: &BTreeMap<_, SessionId>| of.values().any(|other| *other == session);
                    assert!(!of(&self.starting) && !of(&self.hosts), "{session} has two executors");
                    self.starting.insert(executor, session);
                }
                Ok(None) => {
                    assert!(self.bench.now < Node::begun_within(&lane), "it waits for ever");
                    self.waiting.push((session, lane));
                }
                Err(_) => {}
            }
        }
        for effect in self.bench.poll() {
            match effect {
                Effect::Connect { sessions, .. } => {
                    self.connecting = true;
                    self.reported = sessions.iter().map(|grant| grant.session).collect();
                }
                Effect::Send(AgentReport::Started(grant)) => assert!(self.reported.insert(grant.session)),
                Effect::Send(AgentReport::Ended(session, _)) => assert!(self.reported.remove(&session)),
                Effect::Send(AgentReport::Heartbeat(sessions)) => {
                    assert_eq!(sessions.iter().copied().collect::<BTreeSet<_>>(), self.reported);
                }
                Effect::Send(AgentReport::Measured(_) | AgentReport::PathMeasured { .. }) | Effect::Measure => {
                    panic!("it was told not to measure: {effect:?}")
                }
                Effect::Send(AgentReport::Used(_) | AgentReport::UseEnded(_) | AgentReport::Loads(_)) => {
                    panic!("nothing is used: {effect:?}")
                }
                Effect::Send(AgentReport::Leaving) => panic!("the agent was not told to stop"),
                Effect::Send(AgentReport::JobReleased(job)) => panic!("no job is released, and {job:?} is said to be"),
                Effect::RunScript(..) | Effect::Send(AgentReport::ScriptFailed(..)) => {
                    panic!("the site has no scripts")
                }
                Effect::Send(AgentReport::Tested(..)) | Effect::Test(..) => {
                    panic!("no device is to be tested: {effect:?}")
                }
                Effect::Suspend(..) | Effect::Send(AgentReport::JobSuspended(..)) => {
                    panic!("no job is to be suspended: {effect:?}")
                }
                Effect::EndProcess(..) => panic!("no program drives devices"),
                Effect::Leave(why) => panic!("{why:?}"),
            }
        }
        for executor in std::mem::take(&mut self.bench.ends) {
            assert!(self.hosts.contains_key(&executor), "{executor:?} is not there");
        }
        if self.bench.node.is_in() {
            assert_eq!(self.reported, self.bench.node.running(self.bench.now));
        }
    }
}

/// Starts sessions of `users` in turn until each user is refused. Returns each user's number of sessions and last
/// refusal.
fn fill(bench: &mut Bench, users: &[&str]) -> Vec<(usize, String)> {
    let mut counts = vec![(0, String::new()); users.len()];
    let mut session = 0;
    while counts.iter().any(|(_, why)| why.is_empty()) {
        for (user, (count, why)) in users.iter().zip(&mut counts).filter(|(_, (_, why))| why.is_empty()) {
            session += 1;
            let one = SessionId(session);
            bench.node.opened(bench.now, SessionGrant { user: (*user).to_owned(), ..grant(one, None) });
            let mut lane = CommandLane::new(bench.now, one);
            match bench.begin(&mut lane) {
                Ok(executor) => {
                    bench.node.started(bench.now, one, executor.unwrap(), &mut bench.ends);
                    *count += 1;
                }
                Err(refused) => *why = refused,
            }
            bench.poll();
        }
    }
    counts
}

#[test]
fn no_user_takes_all_executors_of_a_node_and_few_are_left_to_others() {
    let mut bench = Bench::new();
    let all = fill(&mut bench, &["alice"]);
    assert_eq!(all[0].0, EXECUTORS_MAX / 2);
    assert!(all[0].1.contains("user alice has 512 sessions there, the quota of one user (--user-sessions"), "{all:?}");
    // A lane is refused for the same reason before its admission.
    let hello = Hello::new(Purpose::Command, SessionId(513), 0, PeerId::PROGRAM);
    assert!(bench.node.admit(bench.now, &hello, HERE).unwrap_err().cause().contains("quota of one user"));
    // Processes that the kernel does not end count, too.
    let first = bench.node.running(bench.now).into_iter().next().unwrap();
    assert_eq!(first, A);
    bench.node.remains("alice");
    bench.close(A);
    bench.node.ended(A, ExecutorId(1), "");
    let mut lane = CommandLane::new(bench.now, SessionId(513));
    assert!(bench.begin(&mut lane).is_err());
    bench.node.remains_gone("alice");
    assert!(bench.begin(&mut lane).is_ok());

    let mut bench = Bench::new();
    let all = fill(&mut bench, &["alice", "bob"]);
    assert_eq!(all.iter().map(|(count, _)| count).sum::<usize>(), EXECUTORS_MAX - 128);
    assert!(all[1].1.contains("the others are for users with fewer"), "{all:?}");
    // A third user still gets some.
    let mut lane = CommandLane::new(bench.now, SessionId(5_000));
    bench.node.opened(bench.now, SessionGrant { user: "carol".to_owned(), ..grant(SessionId(5_000), None) });
    assert!(bench.begin(&mut lane).unwrap().is_some());

    let node = Node::new("h1".into(), false, false).with_quota(Quota::of_one_user());
    let mut bench = Bench { node, now: Duration::ZERO, ends: Vec::new() };
    bench.poll();
    bench.register();
    let all = fill(&mut bench, &["alice"]);
    assert_eq!(all[0].0, EXECUTORS_MAX);
    assert!(all[0].1.contains("its agent's limit"), "{all:?}");
}

proptest! {
    #[test]
    fn random_events_leave_one_reported_executor_per_session(
        events in prop::collection::vec(happens(), 0..80)
    ) {
        let mut around = AgentModel {
            bench: Bench::new(),
            granted: BTreeSet::new(),
            closed: BTreeSet::new(),
            waiting: Vec::new(),
            starting: BTreeMap::new(),
            hosts: BTreeMap::new(),
            connecting: false,
            reported: BTreeSet::new(),
        };
        for event in events {
            around.happen(event);
            around.settle();
        }
        // Everything ends once the sessions are closed.
        (0..3).for_each(|index| around.happen(AgentInput::Closed(index)));
        while !around.starting.is_empty() {
            around.happen(AgentInput::Started(0));
        }
        around.settle();
        prop_assert!(around.waiting.is_empty());
        while !around.hosts.is_empty() {
            around.happen(AgentInput::Ended(0));
        }
        around.settle();
        prop_assert!(around.bench.node.is_idle());
    }
}

#[test]
fn a_job_is_released_once_its_executors_have_ended() {
    let (mut bench, job) = (Bench::new(), SessionKey([9; SessionKey::LEN]));
    let token = JobToken { job: 1, key: job };
    let grant_of_job = JobGrant {
        token,
        user: "alice".to_owned(),
        account: "site/alice".to_owned(),
        ends_in_ms: None,
        devices: vec![HeldDevice {
            ordinal: 0,
            milli: 1_000,
            memory: 0,
            exclusive: true,
            milli_cores: 0,
            host_memory: 0,
        }],
        sessions: Vec::new(),
        is_suspended: false,
    };
    bench.node.job_started(bench.now, grant_of_job.clone());
    bench.node.opened(bench.now, SessionGrant { job: Some(job), ..grant(A, None) });
    bench.node.opened(bench.now, grant(B, None));
    let (executor, other) = (bench.run(A), bench.run(B));
    bench.poll();
    // A restarted coordinator learns of the job.
    let pause = bench.lose(unreachable());
    bench.now += pause;
    let effects = bench.poll();
    let jobs = effects.iter().find_map(|effect| match effect {
        Effect::Connect { jobs, .. } => Some(jobs),
        _ => None,
    });
    assert_eq!(jobs, Some(&vec![JobGrant { sessions: vec![A], ..grant_of_job }]));
    bench.register();

    let released = |effects: &[Effect]| effects.contains(&Effect::Send(AgentReport::JobReleased(job)));
    bench.node.release(job, &mut bench.ends);
    assert_eq!(bench.ends, [executor]);
    assert!(!released(&bench.poll()));
    bench.node.ended(A, executor, "");
    assert!(released(&bench.poll()));
    // The coordinator may repeat the order, because the answer may have been lost.
    bench.node.release(job, &mut bench.ends);
    assert!(released(&bench.poll()) && !released(&bench.poll()));
    assert_eq!(bench.node.executor_of(bench.now, B).unwrap(), other);
}

fn exclusive(job: SessionKey, ends_in_ms: Option<u64>) -> JobGrant {
    JobGrant {
        token: JobToken { job: 1, key: job },
        user: "alice".to_owned(),
        account: "site/alice".to_owned(),
        ends_in_ms,
        devices: vec![HeldDevice {
            ordinal: 0,
            milli: 1_000,
            memory: 0,
            exclusive: true,
            milli_cores: 0,
            host_memory: 0,
        }],
        sessions: Vec::new(),
        is_suspended: false,
    }
}

const PROCESS: ProcessId = ProcessId { pid: 17, started: 4 };

/// Returns an agent whose device a program of a job drives itself.
fn driven(ends_in_ms: Option<u64>) -> (Bench, SessionKey, DriverId) {
    let (mut bench, job) = (Bench::new(), SessionKey([9; SessionKey::LEN]));
    bench.node.job_started(bench.now, exclusive(job, ends_in_ms));
    bench.node.opened(bench.now, SessionGrant { job: Some(job), ..grant(A, None) });
    let driver = bench.node.drives(bench.now, A, Some(PROCESS)).unwrap();
    (bench, job, driver)
}

fn is_released(effects: &[Effect], job: SessionKey) -> bool {
    effects.contains(&Effect::Send(AgentReport::JobReleased(job)))
}

#[test]
fn a_job_is_released_once_its_program_drives_no_device() {
    let (mut bench, job, driver) = driven(None);
    let effects = bench.poll();
    assert!(
        effects.iter().any(|effect| matches!(effect, Effect::Send(AgentReport::Started(grant)) if grant.session == A))
    );
    bench.node.closed(bench.now, A, "its job has ended", &mut bench.ends);
    bench.node.release(job, &mut bench.ends);
    assert!(!is_released(&bench.poll(), job));
    bench.node.drives_no_longer(driver);
    assert!(is_released(&bench.poll(), job));
}

#[test]
fn a_program_that_does_not_heed_its_job_s_end_is_ended_and_one_that_does_is_not() {
    for heeds in [false, true] {
        let (mut bench, job, driver) = driven(None);
        bench.node.closed(bench.now, A, "its job has ended", &mut bench.ends);
        bench.node.release(job, &mut bench.ends);
        bench.poll();
        if heeds {
            bench.node.drives_no_longer(driver);
        }
        bench.pass(29_000);
        let ends = |effects: Vec<Effect>| effects.contains(&Effect::EndProcess(driver, PROCESS));
        assert!(!ends(bench.poll()));
        bench.pass(1_000);
        assert_eq!(ends(bench.poll()), !heeds);
    }
}

/// A job that goes on elsewhere lost this node for a while: its program was not asked to stop.
#[test]
fn a_program_of_a_job_that_has_lost_the_node_is_waited_for_and_not_ended() {
    let (mut bench, job, driver) = driven(None);
    bench.node.release(job, &mut bench.ends);
    bench.pass(60_000);
    let effects = bench.poll();
    assert!(!is_released(&effects, job) && !effects.contains(&Effect::EndProcess(driver, PROCESS)), "{effects:?}");
    bench.node.drives_no_longer(driver);
    assert!(is_released(&bench.poll(), job));
}

#[test]
fn an_agent_that_is_started_again_names_what_the_one_before_has_kept() {
    let (bench, job, _) = driven(None);
    let kept = bench.node.kept(bench.now);
    let mut again = Bench { node: Node::new("h1".into(), false, false), now: Duration::ZERO, ends: Vec::new() };
    again.node.resume(again.now, kept);
    let effects = again.poll();
    let Some(Effect::Connect { previous, sessions, jobs, .. }) = effects.first() else { panic!("{effects:?}") };
    assert_eq!((previous, connects(&effects)), (&Some(NodeId(3)), Some(vec![A])));
    assert_eq!((sessions.len(), jobs), (1, &vec![JobGrant { sessions: vec![A], ..exclusive(job, None) }]));
    again.register();
    let [(driver, process)] = again.node.unwatched_drivers()[..] else { panic!("one process is looked after") };
    assert_eq!(process, PROCESS);
    again.node.closed(again.now, A, "its job has ended", &mut again.ends);
    again.node.release(job, &mut again.ends);
    assert!(!is_released(&again.poll(), job));
    again.node.drives_no_longer(driver);
    assert!(is_released(&again.poll(), job));
}

#[test]
fn a_job_ends_at_its_limit_though_no_coordinator_is_there_and_a_later_limit_counts() {
    let (mut bench, job, driver) = driven(Some(1_000));
    bench.node.opened(bench.now, SessionGrant { job: Some(job), ..grant(B, None) });
    let executor = bench.run(B);
    bench.poll();
    bench.pass(500);
    bench.node.job_started(bench.now, exclusive(job, Some(1_500)));
    bench.lose(unreachable());
    bench.pass(1_000);
    bench.poll();
    assert!(bench.ends.is_empty(), "the later limit counts");
    bench.pass(500);
    bench.poll();
    assert_eq!(bench.ends, [executor]);
    let Some(ExecutorEnding::Session(why)) = bench.node.ending(executor) else { panic!("the program is to know why") };
    assert!(why.contains("job 1 has ended: its time limit"), "{why}");
    // The program learns of its job's end from the coordinator, which now informs the agent, too.
    let ends = |effects: Vec<Effect>| effects.contains(&Effect::EndProcess(driver, PROCESS));
    bench.pass(60_000);
    assert!(!ends(bench.poll()));
    bench.node.release(job, &mut bench.ends);
    bench.node.closed(bench.now, A, "its job has ended", &mut bench.ends);
    bench.pass(30_000);
    assert!(ends(bench.poll()));
}

#[test]
fn a_program_that_does_not_heed_the_end_of_its_claim_is_ended() {
    for reason in ["", "its time is over"] {
        let (mut bench, _, driver) = driven(None);
        bench.node.claim_closed(bench.now, (A, grant(A, None).key), reason, &mut bench.ends);
        bench.poll();
        bench.pass(30_000);
        let ends = bench.poll().contains(&Effect::EndProcess(driver, PROCESS));
        assert_eq!(ends, !reason.is_empty());
    }
}

#[test]
fn a_claim_that_is_closed_ends_the_session_of_its_key_only_until_it_is_announced_again() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    let executor = bench.run(A);
    bench.node.claim_closed(bench.now, (A, SessionKey([9; SessionKey::LEN])), "", &mut bench.ends);
    bench.node.claim_closed(bench.now, (B, grant(B, None).key), "", &mut bench.ends);
    assert!(bench.node.serves(A) && bench.ends.is_empty());
    bench.node.opened(bench.now, grant(B, None));
    assert!(bench.node.serves(B));
    bench.node.claim_closed(bench.now, (A, grant(A, None).key), "", &mut bench.ends);
    assert!(!bench.node.serves(A));
    assert_eq!(bench.ends, [executor]);
    bench.node.opened(bench.now, grant(A, None));
    assert!(bench.node.serves(A));
}

const LEAVES: Effect = Effect::Leave(AgentEnding::Stopped);
const LONG: Duration = Duration::from_secs(60);

#[test]
fn stopped_agent_leaves_at_once_without_a_drain_time_or_at_the_second_signal() {
    for times in [&[Duration::ZERO][..], &[LONG, LONG]] {
        let mut bench = Bench::new();
        bench.node.opened(bench.now, grant(A, None));
        bench.run(A);
        times.iter().for_each(|time| bench.node.depart(bench.now, *time));
        assert_eq!(bench.poll().last(), Some(&LEAVES), "{times:?}");
        assert!(bench.poll().is_empty());
    }
}

#[test]
fn a_departing_agent_waits_for_sessions_and_jobs() {
    let (mut bench, job) = (Bench::new(), SessionKey([9; SessionKey::LEN]));
    bench.node.opened(bench.now, grant(A, None));
    let executor = bench.run(A);
    bench.node.job_started(bench.now, exclusive(job, None));
    bench.poll();
    bench.node.depart(bench.now, LONG);
    assert_eq!(bench.poll(), [Effect::Send(AgentReport::Leaving)]);
    // The coordinator has opened this one before it has heard that, and answers.
    bench.node.opened(bench.now, grant(B, None));
    assert!(!bench.node.drained(true));
    assert!(bench.poll().is_empty());
    bench.close(A);
    bench.node.ended(A, executor, "");
    assert!(!bench.poll().contains(&LEAVES));
    bench.close(B);
    assert!(!bench.poll().contains(&LEAVES));
    bench.node.release(job, &mut bench.ends);
    assert_eq!(bench.poll(), [Effect::Send(AgentReport::JobReleased(job)), LEAVES]);
}

#[test]
fn a_departing_agent_that_nothing_uses_waits_for_the_coordinators_answer() {
    let mut bench = Bench::new();
    assert!(bench.node.drained(true), "an order for longer");
    bench.poll();
    bench.node.depart(bench.now, LONG);
    assert_eq!(bench.poll(), [Effect::Send(AgentReport::Leaving)]);
    assert!(bench.poll().is_empty());
    // Nor is it lost with the connection.
    bench.node.opened(bench.now, grant(A, None));
    let pause = bench.lose(unreachable());
    bench.now += pause;
    assert!(connects(&bench.poll()).is_some());
    bench.register();
    // This one was on its way.
    bench.node.drained(true);
    bench.close(A);
    let effects = bench.poll();
    assert!(effects.contains(&Effect::Send(AgentReport::Leaving)) && !effects.contains(&LEAVES), "{effects:?}");
    bench.node.drained(true);
    assert_eq!(bench.poll(), [LEAVES]);
}

#[test]
fn a_departing_agent_leaves_when_its_time_is_over_or_no_coordinator_can_open_a_session() {
    let mut bench = Bench::new();
    bench.node.opened(bench.now, grant(A, None));
    bench.run(A);
    bench.node.depart(bench.now, LONG);
    bench.poll();
    bench.node.drained(true);
    bench.now += LONG - Duration::from_millis(1);
    assert!(!bench.poll().contains(&LEAVES));
    bench.pass(1);
    assert_eq!(bench.poll().last(), Some(&LEAVES));

    let mut bench = Bench::new();
    bench.lose(unreachable());
    bench.node.depart(bench.now, LONG);
    assert_eq!(bench.poll(), [LEAVES]);
}
