//! Intrinsic reductions of device arrays in host code: parts of the array are copied to the host and reduced there.

use crate::descriptor::Descriptor;
use crate::errors::{SourceLine, end};
use crate::transfer::{self, Mode};
use crate::{memory, modules};
use std::num::Wrapping;
use std::ops::{Add, Mul};

/// Most bytes of an array that are on the host at a time.
const PART: usize = 16 << 20;
/// Numbers whose sum is formed before it is added to that of the others, so that rounding errors stay small.
const GROUP: usize = 1 << 12;

/// An element of an array, and the type in which sums of it are formed.
trait Element: Copy + Default {
    type Total: Copy + Default + Add<Output = Self::Total>;
    fn wide(self) -> Self::Total;
    fn narrow(total: Self::Total) -> Self;
}

/// An integer or real element.
trait Ordered: Element<Total: Mul<Output = Self::Total>> + PartialOrd {
    const ONE: Self;
    /// Fortran's `huge`.
    const LARGEST: Self;
    /// Fortran's `-huge`.
    const SMALLEST: Self;
    /// Whether it is a number. Extremes skip other elements.
    fn is_number(self) -> bool;
}

macro_rules! integers {
    ($($kind:ty)*) => {$(
        impl Element for $kind {
            type Total = Wrapping<$kind>;
            fn wide(self) -> Self::Total {
                Wrapping(self)
            }
            fn narrow(total: Self::Total) -> Self {
                total.0
            }
        }

        impl Ordered for $kind {
            const ONE: Self = 1;
            const LARGEST: Self = <$kind>::MAX;
            const SMALLEST: Self = -<$kind>::MAX;
            fn is_number(self) -> bool {
                true
            }
        }
    )*};
}
integers!(i32 i64);

macro_rules! reals {
    ($($kind:ty)*) => {$(
        impl Element for $kind {
            type Total = f64;
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn narrow(total: f64) -> Self {
                total as $kind
            }
        }

        impl Ordered for $kind {
            const ONE: Self = 1.0;
            const LARGEST: Self = <$kind>::MAX;
            const SMALLEST: Self = <$kind>::MIN;
            fn is_number(self) -> bool {
                !self.is_nan()
            }
        }
    )*};
}
reals!(f32 f64);

/// A complex number as C and Fortran have it.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
#[repr(C)]
struct Complex<T> {
    real: T,
    imaginary: T,
}

impl Add for Complex<f64> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { real: self.real + other.real, imaginary: self.imaginary + other.imaginary }
    }
}

impl<T: Element<Total = f64>> Element for Complex<T> {
    type Total = Complex<f64>;
    fn wide(self) -> Complex<f64> {
        Complex { real: self.real.wide(), imaginary: self.imaginary.wide() }
    }
    fn narrow(total: Complex<f64>) -> Self {
        Self { real: T::narrow(total.real), imaginary: T::narrow(total.imaginary) }
    }
}

/// Reads an array in array element order.
struct Reader<'a, T> {
    array: &'a Descriptor,
    /// The address of the first element on the device.
    base: usize,
    count: usize,
    /// Elements that are contiguous.
    run: usize,
    position: usize,
    host: Vec<T>,
}

impl<'a, T: Element> Reader<'a, T> {
    fn new(array: &'a Descriptor) -> Self {
        let count = array.elements();
        if count > 0 && array.base == 0 {
            end(SourceLine::now(), "a reduction of an array that is not allocated", "allocate it before");
        }
        let base = modules::device_address(array.base).unwrap_or(array.base);
        let run = if array.is_contiguous() { count } else { array.run() };
        Self { array, base, count, run, position: 0, host: vec![T::default(); (PART / size_of::<T>()).min(count)] }
    }

    /// Returns the next elements; none at the end.
    fn next(&mut self) -> &[T] {
        // Managed memory is host memory here.
        let mode = if memory::device_of(self.base).is_some() { Mode::DeviceToHost } else { Mode::HostToDevice };
        let mut filled = 0;
        while filled < self.host.len() && self.position < self.count {
            let within = self.position % self.run;
            let count = (self.run - within).min(self.host.len() - filled);
            let start = self.array.address(self.position - within).wrapping_sub(self.array.base);
            let from = self.base.wrapping_add(start) + within * size_of::<T>();
            let to = self.host[filled..].as_mut_ptr().expose_provenance();
            transfer::bytes(to, from, count * size_of::<T>(), mode);
            filled += count;
            self.position += count;
        }
        &self.host[..filled]
    }

