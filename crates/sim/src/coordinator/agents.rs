//! Carries out what the rules of agents decide.

use super::agent::{AgentEvent, Executor, Lane};
use super::key_of;
use super::program::Program;
use super::world::{AgentConnection, DELAY_MAX, Event, World};
use accord_cluster::{AgentOrder, Input, LinkId, MeasuredPath, Registration};
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::Endpoint;
use accord_node_agent::node::{AgentEnding, AgentReport, CommandLane, Disconnect, Effect, ExecutorId, LanePath, Node};
use accord_types::{DeviceVerdict, NodeFigures, NodeId, PathTimes, SessionId};
use std::time::Duration;

/// Timeout of an agent's connection, and of the answer to its registration.
const CONNECT_TIMEOUT: u64 = 3_000;
/// Longest time that an executor takes to start.
const START_MAX: u64 = 700;
/// Longest time that an executor takes to end after the order; then it is killed.
const END_MAX: u64 = 1_100;
/// Time that one executor in a hundred takes to end, because its driver blocks.
const STUCK_MAX: u64 = 12_000;
/// All lanes use one network.
const HERE: LanePath = LanePath { leaves_machine: false, is_of_world: false };

impl World {
    pub(super) fn start_agent(&mut self, agent: usize) {
        match self.agents[agent].job {
            Some(job) => self.start_job(job),
            None => self.start_process(agent),
        }
    }

    pub(super) fn start_process(&mut self, agent: usize) {
        if !self.agents[agent].is_alive() {
            // Sometimes the machine was booted in between.
            let boot = if self.random.chance(20) { Some(self.random.within(0..1_000_000)) } else { None };
            self.agents[agent].start(self.queue.now(), boot);
            if self.agents[agent].has_begun {
                let pause = self.random.within(0..1_000);
                self.at_agent(agent, pause, AgentEvent::Wake);
            }
        }
    }

    /// Schedules an event at this incarnation of the agent.
    pub(super) fn at_agent(&mut self, agent: usize, delay: u64, event: AgentEvent) {
        let incarnation = self.agents[agent].incarnation;
        self.queue.add(self.queue.now() + delay, Event::Agent { agent, incarnation, event });
    }

    /// Delivers an event. A stopped agent's events wait in order.
    pub(super) fn agent_hears(&mut self, agent: usize, incarnation: u64, event: AgentEvent) -> Result<(), String> {
        let now = self.queue.now();
        let state = &mut self.agents[agent];
        if !state.is_alive() || state.incarnation != incarnation {
            return Ok(());
        }
        if now >= state.silent_until && state.inbox.is_empty() {
            self.happen_at(agent, event)?;
            return self.go_on(agent);
        }
        if state.inbox.is_empty() {
            let until = state.silent_until;
            self.queue.add(until, Event::AgentGoesOn { agent });
        }
        self.agents[agent].inbox.push_back(event);
        Ok(())
    }

    /// Delivers the waiting events of an agent that continues.
    pub(super) fn catch_up(&mut self, agent: usize) -> Result<(), String> {
        let until = self.agents[agent].silent_until;
        if self.queue.now() < until {
            self.queue.add(until, Event::AgentGoesOn { agent });
            return Ok(());
        }
        while let Some(event) = self.agents[agent].inbox.pop_front() {
            self.happen_at(agent, event)?;
            self.go_on(agent)?;
        }
        Ok(())
    }

