//! The object behind every call of the program.

use crate::address_space::AddressSpace;
use crate::block_copies::SpareBuffers;
use crate::compare::{Comparison, ComparisonObserver};
use crate::construct::{ConstructEnter, Mode};
use crate::device::{Device, Shared};
use crate::local_thread::{Current, LocalThread};
use crate::pending_copies_out::PendingCopiesOut;
use crate::ports::{Cluster, DeviceClient, HostMemory};
use crate::prof::{Observer, Watch};
use crate::program::{Global, Settings};
use crate::waits_in_turn::WaitsInTurn;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{AddressRange, DeviceNum, DeviceType, QueueId};
use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::atomic::AtomicI32;
use std::sync::{Arc, OnceLock};

/// One process's use of OpenACC. Shared by all of its threads.
pub struct Runtime {
    pub(crate) cluster: Box<dyn Cluster>,
    pub(crate) host: Box<dyn HostMemory>,
    pub(crate) settings: Settings,
    pub(crate) devices: Vec<Device>,
    /// Index of the device with which numbers begin, once that is determined.
    pub(crate) first: OnceLock<usize>,
    /// GCC's number of the type that some thread set last.
    pub(crate) last_type: AtomicI32,
    /// The owners of addresses.
    pub(crate) space: Arc<AddressSpace>,
    globals: ShortLock<Vec<(u64, Vec<Global>)>>,
    /// Spare buffers for blocks that are copied for one launch.
    pub(crate) spare: SpareBuffers,
    watch: Arc<Watch>,
    /// The comparison of regions with a CPU device, if it is requested.
    pub(crate) comparison: OnceLock<Comparison>,
}

impl Runtime {
    /// Creates a runtime over the devices of `cluster`. Starts nothing: a device starts at its first use.
    pub fn new(cluster: Box<dyn Cluster>, host: Box<dyn HostMemory>, settings: Settings) -> Self {
        let watch = Arc::new(Watch::default());
        let mut nums: HashMap<DeviceType, u32> = HashMap::new();
        let copies_out = Arc::new(PendingCopiesOut::new(cluster.clients().len()));
        let window = if settings.low_addresses { AddressRange::LOW_WINDOW } else { AddressRange::WINDOW };
        let space = Arc::new(AddressSpace::new(cluster.clients().len(), settings.rank, settings.seed, window));
        let in_turn = Arc::new(WaitsInTurn::new(cluster.clients().len()));
        let number = |(index, client): (usize, &Arc<dyn DeviceClient>)| {
            let next = nums.entry(client.device_type()).or_default();
            *next += 1;
            let (copies_out, space) = (copies_out.clone(), space.clone());
            let shared = Shared { copies_out, space, in_turn: in_turn.clone(), watch: watch.clone() };
            Device::new(client.clone(), index, DeviceNum(*next - 1), shared, &settings)
        };
        let devices = cluster.clients().iter().enumerate().map(number).collect();
        Self {
            cluster,
            host,
            settings,
            devices,
            first: if settings.rank.is_some() { OnceLock::new() } else { OnceLock::from(0) },
            last_type: AtomicI32::new(DeviceType::Default as i32),
            space,
            globals: ShortLock::default(),
            spare: SpareBuffers::default(),
            watch,
            comparison: OnceLock::new(),
        }
    }

    /// Returns all devices in the order of their numbers.
    pub fn clients(&self) -> impl Iterator<Item = &dyn DeviceClient> {
        self.in_order().map(Device::observed_client)
    }

    /// Notifies `observer` from now on of events on devices. There is one; the first stays.
    pub fn observe(&self, observer: Box<dyn Observer>) {
        self.watch.set(match self.comparison.get() {
            Some(_) => Box::new(ComparisonObserver(observer)),
            None => observer,
        });
    }

