//! Whether the program's memory may be read or written, asked of the kernel before a copy touches it.
//!
//! A clause may name memory that is not there, or that is read-only. A copy that just tried would end the program by a
//! signal, whose handler is the program's own affair. So the kernel is asked: about a range of up to [`POPULATED_MAX`] by
//! having it make the pages ready for the access, which the copy would do anyway; about a larger one by its mappings, whose
//! number does not grow with the range. Only where the answer is no the process's list of mappings is read, to say why.

mod kernel;

use accord_types::{Error, ErrorCode, HostRange, Result};
use kernel::Ready;

/// Largest range whose pages are all looked at: some 40 ns each.
const POPULATED_MAX: usize = 128 << 10;

/// What a copy does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Read,
    Write,
}

/// A mapping of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Mapping {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
    /// Its pages may be missing: what it maps may have become shorter.
    file: bool,
}

/// Why a range can't be used, and where it begins that it can't.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    NotMapped(usize),
    NoAccess(usize),
    ReadOnly(usize),
    Gone(usize),
}

/// What a copy to the program's memory may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writable {
    /// Write.
    Yes,
    /// Only compare: some of it is read-only.
    No,
}

/// Whether the program's memory at `range` can be read.
///
/// # Errors
/// `acc_error_invalid_argument` if it is not mapped, has no access, or its file has become shorter.
pub fn check_readable(range: HostRange) -> Result<()> {
    check(range, Access::Read).map_err(|refusal| refusal.error(range, "readable"))
}

/// Whether the program's memory at `range` can be written.
///
/// # Errors
/// As [`check_readable`].
pub fn check_writable(range: HostRange) -> Result<Writable> {
    match check(range, Access::Write) {
        Ok(()) => Ok(Writable::Yes),
        Err(Refusal::ReadOnly(_)) => check_readable(range).map(|()| Writable::No),
        Err(refusal) => Err(refusal.error(range, "writable")),
    }
}

/// The error for a copy that would change what is read-only in the program.
pub(crate) fn changed(range: HostRange, at: usize) -> Error {
    let more = format!("from {at:#x} on, where the change is on the device only");
    Error::about(ErrorCode::InvalidArgument, range, "changed by a region, but read-only in the program", more)
        .remedy("copy a variable in place of the constant, or name it in copyin if the change is not needed")
}

fn check(range: HostRange, access: Access) -> Result<(), Refusal> {
    if range.len == 0 {
        return Ok(());
    }
    if range.len > POPULATED_MAX {
        match covers(range, access, &mut kernel::mapping_by_query()) {
            Some(Ok(Files::None)) => return Ok(()),
            Some(Err(refusal)) => return Err(refusal),
            // Only the pages themselves tell whether a file still has them.
            Some(Ok(Files::Some)) | None => {}
        }
    }
    match kernel::make_ready(range, access) {
        Ready::Yes => Ok(()),
        Ready::No(at) => {
            let mappings = kernel::mappings();
            let mut next = |address: usize| Some(mappings.iter().copied().find(|one| one.end > address));
            match covers(range, access, &mut next) {
                Some(Err(refusal)) => Err(refusal),
                // The kernel does not make pages of special mappings ready; only those of files can be missing.
                Some(Ok(Files::None)) | None => Ok(()),
                Some(Ok(Files::Some)) => at.map_or(Ok(()), |at| Err(Refusal::Gone(at))),
            }
        }
    }
}

/// Whether a range that can be used has pages of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Files {
    None,
    Some,
}

/// Walks the mappings of a range. `next` gives the first that ends above an address, if there is one; it has no answer at all
/// where the kernel does not tell.
fn covers(
    range: HostRange,
    access: Access,
    next: &mut dyn FnMut(usize) -> Option<Option<Mapping>>,
) -> Option<Result<Files, Refusal>> {
    let end = range.start.saturating_add(range.len);
    let (mut at, mut files) = (range.start, Files::None);
    while at < end {
        let Some(mapping) = next(at)?.filter(|mapping| mapping.start <= at) else {
            return Some(Err(Refusal::NotMapped(at)));
        };
        match access {
            Access::Read if !mapping.readable => return Some(Err(Refusal::NoAccess(at))),
            Access::Write if !mapping.writable && mapping.readable => return Some(Err(Refusal::ReadOnly(at))),
            Access::Write if !mapping.writable => return Some(Err(Refusal::NoAccess(at))),
            _ => {}
        }
        if mapping.file {
            files = Files::Some;
        }
        at = mapping.end;
    }
    Some(Ok(files))
}

impl Refusal {
    fn error(self, range: HostRange, what: &str) -> Error {
        let (at, why) = match self {
            Self::NotMapped(at) => (at, "is not mapped in the program"),
            Self::NoAccess(at) => (at, if what == "readable" { "may not be read" } else { "may not be written" }),
            Self::ReadOnly(at) => (at, "is read-only"),
            Self::Gone(at) => (at, "is part of a file that has become shorter, or is guarded"),
        };
        Error::about(ErrorCode::InvalidArgument, range, format!("not {what}"), format!("as {at:#x} {why}"))
            .remedy("check the bounds of the section, and that its memory is still there")
    }
}

#[cfg(test)]
mod tests;