    fn happen_at(&mut self, agent: usize, event: AgentEvent) -> Result<(), String> {
        let now = self.queue.now();
        let Some(event) = self.happen_while_joining(agent, event)? else { return Ok(()) };
        let state = &mut self.agents[agent];
        let time = state.now(now);
        let Some(rules) = &mut state.rules else { return Ok(()) };
        let mut ends = Vec::new();
        let mut is_in = false;
        match event {
            // These are about joining a job.
            AgentEvent::Joins | AgentEvent::Waits => {}
            AgentEvent::Wake => {
                if state.wakes <= now {
                    state.wakes = u64::MAX;
                }
            }
            AgentEvent::Order(link, order) if state.link == Some(link) => match order {
                AgentOrder::Registered(id) => {
                    rules.registered(time, Endpoint::new(id, "a:1"), Duration::from_millis(500));
                    if let Some(link) = self.links.get_mut(&link) {
                        link.registered = true;
                    }
                    if let Some(job) = state.job {
                        self.jobs[job].nodes.insert(id);
                        is_in = self.jobs[job].nodes.len() >= self.jobs[job].ranks.len();
                    }
                }
                AgentOrder::SessionOpened(grant) => {
                    state.opened.insert(grant.session);
                    state.claims_closed.remove(&grant.session);
                    state.grants.insert(grant.session, grant.job);
                    rules.opened(time, grant);
                }
                AgentOrder::SessionClosed(session, why) => {
                    state.closed.insert(session);
                    if state.executors.values().any(|executor| executor.session == session && !executor.ends) {
                        let is_reported = |program: &Program| program.attached && program.session == Some(session);
                        let reported = self.programs.iter().any(is_reported);
                        state.cut_short.insert(session, (self.life, reported));
                    }
                    rules.closed(time, session, &why.map(|why| why.text(session)).unwrap_or_default(), &mut ends);
                }
                AgentOrder::ClaimClosed(session, key, why) => {
                    let reason = why.map(|why| why.text(session)).unwrap_or_default();
                    let served = rules.serves(session);
                    rules.claim_closed(time, (session, key), &reason, &mut ends);
                    if served && !rules.serves(session) {
                        state.claims_closed.insert(session);
                    }
                }
                AgentOrder::JobStarted(grant) => rules.job_started(time, grant),
                AgentOrder::ReleaseJob(job) => {
                    let of_job = state.grants.iter().filter(|(_, of)| **of == Some(job)).map(|(session, _)| *session);
                    state.closed.extend(of_job);
                    rules.release(job, &mut ends);
                }
                AgentOrder::Suspend(job, suspend) => rules.order_suspension(job, suspend),
                AgentOrder::NodeLost(id, name) => {
                    let is_of_world = state.job.is_some_and(|job| self.jobs[job].nodes.contains(&id));
                    rules.node_lost(&name, is_of_world);
                }
                AgentOrder::RankLost(_) | AgentOrder::Drain(_) => {}
                AgentOrder::TestDevice(ordinal, number) => rules.test_soon(ordinal, number),
                AgentOrder::MeasureNode => rules.measure_soon(),
                AgentOrder::ExpectMeasurement { measurement, key } => rules.expect(time, measurement, key),
                // A measurement takes no time here.
                AgentOrder::MeasurePath { measurement, .. } => {
                    if rules.begin_path(measurement) {
                        let times = PathTimes::new(measurement % 1_000, 1_000, 1_000_000);
                        rules.path_measured(measurement, Ok((times, "tls".to_owned())));
                    }
                }
            },
            AgentEvent::LinkGone(link, why) if state.link == Some(link) => {
                state.link = None;
                rules.disconnected(time, why);
            }
            AgentEvent::Unanswered(link) if state.link == Some(link) && !rules.is_in() => {
                state.link = None;
                rules.disconnected(time, Disconnect::Unreachable("no answer".to_owned()));
                self.break_link(link, Some(Disconnect::Unreachable("given up".to_owned())), 100);
            }
            AgentEvent::Order(..) | AgentEvent::LinkGone(..) | AgentEvent::Unanswered(_) => {}
            AgentEvent::Lane(lane) => state.lanes.push(Lane { since: time, ..lane }),
            AgentEvent::Started(executor, is_there) => {
                let Some(started) = state.starting.remove(&executor) else { return Ok(()) };
                let session = started.session;
                if is_there {
                    let program = started.program;
                    state.executors.insert(executor, started);
                    rules.started(time, session, executor, &mut ends);
                    if !self.programs[program].alive {
                        self.executor_notices(agent, session);
                    }
                    self.programs[program].connected.insert(agent);
                } else {
                    rules.not_started(session, executor);
                }
            }
            AgentEvent::Over(executor) => {
                if let Some(over) = state.executors.remove(&executor) {
                    rules.ended(over.session, executor, "it crashed");
                }
            }
            AgentEvent::Stuck(executor) => {
                if let Some(stuck) = state.executors.get_mut(&executor) {
                    stuck.stuck = true;
                    rules.unreachable(stuck.session, executor, &mut ends);
                }
            }
        }
        if let Some(job) = self.agents[agent].job.filter(|_| is_in) {
            self.all_are_in(job);
        }
        self.end_executors(agent, ends)
    }

