//! Requests for devices, and the scheduler's decisions on them.

use super::effect::{AgentOrder, ClientPush, Effect};
use super::input::{ClientId, LinkId};
use super::job::{DeferredRequest, Job, Keeper, Opener, Stage};
use super::node::Node;
use super::order::{Viewer, number_devices};
use super::session::Owner;
use super::session_end::SessionEnd;
use super::state::Cluster;
use super::time::Millis;
use accord_scheduler::units::long_time_text;
use accord_scheduler::{EndCause, JobId, LeasedDevice, Request, TextError};
use accord_telemetry::log::AUDIT;
use accord_types::{DeviceId, Error, ErrorCode, HeldJob, JobToken, NodeId, QueuedJob};
use std::collections::BTreeSet;

impl Cluster {
    /// Requests devices for a program or a command, by the text of a request.
    pub(super) fn ask(&mut self, now: Millis, opener: Opener, keeper: Keeper, text: &str, out: &mut Vec<Effect>) {
        let client = opener.client;
        let mut wanted: Request = match text.parse() {
            Ok(wanted) => wanted,
            Err(error) => {
                let error: TextError = error;
                let cause = format!("the request {text:?} is wrong: {}", error.message());
                return out.push(refusal(client, Error::new(ErrorCode::InvalidArgument, cause)));
            }
        };
        wanted.ranks = opener.request.rank.map_or(1, |rank| rank.size.max(1));
        // Earlier inputs must be decided first.
        self.schedule(now, out);
        let origin = self.nodes.named(&opener.request.node_name);
        let mut decided = Vec::new();
        let (user, program) = (opener.owner.user.clone(), opener.request.program.clone());
        let answer = self.allocations.ask(opener, keeper, origin, wanted, &mut decided);
        match &answer {
            Ok(job) => tracing::info!("job {job} of user {user:?}, program {program:?}, asks for {text}"),
            Err(error) => {
                tracing::info!("user {user:?}, program {program:?} is refused {text}: {}", error.cause());
            }
        }
        for effect in decided {
            self.obey(now, effect, out);
        }
        match answer {
            Ok(job) => self.notify_queued(now, job, out),
            Err(error) => out.push(refusal(client, error)),
        }
    }

    /// Passes all queued inputs to the scheduler, and carries its decisions out.
    pub(super) fn schedule(&mut self, now: Millis, out: &mut Vec<Effect>) {
        let mut decided = Vec::new();
        while self.allocations.advance(&mut decided) {
            for effect in decided.drain(..) {
                self.obey(now, effect, out);
            }
        }
    }

    fn obey(&mut self, now: Millis, effect: accord_scheduler::Effect, out: &mut Vec<Effect>) {
        use accord_scheduler::Effect as Decided;
        match effect {
            // The answers to a request, which `ask` handles.
            Decided::Queued { .. } | Decided::Refused(_) => {}
            Decided::Started { job, devices, .. } => self.start_job(now, job, devices, out),
            Decided::Warning { job, ends, cause } => {
                let left = long_time_text(ends.0.saturating_sub(now.0));
                let text = format!("job {job} ends in {left}: {cause}");
                self.allocations.note_event(now, job, &text);
                self.warn_job(job, text, out);
            }
            Decided::Ended { job, cause } => self.end_job(job, &cause, out),
            Decided::Changed { job } | Decided::Reserved { job, .. } => self.notify_queued(now, job, out),
            // Programs learn of lost nodes through their sessions.
            Decided::DevicesLost { job, devices } => self.allocations.lost(job, &devices),
            Decided::LeaseEnds { job, .. } => self.notify_agents(now, job, out),
            Decided::Suspend { job, node } => self.order_suspension(job, node, true, out),
            Decided::Resume { job, node } => self.order_suspension(job, node, false, out),
            Decided::Suspended { job } => self.is_suspended(now, job),
            Decided::DevicesHeldAgain { job } => self.allocations.hold_again(job),
            Decided::Resumed { job } => self.is_resumed(now, job, out),
            Decided::SuspensionFailed { job, why } => self.suspension_failed(now, job, &why),
            Decided::Release { job, node } => self.release(job, node, out),
            Decided::Quarantine { device } => self.quarantine_changed(now, device, out),
            Decided::QuarantineRefused { device, reason, charged, why } => {
                self.quarantine_refused(now, device, (reason, charged), &why);
            }
            Decided::Audit(text) => tracing::warn!(target: AUDIT, "{text}"),
        }
    }

    /// Opens the sessions of the programs that waited for a job.
    fn start_job(&mut self, now: Millis, job: JobId, devices: Vec<LeasedDevice>, out: &mut Vec<Effect>) {
        let openers = self.allocations.started(job, devices);
        self.notify_agents(now, job, out);
        for opener in openers.into_values() {
            self.open_in_job(now, job, opener, out);
        }
        self.notify_holder(job, out);
        self.allocations.check_keeper(job, self.allocations.linger_ms());
    }

