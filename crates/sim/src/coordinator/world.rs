//! The simulated world: virtual time, links, and the behaviour of all processes.

use super::agent::{Agent, AgentEvent};
use super::injected::{Plan, WorldEvent};
use super::job::Job;
use super::program::Program;
use crate::queue::EventQueue;
use crate::random::Random;
use accord_cluster::{
    AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, LinkId, Millis, PathOrder, Records, Refusal,
};
use accord_node_agent::node::Disconnect;
use accord_types::{SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet};

/// Period of the coordinator's own clock.
pub(super) const TICK: u64 = 250;
/// Longest delay of a message.
pub(super) const DELAY_MAX: u64 = 300;
/// Longest time until both ends notice a cut, by keep-alive and timeouts.
pub(super) const NOTICE_MAX: u64 = 4_000;
/// Time without trouble at the end, after the last outage, in which the cluster must recover.
const SETTLE: u64 = 40_000;
/// Time after that in which a program that requests an executor must get it.
pub(super) const SERVED: u64 = 10_000;

#[derive(Debug)]
pub(super) enum Event {
    Trouble,
    /// An event at this incarnation of an agent's process.
    Agent {
        agent: usize,
        incarnation: u64,
        event: AgentEvent,
    },
    /// A stopped agent continues.
    AgentGoesOn {
        agent: usize,
    },
    /// A message of an agent reaches the `life`-th coordinator.
    FromAgent {
        life: u64,
        link: LinkId,
        input: Input,
    },
    /// An input for the coordinator, from a program, an administrator or itself.
    Input {
        life: u64,
        input: Input,
    },
    ToAgent {
        agent: usize,
        incarnation: u64,
        link: LinkId,
        order: AgentOrder,
    },
    ToProgram {
        program: usize,
        client: ClientId,
        push: ClientPush,
    },
    ClientGone {
        program: usize,
        client: ClientId,
    },
    /// An executor notices that its program has ended.
    ProgramGone {
        agent: usize,
        incarnation: u64,
        session: SessionId,
    },
    /// A disconnected program tries to reconnect to its session.
    Return {
        program: usize,
    },
    /// A launcher ends the remaining ranks of a run.
    JobEnds {
        job: usize,
        run: u64,
        politely: bool,
    },
    /// The deadline for a job's begin: its launcher ends it if it has not begun.
    JobHasBegun {
        job: usize,
        run: u64,
    },
    StartCoordinator,
    Tick {
        life: u64,
    },
}

/// One connection of an agent.
pub(super) struct AgentConnection {
    pub(super) agent: usize,
    /// The incarnation of the agent.
    pub(super) incarnation: u64,
    pub(super) open: bool,
    /// Whether the agent knows that it is registered.
    pub(super) registered: bool,
    /// Arrival of the last message in each direction; later messages arrive after it.
    pub(super) last: [u64; 2],
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) queue: EventQueue<Event>,
    pub(super) plan: Plan,
    pub(super) cluster: Option<Cluster>,
    /// The coordinator's state file; `None` if a restart loses all state.
    pub(super) file: Option<Records>,
    pub(super) life: u64,
    /// The coordinator is stopped until this time; its input waits.
    pub(super) paused_until: u64,
    /// Whether the trouble is over.
    pub(super) is_calm: bool,
    /// The time at which the coordinator's clock was 0.
    pub(super) started: u64,
    pub(super) agents: Vec<Agent>,
    pub(super) jobs: Vec<Job>,
    pub(super) programs: Vec<Program>,
    pub(super) links: BTreeMap<LinkId, AgentConnection>,
    pub(super) clients: BTreeMap<ClientId, usize>,
    pub(super) connections: u64,
    /// Connections of agents that wait for their job, as the current coordinator knows.
    pub(super) joined: BTreeSet<LinkId>,
    pub(super) sessions_seen: BTreeSet<SessionId>,
    /// The time at which each session was opened, and the coordinator's life.
    pub(super) opened: BTreeMap<SessionId, (u64, u64)>,
    pub(super) version: u64,
    pub(super) steps: u64,
}

