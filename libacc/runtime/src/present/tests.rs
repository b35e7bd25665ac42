//! The table against a list that is searched from end to end.

use super::{Backing, Counter, DataLocation, Entry, Found, Lifetime, Table};
use accord_types::{DevicePtr, HostRange};
use proptest::prelude::*;

fn held(start: usize, len: usize) -> Entry {
    let device = DevicePtr(start as u64 + 0x1000_0000);
    let range = HostRange { start, len };
    let mut entry = Entry::new(range, DataLocation::At(device), Backing::Foreign, Lifetime::Counted);
    entry.hold(Counter::Structured);
    entry
}

/// The obvious implementation.
#[derive(Default)]
struct Naive(Vec<(usize, usize)>);

impl Naive {
    fn find(&self, start: usize, len: usize) -> Option<(usize, bool)> {
        let end = start + len.max(1);
        let hit = self.0.iter().filter(|(s, e)| *s < end && start < *e).min()?;
        Some((hit.0, hit.0 <= start && end <= hit.1))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_table_agrees_with_a_list(
        steps in proptest::collection::vec((any::<bool>(), 0usize..4000, 0usize..40), 1..800)
    ) {
        let mut table = Table::default();
        let mut naive = Naive::default();
        for (insert, start, len) in steps {
            let found = table.find(start, len);
            match naive.find(start, len) {
                None => {
                    prop_assert_eq!(found, Found::Absent);
                    if insert {
                        table.insert(held(start, len.max(1)));
                        naive.0.push((start, start + len.max(1)));
                    }
                }
                Some((entry, whole)) => {
                    let id = match found {
                        Found::Whole(id) if whole => id,
                        Found::Partly(id) if !whole => id,
                        other => return Err(TestCaseError::fail(format!("{other:?}, not whole = {whole}"))),
                    };
                    prop_assert_eq!(table[id].start, entry);
                    if !insert {
                        table.remove(id);
                        prop_assert!(table.get(id).is_none());
                        naive.0.retain(|(s, _)| *s != entry);
                    }
                }
            }
            prop_assert_eq!(table.len(), naive.0.len());
        }
        table.check_invariants();
        let range = HostRange { start: 1000, len: 500 };
        let overlapping: Vec<_> = table.overlapping(range).iter().map(|id| table[*id].start).collect();
        let mut expected: Vec<_> =
            naive.0.iter().filter(|(s, e)| *s < 1500 && *e > 1000).map(|(s, _)| *s).collect();
        expected.sort_unstable();
        prop_assert_eq!(overlapping, expected);
    }
}

#[test]
fn many_entries_split_and_join_chunks() {
    let mut table = Table::default();
    for i in 0..5000usize {
        // Neither ascending nor descending: 1237 is coprime to 5000.
        table.insert(held((i * 1237 % 5000) * 16, 16));
    }
    table.check_invariants();
    for i in 0..5000usize {
        assert!(matches!(table.find(i * 16 + 5, 11), Found::Whole(id) if table[id].start == i * 16));
        assert!(matches!(table.find(i * 16 + 5, 12), Found::Partly(_)));
    }
    for i in (0..5000usize).filter(|i| i % 100 != 7) {
        let Found::Whole(id) = table.find(i * 16, 16) else { panic!("{i} is gone") };
        table.remove(id);
    }
    table.check_invariants();
    assert_eq!(table.len(), 50);
    assert_eq!(table.find(16 * 6, 32), table.find(16 * 6, 17));
    assert_eq!(table.find(16 * 8, 16), Found::Absent);
}

#[test]
fn a_name_does_not_outlive_its_entry() {
    let mut table = Table::default();
    let first = table.insert(held(64, 8));
    assert!(table.remove(first).is_some());
    let second = table.insert(held(64, 8));
    assert!(table.get(first).is_none());
    assert!(table.remove(first).is_none());
    assert_eq!(table.find(64, 8), Found::Whole(second));
}

#[test]
fn counters_neither_underflow_nor_end_what_others_hold() {
    let mut entry = held(0, 8);
    assert!(!entry.release(Counter::Dynamic, false), "dynamic is 0 and stays so");
    entry.hold(Counter::Dynamic);
    entry.hold(Counter::Dynamic);
    assert!(!entry.release(Counter::Dynamic, true), "the region still holds it");
    assert_eq!((entry.references.structured, entry.references.dynamic), (1, 0));
    assert!(entry.release(Counter::Structured, false));
    assert!(!entry.release(Counter::Structured, false), "ended once");
}

#[test]
fn mapped_data_keeps_its_last_dynamic_reference() {
    let range = HostRange { start: 0, len: 8 };
    let mut entry = Entry::new(range, DataLocation::At(DevicePtr(64)), Backing::Foreign, Lifetime::Mapped);
    entry.references.dynamic = 1;
    entry.hold(Counter::Dynamic);
    assert!(!entry.release(Counter::Dynamic, true));
    assert!(!entry.release(Counter::Dynamic, false));
    assert_eq!(entry.references.dynamic, 1);
}

#[test]
fn entries_around_a_range_have_the_calls_that_mapped_them() {
    let mut table = Table::default();
    let ids: Vec<_> = (1..=9).map(|i| table.insert(held(100 * i, 10))).collect();
    for (i, id) in ids.iter().enumerate() {
        table.note_origin(*id, 1000 + i);
    }
    let near = |table: &Table, start, most| -> Vec<(usize, usize)> {
        let near = table.near(HostRange { start, len: 10 }, most);
        near.into_iter().map(|(entry, call)| (entry.start, call)).collect()
    };
    assert_eq!(near(&table, 550, 2), [(400, 1003), (500, 1004), (600, 1005), (700, 1006)]);
    assert_eq!(near(&table, 5, 2), [(100, 1000), (200, 1001)]);
    assert_eq!(near(&table, 995, 1), [(900, 1008)]);
    assert_eq!(near(&table, 505, 1), [(500, 1004), (600, 1005)], "an entry that overlaps the range");
    assert!(table.remove(ids[4]).is_some());
    table.insert(held(500, 10));
    assert_eq!(near(&table, 550, 1), [(500, 0), (600, 1005)], "another entry's call");
    assert_eq!(near(&Table::default(), 550, 2), []);
}
