//! Fortran pointers to a component of an array of derived types (`p => cells%value`), and to arrays backwards.
//!
//! GCC computes start and length of the data from counts of elements, as if the elements lay side by side and upwards. The descriptor that
//! follows says how far apart they are (its span), so here the entry gets the range in which they really lie.

use super::Entries;
use super::kind::Kind;
use super::map::is_nothing;
use crate::Runtime;
use crate::ports::HostMemory;
use accord_types::{Error, ErrorCode, HostRange, Result};

/// Elements with something else of the program between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spaced {
    /// Bytes from one to the next.
    pub(crate) every: usize,
    /// Bytes of each.
    pub(crate) len: usize,
}

impl Runtime {
    /// Calls `act` with the entries, those of such pointers with the ranges in which their elements lie.
    ///
    /// # Errors
    /// Those of `act`; `acc_error_invalid_data_section` if there is no telling which elements are meant.
    pub(super) fn with_ranges<T>(
        &self,
        entries: &mut Entries<'_>,
        act: impl FnOnce(&mut Entries<'_>) -> Result<T>,
    ) -> Result<T> {
        const DESCRIPTOR: u16 = 0x05;
        if !entries.kinds.iter().any(|word| word & 0xff == DESCRIPTOR) {
            return act(entries);
        }
        let mut moved = Vec::new();
        for i in 0..entries.hosts.len().saturating_sub(1) {
            if entries.kinds[i + 1] & 0xff == DESCRIPTOR
                && let Some((range, spaced)) = real_range(entries, i, &*self.host)?
            {
                moved.push((i, range, spaced));
            }
        }
        if moved.is_empty() {
            return act(entries);
        }
        let mut sizes = entries.sizes.to_vec();
        let mut apart = Vec::new();
        for (i, range, spaced) in &mut moved {
            sizes[*i] = range.len;
            // The descriptor's pointer, whose size says how far from it the data starts.
            let pointer = *i + 2;
            if entries.hosts.get(pointer) == Some(&entries.hosts[*i + 1])
                && Kind::decode(entries.kinds[pointer]).is_ok_and(Kind::follows_data)
            {
                let further = range.start.wrapping_sub(entries.hosts[*i]);
                sizes[pointer] = sizes[pointer].wrapping_add(further);
            }
            // What was there comes back after the call: the array is the compiler's.
            range.start = std::mem::replace(&mut entries.hosts[*i], range.start);
            apart.extend(spaced.map(|spaced| (*i, spaced)));
        }
        let done = act(&mut Entries { hosts: entries.hosts, sizes: &sizes, kinds: entries.kinds, apart: &apart });
        for (i, range, _) in moved {
            entries.hosts[i] = range.start;
        }
        done
    }
}

impl Entries<'_> {
    /// How the elements of entry `i` lie, if something else is between them.
    pub(super) fn spaced(&self, i: usize) -> Option<Spaced> {
        self.apart.iter().find(|(entry, _)| *entry == i).map(|(_, spaced)| *spaced)
    }
}

/// Where the elements of entry `i` lie, if that is not what the entry says.
fn real_range(entries: &Entries<'_>, i: usize, host: &dyn HostMemory) -> Result<Option<(HostRange, Option<Spaced>)>> {
    let (start, bytes) = (entries.hosts[i], entries.sizes[i]);
    let (at, len) = (entries.hosts[i + 1], entries.sizes[i + 1]);
    let about_data = matches!(Kind::decode(entries.kinds[i]), Ok(Kind::Data(_) | Kind::Release { .. }));
    if !about_data || is_nothing(start) || is_nothing(at) || len > Descriptor::MAX {
        return Ok(None);
    }
    let mut words = [0; Descriptor::MAX];
    host.read(at, &mut words[..len]);
    let Some(descriptor) = Descriptor::decode(&words[..len]) else { return Ok(None) };
    match descriptor.meant(start.cast_signed() as i64, bytes.cast_signed() as i64) {
        Some(Meant::AsSaid) | None => Ok(None),
        Some(Meant::Elements { low, high }) => Ok(descriptor.range(low, high)),
        Some(Meant::Unclear) => {
            let range = HostRange { start, len: bytes.cast_signed().max(0).cast_unsigned() };
            let more = "as the compiler passes it, of a pointer to a component of an array of derived types";
            Err(Error::about(ErrorCode::InvalidDataSection, range, "may be one of several sections", more)
                .remedy("name the whole pointer, or a section of one dimension with two elements or more"))
        }
    }
}

/// What an entry means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meant {
    /// The bytes that it names.
    AsSaid,
    /// Elements from `low` to `high`, counted in spans from the descriptor's base.
    Elements { low: i64, high: i64 },
    /// More than one thing.
    Unclear,
}

/// gfortran's array descriptor, from GCC 9 on.
struct Descriptor {
    base: i64,
    /// Bytes of an element.
    element: i64,
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
    const MAX: usize = Self::FIXED + Self::RANK_MAX * Self::DIMENSION;

