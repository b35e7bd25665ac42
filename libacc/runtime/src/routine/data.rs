//! Data by address: `acc_copyin` and related routines (OpenACC 3.3, 3.2.18 to 3.2.20).

use crate::construct::{Absent, ConstructExit, Data, Direction, Entries, Mode, Stop, partly_present};
use crate::device::Device;
use crate::present::{Counter, Found};
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, Count, Error, ErrorCode, HostRange, QueueId, Result};

impl Runtime {
    /// Implements `acc_copyin` and `acc_copyin_async` (3.2.18). Returns the device address; on the host device, the host address.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_null_pointer` for null with bytes, `acc_error_partly_present`,
    /// `acc_error_out_of_memory`, `acc_error_invalid_async`, and those of the device.
    pub fn copyin(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<usize> {
        self.enter_one(t, host, bytes, async_, true).map_err(|error| error.call("acc_copyin"))
    }

    /// Implements `acc_create` and `acc_create_async` (3.2.18). Returns the device address; on the host device, the host address.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::copyin`].
    pub fn create(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<usize> {
        self.enter_one(t, host, bytes, async_, false).map_err(|error| error.call("acc_create"))
    }

    /// Implements `acc_copyout` and its forms (3.2.19). Ignores absent data, null with any size and no bytes, as libgomp
    /// does.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::copyin`].
    pub fn copyout(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, finalize: bool) -> Result<()> {
        self.exit_one(t, host, bytes, async_, finalize, true).map_err(|error| error.call("acc_copyout"))
    }

    /// Implements `acc_delete` and its forms (3.2.19). Ignores the same as [`Runtime::copyout`].
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::copyin`].
    pub fn delete(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, finalize: bool) -> Result<()> {
        self.exit_one(t, host, bytes, async_, finalize, false).map_err(|error| error.call("acc_delete"))
    }

    /// Implements `acc_update_device` and `acc_update_device_async` (3.2.20).
    ///
    /// # Errors
    /// Returns `acc_error_not_present`, and the errors of [`Runtime::copyin`].
    pub fn update_device(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<()> {
        self.update_one(t, host, bytes, async_, false).map_err(|error| error.call("acc_update_device"))
    }

    /// Implements `acc_update_self` and `acc_update_self_async` (3.2.20).
    ///
    /// # Errors
    /// Returns `acc_error_not_present`, and the errors of [`Runtime::copyin`].
    pub fn update_self(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32) -> Result<()> {
        self.update_one(t, host, bytes, async_, true).map_err(|error| error.call("acc_update_self"))
    }

    fn enter_one(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, copy_in: bool) -> Result<usize> {
        let Some((device, queue)) = self.device_and_queue(t, async_)? else { return Ok(host) };
        if null(device, host, bytes)? {
            return Ok(0);
        }
        let range = HostRange { start: host, len: bytes.max(1) };
        let data = Data { copy_in: copy_in && bytes > 0, copy_out: false, always: false, absent: Absent::Create };
        let mut address = 0;
        let entering = self.entering(device, queue, Mode::Enter);
        entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
            mapping.data(0, range, data)?;
            if let Some(id) = mapping.find(range)? {
                address = mapping.translate(id, host).0;
            }
            mapping.settle_if_silent();
            Ok(())
        })?;
        self.send_or_undo(t, device, queue, Mode::Enter)?;
        Ok(address as usize)
    }

    fn exit_one(
        &self,
        t: &mut LocalThread,
        host: usize,
        bytes: usize,
        async_: i32,
        finalize: bool,
        copy_out: bool,
    ) -> Result<()> {
        let Some((device, queue)) = self.device_and_queue(t, async_)? else { return Ok(()) };
        let range = HostRange { start: host, len: bytes.max(1) };
        let plan = &mut t.scratch.plan;
        device.begin(plan, queue);
        let mut state = device.lock();
        match state.table.find(range.start, range.len) {
            Found::Absent => return Ok(()),
            // No bytes end only what no bytes began.
            Found::Whole(id) if bytes == 0 && state.table[id].len() > range.len => return Ok(()),
            Found::Partly(_) => return Err(device.place(partly_present(range, &state.table))),
            Found::Whole(id) => {
                let out = (copy_out && bytes > 0).then_some((range, None));
                let mut leaving = ConstructExit { state: &mut state, plan, counter: Counter::Dynamic };
                leaving.give_up_part(id, range, out, finalize, false);
            }
        }
        drop(state);
        self.finish(device, queue, plan)
    }

    fn update_one(&self, t: &mut LocalThread, host: usize, bytes: usize, async_: i32, out: bool) -> Result<()> {
        let Some((device, queue)) = self.device_and_queue(t, async_)? else { return Ok(()) };
        if null(device, host, bytes)? || bytes == 0 {
            return Ok(());
        }
        let range = HostRange { start: host, len: bytes };
        let direction = Direction { out, if_present: false, cut: false, described: false };
        let entering = self.entering(device, queue, Mode::Enter);
        entering.plan(&mut no_entries(), &mut t.scratch, |mapping| -> Result<(), Stop> {
            mapping.update(range, direction)
        })?;
        self.finish(device, queue, &t.scratch.plan)
    }

    /// Returns the current device, started, and the queue that an async-argument names; none for the host device.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, and those of starting the device.
    pub(crate) fn device_and_queue(&self, t: &mut LocalThread, async_: i32) -> Result<Option<(&Device, QueueId)>> {
        let arg = AsyncArg::from_raw(async_)?;
        Ok(self.target(t)?.map(|device| (device, t.queue(arg))))
    }
}

/// The arrays of a call that has none.
pub(super) fn no_entries() -> Entries<'static> {
    Entries::new(&mut [], &[], &[])
}

/// Whether an address is null, which is an error if it has bytes.
pub(super) fn null(device: &Device, host: usize, bytes: usize) -> Result<bool> {
    if host == 0 && bytes > 0 {
        let cause = format!("{} at a null pointer", Count(bytes, "byte"));
        return Err(
            device.place(Error::new(ErrorCode::InvalidNullPointer, cause).remedy("pass the address of the data"))
        );
    }
    Ok(host == 0)
}
