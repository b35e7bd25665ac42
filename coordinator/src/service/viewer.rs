//! The jobs and sessions that a caller may see and change.

use super::caller::Caller;
use accord_scheduler::JobView;
use accord_scheduler::policy::OthersJobs;
use accord_trust::Role;
use accord_trust::access::{Act, may};

/// The rights of a caller to see and change jobs.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    /// The caller's name in messages and in the audit log.
    pub(super) called: String,
    /// The user; `None` for an administrator without a user.
    pub(super) user: Option<String>,
    pub(super) is_admin: bool,
}

impl Viewer {
    pub(super) fn of(caller: &Caller) -> Self {
        let user = caller.roles.iter().find_map(|role| match role {
            Role::Tenant(user) => Some(user.clone()),
            _ => None,
        });
        let is_admin = caller.roles.iter().any(|role| may(role, Act::ChangeAllJobs));
        Self { called: caller.called(), user, is_admin }
    }

    /// Creates the view of a visitor of the page who is no user: it is shown sums only.
    pub(super) fn unauthenticated() -> Self {
        Self { called: "a stranger".to_owned(), user: None, is_admin: false }
    }

    pub(super) fn owns(&self, job: &JobView) -> bool {
        self.user.as_deref() == Some(job.user.as_str())
    }

    /// Returns the only user whose jobs and sessions the caller sees; `None` if the caller sees all.
    pub(super) fn only(&self, others: OthersJobs) -> Option<&str> {
        let sees_all = self.is_admin || others == OthersJobs::All;
        if sees_all { None } else { Some(self.user.as_deref().unwrap_or_default()) }
    }

    /// Whether the caller sees a user's jobs and sessions.
    pub(super) fn sees_user(&self, user: &str, others: OthersJobs) -> bool {
        self.only(others).is_none_or(|only| only == user)
    }

    pub(super) fn sees(&self, job: &JobView, others: OthersJobs) -> bool {
        self.sees_user(&job.user, others)
    }
}