    /// Carries out what is due at an agent after an event.
    fn go_on(&mut self, agent: usize) -> Result<(), String> {
        let now = self.queue.now();
        if !self.agents[agent].has_begun {
            return Ok(());
        }
        let mut ends = Vec::new();
        self.ask_for_lanes(agent, &mut ends)?;
        let state = &mut self.agents[agent];
        let time = state.now(now);
        let Some(rules) = &mut state.rules else { return Ok(()) };
        let effects = rules.poll(time, &mut ends);
        rules.check_invariants(time)?;
        self.end_executors(agent, ends)?;
        for effect in effects {
            match effect {
                Effect::Connect { previous, sessions, granted, jobs } => {
                    let registration = self.agents[agent].registration(previous, sessions, granted, jobs);
                    self.connect(agent, registration)?;
                }
                Effect::Send(word) => {
                    let link = self.agents[agent].link.ok_or_else(|| format!("{word:?} has no receiver"))?;
                    let input = match word {
                        AgentReport::Heartbeat(sessions) => Input::Heartbeat { link, sessions },
                        AgentReport::Used(uses) => Input::AgentUsed { link, uses },
                        AgentReport::Loads(loads) => Input::AgentLoads { link, loads },
                        AgentReport::UseEnded(sessions) => Input::UseEnded { link, sessions },
                        AgentReport::Started(grant) => Input::ExecutorStarted { link, grant },
                        AgentReport::Ended(session, why) => Input::ExecutorEnded { link, session, why },
                        AgentReport::Leaving => Input::Leaving { link },
                        AgentReport::JobReleased(job) => Input::JobReleased { link, job },
                        AgentReport::JobSuspended(job, suspend, outcome) => {
                            Input::JobSuspended { link, job, suspend, outcome }
                        }
                        AgentReport::ScriptFailed(job, script, why) => Input::ScriptFailed { link, job, script, why },
                        AgentReport::Tested(ordinal, number, verdict) => {
                            Input::DeviceTested { link, ordinal, number, verdict }
                        }
                        AgentReport::Measured(figures) => Input::NodeMeasured { link, figures },
                        AgentReport::PathMeasured { measurement, path } => {
                            let path = path.map(|(times, transport)| MeasuredPath { times, transport });
                            Input::PathMeasured { link, measurement, path }
                        }
                    };
                    self.send(link, input);
                }
                Effect::EndProcess(..) => return Err("no program drives devices itself".to_owned()),
                // A suspension takes no time here.
                Effect::Suspend(job, _) => {
                    if let Some(rules) = &mut self.agents[agent].rules {
                        rules.suspension_ended(time, job, Ok(()));
                    }
                }
                Effect::RunScript(..) => return Err("the site has no scripts".to_owned()),
                Effect::Measure => {
                    if let Some(rules) = &mut self.agents[agent].rules {
                        rules.measured(NodeFigures::default());
                    }
                    self.at_agent(agent, 0, AgentEvent::Wake);
                }
                // A test takes no time here.
                Effect::Test(ordinal, number) => {
                    if let Some(rules) = &mut self.agents[agent].rules {
                        rules.tested(ordinal, number, DeviceVerdict::Works);
                    }
                    self.at_agent(agent, 0, AgentEvent::Wake);
                }
                // The agent has lost its job or its name.
                Effect::Leave(why) => {
                    if matches!(why, AgentEnding::WorldLost(_)) {
                        self.check_leaves(agent)?;
                    }
                    self.stop_agent(agent, true);
                    return Ok(());
                }
            }
        }
        self.agents[agent].check(now)?;
        self.check_times_at(agent)?;
        let state = &mut self.agents[agent];
        let waits = state.lanes.iter().map(|lane| match &lane.proven {
            Some(lane) => Node::begun_within(lane),
            None => Node::key_within(lane.since),
        });
        let next = state.rules.as_ref().and_then(Node::next).into_iter().chain(waits).min();
        let next = next.map_or(u64::MAX, |next| state.started + u64::try_from(next.as_millis()).unwrap_or(u64::MAX));
        if next < state.wakes {
            state.wakes = next;
            self.at_agent(agent, next.saturating_sub(now), AgentEvent::Wake);
        }
        Ok(())
    }

