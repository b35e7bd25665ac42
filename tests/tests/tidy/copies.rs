//! A copy between devices is one record with one state in each process. This test lists all types that know a copy by its
//! number: a new one is part of an object that is here, or has a reason of its own.

use crate::sources::{code, is_tests, sources, text, without_text};
use regex_lite::Regex;
use std::collections::BTreeSet;
use std::path::Path;

/// Folders whose types may know a copy.
const KNOWING: [&str; 2] = ["crates/fabric/src/transfer", "crates/executor/src"];

/// Types with a part of the state of a copy: the record, and the end at the device's stream. Each process has one of each.
const STATE: [(&str, &str); 3] = [
    ("crates/fabric/src/transfer/table.rs", "TransferTable"),
    ("crates/fabric/src/transfer/exchange/pushing.rs", "Pushing"),
    ("crates/fabric/src/transfer/exchange.rs", "IncomingBytes"),
];

/// Most of these that one process has of a copy: the record, and one end.
const STATE_OF_ONE_MAX: usize = 2;

/// Types with the number of a copy and none of its state, with reasons.
const NUMBER: [(&str, &str, &str); 13] = [
    ("crates/fabric/src/transfer/exchange.rs", "TransferEnding", "the device's callback, which tells the record"),
    ("crates/fabric/src/transfer/exchange/receives.rs", "Posted", "a device's receives, which end before its memory"),
    ("crates/fabric/src/transfer/inbox.rs", "Posted", "transfers of a link, also those with the program"),
    ("crates/fabric/src/transfer/inbox.rs", "Progress", "bytes read from a lane"),
    ("crates/fabric/src/transfer/outbox.rs", "Outgoing", "bytes written to a lane"),
    ("crates/executor/src/request_window.rs", "RequestWindow", "copies from the program"),
    ("crates/executor/src/requested_bytes.rs", "RequestedCopy", "a copy from the program"),
    ("crates/executor/src/copies.rs", "ToEvent", "a copy to the program"),
    ("crates/executor/src/copies.rs", "ToLane", "a copy to the program"),
    ("crates/executor/src/executor/request.rs", "Request", "a message of the core"),
    ("crates/executor/src/executor/request.rs", "Operation", "a message of the core"),
    ("crates/executor/src/executor/request.rs", "Push", "a message of the core"),
    ("crates/fabric/src/transfer/table.rs", "TransferEffect", "a message of the table"),
];

/// Returns the names of a file's structs and enums that contain numbers of transfers.
fn knowing(code: &str) -> BTreeSet<String> {
    let item = Regex::new(r"^(?:pub(?:\([^)]*\))? )?(?:struct|enum) (\w+)").unwrap();
    let (mut name, mut found) = (None, BTreeSet::new());
    for line in code.lines().map(without_text) {
        if let Some(begun) = item.captures(&line) {
            name = Some(begun[1].to_owned());
        }
        if line.contains("TransferId") {
            found.extend(name.clone());
        }
        // As formatted by rustfmt, an item ends without indentation.
        if line.starts_with('}') || line.ends_with(';') && !line.starts_with(' ') {
            name = None;
        }
    }
    found
}

#[test]
fn a_copy_is_one_record_and_one_end() {
    let listed = NUMBER.iter().map(|(path, name, _)| (*path, *name)).chain(STATE);
    let listed: BTreeSet<_> = listed.map(|(path, name)| format!("{path}: {name}")).collect();
    let mut found = BTreeSet::new();
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let file = path.to_string_lossy();
        // Messages of the wire are no state.
        if KNOWING.iter().any(|folder| file.starts_with(folder)) && !file.ends_with("transfer/control.rs") {
            found.extend(knowing(&code(path)).into_iter().map(|name| format!("{file}: {name}")));
        }
    }
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(
        new.is_empty(),
        "another part of a copy: make it part of the record or its end, or say in NUMBER why: {new:#?}"
    );
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "these know no copy any more: take them off the list: {gone:#?}");
    // Source and target have an end each, and one process has either.
    assert_eq!(STATE.len() - 1, STATE_OF_ONE_MAX);
}

#[test]
fn the_page_of_the_architecture_names_the_parts_of_a_copy() {
    let page = text(Path::new("ARCHITECTURE.md"));
    let section =
        page.split("\n## ").find(|section| section.starts_with("A copy between devices")).expect("the section");
    let missing: Vec<_> = STATE.iter().filter(|(_, name)| !section.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md lacks {missing:?}");
    let states = code(Path::new("crates/fabric/src/transfer/table/record.rs"));
    let states =
        states.split("enum TransferState {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the states");
    let names = states.lines().filter_map(|line| line.trim().split([',', '(']).next()).filter(|name| !name.is_empty());
    let missing: Vec<_> = names.filter(|name| !section.contains(&name.to_lowercase())).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md lacks the states {missing:?}");
}

#[test]
fn types_with_numbers_of_transfers_are_found() {
    let text = "pub struct A {\n    transfer: TransferId,\n}\nstruct B(HashMap<TransferId, u8>);\nstruct C;\nfn d(transfer: TransferId) {\n}\n\
                pub(crate) enum E {\n    F(TransferId),\n}\nstruct G {\n    other: u8,\n}\nimpl G {\n    fn h(_: TransferId) {}\n}\n";
    assert_eq!(knowing(text).into_iter().collect::<Vec<_>>(), ["A", "B", "E"]);
}
