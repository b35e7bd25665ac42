//! The cost of a look-up in a present table of 100,000 entries.

use crate::report::Report;
use accord_runtime::bench::PresentLookups;
use std::hint::black_box;
use std::time::Instant;

const ENTRIES: usize = 100_000;
const LOOKUPS: usize = 1 << 20;
const ROUNDS: usize = 31;

pub(crate) fn run() -> Result<Report, String> {
    let table = PresentLookups::new(ENTRIES);
    let mut report = Report::of("accord-bench present-table");
    for (name, inside) in [("exact_start", 0usize), ("inside", 100)] {
        // A pseudo-random order, equal in all rounds.
        let mut state = 12345u64;
        let order: Vec<usize> = (0..LOOKUPS)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 33) as usize % ENTRIES
            })
            .collect();
        let mut samples = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let mut found = 0usize;
            for &n in &order {
                found += usize::from(table.found(black_box(n), black_box(inside), 8));
            }
            samples.push(start.elapsed().as_nanos() as f64 / LOOKUPS as f64);
            if found != LOOKUPS {
                return Err(format!("{found} of {LOOKUPS} lookups found their entry"));
            }
        }
        report.put(name, "ns", samples);
        let median = report.median(name)?;
        report.at_most(&format!("present table, 100,000 entries: lookup, {name}"), median, "ns", 100.0);
    }
    Ok(report)
}
