//! Compares the elements of two copies of an array.

use accord_types::Tolerance;
use std::fmt::Debug;

/// The elements of an array.
pub struct Elements {
    /// Bytes of one element.
    pub bytes: usize,
    /// Bytes of the first element that lie before the data: a section of a member begins inside its structure.
    pub before: usize,
    /// The scalars of an element. Bytes between them are not compared.
    pub fields: Vec<Field>,
}

/// One scalar of an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// Bytes from the element's begin.
    pub offset: usize,
    /// The type.
    pub scalar: Scalar,
    /// The members that lead there, such as `.position[2]`; empty for an element that is a scalar.
    pub path: String,
}

/// The type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// A floating-point number of so many bytes.
    Float(usize),
    /// An integer of so many bytes, or other bytes that are compared exactly.
    Integer(usize),
    /// An address.
    Pointer,
}

impl Scalar {
    /// Returns its size in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Float(bytes) | Self::Integer(bytes) => bytes,
            Self::Pointer => size_of::<u64>(),
        }
    }
}

/// The comparison of one array so far.
#[derive(Default)]
pub(crate) struct Tally {
    /// Elements that were compared.
    pub(crate) compared: u64,
    /// Elements that differ.
    pub(crate) differing: u64,
    /// The last element that differs, which may continue in the next piece.
    last: Option<u64>,
    /// Differing scalars that are addresses, which differ from process to process.
    pub(crate) addresses: u64,
    /// The first element that differs.
    pub(crate) first: Option<Difference>,
    /// The largest relative difference of floating-point numbers.
    pub(crate) largest: Option<f64>,
}

/// The first differing scalar of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Difference {
    /// The number of the element, from the begin of the data.
    pub(crate) element: u64,
    /// The members that lead to the scalar.
    pub(crate) path: String,
    /// Its value on the device.
    pub(crate) device: String,
    /// Its value on the CPU device.
    pub(crate) cpu: String,
}

/// The result of comparing two scalars.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Equal,
    /// They differ. The relative difference is that of floating-point numbers.
    Differs(Option<f64>),
    /// Both are addresses.
    Addresses,
}

impl Elements {
    /// Creates the elements of an array of scalars.
    pub(crate) fn of(scalar: Scalar) -> Self {
        Self { bytes: scalar.bytes(), before: 0, fields: vec![Field { offset: 0, scalar, path: String::new() }] }
    }

    /// Guesses the elements of an array from its bytes: floating-point numbers if nearly all of them have usual exponents, addresses if nearly all are
    /// where a process's mappings are.
    pub(crate) fn guess(bytes: &[u8]) -> Self {
        let words = |all: u64, plausible: u64| all > 0 && plausible * 100 >= all * 95;
        let (mut singles, mut usual_singles, mut low) = (0, 0, 0);
        for (at, word) in bytes.as_chunks::<4>().0.iter().enumerate() {
            let bits = u32::from_ne_bytes(*word);
            if bits != 0 {
                singles += 1;
                low += u64::from(at % 2 == 0);
                usual_singles += u64::from((bits >> 23 & 0xff).abs_diff(127) < 40);
            }
        }
        let (mut doubles, mut usual_doubles, mut addresses) = (0, 0, 0);
        for word in bytes.as_chunks::<8>().0 {
            let bits = u64::from_ne_bytes(*word);
            if bits != 0 {
                doubles += 1;
                usual_doubles += u64::from((bits >> 52 & 0x7ff).abs_diff(1023) < 300);
                addresses += u64::from(is_address(bits));
            }
        }
        // Doubles of few digits look like every other single.
        let are_doubles = bytes.len().is_multiple_of(8) && words(doubles, usual_doubles);
        Self::of(if words(singles, usual_singles) && !(low == 0 && are_doubles) {
            Scalar::Float(4)
        } else if are_doubles {
            Scalar::Float(8)
        } else if bytes.len().is_multiple_of(8) && words(doubles, addresses) {
            Scalar::Pointer
        } else if bytes.len().is_multiple_of(4) {
            Scalar::Integer(4)
        } else {
            Scalar::Integer(1)
        })
    }

