//! Progress of queues, as far as the program must know it.

use super::{Machine, POSITIONS_FEW, Positions};
use crate::connection::waits::{AwaitedEvent, WaitId};
use accord_fabric::frame::{Command, Event, POSITION_LEN, Position};
use accord_types::{QueueId, Result, Seq, TransferId};
use smallvec::SmallVec;
use std::time::Duration;

/// Number of simultaneous waits that need no heap allocation.
const REPLIES_FEW: usize = 2;

/// The pending questions of a thread about queues.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PositionQueries {
    /// The waits for replies; none if the program knows already that the queues have reached their positions.
    pub replies: SmallVec<[WaitId; REPLIES_FEW]>,
    /// The positions that are reached after the waits; none if there is nothing to wait for. [`Machine::reach`]
    /// follows.
    pub positions: Positions,
    /// Whether a question was appended without a wait, so that the caller must send it.
    pub ahead: bool,
}

impl<W: Clone> Machine<W> {
    /// Asks whether queues have reached their last positions, unless that is known, and registers a wait with `waker`.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed.
    pub fn test_positions(
        &mut self,
        device: u32,
        queues: &[QueueId],
        waker: W,
        now: Duration,
    ) -> Result<PositionQueries> {
        let (positions, open) = self.open_positions(device, queues)?;
        let mut asked = PositionQueries { positions, ..PositionQueries::default() };
        if !open.is_empty() {
            let payload = payload(&open);
            self.unsent.flush.wait(now);
            asked.replies.push(self.ask(|ticket| Command::Test { ticket }, &[&payload], waker, now)?);
        }
        Ok(asked)
    }

    /// Requests a notification when queues have reached their last positions, unless that is known, and registers a
    /// wait with `waker`. Also asks ahead about other queues that the program sometimes waits for.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed.
    pub fn await_positions(
        &mut self,
        device: u32,
        queues: &[QueueId],
        waker: W,
        now: Duration,
    ) -> Result<PositionQueries> {
        let (positions, mut open) = self.open_positions(device, queues)?;
        let mut asked = PositionQueries { positions, ..PositionQueries::default() };
        open.retain(|position| {
            let Some(ticket) = self.ahead.take(device, position.queue, position.seq.0) else { return true };
            asked.replies.push(self.waits.register(AwaitedEvent::Reply(ticket), waker.clone()));
            false
        });
        if !open.is_empty() {
            let payload = payload(&open);
            asked.replies.push(self.ask(|ticket| Command::Wait { ticket }, &[&payload], waker, now)?);
        }
        if !asked.replies.is_empty() {
            self.unsent.flush.wait(now);
        }
        asked.ahead = self.ask_ahead(device, queues, now)?;
        Ok(asked)
    }

    /// Asks ahead about the device's queues that the program has waited for before, because it is about to wait for
    /// another device. Returns whether the caller must send the question.
    ///
    /// # Errors
    /// Returns an error if the connection or the device has failed.
    pub fn ask_about_all(&mut self, device: u32, now: Duration) -> Result<bool> {
        self.device(device)?;
        self.ask_ahead(device, &[], now)
    }

    /// Asks ahead about other queues that the program has waited for before, because it may do so again. Each wait pays
    /// for one question about its queue, so there are at most as many questions as waits.
    fn ask_ahead(&mut self, device: u32, queues: &[QueueId], now: Duration) -> Result<bool> {
        let state = self.devices.get(device)?;
        let (mut others, mut any) = (Positions::new(), false);
        for (queue, known) in state.queues() {
            if queues.contains(&queue) {
                known.awaited = true;
            } else if known.awaited && known.reached < known.last && !self.ahead.is_open(device, queue) {
                others.push(Position { device, queue, seq: Seq(known.last) });
            }
        }
        for other in others {
            // Questions ahead must not use up the credit that threads wait for.
            if !self.credit.commands.is_left() || self.ahead.is_full() {
                break;
            }
            let ticket = self.ticket();
            self.put(&Command::Wait { ticket }, &[&payload(&[other])], now)?;
            self.ahead.ask(ticket, device, other.queue, other.seq.0);
            self.devices.get(device)?.queue(other.queue)?.awaited = false;
            any = true;
        }
        Ok(any)
    }

