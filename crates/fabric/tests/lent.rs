//! Exposed buffers over MPI: all bytes arrive, are counted, and the buffers are released when a lane ends.

mod common;

use accord_fabric::frame::transfer::{Chunk, ChunkKind};
use accord_fabric::transfer::{Inbox, Outbox};
use accord_fabric::transport::mpi::{Counts, MpiFabric};
use accord_fabric::transport::{Lane, MemoryKind, SharedLane, Source};
use accord_types::{NativeContext, NativeRange, TransferId};
use common::worlds::two_ranks;
use common::{SHORT, SOON, pattern, transfers};
use std::io::ErrorKind;
use std::sync::{Arc, mpsc};
use std::time::Instant;

const MIB: usize = 1 << 20;

/// Returns two ranks, and both ends of a lane that the first has opened.
fn lane() -> ([MpiFabric; 2], SharedLane, SharedLane) {
    let [here, there] = two_ranks();
    let near = here.connect(1).unwrap();
    let far = there.accept().unwrap().0;
    ([here, there], near, far)
}

#[test]
fn lent_bytes_come_in_order_among_others_however_they_are_read() {
    let (_ranks, near, far) = lane();
    assert!(near.moves_in_place() && far.moves_in_place());
    let bytes = pattern(3 * MIB + 17, 2);
    for piece in [5 * MIB, MIB, 70_001, 4096] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                near.send(b"before").unwrap();
                near.send_in_place(&bytes).unwrap();
                near.send_in_place(b"").unwrap();
                near.send_in_place(b"few").unwrap();
                near.send(b"after").unwrap();
            });
            let (mut all, mut space) = (Vec::new(), vec![0; piece]);
            while all.len() < bytes.len() + 14 {
                let n = far.read(&mut space).unwrap();
                all.extend_from_slice(&space[..n]);
            }
            assert!(all == [b"before", &bytes[..], b"few", b"after"].concat(), "read by {piece}");
        });
    }
}

/// Returns both ranks' counts for a transfer.
fn transfer(bytes: &[u8], piece: usize) -> [Counts; 2] {
    let ([here, there], near, far) = lane();
    let (counts, ended) = transfers::transfer([&here, &there], (near, far), bytes, piece);
    ended.unwrap();
    counts
}

#[test]
fn a_large_transfer_is_not_copied_and_takes_few_messages() {
    let bytes = pattern(40 * MIB + 3, 5);
    let [sender, target] = transfer(&bytes, bytes.len());
    println!("in one piece: {sender:?}, {target:?}");
    // The chunk's header, the offer and its answer, and the bytes.
    assert_eq!((sender.exposed_messages, sender.exposed_bytes), (1, bytes.len() as u64));
    assert!(sender.messages <= 3 && target.messages <= 2, "{sender:?}, {target:?}");
    assert!(sender.copied_bytes + target.copied_bytes < 256, "{sender:?}, {target:?}");
    // As a GPU receives it that reads into page-locked memory.
    let [sender, target] = transfer(&bytes, 2 * MIB);
    println!("in pieces: {sender:?}, {target:?}");
    assert_eq!((sender.exposed_messages, sender.exposed_bytes), (21, bytes.len() as u64));
    assert!(target.messages <= 22 && sender.copied_bytes + target.copied_bytes < 256, "{sender:?}, {target:?}");
}

#[test]
fn a_small_transfer_does_not_block_and_is_copied_once_on_each_side() {
    let bytes = pattern(100_000, 5);
    let [sender, target] = transfer(&bytes, bytes.len());
    println!("{sender:?}, {target:?}");
    assert_eq!((sender.exposed_messages, target.exposed_messages), (0, 0));
    assert!(sender.messages <= 3 && target.messages <= 2, "{sender:?}, {target:?}");
    assert!(sender.copied_bytes <= bytes.len() as u64 + 64 && target.copied_bytes <= bytes.len() as u64 + 64);
}

/// Returns memory that stands for a device's. A thread must enter its context to use it.
fn native(memory: &mut [u8], entered: fn(usize) -> bool) -> NativeRange {
    let context = NativeContext::new(77, entered);
    NativeRange { address: memory.as_mut_ptr().expose_provenance() as u64, len: memory.len(), context }
}

