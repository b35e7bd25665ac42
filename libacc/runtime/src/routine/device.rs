//! Chooses a device (OpenACC 3.3, 3.2.1 to 3.2.5, and `acc_on_device`).

use crate::local_thread::Current;
use crate::{LocalThread, Runtime};
use accord_types::{DeviceType, Error, ErrorCode, Result};
use std::sync::atomic::Ordering;

impl Runtime {
    /// Implements `acc_get_num_devices` (3.2.1). "Not the host" counts all devices; there are none of type "none".
    ///
    /// # Errors
    /// Returns an error if the environment names a type without devices.
    pub fn get_num_devices(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<u32> {
        if device_type == DeviceType::None {
            return Ok(0);
        }
        let count = |t: &mut LocalThread| Ok(self.count(self.concrete(t, device_type)?));
        count(t).map_err(|error: Error| error.call("acc_get_num_devices"))
    }

    /// Implements `acc_set_device_type` (3.2.2), for this thread and as the type that new threads start with.
    ///
    /// # Errors
    /// Returns `acc_error_device_type_unavailable`.
    pub fn set_device_type(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<()> {
        let set = |t: &mut LocalThread| {
            let concrete = self.concrete(t, device_type)?;
            if self.is_unsettled(t) {
                // The device itself is chosen when it is named or used.
                self.nth(0, concrete)?;
                t.wanted = Some(concrete);
                self.last_type.store(concrete as i32, Ordering::Relaxed);
                return Ok(());
            }
            let stays = match t.current {
                None => false,
                Some(Current::Host) => concrete == DeviceType::Host,
                Some(Current::Device(index)) => self.of_type(concrete).any(|device| device.index == index),
            };
            if !stays {
                // The environment's number is about the type that the program starts with.
                let initial = self.initial_num();
                let num = if initial < i64::from(self.count(concrete)) { initial } else { 0 };
                t.current = Some(self.nth(num, concrete)?);
            }
            self.last_type.store(concrete as i32, Ordering::Relaxed);
            Ok(())
        };
        set(t).map_err(|error: Error| error.call("acc_set_device_type"))
    }

    /// Implements `acc_get_device_type` (3.2.3). Returns a concrete type, never "default".
    ///
    /// # Errors
    /// Returns an error if the environment names a device that does not exist.
    pub fn get_device_type(&self, t: &mut LocalThread) -> Result<DeviceType> {
        self.current_type(t).map_err(|error| error.call("acc_get_device_type"))
    }

    /// Implements `acc_set_device_num` (3.2.4): device `num` of that type, for this thread; for
    /// `acc_device_none` and `acc_device_current`, of the type in use.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if there are not that many, `acc_error_device_type_unavailable` if there
    /// is none.
    pub fn set_device_num(&self, t: &mut LocalThread, num: i32, device_type: DeviceType) -> Result<()> {
        let set = |t: &mut LocalThread| {
            let asked = if device_type == DeviceType::None { DeviceType::Current } else { device_type };
            let concrete = self.concrete(t, asked)?;
            self.settle(Some(i64::from(num)).filter(|num| self.nth(*num, concrete).is_ok()), concrete);
            let current = self.nth(i64::from(num), concrete)?;
            t.current = Some(current);
            t.named = true;
            self.last_type.store(concrete as i32, Ordering::Relaxed);
            Ok(())
        };
        set(t).map_err(|error: Error| error.call("acc_set_device_num"))
    }

    /// Implements `acc_get_device_num` (3.2.5): this thread's device, if it is of that type; else the number
    /// that a thread starts with. `None` if there is no device of that type.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` for `acc_device_none`; an error if the environment names a device that does not
    /// exist.
    pub fn get_device_num(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<Option<u32>> {
        let get = |t: &mut LocalThread| {
            let concrete = self.concrete(t, device_type)?;
            if self.count(concrete) == 0 {
                return Ok(None);
            }
            let initial = || {
                let initial = self.settings.device_num.unwrap_or(0);
                if initial < self.count(concrete) { initial } else { 0 }
            };
            if self.is_unsettled(t) {
                return Ok(Some(initial()));
            }
            let current = self.current(t)?;
            let at = self.of_type(concrete).position(|device| current == Current::Device(device.index));
            // Device numbers are 32-bit; a session has fewer devices.
            Ok(Some(at.map_or_else(initial, |at| at as u32)))
        };
        get(t).map_err(|error: Error| error.call("acc_get_device_num"))
    }

    /// Implements `acc_on_device`, called by the program's own thread: it is on the host.
    ///
    /// # Errors
    /// Returns no error today.
    pub fn on_device(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<bool> {
        let _ = t;
        Ok(matches!(device_type, DeviceType::Host | DeviceType::None))
    }

    /// Returns the type that an argument means.
    ///
    /// # Errors
    /// Returns an error if the environment names a type without devices.
    pub(super) fn concrete(&self, t: &mut LocalThread, device_type: DeviceType) -> Result<DeviceType> {
        match device_type {
            DeviceType::Current => self.current_type(t),
            DeviceType::Default => self.resolve_type(device_type),
            DeviceType::None => Err(Error::new(ErrorCode::InvalidArgument, "acc_device_none names no device type")),
            other => Ok(other),
        }
    }
}
