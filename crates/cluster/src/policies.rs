//! The site's policy. It is replaced as a whole, and has a version.

use super::allocations::Allocations;
use super::state::Cluster;
use accord_scheduler::policy::{Change, JobSummary, NoAccount, OthersJobs, SitePolicy, SuspendBy, changes};
use accord_scheduler::{Input, Phase, Request};
use accord_types::{Error, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};

/// Most Unix groups that are kept of a user.
pub(super) const GROUPS_MAX: usize = 64;

impl Allocations {
    /// Returns the account of a user's request.
    pub(super) fn account_of(&self, user: &str, wanted: Option<&str>) -> Result<String, NoAccount> {
        let groups = self.groups_of(user);
        self.in_effect.policy.account_of(user, &groups, wanted).map(str::to_owned)
    }

    /// Returns the accounts that a user may charge, and their ancestors.
    pub(super) fn accounts_above(&self, user: &str) -> BTreeSet<&str> {
        self.in_effect.policy.accounts_above(user, &self.groups_of(user))
    }

    fn groups_of(&self, user: &str) -> Vec<&str> {
        self.groups.get(user).into_iter().flatten().map(String::as_str).collect()
    }

    /// Sets a user's Unix groups.
    pub(super) fn set_groups(&mut self, user: String, mut groups: Vec<String>) {
        groups.truncate(GROUPS_MAX);
        let is_known = self.groups.contains_key(&user);
        if is_known || self.groups.len() < super::allocations::USERS_MAX {
            self.groups.insert(user, groups);
        }
    }

    /// Returns the policy's request for programs of a user that have none, if there is one.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the policy has no account for the user, or if there is no such request
    /// and the account has spent its device-hours.
    pub(super) fn default_request(&self, user: &str) -> Result<Option<&Request>, Error> {
        let refused = |why: String| Error::new(ErrorCode::DeviceUnavailable, why);
        let account = self.account_of(user, None).map_err(|why| refused(why.to_string()))?;
        let default = self.in_effect.policy.default_request(&account);
        if default.is_none() {
            let now = accord_scheduler::Millis(self.now.0);
            self.scheduler().check_spent(now, &account, user).map_err(|why| refused(why.to_string()))?;
        }
        Ok(default)
    }

    fn put(&mut self, policy: SitePolicy, by: String) -> u64 {
        self.in_effect.policy = policy;
        self.in_effect.version += 1;
        let users = std::mem::take(&mut self.users);
        let may = |(account, user): &(String, String)| {
            self.in_effect.policy.account_of(user, &self.groups_of(user), Some(account)).is_ok()
        };
        self.users = users.into_iter().filter(may).collect();
        let tree = Box::new(self.tree());
        self.push(Input::PolicyApplied { policy: tree, by });
        self.check_all_uses();
        self.in_effect.version
    }

    /// Returns the waiting and running jobs, to compare policies.
    fn summaries(&self) -> Vec<JobSummary> {
        let scheduler = self.scheduler();
        let open = scheduler.jobs(None).filter(|view| view.phase != Phase::Releasing);
        let summary = open.filter_map(|view| {
            let mut held: BTreeMap<usize, (_, u32)> = BTreeMap::new();
            let mut classes = Vec::new();
            for leased in &view.devices {
                let class = scheduler.class_of(leased.device)?;
                let at = classes.iter().position(|known| *known == class).unwrap_or_else(|| {
                    classes.push(class);
                    classes.len() - 1
                });
                held.entry(at).or_insert((class.clone(), 0)).1 += 1;
            }
            let account = view.account.strip_suffix(&format!("/{}", view.user)).unwrap_or(&view.account).to_owned();
            Some(JobSummary {
                job: view.job,
                groups: self.groups_of(&view.user).into_iter().map(str::to_owned).collect(),
                account,
                request: scheduler.request(view.job)?.as_ref().clone(),
                user: view.user,
                held: held.into_values().collect(),
            })
        });
        summary.collect()
    }
}

impl Cluster {
    /// Returns the policy's version; 0 without a policy of the site.
    pub fn policy_version(&self) -> u64 {
        self.allocations.in_effect.version
    }

    /// Returns which jobs of other users a user sees.
    pub fn others_jobs(&self) -> OthersJobs {
        self.allocations.in_effect.policy.others_jobs
    }

    /// Returns the users who may suspend a job and resume it.
    pub fn suspend_by(&self) -> SuspendBy {
        self.allocations.in_effect.policy.suspend_by
    }

    /// Returns the changes that another policy would bring for waiting and running jobs.
    pub fn policy_changes(&self, policy: &SitePolicy) -> Vec<Change> {
        let nodes = self.scheduler().nodes_of_jobs();
        changes(&self.allocations.in_effect.policy, policy, &self.allocations.summaries(), &nodes)
    }

    /// Puts a checked policy into effect.
    pub(super) fn apply_policy(&mut self, policy: SitePolicy, by: String) {
        self.set_limits(&policy);
        self.allocations.put(policy, by);
    }

    /// Applies the limits of a policy.
    pub(super) fn set_limits(&mut self, policy: &SitePolicy) {
        let flags = self.flags;
        self.limits.memory_quota = policy.memory_quota.unwrap_or(flags.memory_quota);
        self.limits.stream_quota = policy.stream_quota.unwrap_or(flags.stream_quota);
        self.limits.session_ms = policy.session_time_ms.unwrap_or(flags.session_ms);
    }

    /// Puts the policy of the coordinator's start into effect, unless the previous start had the same one. A policy
    /// that an administrator has applied since then stays in effect.
    pub(super) fn start_with_policy(&mut self, policy: SitePolicy, by: String) {
        let text = policy.to_string();
        if self.allocations.in_effect.at_start.as_ref() == Some(&text) {
            return;
        }
        self.allocations.in_effect.at_start = Some(text);
        self.apply_policy(policy, by);
    }
}
