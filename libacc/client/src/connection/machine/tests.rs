use super::*;
use accord_types::{ErrorCode, NodeId};

const DEVICE: u32 = 1;
const QUEUE: QueueId = QueueId(3);
const STREAMS: usize = 4;

fn machine() -> Machine<u32> {
    let mut machine = Machine::new(EXCHANGE_WINDOW);
    machine.open(DEVICE, 4);
    machine
}

fn crashed() -> Error {
    Error::new(ErrorCode::Execution, "crashed").queue(QUEUE)
}

#[test]
fn announced_push_is_sent_even_if_its_queue_has_failed() {
    let to = PeerId::executor(NodeId(2), 0).unwrap();
    let push = Command::Push { device: DEVICE, queue: QUEUE.0, src: 0, len: 8, transfer: 1, to };
    let mut machine = machine();
    machine.device(DEVICE).unwrap().queue(QUEUE).unwrap();
    machine.fail(DEVICE, Some(QUEUE), &crashed());
    let mut sent = Vec::new();
    assert_eq!(machine.operate((DEVICE, QUEUE), MayStall::Yes, &push, &[], Duration::ZERO), Err(crashed()));
    assert!(!machine.take_frames(&mut sent).unwrap());
    assert_eq!(machine.push((DEVICE, QUEUE), &push, &[], Duration::ZERO), Err(crashed()));
    assert!(machine.take_frames(&mut sent).unwrap());
}

#[test]
fn after_a_failure_memory_is_the_programs_when_the_thread_that_reads_it_is_done() {
    let src = HostRange { start: 4096, len: 1 << 20 };
    let mut machine = machine();
    for number in [1, 2] {
        let transfer = TransferId(number);
        let copy =
            CopyIn { device: DEVICE, queue: QUEUE, dst: DevicePtr(0), src, now: false, transfer, streams: STREAMS };
        let plan = machine.copy_in(&copy, Duration::ZERO).unwrap();
        machine.queue_copy(plan, Bytes::Host(src), None);
    }
    let job = machine.take_copy(CopyLine::Eager).unwrap();
    machine.has_lane(CopyLine::Eager);
    machine.fail(DEVICE, Some(QUEUE), &crashed());
    // The other copy was queued, and is cancelled.
    let waits = machine.wait_for_memory_of_failed(DEVICE, &[QUEUE], &7);
    let [wait] = waits[..] else { panic!("{waits:?}") };
    assert!(!machine.is_done(wait));
    // The copy ends with its lane, not with the connection.
    machine.lose(&Error::new(ErrorCode::DeviceUnavailable, "gone"));
    assert!(!machine.is_done(wait));
    machine.sent(CopyLine::Eager, job, Ok(()));
    assert!(machine.is_done(wait));
    assert!(machine.wait_for_memory(DEVICE, None, &7).is_empty());
}
