//! Events to the program. A thread writes its event at once, unless another thread is writing and includes it.

use crate::executor::ALL;
use accord_fabric::frame::{self, Event, PAYLOAD_MAX};
use accord_fabric::link::Link;
use accord_fabric::stats::LinkStats;
use accord_types::short_lock::{ShortGuard, ShortLock, assert_none_held};
use accord_types::{Error, QueueId, Span, SpanSink};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar};

/// Bytes of spans that are gathered before they are sent without a request.
const SPANS_BATCH: usize = 32 << 10;
/// Most bytes of events that wait for the writing thread. A thread with more events blocks.
const WAITING_MAX: usize = 1 << 20;

/// The writing side of the command lane.
pub(crate) struct Events {
    node_name: String,
    link: Arc<Link>,
    state: ShortLock<EventBuffer>,
    /// Whether the session has ended. Set before its lanes close and its devices shut down.
    ended: AtomicBool,
    /// Notified when waiting frames were written.
    written: Condvar,
}

#[derive(Default)]
struct EventBuffer {
    /// Frames that wait for the writing thread.
    frames: Vec<u8>,
    /// Whether a thread is writing, without the lock.
    writing: bool,
    /// Number of threads that wait for `written`.
    waiting: u32,
    /// The written frames' buffer, kept for reuse.
    spare: Vec<u8>,
    text: Vec<u8>,
    spans: Vec<u8>,
}

impl Events {
    pub(crate) fn new(node_name: String, link: Arc<Link>) -> Arc<Self> {
        let (state, ended, written) = Default::default();
        Arc::new(Self { node_name, link, state, ended, written })
    }

    /// Drops all events from now on. The end of the session fails its copies and waits, and the program would take such a failure for the cause.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// Sends one event. If the lane is gone the event is dropped, and the lane's reader ends the session.
    pub(crate) fn send(&self, event: &Event, payload: &[u8]) {
        let Some(mut state) = self.space() else { return };
        state.put(event, payload);
        self.flush(state);
    }

    /// Replies to a command.
    pub(crate) fn reply(&self, ticket: u64, value: u64, extra: u64) {
        self.send(&Event::Reply { ticket, value, extra }, &[]);
    }

    /// Replies to a command that waits for queues. The spans of their operations are sent first.
    pub(crate) fn reply_done(&self, ticket: u64, outcome: Result<u64, Error>) {
        let Some(mut state) = self.space() else { return };
        state.put_spans();
        match outcome {
            Ok(value) => state.put(&Event::Reply { ticket, value, extra: 0 }, &[]),
            Err(error) => self.put_failure(&mut state, error, |failure| Event::ReplyFailed { ticket, failure }),
        }
        self.flush(state);
    }

    /// Reports that a command failed.
    pub(crate) fn reply_failed(&self, ticket: u64, error: Error) {
        let Some(mut state) = self.space() else { return };
        self.put_failure(&mut state, error, |failure| Event::ReplyFailed { ticket, failure });
        self.flush(state);
    }

    /// Reports that a queue, or all of them with [`ALL`], has failed.
    pub(crate) fn failed(&self, device: u32, queue: u32, error: Error) {
        let error = if queue == ALL { error } else { error.queue(QueueId(queue)) };
        let Some(mut state) = self.space() else { return };
        state.put_spans();
        self.put_failure(&mut state, error, |failure| Event::Failed { device, queue, failure });
        self.flush(state);
    }

    /// Reports why the session ends, and blocks until that is written. The program receives it if it still reads.
    pub(crate) fn over(&self, error: Error) {
        self.failed(ALL, ALL, error);
        self.finish();
    }

    /// Forwards a worker's output.
    pub(crate) fn output(&self, descriptor: u8, bytes: &[u8]) {
        for piece in bytes.chunks(PAYLOAD_MAX) {
            self.send(&Event::Output { descriptor: descriptor.into() }, piece);
        }
    }

    /// Sends the spans gathered so far.
    pub(crate) fn flush_spans(&self) {
        let Some(mut state) = self.space() else { return };
        state.put_spans();
        self.flush(state);
    }

    fn put_failure(&self, state: &mut EventBuffer, error: Error, event: impl FnOnce(frame::Failure) -> Event) {
        let mut text = std::mem::take(&mut state.text);
        text.clear();
        let failure = frame::encode_error(&error.node(&self.node_name), &mut text);
        state.put(&event(failure), &text);
        state.text = text;
    }

    /// Blocks until there is space for more frames. Returns `None` once the session has ended.
    fn space(&self) -> Option<ShortGuard<'_, EventBuffer>> {
        let mut state = self.state.lock();
        while state.frames.len() >= WAITING_MAX {
            state = self.await_written(state);
        }
        (!self.ended.load(Ordering::SeqCst)).then_some(state)
    }

    fn await_written<'a>(&'a self, mut state: ShortGuard<'a, EventBuffer>) -> ShortGuard<'a, EventBuffer> {
        state.waiting += 1;
        let mut state = ShortGuard::wait(state, &self.written);
        state.waiting -= 1;
        state
    }

    /// Writes waiting frames, and those that other threads add meanwhile, unless another thread is writing.
    fn flush<'a>(&'a self, mut state: ShortGuard<'a, EventBuffer>) {
        if state.writing {
            return;
        }
        let Some(lane) = self.link.records() else { return state.frames.clear() };
        while !state.frames.is_empty() {
            let spare = std::mem::take(&mut state.spare);
            let mut frames = std::mem::replace(&mut state.frames, spare);
            state.writing = true;
            drop(state);
            assert_none_held();
            // If the lane is gone the frames are dropped, and the lane's reader ends the session.
            if lane.send(&frames).is_ok() {
                LinkStats::add(&self.link.stats().command_sent, frames.len() as u64);
            }
            frames.clear();
            state = self.state.lock();
            state.writing = false;
            state.spare = frames;
            // A wake-up costs a system call, also without a waiter.
            if state.waiting > 0 {
                self.written.notify_all();
            }
        }
    }

    /// Blocks until all events are written, or the lane is gone.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        while state.writing {
            state = self.await_written(state);
        }
    }
}

impl EventBuffer {
    fn put(&mut self, event: &Event, payload: &[u8]) {
        // The callers cut payloads to fit.
        let _ = frame::put(&mut self.frames, event, &[payload]);
    }

    fn put_spans(&mut self) {
        if !self.spans.is_empty() {
            let spans = std::mem::take(&mut self.spans);
            self.put(&Event::Spans, &spans);
            self.spans = spans;
            self.spans.clear();
        }
    }
}

impl SpanSink for Events {
    fn span(&self, span: Span) {
        let Some(mut state) = self.space() else { return };
        frame::encode_span(&mut state.spans, &span);
        if state.spans.len() > PAYLOAD_MAX {
            // A single very long name, which the timeline can omit.
            state.spans.clear();
        }
        if state.spans.len() >= SPANS_BATCH {
            state.put_spans();
            self.flush(state);
        }
    }
}

#[cfg(test)]
mod tests;
