//! A coordinator that is killed at any point continues from its durable state. No device is allocated twice, no
//! confirmed request is lost, and no time is charged twice.

use crate::bench::{KEY, registration};
use crate::random::Random;
use crate::requests::request;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis, NewReservation, Record, Records,
    Registration, ReservedTarget, Restart, Step,
};
use accord_scheduler::ledger::{UsageBy, UsageLine};
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::{JobId, Phase};
use accord_types::incarnation::incarnation;
use accord_types::{DeviceId, DeviceUse, JobGrant, JobToken, Rank, SessionId, SessionKey, SessionRequest};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const UNIX_MS: u64 = 1_800_000_000_000;
const NODES: u64 = 3;
const STEPS: u64 = 400;
/// Seeds of the short tier, and of the long one.
const SHORT: u64 = 2;
const LONG: u64 = 200;

/// A decision that is not durable yet, whose effects have not been carried out.
struct Pending {
    step: Step,
    effects: Vec<Effect>,
    order: Vec<JobId>,
}

/// A program or command that requests devices.
#[derive(Clone, Debug)]
struct Asker {
    user: String,
    is_command: bool,
    request: SessionRequest,
    /// The token of its confirmed place, with which it reconnects.
    token: Option<JobToken>,
}

struct World {
    random: Random,
    cluster: Cluster,
    epoch: u64,
    now: u64,
    /// The durable records.
    durable: Records,
    /// The records after all steps.
    latest: Records,
    order: Vec<JobId>,
    pending: VecDeque<Pending>,
    links: u64,
    linked: BTreeMap<u64, LinkId>,
    /// The agents' knowledge, by node.
    agents: BTreeMap<u64, BTreeMap<SessionKey, JobGrant>>,
    clients: u64,
    askers: BTreeMap<ClientId, Asker>,
    /// Jobs whose start an agent or a program has learned.
    reported: BTreeSet<u64>,
    /// The last reported use of devices by sessions.
    uses: BTreeMap<(SessionId, DeviceId), DeviceUse>,
    /// The number of restarts whose decisions were compared with those of a coordinator that goes on.
    compared: u64,
}

fn key(client: u64) -> SessionKey {
    let mut key = KEY;
    key.0[..8].copy_from_slice(&client.to_le_bytes());
    key
}

fn restored(records: &Records, now: u64, epoch: u64) -> Cluster {
    let restart = Restart { now: Millis(now), committed: Millis(now), unix_ms: UNIX_MS + now, epoch };
    let cluster = Cluster::restore(Limits::default(), records, restart).unwrap();
    cluster.check_invariants().unwrap();
    cluster
}

fn name(node: u64) -> String {
    format!("h{node}")
}

impl World {
    fn new(seed: u64) -> Self {
        let cluster = restored(&Records::new(), 0, 1);
        let mut world = Self {
            random: Random::new(seed),
            cluster,
            epoch: 1,
            now: 0,
            durable: Records::new(),
            latest: Records::new(),
            order: Vec::new(),
            pending: VecDeque::new(),
            links: 0,
            linked: BTreeMap::new(),
            agents: (0..NODES).map(|node| (node, BTreeMap::new())).collect(),
            clients: 0,
            askers: BTreeMap::new(),
            reported: BTreeSet::new(),
            uses: BTreeMap::new(),
            compared: 0,
        };
        world.note(Vec::new());
        world
    }

    fn give(&mut self, input: Input) {
        let mut effects = Vec::new();
        self.cluster.set_wall_clock(Millis(self.now), UNIX_MS + self.now);
        self.cluster.handle(Millis(self.now), input, &mut effects);
        self.cluster.check_invariants().unwrap();
        self.note(effects);
    }

    /// Applies the records of a step. All records so far must make up the whole state.
    fn note(&mut self, effects: Vec<Effect>) {
        let step = self.cluster.take_step();
        for record in step.records.clone() {
            record.apply(&mut self.latest);
        }
        assert_same(&Cluster::with_holds(&self.latest).unwrap(), &self.cluster.all_records());
        let order = self.cluster.scheduler().order_of_waiting();
        self.pending.push_back(Pending { step, effects, order });
    }

