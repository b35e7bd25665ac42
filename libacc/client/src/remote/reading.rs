//! The receiving side of the command lane: waits, the watcher, and the handling of events.

use super::connection::Connection;
use super::event_reader::EventReader;
use crate::connection::{Machine, POLL_INTERVAL, Reply, WaitId, WaitStep, WatchStep};
use crate::executor_ends::LaneEnd;
use accord_fabric::ending::ExecutorEnding;
use accord_fabric::frame::{self, Event, FrameReader};
use accord_fabric::stats::LinkStats;
use accord_types::short_lock::assert_none_held;
use accord_types::{DeviceId, Error, ErrorCode, Result, Span, TransferId};
use std::io::ErrorKind;
use std::sync::{Arc, MutexGuard};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Duration of a wait after which the waiter checks whether the executor lives.
const LONG: Duration = Duration::from_millis(20);

impl Connection {
    /// Performs a wait of the machine.
    ///
    /// # Errors
    /// Returns the error of the reply or the connection.
    pub(super) fn wait(self: &Arc<Self>, id: WaitId) -> Result<Reply> {
        let mut sleeps_since = None;
        assert_none_held();
        let mut turn = self.machine().turn(id);
        loop {
            match turn {
                WaitStep::Done(outcome) => return outcome,
                WaitStep::Read => {
                    turn = self.read_until(id);
                    continue;
                }
                WaitStep::Sleep => {
                    let slept = sleeps_since.get_or_insert_with(Instant::now).elapsed();
                    // The wake-up may have been spurious.
                    match LONG.checked_sub(slept) {
                        Some(rest) => std::thread::park_timeout(rest),
                        None => self.long_wait(std::thread::park),
                    }
                }
            }
            turn = self.machine().turn(id);
        }
    }

    /// Reads and handles events as the reader until the waiter's has arrived, or the connection is lost. Hands the
    /// reading over, and returns the waiter's next step.
    fn read_until(self: &Arc<Self>, id: WaitId) -> WaitStep {
        let mut reader = self.reader();
        // Only this thread handles events now. The last read may have brought several.
        while !self.handle_buffered(&mut reader.frames, Some(id)) {
            let filled = reader.fill(&*self.records);
            // All waits end when the connection is lost.
            if !self.received(filled) && self.machine().is_done(id) {
                break;
            }
        }
        drop(reader);
        let mut machine = self.machine();
        machine.hand_over();
        let turn = machine.turn(id);
        self.act(machine);
        turn
    }

    /// Runs the watcher, until the connection ends.
    pub(super) fn watch(self: &Arc<Self>) {
        loop {
            let mut machine = self.machine();
            let step = machine.watcher();
            self.act(machine);
            match step {
                WatchStep::Look => {
                    self.poll(|machine| machine.try_read());
                    std::thread::park_timeout(POLL_INTERVAL);
                }
                WatchStep::Read => {
                    let mut reader = self.reader();
                    // Events may be left that arrived together with a waiter's, and must be handled before later ones.
                    self.handle_buffered(&mut reader.frames, None);
                    let filled = reader.frames.fill(|bytes| self.records.read(bytes));
                    if self.received(filled) {
                        self.handle_buffered(&mut reader.frames, None);
                    }
                    drop(reader);
                    self.hand_over();
                }
                // A waiter reads, and has waited for a while.
                WatchStep::Park => self.long_wait(std::thread::park),
                WatchStep::End => return,
            }
        }
    }

    /// Handles available events without blocking, if `takes` makes the caller the reader.
    pub(super) fn poll(self: &Arc<Self>, takes: impl FnOnce(&mut Machine<Thread>) -> bool) {
        if !takes(&mut self.machine()) {
            return;
        }
        let mut reader = self.reader();
        loop {
            self.handle_buffered(&mut reader.frames, None);
            let filled = reader.frames.fill(|bytes| self.records.try_read(bytes));
            let nothing = filled.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            if nothing || !self.received(filled) {
                break;
            }
        }
        drop(reader);
        self.hand_over();
    }