    /// Returns the positions of `queues` that may not be drained, and of these, the ones that the executor has not
    /// reported as reached.
    fn open_positions(&mut self, device: u32, queues: &[QueueId]) -> Result<(Positions, Positions)> {
        let state = self.device(device)?;
        let (mut open, mut not_reached) = (Positions::new(), Positions::new());
        for &queue in queues {
            // An unused queue has nothing to wait for.
            if let Some(known) = state.known(queue)?
                && !known.drained()
            {
                let position = Position { device, queue, seq: Seq(known.last) };
                open.push(position);
                if known.reached < known.last {
                    not_reached.push(position);
                }
            }
        }
        Ok((open, not_reached))
    }

    /// Whether an event answers a question that was asked ahead. A queue's failure is reported by another event, or at
    /// the next wait for the queue.
    pub(super) fn answers_query_ahead(&mut self, event: &Event) -> bool {
        let (Event::Reply { ticket, .. } | Event::ReplyFailed { ticket, .. }) = *event else { return false };
        let Some(question) = self.ahead.answered(ticket) else { return false };
        if matches!(event, Event::Reply { .. })
            && question.counts()
            && let Ok(known) = self.devices.get(question.device).and_then(|device| device.queue(question.queue))
        {
            known.reached = known.reached.max(question.seq);
        }
        true
    }

    /// Records that the executor has reached all of `positions`. Returns the copies out that must complete before the
    /// program may know it; then [`Machine::landed_until`] follows.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed.
    pub fn reach(&mut self, positions: &[Position]) -> Result<Vec<TransferId>> {
        let mut copies = Vec::new();
        for position in positions {
            self.device(position.device)?.queue(position.queue)?.reach(position.seq.0, &mut copies);
        }
        Ok(copies)
    }

    /// Records that all copies out up to `positions` have completed.
    ///
    /// # Errors
    /// Returns an error if the connection, the device or a queue has failed.
    pub fn landed_until(&mut self, positions: &[Position]) -> Result<()> {
        for position in positions {
            self.device(position.device)?.queue(position.queue)?.copies.landed(position.seq.0);
        }
        Ok(())
    }
}

