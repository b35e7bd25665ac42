//! A backend states its devices' capabilities: only the backends, the registry, and code for display use a device's
//! kind.

use crate::sources::{code, is_tests, sources, text, without_text};

/// Files that may use kinds, with reasons.
const MAY: &[(&str, &str)] = &[
    ("crates/device/src/cpu/", "the backend of CPU devices"),
    ("crates/gpu/src/", "the backend of GPUs"),
    ("coordinator/src/metrics.rs", "shows how many there are of each"),
    ("cli/src/cluster.rs", "shows them"),
    ("cli/src/command/info.rs", "shows them"),
    ("benches/src/askers/", "makes devices up"),
    ("benches/src/journal.rs", "makes devices up"),
    ("crates/sim/", "makes devices up"),
    ("fuzz/", "makes devices up"),
];

#[test]
fn only_backends_and_what_people_see_name_kinds_of_devices() {
    let (mut wrong, mut used) = (Vec::new(), vec![false; MAY.len()]);
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let name = path.to_string_lossy();
        let named = |line: &str| ["DeviceKind::CPU", "DeviceKind::CUDA"].iter().any(|kind| line.contains(kind));
        if !code(path).lines().map(without_text).any(|line| named(&line)) {
            continue;
        }
        match MAY.iter().position(|(may, _)| name.starts_with(may)) {
            Some(at) => used[at] = true,
            None => wrong.push(format!("{name}: ask its capabilities (crates/device/src/capabilities.rs)")),
        }
    }
    let idle = MAY.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(idle.map(|((path, _), _)| format!("{path} names none any more: take it off MAY")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Folders of code for any device.
const NEUTRAL: [&str; 3] = ["crates/device/", "crates/executor/", "crates/fabric/src/transfer"];

#[test]
fn only_the_backend_names_the_driver() {
    let vendors = regex_lite::Regex::new("(?i)cuda|nvidia|ptx").unwrap();
    let (mut wrong, mut read) = (Vec::new(), [0; NEUTRAL.len()]);
    for path in sources() {
        let name = path.to_string_lossy();
        let Some(at) = NEUTRAL.iter().position(|folder| name.starts_with(folder)) else { continue };
        read[at] += 1;
        if vendors.is_match(&name) || vendors.is_match(&text(&path)) {
            wrong.push(format!("{name}: a driver's name belongs behind the trait `Device`, in that driver's crate"));
        }
    }
    assert!(read.iter().all(|files| *files > 0), "one of {NEUTRAL:?} is not there any more");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
