//! A program's view: its memory, its devices, and calls as GCC's code makes them.

use super::fake::{Fake, FakeCluster, FakeHost, Kernel, Ram, Running};
use crate::ports::DeviceClient;
use crate::{Entries, LocalThread, Placement, Runtime, Settings, Tags};
use accord_types::{DeviceType, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// GCC's map kinds.
pub(super) mod kind {
    pub(crate) const ALLOC: u16 = 0x00;
    pub(crate) const TO: u16 = 0x01;
    pub(crate) const FROM: u16 = 0x02;
    pub(crate) const TOFROM: u16 = 0x03;
    pub(crate) const POINTER: u16 = 0x04;
    pub(crate) const TO_PSET: u16 = 0x05;
    pub(crate) const FORCE_PRESENT: u16 = 0x06;
    pub(crate) const DELETE: u16 = 0x07;
    pub(crate) const FORCE_DEVICEPTR: u16 = 0x08;
    pub(crate) const IF_PRESENT: u16 = 0x0b;
    pub(crate) const FIRSTPRIVATE: u16 = 0x0c;
    pub(crate) const FIRSTPRIVATE_INT: u16 = 0x0d;
    pub(crate) const USE_DEVICE_PTR: u16 = 0x0e;
    pub(crate) const ZERO_LEN: u16 = 0x0f;
    pub(crate) const USE_DEVICE_PTR_IF_PRESENT: u16 = 0x10;
    pub(crate) const RELEASE: u16 = 0x17;
    pub(crate) const STRUCT: u16 = 0x1c;
    pub(crate) const ALWAYS_POINTER: u16 = 0x1d;
    pub(crate) const ATTACH: u16 = 0x50;
    pub(crate) const DETACH: u16 = 0x51;
    pub(crate) const FORCE_DETACH: u16 = 0xd1;
    pub(crate) const FORCE_ALLOC: u16 = 0x80;
    pub(crate) const FORCE_TO: u16 = 0x81;
    pub(crate) const FORCE_FROM: u16 = 0x82;
    pub(crate) const FORCE_TOFROM: u16 = 0x83;
}

/// `acc_async_sync`
pub(super) const SYNC: i32 = -2;
/// The `dev` word of an unconditional construct, and of one whose `if` clause was false.
pub(super) const NORMAL: i32 = -1;
pub(super) const IF_FALSE: i32 = -2;
/// No launch tags.
pub(super) const NO_TAGS: &[u32] = &[0];

/// One entry: kind, size, address.
pub(super) type One = (u16, usize, usize);

/// See the module.
pub(super) struct World {
    pub(super) runtime: Runtime,
    pub(super) t: LocalThread,
    pub(super) ram: Arc<Ram>,
    pub(super) fakes: Vec<Arc<Fake>>,
    kernels: Arc<Mutex<HashMap<u64, Kernel>>>,
}

impl World {
    /// One CPU device with 1 GiB.
    pub(super) fn new() -> Self {
        Self::with(&[DeviceType::Cpu], 1 << 30, Settings::default())
    }

    pub(super) fn with(types: &[DeviceType], memory: u64, settings: Settings) -> Self {
        let (ram, kernels) = (Arc::new(Ram::default()), Arc::default());
        let fakes: Vec<_> = types
            .iter()
            .zip(0..)
            .map(|(device_type, i)| Arc::new(Fake::new(i, *device_type, memory, ram.clone(), Arc::clone(&kernels))))
            .collect();
        let clients = fakes.iter().map(|fake| fake.clone() as Arc<dyn DeviceClient>).collect();
        let cluster = FakeCluster { fakes: fakes.clone(), clients };
        let runtime = Runtime::new(Box::new(cluster), Box::new(FakeHost(ram.clone())), settings);
        Self { runtime, t: LocalThread::default(), ram, fakes, kernels }
    }

    /// Creates one more device, which is not the session's. Its memory is at the addresses of the first one.
    pub(super) fn another(&self, device_type: DeviceType) -> Arc<Fake> {
        Arc::new(Fake::new(0, device_type, 1 << 30, self.ram.clone(), Arc::clone(&self.kernels)))
    }

    /// The only device.
    pub(super) fn fake(&self) -> &Fake {
        &self.fakes[0]
    }

    /// What the region with this address does.
    pub(super) fn kernel(&self, function: usize, kernel: impl Fn(&mut Running<'_>) + Send + Sync + 'static) {
        self.kernels.lock().unwrap().insert(function as u64, Arc::new(kernel));
    }

    pub(super) fn parallel(&mut self, function: usize, list: &[One], tags: &[u32]) -> Result<Placement> {
        call(list, |entries| {
            self.runtime.parallel(&mut self.t, NORMAL, function, entries, &Tags::decode(tags.iter().copied()))
        })
        .0
    }

    /// Runs a region whose slots `run_observed` sees. Synchronous.
    pub(super) fn run_observed(&mut self, list: &[One], look: impl Fn(&mut Running<'_>) + Send + Sync + 'static) {
        self.kernel(POLL_INTERVAL, look);
        assert_eq!(self.parallel(POLL_INTERVAL, list, NO_TAGS).unwrap(), Placement::Device);
    }

    pub(super) fn data_start(&mut self, list: &[One]) -> Result<Vec<usize>> {
        let (result, hosts) = call(list, |entries| self.runtime.data_start(&mut self.t, NORMAL, entries));
        result.map(|()| hosts)
    }

    pub(super) fn data_end(&mut self) {
        self.runtime.data_end(&mut self.t).unwrap();
    }

    pub(super) fn enter(&mut self, list: &[One]) -> Result<()> {
        self.enter_async(list, SYNC)
    }

    pub(super) fn enter_async(&mut self, list: &[One], queue: i32) -> Result<()> {
        call(list, |entries| self.runtime.enter_data(&mut self.t, NORMAL, entries, queue, &[])).0
    }

    pub(super) fn exit(&mut self, list: &[One]) -> Result<()> {
        self.exit_async(list, SYNC)
    }

    pub(super) fn exit_async(&mut self, list: &[One], queue: i32) -> Result<()> {
        call(list, |entries| self.runtime.exit_data(&mut self.t, NORMAL, entries, queue, &[])).0
    }

    pub(super) fn update(&mut self, list: &[One]) -> Result<()> {
        call(list, |entries| self.runtime.update(&mut self.t, NORMAL, entries, SYNC, &[])).0
    }

    pub(super) fn declare(&mut self, list: &[One]) -> Result<()> {
        call(list, |entries| self.runtime.declare(&mut self.t, NORMAL, entries)).0
    }

    pub(super) fn present(&mut self, host: usize, bytes: usize) -> bool {
        self.runtime.is_present(&mut self.t, host, bytes).unwrap()
    }

    /// The device's copy of present data, once everything is done.
    pub(super) fn on_device(&mut self, host: usize, bytes: usize) -> Vec<u8> {
        let device = self.runtime.deviceptr(&mut self.t, host).unwrap();
        assert_ne!(device, 0, "{host:#x} is not present");
        self.fake().bytes(device as u64, bytes)
    }

    pub(super) fn put(&self, host: usize, bytes: &[u8]) {
        self.ram.put(host, bytes);
    }

    pub(super) fn put_u64(&self, host: usize, value: u64) {
        self.ram.put(host, &value.to_ne_bytes());
    }

    pub(super) fn get(&self, host: usize, bytes: usize) -> Vec<u8> {
        self.ram.get(host, bytes)
    }

    /// Structured and dynamic counter of the entry that holds an address.
    pub(super) fn counters(&self, host: usize) -> (u32, u32) {
        let state = self.runtime.devices[0].lock();
        let entry = &state.table[state.table.find_byte(host).expect("present")];
        (entry.references.structured, entry.references.dynamic)
    }

    /// Panics if something is still present or allocated.
    pub(super) fn assert_empty(&self) {
        for device in self.runtime.devices.iter().filter(|device| device.is_started()) {
            let state = device.lock();
            state.table.check_invariants();
            state.memory.check_invariants();
            let left: Vec<_> = state.table.iter().map(|(_, entry)| entry.start).collect();
            assert!(left.is_empty(), "still present: {left:x?}");
            assert_eq!(state.memory.used_bytes(), 0, "memory was lost");
        }
    }
}

/// Address of the region of [`World::run_observed`].
const POLL_INTERVAL: usize = 0x40_0000;

/// Makes the three arrays of a call; returns the first one as it is afterwards.
pub(super) fn call<R>(list: &[One], act: impl FnOnce(&mut Entries<'_>) -> R) -> (R, Vec<usize>) {
    let mut hosts: Vec<_> = list.iter().map(|one| one.2).collect();
    let sizes: Vec<_> = list.iter().map(|one| one.1).collect();
    // Alignment of 4 in the high byte, as GCC writes it.
    let kinds: Vec<_> = list.iter().map(|one| one.0 | 0x200).collect();
    let result = act(&mut Entries::new(&mut hosts, &sizes, &kinds));
    (result, hosts)
}
