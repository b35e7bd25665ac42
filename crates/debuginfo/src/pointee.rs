//! Finds the pointer that leads to a block of memory: a variable, or a member of one.

use crate::entry::{Entry, Unit, attribute, in_unit, name, type_of};
use crate::layout::Layout;
use crate::location::{Found, Scope};
use crate::types;
use gimli::UnitOffset;
use std::cell::Cell;
use std::ops::Range;

/// Deepest nesting of structures and pointers that is followed.
const DEPTH_MAX: usize = 4;
/// Most elements of an array of pointers that are read.
const ELEMENTS_MAX: i64 = 256;
/// Most values that one search reads.
pub(crate) const READS_MAX: u32 = 200_000;

/// The quality of a pointer's fit, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// The pointer is the first address of the range.
    Start,
    /// The pointer is inside the range.
    Inside,
    /// The pointer is the start of the allocated block that contains the range.
    Block,
}

/// A pointer that leads to the range.
pub(crate) struct Lead {
    /// The expression of the source, as `s->rows[3]`.
    pub(crate) path: String,
    pub(crate) fit: Fit,
    /// The elements that it leads to.
    pub(crate) layout: Option<Layout>,
}

/// A search for pointers to a range of addresses.
pub(crate) struct Search<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) wanted: Range<u64>,
    pub(crate) reads: &'a Cell<u32>,
}

