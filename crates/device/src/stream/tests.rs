use super::{
    Access, Bounds, Dependence, FenceCore, Finish, HostWork, NextWork, Operation, Progress, Settle, SlotCore, SlotStep,
    Stage, StreamCore, WorkerStep,
};
use accord_types::{Error, ErrorCode, HostRange};

#[derive(PartialEq, Eq, Debug)]
enum Op {
    Device,
    Copy { fetched: bool },
}

impl Operation for Op {
    fn is_fetched(&self) -> bool {
        *self == Self::Copy { fetched: true }
    }

    fn held_bytes(&self) -> usize {
        1
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Work(Stage);

impl HostWork for Work {
    fn stage(&self) -> Stage {
        self.0
    }

    fn may_write(&self, range: HostRange) -> bool {
        range.start == 0
    }
}

fn failed() -> Error {
    Error::new(ErrorCode::Execution, "failed")
}

fn stream() -> StreamCore<Op, Work> {
    StreamCore::new(Bounds { operations: 2, bytes: 100, fetched: 2, completions: 2 })
}

fn performed(core: &mut StreamCore<Op, Work>) -> u64 {
    match core.worker_step(false) {
        WorkerStep::Perform(seq, _) => seq,
        other => panic!("{other:?}"),
    }
}

#[test]
fn operations_enter_the_driver_until_one_needs_the_host() {
    let mut core = stream();
    assert!(core.may_issue() && core.issue() == 1);
    assert_eq!(core.enlist(Op::Copy { fetched: false }), 2);
    assert!(!core.may_issue() && !core.is_idle());
    assert_eq!(core.enlist(Op::Device), 3);
    assert!(core.is_full());
    assert_eq!(core.progress(2, true), Progress::NotIssued);
    assert_eq!(performed(&mut core), 2);
    assert_eq!(core.performing(), 2);
    assert!(matches!(core.worker_step(false), WorkerStep::Wait), "one at a time");
    assert_eq!(core.finish(Ok(())), Finish::Ended);
    assert_eq!(core.progress(2, true), Progress::InDriver { issued: 2 });
    assert_eq!(performed(&mut core), 3);
    assert_eq!(core.finish(Ok(())), Finish::Ended);
    assert!(core.may_issue());
    core.arrived(2);
    assert_eq!((core.progress(2, true), core.progress(3, true)), (Progress::Done, Progress::InDriver { issued: 3 }));
    assert_eq!(core.progress(2, false), Progress::InDriver { issued: 3 });
}

#[test]
fn operations_behind_a_sent_copy_enter_the_driver_and_are_done_after_it() {
    let mut core = stream();
    core.enlist(Op::Copy { fetched: true });
    core.enlist(Op::Device);
    assert_eq!(performed(&mut core), 1);
    assert!(!core.may_issue());
    assert_eq!(core.take_pipelined(|op| *op == Op::Device), Some((2, Op::Device)));
    assert!(!core.may_issue(), "the thread is still issuing");
    assert_eq!(core.take_pipelined(|_| true), None);
    assert!(core.may_issue() && core.issue() == 3);
    core.enlist(Op::Copy { fetched: true });
    assert_eq!(core.take_next(|_| true), None, "the device has yet to perform what was issued");
    assert!(!core.has_issued(2));
    core.done(1, true);
    assert_eq!((core.performing(), core.progress(1, true)), (2, Progress::Done));
    assert_eq!(core.finish(Ok(())), Finish::Ended);
    assert_eq!(core.progress(3, true), Progress::InDriver { issued: 3 });
}

#[test]
fn held_back_copies_are_issued_together() {
    let mut core = stream();
    assert_eq!((core.hold(), core.hold()), (1, 2));
    assert!(core.is_idle() && !core.has_issued(1));
    core.release_held();
    assert!(core.has_issued(2));
}

#[test]
fn a_failure_is_reported_once_the_driver_is_empty() {
    let mut core = stream();
    core.enlist(Op::Copy { fetched: false });
    core.enlist(Op::Device);
    performed(&mut core);
    assert_eq!(core.finish(Err(failed())), Finish::Drain);
    assert!(core.failure().is_none() && !core.may_issue() && !core.has_issued(1));
    assert!(matches!(core.worker_step(false), WorkerStep::Drop(ops) if ops == [Op::Device]));
    core.fail(Error::new(ErrorCode::System, "a later one"));
    core.drained();
    assert_eq!(core.failure(), Some(&failed()));
    assert!(!core.may_issue() && !core.is_idle());
    assert!(matches!(core.worker_step(false), WorkerStep::Wait));
    core.close();
    assert!(matches!(core.worker_step(false), WorkerStep::End));
}

#[test]
fn work_that_fails_is_done_for_no_waiter() {
    let mut core = stream();
    core.issue();
    core.add_work(1, Work(Stage::Ready));
    core.arrived(1);
    assert_eq!(core.progress(1, true), Progress::OnHost);
    assert!(matches!(core.next_work(1), NextWork::Run(_)));
    core.fail(failed());
    assert!(matches!(core.next_work(1), NextWork::Failing), "another waiter asks before the report");
    core.drained();
    assert!(matches!(core.next_work(1), NextWork::Failed(error) if error == failed()));
}

#[test]
fn work_is_done_in_order() {
    let mut core = stream();
    core.add_work(1, Work(Stage::Elsewhere));
    core.add_work(2, Work(Stage::Ready));
    assert!(matches!(core.next_work(0), NextWork::None));
    assert!(matches!(core.next_work(2), NextWork::Await(1, _)));
    assert_eq!(core.excess_work(), Some(1));
    core.work_awaited(2);
    assert!(matches!(core.next_work(2), NextWork::Await(1, _)));
    core.work_awaited(1);
    assert!(matches!(core.next_work(1), NextWork::None));
    assert!(matches!(core.next_work(2), NextWork::Run(_)));
}

#[test]
fn an_operation_waits_for_what_it_accesses() {
    let mut core = stream();
    let range = |start| Access::Program(HostRange { start, len: 1 });
    assert_eq!(core.settle(1, Access::OtherEnd), Settle::Nothing);
    assert_eq!(core.settle(1, Access::Device), Settle::Driver, "a fence may be in the driver's stream");
    assert_eq!(core.dependence(0, true), Dependence::None);
    core.issue();
    core.add_work(1, Work(Stage::Elsewhere));
    assert_eq!((core.settle(2, range(0)), core.settle(2, range(1))), (Settle::Operations, Settle::Nothing));
    assert_eq!(core.settle(2, Access::OtherEnd), Settle::Operations);
    assert_eq!(core.dependence(1, true), Dependence::DriverThenHost);
    core.arrived(1);
    assert_eq!(core.dependence(1, true), Dependence::Host);
}

#[test]
fn one_stream_at_a_time_is_followed() {
    let mut fence = FenceCore::default();
    assert!(fence.followed().is_none());
    assert!(fence.set('a') && fence.set('a'));
    assert!(!fence.set('b'));
    assert_eq!(fence.followed(), Some(('a', 2)));
    fence.passed(1);
    assert!(!fence.set('b'), "the second setting is open");
    fence.passed(2);
    assert!(fence.followed().is_none() && fence.set('b'));
    assert_eq!(fence.followed(), Some(('b', 3)));
}

#[test]
fn a_slot_is_reused_once_the_device_has_passed_it() {
    let mut slots = SlotCore::new(3, 4);
    assert_eq!(slots.step(0), SlotStep::Make(2));
    slots.add([10, 11]);
    assert_eq!((slots.step(0), slots.step(0)), (SlotStep::Take(11), SlotStep::Take(10)));
    slots.give_back_in_use(10);
    slots.give_back_in_use(11);
    assert_eq!((slots.step(0), slots.step(1)), (SlotStep::Query(10), SlotStep::Query(11)));
    assert_eq!(slots.reuse(1), Some(11));
    assert_eq!(slots.step(1), SlotStep::Make(1));
    slots.is_exhausted();
    assert_eq!(slots.step(1), SlotStep::Wait);
    assert_eq!((slots.oldest(), slots.oldest()), (Some(10), None));
    slots.give_back(10);
    assert_eq!(slots.step(0), SlotStep::Take(10));
}
