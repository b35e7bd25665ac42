//! `ACCORD_UNMAPPED=map`: reports once per place which memory was mapped, and which clause would map it.

use crate::output;
use crate::raw_lock::Locked;
use crate::source::Variable;
use accord_types::HostRange;
use std::collections::BTreeSet;

/// Reported places: a region's address and an entry of its construct.
static REPORTED: Locked<BTreeSet<(usize, usize)>> = Locked::new(BTreeSet::new());

/// Most places that are reported. A program with more needs no more examples.
const PLACES_MAX: usize = 64;

/// A pointer without a clause.
pub(crate) struct Mapped<'a> {
    /// The construct, or else its region, for messages.
    pub(crate) place: &'a str,
    /// The pointer variable, if debug information has it.
    pub(crate) variable: Option<&'a Variable>,
    /// The pointer's number among the region's arguments.
    pub(crate) entry: usize,
    /// The pointer's value.
    pub(crate) pointer: usize,
    /// The mapped block.
    pub(crate) block: HostRange,
}

/// Whether this place was not reported before. Records it.
pub(crate) fn is_new(function: usize, entry: usize) -> bool {
    REPORTED.with(|reported| reported.len() < PLACES_MAX && reported.insert((function, entry)))
}

/// Reports the mapping.
pub(crate) fn notify(mapped: &Mapped<'_>) {
    output::print(&format!("{}\n", line(mapped)));
}

fn line(Mapped { place, variable, entry, pointer, block }: &Mapped<'_>) -> String {
    let offset = pointer.wrapping_sub(block.start).cast_signed();
    let inside = match offset {
        0 => String::new(),
        _ => format!(" (the pointer is {offset} bytes into it)"),
    };
    let who = variable.map_or_else(|| format!("argument {entry}"), ToString::to_string);
    let name = variable.map_or("NAME", |variable| &variable.name);
    format!(
        "accord: {place}: {who}: its block of {} bytes at {:#x}{inside} is copied in and out at each launch because \
         ACCORD_UNMAPPED=map; write copy({name}[0:LENGTH]), or a data region around it, and it is copied less",
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
        let reported = |pointer| line(&Mapped { place: "a.c:3, main", variable: None, entry: 2, pointer, block });
        assert!(reported(0x5000).contains("a.c:3, main: argument 2: its block of 800 bytes at 0x5000 is copied"));
        assert!(reported(0x5010).contains("16 bytes into it"));
        assert!(reported(0x4ff8).contains("-8 bytes into it"));
        let named = Variable {
            name: "a".into(),
            file: Some("a.c".into()),
            line: Some(1),
            function: None,
            ..Variable::default()
        };
        let reported = line(&Mapped { place: "main", variable: Some(&named), entry: 2, pointer: 0x5000, block });
        assert!(
            reported.contains("main: a (a.c:1): its block") && reported.contains("write copy(a[0:LENGTH])"),
            "{reported}"
        );
    }
}
