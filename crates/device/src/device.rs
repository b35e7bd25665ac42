//! The one trait that every backend implements, in CUDA's words.

use crate::any_end::{CopySink, CopySource};
use crate::capabilities::Capabilities;
use crate::ipc::{ExportMemory, ImportMemory};
use accord_types::{
    ArgBlock, DeviceInfo, DevicePtr, Error, ErrorCode, FloatControl, FunctionSpec, GlobalSpec, HostRange, LaunchDims,
    NativeRange, QueueId, ReadWhen, Result, Seq, SpanSink, StreamId,
};
use std::any::Any;
use std::sync::Arc;

/// A function that a device has looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionHandle(pub u32);

/// The objects of a device's driver, for programs that use CUDA themselves (OpenACC 3.3, A.2.1). Numbers are the driver's
/// own pointers and handles.
pub trait NativeHandles {
    /// The driver's number of the device (`acc_get_current_cuda_device`).
    fn device(&self) -> i32;

    /// The context (`acc_get_current_cuda_context`).
    fn context(&self) -> usize;

    /// The driver's stream behind a stream (`acc_get_cuda_stream`). The program may put work of its own into it: from now on
    /// everything goes straight into it, too, and nothing is left to do on the host afterwards.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn expose_stream(&self, stream: StreamId) -> Result<usize>;

    /// The driver's stream behind a stream, for looking at only.
    ///
    /// # Errors
    /// Returns an error if there is no such stream.
    fn stream(&self, stream: StreamId) -> Result<usize>;

    /// Part of its memory, for libraries that reach it.
    fn range(&self, start: DevicePtr, len: usize) -> NativeRange;

    /// Returns the range as [`NativeHandles::range`], for a library that writes there by itself: nothing that this
    /// device has begun does any more but for what the caller knows of. `None` if it is not memory, or the device has
    /// failed.
    fn room(&self, start: DevicePtr, len: usize) -> Option<NativeRange>;

    /// A stream of the program's as one of this device's (`acc_set_cuda_stream`). It stays the program's to destroy.
    ///
    /// # Errors
    /// Returns an error if the device has failed or has too many streams.
    fn adopt_stream(&self, queue: QueueId, raw: usize) -> Result<StreamId>;
}

/// One device.
///
/// Every operation that takes a stream is put into it and returns at once with its position;
/// it runs when everything before it in that stream is done. Operations of different
/// streams run in any order and at the same time. An operation that fails makes its stream,
/// and for a crashed region the whole device, fail: later calls and waits return the error.
///
/// Methods may be called from any thread. Calls on one stream from two threads at once
/// are put in either order.
pub trait Device: Any + Send + Sync {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns the capabilities of devices of its kind.
    fn capabilities(&self) -> &'static Capabilities;

    /// First address and length of the range whose contents the owner hands out.
    /// Nothing is there until it is mapped.
    fn addresses(&self) -> (DevicePtr, u64);

    /// Bytes that can still be mapped.
    fn memory_free(&self) -> u64;

    /// Whether regions reach all memory of this process by its own addresses.
    fn reaches_program_memory(&self) -> bool {
        false
    }

    /// Makes a stream for `queue`, which traces name.
    ///
    /// # Errors
    /// Returns an error if the device has failed or can't start.
    fn create_stream(&self, queue: QueueId) -> Result<StreamId>;

    /// Reports every launch and copy to `sink` from now on.
    fn trace(&self, sink: Arc<dyn SpanSink>);

    /// Puts memory behind `[start, start + len)`, which must be inside [`Device::addresses`]
    /// and not mapped yet. New memory of a CPU device holds zeros, that of a GPU anything.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn map(&self, start: DevicePtr, len: u64) -> Result<()>;

