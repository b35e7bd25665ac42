//! The last launch of a device that failed while the program waited for it.

use crate::plan::{Plan, Step};
use accord_types::short_lock::ShortLock;
use accord_types::{DevicePtr, HostRange};

/// Ranges of one launch that are recorded.
const RANGES_MAX: usize = 64;

/// The data of the last failed launch: it is no longer present when the error is explained.
#[derive(Default)]
pub(crate) struct FailedLaunch(ShortLock<Vec<(DevicePtr, HostRange)>>);

impl FailedLaunch {
    /// Returns the data's addresses on the device and ranges in the program.
    pub(crate) fn ranges(&self) -> Vec<(DevicePtr, HostRange)> {
        self.0.lock().clone()
    }

    /// Records the ranges of a failed launch's data.
    #[cold]
    pub(crate) fn note(&self, plan: &Plan) {
        let ranges = plan.before.iter().chain(&plan.after).filter_map(|step| match *step {
            Step::In { dst, src, .. } => Some((dst, src)),
            Step::Out { src, dst } | Step::OutSpaced { src, dst, .. } => Some((src, dst)),
            Step::Bytes { .. } | Step::OutChanged { .. } | Step::Copy { .. } => None,
        });
        *self.0.lock() = ranges.take(RANGES_MAX).collect();
    }
}
