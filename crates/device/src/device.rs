//! The trait that every backend implements.

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

/// The objects of a device's driver, for programs that call the driver themselves. Numbers are the driver's
/// own pointers and handles.
pub trait NativeHandles {
    /// Returns the driver's number of the device.
    fn device(&self) -> i32;

    /// Returns the driver's context.
    fn context(&self) -> usize;

    /// Returns the driver's stream, into which the program may put its own work. From now on all operations go directly into it,
    /// without work on the host afterwards.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn expose_stream(&self, stream: StreamId) -> Result<usize>;

    /// Returns the driver's stream, for queries only.
    ///
    /// # Errors
    /// Returns an error if there is no such stream.
    fn stream(&self, stream: StreamId) -> Result<usize>;

    /// Returns a range of the device's memory, for libraries that can access it.
    fn range(&self, start: DevicePtr, len: usize) -> NativeRange;

    /// Returns the range as [`NativeHandles::range`], for a library that writes to it: no operation of this device writes there
    /// any more, except for those that the caller knows. Returns `None` if it is no memory, or the device has failed.
    fn space(&self, start: DevicePtr, len: usize) -> Option<NativeRange>;

    /// Makes a stream of the program one of this device's. The program still has to destroy it.
    ///
    /// # Errors
    /// Returns an error if the device has failed or has too many streams.
    fn adopt_stream(&self, queue: QueueId, raw: usize) -> Result<StreamId>;
}

/// One device.
///
/// An operation that names a stream is enqueued there, and the call returns at once with its position. It runs when all
/// earlier operations of the stream are done. Operations of different streams run in any order and concurrently. An
/// operation that fails makes its stream fail, and a crashed region the whole device: later calls and waits return the
/// error.
///
/// Any thread may call these methods. Concurrent calls on one stream are enqueued in either order.
pub trait Device: Any + Send + Sync {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns the capabilities of the device's kind.
    fn capabilities(&self) -> &'static Capabilities;

    /// Returns the first address and the length of the range from which the owner allocates. No memory is there until it is
    /// mapped.
    fn addresses(&self) -> (DevicePtr, u64);

    /// Bytes that can still be mapped.
    fn memory_free(&self) -> u64;

    /// Whether regions can access all memory of this process by its own addresses.
    fn reaches_program_memory(&self) -> bool {
        false
    }

    /// Creates a stream for `queue`, which traces name.
    ///
    /// # Errors
    /// Returns an error if the device has failed or can't start.
    fn create_stream(&self, queue: QueueId) -> Result<StreamId>;

    /// Reports every launch and copy to `sink` from now on.
    fn trace(&self, sink: Arc<dyn SpanSink>);

    /// Maps memory at `[start, start + len)`, which must be inside [`Device::addresses`] and not mapped yet. New memory of a
    /// CPU device contains zeros, that of a GPU arbitrary bytes.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn map(&self, start: DevicePtr, len: u64) -> Result<()>;

