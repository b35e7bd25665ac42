//! One-sided communication: staged buffers until a call completes the accesses.

use super::buffers::{Arguments, StagedBuffer};
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
