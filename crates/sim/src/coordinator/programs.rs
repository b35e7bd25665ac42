//! Behaviour of programs: they open sessions, use devices and end.

use super::program::Program;
use super::world::{DELAY_MAX, Event, NOTICE_MAX, World};
use super::{USER, key_of};
use accord_cluster::{ClientId, ClientPush, Input, Origin};
use accord_types::{DeviceId, DeviceKind, OrderPolicy};

impl World {
    pub(super) fn open(&mut self) {
        let name = match self.random.chance(15) {
            true => "elsewhere".to_owned(),
            false => self.agents[self.random.index(self.agents.len())].name.clone(),
        };
        let order = [OrderPolicy::Local, OrderPolicy::Global, OrderPolicy::Rank][self.random.index(3)];
        let kind = self.random.chance(30).then_some(DeviceKind::CPU);
        let mut program = Program::new(self.programs.len(), name, order, kind);
        if self.cluster.is_some() {
            self.connections += 1;
            let client = ClientId(self.connections);
            program.client = Some(client);
            self.clients.insert(client, self.programs.len());
            let input = Input::Open {
                client,
                request: program.request.clone(),
                key: key_of(self.programs.len()),
                user: USER.into(),
            };
            let delay = self.delay();
            self.queue.add(self.queue.now() + delay, Event::Input { life: self.life, input });
        }
        self.programs.push(program);
    }

    pub(super) fn program_hears(&mut self, program: usize, push: ClientPush) -> Result<(), String> {
        match push {
            ClientPush::Granted(session) => {
                if !self.sessions_seen.insert(session) {
                    return Err(format!("{session} was given twice"));
                }
                self.programs[program].session = Some(session);
                self.programs[program].attached = true;
            }
            ClientPush::NodeLost(node, _) | ClientPush::NodeLeft(node, _) => {
                self.programs[program].lost.insert(node);
            }
            ClientPush::Ended(_) => {
                // The coordinator closes the connection with this message.
                self.programs[program].notified_of_end = true;
                self.clients.retain(|_, owner| *owner != program);
                self.programs[program].client = None;
                self.programs[program].attached = false;
            }
            ClientPush::Refused(error) if self.programs[program].session.is_some() => {
                return Err(format!("a program that came back was refused: {error}"));
            }
            ClientPush::Attached => {
                self.programs[program].attached = true;
                self.report_in_use(program);
            }
            ClientPush::UseAnswered(device, error) => {
                let Some(agent) = self.programs[program].asked.remove(&device) else { return Ok(()) };
                let state = &self.agents[agent];
                let is_there = !state.cut && state.is_alive() && state.node() == Some(device.node);
                if let Some(error) = error {
                    self.programs[program].refused.insert(agent, error.to_string());
                } else if let Some(session) = self.programs[program].session.filter(|_| is_there) {
                    self.programs[program].used.insert(device);
                    self.command_lane(agent, program, session, true);
                }
            }
            ClientPush::Refused(_)
            | ClientPush::Queued(_)
            | ClientPush::Held(_)
            | ClientPush::Warning(_)
            | ClientPush::ExecutorEnded(..) => {}
        }
        Ok(())
    }

    /// Has a program use a device of some node for the first time.
    pub(super) fn use_node(&mut self) {
        let ready: Vec<usize> = (0..self.programs.len())
            .filter(|&program| self.programs[program].alive && self.programs[program].session.is_some())
            .collect();
        if ready.is_empty() {
            return;
        }
        let program = ready[self.random.index(ready.len())];
        let agent = self.random.index(self.agents.len());
        let Some(session) = self.programs[program].session else { return };
        let state = &self.agents[agent];
        let is_lost = state.node().is_some_and(|node| self.programs[program].lost.contains(&node));
        if state.cut || !state.is_alive() || is_lost {
            return;
        }
        // Sometimes the program presents the number of another program's session.
        let other = self.random.chance(10).then(|| ready[self.random.index(ready.len())]);
        let session = other.and_then(|other| self.programs[other].session).unwrap_or(session);
        // An agent does not know the session before the program has used its node.
        let is_known = self.programs[program].used.iter().any(|device| Some(device.node) == state.node());
        if !is_known && self.random.chance(90) {
            self.ask_use(program, agent);
            return;
        }
        // A second command lane to the same agent is for a new executor.
        if !self.programs[program].connected.contains(&agent) || self.random.chance(30) {
            self.command_lane(agent, program, session, false);
        }
    }