    /// Informs the agents of a job's nodes of its devices there and of its end.
    fn notify_agents(&self, now: Millis, id: JobId, out: &mut Vec<Effect>) {
        let Some(job) = self.allocations.job(id) else { return };
        let host_resources = self.allocations.scheduler().host_resources(id);
        for node in job.nodes().filter(|node| job.uses(*node)) {
            let link = self.nodes.get(&node).and_then(Node::link);
            let grant = job.grant(node, self.allocations.left_of(id, now), &host_resources);
            out.extend(link.map(|link| Effect::ToAgent(link, AgentOrder::JobStarted(grant))));
        }
    }

    /// Informs the command that holds a job that the job runs.
    fn notify_holder(&self, id: JobId, out: &mut Vec<Effect>) {
        let Some(job) = self.allocations.job(id).filter(|job| matches!(job.stage, Stage::Running(_))) else { return };
        if let Keeper::Command(Some(client)) = job.keeper {
            let devices = u32::try_from(job.devices().len()).unwrap_or(u32::MAX);
            out.push(Effect::ToClient(client, ClientPush::Held(HeldJob { token: job.token, devices })));
        }
    }

    /// Requests a job for a command for as long as it stays connected, or reconnects the command to its job.
    pub(super) fn hold(&mut self, now: Millis, opener: Opener, out: &mut Vec<Effect>) {
        let client = opener.client;
        if self.clients.contains_key(&client) || self.allocations.has_client(client) {
            let error = Error::new(ErrorCode::InvalidArgument, "this connection has a session or a job already");
            return out.push(refusal(client, error));
        }
        let own = opener.request.job.and_then(|token| self.own_job(token, &opener.owner));
        match (own, opener.request.job, opener.request.devices.clone()) {
            (Some(id), ..) => {
                let before = self.allocations.reconnect(id, client);
                out.extend(before.map(Effect::CloseClient));
                self.notify_queued(now, id, out);
                self.notify_holder(id, out);
            }
            (None, Some(_), _) if self.may_be_named(now) => self.held.push(DeferredRequest::command(opener)),
            (None, Some(token), None) => out.push(self.refuse_token(client, token, &opener.owner)),
            (None, _, Some(text)) => self.ask(now, opener, Keeper::Command(Some(client)), &text, out),
            (None, None, None) => {
                let error = Error::new(ErrorCode::InvalidArgument, "a command holds devices that it asks for");
                out.push(refusal(client, error));
            }
        }
    }

    /// Returns the job of a token if the user owns it and it has not ended.
    pub(super) fn own_job(&self, token: JobToken, owner: &Owner) -> Option<JobId> {
        let id = self.allocations.job_by_key(token.key)?;
        let job = self.allocations.job(id)?;
        (job.user == owner.user && !matches!(job.stage, Stage::Ended)).then_some(id)
    }

