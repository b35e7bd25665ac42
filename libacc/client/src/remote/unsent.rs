//! Commands on their way to the command lane.

/// What was taken to be sent; kept for its space when it is.
#[derive(Default)]
pub(super) struct Unsent {
    pub(super) bytes: Vec<u8>,
    /// So many of them are sent.
    pub(super) sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }
}
