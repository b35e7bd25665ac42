//! One-sided communication: staged buffers until a call completes the accesses, and windows, which are never staged.

use super::buffers::{Arguments, StagedBuffer};
use super::library;
use crate::errors::{SourceLine, end};
use crate::{acc, memory, modules, streams};
use accord_types::short_lock::ShortLock;
use std::ffi::c_void;

/// A staged buffer of an access that has not completed.
struct Access {
    window: i32,
    rank: i32,
    buffer: StagedBuffer,
}

/// Accesses that have not completed, bounded by the program's own calls between two synchronizations.
static ACCESSES: ShortLock<Vec<Access>> = ShortLock::new(Vec::new());

/// Keeps the buffers of an access until a call completes it.
pub(super) fn keep(window: i32, rank: i32, buffers: Vec<StagedBuffer>) {
    ACCESSES.lock().extend(buffers.into_iter().map(|buffer| Access { window, rank, buffer }));
}

/// The effect of a routine on accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WindowRoutine {
    /// The routine completes all accesses of a window, whose argument has this index.
    CompletesAll(usize),
    /// The routine completes the accesses to a rank; the indices of rank and window.
    CompletesRank(usize, usize),
}

impl WindowRoutine {
    /// Calls `next`, and writes back the buffers of the accesses that it completes.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    pub(super) unsafe fn call(self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        // SAFETY: the caller's promise; Fortran passes integers by their addresses.
        let integer = |at: usize| unsafe { arguments[at].cast::<i32>().read() };
        let (rank, window) = match self {
            Self::CompletesAll(window) => (None, integer(window)),
            Self::CompletesRank(rank, window) => (Some(integer(rank)), integer(window)),
        };
        next(arguments);
        let is_complete = |access: &mut Access| access.window == window && rank.is_none_or(|rank| rank == access.rank);
        let complete: Vec<Access> = ACCESSES.lock().extract_if(.., is_complete).collect();
        for mut access in complete {
            access.buffer.complete();
        }
    }
}

/// A routine that opens memory to other ranks: its name, and the index of the argument with the address.
pub(super) struct NewWindow(pub(super) &'static str, pub(super) usize);

impl NewWindow {
    /// Calls `next` with an address that MPI can use; ends the program if MPI can't use that of a device array.
    ///
    /// # Safety
    /// The arguments are those of such a routine.
    pub(super) unsafe fn call(&self, arguments: Arguments<'_>, next: impl FnOnce(&[*mut c_void])) {
        let given = arguments[self.1].addr();
        let address = memory::device_of(given).map_or_else(|| modules::device_address(given), |_| Some(given));
        if let Some(address) = address
            && let Some(device) = memory::device_of(address)
        {
            if !library::takes_gpu_memory() || !acc::on_device(device, acc::has_cuda_context) {
                end(
                    SourceLine::now(),
                    &format!("{} with an array of device {device}, which this MPI can't open to other ranks", self.0),
                    "make the window of a host array, as by MPI_Win_allocate, and copy between it and the device array",
                );
            }
            streams::finish([Some(device), None]);
            arguments[self.1] = address as *mut c_void;
        }
        next(arguments);
    }
}
