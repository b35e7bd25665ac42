//! What the runtime needs from the world: devices to drive, memory of the program to read.

use accord_types::short_lock::ShortLock;
use accord_types::{
    AddressRange, ArgBlock, DeviceInfo, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec,
    HostRange, LaunchDims, NodeId, QueueId, Result,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub use accord_types::ReadWhen;

/// Bytes of larger copies (not those that commands carry) between a program and one node, and how long they were under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wire {
    /// Bytes to the node.
    pub sent: u64,
    /// Nanoseconds that sending them took.
    pub sent_ns: u64,
    /// Bytes from the node.
    pub received: u64,
    /// Nanoseconds that they took to come in.
    pub received_ns: u64,
}

/// One device as the program drives it: in-process, or at the other end of a link.
///
/// Operations go into a queue and return at once; none of them costs a round trip but
/// [`DeviceClient::wait`], [`DeviceClient::test`], [`DeviceClient::global`] and [`DeviceClient::memory_free`]. A queue exists from its first use.
/// An error of an earlier operation comes back from a later call on the same queue or device.
pub trait DeviceClient: Send + Sync {
    /// Returns the description of the device.
    fn info(&self) -> &DeviceInfo;

    /// The type under which the program sees it.
    fn device_type(&self) -> DeviceType;

    /// Whether its regions see only memory that a launch's arguments or a pointer variable name.
    fn sees_named_memory_only(&self) -> bool {
        false
    }

    /// The program's number of it is another than at first. Comes before [`DeviceClient::start`].
    fn renumber(&self, num: DeviceNum) {
        let _ = num;
    }

    /// Another process drives it.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the route of operations to the device, for people: what carries them, and why. `None` before the first.
    fn route(&self) -> Option<String> {
        Some("in-process".to_owned())
    }

    /// First address and length of the address range that this program's allocator hands out.
    fn addresses(&self) -> (DevicePtr, u64);

    /// Returns how many addresses the device likes to have.
    fn addresses_wanted(&self) -> u64 {
        self.info().memory
    }

    /// Sets the place of the device's memory for its next start, so that no other device of the session has the same
    /// addresses. [`DeviceClient::addresses`] tells where it lies then.
    fn lie_at(&self, place: AddressRange) {
        let _ = place;
    }

    /// Starts the device (`acc_init`): a remote one is connected, a worker started.
    /// Called before anything else and again after [`DeviceClient::shutdown`].
    ///
    /// # Errors
    /// Returns `acc_error_device_init`, `acc_error_device_unavailable`.
    fn start(&self) -> Result<()>;

    /// Puts memory behind a range of [`DeviceClient::addresses`]. Granularity: 2 MiB.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory` here when it can be known, else at a later call.
    fn map(&self, start: DevicePtr, len: u64) -> Result<()>;

    /// Whether memory comes from [`DeviceClient::allocate`] and not by [`DeviceClient::map`]: then the device has no addresses of its
    /// own, and each allocation lies where its driver likes. Fixed for the life of the session.
    fn allocates(&self) -> bool {
        false
    }

    /// Takes `len` bytes of memory, as one allocation of the driver's own, and returns its place. [`DeviceClient::unmap`] gives it back, as a whole.
    ///
    /// # Errors
    /// Returns `acc_error_out_of_memory`.
    fn allocate(&self, len: u64) -> Result<DevicePtr> {
        Err(Error::new(ErrorCode::ImplementationDefined, format!("no {len} bytes: memory is mapped on this device")))
    }

    /// Gives the memory behind a range back when `queue` gets there.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()>;

    /// Writes a few bytes (at most 4 KiB), taken before the call returns.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()>;

    /// Copies the program's memory to the device.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()>;

    /// Part of the program's memory, which stays where it is until [`DeviceClient::unregister_pages`], is copied again and again: a device may
    /// make that faster. Never blocks.
    fn register_pages(&self, range: HostRange) {
        let _ = range;
    }

    /// Ends what [`DeviceClient::register_pages`] of the same range has begun: the program may free the memory. `after` is the queue that has the
    /// last copy to it, which ends it in its turn; without one that is done before the call returns.
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

    /// Copies a block that was filled with `sent` (at most 4 KiB) back to the program's memory like [`DeviceClient::copy_out`], each part
    /// to its own place, but touches only what has changed. With a `chain` it is one variable, and what counts is what the chain's
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

