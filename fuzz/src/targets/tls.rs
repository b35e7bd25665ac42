//! Lanes through TLS: bytes in place of a handshake, and tampered records.

use super::first;
use super::lanes::lane_with;
use crate::{Memory, Target};
use accord_fabric::transport::{
    Lane, LaneDescriptors, LaneProperties, MemoryKind, RemoteMemory, SharedLane, accept_tls, connect_tls, inproc_pair,
};
use accord_trust::lane::LaneSeeds;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes in place of a handshake.
pub(super) const HANDSHAKES: Target = Target {
    name: "tls_handshakes",
    run: handshakes,
    seeds: handshake_seeds,
    words: &["accord-lane/2"],
    input_max: 2 << 10,
    memory: Memory { fixed: 512 << 10, per_byte: 64 },
    inputs: 500,
};

/// Records that an attacker changes, drops, repeats or adds.
pub(super) const RECORDS: Target = Target {
    name: "tls_records",
    run: records,
    seeds: record_seeds,
    words: &["\x17\x03\x03"],
    input_max: 256,
    // The written bytes exist several times: in clear, sealed, in flight and read.
    memory: Memory { fixed: 3 << 20, per_byte: 64 },
    inputs: 120,
};

/// A peer that has sent everything is not waited for.
const SOON: Duration = Duration::from_secs(1);
/// A handshake between two threads may take long on a busy machine.
const LATE: Duration = Duration::from_secs(60);
/// Pieces that fit into a lane without a reader.
const PIECES_MAX: usize = 8;
const PROTOCOL: &[u8] = b"accord-lane/2";
const KEYS: LaneSeeds = LaneSeeds { client: [1; 32], server: [2; 32] };

fn accept(lane: SharedLane, timeout: Duration) -> io::Result<SharedLane> {
    accept_tls(lane, KEYS.to_accept(PROTOCOL).unwrap(), timeout)
}

fn connect(lane: SharedLane, timeout: Duration) -> io::Result<SharedLane> {
    connect_tls(lane, KEYS.to_connect(PROTOCOL).unwrap(), timeout)
}

/// The first byte selects the receiving side.
fn handshakes(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (lane, _far) = lane_with(bytes);
    let shaken = if side & 1 == 0 { accept(lane, SOON) } else { connect(lane, SOON) };
    assert!(shaken.is_err(), "the input can't hold the keys");
}

fn handshake_seeds() -> Vec<Vec<u8>> {
    let printed = |far: &SharedLane| {
        let mut bytes = Vec::new();
        far.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let (near, far) = lane_with(b"");
    assert!(connect(near, SOON).is_err());
    let hello = printed(&far);
    let (near, far) = lane_with(&hello);
    assert!(accept(near, SOON).is_err());
    let answer = printed(&far);
    vec![[&[0], &hello[..]].concat(), [&[1], &answer[..]].concat()]
}

/// A lane whose bytes can be held back.
#[derive(Debug)]
struct Tapped {
    below: SharedLane,
    kept: Mutex<Option<Vec<u8>>>,
}

impl Lane for Tapped {
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.below.read(bytes)
    }

    fn try_read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.below.try_read(bytes)
    }

    fn is_readable(&self) -> bool {
        self.below.is_readable()
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.kept.lock().unwrap().as_mut() {
            Some(kept) => {
                parts.iter().for_each(|part| kept.extend_from_slice(part));
                Ok(parts.iter().map(|part| part.len()).sum())
            }
            None => self.below.write(parts),
        }
    }

    fn try_write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(parts)
    }

    fn moves_in_place(&self) -> bool {
        false
    }

    fn remote_memory(&self, _kind: MemoryKind) -> Option<&dyn RemoteMemory> {
        None
    }

    fn finish(&self) -> io::Result<()> {
        Ok(())
    }

    fn shutdown(&self) {}

    fn limit(&self, time: Option<Duration>) -> io::Result<()> {
        self.below.limit(time)
    }

    fn introduced(&self, unread_max: Option<Duration>) -> io::Result<()> {
        self.below.introduced(unread_max)
    }

    fn properties(&self) -> LaneProperties {
        LaneProperties { leaves_machine: true, ..self.below.properties() }
    }

    fn spin_long(&self) {}

    fn descriptors(&self) -> LaneDescriptors<'_> {
        LaneDescriptors::default()
    }
}

/// The lengths of the client's pieces, of which 0 or the eighth is the last, and then the changes to the resulting records. The server must read a
/// prefix of the written bytes, and all of them if it gets the end of the stream.
fn records(mut bytes: &[u8]) {
    let (near, far) = inproc_pair();
    let tapped = Arc::new(Tapped { below: near.clone(), kept: Mutex::default() });
    let below: SharedLane = tapped.clone();
    let (client, server) = std::thread::scope(|scope| {
        let client = scope.spawn(|| connect(below, LATE).unwrap());
        let server = accept(far, LATE).unwrap();
        (client.join().unwrap(), server)
    });
    *tapped.kept.lock().unwrap() = Some(Vec::new());
    let mut sent = Vec::new();
    for _ in 0..PIECES_MAX {
        let len @ 1.. = first(&mut bytes) else { break };
        let piece: Vec<u8> = (0..usize::from(len) * 97).map(|at| (at * 7 + sent.len()) as u8).collect();
        client.send(&piece).unwrap();
        sent.extend(piece);
    }
    client.finish().unwrap();
    let mut sealed = tapped.kept.lock().unwrap().take().unwrap();
    while !bytes.is_empty() {
        disturb(&mut sealed, &mut bytes);
    }
    near.send(&sealed).unwrap();
    near.finish().unwrap();
    let mut read = Vec::new();
    let end = server.read_to_end(&mut read);
    assert!(sent.starts_with(&read), "what was not written is read");
    assert!(end.is_err() || read == sent, "an end that was not said");
}

/// Applies one change to records.
fn disturb(sealed: &mut Vec<u8>, bytes: &mut &[u8]) {
    let (what, low, high, value) = (first(bytes), first(bytes), first(bytes), first(bytes));
    let at = usize::from(u16::from_le_bytes([low, high])).min(sealed.len());
    let some = usize::from(value).min(sealed.len() - at);
    match what % 5 {
        0 => sealed.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= value),
        1 => sealed.truncate(at),
        2 => drop(sealed.drain(at..at + some)),
        3 => {
            let again: Vec<u8> = sealed[at..at + some].to_vec();
            sealed.splice(at..at, again);
        }
        _ => sealed.extend([23, 3, 3, low, high]),
    }
}

fn record_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![1, 200, 0],
        vec![1, 0, 0, 3, 0, 1],
        vec![255, 255, 0, 1, 20, 1],
        vec![1, 1, 0, 2, 0, 0, 119],
        vec![2, 0, 3, 0, 0, 216, 4, 255, 255, 0],
    ]
}
