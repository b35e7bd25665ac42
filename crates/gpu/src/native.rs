//! The driver's objects of a GPU, for programs that use the driver themselves.

use super::device::CudaDevice;
use accord_device::NativeHandles;
use accord_types::{DevicePtr, NativeRange, QueueId, Result, StreamId};
use std::sync::atomic::Ordering;

impl NativeHandles for CudaDevice {
    fn device(&self) -> i32 {
        self.shared.context.device
    }

    fn context(&self) -> usize {
        self.shared.context.raw.expose_provenance()
    }

    fn expose_stream(&self, stream: StreamId) -> Result<usize> {
        self.hand_out();
        let stream = Self::stream(self, stream)?;
        let _current = self.enter(stream)?;
        stream.synchronize(stream.last().0)?;
        stream.expose();
        Ok(stream.raw.expose_provenance())
    }

    fn stream(&self, stream: StreamId) -> Result<usize> {
        Ok(Self::stream(self, stream)?.raw.expose_provenance())
    }

    fn range(&self, start: DevicePtr, len: usize) -> NativeRange {
        self.shared.context.range(start, len)
    }

    fn space(&self, start: DevicePtr, len: usize) -> Option<NativeRange> {
        let shared = &self.shared;
        let is_there = shared.failure.check().is_ok() && shared.memory.is_clear(start, len as u64);
        is_there.then(|| shared.context.range(start, len))
    }

    fn adopt_stream(&self, queue: QueueId, raw: usize) -> Result<StreamId> {
        self.hand_out();
        self.add_stream(queue, Some(std::ptr::with_exposed_provenance_mut(raw)))
    }
}

impl CudaDevice {
    /// Notes that the program may put work of its own in from now on. Waits while the work is suspended.
    fn hand_out(&self) {
        self.shared.handed_out.store(true, Ordering::SeqCst);
        self.shared.await_work();
    }
}
