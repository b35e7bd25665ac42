//! Orders all streams of a device after an operation of one of them, without blocking a thread. So incoming bytes may be reported complete once the driver
//! has them: operations that the program enqueues later see them.

use super::context::Context;
use super::device_stream::DeviceStream;
use super::driver::DriverError;
use accord_device::stream::FenceCore;
use accord_types::short_lock::ShortLock;
use cudarc::driver::sys::{CUevent, CUevent_flags, CUstream};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

pub(crate) struct Fence {
    context: Arc<Context>,
    /// Decides which streams wait.
    core: ShortLock<FenceCore<FencedStream>>,
    /// [`FenceCore::count`] and [`FenceCore::over`], for threads without the lock.
    count: AtomicU64,
    over: AtomicU64,
    /// Created when the first stream has to wait. The thread that makes it wait records it in the stream of the fence.
    event: OnceLock<FenceEvent>,
}

#[derive(Clone)]
struct FencedStream(Weak<dyn DeviceStream>);

impl PartialEq for FencedStream {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }
}

struct FenceEvent(CUevent);

// SAFETY: the driver's events may be used from any thread.
unsafe impl Send for FenceEvent {}
// SAFETY: as above.
unsafe impl Sync for FenceEvent {}

impl Fence {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let (count, over) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { context, core: ShortLock::default(), count, over, event: OnceLock::new() }
    }

    /// Orders all later operations of other streams after those in the driver's stream of `stream`. Returns `false` if they are already ordered after
    /// another stream that is not done.
    pub(crate) fn set(&self, stream: &Arc<impl DeviceStream + 'static>) -> bool {
        let stream: Arc<dyn DeviceStream> = stream.clone();
        let mut core = self.core.lock();
        let is_set = core.set(FencedStream(Arc::downgrade(&stream)));
        // Under the lock, so that a thread that reads the new count also reads the new stream.
        self.count.store(core.count(), Ordering::Release);
        drop(core);
        is_set
    }

    /// Returns how often the fence was set.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn is_open(&self) -> bool {
        self.over.load(Ordering::Acquire) != self.count()
    }

    /// Orders a stream, of any device, after the stream of the fence.
    pub(crate) fn hold_up(&self, waiting: CUstream) -> Result<(), DriverError> {
        if !self.is_open() {
            return Ok(());
        }
        let Some((stream, count)) = self.core.lock().followed() else { return Ok(()) };
        // A stream lives as long as its device.
        let Some(stream) = stream.0.upgrade() else { return Ok(()) };
        if stream.raw() == waiting {
            return Ok(());
        }
        let driver = self.context.driver;
        // SAFETY: the stream is alive.
        match unsafe { driver.cuStreamQuery(stream.raw()) } {
            Ok(()) => {
                let mut core = self.core.lock();
                core.passed(count);
                self.over.store(core.over(), Ordering::Release);
                drop(core);
                Ok(())
            }
            Err(DriverError { code: DriverError::NOT_READY, .. }) => {
                let event = self.record(&*stream)?;
                // SAFETY: both are alive. A later recording of the event covers more operations.
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
        // SAFETY: `event` is valid for writing.
        unsafe { self.context.driver.cuEventCreate(&raw mut event, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32) }?;
        let kept = self.event.get_or_init(|| FenceEvent(event)).0;
        if kept != event {
            // Another thread was first.
            // SAFETY: no other thread has seen this event.
            unsafe { self.context.driver.cuEventDestroy_v2(event) }?;
        }
        Ok(kept)
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        let Some(event) = self.event.get() else { return };
        let Ok(_current) = self.context.enter() else { return };
        // SAFETY: no stream waits for the event any more.
        let _ = unsafe { self.context.driver.cuEventDestroy_v2(event.0) };
    }
}
