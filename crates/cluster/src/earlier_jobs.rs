//! Jobs that an earlier coordinator has started, as reported by agents.

use super::allocations::{Allocations, JOBS_MAX};
use super::job::{Job, Stage};
use super::node::Node;
use super::session::AGENT_GRACE_MS;
use super::steps::counted;
use accord_scheduler::amount::Amount;
use accord_scheduler::{EarlierJob, JobId, LeasedDevice};
use accord_types::{DeviceId, HeldDevice, JobGrant, NodeId, SessionId, SessionKey};

impl Allocations {
    /// Adopts a job that an agent reports. Returns what the scheduler does not know of it.
    pub(super) fn adopt(&mut self, node: &Node, grant: &JobGrant) -> Option<EarlierJob> {
        let known = self.job_by_key(grant.token.key);
        if let Some((id, job)) = known.and_then(|id| Some((id, self.jobs.get_mut_unnoted(&id)?)))
            && matches!(job.stage, Stage::Running(_))
        {
            // The job is restored from the state file, which has no sessions.
            let missing = grant.sessions.iter().filter(|session| !self.sessions.contains_key(session));
            for session in counted(missing) {
                self.earlier_sessions.insert(*session, id);
                job.named_sessions.insert(*session);
            }
        }
        let takes_more = |job: &Job| job.is_earlier && matches!(job.stage, Stage::Running(_)) && !job.has_node(node.id);
        if known.is_some_and(|id| !self.jobs.get(&id).is_some_and(takes_more)) {
            return None;
        }
        let is_there = |held: &&HeldDevice| node.device(held.ordinal).is_some();
        let devices: Vec<LeasedDevice> =
            grant.devices.iter().filter(is_there).map(|held| leased(node.id, held)).collect();
        let is_taken = |leased: &LeasedDevice| !grant.is_suspended && self.exclusive.contains_key(&leased.device);
        if devices.is_empty() || devices.iter().any(is_taken) || self.keys.len() >= JOBS_MAX {
            return None;
        }
        let named = JobId(grant.token.job);
        let is_free = !self.jobs.contains_key(&named) && self.scheduler().job(named).is_none();
        let id = known.unwrap_or(if is_free {
            named
        } else {
            JobId(self.scheduler().last_job().0.max(self.last_job()) + 1)
        });
        if !grant.is_suspended {
            self.exclusive.extend(devices.iter().filter(|leased| leased.exclusive).map(|leased| (leased.device, id)));
        }
        if !self.jobs.contains_key(&id) {
            let account = self.adopting_account(grant);
            self.jobs.insert(id, Job::earlier(grant, account));
        }
        let account = self.jobs.get(&id).map_or_else(|| grant.account.clone(), |job| job.account.clone());
        if let Some(job) = self.jobs.get_mut(&id) {
            job.add_devices(&devices);
            job.named_sessions.extend(&grant.sessions);
        }
        self.by_node.entry(node.id).or_default().insert(id);
        self.keys.insert(grant.token.key, id);
        for session in &grant.sessions {
            self.earlier_sessions.insert(*session, id);
        }
        self.check_keeper(id, self.linger_ms());
        self.use_begins(id);
        let limit_ms = grant.ends_in_ms.map(|left| left.saturating_sub(AGENT_GRACE_MS));
        let user = grant.user.clone();
        Some(EarlierJob { id, user, account, devices, limit_ms, is_suspended: grant.is_suspended })
    }

    /// Returns the account that an adopted job is charged to: its own one if the user may still charge it, else the user's
    /// default account.
    fn adopting_account(&mut self, grant: &JobGrant) -> String {
        let user = &grant.user;
        let named = grant.account.strip_suffix(user.as_str()).and_then(|parent| parent.strip_suffix('/'));
        let own = named.and_then(|named| self.account_of(user, Some(named)).ok());
        let account = own.or_else(|| self.account_of(user, None).ok());
        account.and_then(|account| self.know_user(&account, user)).unwrap_or_else(|| grant.account.clone())
    }

    /// Whether a job holds devices of a node.
    pub(super) fn holds(&self, key: SessionKey, node: NodeId) -> bool {
        let job = self.job_by_key(key).and_then(|id| self.jobs.get(&id));
        job.is_some_and(|job| job.has_node(node))
    }

    fn last_job(&self) -> u64 {
        self.jobs.last_key_value().map_or(0, |(id, _)| id.0)
    }

    /// Assigns a returned session of an earlier coordinator to the job that an agent has named, if the user is the
    /// same. Returns the job's key.
    pub(super) fn session_returned(&mut self, session: SessionId, user: &str) -> Option<SessionKey> {
        let id = *self.earlier_sessions.get(&session)?;
        let job = self.jobs.get(&id).filter(|job| job.user == user && matches!(job.stage, Stage::Running(_)))?;
        let key = job.token.key;
        self.session_opened(id, session);
        self.check_keeper(id, self.linger_ms());
        Some(key)
    }
}

fn leased(node: NodeId, held: &HeldDevice) -> LeasedDevice {
    let HeldDevice { ordinal, milli, memory, exclusive, milli_cores: _, host_memory: _ } = *held;
    LeasedDevice { device: DeviceId { node, ordinal }, amount: Amount { milli, memory }, exclusive }
}
