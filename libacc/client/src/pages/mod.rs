//! Checks whether the program's memory can be read or written, before a copy accesses it.
//!
//! A clause may name memory that is not mapped, or read-only. An unchecked copy would end the program by a signal,
//! whose handler belongs to the program. So the kernel is queried, and its answers about whole mappings are kept until
//! mappings change (`mapping_cache.rs`), which serve most copies. For an unknown range of up to [`POPULATED_MAX`], the kernel
//! makes the pages ready for the access, which the copy would do anyway. A larger one is checked by its mappings, whose
//! number does not grow with the range. Only on older kernels is the process's list of mappings read.

mod kernel;
mod mapping;
mod mapping_cache;

use accord_types::{Error, ErrorCode, HostRange, Result};
use kernel::Ready;
use mapping::{Access, Mapping, PAGE};
use mapping_cache::CachedAccess;
pub use mapping_cache::{forget, forget_after_fork, forget_pages, watch};

/// Largest range that is checked page by page, usually.
const POPULATED_MAX: usize = 128 << 10;
/// The same on kernels that report mappings only as a list.
const POPULATED_MAX_OLD: usize = 16 << 20;
/// One in this many small unknown ranges is checked by its mapping, which costs several times as much.
const MAPPING_EVERY: u32 = 8;
/// The same for the list.
const LIST_EVERY: u32 = 1024;

/// The reason why a range can't be used, and the start of its unusable part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    NotMapped(usize),
    NoAccess(usize),
    ReadOnly(usize),
    Gone(usize),
}

/// Whether a copy may write to a range of the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writable {
    /// All of the range may be written.
    Yes,
    /// The range may only be compared: all of it is read-only.
    No,
    /// Either, by part: see [`stretches`].
    Partly,
}

/// A readable part of a range that is completely writable, or completely not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRun {
    pub range: HostRange,
    pub writable: bool,
}

/// Checks that the program's memory at `range` can be read.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if it is not mapped, has no access, or its file has become shorter.
pub fn check_readable(range: HostRange) -> Result<()> {
    check(range, Access::Read).map_err(|refusal| refusal.error(range, "readable"))
}

/// Checks whether the program's memory at `range` can be written.
///
/// # Errors
/// Returns the errors of [`check_readable`].
pub fn check_writable(range: HostRange) -> Result<Writable> {
    match check(range, Access::Write) {
        Ok(()) => Ok(Writable::Yes),
        Err(Refusal::ReadOnly(_)) => match stretches(range)?.as_slice() {
            [PageRun { writable: false, .. }] => Ok(Writable::No),
            [PageRun { writable: true, .. }] => Ok(Writable::Yes),
            _ => Ok(Writable::Partly),
        },
        Err(refusal) => Err(refusal.error(range, "writable")),
    }
}

/// Splits a readable range by what can be written, so that neighbours differ. There are at most as many parts as
/// mappings.
///
/// # Errors
/// Returns the errors of [`check_readable`].
pub fn stretches(range: HostRange) -> Result<Vec<PageRun>> {
    check_readable(range)?;
    let moment = mapping_cache::moment();
    if moment.is_some_and(|moment| mapping_cache::find(moment, range, Access::Write) == CachedAccess::ReadOnly) {
        return Ok(vec![PageRun { range, writable: false }]);
    }
    let found = gather(range, &mut kernel::mapping_by_query()).unwrap_or_else(|| {
        let mappings = kernel::mappings();
        let mut next = |address: usize| Some(mappings.iter().copied().find(|one| one.end > address));
        gather(range, &mut next).unwrap_or(Err(Refusal::NotMapped(range.start)))
    });
    found.map_err(|refusal| refusal.error(range, "readable"))
}

/// Does the same with the mappings that `next` returns, as for [`walk`].
fn gather(
    range: HostRange,
    next: &mut dyn FnMut(usize) -> Option<Option<Mapping>>,
) -> Option<Result<Vec<PageRun>, Refusal>> {
    let end = range.start.saturating_add(range.len);
    let mut found: Vec<PageRun> = Vec::new();
    let mut at = range.start;
    while at < end {
        let Some(mapping) = next(at)?.filter(|mapping| mapping.start <= at) else {
            return Some(Err(Refusal::NotMapped(at)));
        };
        let len = end.min(mapping.end) - at;
        match found.last_mut() {
            Some(last) if last.writable == mapping.writable => last.range.len += len,
            _ => found.push(PageRun { range: HostRange { start: at, len }, writable: mapping.writable }),
        }
        at = mapping.end;
    }
    Some(Ok(found))
}