    /// Notifies the observer that started devices begin to end, because the program does; or that they have ended.
    pub fn notify_end(&self, begins: bool) {
        use crate::prof::ProfilingEvent::{DeviceShutdownEnd, DeviceShutdownStart};
        let started = || self.devices.iter().filter(|device| device.is_started());
        // Ends are in reverse order of the starts.
        if begins {
            started().for_each(|device| device.notify(DeviceShutdownStart, |_| {}));
        } else {
            started().rev().for_each(|device| device.notify(DeviceShutdownEnd, |_| {}));
        }
    }

    /// Writes the name of the device that an address belongs to, if there is one and no wait is needed. Neither waits nor
    /// allocates, for signal handlers.
    pub fn name_owner(&self, address: u64, out: &mut dyn Write) -> bool {
        self.space.name_owner(address, out)
    }

    /// Returns the number of the device that has an address, among the devices of the thread's type; `None` if none of them has it.
    pub fn num_of_owner(&self, t: &mut LocalThread, address: u64) -> Option<u32> {
        let owner = self.space.owner(address)?;
        let device_type = self.current_type(t).ok()?;
        let at = self.of_type(device_type).position(|device| device.index == owner)?;
        u32::try_from(at).ok()
    }

    /// Returns the name of the current device if another process drives it; none before a device is in use.
    pub fn elsewhere(&self, t: &mut LocalThread) -> Option<String> {
        if self.is_unsettled(t) {
            return None;
        }
        let Ok(Current::Device(index)) = self.current(t) else { return None };
        let device = &self.devices[index];
        let client = device.observed_client();
        client.is_remote().then(|| format!("{} (node {})", device.num(), client.info().node_name))
    }

    /// Makes `declare` variables of a loaded object present on every device from now on.
    /// `id` identifies the object until [`Runtime::unregister_globals`] (the address of its host table).
    pub fn register_globals(&self, id: u64, globals: Vec<Global>) {
        let mut all = self.globals();
        let started = self.devices.iter().filter(|device| device.is_started());
        let left: Vec<_> = started.map(|device| (device, device.add_globals(&globals))).collect();
        all.push((id, globals));
        drop(all);
        left.iter().for_each(|(device, locked)| device.unlock(locked));
    }

    /// Handles the unloading of the object `id`; `functions` is the address range of its regions.
    pub fn unregister_globals(&self, id: u64, functions: Range<u64>) {
        let mut left = Vec::new();
        let mut all = self.globals();
        while let Some(at) = all.iter().position(|(other, _)| *other == id) {
            let (_, globals) = all.swap_remove(at);
            for device in self.devices.iter().filter(|device| device.is_started()) {
                left.push((device, device.remove_globals(&globals)));
            }
        }
        drop(all);
        left.iter().for_each(|(device, locked)| device.unlock(locked));
        if !functions.is_empty() {
            for device in &self.devices {
                device.lock().effects.forget(&functions);
                if device.is_started() {
                    device.client().forget_functions(functions.clone());
                }
            }
            self.forget_compared(&functions);
        }
    }

    /// Makes the variables of all loaded objects present on a device that starts.
    pub(crate) fn publish(&self, device: &Device) {
        let all = self.globals();
        let left: Vec<_> = all.iter().flat_map(|(_, globals)| device.add_globals(globals)).collect();
        device.set_started();
        drop(all);
        device.unlock(&left);
    }

    /// Returns a construct on one of the devices.
    pub(crate) fn entering<'a>(&'a self, device: &'a Device, queue: QueueId, mode: Mode) -> ConstructEnter<'a> {
        ConstructEnter { device, all: &self.devices, host: &*self.host, queue, mode }
    }

    /// Returns the variables of all loaded objects.
    pub(crate) fn all_globals(&self) -> Vec<(u64, Vec<Global>)> {
        self.globals().clone()
    }

    fn globals(&self) -> ShortGuard<'_, Vec<(u64, Vec<Global>)>> {
        self.globals.lock()
    }
}
