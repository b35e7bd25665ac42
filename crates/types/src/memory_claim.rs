//! The outcome of a session's claim on a device's memory, which all sessions of the node share.

/// The outcome of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryClaim {
    /// The session holds the bytes.
    Granted,
    /// Other sessions hold this many bytes of the device's memory, which leaves too few.
    OthersHold(u64),
    /// The claim would exceed the session's quota on the device, in bytes.
    OverQuota(u64),
}
