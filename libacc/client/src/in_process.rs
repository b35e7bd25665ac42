//! A device of this machine, driven in-process: the part common to all kinds.

use crate::cluster::{BeforeStart, LocalDeviceClient};
use crate::host_copy::{self, Changed, Unchanged};
use accord_device::cpu::float_control;
use accord_device::{
    Backend, CopySink, Device, DriverContext, FunctionHandle, MemoryAccount, MovesWhen, NativeHandles, StartConfig,
    TurnAgent,
};
use accord_executor::device_use::{UseCounters, UseSample};
use accord_executor::hosted::Hosted;
use accord_executor::queue_table::ByNumber;
use accord_runtime::ports::{Chain, Changes, CudaObjects, DeviceClient, Part};
use accord_types::short_lock::{ShortLock, ShortRwLock};
use accord_types::turn_lock::TurnLock;
use accord_types::{
    AddressRange, ArgBlock, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec, HostRange,
    LaunchDims, QueueId, ReadWhen, Result, Seq, SpanSink, StreamId,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Asynchronous copies out up to this size run on the calling thread when nothing is ahead of them.
const QUICK_BYTES_MAX: usize = 64 << 10;

/// A device of this machine.
pub struct InProcess {
    info: DeviceInfo,
    device_type: DeviceType,
    backend: &'static Backend,
    start: StartSettings,
    running: ShortRwLock<Option<Arc<Running>>>,
    /// Serialises starts and shutdowns, which may take long.
    starting: TurnLock<()>,
    hooks: Hooks,
    stream_quota: AtomicU32,
    account: OnceLock<Arc<dyn MemoryAccount>>,
    /// The agent that gives out turns on the device.
    turns: OnceLock<Arc<dyn TurnAgent>>,
    /// The reason why the session is over.
    over: OnceLock<Error>,
    /// Counters over all starts; set by the first one.
    counters: OnceLock<Arc<UseCounters>>,
}

/// All that the device's next start needs.
struct StartSettings {
    config: StartConfig,
    trace: Option<Arc<dyn SpanSink>>,
    /// The driver's context, if the program needed it before the start. The device uses it from then on.
    context: ShortLock<Option<DriverContext>>,
    /// The address range for its memory.
    place: ShortLock<Option<AddressRange>>,
}

/// The session's functions that starts and shutdowns call.
#[derive(Default)]
struct Hooks {
    on_start: OnceLock<BeforeStart>,
    on_end: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// State that lives from start to shutdown.
pub(crate) struct Running {
    hosted: Arc<Hosted>,
    functions: ShortRwLock<HashMap<u64, FunctionHandle, ByNumber>>,
}

impl InProcess {
    /// Creates the client of the device that `info` describes, visible to the program as `device_type`, or as its
    /// kind's type; not started.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if this version has no backend for it.
    pub fn new(
        info: DeviceInfo,
        device_type: Option<DeviceType>,
        config: StartConfig,
        trace: Option<Arc<dyn SpanSink>>,
    ) -> Result<Self> {
        let backend = accord_backends::backend(info.kind)?;
        Ok(Self {
            info,
            device_type: device_type.unwrap_or(backend.capabilities.device_type),
            backend,
            start: StartSettings { config, trace, context: ShortLock::default(), place: ShortLock::default() },
            running: ShortRwLock::default(),
            starting: TurnLock::default(),
            hooks: Hooks::default(),
            stream_quota: AtomicU32::new(0),
            account: OnceLock::new(),
            turns: OnceLock::new(),
            over: OnceLock::new(),
            counters: OnceLock::new(),
        })
    }

    pub(crate) fn running(&self) -> Result<Arc<Running>> {
        let running = self.running.read().clone();
        let not_started = || self.place(Error::new(ErrorCode::DeviceUnavailable, "the device is not started"));
        running.ok_or_else(|| self.over.get().cloned().unwrap_or_else(not_started))
    }

    /// # Errors
    /// Returns the reason if the session is over.
    fn check_over(&self) -> Result<()> {
        self.over.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Announces the use of the device before it starts.
    ///
    /// # Errors
    /// Returns an error if the device belongs to a job.
    fn may_start(&self) -> Result<()> {
        self.hooks.on_start.get().map_or(Ok(()), |before| before().map_err(|e| self.place(e)))
    }

    /// Adds the node to an error, and records the fault that the device reported.
    pub(crate) fn place(&self, error: Error) -> Error {
        if error.fault().is_some() {
            self.counters.get_or_init(Arc::default).failed(&error);
        }
        error.node(&self.info.node_name)
    }

    /// Records copies and memory. Launches are not counted.
    fn count(&self, count: impl FnOnce(&UseCounters)) {
        if let Some(counters) = self.counters.get() {
            count(counters);
        }
    }

    /// Calls `put` with the queue's stream, and records the position that it returns.
    fn put(&self, queue: QueueId, put: impl FnOnce(&dyn Device, StreamId) -> Result<Seq>) -> Result<()> {
        self.put_on(&*self.running()?, queue, put)
    }

    fn put_on(
        &self,
        running: &Running,
        queue: QueueId,
        put: impl FnOnce(&dyn Device, StreamId) -> Result<Seq>,
    ) -> Result<()> {
        let state = running.hosted.queue(queue).map_err(|e| self.place(e))?;
        state.advance(put(running.device(), state.stream()).map_err(|e| self.place(e).queue(queue))?);
        Ok(())
    }

    /// Launches a known function in a known queue, unless that would have to wait for the device. Called without the
    /// locks, because the driver may take long.
    fn launch_known(&self, queue: QueueId, key: u64, dims: LaunchDims, block: ArgBlock<'_>) -> Option<Result<()>> {
        let running = self.running.read().clone()?;
        let function = running.functions.read().get(&key).copied()?;
        let state = running.hosted.known(queue)?;
        let put = running.device().try_launch(state.stream(), function, dims, block).transpose()?;
        Some(put.map_err(|e| self.place(e).queue(queue)).map(|seq| state.advance(seq)))
    }

    fn each_queue(
        &self,
        queues: &[QueueId],
        mut f: impl FnMut(&dyn Device, StreamId, Seq) -> Result<bool>,
    ) -> Result<bool> {
        let running = self.running()?;
        for &queue in queues {
            // An unused queue has nothing to wait for (OpenACC 3.3, 2.16.3).
            let Some((stream, last)) = running.hosted.last(queue) else { continue };
            if !f(running.device(), stream, last).map_err(|e| self.place(e).queue(queue))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Running {
    fn device(&self) -> &dyn Device {
        &**self.hosted.device()
    }

    /// Returns the stream of a queue, created at its first use.
    fn stream(&self, queue: QueueId) -> Result<StreamId> {
        self.hosted.queue(queue).map(|state| state.stream())
    }

    /// Returns the region with this key, looked up at its first use.
    fn function(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>) -> Result<FunctionHandle> {
        let known = self.functions.read().get(&key).copied();
        if let Some(function) = known {
            return Ok(function);
        }
        let function = self.device().function(&spec()?)?;
        self.functions.write().insert(key, function);
        Ok(function)
    }
}

impl LocalDeviceClient for InProcess {
    fn hosted(&self) -> Result<Arc<Hosted>> {
        Ok(self.running()?.hosted.clone())
    }

    fn on_start(&self, before: BeforeStart) {
        // A device belongs to one session, which sets it once.
        let _ = self.hooks.on_start.set(before);
    }

    fn on_end(&self, report: Box<dyn Fn() + Send + Sync>) {
        let _ = self.hooks.on_end.set(report);
    }

    fn sample_use(&self) -> Option<UseSample> {
        let counters = self.counters.get()?;
        // A device that was shut down is idle.
        let (busy, operations) = self.running().map_or((Some(false), 0), |running| {
            let device = running.device();
            (device.is_busy(), device.operations())
        });
        Some(counters.sample(busy, operations))
    }

    fn limit_streams(&self, quota: u32) {
        self.stream_quota.store(quota, Ordering::Relaxed);
    }

    fn count_memory(&self, account: Arc<dyn MemoryAccount>) {
        // A device belongs to one session, with one account.
        let _ = self.account.set(account);
    }

    fn take_turns(&self, agent: Arc<dyn TurnAgent>) {
        let _ = self.turns.set(agent);
    }

    fn stop(&self, error: Error) {
        let error = self.over.get_or_init(|| self.place(error)).clone();
        let running = self.running.read().clone();
        if let Some(running) = running {
            running.device().stop(error);
        }
    }
}

impl DeviceClient for InProcess {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn guards_blocks(&self) -> bool {
        self.backend.capabilities.guards_blocks
    }

    fn sees_named_memory_only(&self) -> bool {
        self.backend.capabilities.sees_named_memory_only
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        match self.running() {
            Ok(running) => running.device().addresses(),
            Err(_) => (DevicePtr(0), 0),
        }
    }

    fn addresses_wanted(&self) -> u64 {
        (self.backend.addresses_wanted)(&self.info)
    }

    fn lie_at(&self, place: AddressRange) {
        *self.start.place.lock() = Some(place);
    }

    fn start(&self) -> Result<()> {
        let _one = self.starting.take();
        if self.running.read().is_some() {
            return Ok(());
        }
        self.check_over()?;
        self.may_start()?;
        let place = *self.start.place.lock();
        let (account, turns) = (self.account.get().cloned(), self.turns.get().cloned());
        let config = StartConfig { place, account, turns, ..self.start.config.clone() };
        let device = (self.backend.start)(self.info.clone(), &config).map_err(|e| self.place(e))?;
        if let Some(sink) = &self.start.trace {
            device.trace(Arc::clone(sink));
        }
        let counters = self.counters.get_or_init(Arc::default).clone();
        let hosted = Arc::new(Hosted::new(device.clone(), self.stream_quota.load(Ordering::Relaxed), counters));
        *self.running.write() = Some(Arc::new(Running { hosted, functions: ShortRwLock::default() }));
        let early = self.start.context.lock().take();
        drop(early);
        // `stop` may have come before the device was visible to it.
        self.check_over().inspect_err(|error| device.stop(error.clone()))
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let running = self.running()?;
        running.device().map(start, len).map_err(|e| self.place(e))?;
        running.hosted.counters().mapped(len);
        Ok(())
    }

    fn allocates(&self) -> bool {
        self.start.config.allocate
    }

    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        let running = self.running()?;
        let start = running.device().allocate(len).map_err(|e| self.place(e))?;
        running.hosted.counters().mapped(len);
        Ok(start)
    }

    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        self.count(|counters| counters.unmapped(len));
        self.put(queue, |device, stream| device.unmap(stream, start, len))
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        self.count(|counters| counters.copied_in(bytes.len() as u64));
        self.put(queue, |device, stream| device.store(stream, dst, bytes))
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        self.count(|counters| counters.copied_in(src.len as u64));
        self.put(queue, |device, stream| device.copy_in_program(stream, dst, src, when))
    }

    fn register_pages(&self, range: HostRange) {
        if let Ok(running) = self.running() {
            running.device().register_pages(range);
        }
    }

    fn unregister_pages(&self, after: Option<QueueId>, range: HostRange) -> Result<()> {
        // A device that was shut down has no registrations.
        let Ok(running) = self.running() else { return Ok(()) };
        let state = after.map(|queue| running.hosted.queue(queue)).transpose().map_err(|e| self.place(e))?;
        let stream = state.as_ref().map(|state| state.stream());
        let seq = running.device().unregister_pages(stream, range).map_err(|e| self.place(e))?;
        if let (Some(state), Some(seq)) = (state, seq) {
            state.advance(seq);
        }
        Ok(())
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        self.count(|counters| counters.copied_out(dst.len as u64));
        let here = queue == QueueId::SYNC || dst.len <= QUICK_BYTES_MAX;
        self.put(queue, |device, stream| device.copy_out(stream, src, dst.len as u64, CopySink::program(dst, here)))
    }

    fn copy_out_changed(
        &self,
        queue: QueueId,
        src: DevicePtr,
        sent: &[u8],
        parts: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()> {
        self.count(|counters| counters.copied_out(sent.len() as u64));
        let sink = CopySink::when(MovesWhen::AtOnce, Changed::new(sent, parts, chain));
        self.put(queue, |device, stream| device.copy_out(stream, src, sent.len() as u64, sink))
    }

    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange, whole: HostRange) -> Result<()> {
        self.count(|counters| counters.copied_out(with.len as u64));
        let sink = Unchanged::new(with, whole);
        let sink = CopySink::when(sink.when(), sink);
        self.put(queue, |device, stream| device.copy_out(stream, src, with.len as u64, sink))
    }

    fn changes(&self) -> Changes {
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
        if !self.backend.capabilities.launch_may_wait
            && let Some(launched) = self.launch_known(queue, key, dims, block)
        {
            return launched;
        }
        let running = self.running()?;
        let function = running.function(key, spec).map_err(|e| self.place(e))?;
        let control = float_control();
        self.put_on(&running, queue, |device, stream| device.launch_under(control, stream, function, dims, block))
    }

    fn grid(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>, dims: LaunchDims) -> LaunchDims {
        // The launch itself reports a region that can't be found.
        let Ok(running) = self.running() else { return dims };
        running.function(key, spec).map_or(dims, |function| running.device().grid(function, dims))
    }

    fn forget_functions(&self, keys: Range<u64>) {
        if let Ok(running) = self.running() {
            running.functions.write().retain(|key, _| !keys.contains(key));
        }
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        self.running()?.device().global(spec).map_err(|e| self.place(e))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let running = self.running()?;
        let Some((other, last)) = running.hosted.last(other) else { return Ok(()) };
        self.put_on(&running, queue, |device, stream| device.wait_stream(stream, other, last))
    }

    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        self.each_queue(queues, |device, stream, last| device.synchronize(stream, last).map(|()| true)).map(drop)
    }

    fn test(&self, queues: &[QueueId]) -> Result<bool> {
        self.each_queue(queues, Device::reached)
    }

    fn memory_free(&self) -> Result<u64> {
        Ok(self.running()?.device().memory_free())
    }

    fn reaches_program_memory(&self) -> bool {
        self.running().is_ok_and(|running| running.device().reaches_program_memory())
    }

    fn cuda(&self) -> Option<&dyn CudaObjects> {
        self.backend.capabilities.native_handles.then_some(self as _)
    }

    fn shutdown(&self) -> Result<()> {
        let _one = self.starting.take();
        let early = self.start.context.lock().take();
        drop(early);
        let running = self.running.write().take();
        self.count(UseCounters::unmapped_all);
        if let Some(running) = running {
            running.device().shutdown();
        }
        if let Some(report) = self.hooks.on_end.get() {
            report();
        }
        Ok(())
    }
}

impl InProcess {
    /// Calls `ask` with the driver's objects of the started device.
    fn native<T>(&self, ask: impl FnOnce(&Running, &dyn NativeHandles) -> Result<T>) -> Result<T> {
        let running = self.running()?;
        let none =
            || Error::new(ErrorCode::InvalidArgument, "the device has no driver whose objects a program could use");
        let native = running.device().native().ok_or_else(none).map_err(|e| self.place(e))?;
        ask(&running, native)
    }
}

impl CudaObjects for InProcess {
    fn device(&self) -> Result<i32> {
        self.native(|_, native| Ok(native.device()))
    }

    fn context(&self) -> Result<usize> {
        self.native(|_, native| Ok(native.context()))
    }

    fn make_context(&self) -> Result<usize> {
        let _one = self.starting.take();
        if self.running.read().is_some() {
            return CudaObjects::context(self);
        }
        self.check_over()?;
        let known = self.start.context.lock().as_ref().map(|context| context.handle);
        if let Some(handle) = known {
            return Ok(handle);
        }
        self.may_start()?;
        let made = (self.backend.context)(&self.info).map_err(|e| self.place(e))?;
        let handle = made.as_ref().map_or(0, |context| context.handle);
        *self.start.context.lock() = made;
        Ok(handle)
    }

    fn stream(&self, queue: QueueId) -> Result<usize> {
        self.native(|running, native| native.expose_stream(running.stream(queue)?))
            .map_err(|e| self.place(e).queue(queue))
    }

    fn stream_of(&self, queue: QueueId) -> usize {
        self.native(|running, native| native.stream(running.stream(queue)?)).unwrap_or(0)
    }

    fn set_stream(&self, queue: QueueId, stream: usize) -> Result<()> {
        self.wait(&[queue])?;
        self.native(|running, native| {
            running.hosted.replace(queue, native.adopt_stream(queue, stream).map_err(|e| self.place(e).queue(queue))?);
            Ok(())
        })
    }
}
