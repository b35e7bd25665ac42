//! Which pointers regions were given that no clause maps: for the message, if one of them crashes.

use crate::Runtime;
use crate::construct::Stray;
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, HostRange};

/// Regions that are remembered; the last ones.
const REGIONS_MAX: usize = 16;
/// Pointers of one region that are named.
const POINTERS_MAX: usize = 4;

/// Regions of one device with such pointers.
#[derive(Default)]
pub(crate) struct Given(ShortLock<List>);

#[derive(Default)]
struct List {
    regions: [Option<Region>; REGIONS_MAX],
    next: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Region {
    function: usize,
    pointers: [usize; POINTERS_MAX],
    /// The region got copies of the blocks.
    lent: bool,
}

impl Given {
    /// Remembers a launch. Allocates nothing.
    pub(crate) fn note(&self, function: usize, strays: &[Stray]) {
        let mut region = Region { function, pointers: [0; POINTERS_MAX], lent: false };
        for (to, stray) in region.pointers.iter_mut().zip(strays) {
            *to = stray.pointer;
            region.lent |= stray.block.is_some();
        }
        let mut list = self.0.lock();
        let known = list.regions.iter().position(|known| known.is_some_and(|known| known.function == function));
        let at = known.unwrap_or_else(|| {
            list.next = (list.next + 1) % REGIONS_MAX;
            list.next
        });
        list.regions[at] = Some(region);
    }

    fn regions(&self) -> Vec<Region> {
        let list = self.0.lock();
        list.regions.iter().flatten().copied().collect()
    }
}

/// Whether a text has a name that is not the beginning of a longer one.
fn is_named(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        next.is_none_or(|next| !next.is_alphanumeric())
    })
}

impl Runtime {
    /// Adds to the error of a region that crashed what it was given without a clause, and the ways out.
    pub fn explain(&self, error: Error) -> Error {
        if error.code() != ErrorCode::Execution {
            return error;
        }
        let all = self.devices.iter().flat_map(|device| device.given.regions());
        let named =
            |region: &Region| self.host.function(region.function).is_ok_and(|spec| is_named(error.cause(), &spec.name));
        let Some(region) = all.into_iter().find(named) else { return error };
        let pointers: Vec<String> = region
            .pointers
            .iter()
            .filter_map(|pointer| self.host.describe(HostRange { start: *pointer, len: 1 }))
            .collect();
        if pointers.is_empty() {
            return error;
        }
        let pointers = pointers.join(", ");
        if region.lent {
            return error.more(format!("it got copies of the blocks that these point to: {pointers}")).instead(
                "pointers inside of such blocks are not followed; map what they point to by enter data and attach",
            );
        }
        error.more(format!("it was given pointers that nothing maps: {pointers}")).instead(
            "write a data clause with their length, as copy(a[0:n]), or set ACCORD_UNMAPPED=map for programs that rely on unified memory; \
             for a Fortran pointer x to a derived type write enter data copyin(x) ahead of the clauses that name x%a",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_not_the_beginning_of_another() {
        assert!(is_named("region main._omp_fn.1 (a.c:3) ended", "main._omp_fn.1"));
        assert!(is_named("main._omp_fn.1", "main._omp_fn.1"));
        assert!(!is_named("region main._omp_fn.10 ended", "main._omp_fn.1"));
    }

    #[test]
    fn the_last_regions_are_remembered() {
        let given = Given::default();
        let stray = Stray { entry: 0, pointer: 64, form: crate::construct::Form::Slot, block: None };
        for function in 0..100 {
            given.note(function, &[stray; POINTERS_MAX + 1]);
            given.note(function, &[Stray { pointer: 72, ..stray }]);
        }
        let regions = given.regions();
        assert_eq!(regions.len(), REGIONS_MAX);
        assert!(regions.iter().all(|region| region.function >= 100 - REGIONS_MAX && region.pointers == [72, 0, 0, 0]));
    }
}