/// Runs one simulation.
///
/// # Errors
/// Returns the first violation, and its time.
pub fn run(seed: u64, plan: Plan) -> Result<(), String> {
    let mut world = World::new(seed, plan);
    let outcome = world.live();
    outcome.map_err(|why| format!("at {} ms: {why}", world.queue.now()))
}

impl World {
    fn new(seed: u64, plan: Plan) -> Self {
        let mut random = Random::new(seed);
        let devices = |random: &mut Random| match random.chance(5) {
            true => 0,
            false => u32::try_from(random.within(1..u64::from(plan.devices) + 1)).unwrap_or(1),
        };
        // Half of the clusters have MPI jobs.
        let count = if random.chance(50) { random.index(2) + 1 } else { 0 };
        let mut jobs: Vec<Job> = (0..count).map(|_| Job::default()).collect();
        let mut agents = Vec::new();
        for index in 0..plan.agents {
            let devices = if plan.agents >= 1_000 { plan.devices } else { devices(&mut random) };
            let job = (count > 0 && random.chance(60)).then(|| random.index(count));
            if let Some(job) = job {
                jobs[job].ranks.push(index);
            }
            agents.push(Agent::new(index, devices, job));
        }
        let file = random.chance(50).then(Records::new);
        Self {
            random,
            queue: EventQueue::default(),
            plan,
            cluster: None,
            file,
            life: 0,
            paused_until: 0,
            is_calm: false,
            started: 0,
            agents,
            jobs,
            programs: Vec::new(),
            links: BTreeMap::new(),
            clients: BTreeMap::new(),
            connections: 0,
            joined: BTreeSet::new(),
            sessions_seen: BTreeSet::new(),
            opened: BTreeMap::new(),
            version: 0,
            steps: 0,
        }
    }

    /// Runs the two phases: first with failures, during which the invariants must hold. Then the failures stop, and the
    /// cluster must recover.
    fn live(&mut self) -> Result<(), String> {
        self.be_safe().map_err(|why| format!("while there is trouble: {why}"))?;
        self.assert_recovers().map_err(|why| format!("after the trouble: {why}"))
    }

    fn be_safe(&mut self) -> Result<(), String> {
        self.start_coordinator()?;
        for agent in 0..self.agents.len() {
            if self.random.chance(90) {
                self.start_agent(agent);
            }
        }
        for _ in 0..self.plan.troubles {
            let time = self.random.within(0..self.plan.duration);
            self.queue.add(time, Event::Trouble);
        }
        while let Some(event) = self.queue.next(self.plan.duration) {
            self.happen(event)?;
        }
        Ok(())
    }

