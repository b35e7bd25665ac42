//! The begin of an MPI job: its agents wait in `MPI_Init` for each other. Before that each opens a connection to the
//! coordinator, by which it learns that another rank has died.

use super::agent::AgentEvent;
use super::world::{AgentConnection, DELAY_MAX, Event, World};
use accord_cluster::{AgentOrder, Input, Joiner, LinkId};

/// Longest time that an agent tries to open this connection; it then continues without it.
const TELL_MAX: u64 = 3_000;
/// Time after which a launcher ends a job that has not begun.
const BEGIN_MAX: u64 = 20_000;

impl World {
    /// Starts all ranks of a job, as its launcher does.
    pub(super) fn begin_job(&mut self, job: usize) {
        for rank in self.jobs[job].ranks.clone() {
            let pause = self.random.within(0..1_000);
            self.at_agent(rank, pause, AgentEvent::Joins);
        }
        let run = self.jobs[job].run;
        self.queue.add(self.queue.now() + BEGIN_MAX, Event::JobHasBegun { job, run });
    }

    /// Handles an event that is about joining; returns any other event.
    pub(super) fn happen_while_joining(
        &mut self,
        agent: usize,
        event: AgentEvent,
    ) -> Result<Option<AgentEvent>, String> {
        let by_it = |link| self.agents[agent].joining == Some(link);
        match event {
            AgentEvent::Joins => self.joins(agent),
            AgentEvent::Waits => self.waits(agent),
            AgentEvent::Order(link, AgentOrder::RankLost(_)) if by_it(link) => {
                self.check_leaves(agent)?;
                self.stop_agent(agent, false);
            }
            AgentEvent::LinkGone(link, _) if by_it(link) => self.agents[agent].joining = None,
            event => return Ok(Some(event)),
        }
        Ok(None)
    }

    /// Opens an agent's connection for joining, if the coordinator can be reached.
    fn joins(&mut self, agent: usize) {
        let state = &self.agents[agent];
        if state.cut || self.cluster.is_none() {
            let longest = if state.cut { TELL_MAX } else { 20 };
            let delay = self.random.within(0..longest);
            return self.at_agent(agent, delay, AgentEvent::Waits);
        }
        self.connections += 1;
        let link = LinkId(self.connections);
        let incarnation = state.incarnation;
        let run = state.job.map_or(0, |job| self.jobs[job].run);
        let joiner = Joiner { node_name: state.name.clone(), world: format!("job-{:?}", state.job), run };
        let connection = AgentConnection { agent, incarnation, open: true, registered: false, last: [0; 2] };
        self.links.insert(link, connection);
        (self.agents[agent].joining, self.agents[agent].joined_by) = (Some(link), Some(link));
        self.send(link, Input::Join { link, joiner });
        let reported = self.links[&link].last[0] + self.delay();
        self.at_agent(agent, reported - self.queue.now(), AgentEvent::Waits);
    }

    /// Has an agent wait in `MPI_Init`. Once all ranks wait, all go on.
    fn waits(&mut self, agent: usize) {
        self.agents[agent].waits = true;
        let Some(job) = self.agents[agent].job else { return };
        let ranks = self.jobs[job].ranks.clone();
        if ranks.iter().all(|rank| self.agents[*rank].is_alive() && self.agents[*rank].waits) {
            for rank in ranks {
                self.agents[rank].has_begun = true;
                let pause = self.random.within(0..100);
                self.at_agent(rank, pause, AgentEvent::Wake);
            }
        }
    }

    /// Closes the connections for joining, once all ranks know that they are registered.
    pub(super) fn all_are_in(&mut self, job: usize) {
        for rank in self.jobs[job].ranks.clone() {
            if let Some(link) = self.agents[rank].joining.take() {
                self.send(link, Input::Goodbye { link });
                self.close_from_here(link);
            }
        }
    }

    /// Closes a link from the agent's side: messages in flight arrive, then the end.
    pub(super) fn close_from_here(&mut self, link: LinkId) {
        let last = self.links.get(&link).map_or(0, |link| link.last[0]);
        let input = Input::LinkLost { link };
        self.queue.add(last.max(self.queue.now()) + 1, Event::Input { life: self.life, input });
    }

    /// Notes which ranks the current coordinator must inform of a death, and which deaths it knows.
    pub(super) fn note_joining(&mut self, input: &Input) {
        match input {
            Input::Join { link, .. } => _ = self.joined.insert(*link),
            Input::Goodbye { link } => _ = self.joined.remove(link),
            Input::LinkLost { link } if self.joined.remove(link) => {
                let Some(lost) = self.agents.iter().position(|agent| agent.joined_by == Some(*link)) else { return };
                let (job, now) = (self.agents[lost].job, self.queue.now());
                for agent in self.agents.iter_mut().filter(|agent| agent.job == job) {
                    if agent.joining.is_some_and(|link| self.joined.contains(&link)) {
                        agent.notify_since.get_or_insert(now);
                    }
                }
            }
            _ => {}
        }
    }

    /// Ends a job whose deadline to begin has passed.
    ///
    /// # Errors
    /// Returns an error if an agent still waits for a rank although its coordinator knew of the rank's death.
    pub(super) fn job_has_begun(&mut self, job: usize, run: u64) -> Result<(), String> {
        if self.jobs[job].run != run || self.jobs[job].ranks.iter().all(|rank| self.agents[*rank].has_begun) {
            return Ok(());
        }
        for rank in self.jobs[job].ranks.clone() {
            let agent = &self.agents[rank];
            let hears = self.queue.now() >= agent.silent_until && agent.inbox.is_empty() && agent.joining.is_some();
            let was_notified = agent.notify_since.is_some_and(|since| since + DELAY_MAX < self.queue.now());
            if agent.is_alive() && was_notified && hears {
                return Err(format!("{} waits for a rank that has died, and was not told", agent.name));
            }
        }
        self.jobs[job].is_broken = true;
        self.job_ends(job, run, true);
        Ok(())
    }
}
