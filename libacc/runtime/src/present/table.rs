//! Entries that don't overlap, found by any address inside them.

use super::entry::{Backing, DataLocation, Entry, EntryId, Lifetime};
use super::index::{Index, Leaf};
use super::members::Members;
use accord_types::{DevicePtr, HostRange};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Index as At, IndexMut as AtMut};

/// The table's answer about a range of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// None of it is present.
    Absent,
    /// All of it, inside this entry.
    Whole(EntryId),
    /// Some of it: this entry overlaps it, but does not contain it.
    Partly(EntryId),
}

/// The present table of one device.
#[derive(Default)]
pub(crate) struct Table {
    index: Index,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Device memory that the program has mapped itself: start, length, host address.
    mapped: BTreeMap<u64, (u64, usize)>,
    /// Address of the program's call that has mapped an entry, by its slot, with the entry's generation. Filled for `ACCORD_EXPLAIN_ERRORS` only.
    origins: HashMap<u32, (u32, usize)>,
    /// References that entries have for members named beside them.
    pub(crate) members: Members,
}

struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

impl Table {
    /// Looks a range up. An empty range is looked up by its first byte.
    #[inline]
    pub(crate) fn find(&self, start: usize, len: usize) -> Found {
        let end = start.saturating_add(len.max(1));
        let floor = self.index.floor(start);
        if let Some(position) = floor {
            let (_, leaf) = self.index.at(position);
            if start < leaf.end {
                return if end <= leaf.end { Found::Whole(leaf.id) } else { Found::Partly(leaf.id) };
            }
        }
        match self.index.after(floor).map(|next| self.index.at(next)) {
            Some((next, leaf)) if next < end => Found::Partly(leaf.id),
            _ => Found::Absent,
        }
    }

    /// Returns the device address of a range that is wholly present, if known, without access to the entry.
    #[inline]
    pub(crate) fn locate(&self, start: usize, len: usize) -> Option<DevicePtr> {
        let (first, leaf) = self.index.at(self.index.floor(start)?);
        let end = start.saturating_add(len.max(1));
        leaf.device.filter(|_| end <= leaf.end).map(|device| device.offset((start - first) as u64))
    }

    /// Records the device's address of a global variable.
    pub(crate) fn place(&mut self, id: EntryId, device: DevicePtr) {
        if let Some(entry) = self.get_mut(id) {
            entry.place = DataLocation::At(device);
            let start = entry.start;
            self.index.place(start, device);
        }
    }

    /// Returns the entry that contains this one byte.
    pub(crate) fn find_byte(&self, address: usize) -> Option<EntryId> {
        match self.find(address, 1) {
            Found::Whole(id) => Some(id),
            Found::Absent | Found::Partly(_) => None,
        }
    }

    /// Returns the entry that contains an address, or ends just before it: one past the end of an array is
    /// as good as the array for pointers and `use_device`.
    pub(crate) fn find_pointer(&self, address: usize) -> Option<EntryId> {
        self.find_byte(address).or_else(|| self.find_byte(address.checked_sub(1)?))
    }