    /// Moves lanes on: they wait for the coordinator's grant, prove their key, and wait for their executor.
    fn ask_for_lanes(&mut self, agent: usize, ends: &mut Vec<ExecutorId>) -> Result<(), String> {
        let now = self.queue.now();
        let time = self.agents[agent].now(now);
        for mut lane in std::mem::take(&mut self.agents[agent].lanes) {
            let Some(rules) = &mut self.agents[agent].rules else { return Ok(()) };
            let session = lane.session;
            if lane.proven.is_none() {
                match rules.key_of(time, Purpose::Command, session, lane.since) {
                    Ok(Some(key)) if key == key_of(lane.program) => {
                        let hello = Hello { to: lane.to, ..Hello::new(Purpose::Command, session, 0, PeerId::PROGRAM) };
                        if rules.admit(time, &hello, HERE).is_err() {
                            continue;
                        }
                        lane.proven = Some(CommandLane::new(time, session));
                    }
                    Ok(None) => {
                        if time >= Node::key_within(lane.since) {
                            return Err(format!("{lane:?} waits for ever"));
                        }
                        self.agents[agent].lanes.push(lane);
                        continue;
                    }
                    Ok(Some(_)) | Err(_) => continue,
                }
            }
            let Some(proven) = &mut lane.proven else { continue };
            match rules.begin(time, proven, ends) {
                Ok(Some(executor)) => self.begin_executor(agent, executor, &lane)?,
                Ok(None) if time >= Node::begun_within(proven) => return Err(format!("{lane:?} waits for ever")),
                Ok(None) => self.agents[agent].lanes.push(lane),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn begin_executor(&mut self, agent: usize, executor: ExecutorId, lane: &Lane) -> Result<(), String> {
        let state = &mut self.agents[agent];
        let Lane { session, program, .. } = *lane;
        let name = &state.name;
        if !state.opened.contains(&session) || state.closed.contains(&session) {
            return Err(format!("{name} begins an executor of {session}, which was not granted or has ended"));
        }
        if self.programs[program].session != Some(session) {
            return Err(format!("{name} begins an executor of {session} for another program's key"));
        }
        if lane.to.is_some() && lane.to != state.node() {
            return Err(format!("{name} takes a lane for {:?} and is {:?}", lane.to, state.node()));
        }
        let before = state.starting.values().chain(state.executors.values());
        if before.into_iter().any(|other| other.session == session) {
            return Err(format!("{name} begins a second executor of {session} beside the first"));
        }
        state.starting.insert(executor, Executor { session, program, ends: false, stuck: false });
        let (pause, is_there) = (self.random.within(0..START_MAX), self.is_calm || self.random.chance(97));
        self.at_agent(agent, pause, AgentEvent::Started(executor, is_there));
        Ok(())
    }

    fn end_executors(&mut self, agent: usize, ends: Vec<ExecutorId>) -> Result<(), String> {
        let now = self.queue.now();
        for executor in ends {
            let state = &mut self.agents[agent];
            let ended = state.executors.get_mut(&executor);
            let ended = ended.ok_or_else(|| format!("{executor:?} is not there and has to end"))?;
            let (session, stuck) = (ended.session, ended.stuck);
            if std::mem::replace(&mut ended.ends, true) {
                return Err(format!("{executor:?} has to end twice"));
            }
            let makes_way = state.lanes.iter().any(|lane| lane.session == session && lane.proven.is_some());
            let is_closed = state.closed.contains(&session) || state.claims_closed.contains(&session);
            if !stuck && !makes_way && !is_closed && now < self.end_of(session) {
                return Err(format!(
                    "{} ends an executor of {session} that was not asked to end",
                    self.agents[agent].name
                ));
            }
            let longest = if self.is_calm || self.random.chance(99) { END_MAX } else { STUCK_MAX };
            let pause = self.random.within(1..longest);
            self.at_agent(agent, pause, AgentEvent::Over(executor));
        }
        Ok(())
    }

    /// Ends the executor of a session whose program has ended, which it notices itself.
    pub(super) fn executor_notices(&mut self, agent: usize, session: SessionId) {
        let executors = &self.agents[agent].executors;
        let own = executors.iter().find(|(_, executor)| executor.session == session && !executor.ends);
        if let Some(executor) = own.map(|(executor, _)| *executor) {
            let delay = self.random.within(0..50);
            self.at_agent(agent, delay, AgentEvent::Over(executor));
        }
    }

    fn connect(&mut self, agent: usize, registration: Registration) -> Result<(), String> {
        let state = &mut self.agents[agent];
        if let Some(link) = state.link {
            return Err(format!("{} connects and has {link:?}", state.name));
        }
        self.connections += 1;
        let link = LinkId(self.connections);
        state.link = Some(link);
        if state.cut || self.cluster.is_none() {
            // A cut is noticed by a timeout only.
            let longest = if self.agents[agent].cut { CONNECT_TIMEOUT } else { 20 };
            let delay = self.random.within(0..longest);
            let why = Disconnect::Unreachable("nothing listens".to_owned());
            self.at_agent(agent, delay, AgentEvent::LinkGone(link, why));
            return Ok(());
        }
        let incarnation = state.incarnation;
        let connection = AgentConnection { agent, incarnation, open: true, registered: false, last: [0; 2] };
        self.links.insert(link, connection);
        self.send(link, Input::Register { link, registration });
        self.at_agent(agent, CONNECT_TIMEOUT, AgentEvent::Unanswered(link));
        Ok(())
    }

    /// Sends from an agent to the coordinator.
    pub(super) fn send(&mut self, link: LinkId, input: Input) {
        let delay = self.delay();
        let (now, life) = (self.queue.now(), self.life);
        if let Some(state) = self.links.get_mut(&link).filter(|link| link.open) {
            state.last[0] = state.last[0].max(now + delay);
            self.queue.add(state.last[0], Event::FromAgent { life, link, input });
        }
    }

    /// Sends from the coordinator to an agent.
    pub(super) fn order(&mut self, link: LinkId, order: AgentOrder) {
        let delay = self.delay();
        let now = self.queue.now();
        if let Some(state) = self.links.get_mut(&link).filter(|link| link.open) {
            state.last[1] = state.last[1].max(now + delay);
            let (agent, incarnation) = (state.agent, state.incarnation);
            self.queue.add(state.last[1], Event::ToAgent { agent, incarnation, link, order });
        }
    }

    /// Breaks a link; the ends notice within `notice` milliseconds. `notify_coordinator` is the reason that the agent
    /// sees; `None` means that the coordinator itself has ended.
    pub(super) fn break_link(&mut self, link: LinkId, notify_coordinator: Option<Disconnect>, notice: u64) {
        let Some(state) = self.links.remove(&link) else { return };
        let now = self.queue.now();
        let delay = self.random.within(0..notice);
        let gone = || Disconnect::Unreachable("the connection is gone".to_owned());
        let event = AgentEvent::LinkGone(link, notify_coordinator.clone().unwrap_or_else(gone));
        let (agent, incarnation) = (state.agent, state.incarnation);
        self.queue.add(now + delay, Event::Agent { agent, incarnation, event });
        if notify_coordinator.is_some() {
            let delay = self.random.within(0..notice);
            self.queue.add(now + delay, Event::Input { life: self.life, input: Input::LinkLost { link } });
        }
    }

    pub(super) fn stop_agent(&mut self, agent: usize, politely: bool) {
        if !self.agents[agent].is_alive() {
            return;
        }
        self.rank_ended(agent);
        if let Some(link) = self.agents[agent].joining {
            self.close_from_here(link);
        }
        let state = &mut self.agents[agent];
        let Some(link) = state.link else { return state.die() };
        if politely {
            self.send(link, Input::Goodbye { link });
        }
        self.agents[agent].die();
        self.close_from_here(link);
    }

    /// Opens a program's command lane. It may be for a wrong node unless `is_right`.
    pub(super) fn command_lane(&mut self, agent: usize, program: usize, session: SessionId, is_right: bool) {
        let own = self.agents[agent].node();
        let other = NodeId(u32::try_from(self.random.index(self.agents.len() + 1)).unwrap_or(0));
        let to = if is_right || self.random.chance(95) { own } else { Some(other) };
        let lane = Lane { program, session, to, since: Duration::ZERO, proven: None };
        let delay = self.random.within(0..DELAY_MAX);
        self.at_agent(agent, delay, AgentEvent::Lane(lane));
    }
}
