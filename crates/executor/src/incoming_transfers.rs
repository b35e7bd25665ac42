//! Bytes that other devices push here, from other processes.

use crate::hosted::Hosted;
use crate::same_host::SameHostPeer;
use accord_device::{CopySource, NativeSource, Source};
use accord_fabric::transfer::{DeviceReceives, Exchange, IncomingBytes, TransferEnding, TransferTarget};
use accord_types::short_lock::DroppedUnlocked;
use accord_types::{AddressRange, DevicePtr, NativeRange, Result, Seq, StreamId, TransferId};
use std::sync::Arc;

/// Most bytes of a transfer that the thread of its lane reads itself.
const QUICK_MAX: u64 = 64 << 10;

/// The memory of a device to which a transfer's bytes go.
pub struct Destination {
    hosted: Arc<Hosted>,
    at: AddressRange,
    /// The source's process, if it may be on this host.
    same_host: Option<SameHostPeer>,
    access: Access,
    /// The last transfer to a device may end the device.
    #[allow(dead_code, reason = "it looks when it is dropped")]
    unlocked: DroppedUnlocked,
}

/// What accesses a device's memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The program that drives the device as well.
    Any,
    /// Only the device's streams, and other processes by the methods of [`Destination`].
    Private,
}

impl Destination {
    /// Returns the destination of `len` bytes of a device, from `dst` on. `same_host` is the source's process, if it may be on this host.
    pub fn new(hosted: &Arc<Hosted>, dst: DevicePtr, len: u64, same_host: Option<SameHostPeer>) -> Self {
        let (at, unlocked) = (AddressRange { start: dst, len }, DroppedUnlocked::default());
        Self { hosted: hosted.clone(), at, same_host, access: Access::Any, unlocked }
    }

    /// Returns the destination as [`Destination::new`], for a device whose memory is accessed only by its streams and through this destination.
    pub fn private(hosted: &Arc<Hosted>, dst: DevicePtr, len: u64, same_host: Option<SameHostPeer>) -> Self {
        Self { access: Access::Private, ..Self::new(hosted, dst, len, same_host) }
    }
}

impl TransferTarget for Destination {
    fn export(&self) -> Vec<u8> {
        let Self { hosted, at, same_host: Some(peer), .. } = self else { return Vec::new() };
        let handle = peer.export(&**hosted.device(), at.start, at.len);
        let is_displayed = handle.is_empty() || self.access == Access::Any || hosted.may_show(*at);
        if is_displayed { handle } else { Vec::new() }
    }

    fn native(&self) -> Option<(Arc<DeviceReceives>, NativeRange)> {
        // No library of a program's process writes into its devices' memory.
        let native = self.hosted.device().native().filter(|_| self.access == Access::Private)?;
        if self.hosted.still_writes(self.at) {
            return None;
        }
        Some((self.hosted.rooms().clone(), native.space(self.at.start, usize::try_from(self.at.len).ok()?)?))
    }

    fn is_free(&self) -> bool {
        !self.hosted.fenced_copies().overlap(self.at)
    }

    fn start(&self, bytes: IncomingBytes, ending: TransferEnding) {
        let Self { hosted, at, access, .. } = self;
        let source = source(bytes);
        let put = hosted.incoming();
        let put = put.and_then(|stream| Ok((stream, hosted.device().copy_in(stream, at.start, at.len, source)?)));
        match put {
            Ok((stream, seq)) if *access == Access::Private && hosted.fence(*at, stream, seq) => ending.landed(Ok(())),
            Ok((stream, seq)) => {
                let (of, unlocked) = (hosted.clone(), DroppedUnlocked::default());
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

/// Returns the source of a transfer's bytes. The thread of the lane reads few bytes itself: a short transfer arrives with its
/// header, in one write, and that thread would only wait for another one to read the rest.
fn source(bytes: IncomingBytes) -> CopySource {
    if bytes.total() <= QUICK_MAX {
        CopySource::at_once(FromDevice(bytes))
    } else if bytes.fills_native() {
        CopySource::native(FromDevice(bytes))
    } else {
        CopySource::new(FromDevice(bytes))
    }
}

/// The bytes of a transfer, as a device takes them.
struct FromDevice(IncomingBytes);

impl Source for FromDevice {
    fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        self.0.fill(piece);
        Ok(())
    }
}

impl NativeSource for FromDevice {
    fn fill_native(&mut self, space: NativeRange) -> Result<usize> {
        Ok(self.0.fill_native(space))
    }
}
