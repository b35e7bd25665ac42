//! Commands that are being sent.

/// Frames that were taken for sending; the buffer is reused.
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
