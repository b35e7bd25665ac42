//! The devices on which a session takes turns, with its weights.

use accord_proto::v1::{DeviceKind, ExecutorStart};
use accord_types::HeldDevice;
use std::collections::BTreeMap;

/// The weight of a job that has asked for memory of a device only, in thousandths of the device. At most four of them share
/// a device by default.
const MEMORY_ONLY: u32 = 250;

/// Thousandths of a device by ordinal, for each device on which a session takes turns.
pub(crate) type Weights = BTreeMap<u32, u32>;

/// Returns the weights of a session with this start message, whose job holds `held` of the node's devices. A CPU device is
/// divided by turns only if it is shared by jobs, and `kernel_divides` is false: no control group divides its processors by
/// weight.
pub(crate) fn weights(start: &ExecutorStart, held: &[HeldDevice], kernel_divides: bool) -> Weights {
    let of = |device: &accord_proto::v1::Device| {
        let ordinal = device.id.as_ref()?.ordinal;
        let held = held.iter().find(|held| held.ordinal == ordinal).filter(|held| !held.exclusive)?;
        let takes_turns = device.kind() == DeviceKind::Cpu && !kernel_divides;
        takes_turns.then_some((ordinal, if held.milli == 0 { MEMORY_ONLY } else { held.milli }))
    };
    start.devices.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_proto::v1::{Device, DeviceRef};

    #[test]
    fn only_shared_devices_that_the_kernel_does_not_divide_have_weights() {
        let device = |ordinal| Device {
            id: Some(DeviceRef { node: 0, ordinal }),
            kind: DeviceKind::Cpu.into(),
            ..Device::default()
        };
        let start = ExecutorStart { devices: (0..4).map(device).collect(), ..ExecutorStart::default() };
        let held = |ordinal, milli, exclusive| HeldDevice {
            ordinal,
            milli,
            memory: 1,
            exclusive,
            milli_cores: 0,
            host_memory: 0,
        };
        let held = [held(0, 250, false), held(1, 0, false), held(2, 1_000, true), held(7, 500, false)];
        assert_eq!(weights(&start, &held, false), [(0, 250), (1, MEMORY_ONLY)].into());
        assert!(weights(&start, &held, true).is_empty() && weights(&start, &[], false).is_empty());
    }
}