    /// Takes `len` bytes as one allocation of the driver's own, where that likes, in place of [`Device::map`]: which of the two is settled at the
    /// start. It goes back by [`Device::unmap`], as a whole.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        Err(Error::new(ErrorCode::ImplementationDefined, format!("no {len} bytes: memory is mapped on this device")))
    }

    /// Gives the memory behind a range back once `stream` gets there. All of it must be mapped, by however
    /// many calls.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq>;

    /// Writes a few bytes; they are taken before the call returns.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `dst` is not mapped.
    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq>;

    /// Copies `len` bytes from `source` to `dst`.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `dst` is not mapped.
    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: CopySource) -> Result<Seq>;

    /// Copies memory of the program in, which is read as `when` says and stays where it is until the copy has been waited for.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `dst` is not mapped.
    fn copy_in_program(&self, stream: StreamId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<Seq> {
        let now = when == ReadWhen::BeforeReturn;
        let seq = self.copy_in(stream, dst, src.len as u64, CopySource::program(src, now))?;
        if now {
            self.synchronize(stream, seq)?;
        }
        Ok(seq)
    }

    /// Copies `len` bytes from `src` to `sink`.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `src` is not mapped.
    fn copy_out(&self, stream: StreamId, src: DevicePtr, len: u64, sink: CopySink) -> Result<Seq>;

    /// Copies within the device. The ranges may overlap.
    ///
    /// # Errors
    /// Returns an error if the device has failed or a range is not mapped.
    fn copy(&self, stream: StreamId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<Seq>;

    /// Copies to another device of this process, after `after` of that device's streams, if neither host memory nor a thread has
    /// to take part. None if it can't be done so; then nothing was done.
    ///
    /// # Errors
    /// Returns an error if one of the devices has failed.
    fn copy_to(
        &self,
        stream: StreamId,
        src: DevicePtr,
        target: &dyn Device,
        dst: DevicePtr,
        len: u64,
        after: Option<(StreamId, Seq)>,
    ) -> Result<Option<Seq>> {
        let _ = (stream, src, target, dst, len, after);
        Ok(None)
    }

    /// Looks a region up, loading its object if need be. Slow; the result is kept by the caller.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the object or the function isn't there.
    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle>;

    /// Address of a global variable, loading its object if need be. It holds the
    /// variable's initial value and is mapped for as long as the device lives.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the object isn't there.
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr>;

    /// Returns the dimensions that a launch with these will have; the same ones if the launch will fail.
    fn grid(&self, function: FunctionHandle, dims: LaunchDims) -> LaunchDims {
        let _ = function;
        self.capabilities().fixed_dims.unwrap_or(dims)
    }

    /// Runs a region. The block is taken before the call returns.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn launch(&self, stream: StreamId, function: FunctionHandle, dims: LaunchDims, block: ArgBlock<'_>) -> Result<Seq>;

    /// Launches as [`Device::launch`], in the floating-point control state of the thread that launches it, where
    /// regions run as code of the program.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn launch_under(
        &self,
        control: FloatControl,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Seq> {
        let _ = control;
        self.launch(stream, function, dims, block)
    }

    /// Launches as [`Device::launch`], but never waits for room in the stream: returns `None` if there is none. So it
    /// may be called with locks held.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn try_launch(
        &self,
        stream: StreamId,
        function: FunctionHandle,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<Option<Seq>> {
        if self.capabilities().launch_may_wait {
            return Ok(None);
        }
        self.launch(stream, function, dims, block).map(Some)
    }

    /// Makes `stream` wait until `other` has reached `seq`; the host doesn't.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq>;

    /// Calls `done` once `stream` has reached `seq` or has failed. It is not an operation of the stream, must not block, and is
    /// always called.
    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>);

    /// Whether `stream` has reached `seq`.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool>;

    /// Returns whether a stream has incomplete operations, for a sample of the device's use; `None` if that is unknown.
    /// Does not block, and enqueues nothing.
    fn is_busy(&self) -> Option<bool> {
        None
    }

    /// Orders all operations that are enqueued on any stream of the device from now on after the operation at `seq` of
    /// `stream`, so that no caller has to wait for it. Other accesses to the device's memory still have to. Returns
    /// `false` if that is impossible without blocking now.
    fn fence(&self, stream: StreamId, seq: Seq) -> bool {
        let _ = (stream, seq);
        false
    }

    /// Blocks until `stream` has reached `seq`.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()>;

    /// Part of the program's memory is copied again and again: the device may page-lock it so that its engines reach it, in the
    /// background, until [`Device::unregister_pages`] is called as often.
    fn register_pages(&self, range: HostRange) {
        let _ = range;
    }

    /// Ends what [`Device::register_pages`] has begun. With a stream, into which the last copy out was put, when that gets there: the
    /// position is returned. Without one before the call returns, which waits for the copies that use the memory.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device; the memory is free to go all the same.
    fn unregister_pages(&self, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        let _ = (stream, range);
        Ok(None)
    }

    /// The driver's objects, if there are such.
    fn native(&self) -> Option<&dyn NativeHandles> {
        None
    }

    /// Its memory, for other processes of the machine.
    fn exports(&self) -> Option<Arc<dyn ExportMemory>> {
        None
    }

    /// Memory of other processes of the machine that it maps.
    fn imports(&self) -> Option<Arc<dyn ImportMemory>> {
        None
    }

    /// Returns how often the heart of the process behind it has beaten, about once a second; `None` if there is no such
    /// process.
    fn beats(&self) -> Option<u64> {
        None
    }

    /// The process behind it gives no sign of life: it is ended, and all that is under way fails.
    fn give_up(&self) {}

    /// Makes the device fail: calls that wait for it, and all later ones, return `error`. A worker process is ended. Memory
    /// stays until [`Device::shutdown`]. A device that has failed before keeps its first error.
    fn stop(&self, error: Error);

    /// Ends the device: work under way is abandoned, memory and workers are gone on return.
    fn shutdown(&self);
}