fn payload(positions: &[Position]) -> SmallVec<[u8; POSITION_LEN * POSITIONS_FEW]> {
    let mut payload = SmallVec::new();
    // As slices, because copying byte by byte takes longer than all the rest.
    positions.iter().for_each(|position| payload.extend_from_slice(&position.encode()));
    payload
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Completion, CopyOut, MayStall, WaitStep};
    use accord_fabric::frame;
    use accord_types::{DevicePtr, Error, ErrorCode, HostRange};

    const DEVICE: u32 = 0;
    const QUEUES: [QueueId; 3] = [QueueId(1), QueueId(2), QueueId(3)];
    const START: Duration = Duration::ZERO;

    /// Threads are represented by numbers.
    fn machine() -> Machine<u8> {
        let mut machine = Machine::default();
        machine.open(DEVICE, 32);
        machine
    }

    fn put(machine: &mut Machine<u8>, queue: QueueId) {
        let command = Command::Copy { device: DEVICE, queue: queue.0, dst: 0, src: 0, len: 8 };
        machine.operate((DEVICE, queue), MayStall::Yes, &command, &[], START).unwrap();
    }

    fn wait(machine: &mut Machine<u8>, queues: &[QueueId]) -> PositionQueries {
        machine.await_positions(DEVICE, queues, 0, START).unwrap()
    }

    /// Delivers the executor's reply to the ticket with this number; tickets count from 1.
    fn reply(machine: &mut Machine<u8>, ticket: u64) {
        machine.event(Event::Reply { ticket, value: 0, extra: 0 }, &[], |error| error).unwrap();
    }

    /// Number of tickets so far.
    fn questions(machine: &mut Machine<u8>) -> u64 {
        machine.ticket() - 1
    }

    /// Asserts that the wait was registered, and delivers its reply.
    fn is_answered(machine: &mut Machine<u8>, asked: &PositionQueries, ticket: u64) {
        let &[id] = &asked.replies[..] else { panic!("{asked:?}") };
        assert!(!machine.is_done(id));
        reply(machine, ticket);
        assert!(matches!(machine.turn(id), WaitStep::Done(Ok(_))));
        assert!(machine.reach(&asked.positions).unwrap().is_empty());
    }

    /// Waits for each of the first two queues, with tickets 1 and 2.
    fn used(machine: &mut Machine<u8>) {
        for (queue, ticket) in QUEUES.into_iter().zip(1..3) {
            put(machine, queue);
            let asked = wait(machine, &[queue]);
            assert!(!asked.ahead, "the program may never wait for another one");
            is_answered(machine, &asked, ticket);
        }
    }

    /// Questions about devices that were shut down since, which a program may repeat any number of times.
    #[test]
    fn silent_executor_gets_no_further_queries_ahead() {
        let mut machine = machine();
        used(&mut machine);
        for ticket in 0.. {
            if machine.ahead.is_full() {
                break;
            }
            machine.ahead.ask(u64::MAX - ticket, DEVICE + 1, QUEUES[1], 1);
            machine.ahead.close(DEVICE + 1);
        }
        put(&mut machine, QUEUES[0]);
        put(&mut machine, QUEUES[1]);
        assert!(!wait(&mut machine, &QUEUES[..1]).ahead);
        reply(&mut machine, u64::MAX);
        put(&mut machine, QUEUES[0]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead, "it has answered one");
    }

    /// A program may use any queue number.
    #[test]
    fn queues_that_are_waited_for_and_never_used_are_not_remembered() {
        let mut machine = machine();
        for queue in 0..100 {
            assert_eq!(wait(&mut machine, &[QueueId(queue)]), PositionQueries::default());
            assert_eq!(machine.last(DEVICE, QueueId(queue)), Ok(Seq(0)));
        }
        assert_eq!(machine.device(DEVICE).unwrap().queues().count(), 0);
    }

    #[test]
    fn wait_uses_the_query_sent_ahead() {
        let mut machine = machine();
        used(&mut machine);
        put(&mut machine, QUEUES[0]);
        let (transfer, dst) = (TransferId(7), HostRange { start: 1 << 20, len: 8 });
        let (src, completion) = (DevicePtr(0), Completion::Write);
        let copy = CopyOut { device: DEVICE, queue: QUEUES[1], src, len: 8, dst, transfer, completion };
        machine.copy_out(copy, START).unwrap();
        put(&mut machine, QUEUES[2]);
        let first = wait(&mut machine, &QUEUES[..1]);
        assert!(first.ahead);
        is_answered(&mut machine, &first, 3);
        reply(&mut machine, 4);
        let second = wait(&mut machine, &QUEUES[1..2]);
        assert!(second.replies.is_empty() && second.positions.len() == 1, "{second:?}");
        assert_eq!(machine.reach(&second.positions).unwrap(), [transfer], "its bytes may not be here");
        machine.landed_until(&second.positions).unwrap();
        assert_eq!(wait(&mut machine, &QUEUES[..2]), PositionQueries::default());
        assert_eq!(questions(&mut machine), 4, "the third queue was never waited for");
    }

    #[test]
    fn a_wait_elsewhere_asks_about_queues_that_were_waited_for() {
        let mut machine = machine();
        used(&mut machine);
        assert_eq!(machine.ask_about_all(DEVICE, START), Ok(false), "nothing is in them");
        QUEUES.into_iter().for_each(|queue| put(&mut machine, queue));
        assert_eq!([(); 2].map(|()| machine.ask_about_all(DEVICE, START)), [Ok(true), Ok(false)]);
        // One question about each of the two queues that it has waited for.
        assert_eq!(questions(&mut machine), 4);
        (3..5).for_each(|ticket| reply(&mut machine, ticket));
        assert_eq!(
            [0, 1].map(|queue| wait(&mut machine, &QUEUES[queue..=queue])),
            [(); 2].map(|()| PositionQueries::default())
        );
        assert!(machine.ask_about_all(DEVICE + 1, START).is_err());
    }

    #[test]
    fn wait_shares_the_answer_of_a_pending_query() {
        let mut machine = machine();
        used(&mut machine);
        put(&mut machine, QUEUES[1]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        let asked = wait(&mut machine, &QUEUES[1..2]);
        is_answered(&mut machine, &asked, 3);
        assert_eq!(questions(&mut machine), 3);
        // Another thread that waits for the same queue must ask itself.
        put(&mut machine, QUEUES[1]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        let both = [(); 2].map(|()| wait(&mut machine, &QUEUES[1..2]));
        is_answered(&mut machine, &both[0], 5);
        is_answered(&mut machine, &both[1], 6);
    }

    #[test]
    fn wait_for_a_later_position_sends_a_new_query() {
        let mut machine = machine();
        used(&mut machine);
        put(&mut machine, QUEUES[1]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        put(&mut machine, QUEUES[1]);
        let asked = wait(&mut machine, &QUEUES[1..2]);
        is_answered(&mut machine, &asked, 4);
        put(&mut machine, QUEUES[1]);
        assert!(!wait(&mut machine, &QUEUES[..1]).ahead, "one open question of a queue is enough");
        reply(&mut machine, 3);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        assert_eq!(questions(&mut machine), 5);
    }

    #[test]
    fn queue_that_is_no_longer_waited_for_gets_one_query() {
        let mut machine = machine();
        used(&mut machine);
        for _ in 0..5 {
            put(&mut machine, QUEUES[1]);
            wait(&mut machine, &QUEUES[..1]);
        }
        reply(&mut machine, 3);
        put(&mut machine, QUEUES[1]);
        assert!(!wait(&mut machine, &QUEUES[..1]).ahead);
        assert_eq!(questions(&mut machine), 3);
    }

    #[test]
    fn an_answer_about_a_device_that_was_shut_down_says_nothing_of_the_next_one() {
        let mut machine = machine();
        used(&mut machine);
        put(&mut machine, QUEUES[1]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        machine.close(DEVICE, &Error::new(ErrorCode::DeviceShutdown, "over"));
        machine.open(DEVICE, 32);
        put(&mut machine, QUEUES[1]);
        put(&mut machine, QUEUES[1]);
        reply(&mut machine, 3);
        let asked = wait(&mut machine, &QUEUES[1..2]);
        is_answered(&mut machine, &asked, 4);
    }

    #[test]
    fn waiting_thread_gets_the_failure_of_a_query_sent_ahead() {
        let mut machine = machine();
        used(&mut machine);
        put(&mut machine, QUEUES[1]);
        assert!(wait(&mut machine, &QUEUES[..1]).ahead);
        let mut text = Vec::new();
        let failure = frame::encode_error(&Error::new(ErrorCode::Execution, "crashed"), &mut text);
        machine.event(Event::ReplyFailed { ticket: 3, failure }, &text, |error| error).unwrap();
        let asked = wait(&mut machine, &QUEUES[1..2]);
        let &[id] = &asked.replies[..] else { panic!("{asked:?}") };
        machine.event(Event::ReplyFailed { ticket: 4, failure }, &text, |error| error).unwrap();
        assert!(matches!(machine.turn(id), WaitStep::Done(Err(error)) if error.cause() == "crashed"));
        // A reply to an unknown ticket is an error.
        assert!(machine.event(Event::Reply { ticket: 3, value: 0, extra: 0 }, &[], |error| error).is_err());
    }
}
