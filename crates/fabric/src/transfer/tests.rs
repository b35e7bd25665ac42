use super::chunk_io::{broken, write_chunk};
use super::*;
use crate::frame::transfer::{CHUNK_MAX, Chunk, ChunkKind};
use crate::stalls::Stalls;
use crate::stats::LinkStats;
use crate::transport::{self, SharedLane};
use accord_types::{Result, TransferId};
use proptest::prelude::*;
use std::io::IoSlice;
use std::sync::{Arc, mpsc};

struct Pair {
    near: SharedLane,
    far: SharedLane,
}

fn pair() -> Pair {
    let (near, far) = transport::pair().unwrap();
    Pair { near, far }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// Returns a receiver that reads all bytes on the lane's thread and sends them to `to`.
fn collect(to: mpsc::Sender<Result<Vec<u8>>>) -> Receive {
    Box::new(move |mut incoming| {
        let mut bytes = vec![0; usize::try_from(incoming.total()).unwrap()];
        let result = incoming.fill(&mut bytes).map(|()| bytes);
        drop(incoming);
        to.send(result).unwrap();
    })
}

#[test]
fn transfers_arrive_in_any_pieces() {
    let Pair { near, far } = pair();
    let outbox = Outbox::new(Arc::default());
    outbox.add(near);
    let inbox = Inbox::new(Arc::default(), false);
    let (to, from) = mpsc::channel();
    let big = pattern(3 * CHUNK_MAX + 17);
    for id in 1..=2 {
        inbox.post(TransferId(id), big.len() as u64, collect(to.clone()));
    }
    std::thread::scope(|scope| {
        scope.spawn(|| inbox.serve(&far).unwrap());
        for id in 1..=2 {
            let mut outgoing = outbox.begin(TransferId(id), big.len() as u64).unwrap();
            for piece in big.chunks(100_000) {
                outgoing.send(piece).unwrap();
            }
            assert!(outgoing.send(b"x").is_err());
        }
        for _ in 1..=2 {
            assert!(from.recv().unwrap().unwrap() == big);
        }
        outbox.close(&broken("the end"));
    });
    assert!(inbox.is_empty());
    assert!(outbox.begin(TransferId(3), 1).is_err());
}

#[test]
fn a_lane_waits_for_its_transfer_to_be_posted() {
    let Pair { near, far } = pair();
    let outbox = Outbox::new(Arc::default());
    outbox.add(near);
    let inbox = Inbox::new(Arc::default(), true);
    outbox.begin(TransferId(1), 3).unwrap().send(b"abc").unwrap();
    let (to, from) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| inbox.serve(&far));
        inbox.post(TransferId(1), 3, collect(to));
        assert_eq!(from.recv().unwrap().unwrap(), b"abc");
        outbox.begin(TransferId(2), 3).unwrap().send(b"abc").unwrap();
        inbox.close();
    });
}

#[test]
fn dropped_and_aborted_transfers_leave_the_lane_in_order() {
    let Pair { near, far } = pair();
    let stats = Arc::<LinkStats>::default();
    let outbox = Outbox::new(stats.clone());
    outbox.add(near);
    let inbox = Inbox::new(stats.clone(), false);
    let (to, from) = mpsc::channel();
    let big = pattern(2 * CHUNK_MAX);
    inbox.post(
        TransferId(1),
        big.len() as u64,
        Box::new(|mut incoming| {
            incoming.fill(&mut [0; 1000]).unwrap();
        }),
    );
    inbox.post(TransferId(2), 10, collect(to.clone()));
    inbox.post(TransferId(3), 10, collect(to.clone()));
    inbox.post(TransferId(4), 10, collect(to));
    inbox.discard(TransferId(3));
    std::thread::scope(|scope| {
        scope.spawn(|| inbox.serve(&far).unwrap());
        outbox.begin(TransferId(1), big.len() as u64).unwrap().send(&big).unwrap();
        outbox.begin(TransferId(2), 10).unwrap().send(b"half").unwrap();
        outbox.begin(TransferId(3), 10).unwrap().send(b"0123456789").unwrap();
        outbox.begin(TransferId(4), 10).unwrap().send(b"0123456789").unwrap();
        assert!(from.recv().unwrap().unwrap_err().cause().contains("sender"));
        assert_eq!(from.recv().unwrap().unwrap(), b"0123456789");
        outbox.close(&broken("the end"));
    });
    let counters = stats.read();
    assert!(counters.bulk_sent >= big.len() as u64 + 24, "{counters}");
}

