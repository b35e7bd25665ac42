//! The regions that may be the cause of a device's error.

/// Most regions that are recorded.
const RECENT_KERNELS_MAX: usize = 4;

/// Regions that a stream ran since it was last known to be empty, the last ones of them.
#[derive(Default)]
pub(super) struct RecentKernels(Vec<u32>);

impl RecentKernels {
    /// Records a region that runs from here on.
    pub(super) fn ran(&mut self, function: u32) {
        if self.0.last() != Some(&function) {
            self.0.retain(|known| *known != function);
            if self.0.len() == RECENT_KERNELS_MAX {
                self.0.remove(0);
            }
            self.0.push(function);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn get(&self) -> &[u32] {
        &self.0
    }
}
