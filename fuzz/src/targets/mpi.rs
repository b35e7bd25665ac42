//! Messages between ranks of an MPI job.

use super::first;
use crate::{Memory, Target};
use accord_fabric::transport::mpi::{ExposureState, HEADER_LEN, Header, MessageKind, Next, Streams};
use std::io::IoSlice;

/// Messages between ranks.
pub(super) const MESSAGES: Target = Target {
    name: "mpi_messages",
    run: message,
    seeds: message_seeds,
    words: &[],
    input_max: 256,
    memory: Memory { fixed: 4 << 10, per_byte: 16 },
    inputs: 100_000,
};

/// Lanes of a rank that receives arbitrary messages while it opens, writes, reads and closes lanes of its own.
pub(super) const LANES: Target = Target {
    name: "mpi_lanes",
    run: lanes,
    seeds: lane_seeds,
    words: &[],
    input_max: 512,
    memory: Memory { fixed: 64 << 10, per_byte: 64 << 10 },
    inputs: 4_000,
};

fn message(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        assert_eq!(header.encode()[..], bytes[..HEADER_LEN]);
    }
}

fn message_seeds() -> Vec<Vec<u8>> {
    let header = |kind, value| {
        let tag = if kind == MessageKind::Take { 5 } else { 0 };
        Header { kind, by_opener: true, number: 7, value, tag }.encode().to_vec()
    };
    vec![
        header(MessageKind::Open, 0),
        header(MessageKind::Credit, 1 << 20),
        header(MessageKind::Offer, 1 << 20),
        header(MessageKind::Take, 1 << 20),
        [header(MessageKind::Data, 5), b"bytes".to_vec()].concat(),
    ]
}

/// Each step begins with its kind. A rank that breaks the protocol ends the world, as in the thread that owns MPI.
fn lanes(mut bytes: &[u8]) {
    let (mut streams, mut known) = (Streams::default(), Vec::new());
    while !bytes.is_empty() {
        let step = first(&mut bytes);
        let (lane, rank) = (known.get(usize::from(step >> 4)).copied(), u32::from(step >> 6));
        match (step & 0xf, lane) {
            (0, _) => known.extend(streams.open(rank)),
            (1, _) => known.extend(streams.next_opened()),
            (2, Some(lane)) => {
                let piece = vec![7; usize::from(first(&mut bytes)) << 2];
                if let Ok(Some(written)) = streams.write(lane, &[IoSlice::new(&piece)]) {
                    assert!(written <= piece.len());
                }
            }
            (3, Some(lane)) => {
                let space = usize::from(first(&mut bytes));
                let there = streams.is_readable(lane);
                let next = streams.next(lane);
                assert_eq!(there, !matches!(next, Next::Nothing));
                match next {
                    // The bytes sent below are all this value.
                    Next::Message(message) => assert!(message[HEADER_LEN..].iter().all(|byte| *byte == 9)),
                    Next::Offered(_) => _ = streams.ask(lane, space + 1),
                    Next::Nothing | Next::End => {}
                }
            }
            (4, Some(lane)) => streams.finish(lane),
            (5, Some(lane)) => match first(&mut bytes) {
                0 => streams.close(lane),
                len if streams.exposure(lane) != ExposureState::UnderWay => _ = streams.expose(lane, len.into()),
                _ => {}
            },
            (6, _) => streams.sweep(),
            (7, _) => {
                while let Some(exposed) = streams.next_exposed() {
                    if step & 0x10 == 0 {
                        streams.was_sent(exposed.id);
                    }
                }
                while let Some(outgoing) = streams.next_message() {
                    Header::decode(&outgoing.message).expect("it is one of ours");
                }
            }
            (8, Some(_)) if step & 0x20 != 0 => {
                // A message for a receive buffer, if one is posted.
                let (tag, len) = (first(&mut bytes).into(), first(&mut bytes).into());
                if streams.comes(rank, tag, len).is_err() {
                    return streams.end();
                }
                streams.received(tag);
            }
            _ => {
                let message = reported(step, &mut bytes);
                if streams.receive(rank, message).is_err() {
                    return streams.end();
                }
            }
        }
        streams.take_woken();
    }
}

/// Decodes a message for one of a few lanes, so that some of them exist.
fn reported(step: u8, bytes: &mut &[u8]) -> Vec<u8> {
    let kinds = [
        MessageKind::Open,
        MessageKind::Data,
        MessageKind::Credit,
        MessageKind::Want,
        MessageKind::Return,
        MessageKind::Finish,
        MessageKind::Close,
        MessageKind::Node,
    ];
    let lane = first(bytes);
    let kind = match (kinds[usize::from(step & 7)], lane >> 4) {
        (MessageKind::Node, 1) => MessageKind::Offer,
        (MessageKind::Node, 2..) => MessageKind::Take,
        (kind, _) => kind,
    };
    let few = u64::from(first(bytes));
    let value = match kind {
        // Some lengths exceed what a lane may have in flight.
        MessageKind::Data if step & 0x10 != 0 => few << 9,
        MessageKind::Data => few,
        MessageKind::Offer | MessageKind::Take => few + 1,
        // Small ones, in the order of the exposed buffers, or any.
        _ if few < 64 => few << 14,
        _ => u64::from_le_bytes(std::array::from_fn(|_| first(bytes))),
    };
    let tag = if kind == MessageKind::Take { u16::from(lane >> 4) } else { 0 };
    let header = Header { kind, by_opener: lane & 1 == 0, number: u32::from(lane >> 1 & 7), value, tag };
    let mut message = header.encode().to_vec();
    if kind == MessageKind::Data {
        message.resize(HEADER_LEN + usize::try_from(value).unwrap(), 9);
    }
    message
}

fn lane_seeds() -> Vec<Vec<u8>> {
    vec![
        // A rank opens lane 1, sends and closes it; this rank accepts, reads and closes it.
        vec![8, 2, 0, 1, 9, 2, 40, 3, 30, 3, 30, 7, 13, 2, 0, 3, 9, 4, 7, 5, 7],
        // A rank sends more than its credit.
        vec![8, 2, 0, 1, 25, 2, 255, 3, 200, 25, 2, 255, 25, 2, 255, 25, 2, 255],
        // This rank opens a lane and writes more than its credit; the peer requests, exposes and withdraws.
        vec![0, 7, 2, 255, 2, 255, 7, 10, 3, 63, 7, 6, 6, 7, 11, 3, 0, 12, 3, 16, 14, 3, 0, 7, 5],
        vec![0, 0, 1, 15, 0, 3, 7],
        // This rank opens a lane and exposes a buffer; the peer requests a part of it with tag 2.
        vec![0, 7, 5, 40, 7, 15, 0x23, 20, 7, 15, 0x23, 19, 7, 5, 0, 7],
        // Another rank exposes a buffer; this rank posts a receive for it.
        vec![8, 2, 0, 1, 15, 0x12, 29, 3, 29, 7, 40, 2, 30, 3, 30],
    ]
}