    /// Compares bytes of two copies, which begin `at` bytes into the data, and adds the result to `tally`. `same` decides whether two addresses are those of
    /// the same data. A scalar of which only a part is there is compared exactly.
    pub(crate) fn compare(
        &self,
        (device, cpu): (&[u8], &[u8]),
        at: u64,
        tolerance: &Tolerance,
        same: impl Fn(u64, u64) -> bool,
        tally: &mut Tally,
    ) {
        let each = self.bytes as u64;
        let mut done = 0;
        while done < device.len().min(cpu.len()) {
            let position = self.before as u64 + at + done as u64;
            let (element, inside) = (position / each, (position % each) as usize);
            let end = (done + self.bytes - inside).min(device.len()).min(cpu.len());
            let (one, other) = (&device[done..end], &cpu[done..end]);
            // An element that continues from the piece before is counted there.
            tally.compared += u64::from(inside == 0 || at + done as u64 == 0);
            done = end;
            if one != other && self.compare_element((one, other), (element, inside), tolerance, &same, tally) {
                tally.differing += u64::from(tally.last != Some(element));
                tally.last = Some(element);
            }
        }
    }

    /// Compares an element, or the part of it that begins `inside` bytes into it. Returns whether the copies differ.
    fn compare_element(
        &self,
        (device, cpu): (&[u8], &[u8]),
        (element, inside): (u64, usize),
        tolerance: &Tolerance,
        same: impl Fn(u64, u64) -> bool,
        tally: &mut Tally,
    ) -> bool {
        let mut differs = false;
        for field in &self.fields {
            let bytes = field.scalar.bytes();
            let begin = field.offset.saturating_sub(inside);
            let end = (field.offset + bytes).saturating_sub(inside).min(device.len());
            let (Some(a), Some(b)) = (device.get(begin..end), cpu.get(begin..end)) else { continue };
            let scalar = if a.len() == bytes { field.scalar } else { Scalar::Integer(a.len()) };
            match verdict(scalar, a, b, tolerance, &same) {
                Verdict::Equal => {}
                Verdict::Addresses => tally.addresses += 1,
                Verdict::Differs(relative) => {
                    differs = true;
                    tally.largest = relative.map_or(tally.largest, |new| Some(tally.largest.unwrap_or(0.0).max(new)));
                    tally.first.get_or_insert_with(|| Difference {
                        element,
                        path: field.path.clone(),
                        device: shown(scalar, a),
                        cpu: shown(scalar, b),
                    });
                }
            }
        }
        differs
    }
}

fn verdict(scalar: Scalar, a: &[u8], b: &[u8], tolerance: &Tolerance, same: impl Fn(u64, u64) -> bool) -> Verdict {
    if a == b {
        return Verdict::Equal;
    }
    if let (Some(a), Some(b), false) = (word(a), word(b), matches!(scalar, Scalar::Float(_))) {
        if same(a, b) {
            return Verdict::Equal;
        }
        if scalar == Scalar::Pointer {
            return Verdict::Addresses;
        }
    }
    let Scalar::Float(_) = scalar else { return Verdict::Differs(None) };
    let Some((x, y, relative_max, ulps)) = numbers(a, b, tolerance) else { return Verdict::Differs(None) };
    if (x.is_nan() && y.is_nan()) || x == y {
        return Verdict::Equal;
    }
    let difference = (x - y).abs();
    let relative = difference / x.abs().max(y.abs());
    // Comparisons with NaN are false.
    let is_equal =
        relative <= relative_max || difference <= tolerance.absolute || ulps.is_some_and(|n| n <= tolerance.ulps);
    match is_equal {
        true => Verdict::Equal,
        false => Verdict::Differs(Some(if relative.is_nan() { f64::INFINITY } else { relative })),
    }
}