    fn reader(&self) -> MutexGuard<'_, EventReader> {
        self.reader.take()
    }

    fn hand_over(self: &Arc<Self>) {
        let mut machine = self.machine();
        machine.hand_over();
        self.act(machine);
    }

    /// Handles the outcome of a read: at the end of the stream, the connection is lost. Returns whether there are
    /// bytes.
    fn received(self: &Arc<Self>, filled: std::io::Result<bool>) -> bool {
        match filled {
            Ok(true) => return true,
            Ok(false) => self.lose_lane("the executor closed the connection"),
            Err(error) if error.kind() == ErrorKind::Interrupted => return true,
            Err(error) => self.lose_lane(&format!("the connection was lost: {error}")),
        };
        false
    }

    /// Handles the buffered events, up to the waiter's. Returns whether that has arrived, or the connection is lost.
    fn handle_buffered(self: &Arc<Self>, reader: &mut FrameReader, waiter: Option<WaitId>) -> bool {
        loop {
            let handled = match reader.take::<Event>() {
                Ok(None) => return false,
                Ok(Some(frame)) => {
                    LinkStats::add(&self.link.stats().command_received, frame.length as u64);
                    self.handle(frame.record, frame.payload, waiter)
                }
                Err(error) => Err(error),
            };
            match handled {
                Ok(false) => {}
                Ok(true) => return true,
                Err(error) => {
                    self.lose(error.cause());
                    return true;
                }
            }
        }
    }

    /// Handles an event. Returns whether it was the waiter's.
    fn handle(self: &Arc<Self>, event: Event, payload: &[u8], waiter: Option<WaitId>) -> Result<bool> {
        match event {
            Event::Data { transfer } => self.land_small(TransferId(transfer), payload)?,
            Event::Output { descriptor } => output(descriptor, payload),
            Event::Spans => self.spans(payload)?,
            Event::Ending => {
                self.reported_end(payload)?;
                return Ok(true);
            }
            event => {
                self.heed_the_sessions_end(&event);
                let news = self.news_of(&event);
                let mut machine = self.machine();
                let handled = machine.event(event, payload, |error| match &news {
                    Some(news) => self.place(error.more(news)),
                    None => self.place(error),
                });
                let done = waiter.is_some_and(|id| machine.is_done(id));
                self.act(machine);
                return handled.map(|()| done);
            }
        }
        Ok(false)
    }

    /// Checks for the session's end: an executor whose lanes to others end reports failed queues before its own lanes
    /// end.
    fn heed_the_sessions_end(self: &Arc<Self>, event: &Event) {
        let (Event::Failed { failure, .. } | Event::ReplyFailed { failure, .. }) = event else { return };
        if failure.is_lane_end()
            && !self.uses_mpi()
            && let Some(end) = self.spec.session.executor_ends.of_session()
        {
            self.lose_to(&end);
        }
    }

    /// Ends the connection, because the executor's agent ends the executor and gives the reason.
    fn reported_end(self: &Arc<Self>, payload: &[u8]) -> Result<()> {
        let ending = ExecutorEnding::decode(payload).ok_or_else(|| {
            Error::new(ErrorCode::ImplementationDefined, "the executor says in no known words why it ends")
        })?;
        let end = match ending {
            ExecutorEnding::Session(why) => {
                self.spec.session.executor_ends.session_is_over(&why);
                LaneEnd::Session(why)
            }
            ExecutorEnding::AgentStopped => {
                let end = LaneEnd::AgentStopped(self.spec.node_name.clone());
                self.spec.session.executor_ends.notify(self.spec.node, end.clone());
                end
            }
        };
        self.lose_to(&end);
        Ok(())
    }

    /// Returns which node of the MPI world died, after a wait for the coordinator's report. If the lanes of the world's
    /// nodes end one after the other, an executor reports only the end of a lane.
    fn news_of(&self, event: &Event) -> Option<String> {
        let (Event::Failed { failure, .. } | Event::ReplyFailed { failure, .. }) = event else { return None };
        let may_be_the_worlds_end = failure.is_lane_end() && self.uses_mpi();
        may_be_the_worlds_end.then(|| self.spec.session.world_news.wait_for_cause()).flatten()
    }

    fn spans(&self, payload: &[u8]) -> Result<()> {
        let Some(sink) = &self.spec.session.trace else { return Ok(()) };
        for span in frame::decode_spans(payload)? {
            sink.span(Span {
                device: DeviceId { node: self.spec.node, ordinal: span.device },
                queue: span.queue,
                kind: span.kind,
                name: span.name,
                bytes: span.bytes,
                start_ns: span.start_ns.saturating_add_signed(self.clock_offset()),
                end_ns: span.end_ns.saturating_add_signed(self.clock_offset()),
            });
        }
        Ok(())
    }
}

/// Writes a worker's output to the program's own.
fn output(descriptor: u32, mut bytes: &[u8]) {
    let to = if descriptor == 2 { rustix::stdio::stderr() } else { rustix::stdio::stdout() };
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // The program has closed it.
            Err(_) => return,
        }
    }
}
