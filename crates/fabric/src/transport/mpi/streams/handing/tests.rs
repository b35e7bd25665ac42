use super::*;
use crate::transport::mpi::mailbox::Mailbox;
use crate::transport::mpi::streams::Next;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io::IoSlice;

/// A rank that writes to a lane, and one that moves received messages to the reader's mailbox.
struct Rig {
    from: Streams,
    near: LaneKey,
    to: Streams,
    far: LaneKey,
    under_way: VecDeque<Vec<u8>>,
    mailbox: Mailbox,
    /// The rest of a message that the reader took from the table.
    left: Vec<u8>,
    written: usize,
    read: usize,
    handed: usize,
}

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

impl Rig {
    fn new() -> Self {
        let (mut from, mut to) = (Streams::default(), Streams::default());
        let near = from.open(1).unwrap();
        to.receive(0, from.next_message().unwrap().message).unwrap();
        let far = to.next_opened().unwrap();
        let (under_way, mailbox, left) = (VecDeque::new(), Mailbox::default(), Vec::new());
        Self { from, near, to, far, under_way, mailbox, left, written: 0, read: 0, handed: 0 }
    }

    fn write(&mut self, len: usize) {
        let bytes: Vec<u8> = (self.written..self.written + len).map(byte).collect();
        self.written += self.from.write(self.near, &[IoSlice::new(&bytes)]).unwrap().unwrap_or(0);
    }

    /// Delivers the receiver's messages, and sends one message of the sender.
    fn send(&mut self) -> bool {
        while let Some(outgoing) = self.to.next_message() {
            self.from.receive(1, outgoing.message).unwrap();
        }
        let outgoing = self.from.next_message();
        outgoing.map(|outgoing| self.under_way.push_back(outgoing.message)).is_some()
    }

    /// Receives a message. Either the mailbox or the table notifies the reader.
    fn bring(&mut self) -> bool {
        let Some(message) = self.under_way.pop_front() else { return false };
        let is_data = message.len() > HEADER_LEN;
        self.to.receive(0, message).unwrap();
        let mut handed = false;
        let (mailbox, far) = (&self.mailbox, self.far);
        self.to.hand_over(|key, bytes| {
            assert_eq!(key, far);
            handed = mailbox.put(bytes);
            handed
        });
        self.handed += usize::from(handed);
        assert_eq!(self.to.take_woken().contains(&far), is_data && !handed);
        true
    }

    /// Reads at most `most` bytes, as a lane does. Returns whether there were any.
    fn read(&mut self, most: usize) -> bool {
        let mut bytes = vec![0; most];
        if self.left.is_empty() && self.mailbox.is_empty() {
            self.to.report_read(self.far, self.mailbox.notify());
            match self.to.next(self.far) {
                Next::Message(message) => self.left = message[HEADER_LEN..].to_vec(),
                Next::Nothing => return false,
                received => panic!("unexpected {received:?}"),
            }
        }
        let n = if self.left.is_empty() { self.mailbox.read(&mut bytes) } else { most.min(self.left.len()) };
        if !self.left.is_empty() {
            bytes[..n].copy_from_slice(&self.left[..n]);
            self.left.drain(..n);
        }
        if self.mailbox.should_report_credit() {
            self.to.report_read(self.far, self.mailbox.notify());
        }
        for received in &bytes[..n] {
            assert_eq!(*received, byte(self.read));
            self.read += 1;
        }
        n > 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In any interleaving, all bytes arrive in order and once, and their credit returns to the pool.
    #[test]
    fn bytes_arrive_in_order_and_once(
        steps in prop::collection::vec((0..7_u8, prop_oneof![1..600_usize, 1..9_000_usize, 1..400_000_usize]), 1..300),
    ) {
        let mut rig = Rig::new();
        for (step, size) in steps {
            match step {
                0 | 1 => rig.write(size),
                2 => _ = rig.send(),
                3 | 4 => _ = rig.bring(),
                5 => _ = rig.read(size),
                _ => rig.from.sweep(),
            }
        }
        // The sender returns its unused credit.
        for _ in 0..3 {
            while rig.send() || rig.bring() || rig.read(1 << 20) {}
            rig.from.sweep();
        }
        prop_assert_eq!(rig.read, rig.written);
        prop_assert_eq!(rig.to.credits.exposed(), 0);
        prop_assert!(rig.mailbox.is_empty() && rig.mailbox.notify() == 0);
    }
}

/// The reader here never reads the table by itself. It reports its credit often enough for the sender to continue.
#[test]
fn a_reader_of_the_mailbox_alone_never_stops_its_sender() {
    let mut rig = Rig::new();
    for _ in 0..20_000 {
        rig.write(100);
        assert!(rig.send() && rig.bring() && !rig.mailbox.is_empty(), "after {} messages", rig.handed);
        assert!(rig.read(4096));
    }
    assert_eq!((rig.handed, rig.read), (20_000, 2_000_000));
}

#[test]
fn a_message_refused_by_the_mailbox_is_found_in_the_table() {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.write(10);
        assert!(rig.send());
        let message = rig.under_way.pop_front().unwrap();
        rig.to.receive(0, message).unwrap();
    }
    rig.to.hand_over(|_, bytes| {
        assert_eq!(bytes[0], byte(0), "the first goes first");
        false
    });
    assert!(rig.to.take_woken().contains(&rig.far));
    assert!(rig.read(100) && rig.read(100) && rig.read == 20);
}
