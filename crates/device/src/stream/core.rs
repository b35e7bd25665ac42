//! One stream: which positions were assigned, which operations are in the driver's stream, and which have work left on the
//! host.

use super::completions::{COMPLETIONS_MAX, Completions, HostWork, NextWork};
use super::host_work::{HostStage, Later, Performed, Performing};
use super::list::{FETCHED_MAX, Operation, OperationList, PENDING_BYTES_MAX, PENDING_MAX};
use super::recent_kernels::RecentKernels;
use accord_types::{Error, HostRange, Result};

/// Bounds of what a stream keeps.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most listed operations.
    pub operations: usize,
    /// Most bytes that they hold.
    pub bytes: usize,
    /// Most listed copies out that are fetched.
    pub fetched: usize,
    /// Most completions.
    pub completions: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { operations: PENDING_MAX, bytes: PENDING_BYTES_MAX, fetched: FETCHED_MAX, completions: COMPLETIONS_MAX }
    }
}

/// Counts of what all streams of a device are ordered after.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Marks {
    /// Clearings of new memory.
    pub scrubs: u64,
    /// Settings of the device's fence.
    pub fences: u64,
}

/// The progress of the operations up to a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The host has yet to put some into the driver's stream.
    NotIssued,
    /// The driver decides. If its stream is empty, all operations up to `issued` are reached.
    InDriver { issued: u64 },
    /// The device has done them, and the host has work left in the stream.
    OnHost,
    /// All are done.
    Done,
}

/// The dependence of a stream on another one that it follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dependence {
    /// Nothing: all is done.
    None,
    /// The operations in the driver's stream.
    Driver,
    /// The host's work.
    Host,
    /// The operations in the driver's stream, then the host's work.
    DriverThenHost,
}

/// Accesses of an operation beyond its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// A range of the program's memory.
    Program(HostRange),
    /// Bytes that depend on earlier copies of the program, at their other end.
    OtherEnd,
    /// Memory of the device, which does not wait for the stream.
    Device,
}

/// Waits of an operation on the host, before it is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    Nothing,
    /// All earlier operations.
    Operations,
    /// These, and all else that the driver's stream has.
    Driver,
}

/// The next step of a stream's worker.
#[derive(Debug)]
pub enum WorkerStep<O> {
    /// Perform this operation, then call [`StreamCore::finish`].
    Perform(u64, O),
    /// Drop these operations, without the stream's lock, which they may need.
    Drop(Vec<O>),
    /// Wait for another event.
    Wait,
    /// End the thread.
    End,
}

/// The step after the operations of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Finish {
    /// The turn is over.
    Ended,
    /// Wait without the lock until the driver's stream is empty, then call [`StreamCore::drained`]: what it has must not write
    /// into memory that is reused once the failure is reported.
    Drain,
}

/// The worker's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Worker {
    Absent,
    Serving,
    /// The stream takes no more operations.
    Closing,
}

/// A stream's failure, of which the first one stays.
#[derive(Debug)]
enum Failure {
    None,
    /// Not reported before the driver's stream is empty. No operation enters it until then.
    Draining(Error),
    Reported(Error),
}

/// The state of a stream, with listed operations `O` and the host's work `C`.
pub struct StreamCore<O, C> {
    bounds: Bounds,
    /// The last assigned position.
    last: u64,
    /// Position up to which all operations are in the driver's stream or done.
    issued: u64,
    /// Position up to which the device is known to have done all operations.
    reached: u64,
    turn: HostStage,
    /// Operations after the turn's.
    list: OperationList<O>,
    completions: Completions<C>,
    worker: Worker,
    failure: Failure,
    recent_kernels: RecentKernels,
    ordered_after: Marks,
}

