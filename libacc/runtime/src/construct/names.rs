//! What the entries of a construct name, to tell what stands alone from what others mean too.

use super::kind::Kind;
use accord_types::HostRange;

/// What the entries of a construct name: gathered once, when an entry has to be told from the others.
#[derive(Default)]
pub(crate) struct Names {
    gathered: bool,
    /// Addresses that pointers name.
    references: Vec<usize>,
    /// First byte and end of each section, in order.
    sections: Vec<(usize, usize)>,
    /// No byte is in two sections.
    apart: bool,
    /// There are pointers, or members of objects.
    pointers: bool,
}

impl Names {
    pub(super) fn clear(&mut self) {
        self.gathered = false;
        self.pointers = false;
        self.references.clear();
        self.sections.clear();
    }

    pub(super) fn are_gathered(&self) -> bool {
        self.gathered
    }

    /// Adds an entry at an address, of so many bytes if it is a section. `pointed` gives what it points to, if it is a pointer.
    pub(super) fn add(&mut self, kind: Kind, host: usize, len: usize, pointed: impl FnOnce() -> usize) {
        self.pointers |= kind.follows_data() || matches!(kind, Kind::Zero | Kind::Struct);
        match kind {
            Kind::Data(_) => self.sections.push((host, host.saturating_add(len))),
            Kind::Zero | Kind::AlwaysPointer => self.references.push(host),
            Kind::Pointer | Kind::Attach => self.references.extend([host, pointed()]),
            _ => {}
        }
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

    /// Whether a pointer names a byte of a range, or its end.
    pub(super) fn refer_to(&self, range: HostRange) -> bool {
        self.references.iter().any(|address| (range.start..=range.start + range.len).contains(address))
    }

    /// Whether no byte is in two sections.
    pub(super) fn are_apart(&self) -> bool {
        self.apart
    }

    /// Whether no byte is in two sections, and there is nothing but sections and values.
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
