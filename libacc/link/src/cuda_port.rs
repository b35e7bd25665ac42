//! GPUs of this machine, driven in-process.

use crate::host_copy::HostMemory;
use crate::in_process::{Backend, InProcess};
use accord_device::cuda::{CudaConfig, CudaDevice};
use accord_device::{Device, FunctionHandle};
use accord_runtime::ports::{CudaObjects, Port, ReadWhen};
use accord_types::{
    DeviceInfo, DevicePtr, DeviceType, HostRange, LaunchDims, QueueId, Result, Seq, SpanSink, StreamId,
};
use std::sync::Arc;

/// Copies up to this size are read by the driver before the call returns.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// A GPU of this machine.
pub type CudaPort = InProcess<Cuda>;

/// How it is driven.
pub struct Cuda {
    config: CudaConfig,
}

impl InProcess<Cuda> {
    /// The GPU that `info` describes; not started yet.
    pub fn new(info: DeviceInfo, config: CudaConfig, trace: Option<Arc<dyn SpanSink>>) -> Self {
        Self::with(info, Cuda { config }, trace)
    }
}

impl Backend for Cuda {
    type Device = CudaDevice;
    const LAUNCH_MAY_WAIT: bool = false;

    fn device_type(&self) -> DeviceType {
        DeviceType::Nvidia
    }

    fn start(&self, info: &DeviceInfo) -> Result<Arc<CudaDevice>> {
        CudaDevice::start(info.clone(), self.config.clone())
    }

    fn addresses(&self, _info: &DeviceInfo, started: Option<&CudaDevice>) -> (DevicePtr, u64) {
        // The driver chooses them when the device starts.
        started.map_or((DevicePtr(0), 0), Device::addresses)
    }

    fn copy_in(
        device: &CudaDevice,
        _queue: QueueId,
        stream: StreamId,
        dst: DevicePtr,
        src: HostRange,
        when: ReadWhen,
    ) -> Result<Seq> {
        let (now, len) = (when == ReadWhen::BeforeReturn, src.len as u64);
        if src.len <= SMALL_BYTES_MAX {
            if now {
                return device.store_memory(stream, dst, src);
            }
            if let Some(seq) = device.store_in_turn(stream, dst, src)? {
                return Ok(seq);
            }
            return device.copy_in(stream, dst, len, Box::new(HostMemory::new(src, false)));
        }
        let seq = device.copy_in(stream, dst, len, Box::new(HostMemory::new(src, now)))?;
        if now {
            device.wait_read(stream, seq)?;
        }
        Ok(seq)
    }

    fn lock_pages(device: &CudaDevice, range: HostRange) {
        device.lock_pages(range);
    }

    fn unlock_pages(device: &CudaDevice, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        device.unlock_pages(stream, range)
    }

    fn grid(device: &CudaDevice, function: FunctionHandle, dims: LaunchDims) -> LaunchDims {
        device.grid(function, dims)
    }

    fn cuda(port: &InProcess<Self>) -> Option<&dyn CudaObjects> {
        Some(port)
    }
}

impl CudaObjects for InProcess<Cuda> {
    fn device(&self) -> Result<i32> {
        Ok(self.running()?.device.raw_device())
    }

    fn context(&self) -> Result<usize> {
        Ok(self.running()?.device.raw_context())
    }

    fn stream(&self, queue: QueueId) -> Result<usize> {
        let running = self.running()?;
        let stream = running.stream(queue)?;
        running.device.lend_stream(stream).map_err(|e| self.place(e).queue(queue))
    }

    fn stream_of(&self, queue: QueueId) -> usize {
        let stream = self.running().and_then(|running| running.device.raw_stream(running.stream(queue)?));
        stream.unwrap_or(0)
    }

    fn set_stream(&self, queue: QueueId, stream: usize) -> Result<()> {
        self.wait(&[queue])?;
        let running = self.running()?;
        let stream = running.device.adopt_stream(queue, stream).map_err(|e| self.place(e).queue(queue))?;
        running.replace(queue, stream);
        Ok(())
    }
}
