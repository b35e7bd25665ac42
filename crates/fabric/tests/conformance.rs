//! The requirements on every transport. Each test runs over all of them.

mod common;

use accord_fabric::frame::transfer::{CHUNK_MAX, Chunk, ChunkKind, HEADER_LEN};
use accord_fabric::frame::{self, Command, FrameReader};
use accord_fabric::transfer::{read_bytes, read_chunk};
use accord_fabric::transport::SharedLane;
use accord_types::TransferId;
use common::worlds::{OBJECT, find_object, is_open_mpi, serve_as_other_rank};
use common::{SHORT, SOON, all, ends, pattern, read};
use std::io::{ErrorKind, IoSlice};
use std::process::{Command as Process, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Less than TCP's own limit on unread bytes, of 6 s.
const WITHOUT_LIMITS: Duration = Duration::from_secs(5);

/// Runs a test over every transport, in both directions.
fn over_all(test: impl Fn(SharedLane, SharedLane)) {
    for transport in all() {
        println!("over {transport}");
        let (near, far) = ends(transport);
        test(near, far);
        let (near, far) = ends(transport);
        test(far, near);
    }
}

#[test]
fn bytes_arrive_in_order_and_once_however_they_are_cut() {
    over_all(|here, there| {
        let bytes = pattern(3 << 20, 1);
        for (written, taken) in [(1 << 20, 1 << 20), (70_001, 513), (513, 70_001), (3 << 20, 4096)] {
            std::thread::scope(|scope| {
                scope.spawn(|| bytes.chunks(written).for_each(|piece| here.send(piece).unwrap()));
                assert!(read(&*there, bytes.len(), taken) == bytes, "written by {written}, taken by {taken}");
            });
        }
    });
}

#[test]
fn parts_arrive_as_one() {
    over_all(|here, there| {
        let long = pattern(100_000, 3);
        let mut parts = [IoSlice::new(b"head"), IoSlice::new(b""), IoSlice::new(&long), IoSlice::new(b"tail")];
        here.write_all(&mut parts).unwrap();
        let mut all = vec![0; 100_008];
        there.read_exact(&mut all).unwrap();
        assert_eq!((&all[..4], &all[100_004..]), (&b"head"[..], &b"tail"[..]));
        assert!(all[4..100_004] == long);
    });
}

#[test]
fn both_directions_flow_at_once() {
    over_all(|here, there| {
        let (up, down) = (pattern(2 << 20, 1), pattern(2 << 20, 9));
        std::thread::scope(|scope| {
            scope.spawn(|| here.send(&up).unwrap());
            scope.spawn(|| there.send(&down).unwrap());
            scope.spawn(|| assert!(read(&*here, down.len(), 9999) == down));
            assert!(read(&*there, up.len(), 9999) == up);
        });
    });
}

#[test]
fn small_words_go_back_and_forth() {
    over_all(|here, there| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let word = read(&*there, 8, 8);
                    there.send(&word).unwrap();
                }
            });
            for i in 0..2000u64 {
                here.send(&i.to_le_bytes()).unwrap();
                // Some by a blocked reader, some by a polling one.
                let back = if i % 3 == 0 {
                    let mut back = [0; 8];
                    while here.try_read(&mut back).is_err() {
                        std::thread::yield_now();
                    }
                    back.to_vec()
                } else {
                    read(&*here, 8, 8)
                };
                assert_eq!(back, i.to_le_bytes());
            }
        });
    });
}

#[test]
fn try_read_does_not_block() {
    over_all(|here, there| {
        assert!(!there.is_readable());
        let error = there.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        here.send(b"x").unwrap();
        let end = Instant::now() + SOON;
        while !there.is_readable() {
            assert!(Instant::now() < end);
        }
        let mut bytes = [0; 4];
        assert_eq!((there.try_read(&mut bytes).unwrap(), bytes[0]), (1, b'x'));
        here.finish().unwrap();
        while !there.is_readable() {
            assert!(Instant::now() < end);
        }
        assert_eq!(there.try_read(&mut bytes).unwrap(), 0);
    });
}

