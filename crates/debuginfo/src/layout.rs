//! The elements of an array by its declared type: their scalars, and their indices in the source.

use crate::entry::{Unit, constant, in_unit, name, number, plain_size, type_of};
use crate::location::Scope;
use crate::types;
use gimli::{AttributeValue, UnitOffset};

/// Most scalars of one element.
const FIELDS_MAX: usize = 1024;
/// Deepest nesting of structures and arrays in one element.
const DEPTH_MAX: usize = 8;

/// The elements of an array, or a variable as the only element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes of one element.
    pub bytes: u64,
    /// The scalars of an element, in order. Bytes between them are padding.
    pub fields: Vec<Field>,
    /// Bytes from the array's first element to the data that was searched for.
    first: i64,
    /// Lower bound and number of elements of each dimension, as declared; the number is `None` where only the program knows it.
    dimensions: Vec<(i64, Option<i64>)>,
    /// Whether the first index varies fastest.
    is_fortran: bool,
}

/// One scalar of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Bytes from the element's begin.
    pub offset: u64,
    /// The type.
    pub scalar: Scalar,
    /// The members that lead there, with a dot before each: `.position[2]`.
    pub path: String,
}

/// The type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// A floating-point number of so many bytes.
    Float(u64),
    /// An integer, character, logical or enumerator of so many bytes, or the bytes of a bit field.
    Integer(u64),
    /// An address.
    Pointer,
}

impl Layout {
    /// Returns the elements of a variable of type `at`, where `first` bytes of it come before the data that was searched for.
    pub(crate) fn of_variable(scope: &Scope<'_>, at: UnitOffset, first: i64) -> Option<Self> {
        let is_fortran = types::is_fortran(scope.unit);
        let entry = scope.unit.entry(at).ok()?;
        if entry.tag() != gimli::DW_TAG_array_type {
            return Self::new(scope.unit, at, Vec::new(), first, is_fortran);
        }
        let bounds = types::dimensions(scope, at)?;
        let dimensions = bounds.into_iter().map(|(low, high)| (low, Some(high.saturating_sub(low).saturating_add(1))));
        Self::new(scope.unit, type_of(scope.unit, &entry)?, dimensions.collect(), first, is_fortran)
    }

    /// Returns the elements that a pointer to type `at` leads to, where the pointer is `first` bytes before the data that was searched for.
    pub(crate) fn of_target(scope: &Scope<'_>, at: UnitOffset, first: i64) -> Option<Self> {
        let mut layout = Self::of_variable(scope, at, first)?;
        if !layout.is_fortran {
            layout.dimensions.insert(0, (0, None));
        }
        Some(layout)
    }

    fn new(
        unit: Unit<'_>,
        element: UnitOffset,
        dimensions: Vec<(i64, Option<i64>)>,
        first: i64,
        is_fortran: bool,
    ) -> Option<Self> {
        let bytes = plain_size(unit, element).filter(|bytes| *bytes > 0)?;
        let mut fields = Vec::new();
        add_fields(unit, element, 0, "", 0, &mut fields)?;
        Some(Self { bytes, fields, first, dimensions, is_fortran })
    }

    /// Returns the bytes of an element that lie before the data that was searched for: a section of a member begins inside its structure.
    pub fn before(&self) -> u64 {
        self.first.rem_euclid(self.bytes.cast_signed().max(1)).cast_unsigned()
    }

    /// Returns the index of an element as the source has it, such as `[3][5]` or `(6,4)`; nothing for a variable that is no array. `number` counts the
    /// elements from the one in which the data that was searched for begins.
    pub fn index(&self, number: u64) -> String {
        let bytes = self.bytes.cast_signed();
        let first = self.first.div_euclid(bytes.max(1));
        let mut left = first.saturating_add(number.cast_signed());
        let mut indices = vec![0; self.dimensions.len()];
        let order: Vec<usize> = match self.is_fortran {
            true => (0..indices.len()).collect(),
            false => (0..indices.len()).rev().collect(),
        };
        for (k, at) in order.iter().enumerate() {
            let (low, count) = self.dimensions[*at];
            // The slowest index takes the rest, whatever the array's declared length is.
            let count = count.filter(|count| *count > 0 && k + 1 < order.len());
            let (index, rest) = count.map_or((left, 0), |count| (left.rem_euclid(count), left.div_euclid(count)));
            indices[*at] = low.saturating_add(index);
            left = rest;
        }
        let texts: Vec<String> = indices.iter().map(ToString::to_string).collect();
        match (texts.is_empty(), self.is_fortran) {
            (true, _) if left == 0 => String::new(),
            (true, _) => format!("[{left}]"),
            (false, true) => format!("({})", texts.join(",")),
            (false, false) => format!("[{}]", texts.join("][")),
        }
    }
}

