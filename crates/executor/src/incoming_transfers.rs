//! Bytes that other devices push here, from other processes.

use crate::hosted::Hosted;
use crate::same_host::SameHostPeer;
use accord_device::{CopySource, Source};
use accord_fabric::transfer::{DeviceRoom, Exchange, Export, IncomingBytes, IncomingTransfer, RoomPlace};
use accord_types::short_lock::DroppedUnlocked;
use accord_types::{AddressRange, DevicePtr, NativeRange, Result, Seq, StreamId, TransferId};
use std::sync::Arc;

/// Most bytes of a transfer that the thread of its lane reads itself.
const QUICK_MAX: u64 = 64 << 10;

/// The target of a transfer.
pub struct Destination {
    hosted: Arc<Hosted>,
    /// The first byte.
    dst: DevicePtr,
    /// Bytes.
    len: u64,
    /// Whether the device's memory is private, see [`Destination::private`].
    is_private: bool,
    /// The last transfer to a device may end the device.
    unlocked: DroppedUnlocked,
}

impl Destination {
    /// Creates the target of `len` bytes of a device, from `dst` on.
    pub fn new(hosted: &Arc<Hosted>, dst: DevicePtr, len: u64) -> Self {
        Self { hosted: hosted.clone(), dst, len, is_private: false, unlocked: DroppedUnlocked::default() }
    }

    /// Creates the target as [`Destination::new`], for a device whose memory is accessed only by its streams and through
    /// [`Destination::room`] and [`Destination::export`].
    pub fn private(hosted: &Arc<Hosted>, dst: DevicePtr, len: u64) -> Self {
        Self { is_private: true, ..Self::new(hosted, dst, len) }
    }

    fn copy(&self) -> Self {
        Self { is_private: self.is_private, ..Self::new(&self.hosted, self.dst, self.len) }
    }

    fn at(&self) -> AddressRange {
        AddressRange { start: self.dst, len: self.len }
    }

    /// Returns the target's memory, for a library that writes into it, or `None` if its kind of device does not support that.
    pub fn room(&self) -> Option<DeviceRoom> {
        self.hosted.device().native()?;
        Some(DeviceRoom { device: self.hosted.rooms().clone(), place: Box::new(self.copy()) })
    }

    /// Returns the callback that exports the memory to a pusher of this host, once the bytes may be sent.
    pub fn export(&self, to: &SameHostPeer) -> Export {
        let (place, export) = (self.copy(), to.export(self.hosted.device(), self.dst, self.len));
        Box::new(move || {
            let handle = export();
            if handle.is_empty() || place.hosted.may_show(place.at()) { handle } else { Vec::new() }
        })
    }

    /// Receives a transfer whose first bytes have arrived.
    pub fn start(self, incoming: IncomingTransfer) {
        let Some((bytes, ending)) = incoming.split() else { return };
        let at = self.at();
        let Self { hosted, dst, len, is_private, unlocked } = self;
        let source = CopySource::new(FromDevice { bytes, len });
        let put = hosted.incoming().and_then(|stream| Ok((stream, hosted.device().copy_in(stream, dst, len, source)?)));
        match put {
            Ok((stream, seq)) if is_private && hosted.fence(at, stream, seq) => ending.landed(Ok(())),
            Ok((stream, seq)) => {
                let of = hosted.clone();
                let done = move |outcome: Result<()>| {
                    let _unlocked = unlocked;
                    if outcome.is_err() {
                        of.incoming_failed(stream);
                    }
                    ending.landed(outcome);
                };
                hosted.device().notify(stream, seq, Box::new(done));
            }
            Err(error) => ending.landed(Err(error)),
        }
    }
}

impl RoomPlace for Destination {
    fn range(&self) -> Option<NativeRange> {
        if self.hosted.still_writes(self.at()) {
            return None;
        }
        self.hosted.device().native()?.room(self.dst, usize::try_from(self.len).ok()?)
    }

    fn is_free(&self) -> bool {
        !self.hosted.fenced_copies().overlap(self.at())
    }
}

/// Permits an expected transfer once the device has reached `after`. The device remembers that; `waits` is dropped once it no longer does.
pub fn due_after(
    exchange: &Arc<Exchange>,
    transfer: TransferId,
    hosted: &Hosted,
    after: Option<(StreamId, Seq)>,
    waits: impl Send + 'static,
) {
    match after {
        // A query is faster than a notification. The notification reports a failure.
        Some((stream, seq)) if !hosted.device().reached(stream, seq).unwrap_or(false) => {
            let exchange = exchange.clone();
            let due = move |outcome| {
                drop(waits);
                exchange.due(transfer, outcome);
            };
            hosted.device().notify(stream, seq, Box::new(due));
        }
        _ => exchange.due(transfer, Ok(())),
    }
}

struct FromDevice {
    bytes: IncomingBytes,
    len: u64,
}

impl Source for FromDevice {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        self.bytes.fill(piece);
        Ok(())
    }

    fn fills_native(&self) -> bool {
        !self.immediate() && self.bytes.fills_native()
    }

    fn fill_native(&mut self, room: NativeRange) -> Result<usize> {
        Ok(self.bytes.fill_native(room))
    }

    /// Whether the thread of the lane reads the bytes itself. A short transfer arrives with its header, in one write, and that
    /// thread would only wait for another one to read the rest.
    fn immediate(&self) -> bool {
        self.len <= QUICK_MAX
    }
}
