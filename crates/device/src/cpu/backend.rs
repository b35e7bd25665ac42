//! The registry's entry for CPU devices.

use super::arena::addresses_wanted;
use super::device::CpuDevice;
use crate::backend::{Backend, Found};
use crate::program::ProgramSpec;
use accord_types::DeviceKind;

/// The backend's entry in `accord_backends`.
pub static BACKEND: Backend = Backend {
    kind: DeviceKind::CPU,
    name: "cpu",
    capabilities: &super::device::CAPABILITIES,
    // Their number is configured, see [`super::inventory`].
    find: |_, _| Found::default(),
    addresses_wanted,
    context: |_| Ok(None),
    start: |info, config| {
        let program = config.program.clone().unwrap_or_else(ProgramSpec::of_this_process);
        Ok(CpuDevice::start_at(info, &program, config)?)
    },
};
