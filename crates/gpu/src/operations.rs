//! A GPU's implementation of the device's operations.

use super::copy_out;
use super::device::CudaDevice;
use super::direct::{self, HostMemoryQuery, ReadTime};
use super::driver::DriverError;
use super::fetching;
use super::function::{Function, OwnedBlock};
use super::launch::{self, Shape};
use super::page_registration;
use super::peers;
use super::probe;
use super::staging::copy_route::{
    self, Direction, End, Facts, IssuePoint, NoMemory, Route, SMALL_MAX, TAKEN_MAX, WAITED_IN_MAX,
};
use super::staging::slot_pool::SMALL_SLOT;
use super::stream::{HostThread, Op, Stream, StreamProgress};
use super::stream_worker;
use accord_device::Capabilities;
use accord_device::ipc::{ExportMemory, ImportMemory};
use accord_device::program_bytes;
use accord_device::{CopySink, CopySource};
use accord_device::{Device, FunctionHandle, NativeHandles};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FloatControl, FunctionSpec, GlobalSpec, HostRange,
    LaunchDims, QueueId, ReadWhen, Result, Seq, SpanSink, StreamId,
};
use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

pub(super) static CAPABILITIES: Capabilities = Capabilities {
    device_type: DeviceType::Nvidia,
    fallback: false,
    fixed_dims: None,
    launch_may_wait: false,
    quick_to_ask: true,
    takes_images: true,
    sees_named_memory_only: true,
    guards_blocks: false,
    runs_program: false,
    prints_here: true,
    native_handles: true,
    allocates: true,
    shares_memory: true,
};

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        self.shared.memory.addresses()
    }

    fn reaches_program_memory(&self) -> bool {
        probe::reaches_pageable_memory(self.shared.context.driver, self.shared.context.device)
    }

    fn memory_free(&self) -> u64 {
        let (mut free, mut total) = (0, 0);
        let Ok(_current) = self.shared.context.enter() else { return 0 };
        // SAFETY: both are valid for writing.
        match unsafe { self.shared.context.driver.cuMemGetInfo_v2(&raw mut free, &raw mut total) } {
            Ok(()) => free as u64,
            Err(_) => 0,
        }
    }

    fn create_stream(&self, queue: QueueId) -> Result<StreamId> {
        self.add_stream(queue, None)
    }

    fn trace(&self, sink: Arc<dyn SpanSink>) {
        if let Ok(_current) = self.current() {
            // A device that can't be traced has other faults, which its next call reports.
            let _ = self.shared.tracer.start(sink);
        }
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.shared.failure.check()?;
        let _use = self.shared.memory_uses.begin()?;
        let _current = self.current()?;
        self.shared.memory.map(start, len).map_err(|error| self.with_free_memory(error, len))
    }

    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        self.shared.failure.check()?;
        let _use = self.shared.memory_uses.begin()?;
        let _current = self.current()?;
        self.shared.memory.allocate(len).map_err(|error| self.with_free_memory(error, len))
    }

    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq> {
        self.stream(stream)?.put_host(Op::Unmap { start, len }, HostThread::Worker)
    }

    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        if let Some(held) = stream.hold_store(dst, bytes)? {
            return Ok(held);
        }
        stream.put(|_| stream_worker::store(stream, dst, bytes), || Ok(Op::Store { dst, bytes: bytes.to_vec() }))
    }

    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: CopySource) -> Result<Seq> {
        let here = source.immediate();
        let stream = self.stream(stream)?;
        let Some(range) = source.memory() else {
            return stream.put_host(Op::CopyIn { dst, len, source }, HostThread::caller_if(here));
        };
        let _current = self.enter(stream)?;
        if here && (range.len <= WAITED_IN_MAX || stream.is_exposed()) && stream.may_write(range) {
            // Earlier copies out may still write to the memory that this copy reads.
            stream.synchronize(stream.last().0)?;
        }
        let taken = Cell::new(None);
        let put = stream.put_if(|state| {
            taken.set(direct::copy_in(stream, state, dst, range, here)?);
            Ok(taken.get().is_some())
        })?;
        let Some(seq) = put else {
            let by = HostThread::caller_if(here || stream.is_exposed());
            return stream.put_host(Op::CopyIn { dst, len, source }, by);
        };
        if here && taken.get() == Some(ReadTime::InTurn) {
            stream.synchronize(seq.0)?;
        }
        Ok(seq)
    }

    fn copy_in_program(&self, stream: StreamId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<Seq> {
        let (now, len) = (when == ReadWhen::BeforeReturn, src.len as u64);
        if src.len <= TAKEN_MAX {
            if now {
                return self.store_memory(stream, dst, src);
            }
            if let Some(seq) = self.store_in_turn(stream, dst, src)? {
                return Ok(seq);
            }
            return self.copy_in(stream, dst, len, CopySource::program(src, false));
        }
        let seq = self.copy_in(stream, dst, len, CopySource::program(src, now))?;
        if now {
            self.stream(stream)?.wait_issued(seq.0)?;
        }
        Ok(seq)
    }

    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, sink: CopySink) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let here = sink.immediate();
        let memory = sink.memory();
        let end = memory.map_or_else(|| End::Handed { detached: sink.detached() }, |_| End::Program);
        let facts = direct::facts(stream, Direction::Out, IssuePoint::Call, len as usize, end, here);
        if memory.is_none() && copy_route::route(&facts, &mut NoMemory).route == Route::InTurn {
            if !here
                && !stream.is_exposed()
                && let Some(place) = fetching::place(&sink, len)
            {
                let _current = self.enter(stream)?;
                return stream.put_fetched(src, len, sink, place);
            }
            return stream.put_host(Op::CopyOut { src, len, sink, fetched: None }, HostThread::caller_if(here));
        }
        let _current = self.enter(stream)?;
        let mut sink = Some(sink);
        if copy_route::route(&facts, &mut NoMemory).route == Route::SmallSlot
            && let Some(held) = stream.hold_out(&facts, src, &mut sink)?
        {
            return Ok(held);
        }
        // Set if there is no slot for a small copy.
        let mut full = false;
        let put = stream.put_if(|state| {
            let (route, middle) = match memory {
                Some(range) => {
                    let mut asked = HostMemoryQuery::at_call(stream, state, range);
                    (copy_route::route(&facts, &mut asked).route, asked.middle)
                }
                None => (copy_route::route(&facts, &mut NoMemory).route, None),
            };
            let fits = copy_out::copy_out_now(stream, state, src, len as usize, (route, memory, middle), &mut sink)?;
            full = route == Route::SmallSlot && !fits;
            Ok(fits)
        })?;
        let (None, Some(sink)) = (put, sink) else { return Ok(put.unwrap_or_else(|| stream.last())) };
        if full {
            // Pending copies keep their slots until their bytes are read.
            stream.synchronize(stream.last().0)?;
        }
        let exposed = stream.is_exposed();
        let by = HostThread::caller_if(here || exposed);
        let seq = stream.put_host(Op::CopyOut { src, len, sink, fetched: None }, by)?;
        if exposed {
            stream.synchronize(seq.0)?;
        }
        Ok(seq)
    }

    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.put(|_| stream_worker::copy(stream, dst, src, len), || Ok(Op::Copy { dst, src, len }))
    }

    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle> {
        let (module, index) = self.module(spec.kernel, &format!("region {}", spec.name))?;
        let _current = self.current()?;
        let function = Arc::new(module.function(index, spec)?);
        let full = || Error::new(ErrorCode::System, "more regions than a device takes");
        let index = self.shared.functions.add(|_| Ok::<_, Error>(function)).ok_or_else(full)??;
        Ok(FunctionHandle(index))
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        let (module, index) = self.module(spec.variable, "a declare variable")?;
        let _current = self.current()?;
        module.variable(index, spec.len)
    }

    fn launch_under(
        &self,
        _control: FloatControl,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Seq> {
        let launch = self.checked(stream, function, dims, &block)?;
        let _current = self.enter(launch.stream)?;
        launch.stream.put_launch(|state| launch.issue(state), || launch.later())
    }

    fn try_launch(
        &self,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Option<Seq>> {
        let launch = self.checked(stream, function, dims, &block)?;
        let _current = self.enter(launch.stream)?;
        launch.stream.try_put_launch(|state| launch.issue(state), || launch.later())
    }

    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq> {
        self.wait_for(self.stream(stream)?, self.stream(other)?, seq)
    }

    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>) {
        match self.stream(stream) {
            Ok(stream) => self.notifier.add(stream, seq.0, done),
            Err(error) => done(Err(error)),
        }
    }

    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool> {
        self.stream(stream)?.reached(seq.0)
    }

    fn is_busy(&self) -> Option<bool> {
        if self.shared.failure.check().is_err() {
            return Some(false);
        }
        // The driver answers only threads with a current context.
        let _current = self.shared.context.enter().ok()?;
        let mut is_busy = Some(false);
        for stream in self.all() {
            match stream.is_busy() {
                Some(true) => return Some(true),
                Some(false) => {}
                None => is_busy = None,
            }
        }
        is_busy
    }

    fn operations(&self) -> u64 {
        self.all().map(|stream| stream.operations()).sum()
    }

    fn fence(&self, stream: StreamId, seq: Seq) -> bool {
        // A failure is reported elsewhere.
        let is_issued = |stream: &Stream| stream.has_issued(seq.0) && stream.check().is_ok();
        self.stream(stream).is_ok_and(|stream| is_issued(stream) && self.shared.fence.set(stream))
    }

    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.synchronize(seq.0)
    }

    fn grid(&self, function: FunctionHandle, dims: LaunchDims) -> LaunchDims {
        let function = self.shared.functions.get(function.0).filter(|function| !function.is_kernel());
        let chosen = function.and_then(|function| launch::choose(function, dims).ok());
        chosen.map_or(dims, |grid| LaunchDims { gangs: grid.gangs, workers: grid.workers, vector: grid.vector })
    }

    fn copy_to(
        &self,
        stream: StreamId,
        src: DevicePtr,
        target: &dyn Device,
        dst: DevicePtr,
        len: u64,
        after: Option<(StreamId, Seq)>,
    ) -> Result<Option<Seq>> {
        let Some(target) = (target as &dyn Any).downcast_ref::<Self>() else { return Ok(None) };
        peers::connect(&self.peer, &target.peer)?;
        let ours = self.stream(stream)?;
        if let Some((other, seq)) = after {
            self.wait_for(ours, target.stream(other)?, seq)?;
        }
        let _current = self.enter(ours)?;
        let after = target.shared.memory.hold_up(ours.raw).and_then(|()| target.shared.fence.hold_up(ours.raw));
        after.map_err(|error| self.shared.driver_failed(error, Some(ours.queue)))?;
        let mut there = Ok(());
        let now = |_: &mut _| match stream_worker::push(ours, dst, &target.shared, src, len) {
            Ok(copied) => copied,
            Err(error) => {
                there = Err(error);
                Ok(())
            }
        };
        let seq = ours.put(now, || Ok(Op::Peer { dst, to: target.shared.clone(), src, len }))?;
        there.map(|()| Some(seq))
    }

    fn register_pages(&self, range: HostRange) {
        page_registration::ask(&self.shared, range);
    }

    fn unregister_pages(&self, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        let Some(registered) = page_registration::release(&self.shared, range) else { return Ok(None) };
        let stream = stream.map(|stream| self.stream(stream)).transpose()?;
        let mut waited = Ok(());
        for (user, seq) in registered.streams() {
            if stream.is_none_or(|stream| !stream.is_same(&*user)) {
                waited = waited.and(user.settle(seq));
            }
        }
        match stream {
            Some(stream) => stream.put_host(Op::Unregister(registered), HostThread::Worker).map(Some),
            None => {
                drop(registered);
                waited.map(|()| None)
            }
        }
    }

    fn native(&self) -> Option<&dyn NativeHandles> {
        Some(self)
    }

    fn exports(&self) -> Option<Arc<dyn ExportMemory>> {
        let memory: Arc<dyn ExportMemory> = self.shared.memory.clone();
        Some(memory)
    }

    fn imports(&self) -> Option<Arc<dyn ImportMemory>> {
        let imports: Arc<dyn ImportMemory> = self.shared.imports.clone();
        Some(imports)
    }

    fn stop(&self, error: Error) {
        self.shared.stop(error);
    }

    fn shutdown(&self) {
        self.end();
    }
}

