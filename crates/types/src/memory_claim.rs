//! The answer to a session's claim on a device's memory, which all sessions of the node share.

/// The outcome of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryClaim {
    /// The bytes are the session's.
    Granted,
    /// Other sessions hold so many bytes of the device's memory, which leaves too few.
    OthersHold(u64),
    /// The session would have more than its quota of so many bytes on the device.
    OverQuota(u64),
}
