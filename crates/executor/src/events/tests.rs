//! Tests events to a program that reads slowly.

use super::*;
use accord_fabric::frame::FrameReader;
use accord_fabric::handshake::Purpose;
use accord_fabric::link::Unposted;
use accord_fabric::peer::PeerId;
use accord_fabric::transport::{SharedLane, inproc_pair};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// More bytes than a lane holds.
const MANY: usize = 1 << 20;

fn to_program(lane: SharedLane) -> Arc<Events> {
    let link = Link::new("h1", PeerId::PROGRAM, Arc::default(), Unposted::Wait);
    link.accept(lane, Purpose::Command).unwrap();
    Events::new("h1".to_owned(), link)
}

/// A program that does not read blocks the writing thread. Other threads queue their events and continue, while there is
/// space.
#[test]
fn events_are_left_to_the_writing_thread() {
    let (near, far) = inproc_pair();
    let events = to_program(near);
    let writer = {
        let events = events.clone();
        std::thread::spawn(move || events.output(1, &[0; MANY]))
    };
    // The thread fills the lane.
    std::thread::sleep(Duration::from_millis(200));
    let (reported, done) = channel();
    let sent = Arc::<AtomicUsize>::default();
    let other = {
        let (events, sent) = (events, sent.clone());
        std::thread::spawn(move || {
            events.reply(0, 0, 0);
            reported.send(()).unwrap();
            for ticket in 1.. {
                events.send(&Event::Reply { ticket, value: 0, extra: 0 }, &[0; 1024]);
                sent.fetch_add(1, Ordering::Relaxed);
                if ticket == 2 * WAITING_MAX as u64 / 1024 {
                    break;
                }
            }
            reported.send(()).unwrap();
        })
    };
    done.recv_timeout(Duration::from_secs(20)).expect("it waits for the one that writes");
    // The queue is bounded.
    assert_eq!(done.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    assert!(sent.load(Ordering::Relaxed) <= WAITING_MAX / 1024 + 1);

    // Once the program reads, all events arrive, each thread's in order.
    let mut reader = FrameReader::default();
    let (mut output, mut next) = (0, 0);
    while next <= 2 * WAITING_MAX as u64 / 1024 || output < MANY {
        match reader.take::<Event>().unwrap().map(|frame| (frame.record, frame.payload.len())) {
            None => assert!(reader.fill(|bytes| far.read(bytes)).unwrap()),
            Some((Event::Output { .. }, len)) => output += len,
            Some((Event::Reply { ticket, .. }, _)) => {
                assert_eq!(ticket, next);
                next += 1;
            }
            Some((event, _)) => panic!("{event:?}"),
        }
    }
    assert_eq!(output, MANY);
    writer.join().unwrap();
    other.join().unwrap();
}

/// A thread that waits for space returns when the lane ends.
#[test]
fn a_lane_that_ends_blocks_no_thread() {
    let (near, far) = inproc_pair();
    let events = to_program(near.clone());
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let events = events.clone();
            std::thread::spawn(move || events.output(1, &[0; 3 * WAITING_MAX]))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    near.shutdown();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    events.finish();
    drop(far);
}
