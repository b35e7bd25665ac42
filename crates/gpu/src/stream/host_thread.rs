//! Who performs the host's part of an operation.

/// The thread that performs an operation which needs the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostThread {
    /// The calling one, if no other operation is listed.
    Caller,
    /// The stream's worker.
    Worker,
}

impl HostThread {
    /// Returns the calling thread if it may perform the operation at once.
    pub(crate) fn caller_if(at_once: bool) -> Self {
        if at_once { Self::Caller } else { Self::Worker }
    }
}
