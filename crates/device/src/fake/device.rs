//! A device in memory, for tests of all code above devices: real order, real bytes, one thread per stream. Regions are Rust
//! closures, and tests can make the device fail.

use super::memory::FakeMemory;
use super::stream::{HostOp, Stream, lock};
use crate::any_end::{CopySink, CopySource};
use crate::capabilities::Capabilities;
use crate::device::{Device, FunctionHandle};
use accord_types::short_lock::{ShortLock, ShortRwLock};
use accord_types::{
    AddressRange, ArgBlock, DeviceId, DeviceInfo, DeviceKind, DevicePtr, DeviceType, Error, ErrorCode, FloatControl,
    FunctionSpec, GlobalSpec, LaunchDims, QueueId, Result, Seq, Span, SpanKind, SpanSink, StreamId,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Bytes of one piece of a copy.
const PIECE: usize = 256 << 10;
/// Device address of ordinal 0, and the distance to the next.
const BASE: u64 = AddressRange::WINDOW.start.0;
const STRIDE: u64 = 1 << 40;
/// Most bytes of a store, as for other devices.
const STORE_MAX: usize = 4096;

/// A number of no kind, so that no node offers such devices.
pub(super) const KIND: DeviceKind = DeviceKind::from_number(255);

pub(super) static CAPABILITIES: Capabilities = Capabilities {
    device_type: DeviceType::Cpu,
    fallback: false,
    fixed_dims: None,
    launch_may_wait: false,
    quick_to_ask: false,
    takes_images: false,
    sees_named_memory_only: false,
    guards_blocks: false,
    runs_program: false,
    prints_here: false,
    native_handles: false,
    allocates: false,
    shares_memory: false,
};

/// Addresses of a device.
pub(super) const ADDRESSES: u64 = STRIDE / 2;

/// The arguments of a fake region.
pub struct FakeLaunch<'a> {
    /// The device's memory.
    pub memory: &'a FakeMemory,
    /// The argument block's slots; relative ones hold offsets into `block`.
    pub slots: &'a [u64],
    /// The whole argument block.
    pub block: &'a [u8],
    /// Dimensions of the launch.
    pub dims: LaunchDims,
}

/// A fake region. It may block. Its error fails the stream.
pub type FakeRegion = Arc<dyn Fn(&FakeLaunch<'_>) -> Result<()> + Send + Sync>;

/// A device in memory.
pub struct FakeDevice {
    info: DeviceInfo,
    place: AddressRange,
    memory: Arc<FakeMemory>,
    streams: ShortRwLock<Vec<Arc<Stream>>>,
    /// Regions by their offset in the program.
    regions: ShortLock<HashMap<u64, (String, FakeRegion)>>,
    functions: ShortRwLock<Vec<(String, FakeRegion)>>,
    failure: ShortLock<Option<Error>>,
    trace: ShortRwLock<Option<Arc<dyn SpanSink>>>,
    began: Instant,
}

impl FakeDevice {
    /// A device with `memory` bytes that can be mapped.
    pub fn new(id: DeviceId, node_name: &str, memory: u64) -> Arc<Self> {
        Self::at(id, node_name, memory, None)
    }

    /// Creates a device with its memory at `place`.
    pub fn at(id: DeviceId, node_name: &str, memory: u64, place: Option<AddressRange>) -> Arc<Self> {
        let info = DeviceInfo {
            id,
            node_name: node_name.to_owned(),
            kind: KIND,
            name: "fake".to_owned(),
            vendor: "Accord".to_owned(),
            driver: "0".to_owned(),
            uuid: String::new(),
            memory,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        };
        Self::of(info, place)
    }

    /// The device that `info` describes.
    pub(super) fn of(info: DeviceInfo, place: Option<AddressRange>) -> Arc<Self> {
        let memory = FakeMemory::new(info.memory);
        let usual = DevicePtr(BASE + u64::from(info.id.ordinal) * STRIDE);
        Arc::new(Self {
            info,
            place: place.unwrap_or(AddressRange { start: usual, len: ADDRESSES }),
            memory: Arc::new(memory),
            streams: ShortRwLock::default(),
            regions: ShortLock::default(),
            functions: ShortRwLock::default(),
            failure: ShortLock::default(),
            trace: ShortRwLock::default(),
            began: Instant::now(),
        })
    }

    /// Defines the region at `offset` of the program.
    pub fn register(&self, offset: u64, name: &str, region: FakeRegion) {
        lock(&self.regions).insert(offset, (name.to_owned(), region));
    }

    /// Makes the device fail as if its worker had crashed.
    pub fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert_with(|| error.clone());
        // Waiters are notified, and may call anything.
        let streams = self.streams.read().clone();
        streams.iter().for_each(|stream| stream.fail(&error));
    }

    /// The device's memory.
    pub fn memory(&self) -> &FakeMemory {
        &self.memory
    }

    /// Returns the number of operations that the streams have not begun.
    pub fn pending(&self) -> usize {
        self.streams.read().iter().map(|stream| stream.pending()).sum()
    }

    /// Whether [`Device::shutdown`] was called, or the device has failed.
    pub fn has_ended(&self) -> bool {
        lock(&self.failure).is_some()
    }

    fn put(&self, stream: StreamId, op: HostOp) -> Result<Seq> {
        if let Some(error) = &*lock(&self.failure) {
            return Err(error.clone());
        }
        self.stream(stream)?.put(op)
    }

    fn stream(&self, id: StreamId) -> Result<Arc<Stream>> {
        let streams = self.streams.read();
        streams
            .get(id.0 as usize)
            .cloned()
            .ok_or_else(|| Error::new(ErrorCode::ImplementationDefined, format!("stream {} does not exist", id.0)))
    }

    /// Wraps `op` with a trace.
    fn traced(&self, stream: StreamId, kind: SpanKind, name: &str, bytes: u64, op: HostOp) -> Result<HostOp> {
        let Some(sink) = self.trace.read().clone() else { return Ok(op) };
        let (device, queue, name, began) = (self.info.id, self.stream(stream)?.queue, name.to_owned(), self.began);
        Ok(Box::new(move || {
            let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let start_ns = now();
            op()?;
            sink.span(Span { device, queue, kind, name, bytes, start_ns, end_ns: now() });
            Ok(())
        }))
    }
}