    /// Creates a reservation unless it conflicts, or deletes one, as an administrator does.
    fn reserve(&mut self) {
        let named = format!("r{}", self.random.below(3));
        if self.cluster.has_reservation(&named) {
            return self.give(Input::Unreserve { name: named, by: "admin root".to_owned() });
        }
        let devices = match self.random.below(3) {
            0 => ReservedTarget::All,
            1 => ReservedTarget::Listed(vec![(name(self.random.below(NODES)), None)]),
            _ => ReservedTarget::Request("1:cpu".to_owned()),
        };
        let users = if self.random.below(2) == 0 { vec!["alice".to_owned()] } else { Vec::new() };
        let minute = self.random.below(10);
        let new = NewReservation {
            name: named,
            by: "admin root".to_owned(),
            reason: String::new(),
            devices,
            accounts: Vec::new(),
            users,
            end_jobs: self.random.below(2) == 0,
            // `UNIX_MS` is on this day.
            first: format!("2027-01-15T08:{minute:02}"),
            zone: "UTC".to_owned(),
            lasts_ms: 1_000 * (1 + self.random.below(600)),
            weekly: self.random.below(2) == 0,
        };
        if let Ok(checked) = self.cluster.check_reservation(Millis(self.now), new) {
            self.give(Input::Reserve(Box::new(checked)));
        }
    }

