//! The current device of a thread: the control variables of OpenACC 3.3, 2.3.

use crate::Runtime;
use crate::device::Device;
use crate::local_thread::{Current, LocalThread};
use crate::numbering::{Devices, first};
use accord_types::{DeviceNum, DeviceType, Error, ErrorCode, Result, natural_order};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

impl Runtime {
    /// Returns the current device of this thread, without starting it.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`, `acc_error_device_unavailable` if the environment names what does
    /// not exist.
    pub(crate) fn current(&self, t: &mut LocalThread) -> Result<Current> {
        if t.in_host_region() {
            return Ok(Current::Host);
        }
        if let Some(current) = t.current {
            return Ok(current);
        }
        let device_type = self.unsettled_type(t)?;
        self.settle(self.settings.device_num.map(i64::from), device_type);
        let current = self.nth(self.initial_num(), device_type).map_err(|error| self.blame_setting(error))?;
        t.current = Some(current);
        Ok(current)
    }

    /// Returns the current device, started; none is the host.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::current`], and those of starting it.
    pub(crate) fn target(&self, t: &mut LocalThread) -> Result<Option<&Device>> {
        match self.current(t)? {
            Current::Host => Ok(None),
            Current::Device(index) => self.started(index).map(Some),
        }
    }

    /// Returns a device, started.
    ///
    /// # Errors
    /// Returns the errors of starting it.
    pub(crate) fn started(&self, index: usize) -> Result<&Device> {
        let device = &self.devices[index];
        if !device.is_started() {
            device.start(|| self.publish(device))?;
        }
        Ok(device)
    }

    /// The type of the current device, for this thread.
    pub(crate) fn current_type(&self, t: &mut LocalThread) -> Result<DeviceType> {
        if self.is_unsettled(t) {
            let device_type = self.unsettled_type(t)?;
            self.nth(self.initial_num(), device_type).map_err(|error| self.blame_setting(error))?;
            return Ok(device_type);
        }
        Ok(match self.current(t)? {
            Current::Host => DeviceType::Host,
            Current::Device(index) => self.devices[index].device_type,
        })
    }

    /// Replaces `Default` by its meaning: the type that the environment names, else NVIDIA GPUs,
    /// else CPU devices, else the host.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable` if the environment names a type of which there is none.
    pub(crate) fn resolve_type(&self, device_type: DeviceType) -> Result<DeviceType> {
        if device_type != DeviceType::Default {
            return Ok(device_type);
        }
        match self.settings.device_type {
            Some(named) if named != DeviceType::Default => {
                if self.of_type(named).next().is_none() && named != DeviceType::Host {
                    let cause = format!("ACC_DEVICE_TYPE asks for {}, of which there is none", named.name());
                    return Err(Error::new(ErrorCode::DeviceTypeUnavailable, cause).remedy(remedy_for(
                        named,
                        "set ACC_DEVICE_TYPE to a type that `accord info` shows, or unset it",
                    )));
                }
                Ok(named)
            }
            _ => Ok([DeviceType::Nvidia, DeviceType::Cpu]
                .into_iter()
                .find(|device_type| self.of_type(*device_type).next().is_some())
                .unwrap_or(DeviceType::Host)),
        }
    }

    /// Whether asking for this thread's device would settle the device numbers.
    pub(crate) fn is_unsettled(&self, t: &LocalThread) -> bool {
        self.first.get().is_none() && t.current.is_none() && !t.in_host_region()
    }

    /// The type of which this thread's device will be.
    fn unsettled_type(&self, t: &LocalThread) -> Result<DeviceType> {
        self.resolve_type(t.wanted.unwrap_or(self.initial_type()))
    }