    fn assert_recovers(&mut self) -> Result<(), String> {
        self.is_calm = true;
        for agent in 0..self.agents.len() {
            self.agents[agent].cut = false;
            self.agents[agent].silent_until = self.agents[agent].silent_until.min(self.queue.now());
            self.catch_up(agent)?;
        }
        let settled = self.plan.duration + self.plan.outage + SETTLE;
        while let Some(event) = self.queue.next(settled) {
            self.happen(event)?;
        }
        self.check_settled()?;
        let asked = self.use_all();
        while let Some(event) = self.queue.next(settled + SERVED) {
            self.happen(event)?;
        }
        self.check_settled()?;
        self.check_served(&asked)
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        let for_coordinator = matches!(event, Event::FromAgent { .. } | Event::Input { .. } | Event::Tick { .. });
        if for_coordinator && self.queue.now() < self.paused_until {
            self.queue.add(self.paused_until, event);
            return Ok(());
        }
        match event {
            Event::Trouble => self.injected(),
            Event::Agent { agent, incarnation, event } => return self.agent_hears(agent, incarnation, event),
            Event::AgentGoesOn { agent } => return self.catch_up(agent),
            Event::FromAgent { life, link, input } => {
                if self.links.get(&link).is_some_and(|link| link.open) {
                    return self.input(life, input);
                }
            }
            Event::Input { life, input } => return self.input(life, input),
            Event::ToAgent { agent, incarnation, link, order } => {
                if self.links.get(&link).is_some_and(|link| link.open) {
                    return self.agent_hears(agent, incarnation, AgentEvent::Order(link, order));
                }
            }
            Event::ToProgram { program, client, push } => {
                if self.programs[program].alive && self.programs[program].client == Some(client) {
                    return self.program_hears(program, push);
                }
            }
            Event::ClientGone { program, client } => {
                if self.programs[program].client == Some(client) {
                    self.programs[program].client = None;
                    self.programs[program].attached = false;
                    self.try_to_return(program);
                }
            }
            Event::ProgramGone { agent, incarnation, session } => {
                if self.agents[agent].incarnation == incarnation {
                    self.executor_notices(agent, session);
                }
            }
            Event::Return { program } => self.reconnect(program),
            Event::JobEnds { job, run, politely } => self.job_ends(job, run, politely),
            Event::JobHasBegun { job, run } => return self.job_has_begun(job, run),
            Event::StartCoordinator => return self.start_coordinator(),
            Event::Tick { life } => {
                if life == self.life && self.cluster.is_some() {
                    self.queue.add(self.queue.now() + TICK, Event::Tick { life });
                    let most = self.most_are_silent();
                    self.input(life, Input::Tick)?;
                    self.check_silence(most)?;
                    self.check_times()?;
                    return self.check_lost();
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_registered(&self, link: LinkId) -> bool {
        self.links.get(&link).is_some_and(|link| link.open && link.registered)
    }

    // The coordinator.

    fn input(&mut self, life: u64, input: Input) -> Result<(), String> {
        let now = Millis(self.queue.now() - self.started);
        if self.cluster.is_none() || life != self.life {
            return Ok(());
        }
        self.note_joining(&input);
        let Some(cluster) = self.cluster.as_mut() else { return Ok(()) };
        let is_beat = matches!(input, Input::Heartbeat { .. });
        let mut effects = Vec::new();
        cluster.handle(now, input, &mut effects);
        self.write_file();
        let Some(cluster) = self.cluster.as_mut() else { return Ok(()) };
        if is_beat && effects.is_empty() {
            return Ok(());
        }
        self.steps += 1;
        if self.steps.is_multiple_of(self.plan.check_every) {
            cluster.check_invariants()?;
        }
        if cluster.version() < self.version {
            return Err(format!("the version went from {} to {}", self.version, cluster.version()));
        }
        self.version = cluster.version();
        for effect in effects {
            self.carry_out(effect);
        }
        Ok(())
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::ToAgent(link, order) => self.order(link, order),
            Effect::RefuseAgent(link, refusal) => self.break_link(link, Some(refused(&refusal)), 50),
            Effect::DropLink(link) => self.break_link(link, Some(gone()), 50),
            Effect::ToClient(client, push) => {
                if let ClientPush::Granted(session) = push {
                    self.opened.entry(session).or_insert((self.queue.now(), self.life));
                }
                if matches!(push, ClientPush::Attached) {
                    self.note_claim(client);
                }
                if let Some(&program) = self.clients.get(&client) {
                    // A fixed delay keeps the order of a client's messages.
                    self.queue.add(self.queue.now() + 5, Event::ToProgram { program, client, push });
                }
            }
            Effect::CloseClient(client) => {
                if let Some(program) = self.clients.remove(&client) {
                    self.queue.add(self.queue.now() + 5, Event::ClientGone { program, client });
                }
            }
            Effect::MeasurePath(PathOrder { measurement, from, to, to_node, address }) => {
                let key = SessionKey([7; SessionKey::LEN]);
                self.order(to, AgentOrder::ExpectMeasurement { measurement, key });
                self.order(from, AgentOrder::MeasurePath { measurement, to: to_node, address, key });
            }
            Effect::Changed => {}
        }
    }

    // Trouble.

    fn injected(&mut self) {
        let agent = self.random.index(self.agents.len());
        match WorldEvent::any(&mut self.random) {
            WorldEvent::KillAgent => self.stop_agent(agent, false),
            WorldEvent::StopAgent => {
                if let Some(job) = self.agents[agent].job {
                    self.stop_job(job);
                }
                self.stop_agent(agent, true);
            }
            WorldEvent::StartAgent => self.start_agent(agent),
            WorldEvent::CutAgent => {
                self.disturb(agent);
                self.cut(agent);
            }
            WorldEvent::HealAgent => {
                for agent in &mut self.agents {
                    agent.cut = false;
                }
            }
            WorldEvent::BreakLink => {
                self.disturb(agent);
                if let Some(link) = self.agents[agent].link {
                    self.break_link(link, Some(gone()), 100);
                }
            }
            WorldEvent::Open => self.open(),
            WorldEvent::Connect => self.use_node(),
            WorldEvent::EndProgram if !self.programs.is_empty() => {
                let program = self.random.index(self.programs.len());
                self.end_program(program);
            }
            WorldEvent::EndProgram => {}
            WorldEvent::KillCoordinator => self.kill_coordinator(),
            WorldEvent::Drain => {
                let node_name = self.agents[agent].name.clone();
                let drain = self.random.chance(50);
                let input = Input::Drain { node_name, drain };
                self.queue.add(self.queue.now(), Event::Input { life: self.life, input });
            }
            WorldEvent::CloseSession => {
                let open: Vec<SessionId> = self.sessions_seen.iter().copied().collect();
                if !open.is_empty() {
                    let input = Input::Close { session: open[self.random.index(open.len())] };
                    self.queue.add(self.queue.now(), Event::Input { life: self.life, input });
                }
            }
            // A second pause waits, so that the input stays in order.
            WorldEvent::PauseCoordinator if self.queue.now() < self.paused_until => {}
            WorldEvent::PauseCoordinator => {
                self.paused_until = self.queue.now() + self.random.within(500..self.plan.outage);
            }
            WorldEvent::CutCoordinator => {
                for agent in 0..self.agents.len() {
                    self.disturb(agent);
                    self.cut(agent);
                }
            }
            WorldEvent::MassSilence => {
                let until = self.queue.now() + self.random.within(500..self.plan.outage);
                for agent in 0..self.agents.len() {
                    if self.random.chance(80) {
                        self.disturb(agent);
                        // The agent may be stopped already, for longer.
                        let state = &mut self.agents[agent];
                        state.silent_until = state.silent_until.max(until);
                    }
                }
            }
            WorldEvent::CrashExecutor => {
                if let Some(executor) = self.agents[agent].executors.keys().next().copied() {
                    let event = match self.random.chance(70) {
                        true => AgentEvent::Over(executor),
                        false => AgentEvent::Stuck(executor),
                    };
                    self.at_agent(agent, 0, event);
                }
            }
        }
    }

    /// Cuts an agent off the network.
    fn cut(&mut self, agent: usize) {
        let state = &mut self.agents[agent];
        state.cut = true;
        for link in [state.link, state.joining].into_iter().flatten() {
            self.break_link(link, Some(gone()), NOTICE_MAX);
        }
    }

    pub(super) fn delay(&mut self) -> u64 {
        match self.random.chance(5) {
            true => self.random.within(20..DELAY_MAX),
            false => self.random.within(0..20),
        }
    }
}

fn gone() -> Disconnect {
    Disconnect::Unreachable("the connection is gone".to_owned())
}

/// Returns the agent's view of a refusal, by the status of the coordinator's service.
fn refused(refusal: &Refusal) -> Disconnect {
    let why = refusal.to_string();
    match refusal {
        Refusal::Stale { .. } => Disconnect::Replaced(why),
        Refusal::Malformed(_) | Refusal::Superseded { .. } => Disconnect::Refused(why),
        Refusal::Full { .. } | Refusal::Taken { .. } | Refusal::NotRegistered => Disconnect::Unreachable(why),
    }
}
