//! A type is named for what it is. Names that fit anything are forbidden, and the field's names mean one thing each.

use crate::modules::code_of;
use crate::panics::is_shipped;
use crate::sources::{sources, text};
use regex_lite::Regex;

/// Names that say nothing of a type, or what all types are.
const EMPTY: [&str; 9] = ["State", "Inner", "Impl", "Manager", "Helper", "Handler", "Info", "Utils", "Wrapper"];

/// The only type with each name: `Link` is all that two processes share, `Queue` one of the program's, `Connection` the
/// program's to an executor, `Place` the position that profiling tools get.
const ONE_EACH: [(&str, &str); 4] = [
    ("Link", "crates/fabric/src/link.rs"),
    ("Queue", "crates/executor/src/queue_table.rs"),
    ("Connection", "libacc/client/src/remote/connection.rs"),
    ("Place", "libacc/src/prof/place.rs"),
];

/// Words known only to their authors, with the field's words: no type and no module has them in its name.
const INSTEAD: [(&str, &str); 45] = [
    ("arrivals", "incoming transfers; pending copies out"),
    ("bell", "waker, doorbell"),
    ("crowded", "oversubscribed, full"),
    ("door", "session endpoint, ABI boundary, acceptor, source"),
    ("doorway", "deferred accept"),
    ("echo", "write-back"),
    ("echoes", "write-backs"),
    ("eyes", "visibility"),
    ("fellows", "other ranks"),
    ("giver", "exporter"),
    ("greeter", "handshake server"),
    ("habits", "flush policy"),
    ("hall", "session endpoint"),
    ("guests", "unproven lanes"),
    ("happening", "event"),
    ("landing", "completion"),
    ("landings", "completion actions"),
    ("lending", "exposed buffers"),
    ("lent", "exposed, acquired, copied"),
    ("loan", "exposed buffer, copy of a block"),
    ("loans", "exposed buffers, copies of blocks"),
    ("movers", "copy pool"),
    ("neighbors", "same-host peers"),
    ("noise", "may stall"),
    ("onward", "egress"),
    ("owed", "pending release"),
    ("party", "peer"),
    ("patience", "spin policy, limit"),
    ("patient", "long spin"),
    ("patiently", "with retries"),
    ("port", "device client, listener"),
    ("promise", "reserved start"),
    ("promises", "reserved starts"),
    ("reception", "acceptor"),
    ("speaker", "sender of control messages"),
    ("stander", "candidate, election thread"),
    ("strays", "unmapped pointers"),
    ("suspects", "recent kernels"),
    ("taker", "importer"),
    ("told", "reported, notified"),
    ("trouble", "injected fault"),
    ("untold", "unreported"),
    ("visitor", "incoming lane"),
    ("voice", "control"),
    ("weather", "lane behaviour"),
];

#[test]
fn types_are_named_by_what_they_are() {
    let definition = Regex::new(r"(?m)^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|trait|type) ([A-Z]\w*)").unwrap();
    let mut wrong = Vec::new();
    let generated = |path: &std::path::Path| path.starts_with("proto/src/gen");
    for path in sources().into_iter().filter(|path| !generated(path)) {
        let file = path.to_string_lossy();
        for found in definition.captures_iter(&text(&path)) {
            let name = &found[1];
            if EMPTY.contains(&name) || ONE_EACH.iter().any(|(one, at)| *one == name && *at != file) {
                wrong.push(format!("{file}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "name these by what they are: {wrong:#?}");
}

/// Returns the words of a name: `DeviceClient` and `device_client` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if (letter == '_' || letter.is_uppercase()) && !words[words.len() - 1].is_empty() {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
    }
    words
}

/// Returns the definitions whose names use another word than the field's.
fn in_words_of_our_own(code: &str, file: &str) -> Vec<String> {
    let definition = Regex::new(r"\b(?:struct|enum|trait|type|mod|fn|const|static) (?:r#)?(\w+)").unwrap();
    let names = definition.captures_iter(code).map(|found| found[1].to_owned()).chain([file.to_owned()]);
    // The port of an address is a legitimate one.
    let known = |word: &String| INSTEAD.iter().find(|(ours, _)| ours == word);
    names
        .filter(|name| name != "port")
        .filter_map(|name| words(&name).iter().find_map(known).map(|(_, field)| format!("{name}: say {field}")))
        .collect()
}

#[test]
fn names_are_the_fields() {
    let mut wrong = Vec::new();
    for path in sources().into_iter().filter(|path| is_shipped(path) || path.starts_with("crates/sim")) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let found = in_words_of_our_own(&code_of(&text(&path)), &stem);
        wrong.extend(found.into_iter().map(|what| format!("{}: {what}", path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn private_word_in_a_name_is_found() {
    let code = "pub(crate) struct Echoes;\nenum LocalPort {}\nmod patience;\nstruct Report;\ntype Endpoint = u8;\n";
    let found = in_words_of_our_own(code, "door");
    assert_eq!(found.len(), 4, "{found:?}");
    assert!(found[1].starts_with("LocalPort: say device client"), "{found:?}");
}
