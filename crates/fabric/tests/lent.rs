//! Bytes that go over MPI from where they are to where they belong: whole, and counted, and back with whoever lent them when a lane ends.

mod common;

use accord_fabric::frame::transfer::{Chunk, ChunkKind};
use accord_fabric::stats::LinkStats;
use accord_fabric::transfer::{Inbox, Outbox};
use accord_fabric::transport::mpi::{Counts, MpiFabric};
use accord_fabric::transport::{Lane, SharedLane};
use accord_types::TransferId;
use common::worlds::two_ranks;
use common::{SHORT, SOON, pattern};
use std::sync::{Arc, mpsc};
use std::time::Instant;

const MIB: usize = 1 << 20;

/// Two ranks, and both ends of a lane that the first has opened.
fn lane() -> ([MpiFabric; 2], SharedLane, SharedLane) {
    let [here, there] = two_ranks();
    let near = here.connect(1).unwrap();
    let far = there.accept().unwrap().0;
    ([here, there], near, far)
}

#[test]
fn lent_bytes_come_in_order_among_others_however_they_are_read() {
    let (_ranks, near, far) = lane();
    assert!(near.lends() && !far.lends());
    let bytes = pattern(3 * MIB + 17, 2);
    for piece in [5 * MIB, MIB, 70_001, 4096] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                near.send(b"before").unwrap();
                near.lend(&bytes).unwrap();
                near.lend(b"").unwrap();
                near.lend(b"few").unwrap();
                near.send(b"after").unwrap();
            });
            let (mut all, mut room) = (Vec::new(), vec![0; piece]);
            while all.len() < bytes.len() + 14 {
                let n = far.read(&mut room).unwrap();
                all.extend_from_slice(&room[..n]);
            }
            assert!(all == [b"before", &bytes[..], b"few", b"after"].concat(), "read by {piece}");
        });
    }
}

/// Sends a transfer as a push does, and takes it as its target does. What both ranks have done for it.
fn transfer(bytes: &[u8], piece: usize) -> [Counts; 2] {
    let (ranks, near, far) = lane();
    let (stats, inbox) = (Arc::<LinkStats>::default(), Inbox::new(Arc::default(), false));
    let (taken, takes) = mpsc::channel();
    let len = bytes.len();
    let take = move |mut incoming: accord_fabric::transfer::Incoming| {
        let mut all = vec![0; len];
        all.chunks_mut(piece).for_each(|room| incoming.fill(room).unwrap());
        taken.send(all).unwrap();
    };
    inbox.post(TransferId(7), len as u64, Box::new(take));
    let before = ranks.each_ref().map(MpiFabric::counts);
    let outbox = Outbox::new(stats.clone());
    outbox.add(near);
    let reader = std::thread::spawn(move || inbox.serve(&far));
    outbox.begin(TransferId(7), len as u64).unwrap().send(bytes).unwrap();
    assert!(takes.recv_timeout(SOON).unwrap() == bytes);
    assert!(stats.read().bulk_sent >= len as u64);
    let after = ranks.each_ref().map(MpiFabric::counts);
    outbox.close(&accord_types::Error::new(accord_types::ErrorCode::DeviceShutdown, "over"));
    reader.join().unwrap().unwrap();
    let since = |after: Counts, before: Counts| Counts {
        messages: after.messages - before.messages,
        lent_messages: after.lent_messages - before.lent_messages,
        lent_bytes: after.lent_bytes - before.lent_bytes,
        copied_bytes: after.copied_bytes - before.copied_bytes,
    };
    [since(after[0], before[0]), since(after[1], before[1])]
}

