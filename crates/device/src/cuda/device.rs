//! A GPU, seen from its owner.

use super::cache::Cache;
use super::context::Context;
use super::direct::{self, Taken};
use super::driver::{Driver, NoDriver};
use super::ipc::Imports;
use super::lane::{self, DIRECT_BYTES_MAX};
use super::launch::{self, OwnedBlock};
use super::loss;
use super::memory::Memory;
use super::module::Module;
use super::near::Near;
use super::notify::Notifier;
use super::page_lock;
use super::peers::{self, Registered};
use super::probe;
use super::shared::{SMALL_SLOT, Shared};
use super::stream::{Op, Stream};
use super::table::Table;
use crate::failure::shut_down;
use crate::image::Images;
use crate::{Device, FunctionHandle, HostOp, Sink, Source};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, Error, ErrorCode, FunctionSpec, GlobalSpec, ImageId, ImageRef, LaunchDims,
    QueueId, Result, Seq, SpanSink, StreamId,
};
use cudarc::driver::sys::CUstream;
use std::cell::Cell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Most streams of one device: its queues share beyond that.
const STREAMS_MAX: u32 = 128;

/// How a GPU is used.
#[derive(Clone, Default)]
pub struct CudaConfig {
    /// Folder for compiled code; none: every start compiles.
    pub cache: Option<PathBuf>,
    /// The program's images.
    pub images: Arc<Images>,
    /// Other processes of the machine may reach the memory, see docs/design/ipc.md.
    pub ipc: bool,
}

/// A GPU of this machine, driven in this process by its primary context.
pub struct CudaDevice {
    info: DeviceInfo,
    streams: Table<Arc<Stream>>,
    modules: Mutex<HashMap<ImageId, Arc<Module>>>,
    notifier: Notifier,
    cache: Option<Cache>,
    images: Arc<Images>,
    peer: Registered,
    pub(super) shared: Arc<Shared>,
}

impl CudaDevice {
    /// Starts using the GPU that `info` describes: the one with its UUID, whatever its number is for this process.
    ///
    /// # Errors
    /// `acc_error_device_init` with the driver's words.
    pub fn start(info: DeviceInfo, config: CudaConfig) -> Result<Arc<Self>> {
        if let Some(lost) = loss::error() {
            return Err(lost);
        }
        let failed = loss::at_start;
        let driver = Driver::get().map_err(|why| {
            let why = match why {
                NoDriver::Absent(why) => why,
                NoDriver::Old(name) => format!("it has no {name}"),
            };
            Error::new(ErrorCode::DeviceInit, format!("the NVIDIA driver can't be used: {why}"))
        })?;
        // SAFETY: no preconditions.
        unsafe { driver.cuInit(0) }.map_err(failed)?;
        let raw = probe::find(driver, &info)?;
        let context = Arc::new(Context::retain(driver, raw).map_err(failed)?);
        let _current = context.enter().map_err(failed)?;
        let memory = Memory::reserve(Arc::clone(&context), info.memory, config.ipc).map_err(failed)?;
        let shared = Shared::new(info.id, &Near::node(info.numa), Arc::clone(&context), memory);
        let peer = peers::register(&context, &shared.memory);
        page_lock::add_device(&shared);
        let device = Arc::new(Self {
            info,
            streams: Table::default(),
            modules: Mutex::default(),
            notifier: Notifier::default(),
            cache: config.cache.map(Cache::new),
            images: config.images,
            peer,
            shared,
        });
        // What is known now is compiled now and not in the middle of the program's work. An image that can't be loaded is
        // an error of the region that needs it.
        for image in device.images.ids() {
            let _ = device.module(Some(ImageRef { image, index: 0 }), "");
        }
        Ok(device)
    }

    /// The driver's number of the device (`acc_get_current_cuda_device`).
    pub fn raw_device(&self) -> i32 {
        self.shared.context.device
    }

    /// The primary context (`acc_get_current_cuda_context`).
    pub fn raw_context(&self) -> usize {
        self.shared.context.raw.expose_provenance()
    }

