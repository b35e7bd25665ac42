//! The processes of a session that outlive its executor: regions may have forked them in any way (`setsid`, twice).
//! They are ended, which frees their devices' memory.

use crate::cgroup::SessionCgroup;
use crate::memory_service::MemoryService;
use crate::process::{KeeperProcess, ORPHANS_END_MAX, Spawner};
use crate::turns::ProcessTurns;
use accord_types::SessionId;
use std::io;
use std::process::ExitStatus;

/// Ends the remaining processes of one session.
pub(crate) struct Remains {
    pub(crate) session: SessionId,
    /// The parent of all of the session's processes, which ends them.
    pub(crate) keeper: KeeperProcess,
    /// Ends processes that a killed keeper has left.
    pub(crate) spawner: Spawner,
    /// The control group, by which the kernel ends the processes at once.
    pub(crate) cgroup: Option<SessionCgroup>,
    /// Counts the session's device memory until no process is left.
    pub(crate) memory: Option<MemoryService>,
    /// The session's turns on devices, unless its executor has closed their lane.
    pub(crate) turns: Option<ProcessTurns>,
}

impl Remains {
    /// Returns the executor's exit status.
    ///
    /// # Errors
    /// Returns an error if the keeper was killed, so that the status is unknown.
    pub(crate) fn status(&mut self) -> io::Result<ExitStatus> {
        self.keeper.status()
    }

    /// Whether the kernel has killed one of the session's processes because they exceeded their memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        self.cgroup.as_ref().is_some_and(SessionCgroup::was_out_of_memory)
    }

    /// Whether the kernel has refused the session a process or thread beyond its limit.
    pub(crate) fn was_out_of_processes(&self) -> bool {
        self.cgroup.as_ref().is_some_and(SessionCgroup::was_out_of_processes)
    }

    /// Ends the processes that an executor has left, after its own end. Returns `self` if some are left after
    /// [`ORPHANS_END_MAX`].
    pub(crate) fn end(mut self) -> Option<Self> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        // Where the agent isn't root, processes may leave the session's group, but never its keeper.
        let is_over = self.keeper.wait(Some(ORPHANS_END_MAX)).unwrap_or_else(|| self.spawner.end_orphans());
        if is_over {
            drop((self.memory.take(), self.turns.take()));
            return None;
        }
        tracing::warn!(
            "processes of session {} go on although they were killed: the kernel has not ended them within {} s",
            self.session,
            ORPHANS_END_MAX.as_secs()
        );
        Some(self)
    }

    /// Blocks until no process is left.
    pub(crate) fn await_end(mut self) {
        while self.keeper.wait(None).is_none() && !self.spawner.end_orphans() {}
        drop((self.memory.take(), self.turns.take()));
        tracing::info!("no process of session {} is left any more", self.session);
    }
}
