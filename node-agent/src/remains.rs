//! What is left of a session when its executor has ended: processes that its regions have forked, however they did (`setsid`, twice). They
//! end with it, and their devices' memory too.

use crate::cgroup::SessionCgroup;
use crate::memory_service::MemoryService;
use crate::process::{KeeperProcess, ORPHANS_END_MAX, Spawner};
use accord_types::SessionId;
use std::io;
use std::process::ExitStatus;

/// Ends what is left of one session.
pub(crate) struct Remains {
    pub(crate) session: SessionId,
    /// Has all of the session's processes below it, and ends them.
    pub(crate) keeper: KeeperProcess,
    /// Ends what a keeper that was killed has left.
    pub(crate) spawner: Spawner,
    /// The group in which the kernel can end them at once.
    pub(crate) cgroup: Option<SessionCgroup>,
    /// Counts the session's device memory until nothing is left.
    pub(crate) memory: Option<MemoryService>,
}

impl Remains {
    /// Returns how the executor has ended.
    ///
    /// # Errors
    /// Returns an error if that is not known: its keeper was killed.
    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.keeper.status()
    }

    /// Whether the kernel has killed one of the session's processes because they had more memory than the session may have.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        self.cgroup.as_ref().is_some_and(SessionCgroup::was_out_of_memory)
    }

    /// Ends the processes that an executor has left, after its own end. Returns the remaining ones after
    /// [`ORPHANS_END_MAX`].
    pub(crate) fn end(mut self) -> Option<Self> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        // A session's processes may leave its group where the agent isn't root; they never leave its keeper.
        let is_over = self.keeper.wait(Some(ORPHANS_END_MAX)).unwrap_or_else(|| self.spawner.end_orphans());
        if is_over {
            drop(self.memory.take());
            return None;
        }
        tracing::warn!(
            "processes of session {} go on although they were killed: the kernel has not ended them within {} s",
            self.session,
            ORPHANS_END_MAX.as_secs()
        );
        Some(self)
    }

    /// Returns when nothing is left.
    pub(crate) fn await_end(mut self) {
        while self.keeper.wait(None).is_none() && !self.spawner.end_orphans() {}
        drop(self.memory.take());
        tracing::info!("no process of session {} is left any more", self.session);
    }
}
