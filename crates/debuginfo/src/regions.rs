//! Variables of a region that its caller's debug information does not locate, because GCC compiles a region as a separate function.

use crate::entry::type_of;
use crate::location::Frame;
use crate::variables::{Variable, describe};
use crate::{Memory, ObjectInfo, source_location};

impl ObjectInfo {
    /// Returns the pointers among the variables that a region uses. `code` is an address of the process inside it.
    pub fn region_pointers(&self, base: u64, code: u64) -> Vec<Variable> {
        let code = code.wrapping_sub(base);
        let mut found = Vec::new();
        self.with_unit(code, |unit| {
            let function = unit.entry(source_location::function_at(unit, code)?).ok()?;
            let mut tree = unit.entries_tree(Some(function.offset())).ok()?;
            let mut children = tree.root().ok()?.children();
            while let Ok(Some(child)) = children.next() {
                let entry = child.entry();
                if entry.tag() != gimli::DW_TAG_variable {
                    continue;
                }
                let is_pointer = type_of(unit, entry)
                    .and_then(|at| unit.entry(at).ok())
                    .is_some_and(|kind| kind.tag() == gimli::DW_TAG_pointer_type);
                if is_pointer {
                    found.extend(describe(unit, entry, None));
                }
            }
            Some(())
        });
        found
    }

    /// Returns the names of the variables whose locations in `frame` are known.
    pub fn located(&self, base: u64, frame: &Frame, memory: &dyn Memory) -> Vec<String> {
        let mut names = Vec::new();
        self.each_local(base, frame, memory, |scope, entry, _| {
            let place = entry.attr_value(gimli::DW_AT_location).and_then(|value| scope.locate(value));
            if place.is_some() {
                names.extend(describe(scope.unit, entry, None).map(|variable| variable.name));
            }
        });
        names
    }
}
