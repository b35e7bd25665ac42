//! A CPU device of this machine, driven in-process.

use crate::cluster::LocalPort;
use crate::host_copy::{self, Changed, HostMemory, Staged};
use accord_device::cpu::{CpuDevice, ProgramSpec, addresses};
use accord_device::{Device, FunctionHandle, Source};
use accord_runtime::ports::{Port, ReadWhen};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec, HostRange,
    LaunchDims, QueueId, Result, Seq, SpanSink, StreamId,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

/// Queues beyond this number share streams.
const STREAMS_OF_QUEUES_MAX: usize = 32;
/// Copies up to this size are taken along at once: cheaper than another thread, and short.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// What has to be read before the call returns is copied aside up to this size, rather than waited for.
const STAGED_BYTES_MAX: usize = 1 << 20;
/// Asynchronous copies out up to this size run on the calling thread when nothing is ahead of them.
const QUICK_BYTES_MAX: usize = 64 << 10;

/// A CPU device of this machine.
pub struct CpuPort {
    info: DeviceInfo,
    device_type: DeviceType,
    program: ProgramSpec,
    trace: Option<Arc<dyn SpanSink>>,
    running: RwLock<Option<Arc<Running>>>,
    on_start: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

struct Running {
    device: Arc<CpuDevice>,
    queues: RwLock<HashMap<QueueId, Arc<Queue>>>,
    functions: RwLock<HashMap<u64, FunctionHandle>>,
}

struct Queue {
    stream: StreamId,
    last: AtomicU64,
}

impl CpuPort {
    /// The device that `info` describes, seen by the program as `device_type`; not started yet.
    pub fn new(
        info: DeviceInfo,
        device_type: DeviceType,
        program: ProgramSpec,
        trace: Option<Arc<dyn SpanSink>>,
    ) -> Self {
        Self { info, device_type, program, trace, running: RwLock::default(), on_start: OnceLock::new() }
    }

    fn running(&self) -> Result<Arc<Running>> {
        self.running.read().expect("no panic with the port locked").clone().ok_or_else(|| {
            self.place(Error::new(ErrorCode::DeviceUnavailable, "the device is not started"))
        })
    }

    fn place(&self, error: Error) -> Error {
        error.node(&self.info.node_name)
    }

    /// Runs `put` with the queue's stream and keeps the position that it returns.
    fn put(&self, queue: QueueId, put: impl FnOnce(&CpuDevice, StreamId) -> Result<Seq>) -> Result<Seq> {
        let running = self.running()?;
        let state = running.queue(queue).map_err(|e| self.place(e))?;
        let seq = put(&running.device, state.stream).map_err(|e| self.place(e).queue(queue))?;
        state.last.fetch_max(seq.0, Ordering::AcqRel);
        Ok(seq)
    }

