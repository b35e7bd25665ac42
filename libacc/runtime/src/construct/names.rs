//! What the entries of a construct name, to distinguish data of one entry from data that several name.

use super::kind::Kind;
use accord_types::HostRange;

/// The memory that a construct's entries name, gathered when an entry has to be compared with the others.
#[derive(Default)]
pub(crate) struct Names {
    gathered: bool,
    /// Addresses that pointers name.
    references: Vec<usize>,
    /// First byte and end of each section, in order.
    sections: Vec<(usize, usize)>,
    /// Whether no byte is in two sections.
    apart: bool,
    /// Whether there are pointers, or members of objects.
    pointers: bool,
    /// First byte and end of the range that has all scalars, and maybe other memory between them.
    scalars: (usize, usize),
    marks: Marks,
    /// Whether some are set: clearing all of them costs more than the rest of a small construct.
    marked: bool,
    /// Size of a block for all small variables that are copied both ways.
    space: usize,
}

/// Largest variable that is taken for a scalar.
pub(super) const SCALAR_MAX: usize = 64;

/// The bytes of scalars by the low bits of their addresses, to show without sorting that they are disjoint.
#[derive(Default)]
struct Marks {
    bytes: [u64; Self::WORDS],
    /// Those that two of them may have.
    twice: u64,
}

impl Marks {
    const WORDS: usize = 32;
    const BITS: usize = u64::BITS as usize;

    /// `len` is from 1 to [`SCALAR_MAX`].
    #[inline]
    fn add(&mut self, start: usize, len: usize) {
        const { assert!(SCALAR_MAX <= Self::BITS) };
        let (word, bit) = (start / Self::BITS, start % Self::BITS);
        let ones = u64::MAX >> (Self::BITS - len);
        self.set(word, ones << bit);
        if bit + len > Self::BITS {
            self.set(word + 1, ones >> (Self::BITS - bit));
        }
    }

    #[inline]
    fn set(&mut self, word: usize, ones: u64) {
        let marks = &mut self.bytes[word % Self::WORDS];
        self.twice |= *marks & ones;
        *marks |= ones;
    }
}

impl Names {
    pub(super) fn clear(&mut self) {
        self.gathered = false;
        self.pointers = false;
        self.references.clear();
        self.sections.clear();
        self.scalars = (usize::MAX, 0);
        self.space = 0;
        if self.marked {
            self.marks = Marks::default();
            self.marked = false;
        }
    }

    pub(super) fn are_gathered(&self) -> bool {
        self.gathered
    }

    /// Adds an entry at an address, of so many bytes if it is a section. `pointed` returns its target, if it is a pointer.
    pub(super) fn add(&mut self, kind: Kind, host: usize, len: usize, pointed: impl FnOnce() -> usize) {
        self.pointers |= kind.follows_data() || matches!(kind, Kind::Zero | Kind::Struct);
        match kind {
            Kind::Data(_) => self.add_section(host, len),
            Kind::Zero | Kind::AlwaysPointer => self.references.push(host),
            Kind::Pointer | Kind::Attach => self.references.extend([host, pointed()]),
            _ => {}
        }
    }

    /// Adds a section of 1 to [`SCALAR_MAX`] bytes that is copied both ways. After the last one the caller asks
    /// [`Names::scalars_may_meet`], and adds them by [`Names::add_section`] too if they may.
    #[inline]
    pub(super) fn add_scalar(&mut self, start: usize, len: usize) {
        self.scalars = (self.scalars.0.min(start), self.scalars.1.max(start.saturating_add(len)));
        self.marks.add(start, len);
        self.marked = true;
        self.add_room(len, 8);
    }

    /// Counts one more small variable that is copied both ways. `align` is 8 or more.
    #[inline]
    pub(super) fn add_room(&mut self, len: usize, align: usize) {
        // The most bytes that alignment can skip before one.
        self.space += len.next_multiple_of(8) + align - 8;
    }

    /// Whether a byte of a scalar may be in another section too, which needs an exact check.
    pub(super) fn scalars_may_meet(&self) -> bool {
        let (start, end) = self.scalars;
        self.marks.twice != 0 || self.sections.iter().any(|section| section.0 < end && start < section.1)
    }

    /// Adds a section.
    pub(super) fn add_section(&mut self, start: usize, len: usize) {
        self.sections.push((start, start.saturating_add(len)));
    }

    /// Adds an entry that is not there: an absent argument, or a null pointer.
    pub(super) fn add_nothing(&mut self, kind: Kind) {
        self.pointers |= kind.follows_data();
    }

    /// All entries were added.
    pub(super) fn finish(&mut self) {
        self.gathered = true;
        self.sections.sort_unstable();
        self.apart = self.sections.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    }

