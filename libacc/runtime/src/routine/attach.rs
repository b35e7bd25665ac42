//! Pointers on the device (OpenACC 3.3, 3.2.29).

use super::data::no_entries;
use crate::construct::{ConstructExit, Mode};
use crate::device::Device;
use crate::present::{Attachment, Counter, Found};
use crate::{LocalThread, Runtime};
use accord_types::{Error, ErrorCode, Result};

impl Runtime {
    /// Implements `acc_attach` and `acc_attach_async` (3.2.29). `pointer` is the address of the pointer variable. If it or
    /// its target is not present, nothing happens.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_null_pointer`, `acc_error_invalid_async`, and those of the device.
    pub fn attach(&self, t: &mut LocalThread, pointer: usize, async_: i32) -> Result<()> {
        self.attach_one(t, pointer, async_).map_err(|error| error.call("acc_attach"))
    }

    /// Implements `acc_detach` and its forms (3.2.29). Nothing happens if the pointer is not attached.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::attach`].
    pub fn detach(&self, t: &mut LocalThread, pointer: usize, async_: i32, finalize: bool) -> Result<()> {
        self.detach_one(t, pointer, async_, finalize).map_err(|error| error.call("acc_detach"))
    }

    fn attach_one(&self, t: &mut LocalThread, pointer: usize, async_: i32) -> Result<()> {
        let Some((device, queue)) = self.device_and_queue(t, async_)? else { return Ok(()) };
        not_null(device, pointer)?;
        let entering = self.entering(device, queue, Mode::Enter);
        entering.plan(&mut no_entries(), &mut t.scratch, |mapping| {
            if let Some(id) = mapping.holder_of(pointer)? {
                mapping.attach(id, pointer, 0)?;
            }
            Ok(())
        })?;
        self.send_or_undo(t, device, queue, Mode::Enter)
    }

    fn detach_one(&self, t: &mut LocalThread, pointer: usize, async_: i32, finalize: bool) -> Result<()> {
        let Some((device, queue)) = self.device_and_queue(t, async_)? else { return Ok(()) };
        not_null(device, pointer)?;
        let plan = &mut t.scratch.plan;
        device.begin(plan, queue);
        let mut state = device.lock();
        if let Found::Whole(id) = state.table.find(pointer, Attachment::BYTES) {
            let mut leaving = ConstructExit { state: &mut state, plan, counter: Counter::Dynamic };
            leaving.detach(id, pointer, finalize, &*self.host);
        }
        drop(state);
        self.finish(device, queue, plan)
    }
}

fn not_null(device: &Device, pointer: usize) -> Result<()> {
    if pointer == 0 {
        let error = Error::new(ErrorCode::InvalidNullPointer, "the address of the pointer variable is null");
        return Err(device.place(error.remedy("pass the address of the pointer, not the pointer")));
    }
    Ok(())
}