#[test]
fn a_large_transfer_is_not_copied_and_takes_few_messages() {
    let bytes = pattern(40 * MIB + 3, 5);
    let [sender, target] = transfer(&bytes, bytes.len());
    println!("in one piece: {sender:?}, {target:?}");
    // The chunk's header, the offer and its answer; and the bytes.
    assert_eq!((sender.lent_messages, sender.lent_bytes), (1, bytes.len() as u64));
    assert!(sender.messages <= 3 && target.messages <= 2, "{sender:?}, {target:?}");
    assert!(sender.copied_bytes + target.copied_bytes < 256, "{sender:?}, {target:?}");
    // As a GPU takes it that reads into page-locked memory.
    let [sender, target] = transfer(&bytes, 2 * MIB);
    println!("in pieces: {sender:?}, {target:?}");
    assert_eq!((sender.lent_messages, sender.lent_bytes), (21, bytes.len() as u64));
    assert!(target.messages <= 22 && sender.copied_bytes + target.copied_bytes < 256, "{sender:?}, {target:?}");
}

#[test]
fn a_small_transfer_waits_for_nobody_and_is_copied_once_on_each_side() {
    let bytes = pattern(100_000, 5);
    let [sender, target] = transfer(&bytes, bytes.len());
    println!("{sender:?}, {target:?}");
    assert_eq!((sender.lent_messages, target.lent_messages), (0, 0));
    assert!(sender.messages <= 3 && target.messages <= 2, "{sender:?}, {target:?}");
    assert!(sender.copied_bytes <= bytes.len() as u64 + 64 && target.copied_bytes <= bytes.len() as u64 + 64);
}

#[test]
fn whoever_lends_or_waits_for_lent_bytes_is_woken_by_either_end() {
    for ends_near in [true, false] {
        let (_ranks, near, far) = lane();
        let bytes = pattern(MIB, 1);
        let start = Instant::now();
        std::thread::scope(|scope| {
            // Nobody reads.
            let lends = scope.spawn(|| near.lend(&bytes));
            std::thread::sleep(SHORT);
            assert!(!lends.is_finished());
            if ends_near {
                near.shutdown();
            } else {
                far.shutdown();
            }
            assert!(lends.join().unwrap().is_err());
        });
        assert!(near.send(b"x").is_err() && start.elapsed() < SOON / 2);
    }
    // A reader that is in the middle of what is lent.
    let (_ranks, near, far) = lane();
    let bytes = pattern(MIB, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(near.lend(&bytes).is_err()));
        let mut room = vec![0; MIB / 2];
        far.read_exact(&mut room).unwrap();
        assert!(room == bytes[..MIB / 2]);
        near.shutdown();
        assert!(far.read_exact(&mut room).is_err());
    });
}

#[test]
fn the_end_of_the_world_gives_back_what_was_lent() {
    for stops in [0, 1] {
        let (ranks, near, far) = lane();
        let bytes = pattern(MIB, 1);
        std::thread::scope(|scope| {
            let lends = scope.spawn(|| near.lend(&bytes));
            std::thread::sleep(SHORT);
            ranks[stops].stop();
            // The other rank hears of nothing: MPI ends it, as a rule.
            ranks[1 - stops].stop();
            assert!(lends.join().unwrap().is_err());
            assert!(matches!(far.read(&mut [0; 8]), Ok(0) | Err(_)));
        });
    }
}

/// Many transfers at once, more than there are tags: all come.
#[test]
fn more_readers_than_tags_all_get_theirs() {
    let [here, there] = two_ranks();
    let lanes: Vec<_> = (0..80).map(|_| (here.connect(1).unwrap(), there.accept().unwrap().0)).collect();
    std::thread::scope(|scope| {
        for (index, (near, far)) in lanes.iter().enumerate() {
            scope.spawn(move || near.lend(&pattern(300_000, index)).unwrap());
            scope.spawn(move || {
                let mut all = vec![0; 300_000];
                (&**far as &dyn Lane).read_exact(&mut all).unwrap();
                assert!(all == pattern(300_000, index));
            });
        }
    });
}

#[test]
fn a_chunk_is_as_long_as_what_is_lent() {
    let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 1 << 30 };
    assert_eq!(Chunk::decode(&chunk.encode()).unwrap(), chunk);
    assert!(Chunk::decode(&Chunk { len: (1 << 30) + 1, ..chunk }.encode()).is_err());
}
