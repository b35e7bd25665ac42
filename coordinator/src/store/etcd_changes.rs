//! Changes as etcd's operations: values in parts that a request has room for, and operations in transactions that etcd takes.

use super::Changes;
use crate::etcd::wire::{Request, RequestOp};
use crate::etcd::{EtcdLocation, end_of};
use prost::Message;
use std::collections::BTreeSet;

/// Below this name are the records: the first part of each value by its key.
pub(super) const RECORDS: &str = "record/";
/// Below this name are the further parts of long values.
pub(super) const PARTS: &str = "part/";

/// Bytes of a part of a value.
const PART_MAX: usize = 512 << 10;
/// Bytes of the operations of one transaction: etcd takes requests of 1.5 MiB.
pub(super) const TRANSACTION_BYTES_MAX: usize = 1 << 20;
/// Operations of one transaction, with a few more of the store's own: etcd takes 128.
pub(super) const OPERATIONS_MAX: usize = 120;

/// Returns the operations that make changes. `long` has the keys whose values have more than one part, and is kept up to date.
pub(super) fn operations(location: &EtcdLocation, changes: &Changes, long: &mut BTreeSet<String>) -> Vec<RequestOp> {
    let mut operations = Vec::new();
    for (key, value) in changes {
        let record = location.key(&format!("{RECORDS}{key}"));
        let mut parts = value.iter().flat_map(|value| value.chunks(PART_MAX));
        match value {
            Some(_) => operations.push(RequestOp::put(record, parts.next().unwrap_or_default().to_vec())),
            None => operations.push(RequestOp::delete(record, Vec::new())),
        }
        let mut count = 0;
        for part in parts {
            operations.push(RequestOp::put(part_key(location, key, count), part.to_vec()));
            count += 1;
        }
        let was_long = if count > 0 { !long.insert(key.clone()) } else { long.remove(key) };
        if was_long {
            operations.push(RequestOp::delete(part_key(location, key, count), end_of(&parts_of(location, key))));
        }
    }
    operations
}

/// Returns the key before all parts of a value.
fn parts_of(location: &EtcdLocation, key: &str) -> Vec<u8> {
    location.key(&format!("{PARTS}{key}\u{1}"))
}

fn part_key(location: &EtcdLocation, key: &str, number: usize) -> Vec<u8> {
    [parts_of(location, key), format!("{number:06}").into_bytes()].concat()
}

/// Returns the record's key of a part's key below [`PARTS`].
pub(super) fn record_of(part: &str) -> Option<&str> {
    part.rsplit_once('\u{1}').map(|(record, _)| record)
}

/// Groups operations in their order, each group small enough for one transaction.
pub(super) fn grouped(operations: Vec<RequestOp>) -> Vec<Vec<RequestOp>> {
    let mut groups = Vec::new();
    let (mut group, mut bytes) = (Vec::new(), 0);
    for operation in operations {
        let len = operation.encoded_len();
        if group.len() >= OPERATIONS_MAX || (!group.is_empty() && bytes + len > TRANSACTION_BYTES_MAX) {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += len;
        group.push(operation);
    }
    if !group.is_empty() {
        groups.push(group);
    }
    groups
}

/// Whether two operations of a group concern the same key, which etcd refuses. For tests.
#[cfg(test)]
fn is_unique(group: &[RequestOp]) -> bool {
    let mut seen = BTreeSet::new();
    group.iter().all(|operation| match &operation.request {
        Some(Request::Put(put)) => seen.insert(put.key.clone()),
        Some(Request::Delete(delete)) if delete.range_end.is_empty() => seen.insert(delete.key.clone()),
        Some(Request::Delete(delete)) => seen.range(delete.key.clone()..delete.range_end.clone()).next().is_none(),
        _ => false,
    })
}

/// Returns the operations that were encoded by [`encode`].
///
/// # Errors
/// Returns what is damaged.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<RequestOp>, String> {
    let staged = crate::etcd::wire::TxnRequest::decode(bytes);
    let staged = staged.map_err(|error| format!("staged changes can't be read: {error}"))?;
    let is_write = |operation: &RequestOp| matches!(operation.request, Some(Request::Put(_) | Request::Delete(_)));
    if staged.success.iter().all(is_write) { Ok(staged.success) } else { Err("staged changes are none".to_owned()) }
}

/// Encodes operations, for changes that are too large for one transaction.
pub(super) fn encode(operations: &[RequestOp]) -> Vec<u8> {
    crate::etcd::wire::TxnRequest { success: operations.to_vec(), ..Default::default() }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location() -> EtcdLocation {
        EtcdLocation::parse("etcd://a:1/p").unwrap().unwrap()
    }

    fn changes(of: &[(&str, Option<usize>)]) -> Changes {
        of.iter().map(|(key, len)| ((*key).to_owned(), len.map(|len| vec![7; len]))).collect()
    }

    #[test]
    fn a_value_that_was_longer_loses_its_further_parts() {
        let mut long = BTreeSet::new();
        let first = operations(&location(), &changes(&[("a", Some(PART_MAX * 2 + 1))]), &mut long);
        assert_eq!((first.len(), long.len()), (3, 1));
        let second = operations(&location(), &changes(&[("a", Some(PART_MAX + 1))]), &mut long);
        let removed = RequestOp::delete(b"/p/part/a\x01000001".to_vec(), b"/p/part/a\x02".to_vec());
        assert_eq!((second.len(), second.last(), long.len()), (3, Some(&removed), 1));
        let third = operations(&location(), &changes(&[("a", None)]), &mut long);
        let removed = RequestOp::delete(b"/p/part/a\x01000000".to_vec(), b"/p/part/a\x02".to_vec());
        assert_eq!((third.last(), long.len()), (Some(&removed), 0));
        assert_eq!(record_of("used/1/a\0b\u{1}000001"), Some("used/1/a\0b"));
    }

    #[test]
    fn groups_are_within_etcds_limits_and_keep_all_operations_in_order() {
        let keys: Vec<String> = (0..300).map(|number| format!("k{number:03}")).collect();
        let mut wanted: Vec<(&str, Option<usize>)> = keys.iter().map(|key| (key.as_str(), Some(10))).collect();
        wanted.push(("large", Some(PART_MAX * 5)));
        wanted.push(("z", None));
        let all = operations(&location(), &changes(&wanted), &mut BTreeSet::new());
        let groups = grouped(all.clone());
        assert!(groups.len() > 3);
        for group in &groups {
            let bytes: usize = group.iter().map(Message::encoded_len).sum();
            assert!(group.len() <= OPERATIONS_MAX && bytes <= TRANSACTION_BYTES_MAX && is_unique(group));
        }
        assert_eq!(groups.concat(), all);
        assert_eq!(decode(&encode(&all)).unwrap(), all);
    }
}
