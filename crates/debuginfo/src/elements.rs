//! The type of a Fortran array's elements, given the address of its descriptor.

use crate::entry::{Entry, name, plain_size, type_of};
use crate::location::{Found, Frame, Scope};
use crate::{Memory, ObjectInfo, types};
use gimli::UnitOffset;

/// Deepest nesting of structures and pointers that is followed.
const DEPTH_MAX: usize = 4;

/// The declared elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    /// Bytes of one element.
    pub bytes: u64,
    /// Whether an element may have a type that extends the declared one, and so be larger.
    pub polymorphic: bool,
}

impl ObjectInfo {
    /// Returns the elements of the array whose descriptor, at an address of the process, is a static variable or part of one.
    pub fn global_elements(&self, base: u64, descriptor: u64, memory: &dyn Memory) -> Option<Elements> {
        self.global_at(base, descriptor, memory, |unit, entry, start| {
            let scope = Scope::of_unit(unit, base, memory);
            Search { scope, wanted: descriptor }.find_value(type_of(unit, entry)?, start, 0)
        })
    }

    /// Returns the elements of an array whose descriptor is a local variable of `frame`, part of one, or reached from a parameter.
    pub fn local_elements(&self, base: u64, frame: &Frame, descriptor: u64, memory: &dyn Memory) -> Option<Elements> {
        let mut found = None;
        self.each_local(base, frame, memory, |scope, entry, _| {
            if found.is_none() {
                found = of_local(scope, entry, descriptor);
            }
        })?;
        found
    }
}

fn of_local(scope: Scope<'_>, entry: &Entry, wanted: u64) -> Option<Elements> {
    let search = Search { scope, wanted };
    let at = type_of(scope.unit, entry)?;
    match scope.locate(entry.attr_value(gimli::DW_AT_location)?)? {
        Found::At(address) => search.find_value(at, address, 0),
        Found::Value(value) => search.behind(at, value, 0),
    }
}

struct Search<'a> {
    scope: Scope<'a>,
    wanted: u64,
}

impl Search<'_> {
    /// Searches the value of type `at` at `address`.
    fn find_value(&self, at: UnitOffset, address: u64, depth: usize) -> Option<Elements> {
        let unit = self.scope.unit;
        let entry = unit.entry(at).ok()?;
        if depth > DEPTH_MAX {
            return None;
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type => {
                self.behind(at, self.scope.memory.word(address)?, depth)
            }
            gimli::DW_TAG_array_type if entry.has_attr(gimli::DW_AT_data_location) => {
                let bytes = types::size(&self.scope, type_of(unit, &entry)?);
                bytes.filter(|_| address == self.wanted).map(|bytes| Elements { bytes, polymorphic: false })
            }
            // For an array with known bounds: the element that contains the descriptor.
            gimli::DW_TAG_array_type => {
                let element = type_of(unit, &entry)?;
                let (all, each) = (types::size(&self.scope, at)?, plain_size(unit, element)?);
                let offset = self.wanted.checked_sub(address).filter(|offset| *offset < all)?;
                self.find_value(element, self.wanted - offset.checked_rem(each)?, depth + 1)
            }
            gimli::DW_TAG_structure_type => self.member(at, &entry, address, depth),
            _ => None,
        }
    }

    fn behind(&self, pointer: UnitOffset, value: u64, depth: usize) -> Option<Elements> {
        let unit = self.scope.unit;
        let entry = unit.entry(pointer).ok()?;
        let target = type_of(unit, &entry)?;
        matches!(entry.tag(), gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type)
            .then(|| self.find_value(target, value, depth + 1))?
    }

    fn member(&self, at: UnitOffset, entry: &Entry, address: u64, depth: usize) -> Option<Elements> {
        let unit = self.scope.unit;
        let offset = self.wanted.checked_sub(address)?;
        if plain_size(unit, at).is_some_and(|size| offset >= size) {
            return None;
        }
        let class = name(unit, entry).is_some_and(|name| name.starts_with("__class_"));
        let mut tree = unit.entries_tree(Some(at)).ok()?;
        let mut children = tree.root().ok()?.children();
        // Members are in the order of their offsets: the last one that does not start after the descriptor contains it.
        let mut holder = None;
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            let place = entry.attr_value(gimli::DW_AT_data_member_location).and_then(|value| value.udata_value());
            if entry.tag() == gimli::DW_TAG_member && place.is_some_and(|place| place <= offset) {
                holder = type_of(unit, entry).zip(place);
            }
        }
        let (kind, place) = holder?;
        let found = self.find_value(kind, address.wrapping_add(place), depth + 1)?;
        Some(Elements { polymorphic: found.polymorphic || class, ..found })
    }
}
