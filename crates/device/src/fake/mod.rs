//! A device in memory, for tests of all code above devices: real order, real bytes, one thread per stream. Regions are Rust
//! closures, and tests can make the device fail. Also the example of docs/design/adding-a-backend.md.

mod device;
mod memory;
mod stream;

pub use device::{FakeDevice, FakeLaunch, FakeRegion};
pub use memory::FakeMemory;

use crate::backend::{Backend, Found};

/// The backend's entry in `accord_backends`.
pub static BACKEND: Backend = Backend {
    kind: device::KIND,
    name: "fake",
    capabilities: &device::CAPABILITIES,
    // Tests create the devices.
    find: |_, _| Found::default(),
    addresses_wanted: |_| device::ADDRESSES,
    context: |_| Ok(None),
    start: |info, config| Ok(FakeDevice::of(info, config.place)),
};
