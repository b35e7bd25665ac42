use super::*;
use crate::transport::mpi::forwarding::{PASSED_MAX, SHORT_RUN};
use crate::transport::mpi::streams::Next;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::IoSlice;

/// A rank that writes to a lane, and one that forwards the bytes it receives.
struct Rig {
    from: Streams,
    near: LaneKey,
    by: Streams,
    far: LaneKey,
    under_way: VecDeque<Vec<u8>>,
    written: Vec<u8>,
    /// Bytes that the lane's reader has read and not written yet.
    held: Option<Vec<u8>>,
    /// Bytes written to the other lane.
    onward: Vec<u8>,
    passed: usize,
}

impl Rig {
    fn new() -> Self {
        let (mut from, mut by) = (Streams::default(), Streams::default());
        let near = from.open(1).unwrap();
        by.receive(0, from.next_message().unwrap().message).unwrap();
        let far = by.next_opened().unwrap();
        by.pass_on(far);
        let (under_way, written, onward) = (VecDeque::new(), Vec::new(), Vec::new());
        Self { from, near, by, far, under_way, written, held: None, onward, passed: 0 }
    }

    fn write(&mut self, len: usize) {
        let bytes: Vec<u8> = (0..len).map(|at| ((self.written.len() + at) % 251) as u8).collect();
        let n = self.from.write(self.near, &[IoSlice::new(&bytes)]).unwrap().unwrap_or(0);
        self.written.extend_from_slice(&bytes[..n]);
    }

    /// Sends all queued messages of both ranks.
    fn send(&mut self) {
        while let Some(outgoing) = self.from.next_message() {
            self.under_way.push_back(outgoing.message);
        }
        while let Some(outgoing) = self.by.next_message() {
            self.from.receive(1, outgoing.message).unwrap();
        }
    }

    /// Receives a message. If it should be forwarded, the other lane accepts `space` bytes of it.
    fn bring(&mut self, space: usize) {
        let Some(message) = self.under_way.pop_front() else { return };
        self.by.receive(0, message).unwrap();
        let Some((key, message)) = self.by.take_to_pass() else { return };
        assert!(self.held.is_none(), "the reader has bytes that come before these");
        assert!(matches!(self.by.next(key), Next::Nothing), "the reader would overtake them");
        let bytes = &message[HEADER_LEN..];
        let n = space.min(bytes.len());
        self.onward.extend_from_slice(&bytes[..n]);
        let left = bytes.len() - n;
        self.passed += usize::from(left == 0);
        self.by.passed(key, message, left);
    }

    /// Makes the reader write the bytes it holds, or read more.
    fn read(&mut self) {
        match self.held.take() {
            Some(bytes) => self.onward.extend_from_slice(&bytes),
            None => {
                if let Next::Message(message) = self.by.next(self.far) {
                    self.held = Some(message[HEADER_LEN..].to_vec());
                }
            }
        }
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            self.send();
            while !self.under_way.is_empty() {
                self.bring(0);
            }
            (0..40).for_each(|_| self.read());
        }
    }
}

proptest! {
    /// In any interleaving, all bytes arrive in order and once, however few the other lane accepts.
    #[test]
    fn bytes_are_forwarded_in_order_and_once(steps in prop::collection::vec((0..9_u8, 1..6000_usize), 1..400)) {
        let mut rig = Rig::new();
        for (step, size) in steps {
            match step {
                0..=2 => rig.write(size % 200 + 1),
                3 => rig.write(size),
                4 => rig.send(),
                5 | 6 => rig.bring(usize::MAX),
                7 => rig.bring(size),
                _ => rig.read(),
            }
        }
        rig.settle();
        prop_assert!(rig.onward == rig.written);
        // All credit returns.
        rig.from.close(rig.near);
        rig.by.close(rig.far);
        rig.settle();
        prop_assert!(rig.by.credits.exposed() == 0 && rig.by.lanes.is_empty());
    }
}

#[test]
fn only_runs_of_short_messages_bypass_the_reader() {
    let mut rig = Rig::new();
    let come = |rig: &mut Rig, len: usize| {
        rig.write(len);
        rig.send();
        rig.bring(usize::MAX);
        (0..3).for_each(|_| rig.read());
        rig.passed
    };
    for _ in 0..SHORT_RUN {
        assert_eq!(come(&mut rig, PASSED_MAX), 0);
    }
    assert_eq!([1, 1].map(|len| come(&mut rig, len)), [1, 2]);
    // A reader that has not read again still holds bytes.
    assert_eq!(come(&mut rig, PASSED_MAX + 1), 2);
    for _ in 0..SHORT_RUN {
        assert_eq!(come(&mut rig, 1), 2);
    }
    assert_eq!(come(&mut rig, 1), 3);
    rig.by.receive_offer(rig.far, 1 << 20).unwrap();
    assert!(!rig.by.lanes.get_mut(&rig.far).unwrap().passing.comes(1), "bytes were just offered");
}

#[test]
fn an_unforwarded_lane_is_left_to_its_reader() {
    let mut rig = Rig::new();
    let (near, far) = (rig.from.open(1).unwrap(), LaneKey { peer: 0, opened_here: false, number: 2 });
    rig.send();
    rig.bring(0);
    for _ in 0..2 * SHORT_RUN {
        rig.from.write(near, &[IoSlice::new(b"x")]).unwrap();
        rig.send();
        rig.bring(usize::MAX);
        assert!(matches!(rig.by.next(far), Next::Message(_)));
    }
    assert_eq!(rig.passed, 0);
}
