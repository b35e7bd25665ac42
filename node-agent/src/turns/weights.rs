//! The devices on which a session takes turns, with its weights.

use super::device_turns::Weight;
use accord_types::{DeviceInfo, HeldDevice, SessionKey};
use std::collections::BTreeMap;

/// The weight of a job that has asked for memory of a device only, in thousandths of the device. At most four of them share
/// a device by default.
const MEMORY_ONLY: u32 = 250;

/// Weights by ordinal, for each device on which a session takes turns.
pub(crate) type Weights = BTreeMap<u32, Weight>;

/// Returns the weights on `devices` of a session whose `job` holds `held` of the node's devices. A device is divided by turns
/// only if jobs share it. One that runs regions on the node's processors is not if `kernel_divides`: control groups divide
/// the processors by weight.
pub(crate) fn weights(
    devices: &[DeviceInfo],
    job: Option<SessionKey>,
    held: &[HeldDevice],
    kernel_divides: bool,
) -> Weights {
    let of = |device: &DeviceInfo| {
        let ordinal = device.id.ordinal;
        let held = held.iter().find(|held| held.ordinal == ordinal).filter(|held| !held.exclusive)?;
        let on_processors = accord_backends::capabilities(device.kind).is_some_and(|able| able.runs_program);
        let milli = if held.milli == 0 { MEMORY_ONLY } else { held.milli };
        (!on_processors || !kernel_divides).then_some((ordinal, Weight { milli, job }))
    };
    devices.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use accord_types::{DeviceId, DeviceKind, NodeId};

    #[test]
    fn only_shared_devices_that_the_kernel_does_not_divide_have_weights() {
        let device = |ordinal| DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h1".to_owned(),
            kind: DeviceKind::CPU,
            name: "cpu".to_owned(),
            vendor: "GNU".to_owned(),
            driver: "0".to_owned(),
            uuid: String::new(),
            memory: 1 << 30,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        };
        let devices: Vec<DeviceInfo> = (0..4).map(device).collect();
        let held = |ordinal, milli, exclusive| HeldDevice {
            ordinal,
            milli,
            memory: 1,
            exclusive,
            milli_cores: 0,
            host_memory: 0,
        };
        let held = [held(0, 250, false), held(1, 0, false), held(2, 1_000, true), held(7, 500, false)];
        let job = Some(SessionKey([1; SessionKey::LEN]));
        let shared = [(0, Weight { milli: 250, job }), (1, Weight { milli: MEMORY_ONLY, job })];
        assert_eq!(weights(&devices, job, &held, false), shared.into());
        assert!(weights(&devices, job, &held, true).is_empty() && weights(&devices, None, &[], false).is_empty());
    }
}