    /// Refuses a token of a job that has ended, or is another user's. The latter is for the audit log.
    pub(super) fn refuse_token(&self, client: ClientId, token: JobToken, owner: &Owner) -> Effect {
        let cause = format!("job {} has ended, or is another user's", token.job);
        let remedy = "unset ACCORD_JOB, or ask for a job by accord run --devices";
        let error = Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy);
        let job = self.allocations.job_by_key(token.key).and_then(|id| self.allocations.job(id));
        match job.filter(|job| job.user != owner.user) {
            Some(job) => denied(client, &owner.user, &format!("job {} of user {:?}", token.job, job.user), error),
            None => refusal(client, error),
        }
    }

    /// Opens a program's session in a job, or waits for the job's start.
    pub(super) fn enter_job(&mut self, now: Millis, id: JobId, opener: Opener, out: &mut Vec<Effect>) {
        if self.allocations.job(id).is_some_and(|job| matches!(job.stage, Stage::Running(_))) {
            if self.allocations.scheduler().stage_of(id).is_some() {
                self.wait_for_resumption(id, opener, out);
            } else {
                self.open_in_job(now, id, opener, out);
            }
            self.allocations.check_keeper(id, self.allocations.linger_ms());
        } else {
            self.allocations.wait_for(id, opener);
            self.notify_queued(now, id, out);
        }
    }

    /// Opens a session in a running job. Its devices are those of the job, in the order of the program's numbers.
    pub(super) fn open_in_job(&mut self, now: Millis, id: JobId, opener: Opener, out: &mut Vec<Effect>) {
        let Opener { client, request, owner } = opener;
        let own = self.nodes.named(&request.node_name);
        let given = self.allocations.part_of(id, request.rank, own);
        let nodes: BTreeSet<NodeId> = given.iter().map(|device| device.node).collect();
        let used = nodes.iter().filter_map(|node| self.nodes.get(node));
        let viewer =
            Viewer { node_name: &request.node_name, rank: request.rank, kind: request.kind, order: request.order };
        let (mut devices, _) = number_devices(used, &viewer, usize::MAX, |device| given.contains(&device));
        // Programs number the devices of each type separately, and use the first device's type by default.
        let kind = |device: &DeviceId| Some(self.nodes.get(&device.node)?.device(device.ordinal)?.kind);
        let first =
            self.allocations.job(id).and_then(|job| job.devices().first()).and_then(|leased| kind(&leased.device));
        devices.sort_by_key(|device| kind(device) != first);
        if devices.is_empty() {
            let kind = request.kind.map_or_else(|| "device".to_owned(), |kind| kind.to_string());
            let cause = format!("job {id} has no {kind} that the program can use");
            let error = Error::new(ErrorCode::DeviceTypeUnavailable, cause).remedy("ask for other devices");
            return out.push(refusal(client, error));
        }
        // A node whose agent is started anew is not lost for good.
        if self.allocations.job(id).is_some_and(|job| nodes.is_subset(&job.lost)) {
            let names = nodes.iter().filter_map(|node| Some(self.nodes.get(node)?.name.as_str()));
            let names: Vec<&str> = names.collect();
            let cause =
                format!("job {id} has lost all devices that the program can use, those of {}", names.join(", "));
            let error = Error::new(ErrorCode::DeviceUnavailable, cause);
            return out.push(refusal(client, error.remedy("ask for devices again, in another job")));
        }
        let lease = self.lease_of(devices);
        let Some(key) = self.allocations.job(id).map(|job| job.token.key) else { return };
        let lost = self.lost_nodes(id, nodes);
        let session = self.grant(now, client, request, owner, lease, Some((key, lost)), out);
        self.allocations.session_opened(id, session);
    }

    /// Ends the job of ranks that has no session left and has lost a node: ranks that come now are those of a further
    /// program, and get other devices. Returns whether the job has ended.
    pub(super) fn end_if_broken(&mut self, now: Millis, id: JobId, out: &mut Vec<Effect>) -> bool {
        let is_broken = |job: &Job| {
            matches!(job.stage, Stage::Running(_)) && !job.is_kept() && job.nodes().any(|node| job.lost.contains(&node))
        };
        let is_broken = self.allocations.job(id).is_some_and(is_broken);
        if is_broken {
            self.allocations.push(accord_scheduler::Input::Ended { job: id });
            self.schedule(now, out);
        }
        is_broken
    }

    /// Returns the nodes that the job has lost. Their devices keep their numbers.
    fn lost_nodes(&self, id: JobId, mut nodes: BTreeSet<NodeId>) -> BTreeSet<NodeId> {
        let Some(job) = self.allocations.job(id) else { return BTreeSet::new() };
        let is_up = |node: &NodeId| self.nodes.get(node).is_some_and(Node::is_up);
        nodes.retain(|node| !is_up(node) || job.lost.contains(node));
        nodes
    }

    /// Informs the programs that wait for a job of the reason.
    fn notify_queued(&mut self, now: Millis, id: JobId, out: &mut Vec<Effect>) {
        if let Some(queued) = self.queued(now, id) {
            self.tell_waiters(id, queued, out);
        }
    }

    /// Returns the report to the programs that wait for a job; `None` if no program waits for it.
    pub(super) fn queued(&self, now: Millis, id: JobId) -> Option<QueuedJob> {
        let job = self.allocations.job(id).filter(|job| matches!(job.stage, Stage::Waiting))?;
        if job.openers.is_empty() && self.allocations.holder_of(id).is_none() {
            return None;
        }
        let explained = self.allocations.scheduler().explain(id)?;
        Some(QueuedJob {
            token: job.token,
            position: explained.position.and_then(|position| u32::try_from(position).ok()),
            why: explained.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            starts_in_ms: explained.starts.map(|at| at.0.saturating_sub(now.0)),
        })
    }

    /// Informs the programs that wait for a job.
    pub(super) fn tell_waiters(&mut self, id: JobId, queued: QueuedJob, out: &mut Vec<Effect>) {
        self.waiters.note(id, &queued);
        let Some(job) = self.allocations.job(id) else { return };
        let holder = self.allocations.holder_of(id);
        // Only one of them reports the reason to the user.
        let mut waiting = holder.into_iter().chain(job.openers.keys().copied());
        out.extend(waiting.next().map(|client| Effect::ToClient(client, ClientPush::Queued(queued.clone()))));
        let others = QueuedJob { why: String::new(), ..queued };
        out.extend(waiting.map(|client| Effect::ToClient(client, ClientPush::Queued(others.clone()))));
    }

    /// Sends a warning about a job once: to its command, which shares the terminal with its programs, or to one of its
    /// programs.
    pub(super) fn warn_job(&self, id: JobId, text: String, out: &mut Vec<Effect>) {
        let Some(job) = self.allocations.job(id) else { return };
        let mut programs = job.sessions.iter().filter_map(|session| self.sessions.get(session)?.client);
        let speaker = self.allocations.holder_of(id).or_else(|| programs.next());
        out.extend(speaker.map(|client| Effect::ToClient(client, ClientPush::Warning(text))));
    }

    /// Warns a job of being idle, with the time so far and the time left.
    pub(super) fn warn_idle(&mut self, now: Millis, id: JobId, (done_ms, left_ms): (u64, u64), out: &mut Vec<Effect>) {
        let (done, left) = (long_time_text(done_ms), long_time_text(left_ms));
        let text = format!("job {id} has done nothing with its devices for {done}, and ends in {left} unless it does");
        self.allocations.note_event(now, id, &text);
        self.allocations.job_is_warned(id);
        self.warn_job(id, text, out);
    }

    fn end_job(&mut self, id: JobId, cause: &EndCause, out: &mut Vec<Effect>) {
        let text = format!("job {id} has ended: {cause}{}", after_end(cause));
        let why = SessionEnd::Job(text.as_str().into());
        let waited = self.allocations.job(id).is_some_and(|job| matches!(job.stage, Stage::Waiting));
        let holder = self.allocations.holder_of(id);
        let (openers, sessions) = self.allocations.ended(id);
        tracing::info!("job {id} has ended: {cause}");
        if let Some(client) = holder.filter(|_| !waited) {
            out.extend([Effect::ToClient(client, ClientPush::Ended(text.clone())), Effect::CloseClient(client)]);
        }
        let openers = openers.into_keys().chain(holder.filter(|_| waited));
        for client in openers {
            let cause = format!("job {id} waits no longer: {cause}");
            out.push(refusal(client, Error::new(ErrorCode::DeviceUnavailable, cause).remedy("ask again")));
        }
        for session in sessions {
            self.end(session, Some(why.clone()), out);
        }
    }

    /// Asks the agent of a node to end a job there. The job's devices become free once the agent has confirmed that no
    /// executor is left.
    fn release(&mut self, id: JobId, node: NodeId, out: &mut Vec<Effect>) {
        let Some(key) = self.allocations.release(id, node) else { return };
        let link = self.nodes.get(&node).and_then(Node::link);
        out.extend(link.map(|link| Effect::ToAgent(link, AgentOrder::ReleaseJob(key))));
    }

    /// Informs the agent of a registered node of the jobs there.
    pub(super) fn notify_jobs(&self, now: Millis, id: NodeId, link: LinkId, out: &mut Vec<Effect>) {
        out.extend(self.allocations.releasing_on(id).map(|key| Effect::ToAgent(link, AgentOrder::ReleaseJob(key))));
        let jobs = self.allocations.jobs_on(id).map(|job| {
            let number = JobId(job.token.job);
            job.grant(id, self.allocations.left_of(number, now), &self.allocations.scheduler().host_resources(number))
        });
        out.extend(jobs.map(|grant| Effect::ToAgent(link, AgentOrder::JobStarted(grant))));
        self.repeat_suspensions(id, link, out);
    }
}

