//! The runtime's interfaces to its environment: devices to drive, memory of the program to read.

use accord_types::short_lock::ShortLock;
use accord_types::{
    AddressRange, ArgBlock, DeviceInfo, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec,
    HostRange, LaunchDims, NodeId, QueueId, Result,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub use accord_types::ReadWhen;

/// Bytes of larger copies (not those inside commands) between a program and one node, and the time that they took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    /// Bytes to the node.
    pub sent: u64,
    /// Nanoseconds that sending them took.
    pub sent_ns: u64,
    /// Bytes from the node.
    pub received: u64,
    /// Nanoseconds that receiving them took.
    pub received_ns: u64,
}

/// One device as the program drives it: in-process, or at the other end of a link.
///
/// Operations go into a queue and return at once; none of them costs a round trip except
/// [`DeviceClient::wait`], [`DeviceClient::test`], [`DeviceClient::global`] and [`DeviceClient::memory_free`]. A queue exists from its first use.
/// A later call on the same queue or device returns an error of an earlier operation.
pub trait DeviceClient: Send + Sync {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// Returns the type under which the program sees it.
    fn device_type(&self) -> DeviceType;

    /// Whether its regions access only memory that a launch's arguments or a pointer variable name.
    fn sees_named_memory_only(&self) -> bool {
        false
    }

    /// Whether accesses beside mapped memory fault by pages of 4 KiB with `ACCORD_CHECK=bounds`.
    fn guards_blocks(&self) -> bool {
        false
    }

    /// Changes the program's number of it. Comes before [`DeviceClient::start`].
    fn renumber(&self, num: DeviceNum) {
        let _ = num;
    }

    /// Whether another process drives it.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the route of operations to the device, as text: what carries them, and why. `None` before the first.
    fn route(&self) -> Option<String> {
        Some("in-process".to_owned())
    }

    /// Returns first address and length of the address range of this program's allocator.
    fn addresses(&self) -> (DevicePtr, u64);

    /// Returns how many addresses the device likes to have.
    fn addresses_wanted(&self) -> u64 {
        self.info().memory
    }

    /// Sets the place of the device's memory for its next start, so that no other device of the session has the same
    /// addresses. [`DeviceClient::addresses`] returns the actual place then.
    fn lie_at(&self, place: AddressRange) {
        let _ = place;
    }

    /// Starts the device (`acc_init`): connects a remote one, starts a worker.
    /// Called before anything else and again after [`DeviceClient::shutdown`].
    ///
    /// # Errors
    /// Returns `acc_error_device_init`, `acc_error_device_unavailable`.
    fn start(&self) -> Result<()>;

    /// Maps memory at a range of [`DeviceClient::addresses`]. Granularity: 2 MiB.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` here if it can be known, else at a later call.
    fn map(&self, start: DevicePtr, len: u64) -> Result<()>;

    /// Whether memory comes from [`DeviceClient::allocate`] and not by [`DeviceClient::map`]: then the device has no addresses of its
    /// own, and its driver chooses the place of each allocation. Fixed for the life of the session.
    fn allocates(&self) -> bool {
        false
    }