#[test]
fn a_lane_that_ends_within_a_transfer_fails_its_taker() {
    let Pair { near, far } = pair();
    let inbox = Inbox::new(Arc::default(), false);
    let (to, from) = mpsc::channel();
    inbox.post(TransferId(1), 10, collect(to));
    write_chunk(
        &*near,
        Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 4 },
        b"1234",
        &Stalls::default(),
    )
    .unwrap();
    drop(near);
    assert!(inbox.serve(&far).is_err());
    assert!(from.recv().unwrap().is_err());
}

#[test]
fn a_free_lane_is_taken_and_a_lent_one_is_not() {
    let (a, b) = (pair(), pair());
    let outbox = Outbox::new(Arc::default());
    outbox.add(a.near);
    outbox.add(b.near);
    let first = outbox.try_begin(TransferId(1), 1).unwrap();
    let second = outbox.try_begin(TransferId(2), 1).unwrap();
    assert!(first.is_some() && second.is_some());
    assert!(outbox.try_begin(TransferId(3), 1).unwrap().is_none());
    drop(first);
    assert!(outbox.try_begin(TransferId(3), 1).unwrap().is_some());
}

#[test]
fn misplaced_unknown_and_immense_chunks_break_the_lane() {
    let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 4 };
    let mut immense = chunk.encode();
    immense[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
    let mut odd = chunk.encode();
    odd[8] = 99;
    for bytes in [
        immense,
        odd,
        Chunk { offset: 5, ..chunk }.encode(),
        Chunk { transfer: TransferId(9), ..chunk }.encode(),
        Chunk { len: 11, ..chunk }.encode(),
        Chunk { kind: ChunkKind::Ready, len: 0, ..chunk }.encode(),
    ] {
        let Pair { near, far } = pair();
        let inbox = Inbox::new(Arc::default(), false);
        inbox.post(TransferId(1), 10, Box::new(drop));
        near.send(&bytes).unwrap();
        drop(near);
        assert!(inbox.serve(&far).is_err(), "{bytes:?}");
    }
}

#[test]
fn headers_come_back_and_garbage_never_panics() {
    proptest!(|(transfer: u64, offset: u64, len in 0..=CHUNK_MAX, garbage in proptest::array::uniform32(any::<u8>()))| {
        let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(transfer), offset, len };
        prop_assert_eq!(Chunk::decode(&chunk.encode()).unwrap(), chunk);
        let _ = Chunk::decode(&garbage);
    });
}

#[test]
fn a_blocked_control_message_delays_no_other_sender() {
    let (near, far) = transport::inproc_pair();
    let mut stuffed = 0;
    while let Ok(n) = near.try_write(&[IoSlice::new(&[0; 4096])]) {
        stuffed += n;
    }
    let sender = ControlSender::new("", Arc::default());
    sender.connect(near.clone());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| sender.send(ControlMessage::Landed(TransferId(1))));
        while !sender.is_writing() {
            std::thread::yield_now();
        }
        // The lane is full, and the first sender is blocked. A second call returns nevertheless.
        sender.send(ControlMessage::Landed(TransferId(2)));
        assert!(!first.is_finished());
        far.read_exact(&mut vec![0; stuffed]).unwrap();
        first.join().unwrap();
        near.finish().unwrap();
        let mut reported = Vec::new();
        let report_all = receive_control(&*far, &LinkStats::default(), |message| {
            reported.push(message);
            Ok(())
        });
        assert!(report_all.is_ok());
        assert_eq!(reported, [1, 2].map(|id| ControlMessage::Landed(TransferId(id))));
    });
}