    fn each(mut self, mut take: impl FnMut(&[T])) {
        while self.position < self.count {
            take(self.next());
        }
    }
}

fn sum<T: Element>(array: &Descriptor) -> T {
    let mut sum = T::Total::default();
    Reader::new(array).each(|part: &[T]| {
        for group in part.chunks(GROUP) {
            sum = sum + group.iter().fold(T::Total::default(), |sum, element| sum + element.wide());
        }
    });
    T::narrow(sum)
}

fn product<T: Ordered>(array: &Descriptor) -> T {
    let mut product = T::ONE.wide();
    Reader::new(array).each(|part: &[T]| product = part.iter().fold(product, |all, element| all * element.wide()));
    T::narrow(product)
}

/// Returns the element that `is_better` than all others, `empty` for an array without elements.
fn extreme<T: Ordered>(array: &Descriptor, empty: T, is_better: impl Fn(T, T) -> bool) -> T {
    let (mut best, mut other) = (None, None);
    Reader::new(array).each(|part: &[T]| {
        for element in part.iter().copied() {
            if !element.is_number() {
                other = Some(element);
            } else if best.is_none_or(|best| is_better(element, best)) {
                best = Some(element);
            }
        }
    });
    best.or(other).unwrap_or(empty)
}

fn dot_product<T: Ordered>(one: &Descriptor, other: &Descriptor) -> T {
    let (mut one, mut other) = (Reader::<T>::new(one), Reader::<T>::new(other));
    if one.count != other.count {
        end(
            SourceLine::now(),
            &format!("dot_product of an array of {} elements and one of {}", one.count, other.count),
            "give both the same size",
        );
    }
    let mut sum = T::Total::default();
    while one.position < one.count {
        for (one, other) in one.next().chunks(GROUP).zip(other.next().chunks(GROUP)) {
            let products = one.iter().zip(other).map(|(one, other)| one.wide() * other.wide());
            sum = sum + products.fold(T::Total::default(), |sum, product| sum + product);
        }
    }
    T::narrow(sum)
}

macro_rules! sums {
    ($($name:ident: $kind:ty;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(array: &Descriptor) -> $kind {
            sum(array)
        }
    )*};
}

macro_rules! ordered {
    ($($kind:ty: $product:ident $maxval:ident $minval:ident $dot_product:ident;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $product(array: &Descriptor) -> $kind {
            product(array)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $maxval(array: &Descriptor) -> $kind {
            extreme(array, <$kind>::SMALLEST, |one, other| one > other)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $minval(array: &Descriptor) -> $kind {
            extreme(array, <$kind>::LARGEST, |one, other| one < other)
        }

        #[unsafe(no_mangle)]
        extern "C" fn $dot_product(one: &Descriptor, other: &Descriptor) -> $kind {
            dot_product(one, other)
        }
    )*};
}

sums! {
    accord_cuf_sum_i4: i32;
    accord_cuf_sum_i8: i64;
    accord_cuf_sum_r4: f32;
    accord_cuf_sum_r8: f64;
    accord_cuf_sum_c4: Complex<f32>;
    accord_cuf_sum_c8: Complex<f64>;
}

ordered! {
    i32: accord_cuf_product_i4 accord_cuf_maxval_i4 accord_cuf_minval_i4 accord_cuf_dot_product_i4;
    i64: accord_cuf_product_i8 accord_cuf_maxval_i8 accord_cuf_minval_i8 accord_cuf_dot_product_i8;
    f32: accord_cuf_product_r4 accord_cuf_maxval_r4 accord_cuf_minval_r4 accord_cuf_dot_product_r4;
    f64: accord_cuf_product_r8 accord_cuf_maxval_r8 accord_cuf_minval_r8 accord_cuf_dot_product_r8;
}