/// Returns the remedy for the user of an ended job; empty if the user or an administrator asked for the end.
fn after_end(cause: &EndCause) -> &'static str {
    match cause {
        EndCause::Limit => "; ask for a longer limit, or divide the work",
        EndCause::Quantum => {
            "; ask for devices within the account's guarantee, or for a limit shorter than the quantum"
        }
        EndCause::Spent => "; name a time limit in the next month, or ask an administrator for more device-hours",
        EndCause::Drained => "; ask again, other nodes are not drained",
        EndCause::Reserved { .. } => "; ask again, other devices are not reserved",
        EndCause::Lost => "; ask again",
        EndCause::ReservationOver { .. } => "; ask again without it, or name another reservation",
        EndCause::Idle => "; ask for devices when the program is about to use them",
        EndCause::NoAccount => "; ask an administrator for an account",
        EndCause::Done | EndCause::Cancelled { .. } | EndCause::WaitOver | EndCause::Abandoned => "",
    }
}

/// Refuses a user's program, for the audit log.
pub(super) fn denied(client: ClientId, user: &str, what: &str, error: Error) -> Effect {
    tracing::warn!(target: AUDIT, "user {user:?} is refused {what}: {}", error.cause());
    refusal(client, error)
}

pub(super) fn refusal(client: ClientId, error: Error) -> Effect {
    Effect::ToClient(client, ClientPush::Refused(error))
}
