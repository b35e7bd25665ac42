//! Records pointers without a clause that regions got, for the message if one of them crashes.

use accord_types::short_lock::ShortLock;

/// The last regions that are recorded.
const REGIONS_MAX: usize = 16;
/// Pointers of one region that are named.
const POINTERS_MAX: usize = 4;

/// Regions of one device with such pointers.
#[derive(Default)]
pub(crate) struct PointerLog(ShortLock<List>);

#[derive(Default)]
struct List {
    regions: [Option<LoggedRegion>; REGIONS_MAX],
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoggedRegion {
    pub(crate) function: usize,
    pub(crate) pointers: [usize; POINTERS_MAX],
    /// Whether the region got copies of the blocks.
    pub(crate) copied: bool,
    /// The meaning of the first of them.
    pub(crate) means: PointerMeaning,
}

/// The meaning of a pointer without a clause in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PointerMeaning {
    /// The address of an array.
    Array,
    /// The address of an object, of which the construct names members.
    Object,
    /// A reference of C++ in a reduction.
    Reference,
}

impl PointerLog {
    /// Records a launch with such pointers, and whether it got a copy of the block behind each. Allocates nothing.
    pub(crate) fn note(&self, function: usize, means: PointerMeaning, pointers: impl Iterator<Item = (usize, bool)>) {
        let mut region = LoggedRegion { function, pointers: [0; POINTERS_MAX], copied: false, means };
        for (to, (pointer, copied)) in region.pointers.iter_mut().zip(pointers) {
            *to = pointer;
            region.copied |= copied;
        }
        let mut list = self.0.lock();
        let known = list.regions.iter().position(|known| known.is_some_and(|known| known.function == function));
        let at = known.unwrap_or_else(|| {
            list.next = (list.next + 1) % REGIONS_MAX;
            list.next
        });
        list.regions[at] = Some(region);
    }

    /// Returns the remembered regions.
    pub(crate) fn regions(&self) -> Vec<LoggedRegion> {
        let list = self.0.lock();
        list.regions.iter().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_regions_are_remembered() {
        let given = PointerLog::default();
        for function in 0..100 {
            given.note(function, PointerMeaning::Array, [(64, false); POINTERS_MAX + 1].into_iter());
            given.note(function, PointerMeaning::Object, [(72, false)].into_iter());
        }
        let regions = given.regions();
        assert_eq!(regions.len(), REGIONS_MAX);
        assert!(regions.iter().all(|region| region.function >= 100 - REGIONS_MAX && region.pointers == [72, 0, 0, 0]));
        assert!(regions.iter().all(|region| region.means == PointerMeaning::Object));
    }
}
