//! What the simulated threads share, and steps that a thread takes with a lock held.

use super::faults::{Fault, Fence, Stream};
use super::gpu::{Action, Command, Gpu};
use super::operation::{Moving, Op, OpKind, Out, Work};
use super::slots::Pools;
use crate::random::Random;
use accord_device::stream::{Dependence, Marks, NextWork};
use accord_types::{Error, ErrorCode, Result};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Streams of the program, then streams for copies from elsewhere.
pub(super) const STREAMS: usize = 4;
pub(super) const INCOMING: std::ops::Range<usize> = 2..STREAMS;
/// Cells of the device's memory and of the program's.
pub(super) const CELLS: usize = 6;

/// An operation of the program.
pub(super) struct Record {
    pub(super) stream: usize,
    /// Its position, once it is enqueued.
    pub(super) seq: Option<u64>,
    /// Its parts that are not done.
    pub(super) left: u32,
    /// The stream and position that it waits for.
    pub(super) follows: Option<(usize, u64)>,
    /// The bytes at its other end, for copies to and from other processes.
    pub(super) elsewhere: PeerProcess,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PeerProcess {
    /// The other process has nothing to do yet.
    Idle,
    /// It is to send bytes, or to report them landed.
    Requested,
    Done,
    Failed,
}

/// A slot whose bytes the copying thread takes to the program's memory.
pub(super) struct Download {
    pub(super) slot: usize,
    pub(super) out: Out,
    pub(super) moving: Rc<Cell<Moving>>,
}

/// Copies of a stream that are held back.
pub(super) struct Held {
    pub(super) slot: usize,
    pub(super) first_seq: u64,
    pub(super) outs: Vec<Out>,
}

/// The phase of the simulation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Running,
    /// The device is being shut down, and takes no more commands.
    Ending,
    /// The device's memory is free.
    Ended,
}

pub(super) struct Machine {
    pub(super) random: Random,
    pub(super) gpu: Gpu,
    pub(super) streams: Vec<Stream>,
    pub(super) held: Vec<Option<Held>>,
    pub(super) pools: Pools,
    pub(super) fence: Fence,
    pub(super) host: Vec<u64>,
    pub(super) records: Vec<Record>,
    pub(super) downloads: VecDeque<Download>,
    /// Positions of which a thread of the device tells the program.
    pub(super) notices: Vec<(usize, u64)>,
    pub(super) phase: Phase,
    /// The device's failure.
    pub(super) failure: Option<Error>,
    /// Whether an error is no surprise.
    pub(super) troubled: bool,
    /// Whether the program has enqueued everything.
    pub(super) enqueued: bool,
    pub(super) violation: Option<String>,
}

/// The machine as the threads have it.
#[derive(Clone)]
pub(super) struct World(Rc<RefCell<Machine>>);

impl World {
    pub(super) fn new(random: Random, fault: Option<Fault>) -> Self {
        let pools = Pools::new(fault);
        // One event for each slot, one for each stream, and the fence's.
        let events = pools.count() + STREAMS + 1;
        Self(Rc::new(RefCell::new(Machine {
            random,
            gpu: Gpu::new(STREAMS, events, CELLS, pools.count()),
            streams: (0..STREAMS).map(|_| Stream::new(fault)).collect(),
            held: (0..STREAMS).map(|_| None).collect(),
            pools,
            fence: Fence::new(fault),
            host: vec![0; CELLS],
            records: Vec::new(),
            downloads: VecDeque::new(),
            notices: Vec::new(),
            phase: Phase::Running,
            failure: None,
            troubled: false,
            enqueued: false,
            violation: None,
        })))
    }

    /// Takes the lock until the next step.
    pub(super) fn lock(&self) -> RefMut<'_, Machine> {
        self.0.borrow_mut()
    }
}

impl Machine {
    /// Records a violation. The first one stays.
    pub(super) fn violate(&mut self, why: String) {
        self.violation.get_or_insert(why);
    }

    fn expect(&mut self, id: usize, what: &str, found: u64, wanted: u64) {
        if found != wanted {
            let Record { stream, seq, .. } = self.records[id];
            self.violate(format!("operation {id} ({seq:?} of stream {stream}) finds {found} in {what}, not {wanted}"));
        }
    }

    /// Records that a part of an operation is done.
    pub(super) fn did(&mut self, id: usize) {
        match self.records[id].left.checked_sub(1) {
            Some(left) => self.records[id].left = left,
            None => self.violate(format!("operation {id} is done twice")),
        }
    }