impl<O: Operation, C: HostWork> Default for StreamCore<O, C> {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

/// Positions, and what was put in.
impl<O: Operation, C: HostWork> StreamCore<O, C> {
    /// Creates an empty stream.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            last: 0,
            issued: 0,
            reached: 0,
            turn: HostStage::Idle,
            list: OperationList::default(),
            completions: Completions::default(),
            worker: Worker::Absent,
            failure: Failure::None,
            recent_kernels: RecentKernels::default(),
            ordered_after: Marks::default(),
        }
    }

    /// Returns the last assigned position.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the position of the operation that is being enqueued.
    pub fn next(&self) -> u64 {
        self.last + 1
    }

    /// Returns the first position that a thread performs, or 0.
    pub fn performing(&self) -> u64 {
        self.turn.performing().map_or(0, |performing| performing.next)
    }

    /// Whether an operation may begin that needs no other one to be under way on the host or listed. Held-back copies are not.
    pub fn is_idle(&self) -> bool {
        self.turn.performing().is_none() && self.list.is_empty() && !self.has_failed()
    }

    /// Whether the next operation may enter the driver's stream now.
    pub fn may_issue(&self) -> bool {
        let entered = match &self.turn {
            HostStage::Idle | HostStage::Holding => true,
            HostStage::Performing(performing) => matches!(performing.later, Later::Enter { .. }),
            HostStage::Draining(_) => false,
        };
        // After a failure the driver would still have it when the failure is reported.
        entered && self.list.is_empty() && !self.has_failed()
    }

    /// Whether the bytes of a copy out may be fetched at the call: the device's part of all operations before it is in the
    /// driver's stream.
    pub fn may_fetch(&self) -> bool {
        let is_fetched = |performing: &Performing| performing.kind == Performed::Fetched;
        self.turn.performing().is_none_or(is_fetched) && self.list.may_fetch(self.bounds.fetched)
    }

    /// Whether an operation must wait before it is listed.
    pub fn is_full(&self) -> bool {
        self.list.is_full(self.bounds.operations, self.bounds.bytes)
    }

    /// Assigns a position to an operation that has entered the driver's stream.
    pub fn issue(&mut self) -> u64 {
        self.last += 1;
        match self.turn.performing_mut() {
            Some(performing) => performing.later = Later::Enter { through: Some(self.last) },
            None => self.issued = self.last,
        }
        self.last
    }

    /// Assigns a position to a small copy that is held back in an idle stream.
    pub fn hold(&mut self) -> u64 {
        self.turn = HostStage::Holding;
        self.last += 1;
        self.last
    }

    /// Records that the copies held back enter the driver's stream. Nothing else happens to the stream before.
    pub fn release_held(&mut self) {
        if matches!(self.turn, HostStage::Holding) {
            self.turn = HostStage::Idle;
            self.issued = self.last;
        }
    }

    /// Assigns a position to an operation that the calling thread performs now, in an idle stream. [`StreamCore::finish`] follows.
    pub fn begin(&mut self, op: &O) -> u64 {
        self.last += 1;
        self.turn = HostStage::begin(self.last, op.is_fetched());
        self.last
    }

    /// Lists an operation.
    pub fn enlist(&mut self, op: O) -> u64 {
        self.last += 1;
        self.list.push(self.last, op);
        self.last
    }

    /// Whether the stream must wait for clearings or the fence before its next operation.
    #[inline]
    pub fn must_follow(&self, marks: Marks) -> bool {
        self.ordered_after != marks
    }

    /// Records that the driver's stream waits for these.
    pub fn follows(&mut self, marks: Marks) {
        self.ordered_after = marks;
    }

    /// Records a region that runs from here on.
    pub fn ran_kernel(&mut self, function: u32) {
        self.recent_kernels.ran(function);
    }

    /// Returns the regions that ran since the stream was last known to be empty, as far as known.
    pub fn recent_kernels(&self) -> &[u32] {
        self.recent_kernels.get()
    }
}

/// The worker, and operations in their turn.
impl<O: Operation, C: HostWork> StreamCore<O, C> {
    /// Whether a worker must be started before an operation is listed.
    pub fn needs_worker(&self) -> bool {
        self.worker == Worker::Absent
    }

    /// Records that the worker was started.
    pub fn worker_started(&mut self) {
        self.worker = Worker::Serving;
    }

