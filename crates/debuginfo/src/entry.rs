//! Shorthands for reading entries of the debug information.

use gimli::{AttributeValue, DebuggingInformationEntry, EndianArcSlice, Reader, RunTimeEndian, UnitOffset, UnitRef};

/// Sections are shared and can be kept.
pub(crate) type R = EndianArcSlice<RunTimeEndian>;
pub(crate) type Dwarf = gimli::Dwarf<R>;
pub(crate) type Entry = DebuggingInformationEntry<R>;
pub(crate) type Unit<'a> = UnitRef<'a, R>;

/// Most references that are followed to an entry with a name or a type.
const HOPS_MAX: usize = 8;
/// Most nested types that are followed.
const TYPE_HOPS_MAX: usize = 16;

/// Returns an attribute of the entry, or of the one that it completes (a declaration, an abstract function or variable).
pub(crate) fn attribute(unit: Unit<'_>, entry: &Entry, name: gimli::DwAt) -> Option<AttributeValue<R>> {
    let mut next = None;
    for _ in 0..HOPS_MAX {
        let here = next.as_ref().unwrap_or(entry);
        if let Some(value) = here.attr_value(name) {
            return Some(value);
        }
        let origin = here
            .attr_value(gimli::DW_AT_abstract_origin)
            .or_else(|| here.attr_value(gimli::DW_AT_specification))
            .and_then(|value| in_unit(unit, value))?;
        next = unit.entry(origin).ok();
        next.as_ref()?;
    }
    None
}

/// Returns a reference's target, if it is in the same unit.
pub(crate) fn in_unit(unit: Unit<'_>, value: AttributeValue<R>) -> Option<UnitOffset> {
    match value {
        AttributeValue::UnitRef(offset) => Some(offset),
        AttributeValue::DebugInfoRef(offset) => offset.to_unit_offset(&unit.header),
        _ => None,
    }
}

pub(crate) fn text(unit: Unit<'_>, value: AttributeValue<R>) -> Option<String> {
    Some(unit.attr_string(value).ok()?.to_string_lossy().ok()?.into_owned())
}

pub(crate) fn name(unit: Unit<'_>, entry: &Entry) -> Option<String> {
    text(unit, attribute(unit, entry, gimli::DW_AT_name)?)
}

pub(crate) fn number(unit: Unit<'_>, entry: &Entry, name: gimli::DwAt) -> Option<u64> {
    attribute(unit, entry, name)?.udata_value()
}

/// Returns the constant of an attribute that may be negative. Forms of a fixed size have no sign: GCC writes the bound 199 as one byte.
pub(crate) fn constant(value: &AttributeValue<R>) -> Option<i64> {
    value.udata_value().map(u64::cast_signed).or_else(|| value.sdata_value())
}

/// Returns the file and line of an entry's declaration.
pub(crate) fn declared(unit: Unit<'_>, entry: &Entry) -> (Option<String>, Option<u32>) {
    let line = number(unit, entry, gimli::DW_AT_decl_line).and_then(|line| u32::try_from(line).ok());
    let file = attribute(unit, entry, gimli::DW_AT_decl_file).and_then(|value| match value {
        AttributeValue::FileIndex(index) => file_name(unit, index),
        other => file_name(unit, other.udata_value()?),
    });
    (file, line.filter(|line| *line > 0))
}

/// Returns the name of a file in the unit's line table, with its folder if known.
pub(crate) fn file_name(unit: Unit<'_>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let name = text(unit, file.path_name())?;
    if name.starts_with('/') {
        return Some(name);
    }
    let mut path = String::new();
    let mut add = |part: &str| {
        if part.starts_with('/') {
            path.clear();
        } else if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(part);
    };
    if let Some(folder) =
        unit.comp_dir.as_ref().and_then(|folder| folder.to_string_lossy().ok().map(std::borrow::Cow::into_owned))
    {
        add(&folder);
    }
    if let Some(folder) = file.directory(header).and_then(|folder| text(unit, folder)) {
        add(&folder);
    }
    add(&name);
    Some(path)
}

/// The type of a variable or member, without names and qualifiers.
pub(crate) fn type_of(unit: Unit<'_>, entry: &Entry) -> Option<UnitOffset> {
    let mut at = in_unit(unit, attribute(unit, entry, gimli::DW_AT_type)?)?;
    for _ in 0..TYPE_HOPS_MAX {
        let entry = unit.entry(at).ok()?;
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => at = in_unit(unit, entry.attr_value(gimli::DW_AT_type)?)?,
            _ => return Some(at),
        }
    }
    None
}

/// Returns the type's size, if the entry states it.
pub(crate) fn plain_size(unit: Unit<'_>, at: UnitOffset) -> Option<u64> {
    number(unit, &unit.entry(at).ok()?, gimli::DW_AT_byte_size)
}
