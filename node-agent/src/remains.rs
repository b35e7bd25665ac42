//! What is left of a session when its executor has ended: processes that its regions have forked, however they did (`setsid`, twice). They
//! end with it, and their devices' memory too.

use crate::cgroup::SessionCgroup;
use crate::process::{ORPHANS_END_MAX, Spawner};
use accord_types::SessionId;

/// Ends what is left of one session.
pub(crate) struct Remains {
    pub(crate) session: SessionId,
    /// Knows which children the agent has started itself; all others are left over from executors that have ended.
    pub(crate) spawner: Spawner,
    /// Where the kernel can end them at once.
    pub(crate) cgroup: Option<SessionCgroup>,
}

impl Remains {
    /// To be called when the executor has ended. Returns when nothing is left, or after [`ORPHANS_END_MAX`].
    pub(crate) fn end(self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        // A session's processes may leave its group where the agent isn't root; they never leave its executor, nor then the agent.
        if !self.spawner.end_orphans() {
            tracing::warn!(
                "processes of session {} go on although they were killed: the kernel has not ended them within {} s",
                self.session,
                ORPHANS_END_MAX.as_secs()
            );
        }
    }
}
