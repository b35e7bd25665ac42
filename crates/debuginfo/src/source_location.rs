//! Code addresses: file, line and function.

use crate::ObjectInfo;
use crate::entry::{Unit, attribute, declared, file_name, name};
use addr2line::LookupResult;
use gimli::{DW_TAG_subprogram, UnitOffset};
use std::fmt;

/// The origin of code. Unknown fields are `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceLocation {
    /// The source file with its folder, as passed to the compiler.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The function: for a region the one around the construct, for inlined code the inlined one.
    pub function: Option<String>,
    /// First and last line of that function, or of the region for an address in one.
    pub function_lines: Option<(u32, u32)>,
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl fmt::Display for SourceLocation {
    /// Formats the known parts of `laplace.c:52, main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_deref().map(base_name);
        match (file, self.line) {
            (Some(file), Some(line)) => write!(f, "{file}:{line}")?,
            (Some(file), None) => write!(f, "{file}")?,
            (None, _) => {}
        }
        match &self.function {
            Some(function) if file.is_some() => write!(f, ", {function}"),
            Some(function) => write!(f, "{function}"),
            None => Ok(()),
        }
    }
}

impl ObjectInfo {
    /// Returns the origin of the instruction at `offset`, or `None` if neither debug information nor symbols cover it. Pass a
    /// return address less one, because the address itself may belong to the next line.
    pub fn place(&self, offset: u64) -> Option<SourceLocation> {
        let mut place = self.with_unit(offset, |unit| Some(place_in(unit, offset))).unwrap_or_default();
        if place.function.is_none() {
            place.function = self.symbols().function(offset).map(|symbol| of_region(&symbol.name).to_owned());
        }
        (place != SourceLocation::default()).then_some(place)
    }

    pub(crate) fn with_unit<T>(&self, offset: u64, find_value: impl FnOnce(Unit<'_>) -> Option<T>) -> Option<T> {
        self.with_context(|context| {
            let unit = match context.find_dwarf_and_unit(offset) {
                LookupResult::Output(unit) => unit,
                // Split debug information is in other files, which are not read.
                LookupResult::Load { .. } => None,
            };
            find_value(unit?)
        })
    }
}

fn place_in(unit: Unit<'_>, offset: u64) -> SourceLocation {
    let mut place = SourceLocation::default();
    if let Some((file, line)) = line_at(unit, offset) {
        (place.file, place.line) = (file_name(unit, file), Some(line));
    }
    let function = function_at(unit, offset).map(|at| inlined_at(unit, at, offset));
    if let Some(function) = function.and_then(|at| unit.entry(at).ok()) {
        place.function = name(unit, &function).map(|name| of_region(&name).to_owned());
        place.function_lines = lines_of(unit, &function);
    }
    place
}

/// Returns the name of the function from which GCC outlined a region.
fn of_region(name: &str) -> &str {
    name.split_once("._omp_fn.").map_or(name, |(function, _)| function)
}

/// The file's number and the line of an instruction.
fn line_at(unit: Unit<'_>, offset: u64) -> Option<(u64, u32)> {
    let mut rows = unit.line_program.clone()?.rows();
    let mut last: Option<(u64, u64, Option<u32>)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        if let Some((start, file, line)) = last
            && (start..row.address()).contains(&offset)
        {
            return Some((file, line?));
        }
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
        last = (!row.end_sequence()).then_some((row.address(), row.file_index(), line));
    }
    None
}

/// Returns the function whose code contains an instruction.
pub(crate) fn function_at(unit: Unit<'_>, offset: u64) -> Option<UnitOffset> {
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.tag() == DW_TAG_subprogram && covers(unit, entry, offset) {
            return Some(entry.offset());
        }
    }
    None
}

/// Returns the innermost function inlined into `function` whose code contains an instruction, or else `function`.
pub(crate) fn inlined_at(unit: Unit<'_>, function: UnitOffset, offset: u64) -> UnitOffset {
    let mut innermost = function;
    let Ok(mut entries) = unit.entries_at_offset(function) else { return function };
    let _ = entries.next_dfs();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.depth() <= 0 {
            break;
        }
        if entry.tag() == gimli::DW_TAG_inlined_subroutine && covers(unit, entry, offset) {
            innermost = entry.offset();
        }
    }
    innermost
}

/// Whether an entry's code holds an instruction.
pub(crate) fn covers(unit: Unit<'_>, entry: &crate::entry::Entry, offset: u64) -> bool {
    let Ok(mut ranges) = unit.die_ranges(entry) else { return false };
    while let Ok(Some(range)) = ranges.next() {
        if (range.begin..range.end).contains(&offset) {
            return true;
        }
    }
    false
}

/// Returns the first and last line of a function: its declaration, and the last line of that file in its code.
fn lines_of(unit: Unit<'_>, function: &crate::entry::Entry) -> Option<(u32, u32)> {
    let Some(first) = declared(unit, function).1 else { return lines_of_region(unit, function) };
    let file = attribute(unit, function, gimli::DW_AT_decl_file).and_then(|value| match value {
        gimli::AttributeValue::FileIndex(index) => Some(index),
        other => other.udata_value(),
    });
    let mut last = first;
    let mut rows = unit.line_program.clone()?.rows();
    while let Ok(Some((_, row))) = rows.next_row() {
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or(0);
        if line > last && Some(row.file_index()) == file && !row.end_sequence() && covers(unit, function, row.address())
        {
            last = line;
        }
    }
    Some((first, last))
}

/// Returns the lines of a region, which has no declaration: those of its own code without inlined functions.
fn lines_of_region(unit: Unit<'_>, region: &crate::entry::Entry) -> Option<(u32, u32)> {
    let mut found: Option<(u64, u32, u32)> = None;
    let mut rows = unit.line_program.clone()?.rows();
    while let Ok(Some((_, row))) = rows.next_row() {
        let line = row.line().and_then(|line| u32::try_from(line.get()).ok()).filter(|_| !row.end_sequence());
        let Some(line) = line.filter(|_| covers(unit, region, row.address())) else { continue };
        let (file, first, last) = *found.get_or_insert((row.file_index(), line, line));
        let own = row.file_index() == file && inlined_at(unit, region.offset(), row.address()) == region.offset();
        if own {
            found = Some((file, first.min(line), last.max(line)));
        }
    }
    found.map(|(_, first, last)| (first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_location_prints_its_known_parts() {
        let place = SourceLocation {
            file: Some("/home/me/laplace.c".into()),
            line: Some(52),
            function: Some("main".into()),
            function_lines: None,
        };
        assert_eq!(place.to_string(), "laplace.c:52, main");
        assert_eq!(SourceLocation { line: None, ..place.clone() }.to_string(), "laplace.c, main");
        assert_eq!(SourceLocation { file: None, ..place }.to_string(), "main");
        assert_eq!(of_region("main._omp_fn.0"), "main");
    }
}
