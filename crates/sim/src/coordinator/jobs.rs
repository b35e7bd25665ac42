//! Behaviour of launchers of MPI jobs, and the invariants of jobs.

use super::agent::Agent;
use super::job::Job;
use super::world::{Event, World};
use accord_cluster::Node;

/// Longest time that a launcher takes to end the other ranks.
const LAUNCHER_MAX: u64 = 1_000;

impl World {
    pub(super) fn job_of(&mut self, agent: usize) -> Option<&mut Job> {
        self.jobs.get_mut(self.agents[agent].job?)
    }

    /// Starts all agents of a job once all agents of the previous run have ended.
    pub(super) fn start_job(&mut self, index: usize) {
        let ranks = self.jobs[index].ranks.clone();
        if ranks.iter().any(|rank| self.agents[*rank].is_alive()) {
            return;
        }
        let (run, launcher_sees) = (self.jobs[index].run + 1, self.random.chance(70));
        let is_disturbed = ranks.iter().any(|rank| self.agents[*rank].cut);
        self.jobs[index] = Job { ranks: ranks.clone(), run, launcher_sees, is_disturbed, ..Job::default() };
        for rank in ranks {
            self.start_process(rank);
        }
        self.begin_job(index);
    }

    /// Stops a job in an orderly way, as an administrator does.
    pub(super) fn stop_job(&mut self, job: usize) {
        self.jobs[job].is_broken = true;
        self.launcher_ends(job, true);
    }

    /// Notes that an agent has ended, for any reason.
    pub(super) fn rank_ended(&mut self, agent: usize) {
        let Some(index) = self.agents[agent].job else { return };
        let job = &mut self.jobs[index];
        if !std::mem::replace(&mut job.is_broken, true) && job.launcher_sees {
            self.launcher_ends(index, false);
        }
    }

    fn launcher_ends(&mut self, job: usize, politely: bool) {
        let run = self.jobs[job].run;
        let pause = self.random.within(0..LAUNCHER_MAX);
        self.queue.add(self.queue.now() + pause, Event::JobEnds { job, run, politely });
    }

    pub(super) fn job_ends(&mut self, job: usize, run: u64, politely: bool) {
        if self.jobs[job].run == run {
            for rank in self.jobs[job].ranks.clone() {
                self.stop_agent(rank, politely);
            }
        }
    }

    pub(super) fn disturb(&mut self, agent: usize) {
        if let Some(job) = self.job_of(agent) {
            job.is_disturbed = true;
        }
    }

    /// Checks that an agent ends for the loss of its job only if the job has lost a rank or was disturbed. A
    /// coordinator that stops or dies ends no job.
    pub(super) fn check_leaves(&self, agent: usize) -> Result<(), String> {
        let job = self.agents[agent].job.map(|job| &self.jobs[job]);
        if job.is_some_and(|job| job.is_broken || job.is_disturbed) {
            return Ok(());
        }
        Err(format!("{} ends for its job, all of which is well: {job:?}", self.agents[agent].name))
    }

    /// Checks that no rank is left of a job that has lost a rank, as far as the loss could be known.
    pub(super) fn check_jobs(&self) -> Result<(), String> {
        for job in self.jobs.iter().filter(|job| job.run > 0) {
            let (living, dead): (Vec<&Agent>, Vec<&Agent>) =
                job.ranks.iter().map(|rank| &self.agents[*rank]).partition(|agent| agent.is_alive());
            let is_known = |agent: &&&Agent| {
                // A coordinator that started after a rank's death does not know of the rank, unless other ranks name
                // its node.
                let node = self.cluster.as_ref().and_then(|cluster| cluster.node_named(&agent.name));
                let is_it = |node: &Node| node.incarnation == agent.incarnation && job.nodes.contains(&node.id);
                job.launcher_sees || node.is_some_and(|node| !node.is_up() && is_it(node))
            };
            if let (Some(living), Some(dead)) = (living.first(), dead.iter().find(is_known)) {
                return Err(format!("{} has ended, and {} of the same job lives: {job:?}", dead.name, living.name));
            }
        }
        Ok(())
    }
}