    /// Allocates `len` bytes by the driver, at an address that it chooses, in place of [`Device::map`]. The device's start decides which of the two is used.
    /// [`Device::unmap`] frees the whole allocation.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        Err(Error::new(ErrorCode::ImplementationDefined, format!("no {len} bytes: memory is mapped on this device")))
    }

    /// Frees the memory of a range once `stream` gets there. All of it must be mapped, by any number of calls.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn unmap(&self, stream: StreamId, start: DevicePtr, len: u64) -> Result<Seq>;

    /// Writes a few bytes, which are read before the call returns.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `dst` is not mapped.
    fn store(&self, stream: StreamId, dst: DevicePtr, bytes: &[u8]) -> Result<Seq>;

    /// Copies `len` bytes from `source` to `dst`.
    ///
    /// # Errors
    /// Returns an error if the device has failed or `dst` is not mapped.
    fn copy_in(&self, stream: StreamId, dst: DevicePtr, len: u64, source: CopySource) -> Result<Seq>;

    /// Copies memory of the program in. `when` tells when it is read; it must not be freed until the copy has been waited for.
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

    /// Copies to another device of this process, after `after` of that device's streams, if this needs neither host memory nor a thread. Otherwise returns
    /// `None`, without effect.
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

    /// Resolves a region, loading its object if necessary. Slow; the caller keeps the result.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the object or the function does not exist.
    fn function(&self, spec: &FunctionSpec) -> Result<FunctionHandle>;

    /// Returns the address of a global variable, loading its object if necessary. The variable has its initial value, and is
    /// mapped as long as the device lives.
    ///
    /// # Errors
    /// Returns `acc_error_device_init` if the object does not exist.
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr>;

    /// Returns the dimensions of a launch with these requested ones, or the same if the launch will fail.
    fn grid(&self, function: FunctionHandle, dims: LaunchDims) -> LaunchDims {
        let _ = function;
        self.capabilities().fixed_dims.unwrap_or(dims)
    }

    /// Launches a region with the default floating-point control state, see [`Device::launch_under`].
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn launch(&self, stream: StreamId, function: FunctionHandle, dims: LaunchDims, block: ArgBlock<'_>) -> Result<Seq> {
        self.launch_under(FloatControl::default(), stream, function, dims, block)
    }

    /// Launches a region. The block is read before the call returns. `control` is the floating-point control state of the launching
    /// thread, which matters only where regions run as code of the program.
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
    ) -> Result<Seq>;

    /// Launches as [`Device::launch`], but returns `None` instead of waiting for space in the stream. So it may be called with
    /// locks held.
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

    /// Makes `stream` wait until `other` has reached `seq`. The host does not wait.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    fn wait_stream(&self, stream: StreamId, other: StreamId, seq: Seq) -> Result<Seq>;

    /// Calls `done` once `stream` has reached `seq` or has failed. It is always called, is no operation of the stream, and must
    /// not block.
    fn notify(&self, stream: StreamId, seq: Seq, done: Box<dyn FnOnce(Result<()>) + Send>);

    /// Whether `stream` has reached `seq`.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn reached(&self, stream: StreamId, seq: Seq) -> Result<bool>;

    /// Whether a stream has incomplete operations, for a sample of the device's use; `None` if unknown. Does not block, and
    /// enqueues no work.
    fn is_busy(&self) -> Option<bool> {
        None
    }

    /// Returns the number of operations that the device's streams have taken, for a sample of its use. Does not block; a
    /// stream that is just taking one may be left out.
    fn operations(&self) -> u64 {
        0
    }

    /// Orders all later operations of any stream of the device after the operation at `seq` of `stream`, so that no caller must
    /// wait for it. Other accesses to the device's memory still must. Returns `false` if this is impossible now without
    /// blocking.
    fn fence(&self, stream: StreamId, seq: Seq) -> bool {
        let _ = (stream, seq);
        false
    }

    /// Blocks until `stream` has reached `seq`.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device.
    fn synchronize(&self, stream: StreamId, seq: Seq) -> Result<()>;

    /// Declares that part of the program's memory is copied repeatedly. The device may page-lock it in the background, so that its engines can access it,
    /// until [`Device::unregister_pages`] is called as often.
    fn register_pages(&self, range: HostRange) {
        let _ = range;
    }

    /// Reverts [`Device::register_pages`]. With a stream, which has the last copy out, this happens when the stream gets there; the position is returned.
    /// Without one it happens before the call returns, which waits for the copies that use the memory.
    ///
    /// # Errors
    /// Returns the failure of the stream or the device. The memory may be freed nevertheless.
    fn unregister_pages(&self, stream: Option<StreamId>, range: HostRange) -> Result<Option<Seq>> {
        let _ = (stream, range);
        Ok(None)
    }

    /// Returns the driver's objects, if the device has a driver.
    fn native(&self) -> Option<&dyn NativeHandles> {
        None
    }

    /// Returns the export of the device's memory to other processes of the machine.
    fn exports(&self) -> Option<Arc<dyn ExportMemory>> {
        None
    }

    /// Returns the import of memory of other processes of the machine.
    fn imports(&self) -> Option<Arc<dyn ImportMemory>> {
        None
    }

    /// Returns the number of heartbeats of the device's process, about one per second, or `None` if it has none.
    fn beats(&self) -> Option<u64> {
        None
    }

    /// Ends the device's process, which does not respond. All operations in progress fail.
    fn give_up(&self) {}

    /// Makes the device fail: waiting and later calls return `error`. A worker process is ended. Memory stays mapped until
    /// [`Device::shutdown`]. A device that has failed before keeps its first error.
    fn stop(&self, error: Error);

    /// Ends the device. Operations in progress are abandoned, and memory and workers are gone on return.
    fn shutdown(&self);
}