/// Returns two floating-point numbers, their relative limit, and their distance in units of the last place where it is defined.
fn numbers(a: &[u8], b: &[u8], tolerance: &Tolerance) -> Option<(f64, f64, f64, Option<u64>)> {
    /// Numbers the values of one sign and the other in their order.
    fn ordered(bits: u64, sign: u64) -> i64 {
        let magnitude = (bits & (sign - 1)).cast_signed();
        if bits & sign == 0 { magnitude } else { -magnitude }
    }
    if let (Ok(a), Ok(b)) = (<[u8; 4]>::try_from(a), <[u8; 4]>::try_from(b)) {
        let (x, y) = (f32::from_ne_bytes(a), f32::from_ne_bytes(b));
        let order = |bits: u32| ordered(u64::from(bits), 1 << 31);
        let ulps = (x.is_finite() && y.is_finite()).then(|| order(x.to_bits()).abs_diff(order(y.to_bits())));
        return Some((f64::from(x), f64::from(y), tolerance.single, ulps));
    }
    if let (Ok(a), Ok(b)) = (<[u8; 8]>::try_from(a), <[u8; 8]>::try_from(b)) {
        let (x, y) = (f64::from_ne_bytes(a), f64::from_ne_bytes(b));
        let order = |bits: u64| ordered(bits, 1 << 63);
        let ulps = (x.is_finite() && y.is_finite()).then(|| order(x.to_bits()).abs_diff(order(y.to_bits())));
        return Some((x, y, tolerance.double, ulps));
    }
    let (a, b) = (<[u8; 16]>::try_from(a).ok()?, <[u8; 16]>::try_from(b).ok()?);
    Some((extended(a), extended(b), tolerance.double, None))
}

/// Returns the nearest double of a `long double`: 80 bits on x86-64, elsewhere 128.
fn extended(bytes: [u8; 16]) -> f64 {
    let bits = u128::from_ne_bytes(bytes);
    let (sign_and_exponent, mantissa, places) = if cfg!(target_arch = "x86_64") {
        ((bits >> 64) as u16, (bits as u64) as f64, 63)
    } else {
        let exponent = (bits >> 112) as u16;
        let fraction = bits & ((1 << 112) - 1);
        (exponent, (fraction | u128::from(exponent & 0x7fff != 0) << 112) as f64, 112)
    };
    let sign = if sign_and_exponent & 0x8000 == 0 { 1.0 } else { -1.0 };
    match sign_and_exponent & 0x7fff {
        0x7fff => f64::NAN,
        exponent => sign * mantissa * 2f64.powi(i32::from(exponent) - 16383 - places),
    }
}

