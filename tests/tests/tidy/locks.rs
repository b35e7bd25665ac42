//! No lock is held over a call that may wait. A `ShortLock` or `ShortRwLock` guards state: debug builds check before
//! each call that may wait that the thread holds none. A lock that must be held over one is a `TurnLock`, listed here
//! with what its holder waits for.

use crate::sources::{code, is_tests, sources, without_text};
use regex_lite::Regex;
use std::collections::BTreeSet;

/// Files that may use plain locks, with reasons.
const PLAIN: &[(&str, &str)] = &[
    ("crates/types/src/short_lock.rs", "makes the checked locks of them"),
    ("crates/types/src/turn_lock.rs", "likewise"),
    (
        "crates/debuginfo/src/file.rs",
        "imports nothing of ours; held while a line is looked up in memory, which never blocks",
    ),
];

/// Locks that are held over calls that may wait: the file, the field, what the holder waits for, and why no unrelated
/// thread must wait.
const TURNS: &[(&str, &str, &str)] = &[
    ("libacc/runtime/src/device.rs", "starting", "a device starts or ends; only who starts or ends it waits too"),
    (
        "libacc/runtime/src/compare/comparison.rs",
        "turn",
        "a region runs on two devices; only programs with ACCORD_COMPARE take it",
    ),
    ("node-agent/src/device_filter.rs", "programs", "a filter is loaded or attached, before an executor starts"),
    ("libacc/client/src/in_process.rs", "starting", "the same below; users of the device do not take it"),
    (
        "libacc/client/src/remote/remote_node.rs",
        "turn",
        "an executor is connected to; only who starts a device of it waits",
    ),
    (
        "libacc/client/src/remote/connection.rs",
        "write",
        "frames are sent in order; who must not wait tries, and leaves the rest",
    ),
    ("libacc/client/src/remote/connection.rs", "reader", "events are read; other waiters sleep until theirs is read"),
    (
        "libacc/client/src/remote/connection.rs",
        "images_sent",
        "an image is sent; who needs one may name it only behind that",
    ),
    ("libacc/src/loader.rs", "HASHES", "a file is read from the disk; others of the same kind would read it too"),
    ("libacc/src/host_memory.rs", "names", "a file's symbols are read; for errors and traces only"),
    ("crates/executor/src/hosted.rs", "making", "a stream is made; queues that have one don't take it"),
    ("crates/fabric/src/transport/shm.rs", "reader", "the one reader of a ring waits for bytes"),
    (
        "crates/fabric/src/transport/shm.rs",
        "writer",
        "the one writer of a ring waits for room; who must not wait tries",
    ),
    ("crates/device/src/cpu/device.rs", "socket", "a worker answers; one question at a time is on the socket"),
    ("crates/device/src/cpu/device.rs", "creating", "a stream is made, with its number; known ones don't take it"),
    (
        "crates/device/src/cpu/device.rs",
        "globals",
        "a worker shares a variable's pages; only who needs a variable waits",
    ),
    (
        "crates/device/src/cpu/output.rs",
        "pipes",
        "what the worker wrote goes out in order, wherever the program writes to",
    ),
    ("crates/device/src/cpu/spans.rs", "draining", "spans go to their reader in order"),
    ("crates/device/src/ipc/importer.rs", "turn", "the other process answers, for 2 s at most; one question at a time"),
    ("crates/gpu/src/device.rs", "ModuleSlot", "the driver compiles an image; only who needs that image waits"),
    ("crates/gpu/src/gangs.rs", "meter", "a measured launch; who finds it taken measures nothing"),
    (
        "crates/gpu/src/imports.rs",
        "state",
        "the driver maps a piece of another process's memory; only copies with it wait",
    ),
    ("crates/gpu/src/memory.rs", "state", "the driver maps or unmaps; two threads can't do that to one range at once"),
    ("crates/gpu/src/output.rs", "taken", "what kernels printed goes out in order"),
    ("crates/gpu/src/peers.rs", "asked", "the driver connects two devices, once"),
    ("crates/gpu/src/staging/slot_pool.rs", "state", "the driver pins slots; who needs one would wait for them anyway"),
    (
        "crates/gpu/src/stream.rs",
        "state",
        "the driver takes an operation, and may have no room; only who puts into this stream or asks about it waits, as the order of \
         operations is decided there",
    ),
    ("crates/gpu/src/table.rs", "len", "the driver makes a stream; known ones are found without"),
    ("crates/gpu/src/trace.rs", "under_way", "the driver is asked about events; in a traced run only"),
    (
        "libacc/client/src/node_memory.rs",
        "connection",
        "the node's agent answers, for 5 s at most; only who maps or unmaps a piece of device memory waits",
    ),
    (
        "libacc/client/src/driver_lane.rs",
        "lane",
        "the node's agent opens a lane, for 5 s at most; only who starts a device, or hears the session's end, waits",
    ),
    (
        "node-agent/src/saved_grants.rs",
        "written",
        "a file is written; the agent's connections wait for it, as a grant is to be kept first",
    ),
    (
        "coordinator/src/service/questions.rs",
        "maker",
        "a copy of the scheduler takes inputs, and is copied; only questions wait, which have threads of their own",
    ),
    ("node-agent/src/memory_service.rs", "channel", "the same in an executor, for 30 s at most"),
    ("crates/fabric/src/turn_messages.rs", "writer", "a message of 32 bytes is written, which the agent reads at once"),
    (
        "crates/executor/src/turn_lane.rs",
        "membership",
        "the agent is told that a device has started or stopped, in that order; none does while the work is suspended or resumed",
    ),
    (
        "libacc/client/src/node_turns.rs",
        "lane",
        "the lane to the agent is opened; only the threads that keep turns wait for it",
    ),
    (
        "node-agent/src/process.rs",
        "turn",
        "an executor takes a connection, for 2 s at most; messages to it go one after the other",
    ),
];