#[test]
fn bytes_of_a_devices_own_memory_are_lent_where_mpi_reaches_it_and_nowhere_else() {
    let (ranks, near, far) = lane();
    let (mut from, mut to) = (pattern(3 * MIB, 4), vec![0; 3 * MIB]);
    let (bytes, space) = (native(&mut from, |raw| raw == 77), native(&mut to, |raw| raw == 77));
    assert!(near.remote_memory(MemoryKind::Device).is_none() && far.remote_memory(MemoryKind::Device).is_none());
    let host = [&near, &far].map(|lane| lane.remote_memory(MemoryKind::Host).unwrap());
    assert_eq!(host[0].send(Source::Device(bytes)).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(host[1].receive(space).unwrap(), None);
    ranks.iter().for_each(MpiFabric::take_native);
    let [sends, receives] = [&near, &far].map(|lane| lane.remote_memory(MemoryKind::Device).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            near.send(b"few").unwrap();
            sends.send(Source::Device(bytes)).unwrap();
            // Bytes that the host exposes may go into device memory, and the other way round.
            near.send_in_place(&[9; MIB]).unwrap();
            sends.send(Source::Device(bytes.part(0, MIB).unwrap())).unwrap();
            near.finish().unwrap();
        });
        // The host reads the written bytes, all of them before the exposed ones.
        assert_eq!(receives.receive(space).unwrap(), None);
        let mut few = [0; 2];
        far.read_exact(&mut few).unwrap();
        assert_eq!(receives.receive(space).unwrap(), None);
        far.read_exact(&mut few[..1]).unwrap();
        let half = space.part(0, 2 * MIB).unwrap();
        assert_eq!(receives.receive(half).unwrap(), Some(2 * MIB));
        assert_eq!(receives.receive(space.part(2 * MIB, MIB).unwrap()).unwrap(), Some(MIB));
        assert!(to == from);
        assert_eq!(receives.receive(space).unwrap(), Some(MIB));
        assert!(to[..MIB] == [9; MIB] && to[MIB..] == from[MIB..]);
        let mut read = vec![0; MIB];
        far.read_exact(&mut read).unwrap();
        assert!(read == from[..MIB]);
        assert_eq!(receives.receive(space).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    });
    let counts = ranks.each_ref().map(MpiFabric::counts);
    assert_eq!((counts[0].exposed_messages, counts[0].exposed_bytes), (4, 5 * MIB as u64));
    assert!(counts[0].copied_bytes + counts[1].copied_bytes < 64, "{counts:?}");
}

#[test]
fn a_transfer_out_of_a_devices_memory_into_another_is_one_message_of_its_bytes() {
    let (ranks, near, far) = lane();
    ranks.iter().for_each(MpiFabric::take_native);
    let mut bytes = pattern(5 * MIB + 3, 6);
    let whole = native(&mut bytes, |_| true);
    let inbox = Inbox::new(Arc::default(), false);
    let (taken, takes) = mpsc::channel();
    let take = move |mut incoming: accord_fabric::transfer::Incoming| {
        let mut all = vec![0; 5 * MIB + 3];
        let space = native(&mut all, |_| true);
        assert!(incoming.fills_native());
        assert_eq!(incoming.fill_native(space).unwrap(), space.len);
        // No bytes are left.
        assert!(incoming.fill_native(space).is_err());
        taken.send(all).unwrap();
    };
    inbox.post(TransferId(7), whole.len as u64, Box::new(take));
    let outbox = Outbox::new(Arc::default());
    outbox.add(near);
    let reader = std::thread::spawn(move || inbox.serve(&far));
    let mut outgoing = outbox.begin(TransferId(7), whole.len as u64).unwrap();
    assert!(outgoing.sends_native());
    outgoing.send_native(whole).unwrap();
    drop(outgoing);
    assert!(takes.recv_timeout(SOON).unwrap() == bytes);
    let [sender, target] = ranks.each_ref().map(MpiFabric::counts);
    assert_eq!((sender.exposed_messages, sender.exposed_bytes), (1, bytes.len() as u64));
    assert!(sender.messages <= 4 && target.messages <= 3, "{sender:?}, {target:?}");
    assert!(sender.copied_bytes + target.copied_bytes < 256, "{sender:?}, {target:?}");
    // For few bytes a request is not worthwhile.
    for (bytes, is_exposed) in [(1000, false), (64 << 10, false), ((64 << 10) + 1, true)] {
        let outgoing = outbox.begin(TransferId(8), bytes).unwrap();
        assert_eq!(outgoing.sends_native(), is_exposed, "{bytes} bytes");
    }
    outbox.close(&accord_types::Error::new(accord_types::ErrorCode::DeviceShutdown, "over"));
    reader.join().unwrap().unwrap_err();
}

#[test]
fn waits_for_exposed_bytes_end_with_either_end_of_the_lane() {
    for ends_near in [true, false] {
        let (_ranks, near, far) = lane();
        let bytes = pattern(MIB, 1);
        let start = Instant::now();
        std::thread::scope(|scope| {
            // There is no reader.
            let lends = scope.spawn(|| near.send_in_place(&bytes));
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
    // The lane ends in the middle of the reader's exposed bytes.
    let (_ranks, near, far) = lane();
    let bytes = pattern(MIB, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(near.send_in_place(&bytes).is_err()));
        let mut space = vec![0; MIB / 2];
        far.read_exact(&mut space).unwrap();
        assert!(space == bytes[..MIB / 2]);
        near.shutdown();
        assert!(far.read_exact(&mut space).is_err());
    });
}

#[test]
fn the_end_of_the_world_gives_back_what_was_lent() {
    for stops in [0, 1] {
        let (ranks, near, far) = lane();
        let bytes = pattern(MIB, 1);
        std::thread::scope(|scope| {
            let lends = scope.spawn(|| near.send_in_place(&bytes));
            std::thread::sleep(SHORT);
            ranks[stops].stop();
            // The other rank gets no notice: usually MPI ends it.
            ranks[1 - stops].stop();
            assert!(lends.join().unwrap().is_err());
            assert!(matches!(far.read(&mut [0; 8]), Ok(0) | Err(_)));
        });
    }
}

/// More concurrent transfers than tags: all arrive.
#[test]
fn more_readers_than_tags_all_get_theirs() {
    let [here, there] = two_ranks();
    let lanes: Vec<_> = (0..80).map(|_| (here.connect(1).unwrap(), there.accept().unwrap().0)).collect();
    std::thread::scope(|scope| {
        for (index, (near, far)) in lanes.iter().enumerate() {
            scope.spawn(move || near.send_in_place(&pattern(300_000, index)).unwrap());
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
