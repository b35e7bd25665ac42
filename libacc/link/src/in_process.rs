//! A device of this machine, driven in-process: what is the same for all kinds.

use crate::cluster::LocalPort;
use crate::host_copy::{self, Changed, HostMemory, Unchanged};
use accord_device::{Device, FunctionHandle};
use accord_runtime::ports::{Chain, CudaObjects, Part, Port, ReadWhen};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec, HostRange, LaunchDims,
    QueueId, Result, Seq, SpanSink, StreamId, streams_max,
};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Asynchronous copies out up to this size run on the calling thread when nothing is ahead of them.
const QUICK_BYTES_MAX: usize = 64 << 10;

/// What is particular to one kind of device.
pub trait Backend: Send + Sync + Sized + 'static {
    /// A started device.
    type Device: Device + 'static;
    /// A launch may have to wait for the device: nothing may be locked then.
    const LAUNCH_MAY_WAIT: bool;

    /// The type under which the program sees it.
    fn device_type(&self) -> DeviceType;

    /// Starts the device that `info` describes.
    ///
    /// # Errors
    /// `acc_error_device_init`.
    fn start(&self, info: &DeviceInfo) -> Result<Arc<Self::Device>>;

    /// First address and length of its range, as far as it is known before the start.
    fn addresses(&self, info: &DeviceInfo, started: Option<&Self::Device>) -> (DevicePtr, u64);

    /// Copies the program's memory in; the bytes are read as `when` says.
    ///
    /// # Errors
    /// Those of the device.
    fn copy_in(
        device: &Self::Device,
        queue: QueueId,
        stream: StreamId,
        dst: DevicePtr,
        src: HostRange,
        when: ReadWhen,
    ) -> Result<Seq>;

    /// See [`Port::lock_pages`].
    fn lock_pages(device: &Self::Device, range: HostRange) {
        let _ = (device, range);
    }

    /// See [`Port::unlock_pages`]. With a stream: in its turn, with the position.
    ///
    /// # Errors
    /// Those of the device.
    fn unlock_pages(device: &Self::Device, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        let _ = (device, stream, range);
        Ok(None)
    }

    /// What a launch with these dimensions will have.
    fn grid(device: &Self::Device, function: FunctionHandle, dims: LaunchDims) -> LaunchDims;

    /// The driver's objects behind `port`, if it has such.
    fn cuda(port: &InProcess<Self>) -> Option<&dyn CudaObjects> {
        let _ = port;
        None
    }
}

/// A device of this machine.
pub struct InProcess<B: Backend> {
    info: DeviceInfo,
    backend: B,
    trace: Option<Arc<dyn SpanSink>>,
    running: RwLock<Option<Arc<Running<B::Device>>>>,
    on_start: OnceLock<Box<dyn Fn() + Send + Sync>>,
    stream_quota: AtomicU32,
}

/// What there is between start and shutdown.
pub(crate) struct Running<D> {
    pub(crate) device: Arc<D>,
    queues: RwLock<HashMap<QueueId, Arc<Queue>, ByNumber>>,
    functions: RwLock<HashMap<u64, FunctionHandle, ByNumber>>,
    /// Streams for the program's queues.
    streams_max: usize,
}

struct Queue {
    stream: StreamId,
    last: AtomicU64,
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

impl<B: Backend> InProcess<B> {
    pub(crate) fn with(info: DeviceInfo, backend: B, trace: Option<Arc<dyn SpanSink>>) -> Self {
        Self {
            info,
            backend,
            trace,
            running: RwLock::default(),
            on_start: OnceLock::new(),
            stream_quota: AtomicU32::new(0),
        }
    }

