//! Errors for data that is not present, or not all of it.

use crate::present::Entry;
use accord_types::{Error, ErrorCode, HostRange};

/// The error for data that has to be there and is not.
pub(crate) fn not_present(range: HostRange) -> Error {
    Error::about(ErrorCode::NotPresent, range, "not present", "")
        .remedy("map it with a data region, enter data or acc_copyin before")
}

/// The error for data of which only a part is there.
pub(crate) fn partly_present(range: HostRange, entry: &Entry) -> Error {
    let more = format!("as {} bytes at {:#x} to {:#x} were mapped before", entry.len(), entry.start, entry.end);
    Error::about(ErrorCode::PartlyPresent, range, "present only in part", more).remedy(
        "map the larger section first, or give up the smaller one before: a local variable before its function returns",
    )
}