/// A launch that can be.
struct Launch<'a> {
    stream: &'a Arc<Stream>,
    function: &'a Arc<Function>,
    index: u32,
    dims: LaunchDims,
    shape: Shape<'a>,
    block: &'a ArgBlock<'a>,
}

impl Launch<'_> {
    fn issue(&self, state: &mut StreamProgress) -> Result<(), DriverError> {
        launch::issue(self.stream, state, self.index, self.function, self.shape, self.block)
    }

    /// Copies the launch for a list.
    fn later(&self) -> Op {
        let (function, block) = (Arc::clone(self.function), OwnedBlock::new(self.block));
        Op::Launch { function, index: self.index, dims: self.dims, block }
    }
}

impl CudaDevice {
    /// Adds the amount of free memory to an out-of-memory error. The driver counts all processes.
    fn with_free_memory(&self, error: Error, len: u64) -> Error {
        if error.code() != ErrorCode::OutOfMemory {
            return error;
        }
        let cause = format!(
            "{len} bytes asked for, {} of {} bytes of device memory are free ({})",
            self.memory_free(),
            self.info().memory,
            error.cause()
        );
        Error::new(ErrorCode::OutOfMemory, cause)
            .remedy("free data on this device, or use another one; nvidia-smi lists the processes that have its memory")
    }

