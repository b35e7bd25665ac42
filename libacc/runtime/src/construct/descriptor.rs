//! gfortran's array descriptors: determine which elements an entry means whose length GCC has computed from one.

use accord_types::HostRange;

/// Elements that are not contiguous in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spaced {
    /// Bytes from one to the next.
    pub(crate) every: usize,
    /// Bytes of each.
    pub(crate) len: usize,
}

/// The meaning of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryMeaning {
    /// The entry's own bytes.
    AsSaid,
    /// Elements from `low` to `high`, counted in spans from the descriptor's base.
    Elements { low: i64, high: i64 },
    /// Ambiguous.
    Unclear,
}

/// The array whose elements a descriptor describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ArrayOfDescriptor {
    /// The variable's own.
    Own,
    /// The variable's own, or those of the array that the variable points into; then a component of each is meant.
    Either {
        /// Whether all of them are meant, at a likely size of the component.
        likely: bool,
    },
    /// Those of the array that the variable points into.
    Array,
}

/// gfortran's array descriptor, from GCC 9 on.
#[derive(Clone)]
pub(super) struct Descriptor {
    base: i64,
    /// Bytes of an element.
    element: i64,
    /// gfortran's number of the elements' type.
    kind: u8,
    /// Bytes from one element to the next.
    span: i64,
    rank: usize,
    /// Strides in spans, and extents.
    dimensions: [(i64, i64); Self::RANK_MAX],
}

impl Descriptor {
    /// Fortran's highest rank.
    const RANK_MAX: usize = 15;
    const FIXED: usize = 40;
    const DIMENSION: usize = 24;
    /// Bytes of the largest.
    pub(super) const MAX: usize = Self::FIXED + Self::RANK_MAX * Self::DIMENSION;

    /// Numbers of types, from integers to characters.
    const TYPE_MIN: u8 = 1;
    const TYPE_MAX: u8 = 6;
    const COMPLEX: u8 = 4;
    const DERIVED: u8 = 5;

    /// Bytes of the smallest.
    pub(super) const MIN: usize = Self::FIXED + Self::DIMENSION;

    /// Returns the length of the descriptor at the start of `bytes`, which may be anything that begins with a pointer. gfortran's descriptors are
    /// consistent: the offset follows from strides and lower bounds.
    pub(super) fn len(bytes: &[u8]) -> Option<usize> {
        let word = |at: usize| Some(i64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let rank = usize::from(*bytes.get(28)?);
        let len = Self::FIXED + rank * Self::DIMENSION;
        let version = bytes.get(24..28)?;
        let known_type = (Self::TYPE_MIN..=Self::TYPE_MAX).contains(bytes.get(29)?);
        if rank == 0 || rank > Self::RANK_MAX || bytes.len() < len || version != [0; 4] || !known_type {
            return None;
        }
        let mut offset = 0i64;
        for at in (Self::FIXED..len).step_by(Self::DIMENSION) {
            let (stride, lower, upper) = (word(at)?, word(at + 8)?, word(at + 16)?);
            offset = offset.checked_sub(stride.checked_mul(lower)?)?;
            if stride == 0 || upper < lower.checked_sub(1)? {
                return None;
            }
        }
        let element = word(16)?;
        (word(0)? != 0 && word(8)? == offset && element > 0 && word(32)? > 0).then_some(len)
    }

    /// The descriptor of an array that has elements.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(i64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let rank = usize::from(*bytes.get(28)?);
        if rank == 0 || rank > Self::RANK_MAX || bytes.len() != Self::FIXED + rank * Self::DIMENSION {
            return None;
        }
        let (base, element, span) = (word(0)?, word(16)?, word(32)?);
        let mut dimensions = [(0, 0); Self::RANK_MAX];
        for (d, dimension) in dimensions[..rank].iter_mut().enumerate() {
            let at = Self::FIXED + d * Self::DIMENSION;
            *dimension = (word(at)?, word(at + 16)?.checked_sub(word(at + 8)?)?.checked_add(1)?);
        }
        let odd = dimensions[..rank].iter().any(|(stride, extent)| *stride == 0 || *extent <= 0);
        if base == 0 || element <= 0 || span < element || odd {
            return None;
        }
        Some(Self { base, element, kind: *bytes.get(29)?, span, rank, dimensions })
    }

