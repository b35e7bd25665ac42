//! Jobs whose command or sessions are away: how long they are kept, why they end, and until when they are charged.

use crate::bench::{ALICE, Bench, KEY, grant, registration};
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, Records, Registration, Restart,
};
use accord_scheduler::EndCause;
use accord_scheduler::ledger::UsageBy;
use accord_types::{JobGrant, JobToken, SessionId, SessionRequest};

const MINUTE: u64 = 60_000;
const COMMAND: ClientId = ClientId(1);
const PROGRAM: ClientId = ClientId(2);

/// A coordinator with an agent of two devices, and a command's job of both.
struct Site {
    bench: Bench,
    token: JobToken,
    /// The job, as the agent knows it.
    grant: Option<JobGrant>,
}

fn restored(records: &Records, now: u64, committed: u64, epoch: u64) -> Bench {
    let restart = Restart { now: Millis(now), committed: Millis(committed), unix_ms: 1_000 + now, epoch };
    let mut bench = Bench::of(Cluster::restore(Limits::default(), records, restart).unwrap());
    bench.now = now;
    bench
}

fn is_held(effects: &[Effect], client: ClientId) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::ToClient(to, ClientPush::Held(_)) if *to == client))
}

impl Site {
    fn new() -> Self {
        let mut site =
            Self { bench: restored(&Records::new(), 0, 0, 1), token: JobToken { job: 1, key: KEY }, grant: None };
        // Requests no longer wait for agents to reconnect after the start.
        site.pass(MINUTE);
        site.join(None);
        let devices = SessionRequest { devices: Some("2:cpu".to_owned()), ..request("h1") };
        let effects = site.hold(COMMAND, devices);
        assert!(is_held(&effects, COMMAND));
        site.grant = effects.into_iter().find_map(|effect| match effect {
            Effect::ToAgent(_, AgentOrder::JobStarted(grant)) => Some(grant),
            _ => None,
        });
        site
    }

    /// Registers the agent, with what it knows of the job and of a session there.
    fn join(&mut self, session: Option<SessionId>) {
        let sessions: Vec<SessionId> = session.into_iter().collect();
        let jobs = self.grant.iter().map(|grant| JobGrant { sessions: sessions.clone(), ..grant.clone() }).collect();
        let sessions = sessions.iter().map(|session| grant(*session, KEY, ALICE)).collect();
        let registration = Registration { sessions, jobs, ..registration("h1") };
        self.bench.give(Input::Register { link: LinkId(1), registration });
    }

    fn hold(&mut self, client: ClientId, request: SessionRequest) -> Vec<Effect> {
        self.bench.give(Input::Hold { client, request, key: KEY, user: ALICE.into() })
    }

    /// Brings the command back over another connection. Returns whether it has its job again.
    fn returns(&mut self) -> bool {
        let client = ClientId(9);
        is_held(&self.hold(client, SessionRequest { job: Some(self.token), ..request("h1") }), client)
    }

    /// Opens a program's session in the job.
    fn enter(&mut self) -> SessionId {
        let request = SessionRequest { job: Some(self.token), ..request("h1") };
        let opened = self.bench.give(Input::Open { client: PROGRAM, request, key: KEY, user: ALICE.into() });
        let granted = |effect: &Effect| match effect {
            Effect::ToClient(PROGRAM, ClientPush::Granted(session)) => Some(*session),
            _ => None,
        };
        opened.iter().find_map(granted).unwrap()
    }

    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 500 {
            self.bench.now += 500;
            self.bench.give(Input::Heartbeat { link: LinkId(1), sessions: Vec::new() });
            self.bench.give(Input::Tick);
        }
    }

    /// Starts the coordinator again after this time.
    fn restart_after(&mut self, ms: u64) {
        let (records, committed) = (self.bench.cluster.all_records(), self.bench.now);
        self.bench = restored(&records, committed + ms, committed, 2);
    }

    /// Returns the cause of the job's end, and its charge in milliseconds of a device, once its devices are free.
    fn end(&mut self) -> Option<(EndCause, u128)> {
        self.bench.give(Input::JobReleased { link: LinkId(1), job: KEY });
        let page = self.bench.cluster.ended_jobs(Millis(self.bench.now), None, None);
        page.jobs.first().map(|job| (job.cause.clone(), job.used.milli_ms / 1_000))
    }
}

#[test]
fn sessions_keep_the_job_of_a_command_that_is_cut_off() {
    let mut site = Site::new();
    site.enter();
    site.bench.give(Input::ClientLost { client: COMMAND });
    site.pass(10 * MINUTE);
    assert_eq!(site.end(), None);
    // The command has as long after its last program's end.
    site.bench.give(Input::ClientGone { client: PROGRAM });
    site.pass(4 * MINUTE);
    assert_eq!(site.end(), None);
    assert!(site.returns());
    site.pass(10 * MINUTE);
    assert_eq!(site.end(), None);
}

#[test]
fn a_command_that_never_returns_is_the_cause_of_its_job_s_end() {
    let mut site = Site::new();
    site.enter();
    site.bench.give(Input::ClientLost { client: COMMAND });
    site.bench.give(Input::ClientGone { client: PROGRAM });
    site.pass(5 * MINUTE + 1_000);
    assert!(!site.returns());
    assert_eq!(site.end().map(|(cause, _)| cause), Some(EndCause::Abandoned));
}

#[test]
fn the_job_of_a_command_that_ended_during_an_outage_ends_soon_and_is_charged_until_the_outage() {
    let mut site = Site::new();
    site.pass(MINUTE);
    site.restart_after(2 * MINUTE);
    site.join(None);
    site.pass(29_000);
    assert_eq!(site.end(), None);
    site.pass(1_000);
    // Two devices for a minute.
    assert_eq!(site.end(), Some((EndCause::Abandoned, 2 * u128::from(MINUTE))));
    let now = Millis(site.bench.now);
    let usage = site.bench.cluster.usage(now).by(UsageBy::User, None);
    assert_eq!(usage[0].row.usage.milli_ms, 2_000 * u128::from(MINUTE));
    let account = site.bench.cluster.scheduler().usage("site").map(|usage| usage.milli_ms);
    assert_eq!(account, Some(2_000 * u128::from(MINUTE)));
}

#[test]
fn a_command_that_returns_after_an_outage_has_its_job_and_is_charged_for_all_of_it() {
    let mut site = Site::new();
    site.pass(MINUTE);
    site.restart_after(2 * MINUTE);
    site.join(None);
    site.pass(20_000);
    assert!(site.returns());
    site.pass(10 * MINUTE);
    assert_eq!(site.end(), None);
    site.bench.give(Input::ClientGone { client: ClientId(9) });
    let all = u128::from(13 * MINUTE + 20_000);
    assert_eq!(site.end(), Some((EndCause::Done, 2 * all)));
}

#[test]
fn sessions_that_agents_name_after_an_outage_keep_a_command_s_job() {
    let mut site = Site::new();
    let session = site.enter();
    site.restart_after(MINUTE);
    site.join(Some(session));
    let attached = Input::Attach { client: PROGRAM, session, request: request("h1"), key: KEY, user: ALICE.into() };
    site.bench.give(attached);
    site.pass(10 * MINUTE);
    assert_eq!(site.end(), None);
    site.bench.give(Input::ClientGone { client: PROGRAM });
    site.pass(20_000);
    assert_eq!(site.end(), None);
    site.pass(10_000);
    let all = 2 * u128::from(11 * MINUTE);
    assert_eq!(site.end(), Some((EndCause::Abandoned, all)));
}
