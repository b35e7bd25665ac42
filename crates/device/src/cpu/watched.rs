//! A worker that may be stopped or frozen, seen from its owner.

use super::spawn;
use crate::program::Patience;
use accord_types::liveness::{Liveness, Verdict};
use accord_types::{Error, ErrorCode};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What the owner knows of its worker's life.
pub(crate) struct Watched {
    /// None where somebody else looks.
    patience: Option<Patience>,
    /// Readable once the worker has ended.
    worker: Arc<OwnedFd>,
    /// For messages.
    name: String,
    begun: Instant,
    liveness: Mutex<Liveness>,
}

impl Watched {
    pub(crate) fn new(patience: Option<Patience>, worker: Arc<OwnedFd>, name: String) -> Self {
        Self { patience, worker, name, begun: Instant::now(), liveness: Mutex::default() }
    }

    /// Whoever waits for the worker looks, every now and then. True if it is hung.
    pub(crate) fn look(&self, beats: u64) -> bool {
        let Some(patience) = &self.patience else { return false };
        let mut liveness = self.liveness.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = liveness.look(self.begun.elapsed(), beats, true, patience.timeout);
        drop(liveness);
        if let Verdict::Silent(silence) = verdict {
            (patience.tell)(&format!("waiting for {}: no answer for {} s", self.name, silence.as_secs()));
        }
        matches!(verdict, Verdict::Hung(_))
    }

    /// The error of a device whose worker gives no sign of life.
    pub(crate) fn hung(&self) -> Error {
        Error::new(
            ErrorCode::DeviceUnavailable,
            format!("{} gives no sign of life: it is stopped, or its machine overloaded", self.name),
        )
        .remedy("see who has stopped it; ACCORD_TIMEOUT sets how long it is waited for")
    }

    /// Ends it, without waiting for that.
    pub(crate) fn end(&self) {
        spawn::end(&self.worker);
    }
}
