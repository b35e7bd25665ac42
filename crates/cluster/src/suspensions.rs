//! Suspended jobs: orders to their agents, and what stands still meanwhile.

use super::allocations::Allocations;
use super::effect::{AgentOrder, ClientPush, Effect};
use super::input::LinkId;
use super::job::Opener;
use super::node::Node;
use super::state::Cluster;
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::{Input, JobId, SuspensionStage};
use accord_types::{JobGrant, NodeId, QueuedJob, SessionKey};

impl Cluster {
    /// Orders the agent of a node to suspend a job or to resume it. An agent that is away is told once it is back.
    pub(super) fn order_suspension(&self, id: JobId, node: NodeId, suspend: bool, out: &mut Vec<Effect>) {
        let Some(key) = self.allocations.job(id).map(|job| job.token.key) else { return };
        let link = self.nodes.get(&node).and_then(Node::link);
        out.extend(link.map(|link| Effect::ToAgent(link, AgentOrder::Suspend(key, suspend))));
    }

    /// Repeats the orders of suspensions to a registered agent.
    pub(super) fn repeat_suspensions(&self, node: NodeId, link: LinkId, out: &mut Vec<Effect>) {
        let orders = self.allocations.jobs_on(node).filter_map(|job| {
            let suspend = match self.allocations.scheduler().stage_of(JobId(job.token.job))? {
                SuspensionStage::Suspending | SuspensionStage::Suspended | SuspensionStage::Waiting => true,
                SuspensionStage::Resuming | SuspensionStage::Undoing => false,
            };
            Some(Effect::ToAgent(link, AgentOrder::Suspend(job.token.key, suspend)))
        });
        out.extend(orders);
    }

    /// Has a registered agent resume jobs that it has suspended and that run. An earlier coordinator has ordered their suspension.
    pub(super) fn resume_running(&self, jobs: &[JobGrant], node: NodeId, link: LinkId, out: &mut Vec<Effect>) {
        for key in counted(jobs.iter()).filter(|job| job.is_suspended).map(|job| job.token.key) {
            let id = self.allocations.job_by_key(key);
            let runs = |id: &JobId| self.allocations.scheduler().stage_of(*id).is_none();
            if id.filter(runs).and_then(|id| self.allocations.job(id)).is_some_and(|job| job.uses(node)) {
                out.push(Effect::ToAgent(link, AgentOrder::Suspend(key, false)));
            }
        }
    }

    /// Handles an agent's answer to [`AgentOrder::Suspend`].
    pub(super) fn job_suspended(
        &mut self,
        now: Millis,
        link: LinkId,
        key: SessionKey,
        (suspend, outcome): (bool, Result<(), String>),
        out: &mut Vec<Effect>,
    ) {
        let Some(node) = self.note_alive(now, link, out) else { return };
        let Some(job) = self.allocations.job_by_key(key) else { return };
        self.allocations.push(match suspend {
            true => Input::Suspended { job, node, outcome },
            false => Input::Resumed { job, node, outcome },
        });
    }

    /// Notes that a job is suspended. The time of its sessions stands still.
    pub(super) fn is_suspended(&mut self, now: Millis, id: JobId) {
        self.allocations.part_with_devices(id);
        for session in self.sessions_of_job(id) {
            let Some(session) = self.sessions.get_mut(&session) else { continue };
            if let Some(end) = session.ends.take() {
                self.ends.remove(&(end, session.id));
                session.left_ms = Some(end.since(now));
            }
        }
        let suspension = self.allocations.scheduler().suspension(id);
        let (by, reason) = suspension.map(|suspension| (suspension.by, suspension.reason)).unwrap_or_default();
        let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        self.note_suspension(now, id, &format!("job {id} is suspended by {by}{because}"));
    }

    /// Notes that a suspended job runs again.
    pub(super) fn is_resumed(&mut self, now: Millis, id: JobId, out: &mut Vec<Effect>) {
        for session in self.sessions_of_job(id) {
            let Some(session) = self.sessions.get_mut(&session) else { continue };
            if let Some(left) = session.left_ms.take() {
                let end = now.plus(left);
                session.ends = Some(end);
                self.ends.insert((end, session.id));
            }
        }
        self.allocations.use_begins(id);
        self.note_suspension(now, id, &format!("job {id} is resumed"));
        for opener in self.allocations.take_openers(id).into_values() {
            self.open_in_job(now, id, opener, out);
        }
        self.allocations.check_keeper(id, self.allocations.linger_ms());
    }

    /// Has a program wait that opens a session in a suspended job.
    pub(super) fn wait_for_resumption(&mut self, id: JobId, opener: Opener, out: &mut Vec<Effect>) {
        let Some(token) = self.allocations.job(id).map(|job| job.token) else { return };
        let by = self.allocations.scheduler().suspension(id).map(|suspension| suspension.by).unwrap_or_default();
        let why = match by.is_empty() {
            true => "the job is suspended".to_owned(),
            false => format!("the job is suspended by {by}"),
        };
        let queued = QueuedJob { token, position: None, why, starts_in_ms: None };
        out.push(Effect::ToClient(opener.client, ClientPush::Queued(queued)));
        self.allocations.wait_for(id, opener);
    }

    /// Notes why a job can't be suspended or resumed.
    pub(super) fn suspension_failed(&mut self, now: Millis, id: JobId, why: &str) {
        self.note_suspension(now, id, &format!("job {id}: {why}"));
    }

    fn note_suspension(&mut self, now: Millis, id: JobId, text: &str) {
        tracing::info!("{text}");
        self.allocations.note_event(now, id, text);
    }

    fn sessions_of_job(&self, id: JobId) -> Vec<accord_types::SessionId> {
        self.allocations.job(id).map(|job| counted(job.sessions.iter()).copied().collect()).unwrap_or_default()
    }
}

impl Allocations {
    /// Lets others have the devices of a suspended job.
    fn part_with_devices(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        for leased in counted(job.devices().iter()) {
            if self.exclusive.get(&leased.device) == Some(&id) {
                self.exclusive.remove(&leased.device);
            }
        }
    }

    /// Notes that a suspended job holds its devices again.
    pub(super) fn hold_again(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let held = job.devices().iter().filter(|leased| leased.exclusive && job.uses(leased.device.node));
        self.exclusive.extend(counted(held).map(|leased| (leased.device, id)));
    }
}
