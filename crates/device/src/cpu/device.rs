//! The owner's side of a CPU device.

use super::arena::Arena;
use super::control::{self, Request};
use super::gate::WorkerGate;
use super::globals::Globals;
use super::layout::{NO_ADDRESS, STREAMS_MAX};
use super::owner_queue::Op;
use super::process::Handle;
use super::ring::{COPY, Corrupt, LAUNCH, Record, STORE, STORE_BYTES_MAX, WAIT};
use super::shared_capacity::SharedCapacity;
use super::spans::Tracer;
use super::spawn;
use super::stream::{Shared, Stream};
use super::stream_worker;
use super::symbol;
use super::watched::Watched;
use crate::any_end::{CopySink, CopySource};
use crate::backend::StartConfig;
use crate::capabilities::Capabilities;
use crate::device::{Device, FunctionHandle};
use crate::failure::{Failure, shut_down};
use crate::host_memory::{TakenBytes, program_bytes};
use crate::out_of_memory::{self, OutOfMemory};
use crate::program::ProgramSpec;
use crate::turn::TurnKeeper;
use accord_types::short_lock::ShortRwLock;
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use accord_types::{
    ArgBlock, DeviceFault, DeviceInfo, DevicePtr, DeviceType, Error, ErrorCode, FloatControl, FunctionSpec, GlobalSpec,
    HostRange, LaunchDims, ObjectSpec, QueueId, ReadWhen, Result, Seq, SpanSink, StreamId, os_text,
};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Most bytes of a copy that runs on the calling thread if no operation precedes it.
const IMMEDIATE_BYTES_MAX: u64 = 64 << 10;
/// Most bytes of the program's memory that are copied at once: cheaper than using another thread, and short.
const SMALL_BYTES_MAX: usize = 16 << 10;
/// Most bytes that are copied aside, instead of waiting, if they must be read before the call returns.
const TAKEN_BYTES_MAX: usize = 1 << 20;

/// The dimensions of every region on a CPU device, whatever the program requests: GCC's host version has one gang of one
/// worker.
const ONE_THREAD: LaunchDims = LaunchDims { gangs: 1, workers: 1, vector: 1 };

pub(super) static CAPABILITIES: Capabilities = Capabilities {
    device_type: DeviceType::Cpu,
    fallback: true,
    fixed_dims: Some(ONE_THREAD),
    launch_may_wait: true,
    quick_to_ask: false,
    takes_images: false,
    sees_named_memory_only: false,
    guards_blocks: true,
    runs_program: true,
    prints_here: false,
    native_handles: false,
    allocates: false,
    shares_memory: false,
};

/// A worker process with memory of its own.
pub struct CpuDevice {
    info: DeviceInfo,
    shared: Arc<Shared>,
    socket: TurnLock<UnixStream>,
    process: Arc<Handle>,
    pid: u32,
    out_of_memory: OutOfMemory,
    streams: ShortRwLock<Vec<Arc<Stream>>>,
    creating: TurnLock<()>,
    functions: ShortRwLock<Vec<Function>>,
    globals: TurnLock<Globals>,
    /// The keeper of the device's turns, if it is shared by turns.
    turn: OnceLock<Arc<TurnKeeper>>,
}

#[derive(Clone)]
struct Function {
    address: u64,
    spec: FunctionSpec,
    /// Load address of the object in the worker.
    base: u64,
}

impl CpuDevice {
    /// Starts a worker of `program` with the memory and processors of `info`.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` with the step that failed.
    pub fn start(info: DeviceInfo, program: &ProgramSpec) -> Result<Arc<Self>> {
        Self::start_at(info, program, &StartConfig::default())
    }

