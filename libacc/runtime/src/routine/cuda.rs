//! CUDA's own objects (OpenACC 3.3, A.2.1): for programs that also call CUDA or its libraries.

use crate::device::Device;
use crate::local_thread::Current;
use crate::ports::CudaObjects;
use crate::prof::Subject;
use crate::{LocalThread, Runtime};
use accord_types::{AsyncArg, DeviceNum, DeviceType, Error, QueueId, Result};

impl Runtime {
    /// Implements `acc_get_current_cuda_device`. Returns the driver's number; none for other devices.
    ///
    /// # Errors
    /// Returns the errors of starting the device.
    pub fn cuda_device(&self, t: &mut LocalThread) -> Result<Option<i32>> {
        self.with_cuda(t, |_, cuda| cuda.device()).map_err(|error| error.call("acc_get_current_cuda_device"))
    }

    /// Implements `acc_get_current_cuda_context`.
    ///
    /// # Errors
    /// Returns the errors of starting the device.
    pub fn cuda_context(&self, t: &mut LocalThread) -> Result<Option<usize>> {
        self.with_cuda(t, |_, cuda| cuda.context()).map_err(|error| error.call("acc_get_current_cuda_context"))
    }

    /// Returns the driver's context of this thread's device, if that is of this process and has started, or the program has just named it. Starts
    /// no device.
    pub fn driver_context(&self, t: &mut LocalThread) -> Option<usize> {
        let named = std::mem::take(&mut t.named);
        let Some(Current::Device(index)) = t.current.filter(|_| !t.in_host_region()) else { return None };
        let device = &self.devices[index];
        if !device.is_started() {
            // Errors of the device are reported at its start.
            return device.cuda().filter(|_| named)?.make_context().ok();
        }
        let epoch = device.epoch();
        if let Some((known, then, context)) = t.context
            && (known, then) == (index, epoch)
        {
            return context;
        }
        let context = device.cuda().and_then(|cuda| cuda.context().ok());
        t.context = Some((index, epoch, context));
        context
    }

    /// Implements `acc_get_cuda_stream`. Waits for the queue always reach the driver from now on.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_async`, those of the device.
    pub fn cuda_stream(&self, t: &mut LocalThread, queue: i32) -> Result<Option<usize>> {
        let get = |t: &mut LocalThread| {
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(None) };
            let Some(cuda) = device.cuda() else { return Ok(None) };
            device.queues().share(queue);
            cuda.stream(queue).map(Some).map_err(|error| device.place(error))
        };
        get(t).map_err(|error: Error| error.call("acc_get_cuda_stream"))
    }

    /// Implements `acc_set_cuda_stream`. Returns false if the device has no CUDA streams.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::cuda_stream`].
    pub fn set_cuda_stream(&self, t: &mut LocalThread, queue: i32, stream: usize) -> Result<bool> {
        let set = |t: &mut LocalThread| {
            let Some((device, queue)) = self.device_and_queue(t, queue)? else { return Ok(false) };
            let Some(cuda) = device.cuda() else { return Ok(false) };
            cuda.set_stream(queue, stream).map_err(|error| device.place(error))?;
            device.queues().share(queue);
            Ok(true)
        };
        set(t).map_err(|error: Error| error.call("acc_set_cuda_stream"))
    }

    /// Returns the device of this thread's next construct for an observer, with the construct's async-argument. Starts
    /// nothing.
    pub fn subject(&self, t: &mut LocalThread, async_: i32) -> Option<Subject> {
        let on = self.current(t).ok()?;
        Some(self.subject_on(t, on, async_))
    }

    /// Does the same for a routine that names the device by its number.
    pub fn subject_numbered(&self, t: &mut LocalThread, num: i32, async_: i32) -> Option<Subject> {
        let current_type = self.current_type(t).ok()?;
        let on = self.nth(i64::from(num), current_type).ok()?;
        Some(self.subject_on(t, on, async_))
    }

    fn subject_on(&self, t: &LocalThread, on: Current, async_: i32) -> Subject {
        let queue = AsyncArg::from_raw(async_).map_or(QueueId::SYNC, |arg| t.queue(arg));
        match on {
            Current::Host => {
                Subject { device_type: DeviceType::Host, device: DeviceNum(0), index: None, handles: None, queue }
            }
            Current::Device(index) => {
                let device = &self.devices[index];
                let (device_type, num) = (device.device_type, device.num());
                Subject { device_type, device: num, index: Some(index), handles: device.handles(queue), queue }
            }
        }
    }

    fn with_cuda<R>(
        &self,
        t: &mut LocalThread,
        get: impl FnOnce(&Device, &dyn CudaObjects) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some(device) = self.target(t)? else { return Ok(None) };
        let Some(cuda) = device.cuda() else { return Ok(None) };
        get(device, cuda).map(Some).map_err(|error| device.place(error))
    }
}
