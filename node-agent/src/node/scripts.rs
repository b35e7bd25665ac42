//! The site's scripts: a prolog before a job's first use of the node's devices, and an epilog after its last.

use super::effect::{Effect, SiteScript};
use super::jobs::Admission;
use super::state::Node;
use accord_types::{Error, ErrorCode, Result, SessionGrant, SessionKey};
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
