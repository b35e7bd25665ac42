//! The state of a lane's reader.

use super::message::HEADER_LEN;
use super::spare;
use accord_types::short_lock::ShortLock;
use accord_types::signal::SharedSpinPolicy;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// No count of a signal.
const NEVER: u64 = u64::MAX;

/// The state of a lane's reader.
#[derive(Debug)]
pub(super) struct Reading {
    left: ShortLock<PartialMessage>,
    /// Whether `left` holds a message.
    has_left: AtomicBool,
    /// The count of the lane's signal when there was nothing to read; initially [`NEVER`].
    pub(super) quiet: AtomicU64,
    /// The spin policy of reads.
    pub(super) waits: SharedSpinPolicy,
}

/// The rest of a message.
#[derive(Debug, Default)]
struct PartialMessage {
    message: Vec<u8>,
    at: usize,
}

impl Default for Reading {
    fn default() -> Self {
        let (left, waits) = (ShortLock::default(), SharedSpinPolicy::default());
        Self { left, has_left: AtomicBool::new(false), quiet: AtomicU64::new(NEVER), waits }
    }
}

impl Reading {
    pub(super) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Acquire)
    }

    /// Keeps a message for [`Reading::copy`].
    pub(super) fn keep(&self, message: Vec<u8>) {
        *self.left.lock() = PartialMessage { message, at: HEADER_LEN };
        self.has_left.store(true, Ordering::Release);
    }

    /// Copies the rest of a kept message. The thread that owns MPI continues meanwhile.
    pub(super) fn copy(&self, bytes: &mut [u8]) -> usize {
        if !self.has_left() {
            return 0;
        }
        let mut left = self.left.lock();
        let PartialMessage { message, at } = &mut *left;
        let n = bytes.len().min(message.len() - *at);
        bytes[..n].copy_from_slice(&message[*at..*at + n]);
        *at += n;
        if *at == message.len() {
            *at = 0;
            spare::done(std::mem::take(message));
            self.has_left.store(false, Ordering::Release);
        }
        n
    }
}
