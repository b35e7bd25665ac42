//! Finds pointers that clauses copied to a device without what they point to, for the message if a region uses one.

use crate::device::Device;
use crate::ports::HostMemory;
use crate::present::Attachment;
use accord_types::HostRange;

/// Bytes of one present range that are searched.
const SEARCHED_MAX: usize = 64 << 10;
/// Bytes searched in structures, if the address sought is unknown.
const STRUCTURE_MAX: usize = 256;
/// The greatest distance behind the pointer at which a region may have read.
const REACH: usize = 4 << 30;
/// Pointers that the message names.
const POINTERS_MAX: usize = 4;
/// Lower values are no addresses.
const FIRST_ADDRESS: usize = 4096;

/// The place of such a pointer in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BarePointer {
    pub(crate) address: usize,
    /// Its value.
    pub(crate) value: usize,
    /// All that a clause named is this pointer.
    pub(crate) is_variable: bool,
}

impl Device {
    /// Returns the pointer that leads to what a region has `accessed`. If that is unknown, the pointers in present variables and structures.
    pub(crate) fn bare_pointers(&self, host: &dyn HostMemory, accessed: Option<usize>) -> Vec<BarePointer> {
        let all = self.pointers_and_more();
        let words = all.iter().flat_map(|(range, attached)| {
            let is_variable = range.len == Attachment::BYTES;
            let wanted = range.len <= STRUCTURE_MAX || accessed.is_some();
            let bytes = if wanted { read(host, *range) } else { Vec::new() };
            let words: Vec<_> =
                bytes.as_chunks().0.iter().map(|word| usize::from_ne_bytes(*word)).enumerate().collect();
            let bare = words.into_iter().filter(|(at, _)| !attached.contains(&(at * Attachment::BYTES)));
            bare.map(move |(at, value)| BarePointer {
                address: range.start + at * Attachment::BYTES,
                value,
                is_variable,
            })
        });
        let pointers = words.filter(|pointer| pointer.value >= FIRST_ADDRESS);
        match accessed {
            Some(accessed) => {
                let leads =
                    |pointer: &BarePointer| accessed.checked_sub(pointer.value).is_some_and(|behind| behind < REACH);
                pointers.filter(leads).max_by_key(|pointer| pointer.value).into_iter().collect()
            }
            None => {
                let is_memory =
                    |pointer: &BarePointer| host.check_source(HostRange { start: pointer.value, len: 1 }).is_ok();
                pointers.filter(is_memory).take(POINTERS_MAX).collect()
            }
        }
    }

    /// Whether a region that was stopped at an address may have reached that from data on the device, by a wrong index. The address is not known of GPUs.
    pub(crate) fn may_have_left_data(&self, accessed: Option<usize>) -> bool {
        let (start, len) = self.client().addresses();
        let (low, high) =
            (start.0.saturating_sub(REACH as u64), start.0.saturating_add(len).saturating_add(REACH as u64));
        accessed.is_none_or(|accessed| (low..high).contains(&(accessed as u64)))
    }

    /// Returns the present data by their ranges in the program, and their attached pointers.
    fn pointers_and_more(&self) -> Vec<(HostRange, Vec<usize>)> {
        let state = self.lock();
        let entries = state.table.iter().map(|(_, entry)| {
            let range = HostRange { start: entry.start, len: entry.len().min(SEARCHED_MAX) };
            (range, entry.attachments.iter().map(|attachment| attachment.offset).collect())
        });
        entries.filter(|(range, _): &(HostRange, Vec<usize>)| range.start.is_multiple_of(Attachment::BYTES)).collect()
    }
}

/// Returns bytes of the program; none if they no longer exist.
fn read(host: &dyn HostMemory, range: HostRange) -> Vec<u8> {
    if host.check_source(range).is_err() {
        return Vec::new();
    }
    let mut bytes = vec![0; range.len];
    host.read(range.start, &mut bytes);
    bytes
}