    /// Allocates `len` bytes of memory, as one allocation of the driver, and returns its place. [`DeviceClient::unmap`] frees it, as a whole.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        Err(Error::new(ErrorCode::ImplementationDefined, format!("no {len} bytes: memory is mapped on this device")))
    }

    /// Returns the memory of a range when `queue` gets there.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()>;

    /// Writes a few bytes (at most 4 KiB), read before the call returns.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()>;

    /// Copies the program's memory to the device.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()>;

    /// Announces that part of the program's memory, which stays in place until [`DeviceClient::unregister_pages`], is copied often: a device may
    /// make that faster. Never blocks.
    fn register_pages(&self, range: HostRange) {
        let _ = range;
    }

    /// Ends [`DeviceClient::register_pages`] of the same range: the program may free the memory. `after` is the queue with the
    /// last copy to it, which ends it in its turn. Without one it is done before the call returns.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn unregister_pages(&self, after: Option<QueueId>, range: HostRange) -> Result<()> {
        let _ = (after, range);
        Ok(())
    }

    /// Copies device memory to the program's. Done when the queue is waited for.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()>;

    /// Copies a block that was filled with `sent` (at most 4 KiB) back to the program's memory like [`DeviceClient::copy_out`]. Each part
    /// goes to its own place, and only changed bytes are written. With a `chain` it is one variable, compared with what the chain's
    /// last copy brought, if there was one.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy_out_changed(
        &self,
        queue: QueueId,
        src: DevicePtr,
        sent: &[u8],
        parts: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()>;

    /// Compares device memory with the program's, which is read-only. It replaces a copy out to `whole`, of which it is a part or
    /// all. A difference is an error of the queue.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange, whole: HostRange) -> Result<()>;

    /// Returns how often [`DeviceClient::copy_out_changed`] of any device has written: while that stays unchanged, the
    /// program's memory has no new values from there.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// Copies within the device.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()>;

    /// Runs a region. `key` identifies the function cheaply (its host address); `spec` is called
    /// on the first launch of that key only.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()>;

    /// Returns the dimensions of a launch with these arguments, for observers: 0 where only the device knows.
    fn grid(&self, key: u64, spec: &dyn Fn() -> Result<FunctionSpec>, dims: LaunchDims) -> LaunchDims {
        let _ = (key, spec);
        dims
    }

    /// Forgets functions of an unloaded object: keys in this range are no longer valid.
    fn forget_functions(&self, keys: std::ops::Range<u64>);

    /// Returns the device address of a `declare` variable.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr>;

    /// Makes `queue` wait for everything now in `other`.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()>;

    /// Blocks until everything now in `queues` is done. Takes one round trip for any number of them.
    ///
    /// # Errors
    /// Returns the first failure of those queues.
    fn wait(&self, queues: &[QueueId]) -> Result<()>;

    /// Queries the progress of queues that the program has waited for before, as a thread is about to wait for another device's and
    /// may wait for these next. Neither waits nor fails: the next wait returns a failure.
    fn ask_ahead(&self) {}

    /// Whether everything now in `queues` is done.
    ///
    /// # Errors
    /// Returns the first failure of those queues.
    fn test(&self, queues: &[QueueId]) -> Result<bool>;

    /// Returns the bytes that can still be mapped (`acc_property_free_memory` less what the allocator holds).
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn memory_free(&self) -> Result<u64>;

    /// Returns how many bytes of the device a session may use, if the cluster limits that.
    fn quota(&self) -> Option<u64> {
        None
    }

    /// Returns the traffic between this process and the device's node so far; `None` if it is this process's.
    fn wire(&self) -> Option<Wire> {
        None
    }

    /// Whether regions of the started device access host memory by its own addresses.
    fn reaches_program_memory(&self) -> bool {
        false
    }

    /// Returns the CUDA driver's own objects behind the device, if it has any.
    fn cuda(&self) -> Option<&dyn CudaObjects> {
        None
    }

    /// Ends this program's use of the device: its memory, queues and workers are gone.
    /// [`DeviceClient::start`] may be called again.
    ///
    /// # Errors
    /// Returns `acc_error_device_shutdown`.
    fn shutdown(&self) -> Result<()>;
}

/// A started device's objects in the CUDA driver (OpenACC 3.3, A.2.1), as numbers.
pub trait CudaObjects: Send + Sync {
    /// Returns the driver's number of the device.
    ///
    /// # Errors
    /// Returns an error if it is not started.
    fn device(&self) -> Result<i32>;

    /// The context.
    ///
    /// # Errors
    /// Returns an error if the device is not started.
    fn context(&self) -> Result<usize>;

    /// The context, made at once if the device has not started.
    ///
    /// # Errors
    /// Returns the driver's error.
    fn make_context(&self) -> Result<usize>;

    /// Returns the stream of a queue. From now on the program may put its own work into it.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceClient`].
    fn stream(&self, queue: QueueId) -> Result<usize>;

    /// The stream of a queue, for looking at only; 0 where the queue has none yet.
    fn stream_of(&self, queue: QueueId) -> usize;

    /// Makes a stream of the program's a queue's own, and waits for what was in the queue.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceClient`].
    fn set_stream(&self, queue: QueueId, stream: usize) -> Result<()>;
}

/// The devices of a session, in the order of their device numbers.
pub trait Cluster: Send + Sync {
    /// Returns all devices, of whatever type. Fixed for the life of the session.
    fn clients(&self) -> &[Arc<dyn DeviceClient>];

    /// Returns the program's own node, if it is one of the cluster's.
    fn own_node(&self) -> Option<NodeId> {
        None
    }

