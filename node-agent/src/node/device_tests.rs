//! State of the tests of a node's devices.

use accord_proto::bounds::NODE_DEVICES_MAX;
use accord_types::DeviceVerdict;
use std::collections::VecDeque;

/// Most devices that wait for their test.
pub(super) const WAITING_MAX: usize = NODE_DEVICES_MAX;
/// Most verdicts that the coordinator has not received.
pub(super) const UNREPORTED_MAX: usize = NODE_DEVICES_MAX;

/// A device's ordinal, and the number of the coordinator's order.
pub(super) type Order = (u32, u64);

/// The tests of devices.
#[derive(Debug, Default)]
pub(super) struct Testing {
    pub(super) under_way: Option<Order>,
    /// One order for each device.
    pub(super) waiting: VecDeque<Order>,
    /// Verdicts that the coordinator has not received, one for each device.
    pub(super) verdicts: VecDeque<(Order, DeviceVerdict)>,
}