    /// Compares device memory with the program's, which is read-only, in place of a copy out to `whole`, of which it is a part or
    /// all. A difference is an error of the queue.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange, whole: HostRange) -> Result<()>;

    /// Returns how often [`DeviceClient::copy_out_changed`] of any device has written: as long as that stays, what the
    /// program has in its memory does not come from there.
    fn changes(&self) -> Changes {
        Changes::default()
    }

    /// Copies within the device.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()>;

    /// Runs a region. `key` identifies the function cheaply (its host address); `spec` is asked
    /// for on the first launch of that key only.
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

    /// The object with these function addresses was unloaded: keys in this range mean nothing any more.
    fn forget_functions(&self, keys: std::ops::Range<u64>);

    /// Device address of a `declare` variable.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr>;

    /// Makes `queue` wait for everything now in `other`.
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()>;

    /// Blocks until everything now in `queues` is done. One round trip however many they are.
    ///
    /// # Errors
    /// Returns the first failure of those queues.
    fn wait(&self, queues: &[QueueId]) -> Result<()>;

    /// A thread is about to wait for queues of another device, and may wait for some of this one next: asks how far
    /// those have got that the program has waited for before. Neither waits nor fails: the next wait returns a failure.
    fn ask_ahead(&self) {}

    /// Whether everything now in `queues` is done.
    ///
    /// # Errors
    /// Returns the first failure of those queues.
    fn test(&self, queues: &[QueueId]) -> Result<bool>;

    /// Bytes that can still be mapped (`acc_property_free_memory` less what the allocator holds).
    ///
    /// # Errors
    /// Returns the errors that the trait lists.
    fn memory_free(&self) -> Result<u64>;

    /// Returns how many bytes the cluster lets a session have on the device, if that is less than it has.
    fn quota(&self) -> Option<u64> {
        None
    }

    /// Returns the traffic between this process and the device's node so far; `None` if it is this process's.
    fn wire(&self) -> Option<Wire> {
        None
    }

    /// Whether regions of the started device reach the program's memory by its own addresses.
    fn reaches_program_memory(&self) -> bool {
        false
    }

    /// The CUDA driver's own objects behind the device, if it has any.
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
    /// The driver's number of the device.
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

    /// The stream of a queue. From now on the program may put work of its own into it.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceClient`].
    fn stream(&self, queue: QueueId) -> Result<usize>;

    /// The stream of a queue, for looking at only; 0 where the queue has none yet.
    fn stream_of(&self, queue: QueueId) -> usize;

    /// Makes a stream of the program's a queue's own; what was in the queue is waited for.
    ///
    /// # Errors
    /// Returns the errors of [`DeviceClient`].
    fn set_stream(&self, queue: QueueId, stream: usize) -> Result<()>;
}

/// The devices of a session, in the order of their device numbers.
pub trait Cluster: Send + Sync {
    /// All devices, whatever their type. Fixed for the life of the session.
    fn clients(&self) -> &[Arc<dyn DeviceClient>];

    /// The program's own node, if it is one of the cluster's.
    fn own_node(&self) -> Option<NodeId> {
        None
    }

    /// Copies from one device to another (indices into [`Cluster::ports`]), in the order of
    /// `queue` of the source device. What the program did synchronously to the target before
    /// this call comes first there. Waiting for `queue` of the source includes the arrival.
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

/// A variable of the program in a block that travels as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Offset in the block.
    pub at: usize,
    /// Target in the program's memory.
    pub dst: HostRange,
}

/// A variable that regions change one after the other, each going on from what the last one left. Its copies back land in that
/// order.
#[derive(Debug, Default)]
pub struct Chain(ShortLock<ChainState>);

#[derive(Debug, Default)]
struct ChainState {
    /// What came last.
    last: Option<[u8; CHAIN_BYTES_MAX]>,
    /// Of the regions whose values have not come.
    effects: VecDeque<Arc<RegionEffect>>,
}

/// Whether a region changes one of its small variables, as its launches so far have shown.
#[derive(Debug, Default)]
pub struct RegionEffect(AtomicU8);

impl RegionEffect {
    const KEEPS: u8 = 1;
    const CHANGES: u8 = 2;

    /// Whether it has done so, or may have.
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
    /// The next value is here: whether the region that brings it has changed what it found. The chain's first region found `sent`.
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

