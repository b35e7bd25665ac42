//! The site's scripts: a prolog before a job's first use of the node's devices, and an epilog after its last.

use super::effect::Effect;
use super::jobs::Admission;
use super::state::Node;
use accord_types::{Error, ErrorCode, Result, SessionGrant, SessionKey, SiteScript};
use std::time::Duration;

impl Node {
    /// Records that a site's script for a job has ended. A failed one has the reason.
    pub fn script_ended(&mut self, script: SiteScript, job: SessionKey, outcome: Result<(), String>) {
        self.jobs.script_ended(script, job, outcome);
        // Only jobs whose prolog has succeeded are saved.
        self.kept_changes += 1;
    }

    pub(super) fn begin_prologs(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let prologs = self.jobs.due_prologs(now).into_iter();
        effects.extend(prologs.map(|job| Effect::RunScript(SiteScript::Prolog, job)));
    }

    /// Checks that the site's prolog lets a session's job use the node.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the prolog has failed, and a transient one while it runs.
    pub(super) fn check_prolog(&self, grant: &SessionGrant) -> Result<()> {
        let Some(job) = grant.job else { return Ok(()) };
        let name = &self.name;
        let refused = |why: String| Error::new(ErrorCode::DeviceUnavailable, why).node(name);
        let Some(admission) = self.jobs.admission(job) else {
            if !self.jobs.has_scripts() {
                return Ok(());
            }
            // A coordinator that registers the node may announce a session before its job.
            let why = format!("node {name} does not know the job of session {} yet", grant.session);
            return Err(refused(why).remedy("try again").transient());
        };
        match admission {
            Admission::Admitted => Ok(()),
            Admission::Waits(job) => {
                let why = format!("node {name} does not take job {job} yet: the site's prolog runs there");
                Err(refused(why).remedy("try again").transient())
            }
            Admission::Refused(job, why) => {
                let why = format!("node {name} does not take job {job}: the site's prolog has failed there: {why}");
                let remedy = format!("ask who runs the node, or for devices of other nodes (avoid={name})");
                Err(refused(why).remedy(remedy))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{JobGrant, JobToken, NodeId, SessionId};

    const NOW: Duration = Duration::ZERO;
    const JOB: SessionKey = SessionKey([9; SessionKey::LEN]);

    fn session_of_job() -> SessionGrant {
        SessionGrant {
            session: SessionId(1),
            key: SessionKey([7; SessionKey::LEN]),
            user: "alice".to_owned(),
            ends_in_ms: None,
            program: "app".to_owned(),
            node_name: "h0".to_owned(),
            pid: 1,
            rank: None,
            ordinals: vec![0],
            memory_quota: 0,
            stream_quota: 4,
            plain_tcp: false,
            opened_unix_ms: 0,
            job: Some(JOB),
        }
    }

    fn job() -> JobGrant {
        JobGrant {
            token: JobToken { job: 1, key: JOB },
            user: "alice".to_owned(),
            account: "site/alice".to_owned(),
            ends_in_ms: None,
            devices: Vec::new(),
            sessions: Vec::new(),
            is_suspended: false,
        }
    }

    /// Returns an agent that has been connected, and that runs the site's scripts.
    fn agent() -> Node {
        let mut node = Node::new("h1".into(), false, false).with_scripts();
        node.poll(NOW, &mut Vec::new());
        node.registered(NOW, accord_fabric::route::Endpoint::new(NodeId(3), "10.0.0.1:7"), Duration::from_millis(500));
        node
    }

    #[test]
    fn a_session_that_is_announced_before_its_job_waits_for_the_prolog() {
        let mut node = agent();
        node.opened(NOW, session_of_job());
        let unknown = node.drives(NOW, SessionId(1), None).unwrap_err();
        assert!(unknown.is_transient() && unknown.cause().contains("does not know the job"), "{unknown}");
        node.job_started(NOW, job());
        assert!(node.drives(NOW, SessionId(1), None).unwrap_err().is_transient());
        node.poll(NOW, &mut Vec::new());
        node.script_ended(SiteScript::Prolog, JOB, Ok(()));
        node.drives(NOW, SessionId(1), None).unwrap();
    }

    #[test]
    fn the_next_agent_runs_a_prolog_again_that_has_not_succeeded() {
        for outcome in [None, Some(Err("no disk".to_owned())), Some(Ok(()))] {
            let mut node = agent();
            node.job_started(NOW, job());
            node.poll(NOW, &mut Vec::new());
            let is_admitted = outcome == Some(Ok(()));
            if let Some(outcome) = outcome {
                node.script_ended(SiteScript::Prolog, JOB, outcome);
            }
            let mut next = agent();
            next.resume(NOW, node.kept(NOW));
            // The coordinator announces its jobs to the next agent.
            next.job_started(NOW, job());
            let effects = next.poll(NOW, &mut Vec::new());
            let runs = effects.iter().any(|effect| matches!(effect, Effect::RunScript(SiteScript::Prolog, _)));
            assert_eq!(runs, !is_admitted, "{effects:?}");
        }
    }
}
