//! The written bytes of a lane that were not sent yet, as messages.

use super::message::{DATA_MAX, HEADER_LEN};
use super::spare;
use crate::frame::transfer::{CHUNK_MAX, HEADER_LEN as CHUNK_HEADER_LEN};
use std::collections::VecDeque;

/// Most bytes that a lane has queued to send.
pub(super) const QUEUE_MAX: usize = 2 << 20;
/// A chunk with its header fits, so that sending a small copy does not block.
const _: () = assert!(QUEUE_MAX > CHUNK_HEADER_LEN + CHUNK_MAX);
/// Free bytes from which on a blocked writer is woken.
const WAKE_SPACE: usize = QUEUE_MAX / 4;

/// Messages to send, with space for their headers.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl SendQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns the number of bytes, without headers.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of bytes that fit.
    pub(super) fn space(&self) -> usize {
        QUEUE_MAX - self.bytes
    }

    /// Whether there is enough space to wake a blocked writer.
    pub(super) fn has_space(&self) -> bool {
        self.bytes <= QUEUE_MAX - WAKE_SPACE
    }

    /// Returns the number of bytes of the next message.
    pub(super) fn next_bytes(&self) -> Option<usize> {
        self.messages.front().map(|message| message.len() - HEADER_LEN)
    }

    /// Removes the next message.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len() - HEADER_LEN;
        Some(message)
    }

    /// Adds a message. The caller has checked that it fits.
    pub(super) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len() - HEADER_LEN;
        self.messages.push_back(message);
    }

    /// Adds as many of `bytes` as fit, to the last message first. Returns their number.
    pub(super) fn put(&mut self, bytes: &[u8]) -> usize {
        let mut left = &bytes[..bytes.len().min(self.space())];
        let taken = left.len();
        while !left.is_empty() {
            let full = self.messages.back().is_none_or(|last| last.len() >= HEADER_LEN + DATA_MAX);
            if full {
                let mut message = spare::empty(HEADER_LEN + left.len().min(DATA_MAX));
                message.extend_from_slice(&[0; HEADER_LEN]);
                self.messages.push_back(message);
            }
            let Some(last) = self.messages.back_mut() else { break };
            let (now, later) = left.split_at(left.len().min(HEADER_LEN + DATA_MAX - last.len()));
            last.extend_from_slice(now);
            left = later;
        }
        self.bytes += taken;
        taken
    }

    pub(super) fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
    }
}