    pub(crate) fn running(&self) -> Result<Arc<Running<B::Device>>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner).clone();
        running.ok_or_else(|| self.place(Error::new(ErrorCode::DeviceUnavailable, "the device is not started")))
    }

    pub(crate) fn place(&self, error: Error) -> Error {
        error.node(&self.info.node_name)
    }

    /// Runs `put` with the queue's stream and keeps the position that it returns.
    fn put(&self, queue: QueueId, put: impl FnOnce(&B::Device, StreamId) -> Result<Seq>) -> Result<()> {
        self.put_on(&*self.running()?, queue, put)
    }

    fn put_on(
        &self,
        running: &Running<B::Device>,
        queue: QueueId,
        put: impl FnOnce(&B::Device, StreamId) -> Result<Seq>,
    ) -> Result<()> {
        let state = running.queue(queue).map_err(|e| self.place(e))?;
        let seq = put(&running.device, state.stream).map_err(|e| self.place(e).queue(queue))?;
        state.last.fetch_max(seq.0, Ordering::AcqRel);
        Ok(())
    }

    /// Launches a known function in a known queue. The locks are held meanwhile, which costs less than
    /// counting references.
    fn launch_known(&self, queue: QueueId, key: u64, dims: LaunchDims, block: ArgBlock<'_>) -> Option<Result<()>> {
        let running = self.running.read().unwrap_or_else(PoisonError::into_inner);
        let running = running.as_ref()?;
        let queues = running.queues.read().unwrap_or_else(PoisonError::into_inner);
        let functions = running.functions.read().unwrap_or_else(PoisonError::into_inner);
        let (state, function) = (queues.get(&queue)?, *functions.get(&key)?);
        let put = running.device.launch(state.stream, function, dims, block);
        Some(put.map_err(|e| self.place(e).queue(queue)).map(|seq| {
            state.last.fetch_max(seq.0, Ordering::AcqRel);
        }))
    }

    fn each_queue(
        &self,
        queues: &[QueueId],
        mut f: impl FnMut(&B::Device, StreamId, Seq) -> Result<bool>,
    ) -> Result<bool> {
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

impl<D: Device> Running<D> {
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
        // Sharing a stream only adds order. Queues of Accord's own are never shared.
        let mut shared: Vec<StreamId> =
            queues.iter().filter(|(q, _)| q.0 < QueueId::INCOMING.0).map(|(_, s)| s.stream).collect();
        shared.sort_unstable();
        shared.dedup();
        let own = queue.0 >= QueueId::INCOMING.0 || shared.len() < self.streams_max;
        let stream = if own { self.device.create_stream(queue)? } else { shared[queue.0 as usize % shared.len()] };
        let state = Arc::new(Queue { stream, last: AtomicU64::new(0) });
        queues.insert(queue, Arc::clone(&state));
        Ok(state)
    }

    /// The region with this key, found at its first use.
    fn function(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>) -> Result<FunctionHandle> {
        let known = self.functions.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some(function) = known {
            return Ok(function);
        }
        let function = self.device.function(&spec()?)?;
        self.functions.write().unwrap_or_else(PoisonError::into_inner).insert(key, function);
        Ok(function)
    }

    /// The stream of a queue, made at its first use.
    pub(crate) fn stream(&self, queue: QueueId) -> Result<StreamId> {
        self.queue(queue).map(|state| state.stream)
    }

    /// From now on `queue` is another stream, into which nothing was put.
    pub(crate) fn replace(&self, queue: QueueId, stream: StreamId) {
        let state = Arc::new(Queue { stream, last: AtomicU64::new(0) });
        self.queues.write().unwrap_or_else(PoisonError::into_inner).insert(queue, state);
    }
}

impl<B: Backend> LocalPort for InProcess<B> {
    fn device(&self) -> Result<Arc<dyn Device>> {
        let device: Arc<dyn Device> = self.running()?.device.clone();
        Ok(device)
    }

    fn stream(&self, queue: QueueId) -> Result<StreamId> {
        self.running()?.stream(queue).map_err(|e| self.place(e))
    }

    fn last(&self, queue: QueueId) -> Seq {
        let state = self.running().ok().and_then(|running| running.known(queue));
        Seq(state.map_or(0, |q| q.last.load(Ordering::Acquire)))
    }

    fn on_start(&self, report: Box<dyn Fn() + Send + Sync>) {
        // One session, one who asks.
        let _ = self.on_start.set(report);
    }