    fn each_queue(&self, queues: &[QueueId], mut f: impl FnMut(&CpuDevice, StreamId, Seq) -> Result<bool>) -> Result<bool> {
        let running = self.running()?;
        for &queue in queues {
            // A queue never used has nothing to wait for (OpenACC 3.3, 2.16.3).
            let state = running.queues.read().expect("no panic with queues locked").get(&queue).cloned();
            let Some(state) = state else { continue };
            let last = Seq(state.last.load(Ordering::Acquire));
            if !f(&running.device, state.stream, last).map_err(|e| self.place(e).queue(queue))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Running {
    fn queue(&self, queue: QueueId) -> Result<Arc<Queue>> {
        if let Some(state) = self.queues.read().expect("no panic with queues locked").get(&queue) {
            return Ok(Arc::clone(state));
        }
        let mut queues = self.queues.write().expect("no panic with queues locked");
        if let Some(state) = queues.get(&queue) {
            return Ok(Arc::clone(state));
        }
        let own = [QueueId::SYNC, QueueId::NOVAL, QueueId::INCOMING].contains(&queue);
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

impl LocalPort for CpuPort {
    fn device(&self) -> Result<Arc<dyn Device>> {
        let running = self.running()?;
        let device: Arc<dyn Device> = running.device.clone();
        Ok(device)
    }

    fn stream(&self, queue: QueueId) -> Result<StreamId> {
        self.running()?.queue(queue).map(|q| q.stream).map_err(|e| self.place(e))
    }

    fn last(&self, queue: QueueId) -> Seq {
        let running = self.running.read().expect("no panic with the port locked").clone();
        let state = running.and_then(|r| r.queues.read().expect("no panic with queues locked").get(&queue).cloned());
        Seq(state.map_or(0, |q| q.last.load(Ordering::Acquire)))
    }

    fn on_start(&self, report: Box<dyn Fn() + Send + Sync>) {
        // One session, one who asks.
        let _ = self.on_start.set(report);
    }

    fn advance(&self, queue: QueueId, seq: Seq) {
        if let Ok(state) = self.running().and_then(|r| r.queue(queue)) {
            state.last.fetch_max(seq.0, Ordering::AcqRel);
        }
    }
}

impl Port for CpuPort {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        addresses(&self.info)
    }

    fn start(&self) -> Result<()> {
        let mut running = self.running.write().expect("no panic with the port locked");
        if running.is_none() {
            let device = CpuDevice::start(self.info.clone(), &self.program).map_err(|e| self.place(e))?;
            if let Some(sink) = &self.trace {
                device.trace(Arc::clone(sink));
            }
            *running = Some(Arc::new(Running { device, queues: RwLock::default(), functions: RwLock::default() }));
            drop(running);
            if let Some(report) = self.on_start.get() {
                report();
            }
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
        let len = src.len as u64;
        let source: Box<dyn Source> = match when {
            ReadWhen::BeforeReturn if src.len <= SMALL_BYTES_MAX => {
                return self.store(queue, dst, host_copy::bytes(src));
            }
            ReadWhen::BeforeReturn if src.len <= STAGED_BYTES_MAX && queue != QueueId::SYNC => {
                Box::new(Staged::new(host_copy::bytes(src)))
            }
            _ => Box::new(HostMemory::new(src, when == ReadWhen::BeforeReturn)),
        };
        let staged = source.memory().is_none();
        let seq = self.put(queue, |device, stream| device.copy_in(stream, dst, len, source))?;
        if when == ReadWhen::BeforeReturn && !staged {
            let running = self.running()?;
            let stream = running.queue(queue)?.stream;
            running.device.synchronize(stream, seq).map_err(|e| self.place(e).queue(queue))?;
        }
        Ok(())
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        let sink = HostMemory::new(dst, queue == QueueId::SYNC || dst.len <= QUICK_BYTES_MAX);
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
        let running = self.running()?;
        let known = running.functions.read().expect("no panic with functions locked").get(&key).copied();
        let function = match known {
            Some(function) => function,
            None => {
                let function = running.device.function(&spec()?).map_err(|e| self.place(e))?;
                running.functions.write().expect("no panic with functions locked").insert(key, function);
                function
            }
        };
        self.put(queue, |device, stream| device.launch(stream, function, dims, block)).map(drop)
    }

    fn forget_functions(&self, keys: Range<u64>) {
        if let Ok(running) = self.running() {
            running.functions.write().expect("no panic with functions locked").retain(|key, _| !keys.contains(key));
        }
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        self.running()?.device.global(spec).map_err(|e| self.place(e))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let running = self.running()?;
        let other = running.queues.read().expect("no panic with queues locked").get(&other).cloned();
        let Some(other) = other else { return Ok(()) };
        let last = Seq(other.last.load(Ordering::Acquire));
        self.put(queue, |device, stream| device.wait_stream(stream, other.stream, last)).map(drop)
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

    fn shutdown(&self) -> Result<()> {
        if let Some(running) = self.running.write().expect("no panic with the port locked").take() {
            running.device.shutdown();
        }
        Ok(())
    }
}