    /// Ends the stream. The worker drops listed operations.
    pub fn close(&mut self) {
        self.worker = Worker::Closing;
    }

    /// Whether the stream takes no more operations.
    pub fn is_closing(&self) -> bool {
        self.worker == Worker::Closing
    }

    /// Returns the worker's next step. `lost`: the device has failed.
    pub fn worker_step(&mut self, lost: bool) -> WorkerStep<O> {
        let closing = self.is_closing();
        if closing || lost || self.has_failed() {
            let list = std::mem::take(&mut self.list);
            return match list.is_empty() {
                false => WorkerStep::Drop(list.into_operations()),
                true if closing => WorkerStep::End,
                true => WorkerStep::Wait,
            };
        }
        if self.turn.performing().is_some() {
            return WorkerStep::Wait;
        }
        let Some((seq, op)) = self.list.pop() else { return WorkerStep::Wait };
        self.turn = HostStage::begin(seq, op.is_fetched());
        WorkerStep::Perform(seq, op)
    }

    /// Takes the next listed operation, with which the thread continues whose operation is in progress, if `is_such` accepts it.
    /// Returns `None` if later ones were issued already: the device has yet to perform these, and the thread would wait for
    /// them, while others wait for earlier operations.
    pub fn take_next(&mut self, is_such: impl FnOnce(&mut O) -> bool) -> Option<(u64, O)> {
        let closing = self.is_closing();
        let performing = self.turn.performing_mut()?;
        if closing || performing.later.through().is_some() {
            return None;
        }
        let (seq, op) = self.list.pop_if(is_such)?;
        (performing.end, performing.later) = (seq, Later::Wait);
        Some((seq, op))
    }

    /// Takes the next listed operation if `is_such` accepts it: it enters the driver's stream while only other processes have to
    /// end those in progress. If none is left that must wait for that, later operations are issued at the call.
    pub fn take_pipelined(&mut self, is_such: impl FnOnce(&mut O) -> bool) -> Option<(u64, O)> {
        let closing = self.is_closing();
        let performing = self.turn.performing_mut()?;
        let taken = if closing { None } else { self.list.pop_if(is_such) };
        let through = performing.later.through();
        performing.later = match (&taken, through) {
            (Some((seq, _)), _) => Later::Issuing { through: *seq },
            (None, through) if self.list.is_empty() => Later::Enter { through },
            (None, Some(through)) => Later::Issuing { through },
            (None, None) => Later::Wait,
        };
        taken
    }

    /// Records that the operations in progress are done up to `seq`, while their thread continues with others. `arrived`: the
    /// driver's stream has no operation up to there.
    pub fn done(&mut self, seq: u64, arrived: bool) {
        self.issued = seq;
        if arrived {
            self.arrived(seq);
        }
        if let Some(performing) = self.turn.performing_mut() {
            performing.next = seq + 1;
        }
    }

    /// Ends the turn of the operations in progress.
    pub fn finish(&mut self, result: Result<()>) -> Finish {
        match (self.turn, result) {
            (HostStage::Performing(performing), Err(error)) => {
                self.turn = HostStage::Draining(performing);
                self.fail(error);
                Finish::Drain
            }
            (HostStage::Performing(performing), Ok(())) => {
                self.turn = HostStage::Idle;
                self.passed(performing);
                Finish::Ended
            }
            (HostStage::Idle | HostStage::Holding | HostStage::Draining(_), _) => Finish::Ended,
        }
    }

    /// Records a failure. The worker drops listed operations. The caller waits as for [`Finish::Drain`].
    pub fn fail(&mut self, error: Error) {
        if !self.has_failed() {
            self.failure = Failure::Draining(error);
        }
    }

    /// Records that the driver's stream was empty after a failure, which is reported from now on.
    pub fn drained(&mut self) {
        if let HostStage::Draining(performing) = self.turn {
            self.turn = HostStage::Idle;
            self.passed(performing);
        }
        self.failure = match std::mem::replace(&mut self.failure, Failure::None) {
            Failure::Draining(error) => Failure::Reported(error),
            other => other,
        };
    }