    /// Whether the elements simply lie side by side and upwards.
    pub(super) fn is_plain(&self) -> bool {
        self.span == self.element && self.all().iter().all(|(stride, _)| *stride > 0)
    }

    /// Returns whose elements it describes, for an entry of `bytes` at `start` that was computed from it. `p =>
    /// cells%value`, where `cells` is allocatable or a pointer, gives `p` the descriptor of `cells`, with another
    /// start: an element is a whole cell there, but GCC counts the bytes of values.
    pub(super) fn whose(&self, start: i64, bytes: i64, alignment: i64) -> ArrayOfDescriptor {
        let all = self.all().last().and_then(|(stride, extent)| stride.checked_mul(*extent)).unwrap_or(0);
        let part_of_it = matches!(self.kind, Self::COMPLEX | Self::DERIVED) && self.span == self.element;
        let distance = start.wrapping_sub(self.base);
        let whole = distance == 0 && all.checked_mul(self.element) == Some(bytes);
        if !part_of_it || bytes == 0 || whole {
            return ArrayOfDescriptor::Own;
        }
        if bytes % self.element != 0 || distance % self.element != 0 {
            return ArrayOfDescriptor::Array;
        }
        // Numbers are as large as their alignment, complex ones twice that.
        let fits = |size: i64| size < self.element && all.checked_mul(size) == Some(bytes);
        ArrayOfDescriptor::Either { likely: distance == 0 && (fits(alignment) || fits(2 * alignment)) }
    }

    /// Returns the size of its elements.
    pub(super) fn element(&self) -> i64 {
        self.element
    }

    /// Returns the descriptor of the elements' components of `bytes` bytes.
    pub(super) fn component(&self, bytes: i64) -> Self {
        Self { element: bytes, ..self.clone() }
    }

    /// The size of a component that follows from the type: a complex number's parts.
    pub(super) fn half(&self) -> Option<i64> {
        (self.kind == Self::COMPLEX).then_some(self.element / 2)
    }

    /// Returns the range of all elements.
    pub(super) fn whole(&self) -> Option<HostRange> {
        let (low, high) = self.bounds()?;
        self.range(low, high).map(|(range, _)| range)
    }

    /// Returns a range of contiguous elements without what follows the last of them. GCC counts whole strides, also after that: up to where
    /// another element would begin, which may be past the end of the array.
    pub(super) fn trimmed(&self, range: HostRange) -> Option<HostRange> {
        let whole = self.whole()?;
        let len = (whole.start + whole.len).checked_sub(range.start)?;
        (whole.start <= range.start && len > 0 && len < range.len).then_some(HostRange { len, ..range })
    }

    fn all(&self) -> &[(i64, i64)] {
        &self.dimensions[..self.rank]
    }

    /// The lowest and the highest element.
    fn bounds(&self) -> Option<(i64, i64)> {
        let (mut low, mut high) = (0i64, 0i64);
        for (stride, extent) in self.all() {
            let last = stride.checked_mul(extent - 1)?;
            low = low.checked_add(last.min(0))?;
            high = high.checked_add(last.max(0))?;
        }
        Some((low, high))
    }

    /// Returns the meaning of an entry of `bytes` at `start`. `None` if GCC can't have computed it from this
    /// descriptor.
    pub(super) fn meant(&self, start: i64, bytes: i64) -> Option<EntryMeaning> {
        let (low, high) = self.bounds()?;
        let within = |element: i64| (low..=high).contains(&element);
        let distance = start.checked_sub(self.base)?;
        if bytes % self.element != 0 {
            return None;
        }
        let count = bytes / self.element;
        let (stride, extent) = *self.all().last()?;
        if distance == 0 && Some(count) == stride.checked_mul(extent) {
            return Some(EntryMeaning::Elements { low, high });
        }
        // A single element's address is right; a section's start is off.
        let single = count == 1 && distance % self.span == 0 && within(distance / self.span);
        let section = if distance % self.element == 0 { self.section(distance / self.element, count) } else { None };
        match section {
            Some(EntryMeaning::Elements { low, high }) if !within(low) || !within(high) => {
                single.then_some(EntryMeaning::AsSaid)
            }
            Some(_) if single && distance != 0 && self.span != self.element => Some(EntryMeaning::Unclear),
            _ if single => Some(EntryMeaning::AsSaid),
            found => found,
        }
    }