    #[inline]
    fn checked<'a>(
        &'a self,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: &'a ArgBlock<'a>,
    ) -> Result<Launch<'a>> {
        let (stream, index) = (self.stream(stream)?, function.0);
        let function =
            self.shared.functions.get(index).ok_or_else(|| {
                Error::new(ErrorCode::ImplementationDefined, format!("function {index} does not exist"))
            })?;
        if !block.is_sound() {
            return Err(Error::new(ErrorCode::ImplementationDefined, "an argument block of impossible size"));
        }
        Ok(Launch { stream, function, index, dims, shape: Shape::new(function, dims, block)?, block })
    }

    /// Copies at most [`TAKEN_MAX`] bytes of the program's memory in, which are read before the call returns.
    fn store_memory(&self, stream: StreamId, dst: DevicePtr, range: HostRange) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        let facts = direct::facts(stream, Direction::In, IssuePoint::Call, range.len, End::Program, true);
        stream.put(
            |state| {
                let mut asked = HostMemoryQuery::at_call(stream, state, range);
                match copy_route::route(&Facts { may_take: true, ..facts }, &mut asked).route {
                    Route::DirectNow => direct::hand_in(stream, dst, range),
                    // From a copy, because the driver would read pinned memory only in its turn.
                    _ => stream_worker::store(stream, dst, &Vec::from(program_bytes(range))),
                }
            },
            || Ok(Op::Store { dst, bytes: program_bytes(range).to_vec() }),
        )
    }

    /// Copies at most [`TAKEN_MAX`] bytes of the program's memory in, in their turn, if that does not block.
    fn store_in_turn(&self, stream: StreamId, dst: DevicePtr, range: HostRange) -> Result<Option<Seq>> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        let facts = direct::facts(stream, Direction::In, IssuePoint::Call, range.len, End::Program, false);
        let facts = Facts { may_take: true, ..facts };
        if let Some(held) = stream.hold_in(&facts, dst, range)? {
            return Ok(Some(held));
        }
        stream.put_if(|state| {
            let mut asked = HostMemoryQuery::at_call(stream, state, range);
            match (copy_route::route(&facts, &mut asked).route, asked.middle) {
                (Route::Direct, _) => direct::hand_in(stream, dst, range).map(|()| true),
                (Route::Registered, Some(middle)) => {
                    direct::copy_in_registered(stream, dst, range, middle).map(|()| true)
                }
                _ => Ok(false),
            }
        })
    }
}

const _: () = assert!(SMALL_SLOT == SMALL_MAX);