    /// Copies from one device to another (indices into [`Cluster::ports`]), in the order of
    /// `queue` of the source device. Earlier synchronous operations on the target
    /// come first there. Waiting for `queue` of the source includes the arrival.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceClient`].
    fn copy_between(
        &self,
        queue: QueueId,
        source: usize,
        src: DevicePtr,
        target: usize,
        dst: DevicePtr,
        len: u64,
    ) -> Result<()>;
}

/// A variable of the program in a block that is copied as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Offset in the block.
    pub at: usize,
    /// Target in the program's memory.
    pub dst: HostRange,
}

/// A variable that regions change one after the other, each from the previous one's value. Its copies back are done in that
/// order.
#[derive(Debug, Default)]
pub struct Chain(ShortLock<ChainState>);

#[derive(Debug, Default)]
struct ChainState {
    /// The last value that arrived.
    last: Option<[u8; CHAIN_BYTES_MAX]>,
    /// Effects of the regions whose values have not arrived.
    effects: VecDeque<Arc<RegionEffect>>,
}

/// Whether a region changes one of its small variables, according to its launches so far.
#[derive(Debug, Default)]
pub struct RegionEffect(AtomicU8);

impl RegionEffect {
    const KEEPS: u8 = 1;
    const CHANGES: u8 = 2;

    /// Whether it has changed it, or may have.
    pub(crate) fn may_change(&self) -> bool {
        self.0.load(Ordering::Relaxed) != Self::KEEPS
    }

    /// Records whether a launch has changed its variable: a later one may do so again.
    fn note(&self, changed: bool) {
        self.0.fetch_max(if changed { Self::CHANGES } else { Self::KEEPS }, Ordering::Relaxed);
    }
}

/// Longest variable of a chain.
pub const CHAIN_BYTES_MAX: usize = 32;

impl Chain {
    /// Records the next value of the chain. Returns whether its region has changed the value that it found. The chain's first region found `sent`.
    pub fn is_changed(&self, sent: &[u8], value: &[u8]) -> bool {
        let mut state = self.0.lock();
        let changed = state.last.as_ref().map_or(sent, |last| &last[..sent.len()]) != value;
        let mut kept = [0; CHAIN_BYTES_MAX];
        kept[..value.len()].copy_from_slice(value);
        state.last = Some(kept);
        if let Some(effect) = state.effects.pop_front() {
            effect.note(changed);
        }
        changed
    }

    /// Announces the value of one more region.
    pub(crate) fn expect(&self, effect: Arc<RegionEffect>) {
        self.0.lock().effects.push_back(effect);
    }
}

/// The number of write-backs of small variables, of all devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// Writes that have begun, or are just about to.
    pub begun: u64,
    /// Writes that are over.
    pub done: u64,
}

impl Changes {
    /// Whether what was read right after `noted` may have been written since, if this is called after it was read again. A write that was
    /// in progress then may have come before the first read, or after it.
    #[must_use]
    pub fn any_since(self, noted: Self) -> bool {
        self.begun != noted.done
    }
}

/// The permission to copy into the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetAccess {
    /// It may be written.
    Writable,
    /// It is only to be compared: all of it is read-only.
    ReadOnly,
    /// All of it is a constant of a loaded object.
    Constant,
    /// It differs from part to part: see [`HostMemory::target_parts`].
    Mixed,
}

/// A function or constant of a loaded object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramConstant {
    /// Its name, with its place in the source where known: `helper (ptr.cpp:9)`.
    pub name: String,
    /// Its kind.
    pub kind: ConstantKind,
}

/// The kind of a loaded object's constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConstantKind {
    /// Code.
    Function,
    /// The compiler's own data for a class: its virtual functions, its type.
    OfClass,
    /// A string, a table, a variable that does not change.
    Data,
}

/// The program's own memory and code.
pub trait HostMemory: Send + Sync {
    /// Reads `buf.len()` bytes at `address`, which the program has promised are readable.
    fn read(&self, address: usize, buf: &mut [u8]);

    /// Checks whether a copy may read this memory.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if it does not exist.
    fn check_source(&self, range: HostRange) -> Result<()>;

    /// Determines what a copy may do to this memory.
    ///
    /// # Errors
    /// Returns the errors of [`HostMemory::check_source`].
    fn check_target(&self, range: HostRange) -> Result<TargetAccess>;

