//! Copies from a device to a device of another process.

use crate::same_host::SameHostPeer;
use accord_device::{Device, FetchTo, NativeSink, PeerSink, PeerWay, Sink};
use accord_fabric::transfer::Pushing;
use accord_types::{NativeRange, Result};
use std::sync::Arc;

/// Sends a device's bytes to a device of another process, or writes them there directly.
pub struct ToPeer {
    /// The transfer.
    pub pushing: Pushing,
    /// The device with the bytes.
    pub device: Arc<dyn Device>,
    /// Number of bytes.
    pub len: u64,
    /// The target's process, if it is on this host, so that the device may access its memory.
    pub same_host: Option<SameHostPeer>,
    /// The node that errors name, if that is not the source's.
    pub node_name: Option<String>,
}

impl ToPeer {
    fn place<T>(&self, outcome: Result<T>) -> Result<T> {
        outcome.map_err(|error| match &self.node_name {
            Some(name) => error.node(name),
            None => error,
        })
    }
}

impl Sink for ToPeer {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let sent = self.pushing.drain(piece);
        self.place(sent)
    }

    fn finish(&mut self) -> Result<()> {
        let landed = self.pushing.finish();
        self.place(landed)
    }
}

impl PeerSink for ToPeer {
    fn follows(&self) -> bool {
        self.pushing.follows()
    }

    fn fetch_to(&self) -> FetchTo {
        let reaches = self.same_host.as_ref().is_some_and(|peer| peer.may_reach(&self.pushing, self.len));
        match (reaches, self.pushing.may_drain_native()) {
            (true, _) => FetchTo::Nowhere,
            (false, true) => FetchTo::Device,
            (false, false) => FetchTo::Host,
        }
    }

    fn way(&mut self, is_fetched: bool) -> Result<PeerWay> {
        if let Some(peer) = self.same_host.as_ref().filter(|_| !is_fetched)
            && let Some(target) = peer.mapped_range(&mut self.pushing, &*self.device, self.len)?
        {
            return Ok(PeerWay::Mapped(target));
        }
        let drains = self.pushing.drains_native();
        Ok(if self.place(drains)? { PeerWay::Library } else { PeerWay::Host })
    }

    fn native(&mut self) -> Option<&mut dyn NativeSink> {
        Some(self)
    }
}

impl NativeSink for ToPeer {
    fn is_concurrent(&self) -> bool {
        self.pushing.is_concurrent()
    }

    fn start(&mut self, bytes: NativeRange) -> Result<()> {
        let sent = self.pushing.drain_native(bytes);
        self.place(sent)
    }

    fn wait(&mut self) -> Result<()> {
        let sent = self.pushing.await_native();
        self.place(sent)
    }
}
