//! Computes single instructions. Registers hold bits, and a type interprets them.

use super::code::{Binary, Compare, Type, Unary};

/// The low bits of a value.
pub(crate) fn mask(value: u64, bits: u32) -> u64 {
    match bits {
        64.. => value,
        bits => value & ((1 << bits) - 1),
    }
}

fn signed(value: u64, bits: u32) -> i64 {
    let up = 64 - bits;
    (value << up).cast_signed() >> up
}

fn single(value: u64) -> f32 {
    f32::from_bits(value as u32)
}

/// A loaded value in a register, which may be wider.
pub(crate) fn extend(of: Type, value: u64) -> u64 {
    match of {
        Type::Signed(bits) => signed(value, bits).cast_unsigned(),
        other => mask(value, other.bits()),
    }
}

pub(crate) fn unary(operation: Unary, of: Type, value: u64) -> Option<u64> {
    Some(match (operation, of) {
        (Unary::Move, _) => mask(value, of.bits()),
        (Unary::Not, _) => mask(!value, of.bits()),
        (Unary::IsZero, _) => u64::from(mask(value, of.bits()) == 0),
        (Unary::Negate, Type::Float(bits)) => mask(value, bits) ^ 1 << (bits - 1),
        (Unary::Negate, _) => mask(value.wrapping_neg(), of.bits()),
        (Unary::Absolute, Type::Float(bits)) => mask(value, bits - 1),
        (Unary::Absolute, Type::Signed(bits)) => mask(signed(value, bits).unsigned_abs(), bits),
        (Unary::Absolute, _) => return None,
    })
}

pub(crate) fn binary(operation: Binary, of: Type, a: u64, b: u64) -> Option<u64> {
    match of {
        Type::Float(64) => float(operation, f64::from_bits(a), f64::from_bits(b)).map(f64::to_bits),
        Type::Float(_) => {
            // For one operation of the smaller type, rounding twice equals rounding once.
            let exact = float(operation, f64::from(single(a)), f64::from(single(b)))?;
            Some(u64::from((exact as f32).to_bits()))
        }
        Type::Predicate => integer(operation, 1, false, a, b),
        Type::Unsigned(bits) => integer(operation, bits, false, a, b),
        Type::Signed(bits) => integer(operation, bits, true, a, b),
    }
}

fn float(operation: Binary, a: f64, b: f64) -> Option<f64> {
    Some(match operation {
        Binary::Add => a + b,
        Binary::Subtract => a - b,
        Binary::Multiply => a * b,
        Binary::Divide => a / b,
        Binary::Minimum => a.min(b),
        Binary::Maximum => a.max(b),
        _ => return None,
    })
}

fn integer(operation: Binary, bits: u32, is_signed: bool, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (mask(a, bits), mask(b, bits));
    let (s, t) = (signed(a, bits), signed(b, bits));
    let value = match operation {
        Binary::Add => x.wrapping_add(y),
        Binary::Subtract => x.wrapping_sub(y),
        Binary::Multiply => x.wrapping_mul(y),
        Binary::MultiplyWide if is_signed => return Some(mask(s.wrapping_mul(t).cast_unsigned(), bits * 2)),
        Binary::MultiplyWide => return Some(mask(x.wrapping_mul(y), bits * 2)),
        Binary::MultiplyHigh if is_signed => ((i128::from(s) * i128::from(t)) >> bits) as u64,
        Binary::MultiplyHigh => ((u128::from(x) * u128::from(y)) >> bits) as u64,
        Binary::Divide if is_signed => s.checked_div(t)?.cast_unsigned(),
        Binary::Divide => x.checked_div(y)?,
        Binary::Remainder if is_signed => s.checked_rem(t)?.cast_unsigned(),
        Binary::Remainder => x.checked_rem(y)?,
        Binary::Minimum if is_signed => s.min(t).cast_unsigned(),
        Binary::Minimum => x.min(y),
        Binary::Maximum if is_signed => s.max(t).cast_unsigned(),
        Binary::Maximum => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        // Shifts by more than the width leave zero or the sign.
        Binary::ShiftLeft => x.checked_shl(u32::try_from(mask(b, 32)).ok()?.min(64)).unwrap_or(0),
        Binary::ShiftRight if is_signed => (s >> mask(b, 32).min(63)).cast_unsigned(),
        Binary::ShiftRight => x.checked_shr(u32::try_from(mask(b, 32)).ok()?.min(64)).unwrap_or(0),
    };
    Some(mask(value, bits))
}

pub(crate) fn compare(how: Compare, unordered: bool, of: Type, a: u64, b: u64) -> bool {
    use std::cmp::Ordering;
    let order = match of {
        Type::Float(64) => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        Type::Float(_) => single(a).partial_cmp(&single(b)),
        Type::Signed(bits) => Some(signed(a, bits).cmp(&signed(b, bits))),
        other => Some(mask(a, other.bits()).cmp(&mask(b, other.bits()))),
    };
    let Some(order) = order else { return unordered };
    match how {
        Compare::Equal => order == Ordering::Equal,
        Compare::NotEqual => order != Ordering::Equal,
        Compare::Less => order == Ordering::Less,
        Compare::LessOrEqual => order != Ordering::Greater,
        Compare::Greater => order == Ordering::Greater,
        Compare::GreaterOrEqual => order != Ordering::Less,
    }
}

/// Converts a value; `text` names the rounding mode.
pub(crate) fn convert(to: Type, from: Type, value: u64, text: &str) -> Option<u64> {
    let number = match from {
        Type::Float(64) => f64::from_bits(value),
        Type::Float(_) => f64::from(single(value)),
        _ => 0.0,
    };
    Some(match (to, from) {
        (Type::Float(64), Type::Float(_)) => number.to_bits(),
        (Type::Float(_), Type::Float(_)) => u64::from((number as f32).to_bits()),
        (Type::Float(64), Type::Signed(bits)) => (signed(value, bits) as f64).to_bits(),
        (Type::Float(64), _) => (mask(value, from.bits()) as f64).to_bits(),
        (Type::Float(_), Type::Signed(bits)) => u64::from((signed(value, bits) as f32).to_bits()),
        (Type::Float(_), _) => u64::from((mask(value, from.bits()) as f32).to_bits()),
        (Type::Signed(bits), Type::Float(_)) if text.contains(".rzi") => mask((number as i64).cast_unsigned(), bits),
        (Type::Unsigned(bits), Type::Float(_)) if text.contains(".rzi") => mask(number as u64, bits),
        (_, Type::Float(_)) | (Type::Predicate, _) => return None,
        (_, from) => {
            let wide = match from {
                Type::Signed(bits) => signed(value, bits).cast_unsigned(),
                other => mask(value, other.bits()),
            };
            // Registers have at least 32 bits, except those of 16.
            mask(extend(to, wide), to.bits().max(32))
        }
    })
}