/// Returns the error for a copy to `range` that would change a byte at `at`, where `part` of it is read-only in the
/// program.
pub(crate) fn changed(range: HostRange, part: HostRange, at: usize) -> Error {
    let error = |is: &str, more| Error::about(ErrorCode::InvalidArgument, range, is, more);
    if part == range {
        let more = format!("from {at:#x} on, where the change is on the device only");
        return error("changed by a region, but read-only in the program", more)
            .remedy("copy a variable in place of the constant, or name it in copyin if the change is not needed");
    }
    let more = format!(
        "of which {} at {:#x} are read-only; from {at:#x} on (byte {}) the change is on the device only",
        part.len,
        part.start,
        at - range.start
    );
    error("changed by a region, also in pages that are read-only in the program", more)
        .remedy("make these pages writable before the copy, or leave them out of the clause")
}

fn check(range: HostRange, access: Access) -> Result<(), Refusal> {
    if range.len == 0 {
        return Ok(());
    }
    let moment = mapping_cache::moment();
    match moment.map_or(CachedAccess::No, |moment| mapping_cache::find(moment, range, access)) {
        CachedAccess::Yes => Ok(()),
        CachedAccess::ReadOnly => Err(Refusal::ReadOnly(range.start)),
        CachedAccess::IfThere => file_reaches(range, access),
        CachedAccess::No => ask(range, access, moment),
    }
}

/// Queries the kernel. Keeps answers about mappings for the moment, if there is one.
#[cold]
fn ask(range: HostRange, access: Access, moment: Option<u64>) -> Result<(), Refusal> {
    let small = range.len <= POPULATED_MAX;
    let turn = if small && moment.is_some() { mapping_cache::turn() } else { 0 };
    let is_turn = |every: u32| small && turn % every == every - 1;
    if (!small || is_turn(MAPPING_EVERY))
        && let Some(answer) = walk(range, access, &mut kernel::mapping_by_query(), moment)
    {
        return answer.map(|_| ());
    }
    let by_list = range.len > POPULATED_MAX_OLD || is_turn(LIST_EVERY);
    let ready = if by_list { Ready::No(None) } else { kernel::make_ready(range, access) };
    let Ready::No(at) = ready else { return Ok(()) };
    let mappings = kernel::mappings();
    let mut next = |address: usize| Some(mappings.iter().copied().find(|one| one.end > address));
    match walk(range, access, &mut next, moment) {
        Some(Err(refusal)) => Err(refusal),
        // The kernel does not make pages of special mappings ready; only pages of files can be missing.
        Some(Ok(Files::None)) | None => Ok(()),
        Some(Ok(Files::Some)) => at.map_or(Ok(()), |at| Err(Refusal::Gone(at))),
    }
}

/// Whether a usable range has pages of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Files {
    None,
    Some,
}

/// Walks the mappings of a range. `next` returns the first mapping that ends above an address: `Some(None)` if there is
/// no such mapping, `None` if the kernel does not provide mappings. In the latter case the walk returns `None`.
fn walk(
    range: HostRange,
    access: Access,
    next: &mut dyn FnMut(usize) -> Option<Option<Mapping>>,
    moment: Option<u64>,
) -> Option<Result<Files, Refusal>> {
    let end = range.start.saturating_add(range.len);
    let (mut at, mut files) = (range.start, Files::None);
    while at < end {
        let Some(mut mapping) = next(at)?.filter(|mapping| mapping.start <= at) else {
            return Some(Err(Refusal::NotMapped(at)));
        };
        mapping.file &= !kernel::is_of_loaded_object(&mapping);
        if let Some(moment) = moment {
            mapping_cache::keep(moment, mapping);
        }
        match access {
            Access::Read if !mapping.readable => return Some(Err(Refusal::NoAccess(at))),
            Access::Write if !mapping.writable && mapping.readable => return Some(Err(Refusal::ReadOnly(at))),
            Access::Write if !mapping.writable => return Some(Err(Refusal::NoAccess(at))),
            _ => {}
        }
        if mapping.file {
            files = Files::Some;
            let part = HostRange { start: at, len: end.min(mapping.end) - at };
            if let Err(refusal) = file_reaches(part, access) {
                return Some(Err(refusal));
            }
        }
        at = mapping.end;
    }
    Some(Ok(files))
}

/// Checks that a file still reaches to the end of a range in one mapping of it. Files are truncated at the end, so only
/// that is checked.
fn file_reaches(range: HostRange, access: Access) -> Result<(), Refusal> {
    let first = range.start / PAGE;
    let end = range.start.saturating_add(range.len).div_ceil(PAGE);
    let is_there = |page: usize| {
        let page = HostRange { start: page * PAGE, len: 1 };
        !matches!(kernel::make_ready(page, access), Ready::No(Some(_)))
    };
    if is_there(end - 1) {
        return Ok(());
    }
    // Pages before `there` exist, those from `gone` on do not.
    let (mut there, mut gone) = (first, end - 1);
    while there < gone {
        let middle = there + (gone - there) / 2;
        if is_there(middle) {
            there = middle + 1;
        } else {
            gone = middle;
        }
    }
    Err(Refusal::Gone((gone * PAGE).max(range.start)))
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