    /// The driver's stream behind a stream (`acc_get_cuda_stream`). The program may put work of its own into it: from now on
    /// everything goes straight into it, too, and nothing is left to do on the host afterwards.
    ///
    /// # Errors
    /// The stream's or device's failure.
    pub fn lend_stream(&self, stream: StreamId) -> Result<usize> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.synchronize(stream.last().0)?;
        stream.lend();
        Ok(stream.raw.expose_provenance())
    }

    /// The driver's stream behind a stream, for looking at only.
    ///
    /// # Errors
    /// If there is no such stream.
    pub fn raw_stream(&self, stream: StreamId) -> Result<usize> {
        Ok(self.stream(stream)?.raw.expose_provenance())
    }

    /// What a launch with these dimensions will have; as they are if the launch will fail.
    pub fn grid(&self, function: FunctionHandle, dims: LaunchDims) -> LaunchDims {
        let chosen = self.shared.functions.get(function.0).and_then(|function| launch::choose(function, dims).ok());
        chosen.map_or(dims, |grid| LaunchDims { gangs: grid.gangs, workers: grid.workers, vector: grid.vector })
    }

    /// A stream of the program's as one of this device's (`acc_set_cuda_stream`). It stays the program's to destroy.
    ///
    /// # Errors
    /// When the device has failed or has too many streams.
    pub fn adopt_stream(&self, queue: QueueId, raw: usize) -> Result<StreamId> {
        self.add_stream(queue, Some(std::ptr::with_exposed_provenance_mut(raw)))
    }

    /// Blocks until everything up to `seq` has been read from the program's memory; the device may be behind.
    ///
    /// # Errors
    /// The stream's or device's failure.
    pub fn wait_read(&self, stream: StreamId, seq: Seq) -> Result<()> {
        self.stream(stream)?.wait_issued(seq.0)
    }

    /// Copies to another GPU of this process, after `after` of that GPU's streams; neither host memory
    /// nor a thread takes part.
    ///
    /// # Errors
    /// When one of the devices has failed.
    pub fn copy_to(
        &self,
        stream: StreamId,
        src: DevicePtr,
        target: &Self,
        dst: DevicePtr,
        len: u64,
        after: Option<(StreamId, Seq)>,
    ) -> Result<Seq> {
        peers::connect(&self.peer, &target.peer)?;
        let ours = self.stream(stream)?;
        if let Some((other, seq)) = after {
            self.wait_for(ours, target.stream(other)?, seq)?;
        }
        let to = target.shared.context.raw;
        let _current = self.enter(ours)?;
        ours.put(|_| lane::push(ours, dst, to, src, len), || Ok(Op::Peer { dst, to, src, len }))
    }

    /// For each region of an image that was used: its name in the PTX, and why it doesn't take its argument
    /// block as its parameter, if it doesn't.
    pub fn kernels(&self, image: ImageId) -> Vec<(String, Option<String>)> {
        use crate::image::BlockPath;
        let modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(module) = modules.get(&image) else { return Vec::new() };
        module
            .kernels()
            .map(|(name, block)| {
                let why = match block {
                    BlockPath::Parameter(_) => None,
                    BlockPath::Memory(why) => Some(why.to_string()),
                };
                (name.to_owned(), why)
            })
            .collect()
    }

    pub(super) fn memory(&self) -> &Arc<Memory> {
        &self.shared.memory
    }

    pub(super) fn imports(&self) -> &Arc<Imports> {
        &self.shared.imports
    }

    fn add_stream(&self, queue: QueueId, raw: Option<CUstream>) -> Result<StreamId> {
        self.shared.failure.check()?;
        let _current = self.current()?;
        let full = || {
            Error::new(ErrorCode::System, format!("more than {STREAMS_MAX} streams on a device"))
                .remedy("let queues share streams")
        };
        let index = self
            .streams
            .add(|index| {
                if index >= STREAMS_MAX {
                    return Err(full());
                }
                let stream = Stream::new(index, queue, Arc::clone(&self.shared), raw);
                let stream = Arc::new(stream.map_err(|error| self.shared.driver_failed(error, None))?);
                let mut known = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
                known.push(Arc::downgrade(&stream));
                Ok(stream)
            })
            .ok_or_else(full)??;
        Ok(StreamId(index))
    }

    pub(super) fn stream(&self, id: StreamId) -> Result<&Arc<Stream>> {
        self.streams
            .get(id.0)
            .ok_or_else(|| Error::new(ErrorCode::ImplementationDefined, format!("stream {} does not exist", id.0)))
    }

    fn current(&self) -> Result<super::context::Entered> {
        self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, None))
    }

    pub(super) fn enter(&self, stream: &Stream) -> Result<super::context::Entered> {
        self.shared.context.enter().map_err(|error| self.shared.driver_failed(error, Some(stream)))
    }

    fn wait_for(&self, waiting: &Arc<Stream>, other: &Arc<Stream>, seq: Seq) -> Result<Seq> {
        if Arc::ptr_eq(waiting, other) || seq.0 == 0 && !other.is_lent() {
            waiting.check()?;
            return Ok(waiting.last());
        }
        other.check()?;
        if !other.has_issued(seq.0) {
            return waiting.put_host(Op::Wait { other: Arc::clone(other), seq: seq.0 }, false);
        }
        let marked = other.mark(seq.0).map_err(|error| other.shared.driver_failed(error, Some(other)))?;
        let landing = marked && other.is_landing(seq.0);
        let _current = self.enter(waiting)?;
        waiting.put(
            |state| {
                let next = state.next();
                if marked { waiting.follow(state, next, other, seq.0, landing) } else { Ok(()) }
            },
            || Ok(Op::Wait { other: Arc::clone(other), seq: seq.0 }),
        )
    }

    /// The image's module, loaded at its first use.
    fn module(&self, what: Option<ImageRef>, name: &str) -> Result<(Arc<Module>, u32)> {
        self.shared.failure.check()?;
        let no_code = || {
            Error::new(ErrorCode::DeviceInit, format!("{name} was not compiled for NVIDIA GPUs"))
                .remedy("compile and link with -fopenacc -foffload=nvptx-none, or set ACC_DEVICE_TYPE=cpu")
        };
        let what = what.ok_or_else(no_code)?;
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&what.image) {
            return Ok((Arc::clone(module), what.index));
        }
        let image = self.images.get(what.image).ok_or_else(no_code)?;
        let _current = self.current()?;
        let prints = image.prints();
        let module = Arc::new(Module::load(&self.shared.context, image, self.cache.as_ref())?);
        self.shared.prints.fetch_or(prints, Ordering::Relaxed);
        modules.insert(what.image, Arc::clone(&module));
        Ok((module, what.index))
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        self.shared.memory.addresses()
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
            // A device that can't be traced has other troubles, which its next call tells.
            let _ = self.shared.tracer.start(sink);
        }
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.shared.failure.check()?;
        let _current = self.current()?;
        self.shared.memory.map(start, len)
    }

    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq> {
        self.stream(stream)?.put_host(Op::Unmap { start, len }, false)
    }

    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.put(|_| lane::store(stream, dst, bytes), || Ok(Op::Store { dst, bytes: bytes.to_vec() }))
    }

    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: Box<dyn Source>) -> Result<Seq> {
        let here = source.immediate();
        let stream = self.stream(stream)?;
        let Some(range) = source.memory() else { return stream.put_host(Op::CopyIn { dst, len, source }, here) };
        let _current = self.enter(stream)?;
        if here && (range.len <= lane::WAITED_IN_MAX || stream.is_lent()) && stream.may_write(range) {
            // What is still on its way to the program's memory may be what this reads.
            stream.synchronize(stream.last().0)?;
        }
        let taken = Cell::new(None);
        let put = stream.put_if(|state| {
            taken.set(direct::copy_in(stream, state, dst, range, here)?);
            Ok(taken.get().is_some())
        })?;
        let Some(seq) = put else { return stream.put_host(Op::CopyIn { dst, len, source }, here || stream.is_lent()) };
        if here && taken.get() == Some(Taken::InTurn) {
            stream.synchronize(seq.0)?;
        }
        Ok(seq)
    }

    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, sink: Box<dyn Sink>) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let here = sink.immediate();
        let small = here && len as usize <= SMALL_SLOT && !stream.is_lent();
        let memory = sink.memory().filter(|_| !small);
        let detached = sink.detached() && !stream.is_lent();
        if !small && memory.is_none() && !detached {
            return stream.put_host(Op::CopyOut { src, len, sink }, here);
        }
        let _current = self.enter(stream)?;
        let mut sink = Some(sink);
        // Set if there are not enough slots.
        let mut full = false;
        let put = stream.put_if(|state| {
            let fits = match memory {
                Some(range) => lane::copy_out_now(stream, state, src, range, here && range.len <= lane::WAITED_OUT_MAX),
                None if small => lane::copy_out_small(stream, state, src, len as usize, &mut sink),
                None => lane::copy_out_onward(stream, src, len as usize, &mut sink),
            }?;
            full = !fits;
            Ok(fits)
        })?;
        let (None, Some(sink)) = (put, sink) else { return Ok(put.unwrap_or_else(|| stream.last())) };
        if small && full {
            // They wait for somebody to take what they hold.
            stream.synchronize(stream.last().0)?;
        }
        let lent = stream.is_lent();
        let seq = stream.put_host(Op::CopyOut { src, len, sink }, here || lent)?;
        if lent {
            stream.synchronize(seq.0)?;
        }
        Ok(seq)
    }

    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.put(|_| lane::copy(stream, dst, src, len), || Ok(Op::Copy { dst, src, len }))
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

    fn launch(&self, stream: StreamId, function: FunctionHandle, dims: LaunchDims, block: ArgBlock<'_>) -> Result<Seq> {
        let stream = self.stream(stream)?;
        let index = function.0;
        let function =
            self.shared.functions.get(index).ok_or_else(|| {
                Error::new(ErrorCode::ImplementationDefined, format!("function {index} does not exist"))
            })?;
        if !block.is_sound() {
            return Err(Error::new(ErrorCode::ImplementationDefined, "an argument block of impossible size"));
        }
        let grid = launch::choose(function, dims)?;
        let _current = self.enter(stream)?;
        stream.put(
            |state| launch::issue(stream, state, index, function, grid, &block),
            || Ok(Op::Launch { function: Arc::clone(function), index, dims, block: OwnedBlock::new(&block) }),
        )
    }

    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq> {
        self.wait_for(self.stream(stream)?, self.stream(other)?, seq)
    }

    fn host_op(&self, stream: StreamId, op: HostOp) -> Result<Seq> {
        self.stream(stream)?.put_host(Op::Host(op), false)
    }

    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>) {
        match self.stream(stream) {
            Ok(stream) => self.notifier.add(stream, seq.0, done),
            Err(error) => done(Err(error)),
        }
    }

    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.reached(seq.0)
    }

    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()> {
        let stream = self.stream(stream)?;
        let _current = self.enter(stream)?;
        stream.synchronize(seq.0)
    }

    fn as_cuda(&self) -> Option<&CudaDevice> {
        Some(self)
    }

    fn shutdown(&self) {
        let lost = self.shared.failure.check().is_err();
        self.shared.failure.set(shut_down());
        for stream in self.streams.iter() {
            stream.close();
        }
        self.shared.movers.close();
        self.notifier.close();
        let Ok(_current) = self.shared.context.enter() else { return };
        if !lost {
            // Memory must not go while a region works with it; a region can't be ended from outside.
            for stream in self.streams.iter() {
                stream.drain();
            }
        }
        page_lock::release_all(&self.shared);
        self.shared.tracer.drain();
        self.modules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.imports.close();
        self.shared.memory.clear();
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        self.shutdown();
    }
}

const _: () = assert!(SMALL_SLOT <= DIRECT_BYTES_MAX);
