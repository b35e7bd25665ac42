//! Device memory without host data (OpenACC 3.3, 3.2.16, 3.2.17, 3.2.26 to 3.2.28, 3.2.30).

use super::data::{no_entries, null};
use crate::construct::Mode;
use crate::device::Device;
use crate::local_thread::Current;
use crate::memory::Purpose;
use crate::plan::{ProfilingRecord, Step};
use crate::prof::ProfilingEvent;
use crate::{LocalThread, Runtime};
use accord_types::short_lock;
use accord_types::{AsyncArg, Count, DevicePtr, Error, ErrorCode, HostRange, QueueId, Result};

impl Runtime {
    /// Implements `acc_malloc` (3.2.16). Returns a device address; 0 for no bytes. On the host device, host memory.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`, and those of the device.
    pub fn malloc(&self, t: &mut LocalThread, bytes: usize) -> Result<usize> {
        self.allocate_block(t, bytes).map_err(|error| error.call("acc_malloc"))
    }

    /// Implements `acc_free` (3.2.17). Ignores null.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` unless `device` came from [`Runtime::malloc`] and was not freed since, or
    /// if host data is still mapped to it.
    pub fn free(&self, t: &mut LocalThread, device: usize) -> Result<()> {
        self.free_block(t, device).map_err(|error| error.call("acc_free"))
    }

