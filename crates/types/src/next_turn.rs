//! Turns on shared devices.

/// Whether a process that returns a turn on a device wants another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextTurn {
    /// Further regions wait.
    Wanted,
    /// No region waits.
    NotWanted,
}

impl NextTurn {
    /// Returns that a turn is wanted if regions wait.
    pub fn wanted_if(regions_wait: bool) -> Self {
        if regions_wait { Self::Wanted } else { Self::NotWanted }
    }
}
