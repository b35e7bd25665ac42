//! The host memory of suspended work.

use super::kept_room::{KeptRoom, TakenRoom};
use crate::suspend_memory::SuspendMemory;
use std::sync::Arc;

/// The host memory that suspended work may take together.
#[derive(Debug, Default)]
pub(crate) struct SuspendRoom {
    /// The most bytes; `None`: half of what is free.
    pub(super) limit: Option<u64>,
    /// Memory that is kept for it.
    pub(super) kept: Option<Arc<KeptRoom>>,
}

/// The host memory of a process's suspended work.
#[derive(Debug, Default)]
pub(super) enum ProcessRoom {
    #[default]
    None,
    /// The process is about to take it.
    Reserved(TakenRoom),
    Taken(TakenRoom),
}

impl ProcessRoom {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Reserved(room) | Self::Taken(room) => room.bytes(),
        }
    }

    /// Returns the bytes that are free yet, but reserved.
    fn pending(&self) -> u64 {
        match self {
            Self::Reserved(room) => room.ordinary(),
            Self::None | Self::Taken(_) => 0,
        }
    }

    /// Frees the memory, as the work goes on.
    pub(super) fn free(&mut self) {
        if let Self::Reserved(room) | Self::Taken(room) = std::mem::take(self) {
            room.free();
        }
    }
}

impl SuspendRoom {
    /// Returns the memory of the agent's setting, and begins to keep it.
    pub(crate) fn of(setting: Option<SuspendMemory>) -> Self {
        let Some(SuspendMemory { bytes, is_kept }) = setting else { return Self::default() };
        let kept = if is_kept { Some(KeptRoom::start(bytes)) } else { None };
        let kept = kept.transpose().unwrap_or_else(|error| {
            tracing::warn!("no host memory is kept for suspended jobs: cannot start a thread: {error}");
            None
        });
        Self { limit: Some(bytes), kept }
    }

    /// Returns the bytes that are left beside those of `taken`, of which `free` are free now.
    pub(super) fn left<'a>(&self, taken: impl Iterator<Item = &'a ProcessRoom>, free: u64) -> u64 {
        let (mut used, mut pending) = (0u64, 0u64);
        for room in taken {
            used = used.saturating_add(room.bytes());
            pending = pending.saturating_add(room.pending());
        }
        let ready = self.kept.as_ref().map_or(0, |kept| kept.ready());
        let free = free.saturating_add(ready).saturating_sub(pending);
        // Half of what would be free without them.
        let limit = self.limit.unwrap_or_else(|| free.saturating_add(used) / 2);
        limit.saturating_sub(used).min(free)
    }
}
