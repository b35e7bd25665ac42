//! References to structures that `enter data` has counted for their members.
//!
//! GCC names a member beside the array that it points to (`enter data copyin(s.p[0:n])`), and so counts `s` once more. A later
//! `exit data` of the member releases these references and no others: with `finalize` all of them.

use accord_types::HostRange;
use std::collections::BTreeMap;

/// Members that are counted on one device. For further members `finalize` ends the whole structure, as it does under libgomp.
const MEMBERS_MAX: usize = 1 << 20;

/// References by start and length of the member.
#[derive(Default)]
pub(crate) struct Members(BTreeMap<(usize, usize), u32>);

impl Members {
    /// Counts `references` more for the member at `range`.
    pub(crate) fn add(&mut self, range: HostRange, references: u32) {
        let key = (range.start, range.len);
        if references > 0 && (self.0.len() < MEMBERS_MAX || self.0.contains_key(&key)) {
            let count = self.0.entry(key).or_default();
            *count = count.saturating_add(references);
        }
    }

    /// Records that there is a member at `range`, though it has added no reference.
    pub(crate) fn note(&mut self, range: HostRange) {
        let key = (range.start, range.len);
        if self.0.len() < MEMBERS_MAX {
            self.0.entry(key).or_default();
        }
    }

    /// Whether a member at `range` was named since its structure became present. Eight bytes of an array that look like a pointer are none.
    pub(crate) fn has(&self, range: HostRange) -> bool {
        self.0.contains_key(&(range.start, range.len))
    }

    /// Number of references that the member at `range` has brought.
    pub(crate) fn of(&self, range: HostRange) -> u32 {
        self.0.get(&(range.start, range.len)).copied().unwrap_or(0)
    }

    /// Takes up to `most` references of the member at `range`. Returns how many it had of them.
    pub(crate) fn take(&mut self, range: HostRange, most: u32) -> u32 {
        let key = (range.start, range.len);
        let Some(count) = self.0.get_mut(&key) else { return 0 };
        let taken = (*count).min(most);
        *count -= taken;
        taken
    }

    /// Forgets the members between two addresses: their structure is no longer present.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        if self.0.is_empty() {
            return;
        }
        while let Some((key, _)) = self.0.range((start, 0)..(end, 0)).next() {
            let key = *key;
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize, len: usize) -> HostRange {
        HostRange { start, len }
    }

    #[test]
    fn members_at_one_address_are_told_apart_by_their_lengths() {
        let mut members = Members::default();
        members.add(range(64, 8), 2);
        members.add(range(64, 4), 1);
        assert_eq!((members.of(range(64, 8)), members.of(range(64, 4)), members.of(range(64, 16))), (2, 1, 0));
        assert_eq!(members.take(range(64, 8), 1), 1);
        assert_eq!(members.take(range(64, 8), u32::MAX), 1);
        assert_eq!(members.take(range(64, 8), 1), 0);
        // It remains recorded as a member.
        assert!(members.has(range(64, 8)) && !members.has(range(64, 16)));
        assert_eq!(members.of(range(64, 4)), 1);
    }

    #[test]
    fn a_structure_that_goes_takes_its_members_along() {
        let mut members = Members::default();
        for start in [60, 64, 72, 80] {
            members.add(range(start, 8), 1);
        }
        members.forget(64, 80);
        let left = [60, 64, 72, 80].map(|start| members.of(range(start, 8)));
        assert_eq!(left, [1, 0, 0, 1]);
    }
}
