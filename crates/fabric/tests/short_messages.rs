//! Short messages over MPI's lanes, which bypass the lanes' table: they stay in order among long and exposed ones, and are counted.

mod common;

use accord_fabric::transport::SharedLane;
use accord_fabric::transport::mpi::MpiFabric;
use common::worlds::two_ranks;
use common::{SOON, pattern};
use std::io::{ErrorKind, IoSlice};
use std::time::Instant;

/// Returns two ranks, and both ends of a lane that the first has opened.
fn lane() -> ([MpiFabric; 2], SharedLane, SharedLane) {
    let [here, there] = two_ranks();
    let near = here.connect(1).unwrap();
    let far = there.accept().unwrap().0;
    ([here, there], near, far)
}

/// Returns the next pseudo-random number.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) as usize
}

#[test]
fn bytes_keep_their_order_whatever_is_short_or_long_or_lent() {
    for first in 0..12 {
        let (_ranks, near, far) = lane();
        let mut seed = first;
        let parts: Vec<(usize, bool)> = (0..400)
            .map(|_| match next(&mut seed) % 16 {
                0 => (200_000 + next(&mut seed) % 300_000, true),
                1 | 2 => (1 + next(&mut seed) % 200_000, false),
                3 | 4 => (490 + next(&mut seed) % 30, false),
                _ => (1 + next(&mut seed) % 200, false),
            })
            .collect();
        let bytes = pattern(parts.iter().map(|(len, _)| len).sum(), 3);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut left = &bytes[..];
                let mut seed = first + 100;
                for &(len, lends) in &parts {
                    let (part, later) = left.split_at(len);
                    left = later;
                    if lends {
                        near.send_in_place(part).unwrap();
                    } else {
                        near.send(part).unwrap();
                    }
                    // Alternates between a reader that is ahead and one that is late.
                    if next(&mut seed).is_multiple_of(8) {
                        std::thread::sleep(std::time::Duration::from_micros(next(&mut seed) as u64 % 300));
                    }
                }
                near.finish().unwrap();
            });
            let (mut all, mut seed) = (Vec::new(), first + 200);
            let mut space = vec![0; 400_000];
            loop {
                let most = if next(&mut seed).is_multiple_of(4) { 1 + next(&mut seed) % 64 } else { space.len() };
                let n = match next(&mut seed) % 3 {
                    0 => match far.try_read(&mut space[..most]) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                        n => n.unwrap(),
                    },
                    1 => {
                        while !far.is_readable() {
                            std::thread::yield_now();
                        }
                        far.read(&mut space[..most]).unwrap()
                    }
                    _ => far.read(&mut space[..most]).unwrap(),
                };
                if n == 0 {
                    break;
                }
                all.extend_from_slice(&space[..n]);
            }
            assert!(all == bytes, "seed {first}: {} of {} bytes", all.len(), bytes.len());
        });
    }
}

#[test]
fn short_messages_go_beside_the_table_and_long_ones_by_it() {
    const TIMES: u64 = 1_000;
    let ([here, there], near, far) = lane();
    let answers = std::thread::spawn(move || {
        let mut bytes = [0; 512];
        for _ in 0..TIMES {
            far.read_exact(&mut bytes[..100]).unwrap();
            far.send(&bytes[..100]).unwrap();
        }
        far
    });
    let before = (here.counts(), there.counts());
    let mut bytes = [0; 100];
    for number in 0..TIMES {
        near.send(&[number as u8; 100]).unwrap();
        near.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [number as u8; 100]);
    }
    let far = answers.join().unwrap();
    let (here_now, there_now) = (here.counts(), there.counts());
    for (now, before) in [(here_now, before.0), (there_now, before.1)] {
        // A message that arrives while the previous one is read would use the table; there are none here.
        assert_eq!(now.handed - before.handed, TIMES, "{now:?}");
        // One message each, and the credit of the peer.
        assert!(now.messages - before.messages < TIMES + TIMES / 100, "{now:?}");
    }
    near.send(&[1; 10_000]).unwrap();
    far.read_exact(&mut [0; 10_000]).unwrap();
    assert_eq!(there.counts().handed, there_now.handed);
}

#[test]
fn a_blocked_reader_is_woken_by_a_short_message_and_by_the_end() {
    let ([here, _there], near, far) = lane();
    let reads = std::thread::spawn(move || {
        let mut bytes = [0; 16];
        let mut received = Vec::new();
        loop {
            match far.read(&mut bytes) {
                Ok(n @ 1..) => received.extend_from_slice(&bytes[..n]),
                end => return (received, end),
            }
        }
    });
    let start = Instant::now();
    for part in 0..5 {
        std::thread::sleep(std::time::Duration::from_millis(30));
        near.send(&[part; 3]).unwrap();
    }
    near.send(b"last").unwrap();
    near.shutdown();
    let (received, end) = reads.join().unwrap();
    assert_eq!(received, [&[0; 3][..], &[1; 3], &[2; 3], &[3; 3], &[4; 3], b"last"].concat());
    assert!(end.is_ok_and(|n| n == 0) && start.elapsed() < SOON);
    drop(here);
}

#[test]
fn unread_messages_of_a_closed_lane_delay_no_other_lane() {
    let ([here, there], near, far) = lane();
    let (other, other_far) = (here.connect(1).unwrap(), there.accept().unwrap().0);
    near.send(b"unread").unwrap();
    other.send(b"read").unwrap();
    other_far.read_exact(&mut [0; 4]).unwrap();
    assert!(far.is_readable());
    far.shutdown();
    assert_eq!(far.read(&mut [0; 16]).unwrap_or(0), 0);
    let start = Instant::now();
    // The writer learns that the reader has gone.
    while near.write(&[IoSlice::new(b"more")]).is_ok() {
        assert!(start.elapsed() < SOON);
        std::thread::yield_now();
    }
    for _ in 0..100 {
        other.send(&[5; 300]).unwrap();
        other_far.read_exact(&mut [0; 300]).unwrap();
    }
}