fn held_over_waits(code: &str) -> BTreeSet<String> {
    let turn = Regex::new(r"(?:static |type )?(\w+)(?::| =) (?:Option<)?(?:Arc<)?TurnLock<").unwrap();
    turn.captures_iter(code).map(|found| found[1].to_owned()).collect()
}

#[test]
fn every_lock_is_checked_or_has_its_reason() {
    let plain = Regex::new(r"\b(Mutex|RwLock)\b").unwrap();
    let (mut wrong, mut used, mut turns) = (Vec::new(), vec![false; PLAIN.len()], BTreeSet::new());
    let shipped = |path: &str| {
        ["crates", "libacc", "node-agent", "coordinator", "cli", "proto", "mpi"].iter().any(|top| path.starts_with(top))
    };
    for path in sources().iter().filter(|path| !is_tests(path)) {
        let name = path.to_string_lossy();
        if !shipped(&name) {
            continue;
        }
        let code: Vec<_> = code(path).lines().map(without_text).collect();
        if code.iter().any(|line| plain.is_match(line)) {
            match PLAIN.iter().position(|(may, _)| name.starts_with(may)) {
                Some(at) => used[at] = true,
                None => wrong.push(format!("{name}: a plain lock; take a ShortLock, or a TurnLock and say why")),
            }
        }
        turns.extend(held_over_waits(&code.join("\n")).into_iter().map(|field| (name.to_string(), field)));
    }
    let idle = PLAIN.iter().zip(used).filter(|(_, used)| !used);
    wrong.extend(idle.map(|((path, _), _)| format!("{path} has no plain lock any more: take it off PLAIN")));
    let known: BTreeSet<_> = TURNS.iter().map(|(path, field, _)| (path.to_string(), field.to_string())).collect();
    wrong.extend(
        turns.difference(&known).map(|(path, field)| format!("{path}: say in TURNS what {field} is held over")),
    );
    wrong.extend(
        known.difference(&turns).map(|(path, field)| format!("{path}: {field} is none any more: take it off TURNS")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_lock_over_waits_is_found() {
    let code = "struct A {\n    one: TurnLock<()>,\n    two: Option<TurnLock<B>>,\n    three: ShortLock<()>,\n}\n\
                static FOUR: TurnLock<C> = TurnLock::new(C);\ntype Five = TurnLock<Option<D>>;\n";
    assert_eq!(held_over_waits(code).into_iter().collect::<Vec<_>>(), ["FOUR", "Five", "one", "two"]);
}
