//! Pointers that a region gets to memory that is not mapped.
//!
//! Programs for unified memory pass plain pointers. With `ACCORD_UNMAPPED=map` the whole block that such a pointer points into is
//! copied for the region: the device has a copy for this one launch ([`BlockCopy`]), and what the region has changed is copied back
//! before the call returns. A GPU that accesses host memory uses it directly. Without the setting the region gets what libgomp
//! would pass. If it crashes, the message names those pointers. `docs/design/data.md` explains why.

use super::kind::{Absent, Data};
use super::map::{Mapping, Mode, Stop};
use super::pointee::Pointee;
use super::region::{Form, UnmappedPointer};
use crate::device::DeviceData;
use crate::plan::BlockCopy;
use crate::present::{Backing, EntryId, Found};
use accord_types::HostRange;

/// The alignment of device memory, which is more than any type needs.
const ALIGNMENT: usize = 256;

/// Holds an entry without copies.
const NOTHING: Data = Data { copy_in: false, copy_out: false, always: false, absent: Absent::Skip };

impl Mapping<'_, '_> {
    /// Records a pointer to absent memory; [`Mapping::settle_unmapped_pointers`] handles it.
    pub(super) fn unmapped_pointer(&mut self, entry: usize, pointer: usize, form: Form) {
        self.region.unmapped_pointers.push(UnmappedPointer { entry, pointer, form, block: None });
    }

    /// Whether absent memory can be copied for regions: then `present` is no error, and an update has no effect.
    pub(super) fn is_lendable(&self, range: HostRange) -> bool {
        let holds = |block: HostRange| range.len <= (block.start + block.len).saturating_sub(range.start);
        self.device.rules.maps_unmapped && self.host.block_of(range.start).is_some_and(holds)
    }

    /// Returns the pointer in a variable of the program that a clause names as a whole, if it is to be followed: the setting requires that,
    /// and it points into a block, or to present data.
    pub(super) fn followed(&self, range: HostRange) -> Option<usize> {
        if !self.device.rules.maps_unmapped || self.mode != Mode::Launch || range.len != size_of::<usize>() {
            return None;
        }
        match self.pointee(self.read_pointer(range.start)) {
            Pointee::Present((pointer, _)) => Some(pointer),
            Pointee::Absent(pointer) => self.host.block_of(pointer).map(|_| pointer),
            Pointee::None => None,
        }
    }

    /// Maps entry `i`, which names the whole variable of a pointer to absent memory. Returns `false` if the variable is present, so that the caller
    /// must map it.
    pub(super) fn follow(&mut self, i: usize, variable: HostRange, pointer: usize) -> Result<bool, Stop> {
        let present = self.find(variable)?;
        let form = present.map_or(Form::Scalar(variable), |id| Form::Present(id, variable.start));
        self.unmapped_pointer(i, pointer, form);
        Ok(present.is_none())
    }

    /// Gives the region what there is for its strays, after all data of the construct.
    pub(super) fn settle_unmapped_pointers(&mut self) -> Result<(), Stop> {
        self.settle_objects()?;
        self.settle_references()?;
        for k in 0..self.region.unmapped_pointers.len() {
            let UnmappedPointer { entry, pointer, form, .. } = self.region.unmapped_pointers[k];
            let lends = self.device.rules.maps_unmapped && form != Form::Other;
            let copied = if lends { self.copy_block(k, pointer)? } else { None };
            match (form, copied) {
                (Form::Slot, Some(id)) => {
                    self.hold(id, HostRange { start: pointer, len: 1 }, NOTHING);
                    self.slot(entry, self.translate(id, pointer).0);
                }
                (Form::Scalar(_), Some(id)) => self.point(entry, (pointer, id))?,
                (Form::Scalar(variable), None) => self.private(entry, variable)?,
                (Form::Present(holder, host), Some(id)) => {
                    self.hold(id, HostRange { start: pointer, len: 1 }, NOTHING);
                    let value = self.translate(id, pointer).0;
                    self.set_pointer(holder, host, value, false, true);
                }
                (Form::Slot, None) if self.device.uses_as_is() => self.slot(entry, pointer as u64),
                (Form::Present(holder, host), None) if self.device.uses_as_is() => {
                    self.set_pointer(holder, host, pointer as u64, false, true);
                }
                (Form::Slot | Form::Present(..), None) | (Form::Other, _) => {}
            }
        }
        Ok(())
    }

    /// Returns the entry for the block that a pointer points into, which is created if there is none.
    fn copy_block(&mut self, k: usize, pointer: usize) -> Result<Option<EntryId>, Stop> {
        if let Some(id) = self.state.table.find_byte(pointer) {
            // Of another pointer of this construct, or present by a clause after it.
            self.region.unmapped_pointers[k].block = self.block_holding(pointer);
            return self.ready(id).map(Some);
        }
        let Some(block) = self.host.block_of(pointer) else { return Ok(None) };
        // A pointer may lie a word before its block.
        let inside = pointer.max(block.start);
        if let Some(id) = self.state.table.find_byte(inside) {
            self.region.unmapped_pointers[k].block = self.block_holding(inside);
            return self.ready(id).map(Some);
        }
        let block = self.state.gap(block, inside);
        self.before_reading(block)?;
        if self.device.uses_as_is() {
            return Ok(None);
        }
        // Alignment in the program is kept on the device: GPUs require it.
        let ahead = block.start % ALIGNMENT;
        let space = self.allocate_for(HostRange { start: block.start - ahead, len: ahead + block.len })?;
        let device = space.offset(ahead as u64);
        self.create(device, Backing::Block(space), block, NOTHING)?;
        self.plan.launch_copies.blocks.push(BlockCopy { block, device });
        self.region.unmapped_pointers[k].block = Some(block);
        Ok(self.state.table.find_byte(inside))
    }

    /// Records pointers of the construct that lie in copied blocks: the device's copy holds other addresses, which must not be copied back.
    pub(super) fn note_block_pointers(&mut self) {
        for block_copy in &self.plan.launch_copies.blocks {
            if let Found::Whole(id) = self.state.table.find(block_copy.block.start, block_copy.block.len) {
                let entry = &self.state.table[id];
                self.plan.launch_copies.pointers.extend(entry.attachments.iter().map(|held| entry.start + held.offset));
            }
        }
    }

    fn block_holding(&self, address: usize) -> Option<HostRange> {
        let holds = |block: &HostRange| address.wrapping_sub(block.start) < block.len;
        self.plan.launch_copies.blocks.iter().map(|block_copy| block_copy.block).find(holds)
    }
}

impl DeviceData {
    /// Returns the part of a block around an absent address without a present byte between.
    fn gap(&self, block: HostRange, address: usize) -> HostRange {
        let (mut start, mut end) = (block.start, block.start + block.len);
        for id in self.table.overlapping(block) {
            let entry = &self.table[id];
            if entry.end <= address {
                start = start.max(entry.end);
            } else {
                end = end.min(entry.start);
            }
        }
        HostRange { start, len: end - start }
    }
}