    /// The value of one more region will come.
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
    /// Whether what was read right after `noted` may have been written since, if this is asked after it was read again. A write that was
    /// under way then may have come before the first read, or after it.
    #[must_use]
    pub fn any_since(self, noted: Self) -> bool {
        self.begun != noted.done
    }
}

/// The permission to copy into the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TargetAccess {
    /// Write.
    Writable,
    /// Only compare: all of it is read-only.
    ReadOnly,
    /// All of it is a constant of a loaded object.
    Constant,
    /// Not the same everywhere: see [`HostMemory::target_parts`].
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
    /// What the compiler has made for a class: its virtual functions, its type.
    OfClass,
    /// A string, a table, a variable that does not change.
    Data,
}

/// The program's own memory and code.
pub trait HostMemory: Send + Sync {
    /// Reads `buf.len()` bytes at `address`, which the program has promised are readable.
    fn read(&self, address: usize, buf: &mut [u8]);

    /// Looks whether a copy may read this memory.
    ///
    /// # Errors
    /// Returns `acc_error_invalid_argument` if it is not there.
    fn check_source(&self, range: HostRange) -> Result<()>;

    /// Looks what a copy may do to this memory.
    ///
    /// # Errors
    /// Returns the errors of [`HostMemory::check_source`].
    fn check_target(&self, range: HostRange) -> Result<TargetAccess>;

    /// Takes memory apart of which not all is writable. None of the parts is [`TargetAccess::Mixed`].
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

    /// Allocates on the host (`acc_malloc` on the host device); 0 when there is no memory.
    fn allocate(&self, bytes: usize) -> usize;

    /// Frees what [`HostMemory::allocate`] returned.
    fn free(&self, address: usize);

    /// Copies within the program's memory (`acc_memcpy_*` on the host device).
    fn copy(&self, dst: usize, src: usize, bytes: usize);

    /// Writes those of `bytes` bytes at `after` that differ from the ones at `before` to `dst`, and no others.
    fn merge(&self, dst: usize, before: usize, after: usize, bytes: usize);

    /// The block of the program's memory that holds an address: a heap block or a variable. Asked with
    /// `ACCORD_UNMAPPED=map` only.
    fn block_of(&self, address: usize) -> Option<HostRange> {
        let _ = address;
        None
    }

    /// Names the variable that leads to an address, or else the address. None if there is no memory.
    fn describe(&self, range: HostRange) -> Option<String> {
        (range.start != 0).then(|| format!("{:#x}", range.start))
    }

    /// Names the pointer that a region uses and its caller no longer has anywhere, if there is one such pointer.
    fn pointer_of_region(&self, function: usize) -> Option<String> {
        let _ = function;
        None
    }

    /// Returns the name by which another process finds a constant in which the loader has put addresses, where all of a
    /// range is one.
    fn constant_with_addresses(&self, range: HostRange) -> Option<GlobalSpec> {
        let _ = range;
        None
    }

    /// Names the function or constant of a loaded object that holds an address. None if there is none.
    fn constant_at(&self, address: usize) -> Option<ProgramConstant> {
        let _ = address;
        None
    }

    /// Bytes of an element of the Fortran array whose descriptor is at `descriptor`, going by its declared type, where debug information
    /// has that; 0 where it may be of a type that extends that one. `entry` is the descriptor's entry of the construct that the calling thread is in.
    fn element_size(&self, descriptor: usize, entry: usize) -> Option<usize> {
        let _ = (descriptor, entry);
        None
    }

    /// Whether the code that the calling thread's construct is in has sections with gaps, which GCC passes as one stretch that may reach past
    /// the array. No where it is C or C++ by its debug information.
    fn sections_may_have_gaps(&self) -> bool {
        true
    }

    /// Whether debug information says that the calling thread's construct is in Fortran code.
    fn is_fortran(&self) -> bool {
        false
    }

    /// `range` of entry `entry` was taken for elements of `element` bytes, but may as well be one component of more of them.
    fn tell_may_be_component(&self, range: HostRange, entry: usize, element: usize) {
        let _ = (range, entry, element);
    }

    /// An `update` names the pointer at `range`, as its entry number `entry`, but not what it points to.
    fn tell_pointer_itself(&self, range: HostRange, entry: usize) {
        let _ = (range, entry);
    }

    /// A region got a pointer that no clause maps, as entry number `entry` of its construct; `block` was mapped for it.
    fn tell_unmapped(&self, function: usize, entry: usize, pointer: usize, block: HostRange) {
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
