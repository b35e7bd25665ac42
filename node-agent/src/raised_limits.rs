//! Memory limits of control groups that are raised while jobs are suspended.

use crate::suspending::RaisedLimit;
use accord_types::SessionKey;
use accord_types::short_lock::ShortLock;
use std::collections::BTreeMap;

/// Most jobs whose limits are kept, as many as may be suspended. Of more, the limits stay raised.
const JOBS_MAX: usize = 1_024;

/// Raised limits by job.
#[derive(Debug, Default)]
pub(crate) struct RaisedLimits(ShortLock<BTreeMap<SessionKey, Vec<RaisedLimit>>>);

impl RaisedLimits {
    /// Keeps the limits of a suspended job. Those of jobs without groups are dropped.
    pub(crate) fn keep(&self, job: SessionKey, limits: Vec<RaisedLimit>) {
        let mut kept = self.0.lock();
        kept.retain(|_, limits| limits.iter().any(RaisedLimit::is_there));
        if kept.len() < JOBS_MAX {
            kept.entry(job).or_default().extend(limits);
        }
    }

    /// Takes the limits of a job.
    pub(crate) fn take(&self, job: SessionKey) -> Vec<RaisedLimit> {
        self.0.lock().remove(&job).unwrap_or_default()
    }
}
