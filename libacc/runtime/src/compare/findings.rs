//! The results of all comparisons, for messages and the summary.

use super::elements::Tally;
use accord_types::Count;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// Most regions that are counted apart.
const REGIONS_MAX: usize = 4_096;
/// Most arrays of one region that are reported.
const ARRAYS_MAX: usize = 64;
/// Most regions that the summary names.
const NAMED_MAX: usize = 20;

/// The comparisons of one region.
#[derive(Default)]
struct Region {
    name: String,
    /// Launches that were compared.
    compared: u64,
    /// Those in which an array differed.
    differing: u64,
    /// Launches that could not be compared, and why the first one could not.
    skipped: u64,
    why: String,
    /// Arrays that were reported, by their addresses.
    reported: BTreeSet<u64>,
}

/// All comparisons of the program.
#[derive(Default)]
pub(super) struct Findings {
    regions: BTreeMap<usize, Region>,
    /// Bytes that were compared, and differing addresses among them.
    bytes: u64,
    addresses: u64,
    /// Time of regions on CPU devices, and of everything else that comparisons need.
    running: Duration,
    copying: Duration,
    /// Whether the user knows that queues are waited for.
    has_reported_queues: bool,
}

impl Findings {
    fn region(&mut self, function: usize, name: impl FnOnce() -> String) -> &mut Region {
        let key = if self.regions.len() < REGIONS_MAX || self.regions.contains_key(&function) { function } else { 0 };
        let name = || if key == 0 { "other regions".to_owned() } else { name() };
        self.regions.entry(key).or_insert_with(|| Region { name: name(), ..Region::default() })
    }

    /// Returns why a region is not compared any more, if it has ended its CPU device before.
    pub(super) fn broken(&self, function: usize) -> bool {
        self.regions.get(&function).is_some_and(|region| region.skipped > 0)
    }

    /// Records a launch that was not compared. Returns whether it is the region's first.
    pub(super) fn skip(&mut self, function: usize, name: impl FnOnce() -> String, why: &str) -> bool {
        let region = self.region(function, name);
        region.skipped += 1;
        if region.skipped > 1 {
            return false;
        }
        why.clone_into(&mut region.why);
        true
    }

    /// Records a compared launch.
    pub(super) fn compared(&mut self, function: usize, name: impl FnOnce() -> String, differs: bool) {
        let region = self.region(function, name);
        region.compared += 1;
        region.differing += u64::from(differs);
    }

    /// Records a compared array. Returns whether its difference is to be reported: it is the first of the array in its region.
    pub(super) fn array(
        &mut self,
        function: usize,
        name: impl FnOnce() -> String,
        (address, bytes): (u64, u64),
        tally: &Tally,
    ) -> bool {
        self.bytes += bytes;
        self.addresses += tally.addresses;
        if tally.differing == 0 {
            return false;
        }
        let region = self.region(function, name);
        region.reported.len() < ARRAYS_MAX && region.reported.insert(address)
    }

    pub(super) fn took(&mut self, running: Duration, copying: Duration) {
        self.running += running;
        self.copying += copying;
    }

    /// Whether a region of a queue is the first one.
    pub(super) fn is_first_of_queues(&mut self) -> bool {
        !std::mem::replace(&mut self.has_reported_queues, true)
    }

    /// Returns the summary, without line ends.
    pub(super) fn summary(&self) -> Vec<String> {
        let all = || self.regions.values();
        let launches: u64 = all().map(|region| region.compared).sum();
        let differing: u64 = all().map(|region| region.differing).sum();
        let skipped: u64 = all().map(|region| region.skipped).sum();
        let mut first = format!(
            "compared {} of {} with a CPU device: ",
            Count(launches as usize, "run"),
            Count(all().filter(|region| region.compared > 0).count(), "region")
        );
        // Writing to a String can't fail.
        let _ = match differing {
            0 if launches == 0 => write!(first, "nothing was compared"),
            0 => write!(first, "all data is equal ({})", Count(self.bytes as usize, "byte")),
            1 => write!(first, "1 run differs"),
            _ => write!(first, "{differing} runs differ"),
        };
        if skipped > 0 {
            let _ = write!(first, "; {skipped} could not be compared");
        }
        if self.addresses > 0 {
            let _ = write!(first, "; {} left out as addresses", Count(self.addresses as usize, "scalar"));
        }
        let mut lines = vec![first];
        let notable = all().filter(|region| region.differing > 0 || region.skipped > 0);
        for region in notable.clone().take(NAMED_MAX) {
            let mut line = format!("  {}: ", region.name);
            if region.compared > 0 {
                let _ = write!(line, "differs in {} of {}", region.differing, Count(region.compared as usize, "run"));
            }
            if region.skipped > 0 {
                let separator = if region.compared > 0 { "; " } else { "" };
                let _ = write!(line, "{separator}{} not compared: {}", region.skipped, region.why);
            }
            lines.push(line);
        }
        let more = notable.count().saturating_sub(NAMED_MAX);
        if more > 0 {
            lines.push(format!("  and {}", Count(more, "other region")));
        }
        lines.push(format!(
            "the comparison took {:.1} s: {:.1} s for the regions on the CPU device, {:.1} s for copies and comparing",
            (self.running + self.copying).as_secs_f64(),
            self.running.as_secs_f64(),
            self.copying.as_secs_f64()
        ));
        lines
    }
}
