//! Clears memory from the driver, before other users' data could be read there.
//!
//! The host does not wait for that, because a region that occupies the device may run for long. The device's streams wait
//! before their next operation.

use super::context::Context;
use super::driver::DriverError;
use cudarc::driver::sys::{CUdeviceptr, CUevent, CUevent_flags, CUstream, CUstream_flags};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that are set at a time.
const WORD: u64 = 4;

pub(crate) struct Scrubber {
    context: Arc<Context>,
    /// Created for the first memory.
    tools: OnceLock<Tools>,
    /// How often the event was recorded. A stream that has waited for the latest recording need not wait.
    count: AtomicU64,
    /// The last count that is known to be over.
    over: AtomicU64,
}

struct Tools {
    stream: CUstream,
    /// Recorded after all clearing.
    event: CUevent,
}

// SAFETY: the driver's streams and events may be used from any thread.
unsafe impl Send for Tools {}
// SAFETY: as above.
unsafe impl Sync for Tools {}

impl Scrubber {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context, tools: OnceLock::new(), count: AtomicU64::new(0), over: AtomicU64::new(0) }
    }

    /// Starts to clear memory that was just mapped and has no users yet. Only one thread at a time may call this, with the
    /// context current.
    pub(crate) fn clear(&self, at: CUdeviceptr, len: u64) -> Result<(), DriverError> {
        let tools = self.tools()?;
        let driver = self.context.driver;
        // SAFETY: the range is mapped, a whole number of pages, and unmapped only after `settle`.
        unsafe {
            driver.cuMemsetD32Async(at, 0, (len / WORD) as usize, tools.stream)?;
            driver.cuEventRecord(tools.event, tools.stream)?;
        }
        self.count.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn tools(&self) -> Result<&Tools, DriverError> {
        if let Some(tools) = self.tools.get() {
            return Ok(tools);
        }
        let driver = self.context.driver;
        let (mut stream, mut event) = (null_mut(), null_mut());
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 | CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        // SAFETY: both are valid for writing. Objects created before an error are destroyed.
        unsafe {
            driver.cuStreamCreate(&raw mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32)?;
            if let Err(error) = driver.cuEventCreate(&raw mut event, flags) {
                let _ = driver.cuStreamDestroy_v2(stream);
                return Err(error);
            }
        }
        Ok(self.tools.get_or_init(|| Tools { stream, event }))
    }

    /// Returns how often memory was cleared.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Makes a stream, of any device, wait until all memory of this one is clear. The stream's context is current.
    pub(crate) fn hold_up(&self, stream: CUstream) -> Result<(), DriverError> {
        let Some((tools, count)) = self.under_way() else { return Ok(()) };
        let driver = self.context.driver;
        // SAFETY: the event lives as long as `self`, and was recorded. A later recording covers more.
        unsafe {
            if driver.cuEventQuery(tools.event).is_ok() {
                self.over.fetch_max(count, Ordering::Release);
                return Ok(());
            }
            driver.cuStreamWaitEvent(stream, tools.event, 0)
        }
    }

    /// Returns when all memory is clear. The context is current.
    pub(crate) fn settle(&self) -> Result<(), DriverError> {
        let Some((tools, count)) = self.under_way() else { return Ok(()) };
        // SAFETY: the event lives as long as `self`, and was recorded.
        unsafe { self.context.driver.cuEventSynchronize(tools.event) }?;
        self.over.fetch_max(count, Ordering::Release);
        Ok(())
    }

    /// Returns the tools that are clearing memory, and the number of clearings; `None` if all memory is clear.
    fn under_way(&self) -> Option<(&Tools, u64)> {
        let count = self.count();
        if count == self.over.load(Ordering::Acquire) {
            return None;
        }
        Some((self.tools.get()?, count))
    }
}

impl Drop for Scrubber {
    fn drop(&mut self) {
        let Some(tools) = self.tools.get() else { return };
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: the stream and the event have no users any more.
        unsafe {
            let _ = self.context.driver.cuStreamDestroy_v2(tools.stream);
            let _ = self.context.driver.cuEventDestroy_v2(tools.event);
        }
    }
}
