//! CPU devices of this machine, driven in-process.

use crate::host_copy::{self, HostMemory, Staged};
use crate::in_process::{Backend, InProcess};
use accord_device::cpu::{CpuDevice, ProgramSpec, addresses};
use accord_device::{Device, FunctionHandle};
use accord_runtime::ports::ReadWhen;
use accord_types::{
    DeviceInfo, DevicePtr, DeviceType, HostRange, LaunchDims, QueueId, Result, Seq, SpanSink, StreamId,
};
use std::sync::Arc;

/// Copies up to this size are taken along at once: cheaper than another thread, and short.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// What has to be read before the call returns is copied aside up to this size, rather than waited for.
const STAGED_BYTES_MAX: usize = 1 << 20;

/// What every region has on a CPU device, whatever it asks for: GCC's host version of it is one gang of one worker.
pub(crate) const ONE_THREAD: LaunchDims = LaunchDims { gangs: 1, workers: 1, vector: 1 };

/// A CPU device of this machine.
pub type CpuPort = InProcess<Cpu>;

/// How its worker is started.
pub struct Cpu {
    device_type: DeviceType,
    program: ProgramSpec,
}

impl InProcess<Cpu> {
    /// The device that `info` describes, seen by the program as `device_type`; not started yet.
    pub fn new(
        info: DeviceInfo,
        device_type: DeviceType,
        program: ProgramSpec,
        trace: Option<Arc<dyn SpanSink>>,
    ) -> Self {
        Self::with(info, Cpu { device_type, program }, trace)
    }
}

impl Backend for Cpu {
    type Device = CpuDevice;
    // For room in its stream's ring.
    const LAUNCH_MAY_WAIT: bool = true;

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn start(&self, info: &DeviceInfo) -> Result<Arc<CpuDevice>> {
        CpuDevice::start(info.clone(), &self.program)
    }

    fn addresses(&self, info: &DeviceInfo, _started: Option<&CpuDevice>) -> (DevicePtr, u64) {
        addresses(info)
    }

    fn grid(_device: &CpuDevice, _function: FunctionHandle, _dims: LaunchDims) -> LaunchDims {
        ONE_THREAD
    }

    fn copy_in(
        device: &CpuDevice,
        queue: QueueId,
        stream: StreamId,
        dst: DevicePtr,
        src: HostRange,
        when: ReadWhen,
    ) -> Result<Seq> {
        let len = src.len as u64;
        if when == ReadWhen::InOrder {
            return device.copy_in(stream, dst, len, Box::new(HostMemory::new(src, false)));
        }
        if src.len <= SMALL_BYTES_MAX {
            return device.store(stream, dst, host_copy::bytes(src));
        }
        if src.len <= STAGED_BYTES_MAX && queue != QueueId::SYNC {
            return device.copy_in(stream, dst, len, Box::new(Staged::new(host_copy::bytes(src))));
        }
        let seq = device.copy_in(stream, dst, len, Box::new(HostMemory::new(src, true)))?;
        device.synchronize(stream, seq)?;
        Ok(seq)
    }
}
