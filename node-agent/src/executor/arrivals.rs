//! Bytes that other devices push here.

use accord_device::{Device, Source};
use accord_fabric::exchange::{Arrival, ArrivalBytes};
use accord_types::{DevicePtr, QueueId, Result, StreamId};
use std::sync::{Arc, Mutex, PoisonError};

/// The stream of a device that takes copies from other devices. Made at its first use, and anew
/// should it fail.
#[derive(Clone, Default)]
pub(super) struct IncomingStream(Arc<Mutex<Option<StreamId>>>);

impl IncomingStream {
    pub(super) fn get(&self, device: &dyn Device) -> Result<StreamId> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *stream {
            Some(stream) => Ok(stream),
            None => Ok(*stream.insert(device.create_stream(QueueId::INCOMING)?)),
        }
    }

    fn failed(&self, which: StreamId) {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if *stream == Some(which) {
            *stream = None;
        }
    }
}

/// Where a transfer goes.
pub(super) struct Destination {
    pub(super) device: Arc<dyn Device>,
    pub(super) incoming: IncomingStream,
    pub(super) dst: DevicePtr,
    pub(super) len: u64,
}

impl Destination {
    /// Takes a transfer whose first bytes are there.
    pub(super) fn start(self, arrival: Arrival) {
        let Some((bytes, ending)) = arrival.split() else { return };
        let Self { device, incoming, dst, len } = self;
        let put = incoming
            .get(&*device)
            .and_then(|stream| Ok((stream, device.copy_in(stream, dst, len, Box::new(FromDevice(bytes)))?)));
        match put {
            Ok((stream, seq)) => {
                let done = move |outcome: Result<()>| {
                    if outcome.is_err() {
                        incoming.failed(stream);
                    }
                    ending.landed(outcome);
                };
                device.notify(stream, seq, Box::new(done));
            }
            Err(error) => ending.landed(Err(error)),
        }
    }
}

struct FromDevice(ArrivalBytes);

impl Source for FromDevice {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        self.0.fill(piece);
        Ok(())
    }
}
