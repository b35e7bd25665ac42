//! Tests both ends of a ring, one of which may be faulty.

use super::*;
use crate::transport::window::Window;
use proptest::prelude::*;

fn two() -> (Shm, Shm) {
    let memory = SharedMemory::create().unwrap();
    let same = SharedMemory::open(memory.file().try_clone().unwrap()).unwrap();
    let (up, up_there) = UnixStream::pair().unwrap();
    let (down, down_there) = UnixStream::pair().unwrap();
    let near = Shm::new(memory, Side::Client, up.into(), down.into());
    (near, Shm::new(same, Side::Server, up_there.into(), down_there.into()))
}

#[test]
fn a_peer_that_lies_about_its_position_is_found_out() {
    for false_claim in [1 << 60, u64::MAX, SPACE as u64 + 1] {
        let (attacker, victim) = two();
        attacker.memory.word(Ring::ToServer, HeaderWord::Written).store(false_claim, Ordering::SeqCst);
        assert_eq!(victim.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::InvalidData, "{false_claim}");
        assert!(victim.is_readable());
        attacker.memory.word(Ring::ToClient, HeaderWord::Read).store(false_claim, Ordering::SeqCst);
        // The reader's position is loaded only when the ring would otherwise be full.
        let steps = [STEP; SPACE / STEP].map(|step| victim.write(&[IoSlice::new(&vec![0; step])]).unwrap());
        assert_eq!(steps, [STEP; SPACE / STEP]);
        assert_eq!(victim.write(&[IoSlice::new(b"x")]).unwrap_err().kind(), ErrorKind::InvalidData, "{false_claim}");
    }
}

#[test]
fn read_available_returns_all_bytes_that_are_there() {
    const MOST: usize = 128 << 10;
    let (near, far) = two();
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    (&near as &dyn Lane).send(&bytes).unwrap();
    near.finish().unwrap();
    let (mut space, mut lens, mut all) = (vec![0; MOST], Vec::new(), Vec::new());
    loop {
        match far.read_available(&mut space).unwrap() {
            0 => break,
            n => lens.push(n),
        }
        all.extend_from_slice(&space[..lens[lens.len() - 1]]);
    }
    assert_eq!(lens, [MOST, MOST, 300_000 - 2 * MOST]);
    assert!(all == bytes);
    // A false position is detected, and the bytes before it are returned.
    let (attacker, victim) = two();
    attacker.write(&[IoSlice::new(b"true")]).unwrap();
    assert_eq!(victim.read_available(&mut space).unwrap(), 4);
    assert_eq!(&space[..4], b"true");
    attacker.memory.word(Ring::ToServer, HeaderWord::Written).store(3, Ordering::SeqCst);
    assert_eq!(victim.read_available(&mut space).unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_position_that_goes_backwards_is_an_error() {
    let (attacker, victim) = two();
    attacker.write(&[IoSlice::new(b"12345678")]).unwrap();
    assert_eq!(victim.read(&mut [0; 8]).unwrap(), 8);
    attacker.memory.word(Ring::ToServer, HeaderWord::Written).store(3, Ordering::SeqCst);
    assert_eq!(victim.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::InvalidData);
}

proptest! {
    /// Whatever a peer writes into any word, the victim reads bytes, writes bytes, or returns an error.
    #[test]
    fn arbitrary_words_of_a_peer_are_harmless(
        steps in prop::collection::vec((0..7usize, any::<bool>(), prop_oneof![0..600u64, any::<u64>()], prop_oneof![0..90usize, 0..90_000usize]), 1..60),
    ) {
        const WORDS: [HeaderWord; 7] =
            [HeaderWord::Written, HeaderWord::Read, HeaderWord::ReaderSleeps, HeaderWord::WriterSleeps, HeaderWord::Finished, HeaderWord::Unread, HeaderWord::Exposed];
        let (attacker, victim) = two();
        let mut bytes = vec![0; 90_000];
        for (word, up, value, len) in steps {
            let ring = if up { Ring::ToServer } else { Ring::ToClient };
            attacker.memory.word(ring, WORDS[word]).store(value, Ordering::SeqCst);
            // The peer also forges the repeated bytes: their number is the true one, or an impossible one.
            attacker.memory.inline(ring)[0].store((value << 8) | (value.wrapping_add(len as u64) % 256), Ordering::SeqCst);
            let _ = victim.is_readable();
            let exposed = victim.read_in_place(len, |window| {
                assert!(window.len() >= len && window.len() <= SPACE);
                Ok(())
            });
            prop_assert!(!matches!(exposed, Err(error) if error.kind() != ErrorKind::InvalidData));
            // The call would not block.
            let has_space = matches!(victim.space_for(&mut victim.writer.take(), SPACE), Err(_) | Ok(WAKE_SPACE..));
            if has_space {
                let written = victim.write_in_place(len, |window| {
                    assert!(window.len() <= len);
                    Ok(window.len())
                });
                prop_assert!(!matches!(written, Err(error) if !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::BrokenPipe)));
            }
            for done in [victim.try_read(&mut bytes[..len]), victim.try_write(&[IoSlice::new(&bytes[..len])])] {
                match done {
                    Ok(done) => prop_assert!(done <= len),
                    Err(error) => prop_assert!(matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::InvalidData | ErrorKind::BrokenPipe
                    )),
                }
            }
        }
    }
}

