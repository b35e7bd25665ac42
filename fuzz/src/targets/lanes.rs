//! Bytes on a lane as its readers receive them: all bytes are available, and then the lane ends.

use super::first;
use crate::{Memory, Target};
use accord_fabric::Key;
use accord_fabric::frame::transfer::{Chunk, ChunkKind, DEVICES_BYTES_MAX, EXPOSED_MAX, HANDLE_MAX, TEXT_MAX};
use accord_fabric::handshake::{self, Deadline, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{ControlMessage, Inbox, Incoming, receive_control};
use accord_fabric::transport::{SharedLane, inproc_pair};
use accord_types::{SessionId, TransferId};
use std::sync::Arc;
use std::time::Duration;

/// A peer that has sent everything is not waited for.
const SOON: Duration = Duration::from_secs(1);

/// Control messages about transfers.
pub(super) const CONTROLS: Target = Target {
    name: "controls",
    run: controls,
    seeds: control_seeds,
    words: &[],
    input_max: 4 << 10,
    // The most bytes of one message, whatever it contains.
    memory: Memory { fixed: 2 * HANDLE_MAX, per_byte: 64 },
    inputs: 40_000,
};

/// Bytes of transfers, some of which are expected.
pub(super) const TRANSFERS: Target = Target {
    name: "transfers",
    run: transfers,
    seeds: transfer_seeds,
    words: &[],
    input_max: 2 << 10,
    memory: Memory { fixed: 128 << 10, per_byte: 64 },
    inputs: 40_000,
};

/// Introductions, and their answers.
pub(super) const HANDSHAKES: Target = Target {
    name: "handshakes",
    run: handshakes,
    seeds: handshake_seeds,
    words: &["ACCORD\r\n"],
    input_max: 512,
    memory: Memory { fixed: 32 << 10, per_byte: 64 },
    inputs: 10_000,
};

/// Returns a lane with these bytes to read, and its other end.
pub(super) fn lane_with(bytes: &[u8]) -> (SharedLane, SharedLane) {
    let (near, far) = inproc_pair();
    far.send(bytes).unwrap();
    far.finish().unwrap();
    (near, far)
}

fn controls(bytes: &[u8]) {
    let (lane, _far) = lane_with(bytes);
    let _ = receive_control(&*lane, &LinkStats::default(), |message| {
        match message {
            ControlMessage::Ready(_, handle) => assert!(handle.len() <= HANDLE_MAX),
            ControlMessage::Refused(_, error) | ControlMessage::Failed(_, error) | ControlMessage::Lost(_, error) => {
                assert!(error.to_string().len() <= 8 * TEXT_MAX);
            }
            ControlMessage::Ask(devices) => assert!(devices.len() * 4 <= DEVICES_BYTES_MAX),
            ControlMessage::Alive(devices) => assert!(devices.len() * 12 <= DEVICES_BYTES_MAX),
            ControlMessage::Landed(_) | ControlMessage::Room(..) => {}
        }
        Ok(())
    });
}

/// Transfers 1 to 4 are expected: read as a whole, in pieces, in part, and not at all.
fn transfers(bytes: &[u8]) {
    let (lane, _far) = lane_with(bytes);
    let inbox = Inbox::new(Arc::default(), false);
    for transfer in 1..5 {
        let receive = move |mut incoming: Incoming| {
            let len = usize::try_from(incoming.total()).unwrap();
            let mut space = vec![0; len];
            let _ = match transfer {
                1 => incoming.fill(&mut space),
                2 => space.chunks_mut(7).try_for_each(|piece| incoming.fill(piece)),
                3 => incoming.fill(&mut space[..len / 2]),
                _ => Ok(()),
            };
        };
        inbox.post(TransferId(transfer), 1 << (3 * transfer), Box::new(receive));
    }
    let _ = inbox.serve(&lane);
}

/// The first byte selects the receiving side.
fn handshakes(mut bytes: &[u8]) {
    let side = first(&mut bytes);
    let (lane, _far) = lane_with(bytes);
    let key = Key::new(vec![7; 32]).unwrap();
    if side & 1 == 0 {
        assert!(handshake::accept(&*lane, &key, SOON).is_err(), "the input can't hold a valid proof");
    } else {
        let hello = Hello::new(Purpose::Bulk, SessionId(5), 0, PeerId::PROGRAM);
        assert!(
            handshake::introduce(&*lane, &hello, &key, Deadline::after(SOON), "it").is_err(),
            "the input can't hold a valid proof"
        );
    }
}

fn chunk(kind: ChunkKind, transfer: u64, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let header = Chunk { kind, transfer: TransferId(transfer), offset, len: bytes.len() }.encode();
    [&header, bytes].concat()
}

fn control_seeds() -> Vec<Vec<u8>> {
    let all = [
        chunk(ChunkKind::Ready, 1, 0, b"there"),
        chunk(ChunkKind::Landed, 1, 0, b""),
        chunk(ChunkKind::Refused, 2, 0, b"\x05\x00full\0free some\0h2\0"),
        chunk(ChunkKind::Failed, 3, 0, b"\x05\x00cut short\0\0h2\0"),
        chunk(ChunkKind::Ask, 0, 0, &3u32.to_le_bytes()),
        chunk(ChunkKind::Alive, 0, 0, &[1; 24]),
        chunk(ChunkKind::Lost, 0x9_0001, 0, b"\x05\x00silent\0\0h9\0"),
    ];
    // Longer than any control message, and so refused before memory is allocated for it.
    let unasked = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: EXPOSED_MAX };
    vec![all.concat(), all[2].clone(), unasked.encode().to_vec()]
}

fn transfer_seeds() -> Vec<Vec<u8>> {
    let whole = |transfer: u64| chunk(ChunkKind::Data, transfer, 0, &vec![7; 1 << (3 * transfer)]);
    let pieces = [chunk(ChunkKind::Data, 2, 0, &[1; 60]), chunk(ChunkKind::Data, 2, 60, &[2; 4])].concat();
    let aborted = [chunk(ChunkKind::Data, 3, 0, &[3; 300]), chunk(ChunkKind::Abort, 3, 300, b"")].concat();
    vec![[whole(1), pieces, aborted].concat(), [whole(3), whole(1)].concat(), chunk(ChunkKind::Abort, 4, 0, b"")]
}

fn handshake_seeds() -> Vec<Vec<u8>> {
    let hello = Hello::new(Purpose::Command, SessionId(5), 1, PeerId::PROGRAM).encode(&[9; 32]);
    let answer = |refused: u8, rest: &[u8]| {
        let version = handshake::VERSION.to_le_bytes();
        let length = u16::try_from(rest.len()).unwrap().to_le_bytes();
        [&[1], &handshake::MAGIC[..], &version, &[refused, 0], &length, rest].concat()
    };
    vec![[&[0], &hello[..], &[5; 32]].concat(), answer(0, &[5; 64]), answer(1, b"it is full")]
}
