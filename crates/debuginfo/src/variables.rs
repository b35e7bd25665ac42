//! The variable at an address, or that points there.

use crate::entry::{Entry, Unit, declared, name, type_of};
use crate::globals::{Global, Globals};
use crate::layout::Layout;
use crate::location::{Found, Frame, Scope};
use crate::pointee::{Fit, Lead, READS_MAX, Search, may_point};
use crate::{Memory, ObjectInfo, base_name, source_location, types};
use gimli::UnitOffset;
use std::cell::Cell;
use std::fmt;
use std::ops::Range;

/// Most entries of one file that are searched for its variables.
const ENTRIES_MAX: usize = 20_000_000;
/// Most bytes of a value that GCC usually copies to the stack for a region.
const TEMPORARY_MAX: u64 = 256;
/// Most bytes that a call's own stack frame is assumed to have.
const FRAME_MAX: u64 = 1 << 20;
/// Most static variables of one file that are kept.
const GLOBALS_MAX: usize = 500_000;

/// A variable that data belongs to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variable {
    /// The name, with members if the data belongs to one: `grid`, `s->rows[3]`; `grid+400` if only the symbol is known.
    pub name: String,
    /// The file of the declaration, with its folder.
    pub file: Option<String>,
    /// The line of the declaration.
    pub line: Option<u32>,
    /// The function of the variable; `None` for a variable of a file or module.
    pub function: Option<String>,
    /// The elements of the data, if their type is known.
    pub layout: Option<Layout>,
}

impl fmt::Display for Variable {
    /// Formats the known parts of `grid (laplace.c:41, main)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        match (self.file.as_deref().map(base_name), self.line, &self.function) {
            (Some(file), Some(line), Some(function)) => write!(f, " ({file}:{line}, {function})"),
            (Some(file), Some(line), None) => write!(f, " ({file}:{line})"),
            (_, _, Some(function)) => write!(f, " ({function})"),
            _ => Ok(()),
        }
    }
}

impl ObjectInfo {
    /// The static variable that holds `wanted` (addresses of the process), in a file that is loaded at `base`.
    pub fn global(&self, base: u64, wanted: &Range<u64>, memory: &dyn Memory) -> Option<Variable> {
        let offset = wanted.start.wrapping_sub(base);
        let known = self.globals(memory).0.iter().find(|global| global.span.contains(&offset));
        if let Some(global) = known {
            return self.with_global(global, |unit, entry| {
                let mut variable = describe(unit, entry, global.function)?;
                let scope = Scope::of_unit(unit, base, memory);
                let inside = offset.wrapping_sub(global.span.start).cast_signed();
                variable.layout = type_of(unit, entry).and_then(|at| Layout::of_variable(&scope, at, inside));
                Some(variable)
            });
        }
        let symbol = self.symbols().variable(offset)?;
        let name = match offset - symbol.span.start {
            0 => symbol.name.clone(),
            beyond => format!("{}+{beyond}", symbol.name),
        };
        Some(Variable { name, ..Variable::default() })
    }

    /// Returns the static variable that points to `wanted`, directly or through other pointers.
    pub fn global_pointer(&self, base: u64, wanted: &Range<u64>, memory: &dyn Memory) -> Option<Variable> {
        let reads = Cell::new(READS_MAX);
        let mut best: Option<(Variable, Fit)> = None;
        for global in self.globals(memory).0.iter().filter(|global| global.points) {
            let found = self.with_global(global, |unit, entry| {
                let scope = Scope::of_unit(unit, base, memory);
                let search = Search { scope, wanted: wanted.clone(), reads: &reads };
                let mut variable = describe(unit, entry, global.function)?;
                let at = Found::At(global.span.start.wrapping_add(base));
                let Lead { path, fit, layout } = search.variable(&variable.name, type_of(unit, entry)?, at)?;
                (variable.name, variable.layout) = (path, layout);
                Some((variable, fit))
            });
            take_better(&mut best, found);
            if matches!(best, Some((_, Fit::Start))) || reads.get() == 0 {
                break;
            }
        }
        best.map(|(variable, _)| variable)
    }