    /// Starts a device with the place, account and turns of `config`.
    pub(crate) fn start_at(info: DeviceInfo, program: &ProgramSpec, config: &StartConfig) -> Result<Arc<Self>> {
        let capacity = SharedCapacity::new(&info, config.account.clone());
        let arena = Arena::new(&info, config.place)?.sharing(capacity);
        let arena = Arc::new(if program.checks_bounds() { arena.with_guard_pages() } else { arena });
        let out_of_memory = OutOfMemory::watch();
        let worker = spawn::start(&info, program, &arena)?;
        let process = Arc::new(worker.process);
        let shared = Arc::new(Shared {
            control: arena.control(),
            arena,
            failure: Failure::default(),
            tracer: Tracer::new(info.id),
            run: stream_worker::run,
            perform: stream_worker::perform,
            output: worker.output,
            watched: Watched::new(
                program.silence_limit.clone(),
                Arc::clone(&process),
                format!("the worker of {} (node {}, process {})", info.id, info.node_name, worker.pid),
            ),
        });
        let device = Arc::new(Self {
            info,
            shared,
            socket: TurnLock::new(worker.socket),
            process,
            pid: worker.pid,
            out_of_memory,
            streams: ShortRwLock::default(),
            creating: TurnLock::default(),
            functions: ShortRwLock::default(),
            globals: TurnLock::default(),
            turn: OnceLock::new(),
        });
        let watched = Arc::downgrade(&device);
        let process = Arc::clone(&device.process);
        let watch = move || {
            process.wait();
            if let Some(device) = watched.upgrade() {
                device.fail(device.post_mortem());
            }
        };
        threads::spawn("accord-watch", watch).map_err(|e| crate::failure::no_thread(&e))?;
        if let Some(agent) = &config.turns {
            let device_of = Arc::downgrade(&device);
            let streams = move || device_of.upgrade().map(|device| device.streams.read().clone()).unwrap_or_default();
            let gate = WorkerGate { shared: device.shared.clone(), streams };
            let keeper = TurnKeeper::start(device.info.id.ordinal, Box::new(gate), agent.clone())
                .map_err(|e| crate::failure::no_thread(&e))?;
            device.turn.get_or_init(|| keeper);
        }
        Ok(device)
    }

    /// Returns the process id of the worker.
    pub fn worker_pid(&self) -> u32 {
        self.pid
    }

    fn stream(&self, id: StreamId) -> Result<Arc<Stream>> {
        let stream = self.streams.read().get(id.0 as usize).cloned();
        stream.ok_or_else(|| {
            // A device that was shut down has no streams.
            let unknown = || Error::new(ErrorCode::ImplementationDefined, format!("stream {} does not exist", id.0));
            self.shared.failure.check().err().unwrap_or_else(unknown)
        })
    }

    fn fail(&self, error: Error) {
        if let Some(turn) = self.turn.get() {
            turn.end();
        }
        let error = self.shared.failure.set(error);
        let streams = self.streams.read().clone();
        for stream in streams {
            stream.wake_owner();
            stream.notify_failed(&error);
        }
    }