    fn limit_streams(&self, quota: u32) {
        self.stream_quota.store(quota, Ordering::Relaxed);
    }

    fn advance(&self, queue: QueueId, seq: Seq) {
        if let Ok(state) = self.running().and_then(|r| r.queue(queue)) {
            state.last.fetch_max(seq.0, Ordering::AcqRel);
        }
    }
}

impl<B: Backend> Port for InProcess<B> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        self.backend.device_type()
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        let running = self.running().ok();
        self.backend.addresses(&self.info, running.as_ref().map(|running| &*running.device))
    }

    fn start(&self) -> Result<()> {
        let mut running = self.running.write().unwrap_or_else(PoisonError::into_inner);
        if running.is_none() {
            let device = self.backend.start(&self.info).map_err(|e| self.place(e))?;
            if let Some(sink) = &self.trace {
                device.trace(Arc::clone(sink));
            }
            let streams_max = streams_max(self.stream_quota.load(Ordering::Relaxed));
            let (queues, functions) = (RwLock::default(), RwLock::default());
            *running = Some(Arc::new(Running { device, queues, functions, streams_max }));
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
        self.put(queue, |device, stream| device.unmap(stream, start, len))
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        self.put(queue, |device, stream| device.store(stream, dst, bytes))
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        self.put(queue, |device, stream| B::copy_in(device, queue, stream, dst, src, when))
    }

    fn lock_pages(&self, range: HostRange) {
        if let Ok(running) = self.running() {
            B::lock_pages(&running.device, range);
        }
    }

    fn unlock_pages(&self, after: Option<QueueId>, range: HostRange) -> Result<()> {
        // A device that was shut down holds nothing.
        let Ok(running) = self.running() else { return Ok(()) };
        let state = after.map(|queue| running.queue(queue)).transpose().map_err(|e| self.place(e))?;
        let stream = state.as_ref().map(|state| state.stream);
        let seq = B::unlock_pages(&running.device, stream, range).map_err(|e| self.place(e))?;
        if let (Some(state), Some(seq)) = (state, seq) {
            state.last.fetch_max(seq.0, Ordering::AcqRel);
        }
        Ok(())
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        let sink = HostMemory::new(dst, queue == QueueId::SYNC || dst.len <= QUICK_BYTES_MAX);
        self.put(queue, |device, stream| device.copy_out(stream, src, dst.len as u64, Box::new(sink)))
    }

    fn copy_out_changed(
        &self,
        queue: QueueId,
        src: DevicePtr,
        sent: &[u8],
        parts: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()> {
        let sink = Box::new(Changed::new(sent, parts, chain));
        self.put(queue, |device, stream| device.copy_out(stream, src, sent.len() as u64, sink))
    }

    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange) -> Result<()> {
        let sink = Box::new(Unchanged::new(with));
        self.put(queue, |device, stream| device.copy_out(stream, src, with.len as u64, sink))
    }

    fn changes(&self) -> u64 {
        host_copy::changes()
    }

    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, |device, stream| device.copy(stream, dst, src, len))
    }

    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        if !B::LAUNCH_MAY_WAIT
            && let Some(launched) = self.launch_known(queue, key, dims, block)
        {
            return launched;
        }
        let running = self.running()?;
        let function = running.function(key, spec).map_err(|e| self.place(e))?;
        self.put_on(&running, queue, |device, stream| device.launch(stream, function, dims, block))
    }

    fn grid(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>, dims: LaunchDims) -> LaunchDims {
        // A region that can't be found is the launch's to report.
        let Ok(running) = self.running() else { return dims };
        running.function(key, spec).map_or(dims, |function| B::grid(&running.device, function, dims))
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
        self.put_on(&running, queue, |device, stream| device.wait_stream(stream, other.stream, last))
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
        B::cuda(self)
    }

    fn shutdown(&self) -> Result<()> {
        let running = self.running.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            running.device.shutdown();
        }
        Ok(())
    }
}