    /// A section from element `first` on, of `count` steps by GCC's reckoning.
    fn section(&self, first: i64, count: i64) -> Option<EntryMeaning> {
        let (low, high) = self.bounds()?;
        if let [(stride, _)] = self.all() {
            if count % stride != 0 {
                // A stride of the section's own.
                return Some(EntryMeaning::Unclear).filter(|_| count != 1);
            }
            let elements = count / stride;
            if elements <= 0 {
                return Some(EntryMeaning::AsSaid);
            }
            let last = first.checked_add((elements - 1).checked_mul(*stride)?)?;
            return Some(match *stride {
                // A section's own stride lets GCC count past the end.
                1.. => EntryMeaning::Elements { low: first, high: last.min(high) },
                _ => EntryMeaning::Elements { low: last.max(low), high: first },
            });
        }
        if self.all().iter().any(|(stride, _)| *stride < 0) {
            return Some(EntryMeaning::Unclear);
        }
        if count <= 0 {
            return Some(EntryMeaning::AsSaid);
        }
        Some(EntryMeaning::Elements { low: first, high: first.checked_add(count - 1)?.min(high) })
    }

    pub(super) fn range(&self, low: i64, high: i64) -> Option<(HostRange, Option<Spaced>)> {
        let start = self.base.checked_add(low.checked_mul(self.span)?)?;
        let len = (high - low).checked_mul(self.span)?.checked_add(self.element)?;
        let step = self.all().iter().fold(0, |all, (stride, _)| gcd(all, stride.unsigned_abs()));
        let every = usize::try_from(step).ok()?.checked_mul(usize::try_from(self.span).ok()?)?;
        let element = usize::try_from(self.element).ok()?;
        let spaced = (every > element).then_some(Spaced { every, len: element });
        Some((HostRange { start: usize::try_from(start).ok()?, len: usize::try_from(len).ok()? }, spaced))
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(span: i64, dimensions: &[(i64, i64)]) -> Option<Descriptor> {
        typed((3, 4), span, dimensions)
    }

    fn typed((kind, element): (i64, i64), span: i64, dimensions: &[(i64, i64)]) -> Option<Descriptor> {
        let mut words = vec![0x1000, 0, element, (dimensions.len() as i64) << 32 | kind << 40, span];
        words.extend(dimensions.iter().flat_map(|(stride, extent)| [*stride, 1, *extent]));
        let bytes: Vec<u8> = words.iter().flat_map(|word: &i64| word.to_ne_bytes()).collect();
        Descriptor::decode(&bytes)
    }

    fn elements(low: i64, high: i64) -> Option<EntryMeaning> {
        Some(EntryMeaning::Elements { low, high })
    }

    #[test]
    fn a_descriptor_is_told_from_other_bytes_behind_a_pointer() {
        let words = |offset: i64, kind: i64, span: i64| {
            let words = [0x1000, offset, 8, 2 << 32 | kind << 40, span, 1, 3, 22, 20, -1, 5, 99];
            words.iter().flat_map(|word: &i64| word.to_ne_bytes()).collect::<Vec<u8>>()
        };
        assert_eq!(Descriptor::len(&words(17, 3, 8)), Some(40 + 2 * 24));
        assert_eq!(Descriptor::len(&words(17, 3, 8)[..40 + 24]), None, "cut off");
        assert_eq!(Descriptor::len(&words(16, 3, 8)), None, "another offset");
        assert_eq!(Descriptor::len(&words(17, 7, 8)), None, "no type");
        assert_eq!(Descriptor::len(&words(17, 3, 0)), None, "no span");
        assert_eq!(Descriptor::len(&[0; 64]), None);
    }

    #[test]
    fn bytes_after_the_last_element_are_trimmed() {
        let range = |start: usize, len| HostRange { start: 0x1000 + start, len };
        let strided = descriptor(4, &[(3, 4)]).unwrap();
        assert_eq!(strided.trimmed(range(0, 48)), Some(range(0, 40)));
        assert_eq!(strided.trimmed(range(12, 36)), Some(range(12, 28)), "a section of it");
        assert_eq!(strided.trimmed(range(0, 40)), None);
        assert_eq!(strided.trimmed(range(44, 8)), None, "none of its elements");
        let inner = descriptor(4, &[(1, 5), (6, 4)]).unwrap();
        assert_eq!(inner.trimmed(range(0, 96)), Some(range(0, 92)));
        assert_eq!(descriptor(4, &[(1, 6), (6, 4)]).unwrap().trimmed(range(0, 96)), None, "side by side");
    }

    #[test]
    fn plain_arrays_are_left_alone() {
        assert!(descriptor(4, &[(1, 10)]).unwrap().is_plain());
        assert!(descriptor(4, &[(2, 5), (20, 3)]).unwrap().is_plain());
        assert!(!descriptor(16, &[(1, 10)]).unwrap().is_plain());
        assert!(descriptor(16, &[(1, 0)]).is_none());
    }

    #[test]
    fn lengths_and_starts_count_spans() {
        let cells = descriptor(16, &[(1, 10)]).unwrap();
        assert_eq!(cells.meant(0x1000, 40), elements(0, 9));
        assert_eq!(cells.meant(0x1000 + 8, 12), elements(2, 4));
        assert_eq!(cells.meant(0x1000 + 8, -4), Some(EntryMeaning::AsSaid), "no elements");
        let spaced = Some(Spaced { every: 16, len: 4 });
        assert_eq!(cells.range(0, 9), Some((HostRange { start: 0x1000, len: 148 }, spaced)));
    }

    #[test]
    fn an_element_is_told_from_a_section_or_neither() {
        let cells = descriptor(16, &[(1, 10)]).unwrap();
        assert_eq!(cells.meant(0x1000 + 9 * 16, 4), Some(EntryMeaning::AsSaid));
        assert_eq!(cells.meant(0x1000 + 5 * 4, 4), elements(5, 5));
        assert_eq!(cells.meant(0x1000 + 16, 4), Some(EntryMeaning::Unclear));
    }

    #[test]
    fn arrays_may_go_backwards() {
        let down = descriptor(4, &[(-1, 10)]).unwrap();
        assert_eq!(down.meant(0x1000, -40), elements(-9, 0));
        assert_eq!(down.range(-9, 0), Some((HostRange { start: 0x1000 - 36, len: 40 }, None)));
        assert_eq!(down.meant(0x1000 - 8, -12), elements(-4, -2));
    }

    #[test]
    fn a_component_of_an_allocatable_array_is_told_by_its_length_or_not_at_all() {
        let cells = typed((5, 16), 16, &[(1, 10)]).unwrap();
        assert_eq!(cells.whose(0x1000, 160, 4), ArrayOfDescriptor::Own, "the array itself");
        assert_eq!(cells.whose(0x1000, 40, 4), ArrayOfDescriptor::Array, "10 values are no number of cells");
        assert_eq!(cells.whose(0x1000 + 8, 16, 4), ArrayOfDescriptor::Array, "no cell starts there");
        assert_eq!(cells.whose(0x1000 + 32, 48, 4), ArrayOfDescriptor::Either { likely: false });
        let more = typed((5, 16), 16, &[(1, 100)]).unwrap();
        assert_eq!(more.whose(0x1000, 400, 4), ArrayOfDescriptor::Either { likely: true }, "all values, or 25 cells");
        assert_eq!(more.whose(0x1000, 416, 4), ArrayOfDescriptor::Either { likely: false });
        assert_eq!(
            descriptor(4, &[(1, 10)]).unwrap().whose(0x1000, 7, 4),
            ArrayOfDescriptor::Own,
            "no number has components"
        );
        let values = cells.component(4);
        assert_eq!(values.meant(0x1000, 40), elements(0, 9));
        assert_eq!(values.whole(), Some(HostRange { start: 0x1000, len: 148 }));
        let complex = typed((4, 16), 16, &[(1, 5)]).unwrap();
        assert_eq!((complex.whose(0x1000, 40, 8), complex.half()), (ArrayOfDescriptor::Array, Some(8)));
    }
}
