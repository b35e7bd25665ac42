//! Planted faults: the rules with one answer falsified.

use super::operation::{Op, Work};
use accord_device::stream::{
    Access, Bounds, Dependence, FenceCore, Finish, Marks, NextWork, Progress, Settle, SlotCore, SlotStep, StreamCore,
    WorkerStep,
};
use accord_types::{Error, Result};

/// A fault that is planted in the rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Order: operations enter the driver's stream ahead of listed ones.
    OvertakesTheList,
    /// Order: bytes are fetched while operations before the copy are listed.
    FetchesTooEarly,
    /// Order: streams do not follow the fence.
    IgnoresTheFence,
    /// Order: the fence is reported set while others follow another stream.
    SetsTheFenceTwice,
    /// Order: memory is released while a copy that the fence orders is in flight.
    ForgetsTheFenceOnTheHost,
    /// Order: an operation does not wait for the host's work that it depends on.
    ReadsBeforeTheHostHasWritten,
    /// Completion: an answer of the driver counts for operations that were issued after the question.
    BelievesLateAnswers,
    /// Completion: the host's work of a stream that another one follows is left out.
    OmitsWorkOfOthers,
    /// Completion: operations that were issued behind a copy are done with it.
    EndsMoreThanTheCopy,
    /// Completion: copies that failed are done.
    LosesErrors,
    /// Completion: a failure is reported while the driver still has operations.
    ReportsBeforeDraining,
    /// Reuse: a slot is free while the device uses it.
    FreesSlotsInUse,
    /// Reuse: the slot that is taken is not the one that was queried.
    TakesAnotherSlot,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 13] = [
        Self::OvertakesTheList,
        Self::FetchesTooEarly,
        Self::IgnoresTheFence,
        Self::SetsTheFenceTwice,
        Self::ForgetsTheFenceOnTheHost,
        Self::ReadsBeforeTheHostHasWritten,
        Self::BelievesLateAnswers,
        Self::OmitsWorkOfOthers,
        Self::EndsMoreThanTheCopy,
        Self::LosesErrors,
        Self::ReportsBeforeDraining,
        Self::FreesSlotsInUse,
        Self::TakesAnotherSlot,
    ];
}

/// The rules of a stream, with a fault.
pub(super) struct Stream {
    core: StreamCore<Op, Work>,
    fault: Option<Fault>,
}

impl Stream {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        let bounds = Bounds { operations: 4, bytes: 1 << 10, fetched: 2, completions: 3 };
        Self { core: StreamCore::new(bounds), fault }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Returns the rules where no fault concerns them.
    pub(super) fn rules(&mut self) -> &mut StreamCore<Op, Work> {
        &mut self.core
    }

    pub(super) fn may_issue(&self) -> bool {
        self.core.may_issue() || self.has(Fault::OvertakesTheList)
    }

    pub(super) fn may_fetch(&self) -> bool {
        self.core.may_fetch() || self.has(Fault::FetchesTooEarly)
    }

    pub(super) fn must_follow(&self, marks: Marks) -> bool {
        self.core.must_follow(marks) && !self.has(Fault::IgnoresTheFence)
    }

    pub(super) fn settle(&self, seq: u64, access: Access) -> Settle {
        match self.core.settle(seq, access) {
            Settle::Operations if self.has(Fault::ReadsBeforeTheHostHasWritten) => Settle::Nothing,
            Settle::Driver if self.has(Fault::ForgetsTheFenceOnTheHost) => Settle::Operations,
            settle => settle,
        }
    }

    pub(super) fn arrived(&mut self, issued: u64) {
        let issued = if self.has(Fault::BelievesLateAnswers) { self.core.last() } else { issued };
        self.core.arrived(issued);
    }

    pub(super) fn dependence(&self, seq: u64) -> Dependence {
        match self.core.dependence(seq, true) {
            Dependence::Host if self.has(Fault::OmitsWorkOfOthers) => Dependence::None,
            Dependence::DriverThenHost if self.has(Fault::OmitsWorkOfOthers) => Dependence::Driver,
            dependence => dependence,
        }
    }

    pub(super) fn done(&mut self, seq: u64) {
        let seq = if self.has(Fault::EndsMoreThanTheCopy) { self.core.last() } else { seq };
        self.core.done(seq, true);
    }

    pub(super) fn finish(&mut self, result: Result<()>) -> Finish {
        let result = if self.has(Fault::LosesErrors) { Ok(()) } else { result };
        let finish = self.core.finish(result);
        if finish == Finish::Drain && self.has(Fault::ReportsBeforeDraining) {
            self.core.drained();
            return Finish::Ended;
        }
        finish
    }

    pub(super) fn worker_step(&mut self, lost: bool) -> WorkerStep<Op> {
        self.core.worker_step(lost)
    }

    pub(super) fn progress(&self, seq: u64, knows: bool) -> Progress {
        self.core.progress(seq, knows)
    }

    pub(super) fn next_work(&mut self, seq: u64) -> NextWork<'_, Work> {
        self.core.next_work(seq)
    }

    pub(super) fn failure(&self) -> Option<&Error> {
        self.core.failure()
    }
}

/// The rules of a pool of slots, with a fault.
pub(super) struct Slots {
    core: SlotCore<usize>,
    fault: Option<Fault>,
}

impl Slots {
    pub(super) fn new(most: usize, fault: Option<Fault>) -> Self {
        Self { core: SlotCore::new(most, 2), fault }
    }

    /// Returns the rules where no fault concerns them.
    pub(super) fn rules(&mut self) -> &mut SlotCore<usize> {
        &mut self.core
    }

    pub(super) fn step(&mut self, queries: usize) -> SlotStep<usize> {
        self.core.step(queries)
    }

    pub(super) fn reuse(&mut self, queries: usize) -> Option<usize> {
        let another = if self.fault == Some(Fault::TakesAnotherSlot) { self.core.reuse(queries + 1) } else { None };
        another.or_else(|| self.core.reuse(queries))
    }

    pub(super) fn give_back_in_use(&mut self, slot: usize) {
        if self.fault == Some(Fault::FreesSlotsInUse) {
            self.core.give_back(slot);
        } else {
            self.core.give_back_in_use(slot);
        }
    }
}

/// The rules of the fence, with a fault.
pub(super) struct Fence {
    pub(super) core: FenceCore<usize>,
    fault: Option<Fault>,
}

impl Fence {
    pub(super) fn new(fault: Option<Fault>) -> Self {
        Self { core: FenceCore::default(), fault }
    }

    pub(super) fn set(&mut self, stream: usize) -> bool {
        self.core.set(stream) || self.fault == Some(Fault::SetsTheFenceTwice)
    }
}