    /// Lets the device execute a command of a stream.
    pub(super) fn execute(&mut self, stream: usize) {
        if self.gpu.lost {
            return;
        }
        let Some((id, action)) = self.gpu.advance(stream) else { return };
        let Some(found) = self.gpu.memory[action.cell()] else {
            return self.violate(format!("operation {id} accesses memory that was released"));
        };
        let new = match action {
            Action::Update { before, after, .. } => {
                self.expect(id, "the device's memory", found, before);
                after
            }
            Action::FromSlot { slot, before, value, .. } => {
                self.expect(id, "the device's memory", found, before);
                self.expect(id, "its slot", self.gpu.slots[slot][0], value);
                self.gpu.slots[slot][0]
            }
            Action::ToSlot { slot, place, value, .. } => {
                self.expect(id, "the device's memory", found, value);
                self.gpu.slots[slot][place] = found;
                found
            }
            Action::ToHost { value, host, before, .. } => {
                self.expect(id, "the device's memory", found, value);
                self.expect(id, "the program's memory", self.host[host], before);
                self.host[host] = found;
                found
            }
        };
        self.gpu.memory[action.cell()] = Some(new);
        self.did(id);
    }

    /// Writes bytes of a slot to the program's memory.
    pub(super) fn write_host(&mut self, slot: usize, place: usize, out: Out) {
        let value = self.gpu.slots[slot][place];
        self.expect(out.id, "its slot", value, out.value);
        self.expect(out.id, "the program's memory", self.host[out.host], out.before);
        self.host[out.host] = value;
        self.did(out.id);
    }

    /// Reads the program's memory for a copy to the device.
    pub(super) fn read_host(&mut self, id: usize, host: usize, value: u64) -> u64 {
        self.expect(id, "the program's memory", self.host[host], value);
        self.host[host]
    }

    /// Whether the bytes that a slot has for another process are the right ones.
    pub(super) fn verify_slot(&mut self, id: usize, slot: usize, value: u64) {
        self.expect(id, "its slot", self.gpu.slots[slot][0], value);
    }

    /// Returns the error of a failed call of the driver, which becomes the device's failure.
    pub(super) fn driver_failed(&mut self) -> Error {
        let lost = Error::new(ErrorCode::Execution, "the device is lost");
        self.failure.get_or_insert(lost).clone()
    }

