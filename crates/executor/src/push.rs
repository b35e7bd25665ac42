//! Copies from a device to one of another process.

use accord_device::{Device, MappedRange, Sink};
use accord_fabric::transfer::Pushing;
use accord_types::Result;
use std::sync::Arc;

/// Sends a device's bytes to a device of another process, or puts them there itself.
pub struct ToPeer<M> {
    /// The transfer.
    pub pushing: Pushing,
    /// Whose bytes.
    pub device: Arc<dyn Device>,
    /// How many.
    pub len: u64,
    /// Where they go, if the device reaches that.
    pub mapped_range: M,
    /// The node that errors name, if that is not the source's.
    pub node_name: Option<String>,
}

impl<M> ToPeer<M> {
    fn place(&self, outcome: Result<()>) -> Result<()> {
        outcome.map_err(|error| match &self.node_name {
            Some(name) => error.node(name),
            None => error,
        })
    }
}

impl<M> Sink for ToPeer<M>
where
    M: Fn(&mut Pushing, &dyn Device, u64) -> Result<Option<MappedRange>> + Send,
{
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let sent = self.pushing.drain(piece);
        self.place(sent)
    }

    fn finish(&mut self) -> Result<()> {
        let landed = self.pushing.finish();
        self.place(landed)
    }

    fn mapped_range(&mut self) -> Result<Option<MappedRange>> {
        (self.mapped_range)(&mut self.pushing, &*self.device, self.len)
    }
}