    /// Determines the device numbers, unless done: the program names one, or uses a device without.
    pub(crate) fn settle(&self, named: Option<i64>, device_type: DeviceType) {
        if device_type == DeviceType::Host || self.first.get().is_some() {
            return;
        }
        self.first.get_or_init(|| {
            let Some(rank) = self.settings.rank else { return 0 };
            let is_of = |device: &&Device| device_type == DeviceType::NotHost || device.device_type == device_type;
            let of_type: Vec<&Device> = self.devices.iter().filter(is_of).collect();
            let own_node = self.cluster.own_node();
            let own = of_type.iter().filter(|device| Some(device.info().id.node) == own_node).count();
            let name = |index: &usize| &of_type[*index].info().node_name;
            let global = (0..of_type.len()).min_by(|a, b| natural_order(name(a), name(b)).then(a.cmp(b)));
            let devices =
                Devices { count: of_type.len() as u32, own: own as u32, global: global.unwrap_or_default() as u32 };
            let named = named.and_then(|named| u32::try_from(named).ok());
            let first = of_type.get(first(rank, devices, named) as usize).map_or(0, |device| device.index);
            if first > 0 {
                let mut nums: HashMap<DeviceType, u32> = HashMap::new();
                for device in from(&self.devices, first) {
                    let next = nums.entry(device.device_type).or_default();
                    device.renumber(DeviceNum(*next));
                    *next += 1;
                }
            }
            first
        });
    }

    /// Returns all devices in the order of their numbers.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Device> {
        from(&self.devices, self.first.get().copied().unwrap_or_default())
    }

    /// Returns the devices that a concrete type (or "not the host") names, in the order of their numbers.
    pub(crate) fn of_type(&self, device_type: DeviceType) -> impl Iterator<Item = &Device> {
        self.in_order().filter(move |device| device_type == DeviceType::NotHost || device.device_type == device_type)
    }

    /// Returns the device with number `num` among those of a concrete type.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable` if there is none of the type, `acc_error_device_unavailable` if
    /// there are not that many.
    pub(crate) fn nth(&self, num: i64, device_type: DeviceType) -> Result<Current> {
        // A device knows its number within its own type.
        let is_it = |device: &&Device| device.device_type == device_type && i64::from(device.num().0) == num;
        if let Some(device) = self.devices.iter().find(is_it) {
            return Ok(Current::Device(device.index));
        }
        let count = self.count(device_type);
        if count == 0 {
            return Err(Self::no_type(device_type));
        }
        if num < 0 || num >= i64::from(count) {
            let (there, last) = match count {
                1 => ("there is 1 device".to_owned(), String::new()),
                _ => (format!("there are {count} devices"), format!(" to {}", count - 1)),
            };
            let cause = format!("no device number {num}: {there} of type {}", device_type.name());
            return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(format!("use a number from 0{last}")));
        }
        Ok(match self.of_type(device_type).nth(num as usize) {
            Some(device) => Current::Device(device.index),
            None => Current::Host,
        })
    }

    /// Returns the number of devices of a concrete type. The host is one.
    pub(crate) fn count(&self, device_type: DeviceType) -> u32 {
        match device_type {
            DeviceType::Host => 1,
            // Device numbers are 32-bit; a session has fewer devices.
            other => self.of_type(other).count() as u32,
        }
    }

    /// Adds that a bad device number comes from the environment, if it does.
    fn blame_setting(&self, error: Error) -> Error {
        if self.settings.device_num.is_none() || error.code() != ErrorCode::DeviceUnavailable {
            return error;
        }
        Error::new(error.code(), format!("ACC_DEVICE_NUM: {}", error.cause())).remedy_if(error.remedy_text())
    }

    /// The error for a type that has no device here.
    pub(crate) fn no_type(device_type: DeviceType) -> Error {
        Error::new(ErrorCode::DeviceTypeUnavailable, format!("there is no device of type {}", device_type.name()))
            .remedy(remedy_for(device_type, "see `accord info` for the devices that are there"))
    }

    /// Returns the type that a new thread starts with: the last one that any thread set.
    pub(crate) fn initial_type(&self) -> DeviceType {
        DeviceType::from_raw(self.last_type.load(Ordering::Relaxed)).unwrap_or(DeviceType::Default)
    }

    /// The number that a new thread starts with.
    pub(crate) fn initial_num(&self) -> i64 {
        i64::from(self.settings.device_num.unwrap_or(0))
    }
}

/// Returns the remedy if a type has no device: CPU devices can appear as NVIDIA's.
const fn remedy_for(device_type: DeviceType, otherwise: &'static str) -> &'static str {
    match device_type {
        DeviceType::Nvidia => "set ACCORD_EMULATE=nvidia, with which CPU devices appear as that type",
        _ => otherwise,
    }
}

/// Returns all of them, cyclically from `first`.
fn from(devices: &[Device], first: usize) -> impl Iterator<Item = &Device> {
    let (before, after) = devices.split_at(first);
    after.iter().chain(before)
}
