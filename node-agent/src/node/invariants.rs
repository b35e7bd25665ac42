//! Invariants that hold after each [`Node::poll`].

use super::drivers::DRIVERS_MAX;
use super::executors::{EXECUTORS_MAX, Stage};
use super::state::Node;
use std::time::Duration;

impl Node {
    /// Checks the invariants.
    ///
    /// # Errors
    /// Returns the broken rule.
    pub fn check_invariants(&self, now: Duration) -> Result<(), String> {
        if self.executors.count() > EXECUTORS_MAX || self.reported.len() > EXECUTORS_MAX + DRIVERS_MAX {
            return Err(format!("{} executors, {} told of", self.executors.count(), self.reported.len()));
        }
        self.grants.check_bounds()?;
        self.jobs.check_bounds()?;
        self.suspensions.check_bounds()?;
        self.check_measuring()?;
        self.check_testing()?;
        if let Some(session) = self.reasons.keys().find(|session| !self.reported.contains(session)) {
            return Err(format!("no client is to be told why {session} has ended"));
        }
        for (session, place) in self.executors.all() {
            if place.stage == Stage::Over && place.successors == 0 {
                return Err(format!("{session} holds a slot that no session refers to"));
            }
            let ended = self.stopping || self.grants.has_ended(*session);
            if place.stage == Stage::Runs && ended {
                return Err(format!("{session} has ended, and its executor was not told to"));
            }
        }
        if self.next().is_some_and(|next| next <= now) {
            return Err("something was due and was not done".to_owned());
        }
        Ok(())
    }
}
