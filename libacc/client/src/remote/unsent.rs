//! Commands on their way to the command lane.

/// Frames taken to be sent; kept for its space when they are sent.
#[derive(Default)]
pub(super) struct Unsent {
    pub(super) bytes: Vec<u8>,
    /// Number of bytes that are sent.
    pub(super) sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }
}