    /// Returns the reason for the worker's end, from its marks in the shared header.
    fn post_mortem(&self) -> Error {
        if let Some(output) = &self.shared.output {
            output.drain();
        }
        let header = self.shared.control.header();
        if header.corrupt.load(Ordering::Acquire) != 0 {
            return self.shared.watched.corrupt("what the worker has read there");
        }
        let signal = header.crash_signal.load(Ordering::Acquire);
        let exit = header.exit_code.load(Ordering::Acquire);
        let (stream, end) = if signal != 0 {
            let address = header.crash_address.load(Ordering::Relaxed);
            let at = match signal {
                libc::SIGSEGV if address == NO_ADDRESS => " at what is no address".to_owned(),
                libc::SIGSEGV if header.crash_call.load(Ordering::Relaxed) != 0 => {
                    format!(" by a call of what is at address {address:#x}")
                }
                libc::SIGSEGV | libc::SIGBUS => format!(" at address {address:#x}"),
                _ => String::new(),
            };
            let code = header.crash_code.load(Ordering::Relaxed);
            let end = format!("ended with {}{at}", symbol::signal(signal, code));
            (header.crash_stream.load(Ordering::Relaxed), (end, symbol::remedy(signal, code, address)))
        } else if exit != 0 {
            let remedy = "a region can't end the program (exit, or STOP in Fortran): have it set a variable that \
                          is copied out, and stop after it";
            (header.exit_stream.load(Ordering::Relaxed), (format!("called exit({})", exit.wrapping_sub(1)), remedy))
        } else {
            let running =
                (0..STREAMS_MAX).find(|&i| self.shared.control.stream(i).running.load(Ordering::Relaxed) != 0);
            let usual = symbol::remedy(libc::SIGKILL, 0, 0);
            let killed = match self.out_of_memory.exceeded_limit() {
                Some(limit) => {
                    let had = format!("its control group had more than the {} MiB of host memory", limit >> 20);
                    (format!("was killed, as {had} that the group may have"), out_of_memory::MORE_MEMORY)
                }
                None if self.out_of_memory.has_killed() => (format!("was killed, {}", out_of_memory::CAUSE), usual),
                None => ("was killed".to_owned(), usual),
            };
            (running.unwrap_or(u32::MAX), killed)
        };
        let (end, remedy) = end;
        let function = (stream < STREAMS_MAX)
            .then(|| self.shared.control.stream(stream).running.load(Ordering::Relaxed))
            .and_then(|address| {
                let functions = self.functions.read();
                functions.iter().find(|f| f.address == address).cloned()
            });
        let Some(function) = function else {
            return Error::new(ErrorCode::Execution, format!("the device's worker {end}"))
                .remedy(format!("{remedy}; acc_shutdown and acc_init start the device anew"));
        };
        let ip = header.crash_ip.load(Ordering::Relaxed);
        let path = &function.spec.object.path;
        // The crash may be in a library that the region called: then only the region is known.
        let position = Some(ip.wrapping_sub(function.base))
            .filter(|_| signal != 0)
            .and_then(|offset| symbol::position(path, offset))
            .or_else(|| symbol::position(path, function.spec.offset));
        let position = match position {
            Some(position) => format!("{position}, "),
            None => String::new(),
        };
        let error = Error::new(
            ErrorCode::Execution,
            format!(
                "region {} ({position}{}+{:#x}) {end}",
                function.spec.name,
                os_text::displayed(path),
                function.spec.offset
            ),
        )
        .device_fault(DeviceFault::signal(signal))
        .remedy(remedy);
        match self.stream(StreamId(stream)) {
            Ok(stream) => error.queue(stream.queue),
            Err(_) => error,
        }
    }

    /// Resolves `offset` in `object` to an address in the worker, and the object's load address.
    fn resolve(&self, object: &ObjectSpec, offset: u64) -> Result<(u64, u64)> {
        self.shared.failure.check()?;
        let request = Request::Resolve {
            path: object.path.clone(),
            build_id: object.build_id.clone(),
            executable: object.executable,
            offset,
        };
        self.ask(&request)
    }

    /// Sends a request to the worker. A worker that is gone or breaks the protocol is ended; the error is the reason that it left.
    fn ask(&self, request: &Request) -> Result<(u64, u64)> {
        let answer = {
            let mut socket = self.socket.take();
            control::ask(&mut socket, request, &|| {
                self.shared.check_alive();
                self.shared.failure.check()
            })
        };
        if answer.as_ref().is_err_and(|e| e.code() == ErrorCode::DeviceUnavailable) {
            // The worker may still run if the program's own code has answered in its place. For a worker that is ending, the kill
            // has no effect.
            self.process.kill();
            self.fail(self.post_mortem());
            self.shared.failure.check()?;
        }
        answer
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        self.shared.arena.addresses()
    }

    fn memory_free(&self) -> u64 {
        self.shared.arena.free()
    }