fn word(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

/// Whether a word is in the range of a process's mappings, where few integers of programs are.
fn is_address(word: u64) -> bool {
    (1 << 40..1 << 47).contains(&word)
}

/// Returns a scalar as a message shows it.
fn shown(scalar: Scalar, bytes: &[u8]) -> String {
    fn text(value: impl Debug) -> String {
        format!("{value:?}")
    }
    let array = |k: usize| bytes.get(k).copied().unwrap_or_default();
    match (scalar, bytes.len()) {
        (Scalar::Float(_), 4) => text(f32::from_ne_bytes(std::array::from_fn(array))),
        (Scalar::Float(_), 8) => text(f64::from_ne_bytes(std::array::from_fn(array))),
        (Scalar::Float(_), 16) => text(extended(std::array::from_fn(array))),
        (Scalar::Pointer, _) => format!("{:#x}", u64::from_ne_bytes(std::array::from_fn(array))),
        (_, 1) => text(i8::from_ne_bytes(std::array::from_fn(array))),
        (_, 2) => text(i16::from_ne_bytes(std::array::from_fn(array))),
        (_, 4) => text(i32::from_ne_bytes(std::array::from_fn(array))),
        (_, 8) => text(i64::from_ne_bytes(std::array::from_fn(array))),
        _ => bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally<T: Copy, const N: usize>(scalar: Scalar, one: &[T], other: &[T], bytes: impl Fn(T) -> [u8; N]) -> Tally {
        limited(scalar, one, other, bytes, Tolerance::default())
    }

    fn limited<T: Copy, const N: usize>(
        scalar: Scalar,
        one: &[T],
        other: &[T],
        bytes: impl Fn(T) -> [u8; N],
        tolerance: Tolerance,
    ) -> Tally {
        let all = |values: &[T]| values.iter().flat_map(|value| bytes(*value)).collect::<Vec<u8>>();
        let mut tally = Tally::default();
        let at = 100 * scalar.bytes() as u64;
        Elements::of(scalar).compare((&all(one), &all(other)), at, &tolerance, |_, _| false, &mut tally);
        tally
    }

    #[test]
    fn numbers_within_the_tolerance_are_equal() {
        let doubles = |one: &[f64], other: &[f64]| tally(Scalar::Float(8), one, other, f64::to_ne_bytes);
        let equal =
            doubles(&[1.0, f64::NAN, f64::INFINITY, 0.0, 1e300], &[1.0 + 1e-13, -f64::NAN, f64::INFINITY, -0.0, 1e300]);
        assert_eq!((equal.compared, equal.differing), (5, 0));
        let differs = doubles(&[1.0, 2.0, f64::NAN, 1.0], &[1.0, 2.5, 1.0, f64::INFINITY]);
        assert_eq!((differs.differing, differs.largest), (3, Some(f64::INFINITY)));
        let first = Difference { element: 101, path: String::new(), device: "2.0".into(), cpu: "2.5".into() };
        assert_eq!(differs.first, Some(first));
        let singles = |one: &[f32], other: &[f32]| tally(Scalar::Float(4), one, other, f32::to_ne_bytes).differing;
        assert_eq!(singles(&[1.0], &[1.0 + 5e-7]), 0);
        assert_eq!(singles(&[1.0], &[1.0 + 5e-6]), 1);
    }

    #[test]
    fn limits_of_the_user_count() {
        let off = |one: f64, other: f64, tolerance| {
            limited(Scalar::Float(8), &[one], &[other], f64::to_ne_bytes, tolerance).differing == 1
        };
        let exact = Tolerance { single: 0.0, double: 0.0, absolute: 0.0, ulps: 0 };
        let next = 1.0 + f64::EPSILON;
        assert!(off(1.0, next, exact));
        assert!(!off(1.0, next, Tolerance { ulps: 1, ..exact }));
        assert!(off(1.0, next + f64::EPSILON, Tolerance { ulps: 1, ..exact }));
        assert!(!off(f64::from_bits(1), -f64::from_bits(1), Tolerance { ulps: 2, ..exact }), "beside 0");
        assert!(off(f64::MAX, f64::INFINITY, Tolerance { ulps: 9, ..exact }));
        assert!(!off(1e-20, 0.0, Tolerance { absolute: 1e-19, ..exact }));
    }

    #[test]
    fn long_doubles_have_80_bits() {
        if cfg!(target_arch = "x86_64") {
            let number = |exponent: u128, mantissa: u128| exponent << 64 | mantissa;
            assert_eq!(extended(number(16383, 1 << 63).to_ne_bytes()), 1.0);
            assert_eq!(extended(number(0x8000 | 16384, 3 << 62).to_ne_bytes()), -3.0);
            let padded = 0xdead << 80 | number(16383, 1 << 63);
            let equal = tally(Scalar::Float(16), &[number(16383, 1 << 63)], &[padded], u128::to_ne_bytes);
            assert_eq!(equal.differing, 0, "bytes behind the number are padding");
        }
    }

    #[test]
    fn integers_are_exact_and_addresses_are_left_out() {
        let words = |scalar, one: &[i64], other: &[i64]| tally(scalar, one, other, i64::to_ne_bytes);
        assert_eq!(words(Scalar::Integer(8), &[1, 2], &[1, 3]).first.unwrap().device, "2");
        let address = 0x5555_0000_1000;
        let integers = words(Scalar::Integer(8), &[address, address], &[address + 8, 7]);
        assert_eq!((integers.differing, integers.addresses), (2, 0), "a checksum may look like an address");
        let pointers = words(Scalar::Pointer, &[address, address], &[address + 8, address]);
        assert_eq!((pointers.differing, pointers.addresses), (0, 1));
        let mut moved = Tally::default();
        let (one, other) = (address.to_ne_bytes(), (address + 8).to_ne_bytes());
        let same = |device: u64, cpu: u64| device + 8 == cpu;
        Elements::of(Scalar::Integer(8)).compare((&one, &other), 0, &Tolerance::default(), same, &mut moved);
        assert_eq!((moved.differing, moved.addresses), (0, 0), "an integer may hold an address of the same data");
    }

    #[test]
    fn members_have_names_and_padding_is_not_compared() {
        let field = |offset, scalar, path: &str| Field { offset, scalar, path: path.into() };
        let fields = vec![field(0, Scalar::Integer(4), ".n"), field(8, Scalar::Float(8), ".x[1]")];
        let elements = Elements { bytes: 16, before: 0, fields };
        let bytes = |n: i32, pad: i32, x: f64| [&n.to_ne_bytes()[..], &pad.to_ne_bytes(), &x.to_ne_bytes()].concat();
        let one = [bytes(1, 0, 1.0), bytes(1, 0, 1.0)].concat();
        let other = [bytes(1, 9, 1.0), bytes(1, 9, 2.0)].concat();
        let mut tally = Tally::default();
        elements.compare((&one, &other), 0, &Tolerance::default(), |_, _| false, &mut tally);
        let first = tally.first.unwrap();
        assert_eq!((tally.differing, first.element, first.path.as_str()), (1, 1, ".x[1]"));
    }

    /// `struct { int n; double x; char *name; }`, of which the section has `x` and what follows.
    #[test]
    fn a_section_may_begin_inside_an_element() {
        let field = |offset, scalar, path: &str| Field { offset, scalar, path: path.into() };
        let fields = vec![
            field(0, Scalar::Integer(4), ".n"),
            field(8, Scalar::Float(8), ".x"),
            field(16, Scalar::Pointer, ".name"),
        ];
        let elements = Elements { bytes: 24, before: 8, fields };
        let bytes = |x: f64, name: u64, n: u64, second: f64| {
            [x.to_ne_bytes(), name.to_ne_bytes(), n.to_ne_bytes(), second.to_ne_bytes()].concat()
        };
        let compared = |one: &[u8], other: &[u8], piece: usize| {
            let mut tally = Tally::default();
            for (k, (one, other)) in one.chunks(piece).zip(other.chunks(piece)).enumerate() {
                let at = (k * piece) as u64;
                elements.compare((one, other), at, &Tolerance::default(), |_, _| false, &mut tally);
            }
            tally
        };
        let one = bytes(1.0, 5, 3, 2.0);
        let found = |other: &[u8], piece| {
            let tally = compared(&one, other, piece);
            (tally.compared, tally.differing, tally.addresses, tally.first.map(|first| (first.element, first.path)))
        };
        let at = |element, path: &str| Some((element, path.to_owned()));
        for piece in [8, 16, 24, 32] {
            assert_eq!(found(&bytes(1.0 + 1e-14, 5, 3, 2.0), piece), (2, 0, 0, None));
            assert_eq!(found(&bytes(1.5, 6, 3, 2.0), piece), (2, 1, 1, at(0, ".x")));
            assert_eq!(found(&bytes(1.0, 5, 4, 2.5), piece), (2, 1, 0, at(1, ".n")));
        }
    }

    #[test]
    fn parts_of_scalars_are_compared_exactly() {
        let (one, other) = (1.0f64.to_ne_bytes(), (1.0f64 + 1e-15).to_ne_bytes());
        let elements = Elements { before: 4, ..Elements::of(Scalar::Float(8)) };
        let mut tally = Tally::default();
        elements.compare((&one, &other), 0, &Tolerance::default(), |_, _| false, &mut tally);
        assert_eq!((tally.compared, tally.differing), (2, 1));
    }

    #[test]
    fn types_are_guessed_from_many_values() {
        let guess = |bytes: Vec<u8>| Elements::guess(&bytes).fields[0].scalar;
        let doubles = (1..100).flat_map(|k| (f64::from(k) / 7.0).to_ne_bytes()).collect();
        assert_eq!(guess(doubles), Scalar::Float(8));
        let whole = (1..100).flat_map(|k| f64::from(k).to_ne_bytes()).collect();
        assert_eq!(guess(whole), Scalar::Float(8));
        let singles = (1..100u8).flat_map(|k| (f32::from(k) / 7.0).to_ne_bytes()).collect();
        assert_eq!(guess(singles), Scalar::Float(4));
        assert_eq!(guess((1..100).flat_map(i32::to_ne_bytes).collect()), Scalar::Integer(4));
        assert_eq!(
            guess((1..100u64).flat_map(|k| (0x7f00_0000_0000 + k * 8).to_ne_bytes()).collect()),
            Scalar::Pointer
        );
        assert_eq!(guess(b"abc".to_vec()), Scalar::Integer(1));
    }
}
