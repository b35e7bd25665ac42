//! What belongs to one thread of the program.

/// One thread's current device, region stack and default async value.
///
/// The shell keeps one in thread-local storage and passes it to every call. A child of
/// `fork` starts with a new one, as it starts with a new [`crate::Runtime`].
#[derive(Default)]
pub struct LocalThread {
    host_regions: u32,
}

impl LocalThread {
    /// Call before running a region on the host (after [`crate::Placement::Host`]): until
    /// [`LocalThread::end_host_region`] the current device type reads as host.
    pub fn begin_host_region(&mut self) {
        self.host_regions = self.host_regions.saturating_add(1);
    }

    /// Call after the region has returned.
    pub fn end_host_region(&mut self) {
        self.host_regions = self.host_regions.saturating_sub(1);
    }
}