    /// Splits memory of which not all is writable. None of the parts is [`TargetAccess::Mixed`].
    ///
    /// # Errors
    /// Returns the errors of [`HostMemory::check_source`].
    fn target_parts(&self, range: HostRange) -> Result<Vec<(HostRange, TargetAccess)>>;

    /// Finds the region at a code address.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if no loaded object holds the address.
    fn function(&self, address: usize) -> Result<FunctionSpec>;

    /// Whether the region at a code address has a loop, and was compiled for one thread of a GPU.
    fn is_for_one_thread(&self, address: usize) -> bool {
        let _ = address;
        false
    }

    /// Allocates on the host (`acc_malloc` on the host device); 0 if there is no memory.
    fn allocate(&self, bytes: usize) -> usize;

    /// Frees what [`HostMemory::allocate`] returned.
    fn free(&self, address: usize);

    /// Copies within the program's memory (`acc_memcpy_*` on the host device).
    fn copy(&self, dst: usize, src: usize, bytes: usize);

    /// Writes those of `bytes` bytes at `after` that differ from the ones at `before` to `dst`, and no others.
    fn merge(&self, dst: usize, before: usize, after: usize, bytes: usize);

    /// Returns the block of the program's memory that contains an address: a heap block or a variable. Called with
    /// `ACCORD_UNMAPPED=map` only.
    fn block_of(&self, address: usize) -> Option<HostRange> {
        let _ = address;
        None
    }

    /// Names the variable that leads to an address, or else the address. None if there is no memory.
    fn describe(&self, range: HostRange) -> Option<String> {
        (range.start != 0).then(|| format!("{:#x}", range.start))
    }

    /// Returns the address of the program's call that the calling thread is in, or 0 if unknown.
    fn call(&self) -> usize {
        0
    }

    /// Returns file, line and function of a result of [`HostMemory::call`].
    fn describe_call(&self, call: usize) -> Option<String> {
        let _ = call;
        None
    }

    /// Names the pointer that a region uses and its caller no longer has anywhere, if there is one such pointer.
    fn pointer_of_region(&self, function: usize) -> Option<String> {
        let _ = function;
        None
    }

    /// Names the function or constant of a loaded object that contains an address. None if there is none.
    fn constant_at(&self, address: usize) -> Option<ProgramConstant> {
        let _ = address;
        None
    }

    /// Returns the bytes of an element of the Fortran array whose descriptor is at `descriptor`, by its declared type, if debug information
    /// has that; 0 if it may be of an extended type. `entry` is the descriptor's entry of the calling thread's construct.
    fn element_size(&self, descriptor: usize, entry: usize) -> Option<usize> {
        let _ = (descriptor, entry);
        None
    }

    /// Whether the code of the calling thread's construct may have sections with gaps. GCC passes those as one range that may extend past
    /// the array. False if its debug information says C or C++.
    fn sections_may_have_gaps(&self) -> bool {
        true
    }

    /// Whether debug information says that the calling thread's construct is in Fortran code.
    fn is_fortran(&self) -> bool {
        false
    }

    /// Reports that `range` of entry `entry` was taken for elements of `element` bytes, but may as well be one component of more of them.
    fn report_possible_component(&self, range: HostRange, entry: usize, element: usize) {
        let _ = (range, entry, element);
    }

    /// Reports that blocks of device memory have no guard pages any more, and where that is.
    fn report_no_guards(&self, error: &Error) {
        let _ = error;
    }

    /// Reports that an `update` names the pointer at `range`, as its entry number `entry`, but not its target.
    fn report_pointer_itself(&self, range: HostRange, entry: usize) {
        let _ = (range, entry);
    }

    /// Reports that a region got a pointer without a clause, as entry number `entry` of its construct; `block` was mapped for it.
    fn report_unmapped(&self, function: usize, entry: usize, pointer: usize, block: HostRange) {
        let _ = (function, entry, pointer, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_of_a_chain_is_compared_with_the_one_before() {
        let chain = Chain::default();
        assert!(!chain.is_changed(&[0], &[0]));
        assert!(chain.is_changed(&[0], &[1]));
        assert!(!chain.is_changed(&[0], &[1]));
        assert!(chain.is_changed(&[0], &[0]), "back to what the program had at the call");
    }
}