    /// Requests a device of a node for a program, which connects to the node's agent once that is granted.
    pub(super) fn ask_use(&mut self, program: usize, agent: usize) {
        let ordinal = u32::try_from(self.random.within(0..4)).unwrap_or(0);
        let (Some(node), Some(client)) = (self.agents[agent].node(), self.programs[program].client) else { return };
        let device = DeviceId { node, ordinal: ordinal.min(self.agents[agent].devices.saturating_sub(1)) };
        self.programs[program].refused.remove(&agent);
        self.programs[program].asked.insert(device, agent);
        let input = Input::MayUse { client, device };
        self.queue.add(self.queue.now(), Event::Input { life: self.life, input });
    }

    /// Restarts the clock of a session that only its program knew when it reconnected: its time is counted from then.
    pub(super) fn note_claim(&mut self, client: ClientId) {
        let id = self.clients.get(&client).and_then(|program| self.programs[*program].session);
        let session = id.and_then(|id| self.cluster.as_ref()?.session(id));
        if let Some(session) = session.filter(|session| session.origin == Origin::Program) {
            self.opened.entry(session.id).and_modify(|(opened, _)| *opened = self.queue.now());
        }
    }

    /// Reports the devices in use after a program has reconnected.
    fn report_in_use(&mut self, program: usize) {
        let Program { client: Some(client), used, request, .. } = &self.programs[program] else { return };
        if request.devices.is_none() {
            let input = Input::InUse { client: *client, devices: used.iter().copied().collect() };
            self.queue.add(self.queue.now() + 5, Event::Input { life: self.life, input });
        }
    }

    /// Has a program that lost its connection reconnect, unless it knows that its session has ended.
    pub(super) fn try_to_return(&mut self, program: usize) {
        let Program { alive, session, client, notified_of_end, .. } = &self.programs[program];
        if *alive && session.is_some() && client.is_none() && !notified_of_end {
            // Some programs stay disconnected from the coordinator for long, and go on with their agents.
            let longest = if !self.is_calm && self.random.chance(20) { self.plan.outage } else { 1_000 };
            let pause = self.random.within(25..longest);
            self.queue.add(self.queue.now() + pause, Event::Return { program });
        }
    }

    pub(super) fn reconnect(&mut self, program: usize) {
        let state = &self.programs[program];
        let (Some(session), true, None) = (state.session, state.alive, state.client) else { return };
        if self.cluster.is_none() {
            return self.try_to_return(program);
        }
        self.connections += 1;
        let client = ClientId(self.connections);
        let request = state.request.clone();
        self.programs[program].client = Some(client);
        self.clients.insert(client, program);
        let input = Input::Attach { client, session, request, key: key_of(program), user: USER.into() };
        let delay = self.delay();
        self.queue.add(self.queue.now() + delay, Event::Input { life: self.life, input });
    }

    pub(super) fn end_program(&mut self, program: usize) {
        if !std::mem::replace(&mut self.programs[program].alive, false) {
            return;
        }
        let now = self.queue.now();
        if let Some(session) = self.programs[program].session {
            for agent in self.programs[program].connected.clone() {
                // Across a cut, an executor notices the end by a timeout only.
                let notice = if self.agents[agent].cut { NOTICE_MAX } else { self.delay() };
                let incarnation = self.agents[agent].incarnation;
                self.queue.add(now + notice, Event::ProgramGone { agent, incarnation, session });
            }
        }
        if let Some(client) = self.programs[program].client.take() {
            self.clients.remove(&client);
            // The program's request may still be in flight; the end of the connection arrives after it.
            let input = Input::ClientGone { client };
            self.queue.add(now + DELAY_MAX, Event::Input { life: self.life, input });
        }
    }
}
