//! The present table by hand (OpenACC 3.3, 3.2.21 to 3.2.25).

use super::data::{no_entries, null};
use crate::construct::{Mode, not_present};
use crate::device::DeviceData;
use crate::present::{Backing, DataLocation, Entry, Found, Lifetime};
use crate::prof::ProfilingEvent;
use crate::{LocalThread, Runtime};
use accord_types::{Count, DevicePtr, Error, ErrorCode, HostRange, QueueId, Result};

impl Runtime {
    /// Implements `acc_map_data` (3.2.21): `bytes` at `host` are present at `device` until [`Runtime::unmap_data`].
    /// The dynamic counter is one and does not drop below.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_null_pointer`, `acc_error_present` if any of it is present already, or any of the
    /// device memory is another entry's.
    pub fn map_data(&self, t: &mut LocalThread, host: usize, device: usize, bytes: usize) -> Result<()> {
        self.map_one(t, host, device, bytes).map_err(|error| error.call("acc_map_data"))
    }

    /// Implements `acc_unmap_data` (3.2.22), the inverse. The device memory remains allocated.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` unless `host` was passed to [`Runtime::map_data`], `acc_error_present` if a
    /// region holds the data.
    pub fn unmap_data(&self, t: &mut LocalThread, host: usize) -> Result<()> {
        self.unmap_one(t, host).map_err(|error| error.call("acc_unmap_data"))
    }

