//! What goes back to the program. Written by whichever thread has the news, at once.

use crate::executor::ALL;
use accord_fabric::frame::{self, Event, PAYLOAD_MAX};
use accord_fabric::link::Link;
use accord_fabric::stats::LinkStats;
use accord_types::{Error, QueueId, Span, SpanSink};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of spans that are gathered before they are sent unasked.
const SPANS_BATCH: usize = 32 << 10;

/// The writing side of the command lane.
pub(crate) struct Events {
    node_name: String,
    link: Arc<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Frames on their way out; kept for its space.
    frames: Vec<u8>,
    text: Vec<u8>,
    spans: Vec<u8>,
}

impl Events {
    pub(crate) fn new(node_name: String, link: Arc<Link>) -> Arc<Self> {
        Arc::new(Self { node_name, link, state: Mutex::default() })
    }

    /// Sends one event. If the lane is gone nobody wants it: the reading side ends the session.
    pub(crate) fn send(&self, event: &Event, payload: &[u8]) {
        let mut state = self.lock();
        state.put(event, payload);
        self.flush(&mut state);
    }

    /// Answers a command.
    pub(crate) fn reply(&self, ticket: u64, value: u64, extra: u64) {
        self.send(&Event::Reply { ticket, value, extra }, &[]);
    }

    /// Answers a command that waits for queues. What they did is told first.
    pub(crate) fn reply_done(&self, ticket: u64, outcome: Result<u64, Error>) {
        let mut state = self.lock();
        state.put_spans();
        match outcome {
            Ok(value) => state.put(&Event::Reply { ticket, value, extra: 0 }, &[]),
            Err(error) => self.put_failure(&mut state, error, |failure| Event::ReplyFailed { ticket, failure }),
        }
        self.flush(&mut state);
    }

    /// Says that a command could not be done.
    pub(crate) fn reply_failed(&self, ticket: u64, error: Error) {
        let mut state = self.lock();
        self.put_failure(&mut state, error, |failure| Event::ReplyFailed { ticket, failure });
        self.flush(&mut state);
    }

    /// Says that a queue, or more with [`ALL`], has failed.
    pub(crate) fn failed(&self, device: u32, queue: u32, error: Error) {
        let error = if queue == ALL { error } else { error.queue(QueueId(queue)) };
        let mut state = self.lock();
        state.put_spans();
        self.put_failure(&mut state, error, |failure| Event::Failed { device, queue, failure });
        self.flush(&mut state);
    }

    /// Passes a worker's output on.
    pub(crate) fn output(&self, descriptor: u8, bytes: &[u8]) {
        for piece in bytes.chunks(PAYLOAD_MAX) {
            self.send(&Event::Output { descriptor: descriptor.into() }, piece);
        }
    }

    /// Sends the spans gathered so far.
    pub(crate) fn flush_spans(&self) {
        let mut state = self.lock();
        state.put_spans();
        self.flush(&mut state);
    }

    fn put_failure(&self, state: &mut State, error: Error, event: impl FnOnce(frame::Failure) -> Event) {
        let mut text = std::mem::take(&mut state.text);
        text.clear();
        let failure = frame::encode_error(&error.node(&self.node_name), &mut text);
        state.put(&event(failure), &text);
        state.text = text;
    }

    fn flush(&self, state: &mut State) {
        if let Some(lane) = self.link.records()
            && lane.send(&state.frames).is_ok()
        {
            LinkStats::add(&self.link.stats().command_sent, state.frames.len() as u64);
        }
        state.frames.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, event: &Event, payload: &[u8]) {
        // Payloads are cut to fit where they are made.
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
        let mut state = self.lock();
        frame::encode_span(&mut state.spans, &span);
        if state.spans.len() > PAYLOAD_MAX {
            // A single immense name: the timeline can do without.
            state.spans.clear();
        }
        if state.spans.len() >= SPANS_BATCH {
            state.put_spans();
            self.flush(&mut state);
        }
    }
}
