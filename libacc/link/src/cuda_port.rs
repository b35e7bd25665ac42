//! A GPU of this machine, driven in-process.

use crate::cluster::LocalPort;
use crate::host_copy::{self, Changed, HostMemory};
use accord_device::cuda::{CudaConfig, CudaDevice};
use accord_device::{Device, FunctionHandle};
use accord_runtime::ports::{CudaObjects, Port, ReadWhen};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec, HostRange,
    LaunchDims, QueueId, Result, Seq, SpanSink, StreamId,
};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Queues beyond this number share streams.
const STREAMS_OF_QUEUES_MAX: usize = 32;
/// Copies up to this size are read by the driver before the call returns.
const SMALL_BYTES_MAX: usize = 64 << 10;

/// A GPU of this machine.
pub struct CudaPort {
    info: DeviceInfo,
    config: CudaConfig,
    trace: Option<Arc<dyn SpanSink>>,
    running: RwLock<Option<Arc<Running>>>,
}

struct Running {
    device: Arc<CudaDevice>,
    queues: RwLock<HashMap<QueueId, Arc<Queue>, ByNumber>>,
    functions: RwLock<HashMap<u64, FunctionHandle, ByNumber>>,
}

/// The keys are numbers of the program's own, so that nobody gains by choosing them badly.
type ByNumber = BuildHasherDefault<NumberHasher>;

#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        // Spreads neighbours over all bits (Fibonacci hashing).
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

struct Queue {
    stream: StreamId,
    last: AtomicU64,
}

impl CudaPort {
    /// The GPU that `info` describes; not started yet.
    pub fn new(info: DeviceInfo, config: CudaConfig, trace: Option<Arc<dyn SpanSink>>) -> Self {
        Self { info, config, trace, running: RwLock::default() }
    }

    fn running(&self) -> Result<Arc<Running>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| self.place(Error::new(ErrorCode::DeviceUnavailable, "the device is not started")))
    }

    fn place(&self, error: Error) -> Error {
        error.node(&self.info.node_name)
    }

    /// Runs `put` with the queue's stream and keeps the position that it returns.
    fn put(&self, queue: QueueId, put: impl FnOnce(&CudaDevice, StreamId) -> Result<Seq>) -> Result<Seq> {
        self.put_on(&*self.running()?, queue, put)
    }

    fn put_on(
        &self,
        running: &Running,
        queue: QueueId,
        put: impl FnOnce(&CudaDevice, StreamId) -> Result<Seq>,
    ) -> Result<Seq> {
        let state = running.queue(queue).map_err(|e| self.place(e))?;
        let seq = put(&running.device, state.stream).map_err(|e| self.place(e).queue(queue))?;
        state.last.fetch_max(seq.0, Ordering::AcqRel);
        Ok(seq)
    }

    fn each_queue(&self, queues: &[QueueId], mut f: impl FnMut(&CudaDevice, StreamId, Seq) -> Result<bool>) -> Result<bool> {
        let running = self.running()?;
        for &queue in queues {
            // A queue never used has nothing to wait for (OpenACC 3.3, 2.16.3).
            let Some(state) = running.known(queue) else { continue };
            let last = Seq(state.last.load(Ordering::Acquire));
            if !f(&running.device, state.stream, last).map_err(|e| self.place(e).queue(queue))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Running {
    fn known(&self, queue: QueueId) -> Option<Arc<Queue>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner).get(&queue).cloned()
    }

    fn queue(&self, queue: QueueId) -> Result<Arc<Queue>> {
        if let Some(state) = self.known(queue) {
            return Ok(state);
        }
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = queues.get(&queue) {
            return Ok(Arc::clone(state));
        }
        let own = queue.0 >= QueueId::INCOMING.0;
        let stream = if own || queues.len() < STREAMS_OF_QUEUES_MAX {
            self.device.create_stream(queue)?
        } else {
            // Sharing a stream only adds order. Queues of Accord's own are never shared.
            let mut shared: Vec<StreamId> =
                queues.iter().filter(|(q, _)| q.0 < QueueId::INCOMING.0).map(|(_, s)| s.stream).collect();
            shared.sort_unstable();
            shared.dedup();
            shared[queue.0 as usize % shared.len()]
        };
        let state = Arc::new(Queue { stream, last: AtomicU64::new(0) });
        queues.insert(queue, Arc::clone(&state));
        Ok(state)
    }
}

impl LocalPort for CudaPort {
    fn device(&self) -> Result<Arc<dyn Device>> {
        let device: Arc<dyn Device> = self.running()?.device.clone();
        Ok(device)
    }

    fn stream(&self, queue: QueueId) -> Result<StreamId> {
        self.running()?.queue(queue).map(|q| q.stream).map_err(|e| self.place(e))
    }

    fn last(&self, queue: QueueId) -> Seq {
        let state = self.running().ok().and_then(|running| running.known(queue));
        Seq(state.map_or(0, |q| q.last.load(Ordering::Acquire)))
    }

    fn advance(&self, queue: QueueId, seq: Seq) {
        if let Ok(state) = self.running().and_then(|r| r.queue(queue)) {
            state.last.fetch_max(seq.0, Ordering::AcqRel);
        }
    }
}

