//! The world: virtual time, links, and everybody's behaviour.

use super::agent::Agent;
use super::program::Program;
use super::trouble::{Plan, Trouble};
use crate::queue::EventQueue;
use crate::random::Random;
use accord_coordinator::cluster::{AgentOrder, ClientId, ClientPush, Cluster, Effect, Input, Limits, LinkId, Millis};
use accord_types::SessionId;
use std::collections::{BTreeMap, BTreeSet};

/// Period of the coordinator's own clock.
const TICK: u64 = 250;
/// Longest time that a message takes.
pub(super) const DELAY_MAX: u64 = 300;
/// How long after a cut the ends of a connection notice, at most: keep-alive and time-outs.
pub(super) const NOTICE_MAX: u64 = 4_000;
/// Time without trouble at the end, after the last outage, in which everything has to come right.
const SETTLE: u64 = 40_000;
/// Silence after which a node is lost: shorter than a coordinator's own, for the simulation's speed.
const LOST_AFTER: u64 = 2_500;

#[derive(Debug)]
pub(super) enum Event {
    Trouble,
    /// An agent tries to connect.
    Connect {
        agent: usize,
        incarnation: u64,
    },
    Beat {
        agent: usize,
        link: LinkId,
    },
    /// A message of an agent reaches the coordinator of the `life`-th start.
    FromAgent {
        life: u64,
        link: LinkId,
        input: Input,
    },
    /// The coordinator notices something by itself, or hears from a program or a person.
    Input {
        life: u64,
        input: Input,
    },
    ToAgent {
        agent: usize,
        link: LinkId,
        order: AgentOrder,
    },
    /// An agent notices that its connection is gone.
    LinkGone {
        agent: usize,
        link: LinkId,
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
    /// An executor notices that its program is gone.
    ProgramGone {
        agent: usize,
        incarnation: u64,
        session: SessionId,
    },
    /// A program without a connection tries to come back to its session.
    Return {
        program: usize,
    },
    /// An agent says that it has started an executor.
    Started {
        agent: usize,
        incarnation: u64,
        session: SessionId,
    },
    StartCoordinator,
    Tick {
        life: u64,
    },
}

/// One connection of an agent.
pub(super) struct AgentConnection {
    agent: usize,
    open: bool,
    /// The agent knows that it is in.
    registered: bool,
    /// When the last message of each direction arrives: later ones come no sooner.
    last: [u64; 2],
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) queue: EventQueue<Event>,
    pub(super) plan: Plan,
    pub(super) cluster: Option<Cluster>,
    pub(super) life: u64,
    /// The coordinator is stopped until then: what comes waits to be read.
    pub(super) paused_until: u64,
    /// Most of the cluster was silent at the last tick.
    pub(super) most_silent: bool,
    pub(super) started: u64,
    pub(super) agents: Vec<Agent>,
    pub(super) programs: Vec<Program>,
    pub(super) links: BTreeMap<LinkId, AgentConnection>,
    pub(super) clients: BTreeMap<ClientId, usize>,
    pub(super) connections: u64,
    pub(super) sessions_seen: BTreeSet<SessionId>,
    pub(super) version: u64,
    pub(super) steps: u64,
}

