//! The state of one thread of the program.

use crate::construct::{Region, Scratch};
use accord_types::{AsyncArg, DeviceType, QueueId};

/// The device that a construct runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Current {
    /// The program's own thread.
    Host,
    /// Index into the runtime's devices.
    Device(usize),
}

/// One thread's current device, region stack and default async value.
///
/// The shell keeps one in thread-local storage and passes it to every call. A child of
/// `fork` starts with a new one, as it starts with a new [`crate::Runtime`].
#[derive(Default)]
pub struct LocalThread {
    /// The current device, once it was used or set.
    pub(crate) current: Option<Current>,
    /// The type of its device, if that is set and the device itself is not determined yet.
    pub(crate) wanted: Option<DeviceType>,
    /// acc-default-async-var, unless it is `acc_async_noval` itself.
    pub(crate) default_async: Option<AsyncArg>,
    /// The data regions that this thread is in; none where the region is the host's.
    pub(crate) regions: Vec<Option<Region>>,
    /// Emptied regions and buffers, kept so that constructs need not allocate.
    pub(crate) scratch: Scratch,
    /// The driver's context of a device: the device, how often it was shut down, and the context.
    pub(crate) context: Option<(usize, u32, Option<usize>)>,
    /// Whether the program has named its device, and expects the driver's context to exist.
    pub(crate) named: bool,
    host_regions: u32,
}

impl LocalThread {
    /// Makes the current device type read as host until [`LocalThread::end_host_region`]. Call it before running a
    /// region on the host (after [`crate::Placement::Host`]).
    pub fn begin_host_region(&mut self) {
        self.host_regions = self.host_regions.saturating_add(1);
    }

    /// Ends that. Call it after the region has returned.
    pub fn end_host_region(&mut self) {
        self.host_regions = self.host_regions.saturating_sub(1);
    }

    /// Returns how many data regions this thread is in.
    pub fn regions(&self) -> usize {
        self.regions.len()
    }

    /// The queue that an async-argument names in this thread.
    pub(crate) fn queue(&self, arg: AsyncArg) -> QueueId {
        match (arg, self.default_async) {
            (AsyncArg::NoVal, Some(default)) => default.queue(),
            (arg, _) => arg.queue(),
        }
    }

    /// Whether a region runs on the host now.
    pub(crate) fn in_host_region(&self) -> bool {
        self.host_regions > 0
    }
}
