//! Errors for data that is not present, or not all of it.

use crate::present::{Entry, Table};
use accord_types::{Error, ErrorCode, HostRange};

/// Present data farther away gives no hint about what a section was meant to be.
const NEAR: usize = 1 << 20;
/// Entries of a section that is present in parts which the message names.
const PARTS_MAX: usize = 3;
/// The size of the largest element of a C or Fortran array of numbers.
pub(crate) const ELEMENT_MAX: usize = 16;

/// Returns the error for data that has to be present and is not.
pub(crate) fn not_present(range: HostRange, table: &Table) -> Error {
    let end = range.start.saturating_add(range.len);
    let is_near =
        |entry: &&Entry| range.start.saturating_sub(entry.end) < NEAR && entry.start.saturating_sub(end) < NEAR;
    let is_named = |entry: &&Entry| is_near(entry) && !entry.is_constant();
    let near: Vec<&Entry> = table.around(range).into_iter().flatten().filter(is_named).collect();
    let more = match near.as_slice() {
        [] => String::new(),
        near => format!("nearest present data: {}", named(near)),
    };
    let error = Error::about(ErrorCode::NotPresent, range, "not present", more);
    // `a[n]` for an array of n elements lies right behind it.
    let is_end = |entry: &&Entry| is_element(entry, range) && entry.start == end;
    if near.iter().any(is_end) {
        return error.remedy(ONE_ELEMENT);
    }
    error.remedy("map it with a data region, enter data or acc_copyin before")
}

/// Does the same for a directive. If absent memory can be copied for regions, the message says so.
pub(crate) fn not_present_in_clause(range: HostRange, table: &Table, maps_unmapped: bool) -> Error {
    let error = not_present(range, table);
    if maps_unmapped || error.remedy_text() == Some(ONE_ELEMENT) {
        return error;
    }
    error.instead(
        "map it with a data region, enter data or acc_copyin before, or set ACCORD_UNMAPPED=map if the program relies on unified memory",
    )
}

/// Returns the error for partly present data.
pub(crate) fn partly_present(range: HostRange, table: &Table) -> Error {
    let parts: Vec<&Entry> = table.overlapping(range).into_iter().filter_map(|id| table.get(id)).collect();
    let error = Error::about(
        ErrorCode::PartlyPresent,
        range,
        "present only in part",
        format!(
            "as {} mapped before",
            match parts.as_slice() {
                [one] => format!("{} were", named(&[one])),
                several => format!("these were: {};", named(several)),
            }
        ),
    );
    error.remedy(if parts.iter().all(|entry| is_element(entry, range)) {
        ONE_ELEMENT
    } else {
        "map the larger section first, or give up the smaller one before: a local variable before its function returns"
    })
}

/// The note on a clause with an index instead of a section.
pub(crate) const ONE_ELEMENT: &str =
    "that is one element, did you mean [0:N]? Write a[0:n], in Fortran a or a(1:n), in the clause that has mapped it";

fn is_element(entry: &Entry, range: HostRange) -> bool {
    entry.len() <= ELEMENT_MAX && entry.len() < range.len && entry.len().is_power_of_two()
}

fn named(entries: &[&Entry]) -> String {
    let one = |entry: &&Entry| format!("{} bytes at {:#x} to {:#x}", entry.len(), entry.start, entry.end);
    let mut text = entries.iter().take(PARTS_MAX).map(one).collect::<Vec<_>>().join(", ");
    if entries.len() > PARTS_MAX {
        text += &format!(" and {} more", entries.len() - PARTS_MAX);
    }
    text
}
