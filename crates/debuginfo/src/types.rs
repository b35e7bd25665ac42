//! Types: the size of a variable, and the type that it points to.

use crate::entry::{Unit, number, type_of};
use crate::location::Scope;
use gimli::UnitOffset;

/// Most dimensions of one array.
const DIMENSIONS_MAX: usize = 16;

/// Bytes of a variable of this type. The bounds of an array may depend on other variables.
pub(crate) fn size(scope: &Scope<'_>, at: UnitOffset) -> Option<u64> {
    let unit = scope.unit;
    let entry = unit.entry(at).ok()?;
    if let Some(size) = number(unit, &entry, gimli::DW_AT_byte_size) {
        return Some(size);
    }
    if entry.tag() != gimli::DW_TAG_array_type {
        return None;
    }
    let mut bytes = size(scope, type_of(unit, &entry)?)?;
    for (low, high) in dimensions(scope, at)? {
        let count = u64::try_from(high.checked_sub(low)?.checked_add(1)?.max(0)).ok()?;
        bytes = bytes.checked_mul(count)?;
    }
    Some(bytes)
}

/// Returns lower and upper bounds of an array's dimensions.
pub(crate) fn dimensions(scope: &Scope<'_>, at: UnitOffset) -> Option<Vec<(i64, i64)>> {
    let unit = scope.unit;
    let mut entries = unit.entries_at_offset(at).ok()?;
    entries.next_dfs().ok()??;
    let mut all = Vec::new();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if entry.depth() <= 0 || all.len() == DIMENSIONS_MAX {
            break;
        }
        if entry.tag() != gimli::DW_TAG_subrange_type {
            continue;
        }
        let low = entry.attr_value(gimli::DW_AT_lower_bound).and_then(|value| scope.bound(value));
        let low = low.unwrap_or_else(|| i64::from(is_fortran(unit)));
        let high = match (entry.attr_value(gimli::DW_AT_upper_bound), entry.attr_value(gimli::DW_AT_count)) {
            (Some(high), _) => scope.bound(high)?,
            (None, Some(count)) => low.checked_add(scope.bound(count)?)?.checked_sub(1)?,
            (None, None) => return None,
        };
        all.push((low, high));
    }
    Some(all)
}

/// Whether a unit is Fortran code.
pub(crate) fn is_fortran(unit: Unit<'_>) -> bool {
    let language = unit.entry(unit.header.root_offset()).ok().and_then(|root| root.attr_value(gimli::DW_AT_language));
    matches!(
        language,
        Some(gimli::AttributeValue::Language(
            gimli::DW_LANG_Fortran77
                | gimli::DW_LANG_Fortran90
                | gimli::DW_LANG_Fortran95
                | gimli::DW_LANG_Fortran03
                | gimli::DW_LANG_Fortran08
        ))
    )
}
