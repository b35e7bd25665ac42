//! Which of several coordinators leads. [`Candidate`] decides (pure), [`Election`] asks etcd.

mod candidate;
mod election;

pub use candidate::{Action, Answer, Candidate, LEASE_SECONDS, LeadershipStatus, Owner};
pub use election::{Election, Outcome};