    /// Adds an entry. The caller has made sure that it overlaps no other, or only objects' constants, which it replaces.
    pub(crate) fn insert(&mut self, entry: Entry) -> EntryId {
        while let Found::Partly(constant) = self.find(entry.start, entry.len()) {
            debug_assert!(self[constant].is_constant());
            self.remove(constant);
        }
        debug_assert_eq!(self.find(entry.start, entry.len()), Found::Absent);
        let (start, end, device) = (entry.start, entry.end, entry.device());
        if let (Lifetime::Mapped, Some(device)) = (entry.lifetime, device) {
            self.mapped.insert(device.0, (entry.len() as u64, start));
        }
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot { generation: 0, entry: None });
                // 2^32 entries need more memory than there are addresses for them.
                (self.slots.len() - 1) as u32
            }
        };
        let place = &mut self.slots[slot as usize];
        place.entry = Some(entry);
        let id = EntryId { slot, generation: place.generation };
        self.index.insert(start, Leaf { end, id, device });
        id
    }

    /// Records the address of the program's call that has mapped an entry.
    pub(crate) fn note_origin(&mut self, id: EntryId, call: usize) {
        self.origins.insert(id.slot, (id.generation, call));
    }

    /// Takes an entry out, if it is still there.
    pub(crate) fn remove(&mut self, id: EntryId) -> Option<Entry> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.index.remove(entry.start);
        self.members.forget(entry.start, entry.end);
        if let (Lifetime::Mapped, Some(device)) = (entry.lifetime, entry.device()) {
            self.mapped.remove(&device.0);
        }
        self.vacant.push(id.slot);
        Some(entry)
    }

    /// Returns the entry, if it is still there.
    pub(crate) fn get(&self, id: EntryId) -> Option<&Entry> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.entry.as_ref().filter(|_| slot.generation == id.generation)
    }

    /// Returns the entry, if it is still there.
    pub(crate) fn get_mut(&mut self, id: EntryId) -> Option<&mut Entry> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.entry.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Returns all entries in order of their host addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryId, &Entry)> {
        self.index.ids().filter_map(|id| Some((id, self.get(id)?)))
    }

    /// Returns the last entry before an absent range, and the first one behind it.
    pub(crate) fn around(&self, range: HostRange) -> [Option<&Entry>; 2] {
        let floor = self.index.floor(range.start);
        let entry = |position| self.get(self.index.at(position).1.id);
        [floor.and_then(entry), self.index.after(floor).and_then(entry)]
    }

    /// Returns entries that overlap a range and those around it, in order, at most `most` from its first byte down and `most` behind that, each with
    /// the address of the call that has mapped it, or 0.
    pub(crate) fn near(&self, range: HostRange, most: usize) -> Vec<(&Entry, usize)> {
        let floor = self.index.floor(range.start);
        let before = |position| self.index.at(position).0.checked_sub(1).and_then(|address| self.index.floor(address));
        let below = std::iter::successors(floor, |position| before(*position)).take(most);
        let above = std::iter::successors(self.index.after(floor), |position| self.index.after(Some(*position)));
        let mut positions: Vec<_> = below.collect();
        positions.reverse();
        positions.extend(above.take(most));
        let displayed = |position| {
            let id = self.index.at(position).1.id;
            let origin = self.origins.get(&id.slot).filter(|(generation, _)| *generation == id.generation);
            Some((self.get(id)?, origin.map_or(0, |(_, call)| *call)))
        };
        positions.into_iter().filter_map(displayed).collect()
    }

    /// Returns entries that overlap a range, in order.
    pub(crate) fn overlapping(&self, range: HostRange) -> Vec<EntryId> {
        let end = range.start.saturating_add(range.len);
        let mut position = self.index.floor(range.start);
        let mut found = Vec::new();
        if position.is_none() {
            position = self.index.after(None);
        }
        while let Some(here) = position {
            let (start, leaf) = self.index.at(here);
            if start >= end {
                break;
            }
            if leaf.end > range.start {
                found.push(leaf.id);
            }
            position = self.index.after(Some(here));
        }
        found
    }

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the host address of a device address, if host data is there (`acc_hostptr`). Examines every entry.
    pub(crate) fn host_of(&self, device: DevicePtr) -> Option<usize> {
        self.iter().find_map(|(_, entry)| {
            let offset = device.0.checked_sub(entry.device()?.0)?;
            (offset < entry.len() as u64).then(|| entry.start + offset as usize)
        })
    }

    /// Returns the host address of what the program has mapped to any of this device memory.
    pub(crate) fn mapped_to(&self, device: DevicePtr, len: u64) -> Option<usize> {
        let (start, (mapped, host)) = self.mapped.range(..device.0.saturating_add(len)).next_back()?;
        (start.saturating_add(*mapped) > device.0).then_some(*host)
    }

    /// Panics if two entries overlap, an entry is empty or unheld, or an attachment lies outside its entry.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        self.index.check_invariants();
        let mut end_before = 0;
        for (id, entry) in self.iter() {
            assert_eq!(self.find(entry.start, entry.len()), Found::Whole(id));
            assert_eq!(self.index.floor(entry.start).map(|at| self.index.at(at).1.end), Some(entry.end));
            assert_eq!(self.locate(entry.start, entry.len()), entry.device());
            assert!(entry.start >= end_before && entry.start < entry.end);
            end_before = entry.end;
            match entry.lifetime {
                Lifetime::Counted => assert_ne!(entry.references, super::References::default(), "unheld: {entry:?}"),
                Lifetime::Mapped => assert!(entry.references.dynamic > 0),
                Lifetime::Global | Lifetime::Constant => assert_eq!(entry.references, super::References::default()),
            }
            assert!(entry.attachments.is_sorted_by_key(|a| a.offset));
            assert!(entry.attachments.iter().all(|a| a.offset + super::Attachment::BYTES <= entry.len()));
            if let (DataLocation::Global(_), backing) = (&entry.place, entry.backing) {
                assert_eq!(backing, Backing::Foreign);
            }
        }
        let live = self.slots.iter().filter(|slot| slot.entry.is_some()).count();
        assert_eq!((live, self.vacant.len()), (self.index.len(), self.slots.len() - live));
    }
}

impl At<EntryId> for Table {
    type Output = Entry;

    /// An entry found since the table was last unlocked.
    fn index(&self, id: EntryId) -> &Entry {
        match self.get(id) {
            Some(entry) => entry,
            None => unreachable!("an entry found under the same lock"),
        }
    }
}

impl AtMut<EntryId> for Table {
    fn index_mut(&mut self, id: EntryId) -> &mut Entry {
        match self.get_mut(id) {
            Some(entry) => entry,
            None => unreachable!("an entry found under the same lock"),
        }
    }
}

// Every access to a device's data reads one; two cache lines are enough.
const _: () = assert!(size_of::<Slot>() <= 128);
// Backing is written in every entry: keep it two words and a tag.
const _: () = assert!(size_of::<Backing>() <= 24);
