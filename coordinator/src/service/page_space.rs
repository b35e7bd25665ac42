//! The space of a page of a reply.

use prost::Message;

/// Bytes of lists after which a page is full.
const PAGE_BYTES_MAX: usize = 128 << 10;

/// Bytes that are left on a page.
pub(super) struct PageSpace(usize);

impl PageSpace {
    /// Returns the space of an empty page.
    pub(super) fn new() -> Self {
        Self(PAGE_BYTES_MAX)
    }

    /// Appends items while they fit; an item larger than a page gets a page of its own. Returns the number of the first
    /// item that did not fit.
    pub(super) fn fill<T: Message>(&mut self, list: &mut Vec<T>, items: impl Iterator<Item = (u64, T)>) -> Option<u64> {
        for (number, item) in items {
            let bytes = item.encoded_len();
            if bytes > self.0 && self.0 < PAGE_BYTES_MAX {
                return Some(number);
            }
            self.0 = self.0.saturating_sub(bytes.max(1));
            list.push(item);
        }
        None
    }
}
