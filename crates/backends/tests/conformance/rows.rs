//! Copies out whose bytes are sent before earlier copies have ended.

use crate::{PATIENT, Rig, Test, pattern};
use accord_device::{CopySink, FetchTo, NativeSink, PeerSink, PeerWay, Sink};
use accord_types::{DevicePtr, Error, ErrorCode, QueueId, Result, Seq, StreamId};
use libtest_mimic::Failed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Long enough for a wrong event to happen.
const WHILE: Duration = Duration::from_millis(20);
/// One length that a GPU fetches before its turn, and one that it does not.
const LENGTHS: [usize; 2] = [600, 300_000];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Given,
    Finished,
    Dropped,
}

/// Another node, which receives all bytes once it is permitted, and reports the landing later.
struct Node {
    number: u32,
    follows: bool,
    take: Receiver<()>,
    land: Receiver<Result<()>>,
    bytes: Vec<u8>,
    len: usize,
    steps: Sender<(u32, Step)>,
    got: Sender<Vec<u8>>,
}

impl Node {
    fn say(&self, step: Step) {
        let _ = self.steps.send((self.number, step));
    }
}

impl Sink for Node {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        // Closed at the end of a failed test.
        let _ = self.take.recv();
        self.bytes.extend_from_slice(piece);
        if self.bytes.len() == self.len {
            self.say(Step::Given);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.land.recv().unwrap_or(Ok(()))?;
        let _ = self.got.send(std::mem::take(&mut self.bytes));
        self.say(Step::Finished);
        Ok(())
    }
}

impl PeerSink for Node {
    fn fetch_to(&self) -> FetchTo {
        FetchTo::Host
    }

    fn follows(&self) -> bool {
        self.follows
    }

    fn way(&mut self, _: bool) -> Result<PeerWay> {
        Ok(PeerWay::Host)
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        None
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.say(Step::Dropped);
    }
}

/// An enqueued copy to another node.
struct Copy {
    seq: Seq,
    land: Sender<Result<()>>,
    got: Receiver<Vec<u8>>,
}

struct Row<'a> {
    rig: &'a Rig,
    stream: StreamId,
    copies: Vec<Copy>,
    steps: Receiver<(u32, Step)>,
}

impl<'a> Row<'a> {
    /// Enqueues copies of so many bytes, contiguous in memory. `follows` tells which may be sent before earlier ones have ended.
    fn new(rig: &'a Rig, len: usize, follows: &[bool]) -> core::result::Result<Self, Failed> {
        let stream = rig.device.create_stream(QueueId(1))?;
        let (notify, steps) = channel();
        let (mut copies, mut takes) = (Vec::new(), Vec::new());
        for number in 0..follows.len() {
            rig.write(stream, at(rig, len, number), &pattern(len, number))?;
        }
        rig.device.synchronize(stream, rig.device.store(stream, rig.at.offset(MARK), &[0])?)?;
        for (number, &follows) in follows.iter().enumerate() {
            let ((take, taken), (land, landed), (got, bytes)) = (channel(), channel(), channel());
            let node = Node {
                number: number as u32,
                follows,
                take: taken,
                land: landed,
                bytes: Vec::new(),
                len,
                steps: notify.clone(),
                got,
            };
            let seq = rig.device.copy_out(stream, at(rig, len, number), len as u64, CopySink::peer(node))?;
            takes.push(take);
            copies.push(Copy { seq, land, got: bytes });
        }
        // The stream waits in the first copy until the others are enqueued.
        drop(takes);
        Ok(Self { rig, stream, copies, steps })
    }

    fn given(&self, numbers: &[u32]) {
        numbers.iter().for_each(|number| assert_eq!(self.steps.recv_timeout(PATIENT), Ok((*number, Step::Given))));
        assert_eq!(self.steps.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout));
    }

    fn end(&self, number: usize, len: usize) -> Test {
        let Copy { seq, land, got } = &self.copies[number];
        assert!(!self.rig.device.reached(self.stream, *seq)?);
        land.send(Ok(()))?;
        for step in [Step::Finished, Step::Dropped] {
            assert_eq!(self.steps.recv_timeout(PATIENT)?, (number as u32, step));
        }
        assert!(got.recv_timeout(PATIENT)? == pattern(len, number));
        self.rig.device.synchronize(self.stream, *seq)?;
        Ok(())
    }
}

/// Address of a byte after all copies.
const MARK: u64 = 16 << 20;

fn at(rig: &Rig, len: usize, number: usize) -> DevicePtr {
    rig.at.offset((number * len) as u64)
}

/// Copies that may follow do, and others wait for all earlier ones. They end in order, and later operations wait for them.
pub(crate) fn given_ahead(rig: &Rig) -> Test {
    if rig.backend.name == "fake" {
        // The fake device performs one copy after the other.
        return Ok(());
    }
    for len in LENGTHS {
        let row = Row::new(rig, len, &[true, true, true, false, true])?;
        let last = rig.device.store(row.stream, rig.at.offset(MARK), &[1])?;
        row.given(&[0, 1, 2]);
        row.end(0, len)?;
        row.end(1, len)?;
        assert_eq!(row.steps.recv_timeout(WHILE), Err(RecvTimeoutError::Timeout), "the fourth one is to wait");
        row.end(2, len)?;
        row.given(&[3, 4]);
        row.end(3, len)?;
        assert!(!rig.device.reached(row.stream, last)?);
        row.end(4, len)?;
        rig.device.synchronize(row.stream, last)?;
        assert_eq!(rig.read(row.stream, rig.at.offset(MARK), 1)?, [1]);
    }
    Ok(())
}

/// A failed copy fails its stream, and the sinks of all started copies are dropped.
pub(crate) fn failed(rig: &Rig) -> Test {
    if rig.backend.name == "fake" {
        return Ok(());
    }
    for len in LENGTHS {
        let row = Row::new(rig, len, &[true; 3])?;
        row.given(&[0, 1, 2]);
        row.end(0, len)?;
        row.copies[1].land.send(Err(Error::new(ErrorCode::Execution, "it has not landed")))?;
        for copy in &row.copies[1..] {
            let error = rig.device.synchronize(row.stream, copy.seq).expect_err("it has failed");
            assert_eq!(error.cause(), "it has not landed");
        }
        let mut dropped: Vec<_> =
            (0..2).map(|_| row.steps.recv_timeout(PATIENT)).collect::<core::result::Result<_, _>>()?;
        dropped.sort_by_key(|(number, _)| *number);
        assert_eq!(dropped, [(1, Step::Dropped), (2, Step::Dropped)]);
    }
    Ok(())
}