impl Port for CudaPort {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        DeviceType::Nvidia
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        // The driver chooses them when the device starts.
        self.running().map_or((DevicePtr(0), 0), |running| running.device.addresses())
    }

    fn start(&self) -> Result<()> {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let device = CudaDevice::start(self.info.clone(), self.config.clone()).map_err(|e| self.place(e))?;
            if let Some(sink) = &self.trace {
                device.trace(Arc::clone(sink));
            }
            *running = Some(Arc::new(Running { device, queues: RwLock::default(), functions: RwLock::default() }));
        }
        Ok(())
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.running()?.device.map(start, len).map_err(|e| self.place(e))
    }

    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, |device, stream| device.unmap(stream, start, len)).map(drop)
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        self.put(queue, |device, stream| device.store(stream, dst, bytes)).map(drop)
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        let running = self.running()?;
        let now = when == ReadWhen::BeforeReturn;
        if src.len <= SMALL_BYTES_MAX {
            return self
                .put_on(&running, queue, |device, stream| {
                    if now || !device.may_write_memory(stream)? {
                        return device.store(stream, dst, host_copy::bytes(src));
                    }
                    device.copy_in(stream, dst, src.len as u64, Box::new(HostMemory::new(src, false)))
                })
                .map(drop);
        }
        self.put_on(&running, queue, |device, stream| {
            let seq = device.copy_in(stream, dst, src.len as u64, Box::new(HostMemory::new(src, now)))?;
            if now {
                device.wait_read(stream, seq)?;
            }
            Ok(seq)
        })
        .map(drop)
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        let sink = HostMemory::new(dst, queue == QueueId::SYNC || dst.len <= SMALL_BYTES_MAX);
        self.put(queue, |device, stream| device.copy_out(stream, src, dst.len as u64, Box::new(sink))).map(drop)
    }

    fn copy_out_changed(&self, queue: QueueId, src: DevicePtr, dst: HostRange, unless: &[u8]) -> Result<()> {
        let sink = Box::new(Changed::new(dst, unless));
        self.put(queue, |device, stream| device.copy_out(stream, src, dst.len as u64, sink)).map(drop)
    }

    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, |device, stream| device.copy(stream, dst, src, len)).map(drop)
    }

    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        // Nothing below waits for anything, so the locks are held instead of counting references.
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            let queues = running.queues.read().unwrap_or_else(PoisonError::into_inner);
            let functions = running.functions.read().unwrap_or_else(PoisonError::into_inner);
            if let (Some(state), Some(&function)) = (queues.get(&queue), functions.get(&key)) {
                let put = running.device.launch(state.stream, function, dims, block);
                let seq = put.map_err(|e| self.place(e).queue(queue))?;
                state.last.fetch_max(seq.0, Ordering::AcqRel);
                return Ok(());
            }
        }
        drop(running);
        let running = self.running()?;
        let function = running.device.function(&spec()?).map_err(|e| self.place(e))?;
        running.functions.write().unwrap_or_else(PoisonError::into_inner).insert(key, function);
        self.put_on(&running, queue, |device, stream| device.launch(stream, function, dims, block)).map(drop)
    }

    fn forget_functions(&self, keys: Range<u64>) {
        if let Ok(running) = self.running() {
            running.functions.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| !keys.contains(key));
        }
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        self.running()?.device.global(spec).map_err(|e| self.place(e))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let running = self.running()?;
        let Some(other) = running.known(other) else { return Ok(()) };
        let last = Seq(other.last.load(Ordering::Acquire));
        self.put_on(&running, queue, |device, stream| device.wait_stream(stream, other.stream, last)).map(drop)
    }

    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        self.each_queue(queues, |device, stream, last| device.synchronize(stream, last).map(|()| true)).map(drop)
    }

    fn test(&self, queues: &[QueueId]) -> Result<bool> {
        self.each_queue(queues, |device, stream, last| device.reached(stream, last))
    }

    fn memory_free(&self) -> Result<u64> {
        Ok(self.running()?.device.memory_free())
    }

    fn cuda(&self) -> Option<&dyn CudaObjects> {
        Some(self)
    }

    fn shutdown(&self) -> Result<()> {
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.device.shutdown();
        }
        Ok(())
    }
}

impl CudaObjects for CudaPort {
    fn device(&self) -> Result<i32> {
        Ok(self.running()?.device.raw_device())
    }

    fn context(&self) -> Result<usize> {
        Ok(self.running()?.device.raw_context())
    }

    fn stream(&self, queue: QueueId) -> Result<usize> {
        let running = self.running()?;
        let stream = running.queue(queue)?.stream;
        running.device.lend_stream(stream).map_err(|e| self.place(e).queue(queue))
    }

    fn set_stream(&self, queue: QueueId, stream: usize) -> Result<()> {
        self.wait(&[queue])?;
        let running = self.running()?;
        let stream = running.device.adopt_stream(queue, stream).map_err(|e| self.place(e).queue(queue))?;
        let state = Arc::new(Queue { stream, last: AtomicU64::new(0) });
        running.queues.write().unwrap_or_else(PoisonError::into_inner).insert(queue, state);
        Ok(())
    }
}