    /// Returns the device's or stream's failure.
    pub(super) fn check(&mut self, stream: usize) -> Result<()> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        self.streams[stream].failure().cloned().map_or(Ok(()), Err)
    }

    /// Verifies that the device does not write to the program's memory for a stream whose failure is reported.
    pub(super) fn verify_report(&mut self, stream: usize) {
        let writes = |action| matches!(action, Action::ToHost { .. });
        if self.streams[stream].failure().is_some() && !self.gpu.lost && self.gpu.has_access(Some(stream), writes) {
            self.violate(format!("stream {stream} reports a failure, and the device still writes to memory"));
        }
    }

    /// Checks as [`Machine::check`], for a thread that enqueues an operation.
    pub(super) fn check_to_put(&mut self, stream: usize) -> Result<()> {
        self.check(stream)?;
        if self.streams[stream].rules().is_closing() { Err(shut_down()) } else { self.flush(stream) }
    }

    /// Calls the driver for an access of an operation.
    pub(super) fn enqueue(&mut self, stream: usize, id: usize, action: Action) -> Result<()> {
        if self.gpu.lost {
            return Err(self.driver_failed());
        }
        if self.phase == Phase::Ended {
            self.violate(format!("operation {id} enters the driver's stream after the shutdown"));
        }
        self.gpu.enqueue(stream, Command::Access(id, action));
        Ok(())
    }

    /// Orders a stream behind the fence.
    pub(super) fn order_after(&mut self, stream: usize) -> Result<()> {
        let marks = Marks { scrubs: 0, fences: self.fence.core.count() };
        if !self.streams[stream].must_follow(marks) {
            return Ok(());
        }
        if self.gpu.lost {
            return Err(self.driver_failed());
        }
        if let Some((behind, count)) = self.fence.core.followed()
            && behind != stream
        {
            if self.gpu.is_empty(behind) {
                self.fence.core.passed(count);
            } else {
                let event = self.pools.count() + STREAMS;
                self.gpu.record(behind, event);
                self.gpu.wait(stream, event);
            }
        }
        self.streams[stream].rules().follows(marks);
        Ok(())
    }

    /// Records a stream's event, for another one to wait for.
    pub(super) fn mark(&mut self, stream: usize, seq: u64) -> Result<Dependence> {
        let dependence = self.streams[stream].dependence(seq);
        if matches!(dependence, Dependence::Driver | Dependence::DriverThenHost) {
            if self.gpu.lost {
                return Err(self.driver_failed());
            }
            self.gpu.record(stream, self.pools.count() + stream);
        }
        Ok(dependence)
    }

    /// Makes the operation `id` at `seq` of a stream wait for another one.
    pub(super) fn follow(&mut self, stream: usize, (id, seq): (usize, u64), other: (usize, u64), after: Dependence) {
        if matches!(after, Dependence::Driver | Dependence::DriverThenHost) {
            self.gpu.wait(stream, self.pools.count() + other.0);
        }
        if matches!(after, Dependence::Host | Dependence::DriverThenHost) {
            self.streams[stream].rules().add_work(seq, Work::Other(other.0, other.1));
        }
        self.did(id);
    }

    /// Issues copies that are held back.
    pub(super) fn flush(&mut self, stream: usize) -> Result<()> {
        let Some(Held { slot, first_seq, outs }) = self.held[stream].take() else { return Ok(()) };
        self.streams[stream].rules().release_held();
        let copies = outs.iter().enumerate();
        let copies: Vec<_> = copies
            .map(|(place, out)| (out.id, Action::ToSlot { slot, place, cell: out.cell, value: out.value }))
            .collect();
        let issued = self
            .order_after(stream)
            .and_then(|()| copies.into_iter().try_for_each(|(id, action)| self.enqueue(stream, id, action)));
        match issued {
            Ok(()) => self.streams[stream].rules().add_work(first_seq, Work::Slot { slot, outs }),
            Err(error) => {
                self.pools.give_back(slot);
                let rules = self.streams[stream].rules();
                rules.fail(error.clone());
                rules.drained();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns work that a waiter has to wait for. Does other work.
    pub(super) fn next_work(&mut self, stream: usize, seq: u64) -> Result<Option<Awaited>> {
        loop {
            let work = match self.streams[stream].next_work(seq) {
                NextWork::None => return Ok(None),
                NextWork::Failing => return Ok(Some(Awaited::Failure)),
                NextWork::Failed(error) => return Err(error),
                NextWork::Run(work) => work,
                NextWork::Await(_, Work::Moved(moving, _)) => return Ok(Some(Awaited::Moved(Rc::clone(moving)))),
                NextWork::Await(at, Work::Other(other, seq)) => {
                    return Ok(Some(Awaited::Other { at, other: *other, seq: *seq }));
                }
                NextWork::Await(_, Work::Slot { .. }) => unreachable!("a waiter passes these on"),
            };
            match work {
                Work::Slot { slot, outs } => {
                    outs.into_iter().enumerate().for_each(|(place, out)| self.write_host(slot, place, out));
                    self.pools.give_back(slot);
                }
                Work::Moved(moving, _) if moving.get() == Moving::Failed => {
                    let error = self.failure.clone().unwrap_or_else(shut_down);
                    self.streams[stream].rules().fail(error.clone());
                    return Err(error);
                }
                Work::Moved(..) | Work::Other(..) => {}
            }
        }
    }

    /// Drops an operation that was not performed.
    pub(super) fn drop_op(&mut self, op: &Op) {
        if let OpKind::Send { slot: Some(slot), .. } = op.kind {
            self.pools.give_back_in_use(slot);
        }
    }

    /// Verifies that all operations of a stream up to `seq` are done.
    pub(super) fn verify(&mut self, stream: usize, seq: u64) {
        let (mut open, mut seen) = (vec![(stream, seq)], BTreeSet::new());
        while let Some((stream, seq)) = open.pop() {
            if !seen.insert((stream, seq)) {
                continue;
            }
            let all = self.records.iter().enumerate().filter(|(_, record)| record.stream == stream);
            let mut open_ops = Vec::new();
            for (id, record) in all.filter(|(_, record)| record.seq.is_some_and(|at| at <= seq)) {
                open.extend(record.follows);
                if record.left > 0 {
                    open_ops.push(id);
                }
            }
            if !open_ops.is_empty() {
                self.violate(format!("a wait for {seq} of stream {stream} is over, and {open_ops:?} are not done"));
            }
        }
    }
}

/// An event that another thread causes.
pub(super) enum Awaited {
    /// The report of the stream's failure.
    Failure,
    Moved(Rc<Cell<Moving>>),
    Other {
        at: u64,
        other: usize,
        seq: u64,
    },
}

/// Returns the error of a device that was shut down.
pub(super) fn shut_down() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the device has been shut down")
}
