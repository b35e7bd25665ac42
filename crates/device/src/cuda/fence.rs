//! Orders all streams of a device after an operation of one of them without blocking a thread. Bytes from elsewhere may be reported complete once the driver has
//! them: operations that the program enqueues later find them.

use super::context::Context;
use super::device_stream::DeviceStream;
use super::driver::DriverError;
use accord_types::short_lock::ShortLock;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

pub(crate) struct Fence {
    context: Arc<Context>,
    /// How often it was set. A stream that has waited for it since need not wait.
    count: AtomicU64,
    /// The last count that is known to be over.
    over: AtomicU64,
    /// Behind what of this stream the others come.
    behind: ShortLock<Option<Weak<dyn DeviceStream>>>,
    /// Created when the first stream has to wait, and recorded in the stream of `behind` by the thread that makes it wait.
    event: OnceLock<FenceEvent>,
}

struct FenceEvent(CUevent);

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for FenceEvent {}
// SAFETY: as above.
unsafe impl Sync for FenceEvent {}

impl Fence {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let (count, over) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { context, count, over, behind: ShortLock::default(), event: OnceLock::new() }
    }

    /// Whatever is put into other streams from now on comes after what is in the driver's stream of `stream`. False if they come after another
    /// one's already that is not over.
    pub(crate) fn set(&self, stream: &Arc<impl DeviceStream + 'static>) -> bool {
        let mut behind = self.behind.lock();
        let is_same = behind.as_ref().is_some_and(|other| std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(stream)));
        if !is_same {
            if self.is_open() {
                return false;
            }
            let stream: Arc<dyn DeviceStream> = stream.clone();
            *behind = Some(Arc::downgrade(&stream));
        }
        // With the lock, so that a thread that reads the new count reads the new stream too.
        self.count.fetch_add(1, Ordering::Release);
        true
    }

    /// Returns how often it was set.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn is_open(&self) -> bool {
        self.over.load(Ordering::Acquire) != self.count()
    }

    /// Makes a stream, of whichever device, come after what it was set behind.
    pub(crate) fn hold_up(&self, waiting: CUstream) -> Result<(), DriverError> {
        if !self.is_open() {
            return Ok(());
        }
        let behind = self.behind.lock();
        let (count, stream) = (self.count(), behind.as_ref().and_then(Weak::upgrade));
        drop(behind);
        // Streams are there as long as their device.
        let Some(stream) = stream else { return Ok(()) };
        if stream.raw() == waiting {
            return Ok(());
        }
        let driver = self.context.driver;
        // SAFETY: the stream is alive.
        match unsafe { driver.cuStreamQuery(stream.raw()) } {
            Ok(()) => {
                self.over.fetch_max(count, Ordering::Release);
                Ok(())
            }
            Err(DriverError { code: DriverError::NOT_READY, .. }) => {
                let event = self.record(&*stream)?;
                // SAFETY: both are alive. If the event was recorded again meanwhile, it covers more.
                unsafe { driver.cuStreamWaitEvent(waiting, event, 0) }
            }
            Err(error) => Err(error),
        }
    }

    fn record(&self, stream: &dyn DeviceStream) -> Result<CUevent, DriverError> {
        // The waiting stream may be another device's.
        let _current = self.context.enter()?;
        let event = self.event()?;
        // SAFETY: both are alive.
        unsafe { self.context.driver.cuEventRecord(event, stream.raw()) }?;
        Ok(event)
    }

    fn event(&self) -> Result<CUevent, DriverError> {
        if let Some(made) = self.event.get() {
            return Ok(made.0);
        }
        let mut event = null_mut();
        // SAFETY: it is valid for writing.
        unsafe { self.context.driver.cuEventCreate(&raw mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32) }?;
        let kept = self.event.get_or_init(|| FenceEvent(event)).0;
        if kept != event {
            // Another thread was quicker.
            // SAFETY: no other thread has seen it.
            unsafe { self.context.driver.cuEventDestroy_v2(event) }?;
        }
        Ok(kept)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        let Some(event) = self.event.get() else { return };
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: no stream waits for it any more.
        let _ = unsafe { self.context.driver.cuEventDestroy_v2(event.0) };
    }
}