    /// Implements `acc_deviceptr` (3.2.23). Returns the device address of a host address; 0 if absent; the same on the host device.
    ///
    /// # Errors
    /// Returns the errors of starting the device.
    pub fn deviceptr(&self, t: &mut LocalThread, host: usize) -> Result<usize> {
        let find = |t: &mut LocalThread| {
            let Some(device) = self.target(t)? else { return Ok(host) };
            let present = device.lock().table.locate(host, 1);
            if let Some(address) = present {
                return Ok(address.0 as usize);
            }
            let mut address = 0;
            let entering = self.entering(device, QueueId::SYNC, Mode::Enter);
            entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
                if let Some(id) = mapping.find(HostRange { start: host, len: 1 })? {
                    address = mapping.translate(id, host).0 as usize;
                }
                Ok(())
            })?;
            Ok(address)
        };
        find(t).map_err(|error: Error| error.call("acc_deviceptr"))
    }

    /// Implements `acc_hostptr` (3.2.24). Returns the host address of a device address; 0 if no host data is there.
    ///
    /// # Errors
    /// Returns the errors of starting the device.
    pub fn hostptr(&self, t: &mut LocalThread, device: usize) -> Result<usize> {
        let Some(on) = self.target(t).map_err(|error| error.call("acc_hostptr"))? else { return Ok(device) };
        Ok(on.lock().table.host_of(DevicePtr(device as u64)).unwrap_or(0))
    }

    /// Implements `acc_is_present` (3.2.25): whether all `bytes` are; for no bytes, whether the address is. Null never is.
    ///
    /// # Errors
    /// Returns the errors of starting the device.
    pub fn is_present(&self, t: &mut LocalThread, host: usize, bytes: usize) -> Result<bool> {
        let Some(device) = self.target(t).map_err(|error| error.call("acc_is_present"))? else { return Ok(true) };
        Ok(host != 0 && matches!(device.lock().table.find(host, bytes.max(1)), Found::Whole(_)))
    }

    fn map_one(&self, t: &mut LocalThread, host: usize, device: usize, bytes: usize) -> Result<()> {
        let Some(on) = self.target(t)? else { return Ok(()) };
        if null(on, host, bytes)? || null(on, device, bytes)? || bytes == 0 {
            return Err(on.place(Error::new(ErrorCode::InvalidArgument, "there are no bytes to map")));
        }
        let range = HostRange { start: host, len: bytes };
        self.check_ends(Some(on), device, host)?;
        let mut state = on.lock();
        if let Found::Whole(id) | Found::Partly(id) = state.table.find(host, bytes) {
            let entry = &state.table[id];
            let more = format!("as {} bytes at {:#x} were mapped before", entry.len(), entry.start);
            let error = Error::about(ErrorCode::Present, range, "present already", more);
            return Err(on.place(error.remedy("unmap or delete them before")));
        }
        let to = DevicePtr(device as u64);
        let of_data = |state: &DeviceData| {
            let (block, _) = state.memory.block_of(to.0).filter(|(block, _)| !state.memory.is_malloc(*block))?;
            state.table.host_of(to).or_else(|| state.table.host_of(block))
        };
        if let Some(other) = state.table.mapped_to(to, bytes as u64).or_else(|| of_data(&state)) {
            let cause = format!(
                "the {} at device address {device:#x} belong to the data at {other:#x} already",
                Count(bytes, "byte")
            );
            return Err(on.place(Error::new(ErrorCode::Present, cause).remedy("unmap it before, or map other memory")));
        }
        let place = DataLocation::At(to);
        let mut entry = Entry::new(range, place, Backing::Foreign, Lifetime::Mapped);
        entry.references.dynamic = 1;
        state.table.insert(entry);
        drop(state);
        on.notify(ProfilingEvent::Create, |notice| {
            (notice.host, notice.address, notice.bytes) = (host, to.0, bytes as u64);
        });
        Ok(())
    }

    fn unmap_one(&self, t: &mut LocalThread, host: usize) -> Result<()> {
        let Some(on) = self.target(t)? else { return Ok(()) };
        if host == 0 {
            null(on, host, 1)?;
        }
        let mut state = on.lock();
        let found = state.table.find_byte(host).filter(|id| {
            let entry = &state.table[*id];
            entry.start == host && entry.lifetime == Lifetime::Mapped
        });
        let Some(id) = found else {
            let cause = format!("no data was mapped at {host:#x} by acc_map_data");
            return Err(
                on.place(Error::new(ErrorCode::InvalidArgument, cause).remedy("pass the address that was mapped"))
            );
        };
        if state.table[id].references.structured > 0 {
            let cause = format!(
                "the data at {host:#x} is still held by {}",
                Count(state.table[id].references.structured as usize, "data region")
            );
            return Err(on.place(Error::new(ErrorCode::Present, cause).remedy("unmap it after the end of the regions")));
        }
        let removed = state.table.remove(id);
        drop(state);
        if let Some(entry) = &removed {
            on.notify(ProfilingEvent::Delete, |notice| {
                (notice.host, notice.bytes) = (entry.start, entry.len() as u64);
                notice.address = entry.device().unwrap_or_default().0;
            });
        }
        let locked = removed.filter(|entry| entry.locked);
        let range = locked.map(|entry| entry.range());
        range.map_or(Ok(()), |range| on.client().unregister_pages(None, range).map_err(|error| on.place(error)))
    }

    /// Returns a device's address of `bytes` at `host`: present there, or a device address of that device itself.
    ///
    /// # Errors
    /// Returns `acc_error_not_present`, `acc_error_partly_present`.
    pub(super) fn located(&self, t: &mut LocalThread, index: usize, host: usize, bytes: usize) -> Result<DevicePtr> {
        let device = self.started(index)?;
        let known = device.lock().located(host, bytes);
        if let Some(place) = known {
            return Ok(place);
        }
        // It is in transit, or absent.
        let range = HostRange { start: host, len: bytes };
        let entering = self.entering(device, QueueId::SYNC, Mode::Enter);
        let mut place = DevicePtr(0);
        entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
            place = match mapping.find(range)? {
                Some(id) => mapping.state.table[id].translate(host),
                None if mapping.state.memory.block_of(host as u64).is_some() => DevicePtr(host as u64),
                None => match self.space.owner(host as u64).filter(|owner| *owner != index) {
                    None => return Err(not_present(range, &mapping.state.table).into()),
                    Some(owner) => {
                        let remedy = "name the device of each address, source and target";
                        return Err(self.space.elsewhere(host, owner, remedy).into());
                    }
                },
            };
            Ok(())
        })?;
        Ok(place)
    }
}