    /// The local variable or parameter of `frame` that holds `wanted`, or through which a pointer leads there.
    pub fn local(&self, base: u64, frame: &Frame, wanted: &Range<u64>, memory: &dyn Memory) -> Option<Variable> {
        let reads = Cell::new(READS_MAX);
        let follows = !may_be_temporary(frame, wanted);
        let mut best = None;
        self.each_local(base, frame, memory, |scope, entry, owner| {
            let search = Search { scope, wanted: wanted.clone(), reads: &reads };
            take_better(&mut best, local(&search, entry, owner, follows));
        })?;
        best.map(|(variable, _)| variable)
    }

    /// Calls `act` with each variable and parameter that is in scope in `frame`, and its function.
    pub(crate) fn each_local(
        &self,
        base: u64,
        frame: &Frame,
        memory: &dyn Memory,
        mut act: impl FnMut(Scope<'_>, &Entry, UnitOffset),
    ) -> Option<()> {
        let code = frame.code.wrapping_sub(base);
        self.with_unit(code, |unit| {
            let function = unit.entry(source_location::function_at(unit, code)?).ok()?;
            let scope = Scope::of_unit(unit, base, memory).of_frame(&function, frame);
            let mut owners: Vec<(isize, UnitOffset)> = Vec::new();
            let mut entries = unit.entries_at_offset(function.offset()).ok()?;
            entries.next_dfs().ok()??;
            let mut more = entries.next_dfs().ok()?.is_some();
            while more {
                let entry = entries.current()?;
                if entry.depth() <= 0 {
                    break;
                }
                let elsewhere = match entry.tag() {
                    gimli::DW_TAG_lexical_block => {
                        entry.has_attr(gimli::DW_AT_low_pc) || entry.has_attr(gimli::DW_AT_ranges)
                    }
                    gimli::DW_TAG_inlined_subroutine | gimli::DW_TAG_subprogram => true,
                    _ => false,
                } && !source_location::covers(unit, entry, code);
                while owners.last().is_some_and(|(depth, _)| *depth >= entry.depth()) {
                    owners.pop();
                }
                if entry.tag() == gimli::DW_TAG_inlined_subroutine {
                    owners.push((entry.depth(), entry.offset()));
                }
                if matches!(entry.tag(), gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter) {
                    act(scope, entry, owners.last().map_or(function.offset(), |(_, at)| *at));
                }
                more = if elsewhere { next_after(&mut entries) } else { matches!(entries.next_dfs(), Ok(Some(_))) };
            }
            Some(())
        })
    }

    /// Calls `find_value` with the static variable at an address of the process.
    pub(crate) fn global_at<T>(
        &self,
        base: u64,
        address: u64,
        memory: &dyn Memory,
        find_value: impl FnOnce(Unit<'_>, &Entry, u64) -> Option<T>,
    ) -> Option<T> {
        let offset = address.wrapping_sub(base);
        let global = self.globals(memory).0.iter().find(|global| global.span.contains(&offset))?;
        self.with_global(global, |unit, entry| find_value(unit, entry, global.span.start.wrapping_add(base)))
    }

    fn with_global<T>(&self, global: &Global, find_value: impl FnOnce(Unit<'_>, &Entry) -> Option<T>) -> Option<T> {
        let dwarf = self.dwarf.as_ref()?;
        let unit = dwarf.unit(dwarf.unit_header(global.unit).ok()?).ok()?;
        let unit = unit.unit_ref(dwarf);
        find_value(unit, &unit.entry(global.entry).ok()?)
    }

    fn globals(&self, memory: &dyn Memory) -> &Globals {
        self.globals.get_or_init(|| self.collect(memory).unwrap_or_default())
    }

    fn collect(&self, memory: &dyn Memory) -> Option<Globals> {
        let dwarf = self.dwarf.as_ref()?;
        let mut all = Vec::new();
        let mut looked = 0;
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let (Some(at), Ok(unit)) = (header.debug_info_offset(), dwarf.unit(header)) else { continue };
            let unit = unit.unit_ref(dwarf);
            let scope = Scope::of_unit(unit, 0, memory);
            let mut functions: Vec<(isize, UnitOffset)> = Vec::new();
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                looked += 1;
                if looked == ENTRIES_MAX || all.len() == GLOBALS_MAX {
                    return Some(Globals(all));
                }
                while functions.last().is_some_and(|(depth, _)| *depth >= entry.depth()) {
                    functions.pop();
                }
                match entry.tag() {
                    gimli::DW_TAG_subprogram => functions.push((entry.depth(), entry.offset())),
                    gimli::DW_TAG_variable => {
                        let place = entry.attr_value(gimli::DW_AT_location).and_then(|value| scope.locate(value));
                        let kind = type_of(unit, entry);
                        if let (Some(Found::At(start)), Some(kind)) = (place, kind) {
                            let size = types::size(&scope, kind).unwrap_or(1).max(1);
                            all.push(Global {
                                span: start..start.saturating_add(size),
                                unit: at,
                                entry: entry.offset(),
                                function: functions.last().map(|(_, at)| *at),
                                points: may_point(unit, kind),
                            });
                        }
                    }
                    _ => {}
                }
            }
        }
        Some(Globals(all))
    }
}

/// Skips the current entry's children.
fn next_after<T: gimli::Reader>(entries: &mut gimli::EntriesCursor<'_, T>) -> bool {
    let Some(depth) = entries.current().map(gimli::DebuggingInformationEntry::depth) else { return false };
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.depth() <= depth {
            return true;
        }
    }
    false
}

