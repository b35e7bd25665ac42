//! Suspended jobs: orders to agents, sessions whose time stands still, and agents that are away meanwhile.

use crate::bench::{ALICE, Bench, KEY, registration};
use crate::requests::request;
use accord_cluster::{AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{Input as Scheduled, JobId, SuspensionStage};
use accord_types::{JobToken, SessionRequest};

const JOB: JobId = JobId(1);
const SESSION_MS: u64 = 3_600_000;

/// Creates a cluster with a node of two devices, which a job has to itself.
fn bench() -> Bench {
    let mut bench = Bench::of(Cluster::new(Limits { session_ms: SESSION_MS, ..Limits::default() }, 1_000));
    bench.now = 60_000;
    bench.give(Input::Tick);
    bench.give(Input::Register { link: LinkId(1), registration: registration("h1") });
    let granted = ask(&mut bench, 1, "2:cpu limit=1h");
    assert!(is_granted(&granted, 1), "{granted:?}");
    bench
}

fn ask(bench: &mut Bench, client: u64, devices: &str) -> Vec<Effect> {
    let request = SessionRequest { devices: Some(devices.to_owned()), ..request("h1") };
    let mut key = KEY;
    key.0[..8].copy_from_slice(&client.to_le_bytes());
    bench.give(Input::Open { client: ClientId(client), request, key, user: ALICE.into() })
}

fn is_granted(effects: &[Effect], client: u64) -> bool {
    let push =
        |effect: &Effect| matches!(effect, Effect::ToClient(to, ClientPush::Granted(_)) if *to == ClientId(client));
    effects.iter().any(push)
}

/// Returns the orders to suspend the job, or to resume it.
fn orders(effects: &[Effect]) -> Vec<(LinkId, bool)> {
    let order = |effect: &Effect| match effect {
        Effect::ToAgent(link, AgentOrder::Suspend(_, suspend)) => Some((*link, *suspend)),
        _ => None,
    };
    effects.iter().filter_map(order).collect()
}

fn schedule(bench: &mut Bench, input: Scheduled) -> Vec<Effect> {
    bench.give(Input::Schedule(input))
}

fn suspend(bench: &mut Bench) -> Vec<Effect> {
    schedule(bench, Scheduled::Suspend { job: JOB, by: "admin".into(), reason: "a drill".into() })
}

fn resume(bench: &mut Bench) -> Vec<Effect> {
    schedule(bench, Scheduled::Resume { job: JOB, by: "admin".into() })
}

fn answer(bench: &mut Bench, suspend: bool, outcome: Result<(), String>) -> Vec<Effect> {
    let mut job = KEY;
    job.0[..8].copy_from_slice(&1u64.to_le_bytes());
    bench.give(Input::JobSuspended { link: LinkId(1), job, suspend, outcome })
}

fn stage(bench: &Bench) -> Option<SuspensionStage> {
    bench.cluster.scheduler().stage_of(JOB)
}

/// Lets time pass while the agent sends heartbeats.
fn wait(bench: &mut Bench, ms: u64) -> Vec<Effect> {
    let (until, mut effects) = (bench.now + ms, Vec::new());
    while bench.now < until {
        bench.now += 2_000;
        effects.extend(bench.give(Input::Heartbeat { link: LinkId(1), sessions: Vec::new() }));
        effects.extend(bench.give(Input::Tick));
    }
    effects
}

#[test]
fn a_suspended_job_gives_its_devices_away_and_gets_them_back() {
    let mut bench = bench();
    assert_eq!(orders(&suspend(&mut bench)), [(LinkId(1), true)]);
    // Not before the agent's word.
    assert!(!is_granted(&ask(&mut bench, 2, "2:cpu limit=10m"), 2));
    assert!(is_granted(&answer(&mut bench, true, Ok(())), 2));
    assert_eq!(orders(&resume(&mut bench)), []);
    let ended = bench.give(Input::ClientGone { client: ClientId(2) });
    assert_eq!(orders(&ended), [], "the agent has not confirmed that the devices are free");
    let mut other = KEY;
    other.0[..8].copy_from_slice(&2u64.to_le_bytes());
    let released = bench.give(Input::JobReleased { link: LinkId(1), job: other });
    assert_eq!(orders(&released), [(LinkId(1), false)]);
    answer(&mut bench, false, Ok(()));
    assert_eq!(stage(&bench), None);
}

#[test]
fn limit_and_session_time_stand_still() {
    let mut bench = bench();
    wait(&mut bench, 1_800_000);
    suspend(&mut bench);
    answer(&mut bench, true, Ok(()));
    wait(&mut bench, 3 * SESSION_MS);
    assert_eq!((bench.cluster.session_count(), stage(&bench)), (1, Some(SuspensionStage::Suspended)));
    resume(&mut bench);
    answer(&mut bench, false, Ok(()));
    wait(&mut bench, 1_700_000);
    assert_eq!(bench.cluster.session_count(), 1);
    wait(&mut bench, 200_000);
    assert_eq!(bench.cluster.session_count(), 0);
}

#[test]
fn a_refusal_leaves_the_job_running() {
    let mut bench = bench();
    suspend(&mut bench);
    assert_eq!(orders(&answer(&mut bench, true, Err("no memory".into()))), [(LinkId(1), false)]);
    answer(&mut bench, false, Ok(()));
    assert_eq!(stage(&bench), None);
    assert_eq!(bench.cluster.scheduler().suspension_refused(JOB), Some("node h1: no memory"));
    // A resumption without memory leaves it suspended.
    suspend(&mut bench);
    answer(&mut bench, true, Ok(()));
    resume(&mut bench);
    assert_eq!(orders(&answer(&mut bench, false, Err("no memory".into()))), [(LinkId(1), true)]);
    answer(&mut bench, true, Ok(()));
    assert_eq!(stage(&bench), Some(SuspensionStage::Suspended));
}

#[test]
fn orders_are_repeated_to_an_agent_that_comes_back() {
    let mut bench = bench();
    suspend(&mut bench);
    bench.give(Input::LinkLost { link: LinkId(1) });
    let back = bench.give(Input::Register { link: LinkId(2), registration: registration("h1") });
    assert_eq!(orders(&back), [(LinkId(2), true)]);
}

#[test]
fn a_program_that_begins_in_a_suspended_job_waits_until_it_goes_on() {
    let mut bench = bench();
    let enter = |bench: &mut Bench, client: u64| {
        let mut key = KEY;
        key.0[..8].copy_from_slice(&1u64.to_le_bytes());
        let request = SessionRequest { job: Some(JobToken { job: 1, key }), ..request("h1") };
        let mut own_key = KEY;
        own_key.0[..8].copy_from_slice(&client.to_le_bytes());
        bench.give(Input::Open { client: ClientId(client), request, key: own_key, user: ALICE.into() })
    };
    let waits = |effects: &[Effect], client: u64| {
        let push =
            |effect: &Effect| matches!(effect, Effect::ToClient(to, ClientPush::Queued(_)) if *to == ClientId(client));
        effects.iter().any(push) && !is_granted(effects, client)
    };
    suspend(&mut bench);
    let begun = enter(&mut bench, 2);
    assert!(waits(&begun, 2), "{begun:?}");
    answer(&mut bench, true, Ok(()));
    let begun = enter(&mut bench, 3);
    assert!(waits(&begun, 3), "{begun:?}");
    // One of them does not wait so long.
    bench.give(Input::ClientGone { client: ClientId(3) });
    resume(&mut bench);
    let resumed = answer(&mut bench, false, Ok(()));
    assert!(is_granted(&resumed, 2) && !is_granted(&resumed, 3), "{resumed:?}");
    // A suspension that was refused ends so, too.
    suspend(&mut bench);
    let begun = enter(&mut bench, 4);
    assert!(waits(&begun, 4), "{begun:?}");
    answer(&mut bench, true, Err("no memory".into()));
    let undone = answer(&mut bench, false, Ok(()));
    assert!(is_granted(&undone, 4), "{undone:?}");
}

#[test]
fn a_suspended_job_ends_with_its_program() {
    let mut bench = bench();
    suspend(&mut bench);
    answer(&mut bench, true, Ok(()));
    let ended = bench.give(Input::ClientGone { client: ClientId(1) });
    assert!(ended.iter().any(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::ReleaseJob(_)))), "{ended:?}");
    let mut job = KEY;
    job.0[..8].copy_from_slice(&1u64.to_le_bytes());
    bench.give(Input::JobReleased { link: LinkId(1), job });
    assert!(bench.cluster.scheduler().job(JOB).is_none());
}

