//! Messages between processes of one machine, besides their lanes.

use super::first;
use super::lanes::lane_with;
use crate::{Memory, Target};
use accord_device::MemoryHandle;
use accord_device::ipc::{ExportMemory, Exporter, Importer, Keep, PendingReleases, PieceKey};
use accord_fabric::Key;
use accord_fabric::peer::PeerId;
use accord_fabric::transport::gateway;
use accord_fabric::transport::same_host::{Caller, Role, examine, introduce};
use accord_types::{DevicePtr, SessionId};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// Introductions between processes of a session.
pub(super) const MEETINGS: Target = Target {
    name: "meetings",
    run: meetings,
    seeds: meeting_seeds,
    words: &["ACCORD\r\n"],
    input_max: 256,
    memory: Memory { fixed: 8 << 10, per_byte: 16 },
    inputs: 5_000,
};

/// Destinations of processes of a machine over MPI, and the answers.
pub(super) const GATEWAYS: Target = Target {
    name: "gateways",
    run: gateways,
    seeds: gateway_seeds,
    words: &["AGW1"],
    input_max: 512,
    memory: Memory { fixed: 32 << 10, per_byte: 16 },
    inputs: 40_000,
};

/// Messages about memory that another process may map.
pub(super) const EXPORTS: Target = Target {
    name: "exports",
    run: exports,
    seeds: export_seeds,
    words: &[],
    input_max: 1 << 10,
    memory: Memory { fixed: 16 << 10, per_byte: 64 },
    inputs: 5_000,
};

const SESSION: SessionId = SessionId(5);
const CALLER: Caller = Caller { from: PeerId::PROGRAM, role: Role::Import };

fn key() -> Key {
    Key::new(vec![7; 32]).unwrap()
}

/// Returns both ends of a connection that preserves message boundaries.
fn ends() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

/// Sends messages whose length is each one's first byte, and then closes.
fn say(socket: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let len = usize::from(first(&mut bytes)).min(bytes.len());
        let (message, rest) = bytes.split_at(len);
        if send(socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT).is_err() {
            break;
        }
        bytes = rest;
    }
    shutdown(socket, Shutdown::Write).unwrap();
}

/// The first byte selects the receiving side.
fn meetings(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (near, far) = ends();
    say(&far, bytes);
    if side & 1 == 0 {
        assert_eq!(examine(&near, SESSION, &key()), None, "the input can't hold a valid proof");
    } else {
        assert_eq!(introduce(&near, SESSION, CALLER, &key()), None, "the input can't hold a valid proof");
    }
}

fn meeting_seeds() -> Vec<Vec<u8>> {
    let (near, far) = ends();
    shutdown(&far, Shutdown::Write).unwrap();
    assert_eq!(introduce(&near, SESSION, CALLER, &key()), None);
    let mut hello = [0; 64];
    assert_eq!(recv(&far, &mut hello[..], RecvFlags::empty()).unwrap().0, hello.len());
    vec![
        [&[0, 64], &hello[..], &[32], &[5; 32]].concat(),
        [&[1, 64][..], &[5; 64], &[1, 1]].concat(),
        [&[0, 64], &hello[..]].concat(),
    ]
}

/// The first byte selects the receiving side.
fn gateways(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (lane, _far) = lane_with(bytes);
    if side & 1 == 0 {
        if let Ok(node) = gateway::read_request(&*lane) {
            assert_eq!(bytes[..8], [&b"AGW1"[..], &node.0.to_le_bytes()].concat());
        }
    } else if gateway::read_answer(&*lane).is_ok() {
        assert_eq!(bytes[..2], [0; 2]);
    }
}

fn gateway_seeds() -> Vec<Vec<u8>> {
    vec![b"\0AGW1\x03\0\0\0".to_vec(), b"\x01\0\0".to_vec(), b"\x01\x09\0node 3 is".to_vec()]
}

/// Length of a message without a payload.
const MESSAGE: usize = 24;
/// Location of the memory that the other process knows: range 3, of two pieces.
const HANDLE: [u64; 9] = [3, 4 << 20, 0, 4 << 20, 0, 1, 2 << 20, 2, 2 << 20];

/// Memory of two pieces: piece 1 mapped by the backend, piece 2 allocated by the driver.
struct Two {
    pending: Arc<PendingReleases>,
    given: Mutex<Vec<u64>>,
}

impl ExportMemory for Two {
    fn handle(&self, _: &Arc<Exporter>, _: DevicePtr, _: u64) -> Option<MemoryHandle> {
        let bytes: Vec<u8> = HANDLE.iter().flat_map(|number| number.to_le_bytes()).collect();
        MemoryHandle::decode(&bytes).ok()
    }

    fn export(&self, piece: u64, give: &mut dyn FnMut(PieceKey, Keep)) {
        self.given.lock().unwrap().push(piece);
        match piece {
            1 => give(PieceKey::Descriptor(std::fs::File::open("/dev/null").unwrap().into()), None),
            2 => give(PieceKey::Allocation([9; PieceKey::ALLOCATION]), Some(Arc::new(piece))),
            _ => {}
        }
    }

    fn pending_releases(&self) -> &Arc<PendingReleases> {
        &self.pending
    }
}

/// The first byte selects the receiving side.
fn exports(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (near, far) = ends();
    say(&far, bytes);
    if side & 1 == 0 {
        let memory = Arc::new(Two { pending: Arc::default(), given: Mutex::default() });
        let exporter = Arc::new(Exporter::new(near));
        let known: Arc<dyn ExportMemory> = memory.clone();
        assert!(exporter.handle(&known, DevicePtr(0), 1).is_some());
        exporter.serve();
        assert!(memory.given.lock().unwrap().len() <= bytes.len() / MESSAGE, "once for each question");
        assert!(exporter.handle(&known, DevicePtr(0), 1).is_none());
        assert_eq!(Arc::strong_count(&memory), 2, "nothing is kept for a process that has gone");
    } else {
        Importer::new(near, |_| {}).serve();
    }
}

fn export_seeds() -> Vec<Vec<u8>> {
    let message = |numbers: [u64; 3]| {
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        std::iter::once(24).chain(numbers).collect::<Vec<u8>>()
    };
    let ask = |range, piece| message([1, piece, range]);
    vec![
        [&[0], &ask(3, 1)[..], &ask(3, 2), &ask(4, 1), &message([4, 1, 0]), &message([4, 1, 0])].concat(),
        [&[1], &message([2, 1, 0])[..], &message([3, 1, 0])].concat(),
        [&[1, 88], &message([5, 1, 0])[1..], &[9; 64]].concat(),
        [&[0], &message([2, 1, 0])[..]].concat(),
    ]
}