    fn create_stream(&self, queue: QueueId) -> Result<StreamId> {
        self.shared.failure.check()?;
        let _one_at_a_time = self.creating.take();
        let index = self.streams.read().len() as u32;
        if index >= STREAMS_MAX {
            return Err(Error::new(ErrorCode::System, format!("more than {STREAMS_MAX} streams on a device"))
                .remedy("let queues share streams"));
        }
        let stream = Stream::new(index, queue, Arc::clone(&self.shared));
        stream.block().tracing.store(self.shared.tracer.on().into(), Ordering::Release);
        self.ask(&Request::Stream { index })?;
        self.streams.write().push(stream);
        Ok(StreamId(index))
    }

    fn trace(&self, sink: Arc<dyn SpanSink>) {
        self.shared.tracer.start(sink);
        for stream in self.streams.read().iter() {
            stream.block().tracing.store(1, Ordering::Release);
        }
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.shared.failure.check()?;
        self.shared.arena.map(start, len)
    }

    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq> {
        self.stream(stream)?.push_owner(Op::Unmap { start, len }, true)
    }

    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq> {
        let to = self.shared.arena.translate(dst, bytes.len() as u64)?;
        let stream = self.stream(stream)?;
        if bytes.len() > STORE_BYTES_MAX {
            return Err(Error::new(ErrorCode::ImplementationDefined, "a store of more bytes than a ring takes"));
        }
        let record = Record { bytes: 0, kind: STORE, seq: 0, after: 0, a: dst.0, b: 0, c: bytes.len() as u64 };
        let now = || {
            // SAFETY: `translate` checked the range, and no operation of the stream is in progress.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            Ok(())
        };
        stream.push_worker(record, bytes, &[], Some(&now))
    }

    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: CopySource) -> Result<Seq> {
        self.shared.arena.translate(dst, len)?;
        let immediate = source.immediate();
        self.stream(stream)?.push_owner(Op::CopyIn { dst, len, source }, immediate)
    }

    fn copy_in_program(&self, stream: StreamId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<Seq> {
        let len = src.len as u64;
        if when == ReadWhen::InOrder {
            return self.copy_in(stream, dst, len, CopySource::program(src, false));
        }
        if src.len <= SMALL_BYTES_MAX {
            return self.store(stream, dst, program_bytes(src));
        }
        if src.len <= TAKEN_BYTES_MAX
            && self.stream(stream)?.queue != QueueId::SYNC
            && let Some(taken) = TakenBytes::new(program_bytes(src))
        {
            return self.copy_in(stream, dst, len, CopySource::at_once(taken));
        }
        let seq = self.copy_in(stream, dst, len, CopySource::program(src, true))?;
        self.synchronize(stream, seq)?;
        Ok(seq)
    }

    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, sink: CopySink) -> Result<Seq> {
        self.shared.arena.translate(src, len)?;
        let immediate = sink.immediate();
        self.stream(stream)?.push_owner(Op::CopyOut { src, len, sink }, immediate)
    }

    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq> {
        let to = self.shared.arena.translate(dst, len)?;
        let from = self.shared.arena.translate(src, len)?;
        let record = Record { bytes: 0, kind: COPY, seq: 0, after: 0, a: dst.0, b: src.0, c: len };
        let now = || {
            // SAFETY: `translate` checked both ranges, and no operation of the stream is in progress.
            unsafe { to.copy_from(from, len as usize) };
            Ok(())
        };
        let short = len <= IMMEDIATE_BYTES_MAX;
        self.stream(stream)?.push_worker(record, &[], &[], short.then_some(&now as _))
    }

    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle> {
        let (address, base) = self.resolve(&spec.object, spec.offset)?;
        self.shared.tracer.name_function(address, &spec.name);
        let mut functions = self.functions.write();
        functions.push(Function { address, spec: spec.clone(), base });
        Ok(FunctionHandle(functions.len() as u32 - 1))
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        let (address, _) = self.resolve(&spec.object, spec.offset)?;
        let variable = Globals::variable(address, spec.len).ok_or_else(|| {
            self.shared.distrust(Corrupt("the address of a variable"));
            self.shared.watched.corrupt("the address of a variable")
        })?;
        let mut globals = self.globals.take();
        for pages in globals.missing(&variable) {
            let piece = globals.reserve(&pages)?;
            self.ask(&Request::Share { address: piece.start, len: piece.len, file_offset: piece.file_offset })?;
            globals.add(piece);
        }
        let pieces: Vec<_> = globals.meeting(&variable).collect();
        self.shared.arena.show(&pieces)?;
        Ok(DevicePtr(address))
    }

    fn launch_under(
        &self,
        control: FloatControl,
        stream: StreamId,
        function: FunctionHandle,
        _dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Seq> {
        // The host version of a region runs its gangs one after the other, for any number of them.
        let address = self.functions.read().get(function.0 as usize).map(|f| f.address);
        let address = address.ok_or_else(|| {
            Error::new(ErrorCode::ImplementationDefined, format!("function {} does not exist", function.0))
        })?;
        if !block.is_sound() {
            return Err(Error::new(ErrorCode::ImplementationDefined, "an argument block of impossible size"));
        }
        let (b, c) = (control.to_wire().into(), block.bytes.len() as u64);
        let record = Record { bytes: 0, kind: LAUNCH, seq: 0, after: 0, a: address, b, c };
        self.stream(stream)?.push_worker(record, block.bytes, relative_bytes(&block), None)
    }

    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq> {
        let waiting = self.stream(stream)?;
        if stream != other {
            self.stream(other)?.go_on();
        }
        if stream == other || self.stream(other)?.reached() >= seq.0 {
            waiting.check()?;
            return Ok(waiting.last());
        }
        let record = Record { bytes: 0, kind: WAIT, seq: 0, after: 0, a: u64::from(other.0), b: seq.0, c: 0 };
        waiting.push_worker(record, &[], &[], None)
    }

    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>) {
        match self.stream(stream) {
            Ok(stream) => stream.notify(seq, done),
            Err(error) => done(Err(error)),
        }
    }

    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool> {
        let stream = self.stream(stream)?;
        stream.go_on();
        let reached = stream.reached() >= seq.0;
        stream.check()?;
        Ok(reached)
    }

    fn is_busy(&self) -> Option<bool> {
        let streams = self.streams.read().clone();
        let fails = self.shared.failure.check().is_err();
        Some(!fails && streams.iter().any(|stream| stream.reached() < stream.last().0))
    }

    fn operations(&self) -> u64 {
        self.streams.read().iter().map(|stream| stream.last().0).sum()
    }

    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()> {
        self.stream(stream)?.synchronize(seq)
    }

    fn beats(&self) -> Option<u64> {
        Some(self.shared.watched.beats(self.shared.control.header().beats.load(Ordering::Relaxed)))
    }

    fn give_up(&self) {
        self.shared.give_up();
        self.fail(shut_down());
    }

    fn stop(&self, error: Error) {
        self.fail(error);
        self.process.end();
    }

    fn shutdown(&self) {
        self.fail(shut_down());
        self.process.kill();
        let streams = std::mem::take(&mut *self.streams.write());
        streams.iter().for_each(|stream| stream.close());
        if let Some(output) = &self.shared.output {
            output.drain();
        }
    }
}

impl Drop for CpuDevice {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Returns the relative bitmap as bytes, which follow the block in the ring.
fn relative_bytes<'a>(block: &ArgBlock<'a>) -> &'a [u8] {
    // SAFETY: any bytes of a u64 slice are valid u8s, and the length is in bytes.
    unsafe { std::slice::from_raw_parts(block.relative.as_ptr().cast(), size_of_val(block.relative)) }
}