    /// The descriptor of an array that has elements, if they don't simply lie side by side and upwards.
    fn decode(bytes: &[u8]) -> Option<Self> {
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
        let all = &dimensions[..rank];
        let backwards = all.iter().any(|(stride, _)| *stride < 0);
        let odd = all.iter().any(|(stride, extent)| *stride == 0 || *extent <= 0);
        if base == 0 || element <= 0 || span < element || odd || (span == element && !backwards) {
            return None;
        }
        Some(Self { base, element, span, rank, dimensions })
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

    /// What an entry of `bytes` at `start` means. None if GCC can't have computed it from this descriptor.
    fn meant(&self, start: i64, bytes: i64) -> Option<Meant> {
        let (low, high) = self.bounds()?;
        let within = |element: i64| (low..=high).contains(&element);
        let distance = start.checked_sub(self.base)?;
        if bytes % self.element != 0 {
            return None;
        }
        let count = bytes / self.element;
        let (stride, extent) = *self.all().last()?;
        if distance == 0 && Some(count) == stride.checked_mul(extent) {
            return Some(Meant::Elements { low, high });
        }
        // A single element's address is right; a section's start is off.
        let single = count == 1 && distance % self.span == 0 && within(distance / self.span);
        let section = if distance % self.element == 0 { self.section(distance / self.element, count) } else { None };
        match section {
            Some(Meant::Elements { low, high }) if !within(low) || !within(high) => single.then_some(Meant::AsSaid),
            Some(_) if single && distance != 0 && self.span != self.element => Some(Meant::Unclear),
            _ if single => Some(Meant::AsSaid),
            found => found,
        }
    }

    /// A section from element `first` on, of `count` steps by GCC's reckoning.
    fn section(&self, first: i64, count: i64) -> Option<Meant> {
        let (low, high) = self.bounds()?;
        if let [(stride, _)] = self.all() {
            if count % stride != 0 {
                // A stride of the section's own.
                return Some(Meant::Unclear).filter(|_| count != 1);
            }
            let elements = count / stride;
            if elements <= 0 {
                return Some(Meant::AsSaid);
            }
            let last = first.checked_add((elements - 1).checked_mul(*stride)?)?;
            return Some(match *stride {
                // A section's own stride lets GCC count past the end.
                1.. => Meant::Elements { low: first, high: last.min(high) },
                _ => Meant::Elements { low: last.max(low), high: first },
            });
        }
        if self.all().iter().any(|(stride, _)| *stride < 0) {
            return Some(Meant::Unclear);
        }
        if count <= 0 {
            return Some(Meant::AsSaid);
        }
        Some(Meant::Elements { low: first, high: first.checked_add(count - 1)?.min(high) })
    }

    fn range(&self, low: i64, high: i64) -> Option<(HostRange, Option<Spaced>)> {
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
        let mut words = vec![0x1000, 0, 4, (dimensions.len() as i64) << 32, span];
        words.extend(dimensions.iter().flat_map(|(stride, extent)| [*stride, 1, *extent]));
        let bytes: Vec<u8> = words.iter().flat_map(|word: &i64| word.to_ne_bytes()).collect();
        Descriptor::decode(&bytes)
    }

    fn elements(low: i64, high: i64) -> Option<Meant> {
        Some(Meant::Elements { low, high })
    }

    #[test]
    fn plain_arrays_are_left_alone() {
        assert!(descriptor(4, &[(1, 10)]).is_none());
        assert!(descriptor(4, &[(2, 5), (20, 3)]).is_none());
        assert!(descriptor(16, &[(1, 0)]).is_none());
    }

    #[test]
    fn lengths_and_starts_count_spans() {
        let cells = descriptor(16, &[(1, 10)]).unwrap();
        assert_eq!(cells.meant(0x1000, 40), elements(0, 9));
        assert_eq!(cells.meant(0x1000 + 8, 12), elements(2, 4));
        assert_eq!(cells.meant(0x1000 + 8, -4), Some(Meant::AsSaid), "no elements");
        let spaced = Some(Spaced { every: 16, len: 4 });
        assert_eq!(cells.range(0, 9), Some((HostRange { start: 0x1000, len: 148 }, spaced)));
    }

    #[test]
    fn an_element_is_told_from_a_section_or_neither() {
        let cells = descriptor(16, &[(1, 10)]).unwrap();
        assert_eq!(cells.meant(0x1000 + 9 * 16, 4), Some(Meant::AsSaid));
        assert_eq!(cells.meant(0x1000 + 5 * 4, 4), elements(5, 5));
        assert_eq!(cells.meant(0x1000 + 16, 4), Some(Meant::Unclear));
    }

    #[test]
    fn arrays_may_go_backwards() {
        let down = descriptor(4, &[(-1, 10)]).unwrap();
        assert_eq!(down.meant(0x1000, -40), elements(-9, 0));
        assert_eq!(down.range(-9, 0), Some((HostRange { start: 0x1000 - 36, len: 40 }, None)));
        assert_eq!(down.meant(0x1000 - 8, -12), elements(-4, -2));
    }
}
