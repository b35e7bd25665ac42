//! Bytes that leave the process. The call enqueues their copy to a place from which a sink reads them, and the copy runs
//! while the stream's worker is notified.
//!
//! Few bytes are copied to the host, which takes a third of the whole copy's time. More bytes, for a library, are copied to device memory that the driver
//! has allocated: MPI reads them from there in half the time.

use super::copy_out::fill_slot;
use super::driver::DriverError;
use super::staging::fetched::{Fetched, FetchedPlace};
use super::staging::slot_pool::{DEVICE_SLOT, SMALL_SLOT};
use super::stream::{Op, Stream, StreamProgress};
use accord_device::{CopySink, FetchTo};
use accord_types::{DevicePtr, Result, Seq, SpanKind};
use std::sync::Arc;

/// Returns the place to which the bytes of a copy out are fetched, if any.
pub(crate) fn place(sink: &CopySink, len: u64) -> Option<FetchedPlace> {
    match sink.fetch_to() {
        FetchTo::Host if (1..=SMALL_SLOT as u64).contains(&len) => Some(FetchedPlace::Host),
        FetchTo::Device if (1..=DEVICE_SLOT as u64).contains(&len) => Some(FetchedPlace::Device),
        _ => None,
    }
}

impl Stream {
    /// Puts a copy out into the list. Fetches its bytes at once if all copies ahead are fetched too and a slot is free. The device's context is current.
    pub(crate) fn put_fetched(
        self: &Arc<Self>,
        src: DevicePtr,
        len: u64,
        sink: CopySink,
        place: FetchedPlace,
    ) -> Result<Seq> {
        let mut state = self.lock_to_put()?;
        self.flush(&mut state)?;
        let fetched = if state.core.may_fetch() { self.fetch(&mut state, src, len, place) } else { Ok(None) };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(error) => {
                drop(state);
                return Err(self.shared.driver_failed(error, Some(self.queue)));
            }
        };
        self.push(state, Op::CopyOut { src, len, sink, fetched })
    }

    fn fetch(
        &self,
        state: &mut StreamProgress,
        src: DevicePtr,
        len: u64,
        place: FetchedPlace,
    ) -> Result<Option<Fetched>, DriverError> {
        self.order_after(state)?;
        let (shared, len) = (&self.shared, len as usize);
        let pool = match place {
            FetchedPlace::Host => &shared.small,
            FetchedPlace::Device => &shared.native,
        };
        let Some(slot) = pool.try_take()? else { return Ok(None) };
        // The device may write to the slot whatever the driver returns.
        let fetched = Fetched::new(slot, place);
        match place {
            FetchedPlace::Host => {
                let span = shared.tracer.begin(self.raw);
                fetched.filled_by(|slot| fill_slot(self, slot, src.0, len))?;
                shared.tracer.end(span, (self.raw, self.queue), SpanKind::CopyOut, len as u64, String::new);
            }
            // The library's part of this copy is traced as one with it.
            FetchedPlace::Device => fetched.filled_by(|slot| {
                // SAFETY: the slot is the device's and at least that long; the driver checks the source.
                unsafe { shared.context.driver.cuMemcpyDtoDAsync_v2(slot.address().0, src.0, len, self.raw) }?;
                slot.record(self.raw)
            })?,
        }
        Ok(Some(fetched))
    }
}