    /// Whether a pointer points to a byte of a range, or to its end.
    pub(super) fn refer_to(&self, range: HostRange) -> bool {
        self.references.iter().any(|address| (range.start..=range.start + range.len).contains(address))
    }

    /// Whether no byte is in two sections.
    pub(super) fn are_apart(&self) -> bool {
        self.apart
    }

    /// Returns the range that has all scalars, and maybe other memory between them.
    pub(super) fn scalars(&self) -> HostRange {
        let (start, end) = self.scalars;
        HostRange { start, len: end.saturating_sub(start) }
    }

    /// Returns the size of a block with all small variables that are copied both ways.
    pub(super) fn space(&self) -> usize {
        self.space
    }

    /// Whether no byte is in two sections, and there are only sections and values.
    pub(super) fn are_plain(&self) -> bool {
        self.apart && !self.pointers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::kind::Data;

    fn names(sections: &[(usize, usize)]) -> Names {
        let mut names = Names::default();
        for (start, len) in sections {
            names.add(Kind::Data(Data::BOTH_WAYS), *start, *len, || 0);
        }
        names.finish();
        names
    }

    #[test]
    fn sections_are_apart_if_no_byte_is_in_two() {
        assert!(names(&[]).are_plain() && names(&[(5000, 8)]).are_plain());
        assert!(names(&[(6000, 8), (5000, 8), (5008, 4)]).are_plain());
        assert!(!names(&[(6000, 8), (5000, 2000), (7000, 4)]).are_apart());
        assert!(!names(&[(5000, 8), (5000, 8)]).are_apart());
        assert!(!names(&[(5000, 5000), (5100, 8), (9999, 8)]).are_apart());
    }

    /// Returns the names of scalars and other sections, gathered as in a construct.
    fn gathered(scalars: &[(usize, usize)], sections: &[(usize, usize)]) -> Names {
        let mut names = Names::default();
        names.clear();
        scalars.iter().for_each(|(start, len)| names.add_scalar(*start, *len));
        sections.iter().for_each(|(start, len)| names.add_section(*start, *len));
        if names.scalars_may_meet() {
            scalars.iter().for_each(|(start, len)| names.add_section(*start, *len));
        }
        names.finish();
        names
    }

    #[test]
    fn scalars_are_apart_in_whatever_order_they_come() {
        // Scalars whole windows of marks apart have the same marks.
        for (stride, len) in [(8, 8), (60, 60), (100, 64), (2048, 4)] {
            let up: Vec<_> = (0..9).map(|nth| (5001 + stride * nth, len)).collect();
            let down: Vec<_> = up.iter().rev().copied().collect();
            let mixed: Vec<_> = (0..9).map(|nth| up[nth * 4 % 9]).collect();
            for order in [up, down, mixed] {
                assert!(gathered(&order, &[]).are_plain(), "{order:?}");
                for (start, len) in order.clone() {
                    let twice = [&order[..], &[(start + len - 1, 2)]].concat();
                    assert!(!gathered(&twice, &[]).are_plain(), "{twice:?}");
                }
            }
        }
        assert_eq!(gathered(&[], &[]).scalars().len, 0);
    }

    #[test]
    fn overlapping_scalars_are_always_detected() {
        let mut names = Names::default();
        names.clear();
        (0..200).for_each(|nth| names.add_scalar(5003 + 10 * nth, 10));
        assert!(!names.scalars_may_meet());
        names.add_scalar(7002, 1);
        assert!(names.scalars_may_meet());
    }

    #[test]
    fn sections_may_lie_between_scalars() {
        let scalars = [(6000, 4), (5000, 4), (5500, 4)];
        for (section, apart) in [((5400, 100), true), ((5400, 101), false), ((5003, 1), false), ((6004, 9), true)] {
            let names = gathered(&scalars, &[section]);
            assert_eq!(names.are_plain(), apart, "{section:?}");
            assert_eq!(names.scalars(), HostRange { start: 5000, len: 1004 });
        }
    }

    #[test]
    fn a_block_has_room_for_all_variables() {
        let mut names = gathered(&[(5000, 1), (5100, 9)], &[]);
        assert_eq!(names.space(), 24);
        names.add_room(4, 64);
        assert_eq!(names.space(), 24 + 64);
    }

    #[test]
    fn pointers_refer_to_what_they_name_and_its_end() {
        let mut names = names(&[(5000, 8)]);
        names.add(Kind::Pointer, 6000, 0, || 7000);
        names.finish();
        let refers = |start| names.refer_to(HostRange { start, len: 8 });
        assert!(names.are_apart() && !names.are_plain());
        assert!(refers(6000) && refers(5992) && refers(7000) && !refers(5000) && !refers(6001));
        names.clear();
        assert!(!names.are_gathered() && !names.refer_to(HostRange { start: 6000, len: 8 }));
    }
}