    /// Implements `acc_memcpy_to_device` (3.2.26) and its asynchronous form.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_null_pointer` for null with bytes, `acc_error_invalid_argument` for memory that is
    /// not allocated, `acc_error_invalid_async`, and those of the device.
    pub fn memcpy_to_device(
        &self,
        t: &mut LocalThread,
        device: usize,
        host: usize,
        bytes: usize,
        async_: i32,
    ) -> Result<()> {
        let copy = |t: &mut LocalThread| {
            let Some((on, queue)) = self.device_and_queue(t, async_)? else {
                self.check_ends(None, device, host)?;
                self.copy_here(device, host, bytes)?;
                return Ok(());
            };
            if null(on, host, bytes)? || null(on, device, bytes)? || bytes == 0 {
                return Ok(());
            }
            self.check_ends(Some(on), device, host)?;
            let entering = self.entering(on, queue, Mode::Enter);
            entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
                allocated(&mapping.state.memory, device, bytes)?;
                mapping.copy_in(DevicePtr(device as u64), HostRange { start: host, len: bytes })
            })?;
            self.finish(on, queue, &t.scratch.plan)
        };
        copy(t).map_err(|error: Error| error.call("acc_memcpy_to_device"))
    }

    /// Implements `acc_memcpy_from_device` (3.2.27) and its asynchronous form.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::memcpy_to_device`].
    pub fn memcpy_from_device(
        &self,
        t: &mut LocalThread,
        host: usize,
        device: usize,
        bytes: usize,
        async_: i32,
    ) -> Result<()> {
        let copy = |t: &mut LocalThread| {
            let Some((on, queue)) = self.device_and_queue(t, async_)? else {
                self.check_ends(None, device, host)?;
                self.copy_here(host, device, bytes)?;
                return Ok(());
            };
            if null(on, host, bytes)? || null(on, device, bytes)? || bytes == 0 {
                return Ok(());
            }
            self.check_ends(Some(on), device, host)?;
            allocated(&on.lock().memory, device, bytes).map_err(|error| on.place(error))?;
            let plan = &mut t.scratch.plan;
            on.begin(plan, queue);
            let dst = HostRange { start: host, len: bytes };
            plan.before.push(Step::Out { src: DevicePtr(device as u64), dst });
            self.finish(on, queue, plan)
        };
        copy(t).map_err(|error: Error| error.call("acc_memcpy_from_device"))
    }

    /// Implements `acc_memcpy_device` (3.2.28) and its asynchronous form. Addresses identify their device. If it is another one than
    /// the current, the copy goes there, or from there, in the queue of the source device as with `acc_memcpy_d2d`.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::memcpy_to_device`].
    pub fn memcpy_device(&self, t: &mut LocalThread, dst: usize, src: usize, bytes: usize, async_: i32) -> Result<()> {
        let copy = |t: &mut LocalThread| {
            let on = self.device_and_queue(t, async_)?;
            let queue = t.queue(AsyncArg::from_raw(async_)?);
            let (to, from) = (self.space.owner(dst as u64), self.space.owner(src as u64));
            let index = on.map(|(on, _)| on.index);
            let (Some(to), Some(from)) = (to.or(index), from.or(index)) else {
                self.check_ends(None, dst, src)?;
                self.copy_here(dst, src, bytes)?;
                return Ok(());
            };
            let (target, source) = (self.started(to)?, self.started(from)?);
            if null(target, dst, bytes)? || null(source, src, bytes)? || bytes == 0 || dst == src {
                return Ok(());
            }
            allocated(&target.lock().memory, dst, bytes).map_err(|error| target.place(error))?;
            allocated(&source.lock().memory, src, bytes).map_err(|error| source.place(error))?;
            let (to, from) = (DevicePtr(dst as u64), DevicePtr(src as u64));
            if target.index == source.index {
                return self.copy_within(source, queue, to, from, bytes as u64);
            }
            self.copy_across(source, queue, from, target, to, bytes as u64)
        };
        copy(t).map_err(|error: Error| error.call("acc_memcpy_device"))
    }

    /// Implements `acc_memcpy_d2d` and its asynchronous form (3.2.30), whose queue is the source device's. The host addresses are
    /// present on the two devices (numbers within the current device type). An absent one may also be an
    /// address that `acc_malloc` returned on that device.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable`, `acc_error_not_present`, `acc_error_partly_present`,
    /// `acc_error_invalid_null_pointer`, `acc_error_invalid_async`, and those of the devices.
    #[expect(clippy::too_many_arguments, reason = "the routine's own")]
    pub fn memcpy_d2d(
        &self,
        t: &mut LocalThread,
        dst: usize,
        src: usize,
        bytes: usize,
        dev_dst: i32,
        dev_src: i32,
        async_: i32,
    ) -> Result<()> {
        let copy = |t: &mut LocalThread| {
            let arg = AsyncArg::from_raw(async_)?;
            let queue = t.queue(arg);
            let device_type = self.current_type(t)?;
            self.settle(None, device_type);
            let target = self.nth(i64::from(dev_dst), device_type)?;
            let source = self.nth(i64::from(dev_src), device_type)?;
            let (Current::Device(target), Current::Device(source)) = (target, source) else {
                self.copy_here(dst, src, bytes)?;
                return Ok(());
            };
            let devices = (self.started(target)?, self.started(source)?);
            if null(devices.0, dst, bytes)? || null(devices.1, src, bytes)? || bytes == 0 {
                return Ok(());
            }
            let to = self.located(t, target, dst, bytes)?;
            let from = self.located(t, source, src, bytes)?;
            if target == source {
                return self.copy_within(devices.1, queue, to, from, bytes as u64);
            }
            self.copy_across(devices.1, queue, from, devices.0, to, bytes as u64)
        };
        copy(t).map_err(|error: Error| error.call("acc_memcpy_d2d"))
    }

    /// Checks that `device` is an address of the device `on` (none is the host), as far as is known, and `host` one of the program.
    pub(super) fn check_ends(&self, on: Option<&Device>, device: usize, host: usize) -> Result<()> {
        let place = |error: Error| on.map_or(error.clone(), |on| on.place(error));
        let index = on.map(|on| on.index);
        if let Some(owner) = self.space.owner(device as u64).filter(|owner| Some(*owner) != index) {
            let remedy = "call acc_set_device_num before, or pass an address of this device";
            return Err(place(self.space.elsewhere(device, owner, remedy)));
        }
        if let Some(owner) = self.space.owner(host as u64) {
            let remedy = "pass an address of the program's memory, or copy between devices by acc_memcpy_device";
            return Err(place(self.space.elsewhere(host, owner, remedy)));
        }
        Ok(())
    }

    /// Copies within the program's memory, after pending copies of queues to it.
    fn copy_here(&self, dst: usize, src: usize, bytes: usize) -> Result<()> {
        for start in [src, dst] {
            let arriving =
                self.devices.first().map(|any| any.shared.copies_out.elsewhere(None, HostRange { start, len: bytes }));
            let arriving = arriving.unwrap_or_default();
            arriving.iter().try_for_each(|(device, one)| self.devices[*device].wait_observed(one.queue))?;
        }
        self.host.copy(dst, src, bytes);
        Ok(())
    }

    fn copy_across(
        &self,
        source: &Device,
        queue: QueueId,
        from: DevicePtr,
        target: &Device,
        to: DevicePtr,
        len: u64,
    ) -> Result<()> {
        let issue = crate::issue::Issue { device: source, all: &self.devices, host: &*self.host, queue };
        issue.join()?;
        if queue == QueueId::SYNC {
            crate::issue::Issue { device: target, ..issue }.join()?;
        }
        short_lock::assert_none_held();
        self.cluster
            .copy_between(queue, source.index, from, target.index, to, len)
            .map_err(|error| source.place(error).queue(queue))?;
        let moment = issue.filled(&[], false);
        if queue == QueueId::SYNC { source.wait_observed_since(queue, moment) } else { Ok(()) }
    }

    fn copy_within(&self, device: &Device, queue: QueueId, to: DevicePtr, from: DevicePtr, len: u64) -> Result<()> {
        let issue = crate::issue::Issue { device, all: &self.devices, host: &*self.host, queue };
        issue.join()?;
        device.client().copy(queue, to, from, len).map_err(|error| device.place(error).queue(queue))?;
        issue.filled(&[], true);
        Ok(())
    }

    fn allocate_block(&self, t: &mut LocalThread, bytes: usize) -> Result<usize> {
        let Some(device) = self.target(t)? else {
            return match (bytes, self.host.allocate(bytes)) {
                (0, _) => Ok(0),
                (_, 0) => Err(Error::new(ErrorCode::OutOfMemory, format!("no {bytes} bytes of host memory"))),
                (_, address) => Ok(address),
            };
        };
        if bytes == 0 {
            return Ok(0);
        }
        let mut address = DevicePtr(0);
        let entering = self.entering(device, QueueId::SYNC, Mode::Enter);
        entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
            address = mapping.allocate(bytes, Purpose::Malloc)?;
            Ok(())
        })?;
        self.finish(device, QueueId::SYNC, &t.scratch.plan)?;
        Ok(address.0 as usize)
    }

    fn free_block(&self, t: &mut LocalThread, address: usize) -> Result<()> {
        if address == 0 {
            return Ok(());
        }
        let device = self.target(t)?;
        let index = device.map(|device| device.index);
        if let Some(owner) = self.space.owner(address as u64).filter(|owner| Some(*owner) != index) {
            let error = self.space.elsewhere(
                address,
                owner,
                "call acc_set_device_num before: addresses are freed where they belong",
            );
            return Err(device.map_or(error.clone(), |device| device.place(error)));
        }
        let Some(device) = device else {
            self.host.free(address);
            return Ok(());
        };
        let block = DevicePtr(address as u64);
        let plan = &mut t.scratch.plan;
        device.begin(plan, QueueId::SYNC);
        {
            let state = device.lock();
            if !state.memory.is_malloc(block) {
                let cause = format!("{block} was not allocated by acc_malloc on this device, or was freed already");
                let error = Error::new(ErrorCode::InvalidArgument, cause);
                return Err(device.place(error.remedy("free each address once, on the device that gave it")));
            }
            if let Some(host) = state.table.host_of(block) {
                let cause = format!("the data at {host:#x} is still mapped to {block}");
                return Err(
                    device.place(Error::new(ErrorCode::InvalidArgument, cause).remedy("call acc_unmap_data before"))
                );
            }
            plan.releases.blocks.push(block);
            if plan.profiling.is_watched {
                let bytes = state.memory.holders(block).0;
                plan.profiling.ends.push(ProfilingRecord {
                    what: ProfilingEvent::Free,
                    host: 0,
                    address: block,
                    bytes,
                });
            }
            plan.releases.are_shared = true;
        }
        self.finish(device, QueueId::SYNC, plan)
    }
}

/// Checks that memory of this device's allocator is in use; the device checks other addresses.
fn allocated(memory: &crate::memory::Allocator, address: usize, bytes: usize) -> Result<()> {
    let (start, len) = (address as u64, bytes as u64);
    if !memory.owns(start) {
        return Ok(());
    }
    let inside = memory.block_of(start).is_some_and(|(block, size)| start - block.0 + len <= size);
    if inside {
        return Ok(());
    }
    let cause =
        format!("not all of {} at {address:#x} is in one piece of allocated device memory", Count(bytes, "byte"));
    Err(Error::new(ErrorCode::InvalidArgument, cause)
        .remedy("use addresses of acc_malloc or acc_deviceptr that were not freed"))
}
