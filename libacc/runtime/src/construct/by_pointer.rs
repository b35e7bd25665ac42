//! Arrays that `exit data` names by their pointers.
//!
//! GCC passes `exit data delete(p)` of a C pointer as the pointer variable: eight bytes that are not present, so nothing
//! would happen. The array would remain, and be mistaken for the next array at its address. `copyout(p)` would copy
//! nothing. `delete(s.p)` would release `s`, which contains the pointer. The program's author means by both the array that
//! begins where the pointer points.

use super::pointee::may_be_pointer;
use crate::ports::HostMemory;
use crate::present::{Attachment, Entry, EntryId, Found, Table};
use accord_types::HostRange;

/// Eight bytes of the program that an entry of a construct names.
pub(super) struct PointerWord {
    /// The entry's number.
    pub(super) entry: usize,
    pub(super) start: usize,
    value: usize,
}

/// An array that is named by its pointer.
pub(super) struct Pointed {
    /// Number of the clause's entry.
    pub(super) entry: usize,
    pub(super) array: EntryId,
    /// The entry that contains the pointer, if it is attached there.
    pub(super) member: Option<EntryId>,
}

impl PointerWord {
    /// Reads a possible pointer. Call it without the device's lock: it may ask the kernel whether the bytes are readable.
    pub(super) fn read(entry: usize, range: HostRange, memory: &dyn HostMemory) -> Option<Self> {
        if range.len != Attachment::BYTES || memory.check_source(range).is_err() {
            return None;
        }
        let mut value = [0; Attachment::BYTES];
        memory.read(range.start, &mut value);
        let value = u64::from_ne_bytes(value);
        may_be_pointer(value).then_some(Self { entry, start: range.start, value: value as usize })
    }

    /// Whether no byte that it points to is present: the data has ended before.
    pub(super) fn names_nothing(&self, table: &Table) -> bool {
        table.find_byte(self.value).is_none()
    }

    /// Returns the array that it points to. `others` are the addresses that the construct names: such data has an entry of its own.
    pub(super) fn pointed(&self, table: &Table, others: &[usize]) -> Option<Pointed> {
        let array = table.find_byte(self.value).filter(|id| table[*id].start == self.value)?;
        if others.contains(&self.value) {
            return None;
        }
        let member = match table.find(self.start, Attachment::BYTES) {
            Found::Absent => None,
            Found::Whole(holder) if is_attached_member(&table[holder], self.start) => Some(holder),
            Found::Whole(_) | Found::Partly(_) => return None,
        };
        Some(Pointed { entry: self.entry, array, member })
    }
}

/// Whether the pointer at `start` is attached, and the entry is more than that, or was made for the pointer.
fn is_attached_member(entry: &Entry, start: usize) -> bool {
    (entry.len() > Attachment::BYTES || entry.pointer_member)
        && entry.attachment(start - entry.start).is_ok_and(|at| entry.attachments[at].count > 0)
}