/// Runs one simulation.
///
/// # Errors
/// What went wrong, and when.
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
        let agents = (0..plan.agents)
            .map(|index| Agent::new(index, if plan.agents >= 1_000 { plan.devices } else { devices(&mut random) }))
            .collect();
        Self {
            random,
            queue: EventQueue::default(),
            plan,
            cluster: None,
            life: 0,
            paused_until: 0,
            most_silent: false,
            started: 0,
            agents,
            programs: Vec::new(),
            links: BTreeMap::new(),
            clients: BTreeMap::new(),
            connections: 0,
            sessions_seen: BTreeSet::new(),
            version: 0,
            steps: 0,
        }
    }

    fn live(&mut self) -> Result<(), String> {
        self.start_coordinator();
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
        for agent in &mut self.agents {
            agent.cut = false;
            agent.silent_until = 0;
        }
        while let Some(event) = self.queue.next(self.plan.duration + self.plan.outage + SETTLE) {
            self.happen(event)?;
        }
        self.check_settled()
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        let for_coordinator = matches!(event, Event::FromAgent { .. } | Event::Input { .. } | Event::Tick { .. });
        if for_coordinator && self.queue.now() < self.paused_until {
            self.queue.add(self.paused_until, event);
            return Ok(());
        }
        match event {
            Event::Trouble => self.trouble(),
            Event::Connect { agent, incarnation } => self.connect(agent, incarnation),
            Event::Beat { agent, link } => self.beat(agent, link),
            Event::FromAgent { life, link, input } => {
                if self.links.get(&link).is_some_and(|link| link.open) {
                    return self.input(life, input);
                }
            }
            Event::Input { life, input } => return self.input(life, input),
            Event::ToAgent { agent, link, order } => {
                let open = self.links.get(&link).is_some_and(|link| link.open);
                if open && self.agents[agent].link == Some(link) {
                    if matches!(order, AgentOrder::Registered(_)) {
                        self.queue.add(self.queue.now(), Event::Beat { agent, link });
                        if let Some(link) = self.links.get_mut(&link) {
                            link.registered = true;
                        }
                    }
                    self.agents[agent].obey(order);
                }
            }
            Event::LinkGone { agent, link } => {
                if self.agents[agent].link == Some(link) {
                    self.agents[agent].link = None;
                    self.retry(agent);
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
                    self.try_to_return(program);
                }
            }
            Event::ProgramGone { agent, incarnation, session } => {
                if self.agents[agent].incarnation == incarnation {
                    self.end_executor(agent, session);
                }
            }
            Event::Return { program } => self.come_back(program),
            Event::Started { agent, incarnation, session } => self.tell_of_start(agent, incarnation, session),
            Event::StartCoordinator => self.start_coordinator(),
            Event::Tick { life } => {
                if life == self.life && self.cluster.is_some() {
                    self.queue.add(self.queue.now() + TICK, Event::Tick { life });
                    self.input(life, Input::Tick)?;
                    self.check_silence()?;
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

    fn start_coordinator(&mut self) {
        if self.cluster.is_some() {
            return;
        }
        self.life += 1;
        self.started = self.queue.now();
        self.version = 0;
        self.cluster =
            Some(Cluster::new(Limits { lost_after_ms: LOST_AFTER, ..Limits::default() }, 1_000_000 + self.started));
        self.queue.add(self.started + TICK, Event::Tick { life: self.life });
    }

    fn kill_coordinator(&mut self) {
        if self.cluster.take().is_none() {
            return;
        }
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            self.break_link(link, false, 200);
        }
        for (client, program) in std::mem::take(&mut self.clients) {
            let delay = self.random.within(0..200);
            self.queue.add(self.queue.now() + delay, Event::ClientGone { program, client });
        }
        // Most are back soon.
        let longest = if self.random.chance(70) { 3_000 } else { self.plan.outage };
        let pause = self.random.within(0..longest);
        self.queue.add(self.queue.now() + pause, Event::StartCoordinator);
    }

    fn input(&mut self, life: u64, input: Input) -> Result<(), String> {
        let now = Millis(self.queue.now() - self.started);
        let Some(cluster) = self.cluster.as_mut().filter(|_| life == self.life) else { return Ok(()) };
        let is_beat = matches!(input, Input::Heartbeat { .. });
        let mut effects = Vec::new();
        cluster.handle(now, input, &mut effects);
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
            Effect::ToAgent(link, order) => {
                let delay = self.delay();
                let now = self.queue.now();
                if let Some(state) = self.links.get_mut(&link).filter(|link| link.open) {
                    state.last[1] = state.last[1].max(now + delay);
                    let event = Event::ToAgent { agent: state.agent, link, order };
                    self.queue.add(state.last[1], event);
                }
            }
            Effect::RefuseAgent(link, _) | Effect::DropLink(link) => self.break_link(link, true, 50),
            Effect::ToClient(client, push) => {
                if let Some(&program) = self.clients.get(&client) {
                    // Clients are short of messages: a fixed delay keeps their order.
                    self.queue.add(self.queue.now() + 5, Event::ToProgram { program, client, push });
                }
            }
            Effect::CloseClient(client) => {
                if let Some(program) = self.clients.remove(&client) {
                    self.queue.add(self.queue.now() + 5, Event::ClientGone { program, client });
                }
            }
            Effect::Changed => {}
        }
    }

    // Agents.

    fn start_agent(&mut self, agent: usize) {
        if !self.agents[agent].alive {
            // Now and then its machine was booted meanwhile.
            let boot = if self.random.chance(20) { Some(self.random.within(0..1_000_000)) } else { None };
            self.agents[agent].start(boot);
            self.retry(agent);
        }
    }

    fn retry(&mut self, agent: usize) {
        let pause = self.random.within(0..1_000);
        let incarnation = self.agents[agent].incarnation;
        self.queue.add(self.queue.now() + pause, Event::Connect { agent, incarnation });
    }

    fn connect(&mut self, agent: usize, incarnation: u64) {
        let state = &mut self.agents[agent];
        if !state.alive || state.incarnation != incarnation || state.link.is_some() {
            return;
        }
        if state.cut || self.cluster.is_none() {
            self.retry(agent);
            return;
        }
        self.connections += 1;
        let link = LinkId(self.connections);
        state.link = Some(link);
        let registration = state.registration();
        self.links.insert(link, AgentConnection { agent, open: true, registered: false, last: [0; 2] });
        self.send(link, Input::Register { link, registration });
    }

    fn beat(&mut self, agent: usize, link: LinkId) {
        let state = &self.agents[agent];
        if state.alive && state.link == Some(link) {
            let sessions = state.executors.iter().copied().collect();
            if self.queue.now() >= state.silent_until {
                self.send(link, Input::Heartbeat { link, sessions });
            }
            self.queue.add(self.queue.now() + 500, Event::Beat { agent, link });
        }
    }

    /// From an agent to the coordinator.
    pub(super) fn send(&mut self, link: LinkId, input: Input) {
        let delay = self.delay();
        let (now, life) = (self.queue.now(), self.life);
        if let Some(state) = self.links.get_mut(&link).filter(|link| link.open) {
            state.last[0] = state.last[0].max(now + delay);
            self.queue.add(state.last[0], Event::FromAgent { life, link, input });
        }
    }

    /// Nothing gets through any more; both ends notice, at most `notice` milliseconds later.
    fn break_link(&mut self, link: LinkId, tell_coordinator: bool, notice: u64) {
        let Some(state) = self.links.remove(&link) else { return };
        let now = self.queue.now();
        let delay = self.random.within(0..notice);
        self.queue.add(now + delay, Event::LinkGone { agent: state.agent, link });
        if tell_coordinator {
            let delay = self.random.within(0..notice);
            self.queue.add(now + delay, Event::Input { life: self.life, input: Input::LinkLost { link } });
        }
    }

    pub(super) fn end_executor(&mut self, agent: usize, session: SessionId) {
        let state = &mut self.agents[agent];
        if state.alive
            && state.executors.remove(&session)
            && let Some(link) = state.link
        {
            self.send(link, Input::ExecutorEnded { link, session });
        }
    }

    // Trouble.

    fn trouble(&mut self) {
        let agent = self.random.index(self.agents.len());
        match Trouble::any(&mut self.random) {
            Trouble::KillAgent => self.stop_agent(agent, false),
            Trouble::StopAgent => self.stop_agent(agent, true),
            Trouble::StartAgent => self.start_agent(agent),
            Trouble::CutAgent => {
                self.agents[agent].cut = true;
                if let Some(link) = self.agents[agent].link {
                    self.break_link(link, true, NOTICE_MAX);
                }
            }
            Trouble::HealAgent => {
                for agent in &mut self.agents {
                    agent.cut = false;
                }
            }
            Trouble::BreakLink => {
                if let Some(link) = self.agents[agent].link {
                    self.break_link(link, true, 100);
                }
            }
            Trouble::Open => self.open(),
            Trouble::Connect => self.use_node(),
            Trouble::EndProgram if !self.programs.is_empty() => {
                let program = self.random.index(self.programs.len());
                self.end_program(program);
            }
            Trouble::EndProgram => {}
            Trouble::KillCoordinator => self.kill_coordinator(),
            Trouble::Drain => {
                let node_name = self.agents[agent].name.clone();
                let drain = self.random.chance(50);
                let input = Input::Drain { node_name, drain };
                self.queue.add(self.queue.now(), Event::Input { life: self.life, input });
            }
            Trouble::CloseSession => {
                let open: Vec<SessionId> = self.sessions_seen.iter().copied().collect();
                if !open.is_empty() {
                    let input = Input::Close { session: open[self.random.index(open.len())] };
                    self.queue.add(self.queue.now(), Event::Input { life: self.life, input });
                }
            }
            // Once at a time: what waits keeps its order.
            Trouble::PauseCoordinator if self.queue.now() < self.paused_until => {}
            Trouble::PauseCoordinator => {
                self.paused_until = self.queue.now() + self.random.within(500..self.plan.outage);
            }
            Trouble::CutCoordinator => {
                for agent in 0..self.agents.len() {
                    self.agents[agent].cut = true;
                    if let Some(link) = self.agents[agent].link {
                        self.break_link(link, true, NOTICE_MAX);
                    }
                }
            }
            Trouble::MassSilence => {
                let until = self.queue.now() + self.random.within(500..self.plan.outage);
                for agent in 0..self.agents.len() {
                    if self.random.chance(80) {
                        self.agents[agent].silent_until = until;
                    }
                }
            }
            Trouble::CrashExecutor => {
                if let Some(&session) = self.agents[agent].executors.first() {
                    self.end_executor(agent, session);
                }
            }
        }
    }

    fn stop_agent(&mut self, agent: usize, politely: bool) {
        let Some(link) = self.agents[agent].link.filter(|_| self.agents[agent].alive) else {
            self.agents[agent].die();
            return;
        };
        if politely {
            self.send(link, Input::Goodbye { link });
        }
        self.agents[agent].die();
        // What was sent before still arrives, then the end does.
        let last = self.links.get(&link).map_or(0, |link| link.last[0]);
        let input = Input::LinkLost { link };
        self.queue.add(last.max(self.queue.now()) + 1, Event::Input { life: self.life, input });
    }

    pub(super) fn delay(&mut self) -> u64 {
        match self.random.chance(5) {
            true => self.random.within(20..DELAY_MAX),
            false => self.random.within(0..20),
        }
    }
}
