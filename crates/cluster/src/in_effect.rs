//! The policy in effect.

use accord_scheduler::policy::{Member, SitePolicy};

/// A policy in effect.
#[derive(Debug)]
pub(super) struct PolicyInEffect {
    pub(super) policy: SitePolicy,
    /// Increases with each policy; 0 without one.
    pub(super) version: u64,
    /// The text of the policy that the coordinator was last started with.
    pub(super) at_start: Option<String>,
}

impl Default for PolicyInEffect {
    /// Puts every user into one account.
    fn default() -> Self {
        let mut policy = SitePolicy::default();
        if let Some(rules) = policy.rules.first_mut() {
            rules.users.push(Member::Everyone);
        }
        Self { policy, version: 0, at_start: None }
    }
}
