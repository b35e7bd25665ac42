//! Large transfers through a gateway. It sends and receives their bytes in place in the memory that it shares with the process, and copies
//! none.

mod common;

use accord_fabric::transport::mpi::{Counts, MpiFabric};
use accord_fabric::transport::{Lane, SharedLane};
use common::gateways::lanes;
use common::{SHORT, SOON, pattern, transfers};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Instant;

const MIB: usize = 1 << 20;

/// Returns the ranks' counts for a transfer from one end of a lane to the other.
fn transfer([gateway, other]: &[Arc<MpiFabric>; 2], from: &SharedLane, to: &SharedLane, bytes: &[u8]) -> [Counts; 2] {
    transfers::transfer([gateway, other], (from.clone(), to.clone()), bytes, bytes.len()).0
}

#[test]
fn a_gateway_copies_little_of_what_a_process_sends() {
    let (ranks, near, far) = lanes("sends");
    let bytes = pattern(40 * MIB + 3, 5);
    let [gateway, target] = transfer(&ranks, &near, &far, &bytes);
    println!("{gateway:?}, {target:?}");
    // An idle gateway may find fewer bytes than are worth exposing, and sends them at once as a message.
    let in_messages = bytes.len() as u64 - gateway.exposed_bytes;
    assert!(in_messages < 10 * MIB as u64, "{gateway:?}");
    assert!(
        gateway.copied_bytes <= in_messages + 4096 && target.copied_bytes <= in_messages + 4096,
        "{gateway:?}, {target:?}"
    );
}

#[test]
fn a_gateway_copies_nothing_of_what_a_process_is_sent() {
    let (ranks, near, far) = lanes("is-sent");
    let bytes = pattern(40 * MIB + 3, 5);
    let [gateway, source] = transfer(&ranks, &far, &near, &bytes);
    println!("{gateway:?}, {source:?}");
    assert_eq!(source.exposed_bytes, bytes.len() as u64);
    assert!(source.copied_bytes + gateway.copied_bytes < 256, "{source:?}, {gateway:?}");
    // As many messages as windows, each of half the ring or its rest.
    assert!(source.exposed_messages <= 2 * 40 + 2, "{source:?}");
}

/// Writes and exposed buffers of all lengths, in both directions at once: the received bytes are the sent ones.
#[test]
fn bytes_by_a_gateway_come_in_order_however_they_are_sent_and_read() {
    let (_ranks, near, far) = lanes("mixed");
    let bytes = pattern(24 * MIB, 9);
    let sizes = [1, 17, 4096, 70_001, 262_144, 262_143, 1_500_000, 3 * MIB + 5, 900_000, 64, 2 * MIB];
    let send = |lane: &dyn Lane| {
        let (mut at, mut turn) = (0, 0);
        while at < bytes.len() {
            let n = sizes[turn % sizes.len()].min(bytes.len() - at);
            let part = &bytes[at..at + n];
            if turn % 3 == 0 {
                lane.send_in_place(part).unwrap();
            } else {
                lane.write_all(&mut [IoSlice::new(part)]).unwrap();
            }
            (at, turn) = (at + n, turn + 1);
        }
        lane.finish().unwrap();
    };
    let read = |lane: &dyn Lane, rooms: &[usize]| {
        let (mut all, mut space) = (Vec::new(), vec![0; 4 * MIB]);
        for turn in 0.. {
            let n = lane.read(&mut space[..rooms[turn % rooms.len()]]).unwrap();
            if n == 0 {
                return assert!(all == bytes);
            }
            all.extend_from_slice(&space[..n]);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| send(&*near));
        scope.spawn(|| send(&*far));
        scope.spawn(|| read(&*near, &[5, 300_000, 4096, 2 * MIB, 70_000]));
        scope.spawn(|| read(&*far, &[4 * MIB, 9, 1_000_003, 512]));
    });
}

/// Either end is closed while bytes are exposed: the sender, the receiver and the gateways all learn of it.
#[test]
fn the_end_of_either_end_of_a_lane_by_a_gateway_ends_what_is_lent() {
    let bytes = pattern(8 * MIB, 1);
    for (turn, (by_process, ends_near)) in
        [(true, true), (true, false), (false, true), (false, false)].into_iter().enumerate()
    {
        let (_ranks, near, far) = lanes(&format!("ends-{turn}"));
        let (from, to) = if by_process { (&near, &far) } else { (&far, &near) };
        let start = Instant::now();
        std::thread::scope(|scope| {
            // Only the beginning is read.
            let lends = scope.spawn(|| from.send_in_place(&bytes));
            let mut begin = vec![0; MIB];
            to.read_exact(&mut begin).unwrap();
            assert!(begin == bytes[..MIB]);
            std::thread::sleep(SHORT);
            assert!(!lends.is_finished());
            (if ends_near { &near } else { &far }).shutdown();
            assert!(lends.join().unwrap().is_err(), "by the process {by_process}, near {ends_near}");
        });
        while !matches!(to.read(&mut [0; 4096]), Ok(0) | Err(_)) {}
        while from.write(&[IoSlice::new(&bytes)]).is_ok() {}
        assert!(start.elapsed() < SOON / 2);
    }
}

/// The process knows whether its bytes are exposed: to the gateway's own node they go in chunks, as over any shared memory.
#[test]
fn a_lane_says_whether_a_gateway_lends_what_it_carries() {
    let (_ranks, near, far) = lanes("knows");
    assert!(near.moves_in_place() && far.moves_in_place());
}
