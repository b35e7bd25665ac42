//! The division of executors among users, so that a few users can't take all of a node's.

use super::executors::EXECUTORS_MAX;
use accord_types::Count;

/// Executors reserved for users with few of them.
const EXECUTORS_RESERVE: usize = 128;
/// Most executors of a user who may use the reserve.
const EXECUTORS_FEW: usize = 8;

/// The division of executors among users.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// Most executors of one user.
    of_user: usize,
    /// Executors reserved for users with fewer than [`EXECUTORS_FEW`].
    reserve: usize,
}

impl Quota {
    /// Allows this many executors for one user.
    pub const fn of_user(of_user: usize) -> Self {
        Self { of_user, reserve: EXECUTORS_RESERVE }
    }

    /// Allows all executors for one user, the only one.
    pub const fn of_one_user() -> Self {
        Self { of_user: EXECUTORS_MAX, reserve: 0 }
    }

    /// Whether a user that has `own` of `all` executors may have one more.
    ///
    /// # Errors
    /// Returns the exceeded limit, and the remedy.
    pub(super) fn check(self, user: &str, own: usize, all: usize) -> Result<(), (String, &'static str)> {
        if own >= self.of_user {
            let many = Count(own, "session");
            let cause = format!("user {user} has {many} there, the quota of one user (--user-sessions of its agent)");
            return Err((cause, "try again when other programs of that user have ended, or use other nodes"));
        }
        if own >= EXECUTORS_FEW && all + self.reserve >= EXECUTORS_MAX {
            let many = Count(own, "session");
            let cause =
                format!("it has {all} sessions, and user {user} {many} of them: the others are for users with fewer");
            return Err((
                cause,
                "wait until programs that use the node have ended (accord info lists them), or use other nodes",
            ));
        }
        Ok(())
    }
}

impl Default for Quota {
    fn default() -> Self {
        Self::of_user(EXECUTORS_MAX / 2)
    }
}