#[test]
fn false_sleep_flags_and_missing_doorbells_are_harmless() {
    let (attacker, victim) = two();
    // The peer repeatedly claims to block, and never empties its doorbell.
    for _ in 0..100_000 {
        attacker.memory.word(Ring::ToClient, HeaderWord::ReaderSleeps).store(1, Ordering::SeqCst);
        if victim.write(&[IoSlice::new(b"1234")]).is_err() || victim.space(victim.writer.take().at).unwrap() < 8 {
            break;
        }
    }
    // The peer writes without ringing the doorbell, and the limit ends the reader's wait.
    victim.limit(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(victim.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    attacker.memory.word(Ring::ToServer, HeaderWord::Written).store(8, Ordering::SeqCst);
    assert_eq!(victim.read(&mut [0; 8]).unwrap(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Copied bytes and bytes exposed in place keep their order, wherever they are in the ring.
    #[test]
    fn bytes_in_windows_are_those_that_were_written(
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), prop_oneof![1..200usize, 1..SPACE]), 1..24),
    ) {
        let (near, far) = two();
        // The ring's bytes twice, so that any range of them is contiguous.
        let all: Vec<u8> = (0..2 * SPACE).map(|at| (at % SPACE * 7 + at % SPACE / 251) as u8).collect();
        let (mut written, mut read) = (0, 0);
        for (in_place, exposed, len) in steps {
            let space = SPACE - (written - read);
            if in_place && space >= WAKE_SPACE {
                near.write_in_place(len, |window| {
                    let n = window.copy_in(&all[written % SPACE..][..len]);
                    written += n;
                    Ok(n)
                }).unwrap();
            } else if !in_place && space > 0 {
                written += near.try_write(&[IoSlice::new(&all[written % SPACE..][..len])]).unwrap();
            }
            let there = written - read;
            if exposed {
                let least = len.min(there);
                let n = far.read_in_place(least, |window| {
                    assert!(window.len() >= least && window.len() <= windows::WINDOW_MAX);
                    assert!(window.copy_out() == all[read % SPACE..][..window.len()]);
                    Ok(())
                }).unwrap();
                // Fewer of them may be contiguous.
                prop_assert!(n <= there && (n > 0 || least == 0 || least > windows::WINDOW_MAX || read % SPACE + least > SPACE));
                read += n;
            } else if there > 0 {
                let mut bytes = vec![0; len];
                let n = far.try_read(&mut bytes).unwrap();
                prop_assert!(n > 0 && bytes[..n] == all[read % SPACE..][..n]);
                read += n;
            }
        }
    }
}

#[test]
fn a_short_write_is_read_from_its_repeated_bytes() {
    let (near, far) = two();
    let mut bytes = [0; 80];
    let spoil = |len: usize| far.memory.put(Ring::ToServer, far.reader.take().at, &vec![0xff; len]);
    near.write(&[IoSlice::new(&[1; 16]), IoSlice::new(&[2; 64])]).unwrap();
    // The reader does not read the ring's own copy.
    spoil(80);
    assert_eq!(far.read(&mut bytes[..16]).unwrap(), 16);
    assert_eq!(bytes[..16], [0xff; 16], "there was more to read");
    assert_eq!(far.read(&mut bytes).unwrap(), 64);
    assert_eq!(bytes[..64], [2; 64]);
    // Earlier writes and long ones are read from the ring.
    near.write(&[IoSlice::new(&[3; 16])]).unwrap();
    near.write(&[IoSlice::new(&[4; 16])]).unwrap();
    assert_eq!((far.read(&mut bytes).unwrap(), &bytes[..32]), (32, [[3; 16], [4; 16]].as_flattened()));
    near.write(&[IoSlice::new(&[5; INLINE_MAX + 1])]).unwrap();
    let mut bytes = [0; INLINE_MAX + 1];
    assert_eq!((far.read(&mut bytes).unwrap(), bytes), (INLINE_MAX + 1, [5; INLINE_MAX + 1]));
}

#[test]
fn a_failed_window_counts_as_neither_read_nor_written() {
    let (near, far) = two();
    let fails = |_: Window<'_>| Err(ErrorKind::ConnectionReset.into());
    assert_eq!(
        near.write_in_place(8, |window| fails(window).map(|()| 8)).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    assert_eq!(far.read_in_place(1, |_| panic!("nothing has come")).unwrap(), 0);
    near.write(&[IoSlice::new(b"12345678")]).unwrap();
    assert_eq!(far.read_in_place(8, fails).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(far.read_in_place(9, |_| panic!("so many have not come")).unwrap(), 0);
    let mut bytes = [0; 8];
    assert_eq!((far.read(&mut bytes).unwrap(), &bytes), (8, b"12345678"));
    // A reader that has shut down reads no more, and writes to it fail.
    near.write(&[IoSlice::new(b"more")]).unwrap();
    far.shutdown();
    assert_eq!(far.read_in_place(1, |_| panic!("it was shut down")).unwrap(), 0);
    assert_eq!(near.write_in_place(8, |_| panic!("the reader has gone")).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

/// A writer in place blocks until there is space, and is woken then.
#[test]
fn a_writer_in_place_is_woken_by_room_and_by_the_end() {
    let (near, far) = two();
    let piece = vec![1; SPACE];
    (&near as &dyn Lane).send(&piece).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| near.write_in_place(4, |window| Ok(window.copy_in(b"last"))));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        let mut all = vec![0; SPACE];
        (&far as &dyn Lane).read_exact(&mut all).unwrap();
        waits.join().unwrap().unwrap();
        (&far as &dyn Lane).read_exact(&mut all[..4]).unwrap();
        assert_eq!(&all[..4], b"last");
        (&near as &dyn Lane).send(&piece).unwrap();
        let waits = scope.spawn(|| near.write_in_place(4, |_| panic!("the reader has gone")));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waits.is_finished());
        far.shutdown();
        assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn an_end_learns_that_its_bytes_are_exposed_in_place() {
    let (near, far) = two();
    assert!(!near.moves_in_place() && !far.moves_in_place());
    far.will_expose();
    assert!(near.moves_in_place() && !far.moves_in_place());
}
