//! The answer of a coordinator that does not lead: which one does.

use crate::leadership::{LeadershipStatus, Outcome};
use tokio::sync::watch;
use tonic::Status;

/// Tells callers which coordinator leads.
#[derive(Clone)]
pub(crate) struct Referral(watch::Receiver<Outcome>);

impl Referral {
    pub(super) fn new(outcome: watch::Receiver<Outcome>) -> Self {
        Self(outcome)
    }

    /// Returns the answer in words.
    pub(super) fn text(&self) -> String {
        words(&self.0.borrow())
    }

    /// Returns the answer to a call: the caller may ask another coordinator, or later.
    pub(super) fn status(&self) -> Status {
        Status::unavailable(self.text())
    }
}

/// Whether this coordinator leads.
///
/// # Errors
/// Returns the answer to callers if it does not.
pub fn leads(outcome: &watch::Receiver<Outcome>) -> Result<(), String> {
    match &*outcome.borrow() {
        Outcome::Stands(LeadershipStatus::Leads { .. }, _) => Ok(()),
        other => Err(words(other)),
    }
}

fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Stands(LeadershipStatus::Follows(Some(leader)), None) => {
            format!("this coordinator does not lead the cluster, the one at {leader} does")
        }
        Outcome::Stands(LeadershipStatus::Follows(_) | LeadershipStatus::Lost, Some(why)) => {
            format!("no coordinator is known to lead the cluster: {why}")
        }
        Outcome::Stands(LeadershipStatus::Follows(None) | LeadershipStatus::Lost, None) => {
            "no coordinator leads the cluster at this time".to_owned()
        }
        Outcome::Stands(LeadershipStatus::Leads { .. }, _) => {
            "this coordinator begins to lead the cluster at this time".to_owned()
        }
        Outcome::Refused(why) => why.clone(),
    }
}