    /// Makes the earliest steps durable, and carries their effects out.
    fn commit(&mut self, steps: usize) {
        for _ in 0..steps {
            let Some(Pending { step, effects, order }) = self.pending.pop_front() else { return };
            for record in step.records {
                record.apply(&mut self.durable);
            }
            self.order = order;
            for effect in effects {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::ToAgent(link, order) => {
                let Some(node) = self.linked.iter().find(|(_, of)| **of == link).map(|(node, _)| *node) else { return };
                let jobs = self.agents.get_mut(&node).unwrap();
                match order {
                    AgentOrder::JobStarted(grant) => {
                        self.reported.insert(grant.token.job);
                        jobs.insert(grant.token.key, grant);
                        let held = jobs.values().flat_map(|job| &job.devices);
                        let exclusive = held.filter(|device| device.exclusive).map(|device| device.ordinal);
                        let (count, distinct) = (exclusive.clone().count(), exclusive.collect::<BTreeSet<_>>().len());
                        assert_eq!(count, distinct, "allocated twice: {jobs:?}");
                    }
                    AgentOrder::ReleaseJob(key) => {
                        jobs.remove(&key);
                        self.give(Input::JobReleased { link, job: key });
                    }
                    _ => {}
                }
            }
            Effect::ToClient(client, push) => {
                let Some(asker) = self.askers.get_mut(&client) else { return };
                match push {
                    ClientPush::Queued(job) => asker.token = Some(job.token),
                    ClientPush::Held(job) => {
                        self.reported.insert(job.token.job);
                        asker.token = Some(job.token);
                    }
                    ClientPush::Refused(_) | ClientPush::Ended(_) => drop(self.askers.remove(&client)),
                    _ => {}
                }
            }
            Effect::CloseClient(client) => drop(self.askers.remove(&client)),
            _ => {}
        }
    }

    fn ask(&mut self, asker: Asker) {
        self.clients += 1;
        let client = ClientId(self.clients);
        let request = SessionRequest { job: asker.token, ..asker.request.clone() };
        let (key, user) = (key(self.clients), asker.user.clone());
        let is_command = asker.is_command;
        self.askers.insert(client, asker);
        self.give(match is_command {
            true => Input::Hold { client, request, key, user },
            false => Input::Open { client, request, key, user },
        });
    }

    fn register(&mut self, node: u64, incarnation: u64) {
        self.links += 1;
        let link = LinkId(self.links);
        self.linked.insert(node, link);
        let jobs = self.agents[&node].values().cloned().collect();
        let previous = self.cluster.node_named(&name(node)).map(|node| node.id);
        let registration = Registration { incarnation, jobs, previous, ..registration(&name(node)) };
        self.give(Input::Register { link, registration });
    }

    fn random_asker(&mut self) -> Asker {
        // Another rank of a program that has made a request.
        let other = self.askers.values().find(|asker| asker.request.rank.is_some_and(|rank| rank.rank == 0));
        if let Some(other) = other.filter(|_| self.random.below(4) == 0).cloned() {
            let rank = other.request.rank.map(|rank| Rank { rank: 1, ..rank });
            return Asker { request: SessionRequest { rank, ..other.request }, token: None, ..other };
        }
        let texts = ["1", "2", "1:50%", "3 limit=40s", "4", "1 limit=20s", "1 wait=30s", "per-rank 1"];
        let text = texts[self.random.below(texts.len() as u64) as usize];
        let user = ["alice", "bob", "carol"][self.random.below(3) as usize].to_owned();
        let is_command = self.random.below(2) == 0;
        let ranks = text.starts_with("per-rank") || self.random.below(4) == 0;
        let text = text.strip_prefix("per-rank ").map_or(text.to_owned(), |count| format!("{count} per-rank"));
        let rank = ranks.then(|| Rank { rank: 0, size: 2, local_rank: 0, local_size: 1, job: self.clients + 1 });
        let devices = Some(text).filter(|text| ranks || !text.contains("per-rank"));
        Asker { user, is_command, request: SessionRequest { devices, rank, ..request("h1") }, token: None }
    }

    fn apply_policy(&mut self) {
        let head = ["", "half-life = \"1h\"\n", "quantum = \"20s\"\ngrace = \"1s\"\n"];
        let text = format!("{}[account.all]\nusers = [\"*\"]\n", head[self.random.below(3) as usize]);
        let (policy, by) = (Box::new(SitePolicy::read(&text, None).unwrap()), "admin root".to_owned());
        self.give(Input::ApplyPolicy { policy, by });
    }

    fn act(&mut self) {
        match self.random.below(24) {
            0..6 => {
                let asker = self.random_asker();
                self.ask(asker);
            }
            6..9 => {
                let clients: Vec<ClientId> = self.askers.keys().copied().collect();
                if !clients.is_empty() {
                    let client = clients[self.random.below(clients.len() as u64) as usize];
                    self.askers.remove(&client);
                    let lost = self.random.below(3) == 0;
                    self.give(if lost { Input::ClientLost { client } } else { Input::ClientGone { client } });
                }
            }
            9 => {
                self.apply_policy();
            }
            10 => {
                let job = JobId(1 + self.random.below(1 + self.cluster.scheduler().last_job().0));
                let by = "admin root".to_owned();
                let held = self.random.below(2) == 0;
                let input = match self.random.below(4) {
                    0 => accord_scheduler::Input::Hold { job, held },
                    1 => accord_scheduler::Input::ToFront { job, by },
                    2 => accord_scheduler::Input::SetLimit { job, limit_ms: 30_000, by },
                    _ => accord_scheduler::Input::Pause { paused: held && self.random.below(4) == 0, by },
                };
                self.give(Input::Schedule(input));
            }
            11 => {
                let (node_name, drain) = (name(self.random.below(NODES)), self.random.below(3) == 0);
                self.give(Input::Drain { node_name, drain });
            }
            12 => {
                // A machine is booted again, so that its agent keeps nothing.
                let node = self.random.below(NODES);
                self.commit(usize::MAX);
                self.agents.insert(node, BTreeMap::new());
                if let Some(link) = self.linked.get(&node).copied() {
                    self.give(Input::LinkLost { link });
                }
                self.register(node, incarnation(&self.now.to_string(), 0));
            }
            13 => drop(self.cluster.usage(Millis(self.now))),
            14..18 => {
                self.now += 1 + self.random.below(8_000);
                for link in self.linked.values().copied().collect::<Vec<_>>() {
                    self.give(Input::Heartbeat { link, sessions: Vec::new() });
                }
                self.give(Input::Tick);
            }
            18..21 => self.report(),
            21 => self.reserve(),
            _ => self.kill(),
        }
        let steps = self.random.below(4) as usize;
        self.commit(steps);
    }

    /// Reports the use of a session's device by an agent or a program.
    fn report(&mut self) {
        let sessions: Vec<SessionId> = self.cluster.sessions().map(|session| session.id).collect();
        if sessions.is_empty() {
            return;
        }
        let session = self.cluster.session(sessions[self.random.below(sessions.len() as u64) as usize]).unwrap();
        let (id, client, devices) = (session.id, session.client, session.lease.devices.clone());
        if devices.is_empty() {
            return;
        }
        let device = devices[self.random.below(devices.len() as u64) as usize];
        let before = self.uses.get(&(id, device)).copied().unwrap_or_default();
        let used = DeviceUse {
            busy_ms: Some(before.busy_ms.unwrap_or(0) + self.random.below(3_000)),
            bytes_in: before.bytes_in + self.random.below(100),
            ..before
        };
        self.uses.insert((id, device), used);
        let node = self.cluster.nodes().find(|node| node.id == device.node).map(|node| node.name.clone());
        let link = node.and_then(|node| self.linked.iter().find(|(number, _)| name(**number) == node));
        match (client, link) {
            (Some(client), _) if self.random.below(2) == 0 => {
                self.give(Input::ProgramUsed { client, uses: vec![(device, used)] });
            }
            (_, Some((_, link))) => {
                self.give(Input::AgentUsed { link: *link, uses: vec![(id, device.ordinal, used)] });
            }
            _ => {}
        }
    }

    fn usage(&mut self) -> Vec<UsageLine> {
        self.cluster.usage(Millis(self.now)).by(UsageBy::User, None)
    }

    /// Kills the coordinator, and starts another one a while later.
    fn kill(&mut self) {
        let is_whole = self.pending.is_empty();
        self.now += self.random.below(3_000);
        let now = self.now;
        // What it would decide now, if it were not killed. Requests that it has not numbered are lost with it.
        let (before, last_job) = (phases(&self.cluster), self.cluster.scheduler().last_job());
        self.cluster.set_wall_clock(Millis(now), UNIX_MS + now);
        self.cluster.handle(Millis(now), Input::Tick, &mut Vec::new());
        let is_comparable = is_whole && self.cluster.scheduler().last_job() == last_job;
        let known = is_comparable.then(|| (over(&before, &self.cluster), decided(&self.cluster), self.usage()));
        self.pending.clear();
        self.epoch += 1;
        self.cluster = restored(&self.durable, now, self.epoch);
        if let Some((ended, jobs, usage)) = known {
            // Jobs whose programs are away have more time to come back.
            let over = over(&before, &self.cluster);
            assert!(ended.is_superset(&over), "{over:?} ended by a restart at {now}");
            if over == ended {
                self.compared += 1;
                assert_eq!(decided(&self.cluster), jobs, "after a restart at {now}");
                assert_eq!(self.usage(), usage, "after a restart at {now}");
            }
        }
        let places = self.askers.values().filter_map(|asker| Some(asker.token?.job));
        for job in self.reported.iter().copied().chain(places) {
            let ended = self.cluster.ended_jobs(Millis(now), None, None);
            let is_known = phases(&self.cluster).contains_key(&JobId(job))
                || ended.next.is_some()
                || ended.jobs.iter().any(|ended| ended.job.0 == job);
            assert!(is_known, "job {job} is forgotten");
        }
        let there = phases(&self.cluster);
        let is_waiting = |id: &JobId| there.get(id) == Some(&Phase::Waiting);
        // Shares of accounts count until now, which may change the order of accounts but not that within one.
        let scheduler = self.cluster.scheduler();
        let by_user = |order: Vec<JobId>| {
            let mut by_user: BTreeMap<String, Vec<JobId>> = BTreeMap::new();
            for id in order {
                by_user.entry(scheduler.job(id).unwrap().user).or_default().push(id);
            }
            by_user
        };
        let waiting = self.order.iter().copied().filter(is_waiting).collect();
        assert_eq!(by_user(scheduler.order_of_waiting()), by_user(waiting));
        self.latest.clone_from(&self.durable);
        self.note(Vec::new());
        let askers: Vec<Asker> = std::mem::take(&mut self.askers).into_values().collect();
        for node in 0..NODES {
            let incarnation = self.cluster.node_named(&name(node)).map_or(10, |node| node.incarnation);
            self.register(node, incarnation);
        }
        // All askers with a confirmed place reconnect; others request anew.
        for asker in askers {
            self.ask(asker);
        }
    }
}

/// A job with its devices and its reserved start.
type Decided = (JobId, Phase, Vec<DeviceId>, Option<(accord_scheduler::Millis, Vec<DeviceId>)>);

fn decided(cluster: &Cluster) -> Vec<Decided> {
    let scheduler = cluster.scheduler();
    let jobs = scheduler.jobs(None).map(|job| {
        let devices = job.devices.iter().map(|leased| leased.device).collect();
        let reserved = scheduler.reserved_start(job.job).map(|(starts, mut devices)| {
            devices.sort_unstable();
            (starts, devices)
        });
        (job.job, job.phase, devices, reserved)
    });
    jobs.collect()
}

/// Returns which of these jobs have ended since.
fn over(before: &BTreeMap<JobId, Phase>, cluster: &Cluster) -> BTreeSet<JobId> {
    let now = phases(cluster);
    let is_over = |id: &JobId| now.get(id).is_none_or(|phase| *phase == Phase::Releasing);
    let ended = before.iter().filter(|(id, phase)| **phase != Phase::Releasing && is_over(id));
    ended.map(|(id, _)| *id).collect()
}

fn phases(cluster: &Cluster) -> BTreeMap<JobId, Phase> {
    cluster.scheduler().jobs(None).map(|view| (view.job, view.phase)).collect()
}

fn assert_same(recorded: &Records, all: &Records) {
    let text = |value: Option<&Vec<u8>>| value.map(|value| String::from_utf8_lossy(value).into_owned());
    let keys: BTreeSet<&String> = recorded.keys().chain(all.keys()).collect();
    for key in keys {
        assert_eq!(text(recorded.get(key)), text(all.get(key)), "{key:?}: recorded, and as it is");
    }
}

#[test]
fn records_make_the_whole_state_and_a_coordinator_goes_on_from_them() {
    let (mut started, mut busy_ms, mut compared) = (0, 0, 0);
    let seeds = accord_test_tier::pick(SHORT, LONG);
    let first = accord_test_tier::first_seed(seeds);
    for seed in first..first + seeds {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for node in 0..NODES {
            world.register(node, 10);
        }
        world.now = 5_000;
        world.apply_policy();
        world.give(Input::Tick);
        for _ in 0..STEPS {
            world.act();
        }
        world.commit(usize::MAX);
        started += world.cluster.job_totals().started;
        compared += world.compared;
        busy_ms += world.usage().iter().map(|line| line.row.activity.busy_ms).sum::<u64>();
    }
    assert!(busy_ms > accord_test_tier::pick(1_000, 10_000) * seeds, "{busy_ms} ms of use were counted");
    assert!(compared > 2 * seeds, "{compared} restarts were compared");
    // A few seeds differ from the mean.
    assert!(started > accord_test_tier::pick(10, 25) * seeds, "{started} jobs have started");
}

/// Returns the answer to an agent that knows a coordinator of this epoch.
fn answer(cluster: &mut Cluster, link: u64, coordinator_epoch: u64) -> Effect {
    let (link, mut effects) = (LinkId(link), Vec::new());
    let registration = Registration { coordinator_epoch, ..registration("h1") };
    cluster.handle(Millis(0), Input::Register { link, registration }, &mut effects);
    effects.into_iter().find(|effect| !matches!(effect, Effect::DropLink(_))).unwrap()
}

#[test]
fn an_agent_of_a_later_coordinator_is_refused() {
    let mut cluster = restored(&Records::new(), 0, 7);
    let refused = answer(&mut cluster, 1, 8);
    let Effect::RefuseAgent(LinkId(1), refusal) = &refused else { panic!("{refused:?}") };
    let words = "started later, or with a newer state file; stop this coordinator";
    assert!(refusal.to_string().contains(words), "{refusal}");
    // A coordinator without a state file has no epoch.
    let mut without = Cluster::new(Limits::default(), UNIX_MS);
    let taken = [(2, 7), (3, 6), (4, 0)].map(|(link, epoch)| answer(&mut cluster, link, epoch));
    for taken in taken.into_iter().chain([answer(&mut without, 1, 8)]) {
        assert!(matches!(taken, Effect::ToAgent(_, AgentOrder::Registered(_))), "{taken:?}");
    }
}

#[test]
fn release_by_one_node_of_a_large_job_writes_a_small_record() {
    const NODES: u64 = 200;
    let mut cluster = restored(&Records::new(), 0, 1);
    let now = Millis(5_000);
    let mut give = |input: Input| {
        let mut effects = Vec::new();
        cluster.handle(now, input, &mut effects);
        (effects, cluster.take_step().records)
    };
    for node in 0..NODES {
        give(Input::Register { link: LinkId(node), registration: registration(&name(node)) });
    }
    let (client, request) = (ClientId(1), SessionRequest { devices: Some("400".to_owned()), ..request("h1") });
    let (_, started) = give(Input::Hold { client, request, key: key(1), user: "alice".to_owned() });
    let bytes = |records: &[Record]| -> usize {
        records.iter().map(|record| record.key.len() + record.value.as_ref().map_or(0, Vec::len)).sum()
    };
    assert!(bytes(&started) > 100 * NODES as usize, "{started:?}");
    let (effects, _) = give(Input::ClientGone { client });
    let ordered = effects.iter().filter(|effect| matches!(effect, Effect::ToAgent(_, AgentOrder::ReleaseJob(_))));
    assert_eq!(ordered.count() as u64, NODES);
    for node in 0..NODES - 1 {
        let (_, records) = give(Input::JobReleased { link: LinkId(node), job: key(1) });
        assert!(bytes(&records) < 2_000, "{records:?}");
    }
    // Only the history of the job is left.
    give(Input::JobReleased { link: LinkId(NODES - 1), job: key(1) });
    let kept = cluster.all_records();
    assert!(
        !kept.keys().any(|key| ["job/", "hold/", "charge/"].iter().any(|table| key.starts_with(table))),
        "{kept:?}"
    );
}
