//! `ACCORD_UNMAPPED=map`: says once per place what was mapped, and which clause would do it.

use crate::raw_lock::Locked;
use crate::report;
use accord_types::HostRange;
use std::collections::BTreeSet;

/// Places that were told: a region's address and an entry of its construct.
static TOLD: Locked<BTreeSet<(usize, usize)>> = Locked::new(BTreeSet::new());

/// Most places that are told. Whoever has more needs no more examples.
const PLACES_MAX: usize = 64;

/// A pointer without a clause.
pub(crate) struct Mapped<'a> {
    /// The region, for people.
    pub(crate) region: &'a str,
    /// The pointer's place among what the region gets.
    pub(crate) entry: usize,
    /// What it holds.
    pub(crate) pointer: usize,
    /// What was mapped.
    pub(crate) block: HostRange,
}

/// Whether this place was not told before; notes that it is.
pub(crate) fn is_new(function: usize, entry: usize) -> bool {
    TOLD.with(|told| told.len() < PLACES_MAX && told.insert((function, entry)))
}

/// Tells it.
pub(crate) fn tell(mapped: &Mapped<'_>) {
    report::print(&format!("{}\n", line(mapped)));
}

fn line(Mapped { region, entry, pointer, block, .. }: &Mapped<'_>) -> String {
    let offset = pointer.wrapping_sub(block.start).cast_signed();
    let inside = match offset {
        0 => String::new(),
        _ => format!(" (the pointer is {offset} bytes into it)"),
    };
    format!(
        "accord: {region}, argument {entry}: the block of {} bytes at {:#x}{inside} was copied in and out because \
         ACCORD_UNMAPPED=map; write copy(NAME[0:LENGTH]), or a data region around it, and it is copied less",
        block.len, block.start
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_once() {
        assert!(is_new(0x1000, 0));
        assert!(is_new(0x1000, 1));
        assert!(!is_new(0x1000, 0));
    }

    #[test]
    fn the_line_has_the_block_and_the_way_out() {
        let block = HostRange { start: 0x5000, len: 800 };
        let told = |pointer| line(&Mapped { region: "main", entry: 2, pointer, block });
        assert!(told(0x5000).contains("the block of 800 bytes at 0x5000 was copied"));
        assert!(told(0x5010).contains("16 bytes into it"));
        assert!(told(0x4ff8).contains("-8 bytes into it"));
    }
}