impl Device for FakeDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capabilities(&self) -> &'static Capabilities {
        &CAPABILITIES
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        (self.place.start, self.place.len)
    }

    fn memory_free(&self) -> u64 {
        self.memory.free()
    }

    fn create_stream(&self, queue: QueueId) -> Result<StreamId> {
        if let Some(error) = &*lock(&self.failure) {
            return Err(error.clone());
        }
        let mut streams = self.streams.write();
        streams.push(Stream::start(queue)?);
        Ok(StreamId(u32::try_from(streams.len() - 1).unwrap_or(u32::MAX)))
    }

    fn trace(&self, sink: Arc<dyn SpanSink>) {
        *self.trace.write() = Some(sink);
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        self.memory.map(start, len)
    }

    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq> {
        let memory = self.memory.clone();
        self.put(stream, Box::new(move || memory.unmap(start, len)))
    }

    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq> {
        if bytes.len() > STORE_MAX {
            return Err(Error::new(ErrorCode::ImplementationDefined, "a store of more than 4 KiB"));
        }
        self.memory.check(dst, bytes.len() as u64)?;
        let (memory, bytes) = (self.memory.clone(), bytes.to_vec());
        self.put(stream, Box::new(move || memory.write(dst, &bytes)))
    }

    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, mut source: CopySource) -> Result<Seq> {
        self.memory.check(dst, len)?;
        let memory = self.memory.clone();
        let op = Box::new(move || {
            let mut piece = vec![0; PIECE];
            let mut done = 0;
            while done < len {
                let n = usize::try_from(len - done).unwrap_or(PIECE).min(PIECE);
                source.fill(&mut piece[..n])?;
                memory.write(dst.offset(done), &piece[..n])?;
                done += n as u64;
            }
            Ok(())
        });
        self.put(stream, self.traced(stream, SpanKind::CopyIn, "", len, op)?)
    }

    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, mut sink: CopySink) -> Result<Seq> {
        self.memory.check(src, len)?;
        let memory = self.memory.clone();
        let op = Box::new(move || {
            let mut piece = vec![0; PIECE];
            let mut done = 0;
            while done < len {
                let n = usize::try_from(len - done).unwrap_or(PIECE).min(PIECE);
                memory.read(src.offset(done), &mut piece[..n])?;
                sink.drain(&piece[..n])?;
                done += n as u64;
            }
            sink.finish()
        });
        self.put(stream, self.traced(stream, SpanKind::CopyOut, "", len, op)?)
    }

    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq> {
        self.memory.check(dst, len)?;
        self.memory.check(src, len)?;
        let memory = self.memory.clone();
        let op = Box::new(move || {
            let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
            memory.read(src, &mut bytes)?;
            memory.write(dst, &bytes)
        });
        self.put(stream, self.traced(stream, SpanKind::Copy, "", len, op)?)
    }

    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle> {
        let region = lock(&self.regions).get(&spec.offset).cloned().ok_or_else(|| {
            Error::new(ErrorCode::DeviceInit, format!("no region is registered at {:#x}", spec.offset))
        })?;
        let mut functions = self.functions.write();
        functions.push(region);
        Ok(FunctionHandle(u32::try_from(functions.len() - 1).unwrap_or(u32::MAX)))
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        // Beyond the range from which the owner allocates.
        let start = self.place.start.offset(self.place.len + spec.offset);
        if self.memory.check(start, spec.len).is_err() {
            self.memory.map(start, spec.len)?;
        }
        Ok(start)
    }

    fn launch_under(
        &self,
        _control: FloatControl,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Seq> {
        let functions = self.functions.read();
        let (name, region) = functions.get(function.0 as usize).cloned().ok_or_else(|| {
            Error::new(ErrorCode::ImplementationDefined, format!("function {} does not exist", function.0))
        })?;
        drop(functions);
        let words = block.bytes.chunks_exact(8).take(block.slots as usize);
        let slots: Vec<u64> = words.map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        let (memory, block) = (self.memory.clone(), block.bytes.to_vec());
        let op = Box::new(move || region(&FakeLaunch { memory: &memory, slots: &slots, block: &block, dims }));
        self.put(stream, self.traced(stream, SpanKind::Launch, &name, 0, op)?)
    }

    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq> {
        let other = self.stream(other)?;
        self.put(stream, Box::new(move || other.synchronize(seq)))
    }

    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>) {
        match self.stream(stream) {
            Ok(stream) => stream.notify(seq, done),
            Err(error) => done(Err(error)),
        }
    }

    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool> {
        self.stream(stream)?.reached(seq)
    }

    fn is_busy(&self) -> Option<bool> {
        Some(self.streams.read().iter().any(|stream| stream.is_busy()))
    }

    fn operations(&self) -> u64 {
        self.streams.read().iter().map(|stream| stream.last()).sum()
    }

    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()> {
        self.stream(stream)?.synchronize(seq)
    }

    fn stop(&self, error: Error) {
        self.fail(error);
    }

    fn shutdown(&self) {
        self.fail(Error::new(ErrorCode::DeviceShutdown, "the device was shut down"));
    }
}