#[test]
fn a_job_gives_way_and_goes_on_by_itself() {
    let mut bench = bench();
    let text = "preempt-mode = \"suspend\"\npreempt-exempt-time = \"0s\"\n[account.all]\npriorities = [0, 9]\nusers = [\"*\"]\n";
    let policy = Box::new(SitePolicy::read(text, None).unwrap());
    bench.give(Input::ApplyPolicy { policy, by: "admin".into() });
    let begun = ask(&mut bench, 2, "2:cpu limit=10m priority=5");
    assert!(orders(&begun) == [(LinkId(1), true)] && !is_granted(&begun, 2), "{begun:?}");
    assert!(is_granted(&answer(&mut bench, true, Ok(())), 2));
    // Programs of the suspended job learn of the other one.
    let mut key = KEY;
    key.0[..8].copy_from_slice(&1u64.to_le_bytes());
    let request = SessionRequest { job: Some(JobToken { job: 1, key }), ..request("h1") };
    let queued = bench.give(Input::Open { client: ClientId(3), request, key: KEY, user: ALICE.into() });
    let why = queued.iter().find_map(|effect| match effect {
        Effect::ToClient(_, ClientPush::Queued(queued)) => Some(queued.why.as_str()),
        _ => None,
    });
    assert_eq!(why, Some("the job is suspended by job 2"));
    // The agent starts anew, and is told again.
    bench.give(Input::LinkLost { link: LinkId(1) });
    let back = bench.give(Input::Register { link: LinkId(2), registration: registration("h1") });
    assert_eq!(orders(&back), [(LinkId(2), true)]);
    bench.give(Input::ClientGone { client: ClientId(2) });
    let mut other = KEY;
    other.0[..8].copy_from_slice(&2u64.to_le_bytes());
    let released = bench.give(Input::JobReleased { link: LinkId(2), job: other });
    assert_eq!(orders(&released), [(LinkId(2), false)]);
    let mut job = KEY;
    job.0[..8].copy_from_slice(&1u64.to_le_bytes());
    let resumed = bench.give(Input::JobSuspended { link: LinkId(2), job, suspend: false, outcome: Ok(()) });
    assert!(is_granted(&resumed, 3), "{resumed:?}");
    assert_eq!(stage(&bench), None);
}
