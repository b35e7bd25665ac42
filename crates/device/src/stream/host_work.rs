//! The operation of a stream that is under way on the host, at most one at a time.

/// The reason why positions are assigned that the driver's stream does not have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum HostStage {
    /// No operation is under way on the host. Others may be listed.
    #[default]
    Idle,
    /// Small copies are held back. Any other operation, wait or query issues them first.
    Holding,
    /// A thread performs operations, without the stream's lock.
    Performing(Performing),
    /// The operations have failed. The driver ends what it has before that is reported.
    Draining(Performing),
}

/// Operations that a thread performs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Performing {
    /// The first position that is not done.
    pub(super) next: u64,
    /// The last position that the thread has taken.
    pub(super) end: u64,
    pub(super) kind: Performed,
    pub(super) later: Later,
}

/// The kind of an operation in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Performed {
    /// The host has to put the device's part into the driver's stream.
    Host,
    /// A copy out whose device's part is in the driver's stream already.
    Fetched,
}

/// The handling of operations that follow those in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Later {
    /// They wait in the list.
    Wait,
    /// The thread puts listed ones into the driver's stream, up to `through` so far. Others wait in the list.
    Issuing { through: u64 },
    /// They enter the driver's stream at the call, up to `through` so far: only other processes have to end those in progress.
    Enter { through: Option<u64> },
}

impl Later {
    /// Returns the last position that was issued after the operations in progress.
    pub(super) fn through(self) -> Option<u64> {
        match self {
            Self::Wait => None,
            Self::Issuing { through } => Some(through),
            Self::Enter { through } => through,
        }
    }
}

impl HostStage {
    /// Begins to perform the operation at `seq`.
    pub(super) fn begin(seq: u64, is_fetched: bool) -> Self {
        let kind = if is_fetched { Performed::Fetched } else { Performed::Host };
        Self::Performing(Performing { next: seq, end: seq, kind, later: Later::Wait })
    }

    /// Returns the operations under way, also failed ones.
    pub(super) fn performing(&self) -> Option<&Performing> {
        match self {
            Self::Performing(performing) | Self::Draining(performing) => Some(performing),
            Self::Idle | Self::Holding => None,
        }
    }

    pub(super) fn performing_mut(&mut self) -> Option<&mut Performing> {
        match self {
            Self::Performing(performing) => Some(performing),
            Self::Draining(..) | Self::Idle | Self::Holding => None,
        }
    }
}