#[test]
fn a_limit_ends_a_read_and_the_lane_goes_on() {
    over_all(|here, there| {
        there.limit(Some(SHORT)).unwrap();
        let start = Instant::now();
        assert_eq!(there.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(start.elapsed() >= SHORT / 2 && start.elapsed() < SOON);
        assert!(there.limit(Some(Duration::ZERO)).is_err());
        // On a busy machine ranks of MPI take longer than the previous limit.
        there.limit(Some(SOON)).unwrap();
        here.send(b"late").unwrap();
        assert_eq!(read(&*there, 4, 4), b"late");
    });
}

#[test]
fn write_blocks_while_the_peer_does_not_read() {
    over_all(|here, there| {
        here.limit(Some(SHORT)).unwrap();
        let piece = pattern(64 << 10, 5);
        let mut written = 0;
        // Bounded: TCP's buffers are the largest.
        while written < 64 << 20 {
            match here.write(&[IoSlice::new(&piece)]) {
                Ok(n) => written += n,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(written < 64 << 20, "no bound");
        here.limit(Some(SOON)).unwrap();
        std::thread::scope(|scope| {
            // Some of the piece may be in flight.
            scope.spawn(|| [&piece[..], b"end"].into_iter().for_each(|bytes| here.send(bytes).unwrap()));
            let all = read(&*there, written + piece.len() + 3, 1 << 20);
            assert_eq!(&all[written + piece.len()..], b"end");
        });
    });
}

#[test]
fn bytes_written_before_finish_arrive() {
    over_all(|here, there| {
        here.send(&pattern(100_000, 2)).unwrap();
        here.finish().unwrap();
        let mut all = Vec::new();
        there.read_to_end(&mut all).unwrap();
        assert!(all == pattern(100_000, 2));
        // The other direction is still open.
        there.send(b"still").unwrap();
        assert_eq!(read(&*here, 5, 5), b"still");
    });
}

/// Half-open lanes: a side that has finished may still read all that its peer sends.
#[test]
fn half_closed_lane_still_receives_all_bytes() {
    over_all(|here, there| {
        let bytes = pattern(3 << 20, 5);
        here.send(b"all").unwrap();
        here.finish().unwrap();
        assert_eq!(read(&*there, 3, 3), b"all");
        assert_eq!(there.read(&mut [0; 4]).unwrap(), 0, "the end of what the other had to say");
        std::thread::scope(|scope| {
            scope.spawn(|| there.send(&bytes).unwrap());
            assert!(read(&*here, bytes.len(), 70_001) == bytes);
        });
        there.finish().unwrap();
        assert_eq!(here.read(&mut [0; 4]).unwrap(), 0);
    });
}

#[test]
fn a_dropped_end_is_the_end() {
    over_all(|here, there| {
        here.send(b"last words").unwrap();
        drop(here);
        let mut all = Vec::new();
        there.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"last words");
        // The peer no longer reads, so that a write fails eventually.
        let piece = vec![0; 64 << 10];
        assert!((0..4096).any(|_| there.write(&[IoSlice::new(&piece)]).is_err()), "writes go on without a reader");
    });
}

#[test]
fn shutdown_wakes_blocked_readers_at_both_ends() {
    over_all(|here, there| {
        let (reads, reading) = mpsc::channel();
        std::thread::scope(|scope| {
            for lane in [&here, &there] {
                let reads = reads.clone();
                scope.spawn(move || {
                    let read = lane.read(&mut [0; 4]);
                    reads.send(matches!(read, Ok(0) | Err(_))).unwrap();
                });
            }
            std::thread::sleep(SHORT);
            let start = Instant::now();
            here.shutdown();
            assert!(reading.recv_timeout(SOON).unwrap() && reading.recv_timeout(SOON).unwrap());
            assert!(start.elapsed() < SOON / 2, "only the limit has ended it");
        });
        assert!(here.send(b"x").is_err());
    });
}

#[test]
fn shutdown_wakes_a_blocked_writer() {
    over_all(|here, there| {
        std::thread::scope(|scope| {
            let stuck = scope.spawn(|| {
                let piece = vec![0; 1 << 20];
                while here.send(&piece).is_ok() {}
            });
            std::thread::sleep(SHORT);
            let start = Instant::now();
            here.shutdown();
            stuck.join().unwrap();
            assert!(start.elapsed() < WITHOUT_LIMITS, "only a limit has ended it");
        });
        drop(there);
    });
}

#[test]
fn shutdown_and_drop_wake_the_peers_blocked_writer() {
    over_all(|here, there| {
        std::thread::scope(|scope| {
            let stuck = scope.spawn(|| {
                let piece = vec![0; 1 << 20];
                while here.send(&piece).is_ok() {}
            });
            std::thread::sleep(SHORT);
            let start = Instant::now();
            there.shutdown();
            // Only then TCP ends a writer with unread bytes.
            drop(there);
            stuck.join().unwrap();
            assert!(start.elapsed() < WITHOUT_LIMITS, "only a limit has ended it");
        });
    });
}

#[test]
fn sending_one_chunk_does_not_block() {
    over_all(|here, there| {
        // There is no reader, and a small copy must not wait for one, see docs/design/transports.md.
        let (header, bytes) = (pattern(HEADER_LEN, 4), pattern(CHUNK_MAX, 5));
        let mut parts = [IoSlice::new(&header), IoSlice::new(&bytes)];
        let mut left = &mut parts[..];
        let mut written = 0;
        // TCP accepts the bytes in pieces, as the peer's system buffers them, without a reader.
        let end = Instant::now() + SOON;
        while written < HEADER_LEN + CHUNK_MAX {
            match here.try_write(left) {
                Ok(n) => {
                    written += n;
                    IoSlice::advance_slices(&mut left, n);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(Instant::now() < end, "{written} bytes of a chunk were taken");
                    std::thread::yield_now();
                }
            }
        }
        assert!(read(&*there, HEADER_LEN, 16) == header);
        assert!(read(&*there, CHUNK_MAX, 1 << 20) == bytes);
    });
}

#[test]
fn try_write_does_not_block_and_loses_no_bytes() {
    over_all(|here, there| {
        let piece = pattern(70_001, 6);
        let mut written = Vec::new();
        loop {
            match here.try_write(&[IoSlice::new(&piece[..1]), IoSlice::new(&piece[1..])]) {
                Ok(n) => {
                    assert!((1..=piece.len()).contains(&n));
                    written.extend_from_slice(&piece[..n]);
                    assert!(written.len() < 64 << 20, "no bound");
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        assert!(read(&*there, written.len(), 1 << 20) == written);
        // There is space again, at the latest when the peer's system has reported it.
        let end = Instant::now() + SOON;
        let more = loop {
            match here.try_write(&[IoSlice::new(&piece)]) {
                Ok(n) => break n,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            assert!(Instant::now() < end, "there is no room again");
        };
        assert!(read(&*there, more, 1 << 20) == piece[..more]);
        there.shutdown();
        let piece = vec![0; 64 << 10];
        // The end takes time to arrive where other processes forward it.
        let end = Instant::now() + SOON;
        while here
            .try_write(&[IoSlice::new(&piece)])
            .map_or_else(|error| error.kind() == ErrorKind::WouldBlock, |_| true)
        {
            assert!(Instant::now() < end, "writes go on without a reader");
            std::thread::yield_now();
        }
    });
}

/// Loss: of a lane that is cut anywhere, the beginning arrives, and never half of a frame or chunk.
#[test]
fn a_lane_that_is_cut_gives_whole_frames_and_chunks_or_none() {
    let payload = pattern(1000, 7);
    let mut frames = Vec::new();
    let frame = frame::put(&mut frames, &Command::Clock { ticket: 1 }, &[&payload]).unwrap();
    frame::put(&mut frames, &Command::Clock { ticket: 2 }, &[&payload]).unwrap();
    let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: payload.len() };
    let chunk = [&chunk.encode()[..], &payload].concat();
    // Within headers, at borders, and within records and payloads.
    let cuts = [0, 1, 15, 16, 50, frame - 1, frame, frame + 1, frame + 16, frame + 700, 2 * frame - 1, 2 * frame];
    for (cut, by_dropping) in cuts.into_iter().flat_map(|cut| [(cut, false), (cut, true)]) {
        over_all(|here, there| {
            here.send(&frames[..cut]).unwrap();
            if by_dropping {
                drop(here);
            } else {
                here.finish().unwrap();
            }
            let (mut reader, mut tickets) = (FrameReader::default(), Vec::new());
            loop {
                while let Some(frame) = reader.take::<Command>().unwrap() {
                    assert!(frame.payload == payload);
                    tickets.push(frame.record);
                }
                if !matches!(reader.fill(|bytes| there.read(bytes)), Ok(true)) {
                    break;
                }
            }
            let whole: Vec<_> = (1..=(cut / frame) as u64).map(|ticket| Command::Clock { ticket }).collect();
            assert_eq!(tickets, whole, "cut after {cut} bytes");
        });
    }
    for cut in [0, 1, HEADER_LEN - 1, HEADER_LEN, HEADER_LEN + 1, chunk.len() - 1, chunk.len()] {
        over_all(|here, there| {
            here.send(&chunk[..cut]).unwrap();
            drop(here);
            let mut bytes = vec![0; payload.len()];
            match (read_chunk(&*there), cut) {
                (Ok(None), 0) => {}
                (Err(_), 1..HEADER_LEN) => {}
                (Ok(Some(header)), HEADER_LEN..) => {
                    assert_eq!(header.len, payload.len());
                    assert_eq!(read_bytes(&*there, &mut bytes).is_ok(), cut == chunk.len());
                }
                (received, _) => panic!("cut after {cut} bytes: {received:?}"),
            }
        });
    }
}

#[test]
fn immense_announcements_cost_nothing_and_are_refused() {
    over_all(|here, there| {
        let mut chunk = [0; 32];
        chunk[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
        chunk[8] = 1;
        here.send(&chunk).unwrap();
        let error = read_chunk(&*there).unwrap_err();
        assert!(error.cause().contains("1152921504606846976"), "{error}");
        let mut frame = [0; 80];
        frame[..8].copy_from_slice(&(1_u64 << 60).to_le_bytes());
        frame[12] = 1;
        here.send(&frame).unwrap();
        let mut reader = FrameReader::default();
        let error = loop {
            match reader.take::<Command>() {
                Ok(None) => assert!(reader.fill(|bytes| there.read(bytes)).unwrap()),
                Ok(Some(_)) => panic!("a frame of 2^60 bytes came"),
                Err(error) => break error,
            }
        };
        assert!(error.cause().contains("1152921504606846976"), "{error}");
    });
}

#[test]
fn many_lanes_do_not_mind_each_other() {
    for transport in all() {
        let lanes: Vec<_> = (0..16).map(|_| ends(transport)).collect();
        std::thread::scope(|scope| {
            for (index, (here, there)) in lanes.iter().enumerate() {
                scope.spawn(move || here.send(&pattern(300_000, index)).unwrap());
                scope.spawn(move || assert!(read(&**there, 300_000, 7777) == pattern(300_000, index)));
            }
        });
    }
}

#[test]
#[ignore = "the other rank of all_this_holds_between_the_ranks_of_mpi"]
fn other_rank() {
    serve_as_other_rank();
}

/// Runs these tests again as rank 0 of a job, in which every lane goes to the other rank, which relays it back.
#[test]
fn all_this_holds_between_the_ranks_of_mpi() {
    let object = match find_object() {
        Ok(object) => object,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let tests = std::env::current_exe().unwrap();
    let mut job = Process::new("timeout");
    job.args(["-k", "5", "300", "mpirun"]);
    if is_open_mpi().unwrap() {
        job.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
    }
    job.args(["-np", "1"]).arg(&tests).args([
        "--test-threads=1",
        "--color=never",
        "--skip",
        "mpi",
        "--skip",
        "other_rank",
    ]);
    job.args([":", "-np", "1"]).arg(&tests).args(["--exact", "other_rank", "--ignored"]);
    let output = job.env(OBJECT, object).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = |text: &str| text.contains("test result: ok. 18 passed");
    // The ranks end without MPI_Finalize, which mpirun reports and counts as a failure.
    assert!(passed(&text), "{text}{}", String::from_utf8_lossy(&output.stderr));
}