/// Adds the scalars of a value of type `at` that begins `offset` bytes into the element. Returns `None` if there are too many, or none that is known.
fn add_fields(
    unit: Unit<'_>,
    at: UnitOffset,
    offset: u64,
    path: &str,
    depth: usize,
    all: &mut Vec<Field>,
) -> Option<()> {
    if depth > DEPTH_MAX || all.len() >= FIELDS_MAX {
        return None;
    }
    let entry = unit.entry(at).ok()?;
    let bytes = || number(unit, &entry, gimli::DW_AT_byte_size);
    let mut add = |offset, scalar| all.push(Field { offset, scalar, path: path.to_owned() });
    match entry.tag() {
        gimli::DW_TAG_base_type => {
            let bytes = bytes()?;
            match entry.attr_value(gimli::DW_AT_encoding)? {
                AttributeValue::Encoding(gimli::DW_ATE_float) => add(offset, Scalar::Float(bytes)),
                AttributeValue::Encoding(gimli::DW_ATE_complex_float) => {
                    add(offset, Scalar::Float(bytes / 2));
                    add(offset + bytes / 2, Scalar::Float(bytes / 2));
                }
                _ => add(offset, Scalar::Integer(bytes)),
            }
        }
        gimli::DW_TAG_enumeration_type | gimli::DW_TAG_string_type => add(offset, Scalar::Integer(bytes()?)),
        // The members of a union share their bytes, of which only the program knows the type.
        gimli::DW_TAG_union_type => add(offset, Scalar::Integer(bytes()?)),
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => {
            add(offset, Scalar::Pointer);
        }
        gimli::DW_TAG_array_type if entry.has_attr(gimli::DW_AT_data_location) => {}
        gimli::DW_TAG_array_type => {
            let element = type_of(unit, &entry)?;
            let (each, count) = (plain_size(unit, element)?, count(unit, at)?);
            for index in 0..count {
                let path = format!("{path}[{index}]");
                add_fields(unit, element, offset + index * each, &path, depth + 1, all)?;
            }
        }
        gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
            let mut tree = unit.entries_tree(Some(at)).ok()?;
            let mut children = tree.root().ok()?.children();
            while let Ok(Some(child)) = children.next() {
                let member = child.entry();
                let path = name(unit, member).map_or_else(|| path.to_owned(), |name| format!("{path}.{name}"));
                let bits =
                    (number(unit, member, gimli::DW_AT_data_bit_offset), number(unit, member, gimli::DW_AT_bit_size));
                if let (Some(first), Some(bits)) = bits {
                    if all.len() >= FIELDS_MAX {
                        return None;
                    }
                    // A bit field is all bytes that hold some of it.
                    let (first, end) = (first / 8, first.checked_add(bits)?.div_ceil(8));
                    all.push(Field { offset: offset.checked_add(first)?, scalar: Scalar::Integer(end - first), path });
                    continue;
                }
                let place = member.attr_value(gimli::DW_AT_data_member_location).and_then(|value| value.udata_value());
                let kind = member.attr_value(gimli::DW_AT_type).and_then(|value| in_unit(unit, value));
                let (Some(place), Some(_), Some(kind)) = (place, kind, type_of(unit, member)) else { continue };
                add_fields(unit, kind, offset + place, &path, depth + 1, all)?;
            }
        }
        _ => return None,
    }
    Some(())
}

/// Returns the number of elements of an array inside of another type, whose bounds are constants.
fn count(unit: Unit<'_>, at: UnitOffset) -> Option<u64> {
    let mut entries = unit.entries_at_offset(at).ok()?;
    entries.next_dfs().ok()??;
    let mut count = 1u64;
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.depth() <= 0 {
            break;
        }
        if entry.tag() != gimli::DW_TAG_subrange_type {
            continue;
        }
        let constant = |name| entry.attr_value(name).and_then(|value| constant(&value));
        let low = constant(gimli::DW_AT_lower_bound).unwrap_or_else(|| i64::from(types::is_fortran(unit)));
        let here = match (constant(gimli::DW_AT_upper_bound), constant(gimli::DW_AT_count)) {
            (Some(high), _) => high.checked_sub(low)?.checked_add(1)?,
            (None, count) => count?,
        };
        count = count.checked_mul(u64::try_from(here).ok()?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(first: i64, dimensions: &[(i64, Option<i64>)], is_fortran: bool) -> Layout {
        let dimensions = dimensions.to_vec();
        Layout { bytes: 8, fields: Vec::new(), first, dimensions, is_fortran }
    }

    #[test]
    fn indices_are_those_of_the_source() {
        assert_eq!(layout(0, &[(0, None)], false).index(7), "[7]");
        assert_eq!(layout(80, &[(0, Some(100))], false).index(7), "[17]", "a section that begins at 10");
        assert_eq!(layout(-8, &[(0, None)], false).index(0), "[-1]", "the pointer is behind the begin");
        assert_eq!(layout(0, &[(0, None), (0, Some(20)), (0, Some(3))], false).index(2 * 60 + 5 * 3 + 1), "[2][5][1]");
        assert_eq!(layout(0, &[(1, Some(10)), (0, Some(5))], true).index(23), "(4,2)");
        assert_eq!(layout(0, &[], false).index(0), "");
    }

    #[test]
    fn data_may_begin_inside_an_element() {
        let begin = |first| {
            let layout = layout(first, &[(0, None)], false);
            (layout.before(), layout.index(0), layout.index(1))
        };
        assert_eq!(begin(16), (0, "[2]".to_owned(), "[3]".to_owned()));
        assert_eq!(begin(20), (4, "[2]".to_owned(), "[3]".to_owned()));
        assert_eq!(begin(-4), (4, "[-1]".to_owned(), "[0]".to_owned()));
    }
}
