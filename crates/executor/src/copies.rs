//! Copies between a device and the session's program.

use crate::events::Events;
use crate::requested_bytes::RequestedBytes;
use accord_device::{Sink, Source};
use accord_fabric::frame::Event;
use accord_fabric::transfer::{Inbox, Incoming, Outbox, Outgoing};
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// The bytes of a copy in: eager ones, which the device's thread reads from a bulk lane, or requested ones.
pub(crate) enum FromLane {
    /// Eager bytes that have not arrived yet.
    Coming(Receiver<Incoming>),
    Here(Incoming),
    Asked(RequestedBytes),
}

impl FromLane {
    /// Posts a receive for eager bytes.
    pub(crate) fn eager(inbox: &Inbox, transfer: TransferId, len: u64) -> Self {
        let (to, from) = channel();
        // If the copy was dropped meanwhile, so is the transfer, whose bytes are then discarded.
        inbox.post(transfer, len, Box::new(move |incoming| drop(to.send(incoming))));
        Self::Coming(from)
    }

    /// Creates the source of requested bytes.
    pub(crate) fn asked(bytes: RequestedBytes) -> Self {
        Self::Asked(bytes)
    }
}

impl Source for FromLane {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        if let Self::Coming(coming) = self {
            let incoming = coming
                .recv()
                .map_err(|_| Error::new(ErrorCode::DeviceShutdown, "the session ended before its bytes came"))?;
            *self = Self::Here(incoming);
        }
        match self {
            Self::Here(incoming) => incoming.fill(piece),
            Self::Asked(bytes) => bytes.fill(piece),
            Self::Coming(_) => Err(Error::new(ErrorCode::ImplementationDefined, "a transfer was lost")),
        }
    }
}

/// Sends a small copy out in an event.
pub(crate) struct ToEvent {
    events: Arc<Events>,
    transfer: TransferId,
    bytes: Vec<u8>,
}

impl ToEvent {
    pub(crate) fn new(events: &Arc<Events>, transfer: TransferId) -> Self {
        Self { events: events.clone(), transfer, bytes: Vec::new() }
    }
}

impl Sink for ToEvent {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.events.send(&Event::Data { transfer: self.transfer.0 }, &self.bytes);
        Ok(())
    }
}

/// Sends a large copy out on a bulk lane, straight from the device's memory.
pub(crate) struct ToLane {
    outbox: Arc<Outbox>,
    transfer: TransferId,
    len: u64,
    outgoing: Option<Outgoing>,
}

impl ToLane {
    pub(crate) fn new(outbox: &Arc<Outbox>, transfer: TransferId, len: u64) -> Self {
        Self { outbox: outbox.clone(), transfer, len, outgoing: None }
    }
}

impl Sink for ToLane {
    fn drain(&mut self, piece: &[u8]) -> Result<()> {
        let outgoing = match self.outgoing.take() {
            Some(outgoing) => outgoing,
            None => self.outbox.begin(self.transfer, self.len)?,
        };
        self.outgoing.insert(outgoing).send(piece)
    }

    fn finish(&mut self) -> Result<()> {
        self.outgoing = None;
        Ok(())
    }
}
