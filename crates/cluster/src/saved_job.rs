//! The record of a job.

use super::allocations::Allocations;
use super::job::{Gang, Job, Keeper, Stage};
use super::record::{Records, keys, read_table};
use super::steps::counted;
use super::time::Millis;
use accord_scheduler::amount::Amount;
use accord_scheduler::saved::{SavedDevice, SavedHolds, SavedJob};
use accord_scheduler::{JobId, LeasedDevice, Phase};
use accord_types::{JobToken, NodeId, SessionKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A device of a job in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SavedLease {
    device: SavedDevice,
    milli: u32,
    memory: u64,
    exclusive: bool,
}

/// The coordinator's part of a job's record; the scheduler has the other part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct SavedAllocation {
    key: [u8; SessionKey::LEN],
    user: String,
    account: String,
    /// Whether a command keeps it, not its sessions.
    of_command: bool,
    gang: Option<Gang>,
    text: String,
    ranks: Option<u32>,
    is_earlier: bool,
    lost: Vec<u32>,
    devices: Vec<SavedLease>,
    /// Nodes whose agents have to confirm its end.
    releasing: Vec<u32>,
}

/// The whole record of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct JobRecord {
    pub(super) scheduler: SavedJob,
    pub(super) allocation: SavedAllocation,
}

/// Reads the jobs with their present holds of devices.
pub(super) fn read_jobs(records: &Records) -> Result<Vec<JobRecord>, String> {
    let jobs = read_table::<JobRecord>(records, keys::JOBS)?.into_iter();
    let mut jobs: BTreeMap<JobId, JobRecord> = jobs.map(|job| (job.scheduler.id(), job)).collect();
    for holds in read_table::<SavedHolds>(records, keys::HOLDS)? {
        if let Some(job) = jobs.get_mut(&holds.job()) {
            job.scheduler.apply(&holds);
        }
    }
    for JobRecord { scheduler, allocation } in jobs.values_mut() {
        allocation.releasing.retain(|node| scheduler.holds_some(*node));
    }
    Ok(jobs.into_values().collect())
}

impl Allocations {
    /// Returns the record of a job; `None` if it is over and its devices are free.
    pub(super) fn saved_job(&self, id: JobId) -> Option<JobRecord> {
        let job = self.jobs.get(&id)?;
        let devices = job.held_devices().into_iter().map(|leased| SavedLease {
            device: leased.device.into(),
            milli: leased.amount.milli,
            memory: leased.amount.memory,
            exclusive: leased.exclusive,
        });
        let scheduler = self.scheduler().saved_job(id)?;
        let is_releasing = |node: &NodeId| self.releasing.get(node).is_some_and(|jobs| jobs.contains(&id));
        let releasing = counted(scheduler.nodes().into_iter()).filter(is_releasing).map(|node| node.0);
        let allocation = SavedAllocation {
            key: job.token.key.0,
            user: job.user.clone(),
            account: job.account.clone(),
            of_command: matches!(job.keeper, Keeper::Command(_)),
            gang: job.gang.clone(),
            text: job.text.clone(),
            ranks: job.ranks,
            is_earlier: job.is_earlier,
            lost: counted(job.lost.iter()).map(|node| node.0).collect(),
            devices: devices.collect(),
            releasing: releasing.collect(),
        };
        Some(JobRecord { scheduler, allocation })
    }

    /// Restores a job from its record. Its programs and its command should reconnect.
    pub(super) fn restore_job(&mut self, of_scheduler: &SavedJob, saved: SavedAllocation) {
        let (id, phase) = (of_scheduler.id(), of_scheduler.phase());
        self.exclusive.extend(of_scheduler.exclusive_devices().map(|device| (device, id)));
        let devices: Vec<LeasedDevice> = saved.devices.iter().map(leased).collect();
        let stage = match phase {
            Phase::Waiting => Stage::Waiting,
            Phase::Running => Stage::Running(devices.clone()),
            Phase::Releasing => Stage::Ended,
        };
        for node in saved.releasing {
            self.releasing.entry(NodeId(node)).or_default().insert(id);
        }
        if phase != Phase::Releasing
            && let Some(gang) = saved.gang.clone()
        {
            self.gangs.insert(gang, id);
        }
        let keeper = if saved.of_command { Keeper::Command(None) } else { Keeper::Sessions };
        let key = SessionKey(saved.key);
        let token = JobToken { job: id.0, key };
        let mut job = Job::new(token, saved.user, saved.account, stage, keeper);
        (job.gang, job.text, job.ranks) = (saved.gang, saved.text, saved.ranks);
        (job.is_earlier, job.lost) = (saved.is_earlier, saved.lost.into_iter().map(NodeId).collect());
        job.started = self.scheduler().job(id).and_then(|job| job.started).map_or(Millis(0), |at| Millis(at.0));
        job.list(&devices);
        for node in job.nodes() {
            self.by_node.entry(node).or_default().insert(id);
        }
        self.keys.insert(key, id);
        self.jobs.insert(id, job);
    }
}

fn leased(saved: &SavedLease) -> LeasedDevice {
    let SavedLease { device, milli, memory, exclusive } = *saved;
    LeasedDevice { device: device.into(), amount: Amount { milli, memory }, exclusive }
}
