//! What an agent knows of tests of its devices.

use accord_proto::bounds::NODE_DEVICES_MAX;
use accord_types::DeviceVerdict;
use std::collections::VecDeque;

/// Devices that wait for their test.
pub(super) const WAITING_MAX: usize = NODE_DEVICES_MAX;
/// Verdicts that the coordinator has not been told.
pub(super) const UNTOLD_MAX: usize = NODE_DEVICES_MAX;

/// The tests of devices, by the devices' ordinals.
#[derive(Debug, Default)]
pub(super) struct Testing {
    pub(super) under_way: Option<u32>,
    pub(super) waiting: VecDeque<u32>,
    /// Verdicts that the coordinator has not been told.
    pub(super) verdicts: VecDeque<(u32, DeviceVerdict)>,
}
