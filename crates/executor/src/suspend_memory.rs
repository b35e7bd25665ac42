//! The host memory that the agent permits a suspension to take.

use accord_device::KeptMemory;
use accord_types::SuspendRefusal;
use accord_types::short_lock::{ShortGuard, ShortLock};
use std::sync::Condvar;
use std::time::{Duration, Instant};

/// The longest wait for the agent's answer, which waits for nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The agent's answer, for the one suspension that asks at a time.
#[derive(Debug, Default)]
pub(crate) struct AgentMemory {
    state: ShortLock<Grant>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum Grant {
    #[default]
    NotAsked,
    Awaited,
    /// Bytes of host memory, of which some are the agent's.
    Granted(u64, KeptMemory),
    /// The lane has ended.
    Ended,
}

impl AgentMemory {
    /// Asks the agent by `send` for `needed` bytes.
    ///
    /// # Errors
    /// Returns `HostMemory` if the agent has less, has ended, or does not answer.
    pub(crate) fn ask(&self, needed: u64, send: impl FnOnce()) -> Result<KeptMemory, SuspendRefusal> {
        let mut state = self.state.lock();
        if matches!(*state, Grant::Ended) {
            return Err(SuspendRefusal::HostMemory { needed, left: 0 });
        }
        *state = Grant::Awaited;
        drop(state);
        send();
        let until = Instant::now() + ANSWER_TIMEOUT;
        let mut state = self.state.lock();
        loop {
            match std::mem::take(&mut *state) {
                Grant::Granted(bytes, kept) if bytes >= needed => return Ok(kept),
                Grant::Granted(left, _) => return Err(SuspendRefusal::HostMemory { needed, left }),
                Grant::Ended => {
                    *state = Grant::Ended;
                    return Err(SuspendRefusal::HostMemory { needed, left: 0 });
                }
                Grant::Awaited | Grant::NotAsked => {}
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SuspendRefusal::HostMemory { needed, left: 0 });
            }
            *state = Grant::Awaited;
            state = ShortGuard::wait_timeout(state, &self.changed, left).0;
        }
    }

    /// Records the agent's answer. One that is not awaited any more is dropped.
    pub(crate) fn granted(&self, bytes: u64, kept: KeptMemory) {
        let mut state = self.state.lock();
        let is_awaited = matches!(*state, Grant::Awaited);
        let unused = if is_awaited {
            *state = Grant::Granted(bytes, kept);
            None
        } else {
            Some(kept)
        };
        drop(state);
        // Unmapping may wait.
        drop(unused);
        self.changed.notify_all();
    }

    /// Records the lane's end.
    pub(crate) fn ended(&self) {
        *self.state.lock() = Grant::Ended;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_count_once_and_only_while_one_is_awaited() {
        let memory = AgentMemory::default();
        memory.granted(100, KeptMemory::default());
        let less = memory.ask(10, || memory.granted(9, KeptMemory::default()));
        assert_eq!(less.err(), Some(SuspendRefusal::HostMemory { needed: 10, left: 9 }));
        assert!(memory.ask(10, || memory.granted(10, KeptMemory::default())).is_ok());
        let ended = memory.ask(10, || memory.ended());
        assert_eq!(ended.err(), Some(SuspendRefusal::HostMemory { needed: 10, left: 0 }));
        assert!(memory.ask(10, || panic!("the lane has ended")).is_err());
    }
}
