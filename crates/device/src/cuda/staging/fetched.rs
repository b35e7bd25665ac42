//! Bytes that the device brings to the host before somebody takes them.

use super::pinned_pool::Slot;
use crate::cuda::driver::DriverError;

/// A slot that the device fills, or has filled. Whoever drops it may do so meanwhile.
pub(crate) struct Fetched(Option<Slot>);

impl Fetched {
    pub(crate) fn new(slot: Slot) -> Self {
        Self(Some(slot))
    }

    /// Has the device fill it.
    pub(crate) fn filled_by(&self, fill: impl FnOnce(&Slot) -> Result<(), DriverError>) -> Result<(), DriverError> {
        self.0.as_ref().map_or(Ok(()), fill)
    }

    /// The slot, once it is filled.
    pub(crate) fn wait(mut self) -> Result<Option<Slot>, DriverError> {
        if let Some(slot) = &self.0 {
            slot.wait()?;
        }
        Ok(self.0.take())
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.release_after();
        }
    }
}
