//! The one trait that every backend implements, in CUDA's words.

use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, FunctionSpec, GlobalSpec, HostRange, LaunchDims, QueueId, Result, Seq, SpanSink,
    StreamId,
};
use std::sync::Arc;

/// Gives the bytes of a copy to a device, piece by piece and in order.
///
/// Called on one of the device's own threads when the stream has got there; may block.
pub trait Source: Send {
    /// Fills `piece` completely with the next bytes.
    ///
    /// # Errors
    /// An error fails the stream's operation and the stream after it.
    fn fill(&mut self, piece: &mut [u8]) -> Result<()>;

    /// `fill` never blocks and may run on the thread that asks for the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// The bytes are this process's own memory, here: a device may read them itself, by several threads, from the
    /// moment when [`Source::fill`] would have been called until the copy is done.
    fn memory(&self) -> Option<HostRange> {
        None
    }
}

/// Takes the bytes of a copy from a device, piece by piece and in order.
///
/// Called on one of the device's own threads when the stream has got there; may block.
pub trait Sink: Send {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// An error fails the stream's operation and the stream after it.
    fn drain(&mut self, piece: &[u8]) -> Result<()>;

    /// All bytes were given to [`Sink::drain`]. Not called after an error.
    ///
    /// # Errors
    /// As for [`Sink::drain`].
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// `drain` never blocks and may run on the thread that asks for the copy.
    fn immediate(&self) -> bool {
        false
    }

    /// The bytes go to this process's own memory, here: a device may write them itself, in any order; then
    /// [`Sink::drain`] and [`Sink::finish`] are not called.
    fn memory(&self) -> Option<HostRange> {
        None
    }

    /// Whether [`Sink::drain`] may put some of the bytes into this part of this process's memory.
    fn may_write(&self, range: HostRange) -> bool {
        self.memory().is_some_and(|memory| memory.overlaps(range))
    }

    /// Whoever waits for the stream hears of these bytes in another way: they may come to [`Sink::drain`] when the stream has
    /// gone on already.
    fn detached(&self) -> bool {
        false
    }

    /// The bytes go to memory of another process that a GPU of this one reaches. Asked once by a GPU when its stream has got
    /// there; may block. If there is such memory [`Sink::drain`] is not called, and [`Sink::finish`] when the bytes are there.
    ///
    /// # Errors
    /// As for [`Sink::drain`].
    fn reach(&mut self) -> Result<Option<crate::cuda::Reached>> {
        Ok(None)
    }
}

/// Work of the host in a stream's order.
pub type HostOp = Box<dyn FnOnce() -> Result<()> + Send>;

/// A function that a device has looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionHandle(pub u32);

/// One device.
///
/// Every operation that takes a stream is put into it and returns at once with its position;
/// it runs when everything before it in that stream is done. Operations of different
/// streams run in any order and at the same time. An operation that fails makes its stream,
/// and for a crashed region the whole device, fail: later calls and waits return the error.
///
/// Methods may be called from any thread. Calls on one stream from two threads at once
/// are put in either order.
pub trait Device: Send + Sync {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// First address and length of the range whose contents the owner hands out.
    /// Nothing is there until it is mapped.
    fn addresses(&self) -> (DevicePtr, u64);

    /// Bytes that can still be mapped.
    fn memory_free(&self) -> u64;

    /// Makes a stream for `queue`, which traces name.
    ///
    /// # Errors
    /// When the device has failed or can't start.
    fn create_stream(&self, queue: QueueId) -> Result<StreamId>;

    /// From now on reports every launch and copy to `sink`.
    fn trace(&self, sink: Arc<dyn SpanSink>);

    /// Puts memory behind `[start, start + len)`, which must be inside [`Device::addresses`]
    /// and not mapped yet. New memory of a CPU device holds zeros, that of a GPU anything.
    ///
    /// # Errors
    /// `acc_error_out_of_memory`.
    fn map(&self, start: DevicePtr, len: u64) -> Result<()>;

    /// Gives the memory behind a range back once `stream` gets there. All of it must be mapped, by however
    /// many calls.
    ///
    /// # Errors
    /// When the device has failed.
    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq>;

    /// Writes a few bytes; they are taken before the call returns.
    ///
    /// # Errors
    /// When the device has failed or `dst` is not mapped.
    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq>;

    /// Copies `len` bytes from `source` to `dst`.
    ///
    /// # Errors
    /// When the device has failed or `dst` is not mapped.
    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: Box<dyn Source>) -> Result<Seq>;

    /// Copies `len` bytes from `src` to `sink`.
    ///
    /// # Errors
    /// When the device has failed or `src` is not mapped.
    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, sink: Box<dyn Sink>) -> Result<Seq>;

    /// Copies within the device. The ranges may overlap.
    ///
    /// # Errors
    /// When the device has failed or a range is not mapped.
    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq>;

    /// Looks a region up, loading its object if need be. Slow; the result is kept by the caller.
    ///
    /// # Errors
    /// `acc_error_device_init` if the object or the function isn't there.
    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle>;

    /// Address of a global variable, loading its object if need be. It holds the
    /// variable's initial value and is mapped for as long as the device lives.
    ///
    /// # Errors
    /// `acc_error_device_init` if the object isn't there.
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr>;

    /// Runs a region. The block is taken before the call returns.
    ///
    /// # Errors
    /// When the device has failed.
    fn launch(&self, stream: StreamId, function: FunctionHandle, dims: LaunchDims, block: ArgBlock<'_>) -> Result<Seq>;

    /// Makes `stream` wait until `other` has reached `seq`; the host doesn't.
    ///
    /// # Errors
    /// When the device has failed.
    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq>;

    /// Runs `op` on the host in the stream's order (`cuLaunchHostFunc`, but it may block and fail).
    /// It is dropped without running if the stream has failed.
    ///
    /// # Errors
    /// When the device has failed.
    fn host_op(&self, stream: StreamId, op: HostOp) -> Result<Seq>;

    /// Calls `done` once `stream` has reached `seq` or has failed. Unlike [`Device::host_op`]
    /// it is not an operation of the stream, it must not block, and it is always called.
    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>);

    /// Whether `stream` has reached `seq`.
    ///
    /// # Errors
    /// The stream's or device's failure.
    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool>;

    /// Blocks until `stream` has reached `seq`.
    ///
    /// # Errors
    /// The stream's or device's failure.
    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()>;

    /// The device as a GPU of this machine, if it is one.
    fn as_cuda(&self) -> Option<&crate::cuda::CudaDevice> {
        None
    }

    /// Ends the device: work under way is abandoned, memory and workers are gone on return.
    fn shutdown(&self);
}
