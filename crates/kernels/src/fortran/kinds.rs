//! Types of elements: the meaning of `real(dp)`, `integer*8` and `double precision`.

use crate::ir::Element;

/// Constants of intrinsic modules that name kinds, as gfortran has them.
const NAMED: &[(&str, i64)] = &[
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("real32", 4),
    ("real64", 8),
    ("real128", 16),
    ("c_signed_char", 1),
    ("c_int8_t", 1),
    ("c_short", 2),
    ("c_int16_t", 2),
    ("c_int", 4),
    ("c_int32_t", 4),
    ("c_long", 8),
    ("c_long_long", 8),
    ("c_int64_t", 8),
    ("c_size_t", 8),
    ("c_intptr_t", 8),
    ("c_ptrdiff_t", 8),
    ("c_float", 4),
    ("c_double", 8),
    ("c_float_complex", 4),
    ("c_double_complex", 8),
    ("c_bool", 1),
    ("c_char", 1),
];

/// The value of a constant of `iso_fortran_env` or `iso_c_binding`.
pub(super) fn named(name: &str) -> Option<i64> {
    NAMED.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Evaluates `selected_int_kind(range)`.
pub(super) fn selected_int(range: i64) -> i64 {
    [(2, 1), (4, 2), (9, 4), (18, 8)].into_iter().find(|(most, _)| range <= *most).map_or(16, |(_, kind)| kind)
}

/// Evaluates `selected_real_kind(precision)`.
pub(super) fn selected_real(precision: i64) -> i64 {
    [(6, 4), (15, 8), (18, 10)].into_iter().find(|(most, _)| precision <= *most).map_or(16, |(_, kind)| kind)
}

/// Returns elements of an intrinsic type of a kind; `None` is the default one, or one that is not known.
pub(super) fn element(name: &str, kind: Option<i64>) -> Element {
    let bits = |kind: i64| u32::try_from(kind).map_or(0, |kind| kind.saturating_mul(8));
    match name {
        "integer" => Element::Integer { signed: true, bits: bits(kind.unwrap_or(4)) },
        "byte" => Element::Integer { signed: true, bits: 8 },
        "real" => Element::Real(bits(kind.unwrap_or(4))),
        "doubleprecision" => Element::Real(64),
        "complex" => Element::Complex(bits(kind.unwrap_or(4)) * 2),
        "doublecomplex" => Element::Complex(128),
        "logical" => Element::Logical,
        _ => Element::Other,
    }
}