    fn passed(&mut self, performing: Performing) {
        self.issued = self.issued.max(performing.end).max(performing.later.through().unwrap_or(0));
    }

    /// Returns what the operation at `seq`, whose turn it is, must wait for on the host.
    pub fn settle(&self, seq: u64, access: Access) -> Settle {
        let is_open = match access {
            Access::Program(range) => self.will_write(range),
            Access::OtherEnd => self.is_completing(seq - 1),
            // The driver's stream may wait for a fence, which has no position.
            Access::Device => return Settle::Driver,
        };
        if is_open { Settle::Operations } else { Settle::Nothing }
    }
}

/// Progress, and what fails.
impl<O: Operation, C: HostWork> StreamCore<O, C> {
    /// Returns how far the operations up to `seq` are. `knows`: the driver's stream has only what has a position, so that it need
    /// not be asked if all of that was reached.
    pub fn progress(&self, seq: u64, knows: bool) -> Progress {
        if self.issued < seq {
            Progress::NotIssued
        } else if self.reached < seq || !knows {
            Progress::InDriver { issued: self.issued }
        } else if self.is_completing(seq) {
            Progress::OnHost
        } else {
            Progress::Done
        }
    }

    /// Whether all operations are known to be done by the device.
    pub fn is_reached(&self) -> bool {
        self.reached == self.last
    }

    /// Whether operations wait for those in progress.
    pub fn has_listed(&self) -> bool {
        !self.list.is_empty()
    }

    /// Whether all operations up to `seq` are in the driver's stream or done.
    pub fn has_issued(&self, seq: u64) -> bool {
        self.issued >= seq
    }

    /// Records that the driver's stream was empty after the operation at `issued` had entered it.
    pub fn arrived(&mut self, issued: u64) {
        self.reached = self.reached.max(issued);
        if self.is_reached() {
            self.recent_kernels.clear();
        }
    }

    /// Returns what a stream must wait for that follows this one up to `seq`. `knows` as in [`StreamCore::progress`].
    pub fn dependence(&self, seq: u64, knows: bool) -> Dependence {
        match (self.reached < seq || !knows, self.is_completing(seq)) {
            (false, false) => Dependence::None,
            (true, false) => Dependence::Driver,
            (false, true) => Dependence::Host,
            (true, true) => Dependence::DriverThenHost,
        }
    }

    /// Adds the host's work for the operation at `seq`.
    pub fn add_work(&mut self, seq: u64, work: C) {
        self.completions.push(seq, work);
    }

    /// Returns the next work that a waiter for `seq` needs done, which the device has reached. If the work fails, the caller
    /// calls [`StreamCore::fail`] before another thread asks.
    pub fn next_work(&mut self, seq: u64) -> NextWork<'_, C> {
        match &self.failure {
            Failure::None => self.completions.next(seq),
            Failure::Draining(_) => NextWork::Failing,
            Failure::Reported(error) => NextWork::Failed(error.clone()),
        }
    }

    /// Removes the work at `seq`, which was awaited and has succeeded.
    pub fn work_awaited(&mut self, seq: u64) {
        self.completions.awaited(seq);
    }

    /// Returns the position that a caller must wait for before it adds work, if there is too much.
    pub fn excess_work(&self) -> Option<u64> {
        self.completions.first_of(self.bounds.completions)
    }

    /// Whether work on the host remains for an operation up to `seq`, which may still write to the program's memory.
    pub fn is_completing(&self, seq: u64) -> bool {
        self.completions.remain(seq)
    }

    /// Whether the host has yet to write to a range of the program's memory for operations that the driver has.
    pub fn will_write(&self, range: HostRange) -> bool {
        self.completions.may_write(range)
    }

    /// Returns the stream's failure, once it is reported.
    pub fn failure(&self) -> Option<&Error> {
        match &self.failure {
            Failure::Reported(error) => Some(error),
            Failure::None | Failure::Draining(_) => None,
        }
    }

    fn has_failed(&self) -> bool {
        !matches!(self.failure, Failure::None)
    }
}