/// Whether a range may be a compiler's temporary in the stack frame of a call. A pointer of that call into such a range belongs to something else: the
/// end of the previous array, or an earlier use of the place.
fn may_be_temporary(frame: &Frame, wanted: &Range<u64>) -> bool {
    let in_frame = |cfa: u64| wanted.start < cfa && cfa - wanted.start < FRAME_MAX;
    wanted.end.saturating_sub(wanted.start) <= TEMPORARY_MAX && frame.cfa.is_some_and(in_frame)
}

/// Returns one local if it is the range or, if it `follows` pointers, leads there.
fn local(search: &Search<'_>, entry: &Entry, function: UnitOffset, follows: bool) -> Option<(Variable, Fit)> {
    let unit = search.scope.unit;
    let found = search.scope.locate(entry.attr_value(gimli::DW_AT_location)?)?;
    let kind = type_of(unit, entry)?;
    let mut variable = describe(unit, entry, Some(function))?;
    if let Found::At(address) = found {
        let size = types::size(&search.scope, kind).unwrap_or(1).max(1);
        if (address..address.saturating_add(size)).contains(&search.wanted.start) {
            let inside = search.wanted.start.wrapping_sub(address).cast_signed();
            variable.layout = Layout::of_variable(&search.scope, kind, inside);
            return Some((variable, Fit::Start));
        }
        if search.wanted.contains(&address) {
            return Some((variable, Fit::Inside));
        }
    }
    if !follows {
        return None;
    }
    let Lead { path, fit, layout } = search.variable(&variable.name, kind, found)?;
    (variable.name, variable.layout) = (path, layout);
    Some((variable, fit))
}

pub(crate) fn describe(unit: Unit<'_>, entry: &Entry, function: Option<UnitOffset>) -> Option<Variable> {
    let (file, line) = declared(unit, entry);
    let function = function.and_then(|at| name(unit, &unit.entry(at).ok()?));
    Some(Variable { name: name(unit, entry)?, file, line, function, layout: None })
}

fn take_better(best: &mut Option<(Variable, Fit)>, found: Option<(Variable, Fit)>) {
    if let Some(found) = found
        && best.as_ref().is_none_or(|best| found.1 < best.1)
    {
        *best = Some(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_in_a_frame_may_be_temporaries() {
        let frame = Frame { cfa: Some(0x7fff_0000), ..Frame::default() };
        assert!(may_be_temporary(&frame, &(0x7ffe_ff00..0x7ffe_ff08)));
        assert!(!may_be_temporary(&frame, &(0x7ffe_f000..0x7ffe_ff00)), "an array");
        assert!(!may_be_temporary(&frame, &(0x7fff_0010..0x7fff_0018)), "of a caller");
        assert!(!may_be_temporary(&frame, &(0x5555_0000..0x5555_0008)), "on the heap");
        assert!(!may_be_temporary(&Frame::default(), &(0x7ffe_ff00..0x7ffe_ff08)));
    }
}