impl Search<'_> {
    /// Searches a variable of type `at`.
    pub(crate) fn variable(&self, variable: &str, at: UnitOffset, found: Found) -> Option<Lead> {
        self.find_value(variable, ".", at, found, 0)
    }

    /// Searches a value. `dot` separates the path from a member's name.
    fn find_value(&self, path: &str, dot: &str, at: UnitOffset, found: Found, depth: usize) -> Option<Lead> {
        let unit = self.scope.unit;
        let entry = unit.entry(at).ok()?;
        match entry.tag() {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
                let value = match found {
                    Found::Value(value) => value,
                    Found::At(address) => self.read(address)?,
                };
                if let Some(fit) = self.fit(value) {
                    let target = type_of(unit, &entry);
                    let layout = target.and_then(|target| Layout::of_target(&self.scope, target, self.behind(value)));
                    return Some(Lead { path: path.to_owned(), fit, layout });
                }
                let target = type_of(unit, &entry)?;
                let inner = unit.entry(target).ok()?;
                let through = is_structure(&inner) && depth < DEPTH_MAX && value != 0;
                let arrow = if entry.tag() == gimli::DW_TAG_pointer_type { "->" } else { "." };
                through.then(|| self.members(path, arrow, target, value, depth + 1))?
            }
            _ if is_structure(&entry) => match found {
                Found::At(address) if depth < DEPTH_MAX => self.members(path, dot, at, address, depth + 1),
                _ => None,
            },
            gimli::DW_TAG_array_type => match found {
                Found::At(address) => self.array(path, at, &entry, address, depth),
                Found::Value(_) => None,
            },
            _ => None,
        }
    }

    fn members(&self, path: &str, dot: &str, at: UnitOffset, address: u64, depth: usize) -> Option<Lead> {
        let unit = self.scope.unit;
        let mut tree = unit.entries_tree(Some(at)).ok()?;
        let mut children = tree.root().ok()?.children();
        let mut best = None;
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry();
            if !matches!(entry.tag(), gimli::DW_TAG_member | gimli::DW_TAG_inheritance) {
                continue;
            }
            let Some(kind) = type_of(unit, entry) else { continue };
            let offset =
                entry.attr_value(gimli::DW_AT_data_member_location).map_or(Some(0), |value| value.udata_value());
            let Some(offset) = offset else { continue };
            let name = name(unit, entry).filter(|name| !name.starts_with('_'));
            // The private members of a library's class are omitted: `v`, not `v._M_impl._M_start`.
            let (path, dot) = match name {
                Some(name) => (format!("{path}{dot}{name}"), "."),
                None => (path.to_owned(), dot),
            };
            better(&mut best, self.find_value(&path, dot, kind, Found::At(address.wrapping_add(offset)), depth));
            if self.reads.get() == 0 || matches!(best, Some(Lead { fit: Fit::Start, .. })) {
                break;
            }
        }
        best
    }

    fn array(&self, path: &str, at: UnitOffset, entry: &Entry, address: u64, depth: usize) -> Option<Lead> {
        let unit = self.scope.unit;
        if let Some(gimli::AttributeValue::Exprloc(data)) = entry.attr_value(gimli::DW_AT_data_location) {
            // The data of a Fortran array, found by its descriptor.
            let (Found::At(data) | Found::Value(data)) = self.scope.evaluate(data, Some(address))?;
            let fit = self.fit(data)?;
            let scope = Scope { object: Some(address), ..self.scope };
            let layout = Layout::of_variable(&scope, at, self.behind(data));
            return Some(Lead { path: path.to_owned(), fit, layout });
        }
        let element = type_of(unit, entry)?;
        if unit.entry(element).ok()?.tag() != gimli::DW_TAG_pointer_type || depth >= DEPTH_MAX {
            return None;
        }
        let [(low, high)] = types::dimensions(&self.scope, at)?.try_into().ok()?;
        let mut best = None;
        for index in low..=high.min(low.saturating_add(ELEMENTS_MAX)) {
            let cell = address.wrapping_add((index - low).cast_unsigned().wrapping_mul(8));
            better(&mut best, self.find_value(&format!("{path}[{index}]"), ".", element, Found::At(cell), DEPTH_MAX));
        }
        best
    }

    fn read(&self, address: u64) -> Option<u64> {
        self.reads.set(self.reads.get().checked_sub(1)?);
        self.scope.memory.word(address)
    }

    /// Returns the bytes from a pointer's target to the range.
    fn behind(&self, pointer: u64) -> i64 {
        self.wanted.start.wrapping_sub(pointer).cast_signed()
    }

    fn fit(&self, pointer: u64) -> Option<Fit> {
        if pointer == 0 {
            None
        } else if pointer == self.wanted.start {
            Some(Fit::Start)
        } else if self.wanted.contains(&pointer) {
            Some(Fit::Inside)
        } else {
            self.block(pointer).is_some_and(|block| block.contains(&self.wanted.start)).then_some(Fit::Block)
        }
    }

    /// Returns the block that `malloc` has allocated at this address, by the size that the C library stores before it.
    fn block(&self, pointer: u64) -> Option<Range<u64>> {
        const FLAGS: u64 = 7;
        const LARGEST: u64 = 1 << 47;
        if pointer > self.wanted.start || !pointer.is_multiple_of(16) {
            return None;
        }
        let size = self.read(pointer.checked_sub(8)?)? & !FLAGS;
        let plausible = (32..LARGEST).contains(&size) && size.is_multiple_of(16);
        plausible.then(|| pointer..pointer.saturating_add(size - 8))
    }
}

fn better(best: &mut Option<Lead>, found: Option<Lead>) {
    if let Some(found) = found
        && best.as_ref().is_none_or(|best| found.fit < best.fit)
    {
        *best = Some(found);
    }
}

fn is_structure(entry: &Entry) -> bool {
    matches!(entry.tag(), gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type)
}

/// Whether a variable of this type can lead anywhere.
pub(crate) fn may_point(unit: Unit<'_>, at: UnitOffset) -> bool {
    let Ok(entry) = unit.entry(at) else { return false };
    match entry.tag() {
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => true,
        gimli::DW_TAG_array_type => {
            attribute(unit, &entry, gimli::DW_AT_data_location).is_some()
                || entry
                    .attr_value(gimli::DW_AT_type)
                    .and_then(|value| unit.entry(in_unit(unit, value)?).ok())
                    .is_some_and(|element| element.tag() == gimli::DW_TAG_pointer_type)
        }
        _ => is_structure(&entry),
    }
}
