//! Compares the programs' records with what they may hold.

use crate::plan::Take;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Sessions that may share a device without a time share, by the policy's default.
const SHARERS_MAX: usize = 4;
const WHOLE_MILLI: u64 = 1_000;

/// The use of a device by one region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// The unique name of its program.
    pub(crate) program: String,
    pub(crate) node: String,
    pub(crate) ordinal: u32,
    /// The host that the region ran on.
    pub(crate) host: String,
    pub(crate) begun_ns: u64,
    pub(crate) last_ns: u64,
}

/// Reads all records of a folder. A record that is being written may still be empty.
pub(crate) fn records(folder: &Path) -> Vec<Record> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files
        .filter_map(|file| {
            let name = file.file_name().into_string().unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            let words: Vec<&str> = text.split_whitespace().collect();
            let [node, ordinal, host, begun, last] = words[..] else { return None };
            Some(Record {
                program: name.split('.').next().unwrap().to_owned(),
                node: node.to_owned(),
                ordinal: ordinal.parse().unwrap(),
                host: host.to_owned(),
                begun_ns: begun.parse().unwrap(),
                last_ns: last.parse().unwrap(),
            })
        })
        .collect()
}

/// Programs that had a device together without permission.
#[derive(Debug)]
pub(crate) struct Overlap {
    pub(crate) programs: BTreeSet<String>,
    pub(crate) text: String,
}

/// Returns the violations: regions of several jobs on a device at the same time that don't fit together. `takes` says
/// what each program may hold.
pub(crate) fn overlaps(records: &[Record], takes: &BTreeMap<String, Take>) -> Vec<Overlap> {
    let mut by_device: BTreeMap<(&str, u32), Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| takes.contains_key(&record.program)) {
        by_device.entry((&record.node, record.ordinal)).or_default().push(record);
    }
    let mut found = Vec::new();
    for records in by_device.values_mut() {
        records.sort_by_key(|record| record.begun_ns);
        let mut running: Vec<&Record> = Vec::new();
        for &record in &*records {
            running.retain(|other| other.last_ns >= record.begun_ns);
            running.push(record);
            let together: BTreeMap<&str, Take> = running
                .iter()
                .filter_map(|record| Some((record.program.as_str(), *takes.get(&record.program)?)))
                .collect();
            if let Some(why) = too_much(&together) {
                let text = format!("{why} at {} of {}/{}", record.begun_ns, record.node, record.ordinal);
                let programs = running.iter().map(|record| record.program.clone()).collect();
                found.push(Overlap { programs, text });
            }
        }
    }
    found
}

/// Returns why these programs may not share a device.
fn too_much(together: &BTreeMap<&str, Take>) -> Option<String> {
    let exclusive = together.values().filter(|take| **take == Take::Exclusive).count();
    let shares: Vec<(u64, u64)> = together
        .values()
        .filter_map(|take| match take {
            Take::Shared(milli, memory) => Some((*milli, *memory)),
            Take::Exclusive | Take::Nothing => None,
        })
        .collect();
    let (milli, memory) = shares.iter().fold((0, 0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    if exclusive > 0 && together.len() > 1 {
        Some(format!("{} programs beside an exclusive one", together.len() - 1))
    } else if milli > WHOLE_MILLI {
        Some(format!("{milli} thousandths of the time"))
    } else if memory > crate::MEMORY_MIB {
        Some(format!("{memory} MiB of {}", crate::MEMORY_MIB))
    } else if shares.iter().filter(|share| share.0 == 0).count() > SHARERS_MAX {
        Some(format!("more than {SHARERS_MAX} without a share"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(program: &str, ordinal: u32, begun_ns: u64, last_ns: u64) -> Record {
        let (node, host) = ("h0".to_owned(), "h0".to_owned());
        Record { program: program.to_owned(), node, ordinal, host, begun_ns, last_ns }
    }

    #[test]
    fn programs_that_do_not_fit_on_a_device_together_are_found() {
        let takes = [
            ("a", Take::Exclusive),
            ("b", Take::Exclusive),
            ("half", Take::Shared(500, 0)),
            ("most", Take::Shared(600, 0)),
            ("large", Take::Shared(0, crate::MEMORY_MIB)),
            ("small", Take::Shared(0, 1)),
            ("free", Take::Nothing),
        ];
        let takes: BTreeMap<String, Take> = takes.map(|(name, take)| (name.to_owned(), take)).into();
        let together = |one: &str, other: &str| {
            let records = [record(one, 0, 10, 20), record(other, 0, 20, 30), record(other, 1, 10, 20)];
            overlaps(&records, &takes).len()
        };
        for (one, other) in
            [("a", "b"), ("a", "half"), ("half", "a"), ("half", "most"), ("large", "small"), ("free", "a")]
        {
            assert_eq!(together(one, other), 1, "{one} and {other}");
        }
        for (one, other) in [("a", "a"), ("half", "small"), ("half", "large"), ("free", "most")] {
            assert_eq!(together(one, other), 0, "{one} and {other}");
        }
        let apart = [record("a", 0, 10, 20), record("b", 0, 21, 30), record("b", 1, 10, 20)];
        assert!(overlaps(&apart, &takes).is_empty());
        assert!(overlaps(&[record("unknown", 0, 10, 20), record("a", 0, 15, 30)], &takes).is_empty());
    }
}
