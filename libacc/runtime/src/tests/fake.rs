//! A device that runs as late as it may: nothing in a queue happens before a wait for it, so missing
//! ordering shows as wrong bytes.

use crate::ports::{Chain, Cluster, DeviceClient, HostMemory, Part, ReadWhen, TargetAccess};
use accord_types::{
    ArgBlock, DeviceId, DeviceInfo, DeviceKind, DevicePtr, DeviceType, Error, ErrorCode, FunctionSpec, GlobalSpec,
    HostRange, LaunchDims, NodeId, ObjectSpec, QueueId, Result,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

const PAGE: u64 = 2 << 20;
/// An address where the program has no memory.
pub(super) const NO_MEMORY: usize = 0x7fff_0000_0000;
/// Addresses of a fake device's global variables and of the argument blocks of running regions.
const GLOBALS: u64 = 0x6000_0000_0000;
const ARGUMENTS: u64 = 0x7000_0000_0000;

/// Bytes at addresses; zero where nothing was written.
#[derive(Default)]
pub(super) struct Bytes(HashMap<u64, Box<[u8; CHUNK]>>);

const CHUNK: usize = 4096;

impl Bytes {
    pub(super) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (chunk, inside, range) in pieces(at, len) {
            if let Some(chunk) = self.0.get(&chunk) {
                let len = range.len();
                bytes[range].copy_from_slice(&chunk[inside..inside + len]);
            }
        }
        bytes
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        for (chunk, inside, range) in pieces(at, bytes.len()) {
            let chunk = self.0.entry(chunk).or_insert_with(|| Box::new([0; CHUNK]));
            chunk[inside..inside + range.len()].copy_from_slice(&bytes[range]);
        }
    }
}

/// Returns the chunks of a range: number, offset in it, and the bytes of the range that it contains.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = at + done as u64;
        let inside = here as usize % CHUNK;
        let piece = (len - done).min(CHUNK - inside);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((here / CHUNK as u64, inside, range))
    })
}

/// The program's memory.
#[derive(Default)]
pub(super) struct Ram {
    bytes: Mutex<Bytes>,
    blocks: Mutex<BTreeSet<usize>>,
    /// The program's heap blocks, as far as they are known.
    pub(super) known: Mutex<Vec<HostRange>>,
    /// Memory that is not writable.
    pub(super) constants: Mutex<Vec<(HostRange, TargetAccess)>>,
    /// Memory that the program has freed.
    pub(super) freed: Mutex<Option<HostRange>>,
    /// Whether devices that start from now on access it directly.
    pub(super) reached: AtomicBool,
    /// The program is known to be in C.
    pub(super) is_c: AtomicBool,
}

impl Ram {
    fn is_freed(&self, at: usize) -> bool {
        self.freed.lock().unwrap().is_some_and(|freed| at.wrapping_sub(freed.start) < freed.len)
    }

    pub(super) fn get(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at >= 4096, "the program would have crashed at {at:#x}");
        self.bytes.lock().unwrap().read(at as u64, len)
    }

    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at >= 4096, "the program would have crashed at {at:#x}");
        self.bytes.lock().unwrap().write(at as u64, bytes);
    }
}

/// The program's memory and code as the runtime sees them.
pub(super) struct FakeHost(pub(super) Arc<Ram>);

impl HostMemory for FakeHost {
    fn sections_may_have_gaps(&self) -> bool {
        !self.0.is_c.load(Ordering::Relaxed)
    }

    fn read(&self, address: usize, buf: &mut [u8]) {
        assert!(!self.0.is_freed(address), "the program would have crashed at {address:#x}");
        buf.copy_from_slice(&self.0.get(address, buf.len()));
    }

    fn check_source(&self, range: HostRange) -> Result<()> {
        if range.start >= NO_MEMORY || self.0.is_freed(range.start) {
            return Err(Error::new(ErrorCode::InvalidArgument, "not mapped"));
        }
        Ok(())
    }

    fn check_target(&self, range: HostRange) -> Result<TargetAccess> {
        self.check_source(range)?;
        let constants = self.0.constants.lock().unwrap();
        let end = range.start + range.len;
        let access = constants.iter().find(|(part, _)| part.start < end && range.start < part.start + part.len);
        Ok(access.map_or(TargetAccess::Writable, |(part, access)| {
            let all = part.start <= range.start && end <= part.start + part.len;
            if all { *access } else { TargetAccess::Mixed }
        }))
    }

    fn target_parts(&self, range: HostRange) -> Result<Vec<(HostRange, TargetAccess)>> {
        let byte = |start| HostRange { start, len: 1 };
        let bytes = (range.start..range.start + range.len).map(byte);
        bytes.map(|byte| Ok((byte, self.check_target(byte)?))).collect()
    }

    fn function(&self, address: usize) -> Result<FunctionSpec> {
        if address == 0 {
            return Err(Error::new(ErrorCode::InvalidArgument, "no region there"));
        }
        Ok(FunctionSpec { object: object(), offset: address as u64, name: format!("region{address}"), kernel: None })
    }

    fn allocate(&self, bytes: usize) -> usize {
        let mut blocks = self.0.blocks.lock().unwrap();
        let at = blocks.last().map_or(0x5000_0000, |last| last + 0x10_0000);
        assert!(bytes <= 0x10_0000);
        blocks.insert(at);
        at
    }

    fn free(&self, address: usize) {
        assert!(self.0.blocks.lock().unwrap().remove(&address), "freed twice");
    }

    fn copy(&self, dst: usize, src: usize, bytes: usize) {
        self.0.put(dst, &self.0.get(src, bytes));
    }

    fn merge(&self, dst: usize, before: usize, after: usize, bytes: usize) {
        for at in 0..bytes {
            let new = self.0.get(after + at, 1);
            if self.0.get(before + at, 1) != new {
                self.0.put(dst + at, &new);
            }
        }
    }

    fn block_of(&self, address: usize) -> Option<HostRange> {
        let known = self.0.known.lock().unwrap();
        known.iter().copied().find(|block| address.wrapping_sub(block.start) < block.len)
    }
}

/// A region: what it does with its slots and the device's memory.
pub(super) type Kernel = Arc<dyn Fn(&mut Running<'_>) + Send + Sync>;

/// A region while it runs.
pub(super) struct Running<'a> {
    pub(super) slots: Vec<u64>,
    pub(super) dims: LaunchDims,
    memory: &'a mut Memory,
}

impl Running<'_> {
    pub(super) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        self.memory.read(at, len)
    }

    pub(super) fn read_u64(&self, at: u64) -> u64 {
        u64::from_ne_bytes(self.read(at, 8).try_into().unwrap())
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.memory.write(at, bytes);
    }
}

/// A device's memory, with detection of accesses outside it.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Bytes,
    pages: BTreeSet<u64>,
}

impl Memory {
    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        self.check(at, len);
        self.bytes.read(at, len)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.check(at, bytes.len());
        self.bytes.write(at, bytes);
    }

    fn check(&self, at: u64, len: usize) {
        if at >= GLOBALS {
            return;
        }
        for page in at / PAGE..=(at + (len as u64).max(1) - 1) / PAGE {
            assert!(self.pages.contains(&(page * PAGE)), "nothing is mapped at {:#x}", page * PAGE);
        }
    }
}

enum Op {
    Store(DevicePtr, Vec<u8>),
    In(DevicePtr, HostRange),
    Out(DevicePtr, HostRange),
    OutChanged(DevicePtr, Vec<u8>, Vec<Part>, Option<Arc<Chain>>),
    Compare(DevicePtr, HostRange),
    Copy(DevicePtr, DevicePtr, u64),
    Launch { key: u64, dims: LaunchDims, bytes: Vec<u8>, slots: u32, relative: Vec<u64> },
    After(QueueId, u64),
    Unmap(DevicePtr, u64),
    Push { target: Arc<Fake>, after: u64, src: DevicePtr, dst: DevicePtr, len: u64 },
    Fail(Error),
}

#[derive(Default)]
struct FakeQueue {
    ops: VecDeque<Op>,
    put: u64,
    failed: Option<Error>,
}

/// Numbers of commands that a fake device got, for tests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    pub(super) round_trips: usize,
    pub(super) commands: usize,
    pub(super) maps: usize,
    pub(super) stores: usize,
    pub(super) copies_in: usize,
    pub(super) copies_out: usize,
    pub(super) compares: usize,
    pub(super) launches: usize,
    pub(super) queue_waits: usize,
}

#[derive(Default)]
struct FakeDevice {
    memory: Memory,
    queues: BTreeMap<QueueId, FakeQueue>,
    counts: Counts,
    globals: u64,
    specs: BTreeSet<u64>,
    started: bool,
}

/// The fake device: see the module.
pub(super) struct Fake {
    info: DeviceInfo,
    device_type: DeviceType,
    ram: Arc<Ram>,
    kernels: Arc<Mutex<HashMap<u64, Kernel>>>,
    inner: Mutex<FakeDevice>,
    gate: Mutex<Option<(QueueId, Arc<Barrier>)>>,
    locks: Mutex<Vec<Lock>>,
    /// Whether it belongs to another node.
    pub(super) remote: AtomicBool,
    /// Whether it has none of the program's variables.
    pub(super) lacks_globals: AtomicBool,
    /// How often its queues' progress was queried, during a wait for another one.
    pub(super) asked: AtomicUsize,
}

/// A change of an array's page lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lock {
    Lock(HostRange),
    /// After a queue got there, or before the call returned.
    Unlock(Option<QueueId>, HostRange),
}

impl Fake {
    /// Returns the changes of page locks since the last call.
    pub(super) fn locks(&self) -> Vec<Lock> {
        std::mem::take(&mut self.locks.lock().unwrap())
    }

    pub(super) fn new(
        ordinal: u32,
        device_type: DeviceType,
        memory: u64,
        ram: Arc<Ram>,
        kernels: Arc<Mutex<HashMap<u64, Kernel>>>,
    ) -> Self {
        let info = DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: "h0".into(),
            kind: if device_type == DeviceType::Nvidia { DeviceKind::CUDA } else { DeviceKind::CPU },
            name: "fake".into(),
            vendor: "none".into(),
            driver: "1".into(),
            uuid: String::new(),
            memory,
            units: 1,
            compute: (0, 0),
            context: 0,
            attributes: vec![(75, 9), (97, -3)],
            numa: None,
            cpus: Vec::new(),
        };
        Self {
            info,
            device_type,
            ram,
            kernels,
            inner: Mutex::default(),
            gate: Mutex::default(),
            locks: Mutex::default(),
            remote: AtomicBool::new(false),
            lacks_globals: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.inner.lock().unwrap().counts
    }

    /// Returns bytes at a device address, once everything is done.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut inner = self.inner.lock().unwrap();
        let all: Vec<_> = inner.queues.keys().copied().collect();
        for queue in all {
            self.drain(&mut inner, queue, u64::MAX);
        }
        inner.memory.read(at, len)
    }

    /// Makes a wait for this queue block until the barrier opens.
    pub(super) fn gate(&self, queue: QueueId, barrier: Arc<Barrier>) {
        *self.gate.lock().unwrap() = Some((queue, barrier));
    }

    /// Makes the next command that runs in this queue fail.
    pub(super) fn fail(&self, queue: QueueId, error: Error) {
        self.put(queue, Op::Fail(error)).unwrap();
    }

    fn put(&self, queue: QueueId, op: Op) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        assert!(inner.started, "used before it was started");
        inner.counts.commands += 1;
        let queue = inner.queues.entry(queue).or_default();
        if let Some(error) = &queue.failed {
            return Err(error.clone());
        }
        queue.put += 1;
        queue.ops.push_back(op);
        Ok(())
    }

    /// Runs a queue up to a position.
    fn drain(&self, inner: &mut FakeDevice, id: QueueId, upto: u64) {
        loop {
            let Some(queue) = inner.queues.get_mut(&id) else { return };
            if queue.put - queue.ops.len() as u64 >= upto {
                return;
            }
            let Some(op) = queue.ops.pop_front() else { return };
            self.execute(inner, id, op);
        }
    }

    fn execute(&self, inner: &mut FakeDevice, id: QueueId, op: Op) {
        match op {
            Op::Store(dst, bytes) => inner.memory.write(dst.0, &bytes),
            Op::In(dst, src) => inner.memory.write(dst.0, &self.ram.get(src.start, src.len)),
            Op::Out(src, dst) => self.ram.put(dst.start, &inner.memory.read(src.0, dst.len)),
            Op::OutChanged(src, sent, parts, chain) => {
                let bytes = inner.memory.read(src.0, sent.len());
                for Part { at, dst } in parts {
                    let (new, sent) = (&bytes[at..at + dst.len], &sent[at..at + dst.len]);
                    if chain.as_ref().map_or_else(|| new != sent, |chain| chain.is_changed(sent, new)) {
                        self.ram.put(dst.start, new);
                    }
                }
            }
            Op::Compare(src, with) => {
                if inner.memory.read(src.0, with.len) != self.ram.get(with.start, with.len) {
                    let queue = inner.queues.entry(id).or_default();
                    queue.failed = Some(Error::new(ErrorCode::InvalidArgument, "changed"));
                }
            }
            Op::Copy(dst, src, len) => {
                let bytes = inner.memory.read(src.0, len as usize);
                inner.memory.write(dst.0, &bytes);
            }
            Op::After(other, position) => self.drain(inner, other, position),
            Op::Unmap(start, len) => {
                for page in 0..len / PAGE {
                    assert!(inner.memory.pages.remove(&(start.0 + page * PAGE)));
                }
            }
            Op::Launch { key, dims, bytes, slots, relative } => {
                let mut bytes = bytes;
                for pointer in (ArgBlock { bytes: &bytes.clone(), slots, relative: &relative }).relative_offsets() {
                    let word = &mut bytes[pointer..pointer + 8];
                    let offset = u64::from_ne_bytes((&*word).try_into().unwrap());
                    word.copy_from_slice(&(ARGUMENTS + offset).to_ne_bytes());
                }
                inner.memory.write(ARGUMENTS, &bytes);
                let slots = (0..slots as usize)
                    .map(|i| u64::from_ne_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap()))
                    .collect();
                let kernel = self.kernels.lock().unwrap().get(&key).cloned();
                if let Some(kernel) = kernel {
                    kernel(&mut Running { slots, dims, memory: &mut inner.memory });
                }
            }
            Op::Push { target, after, src, dst, len } => {
                let bytes = inner.memory.read(src.0, len as usize);
                let mut other = target.inner.lock().unwrap();
                target.drain(&mut other, QueueId::SYNC, after);
                other.memory.write(dst.0, &bytes);
            }
            Op::Fail(error) => {
                let queue = inner.queues.entry(id).or_default();
                queue.ops.clear();
                queue.failed = Some(error);
            }
        }
    }
}

impl DeviceClient for Fake {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn is_remote(&self) -> bool {
        self.remote.load(Ordering::Relaxed)
    }

    fn ask_ahead(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    fn sees_named_memory_only(&self) -> bool {
        self.info.kind == DeviceKind::CUDA
    }

    fn device_type(&self) -> DeviceType {
        self.device_type
    }

    fn addresses(&self) -> (DevicePtr, u64) {
        (DevicePtr(0x1000_0000_0000 + (u64::from(self.info.id.ordinal) << 40)), 1 << 40)
    }

    fn reaches_program_memory(&self) -> bool {
        self.ram.reached.load(Ordering::Relaxed)
    }

    fn start(&self) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        assert!(!std::mem::replace(&mut inner.started, true), "started twice");
        Ok(())
    }

    fn map(&self, start: DevicePtr, len: u64) -> Result<()> {
        let mut inner = self.inner.lock().unwrap();
        inner.counts.maps += 1;
        assert!(start.0.is_multiple_of(PAGE) && len.is_multiple_of(PAGE));
        for page in 0..len / PAGE {
            assert!(inner.memory.pages.insert(start.0 + page * PAGE), "mapped twice");
        }
        assert!(inner.memory.pages.len() as u64 * PAGE <= self.info.memory, "more than there is");
        Ok(())
    }

    fn unmap(&self, queue: QueueId, start: DevicePtr, len: u64) -> Result<()> {
        self.inner.lock().unwrap().counts.maps += 1;
        self.put(queue, Op::Unmap(start, len))
    }

    fn store(&self, queue: QueueId, dst: DevicePtr, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= 4096);
        self.inner.lock().unwrap().counts.stores += 1;
        self.put(queue, Op::Store(dst, bytes.to_vec()))
    }

    fn copy_in(&self, queue: QueueId, dst: DevicePtr, src: HostRange, when: ReadWhen) -> Result<()> {
        self.inner.lock().unwrap().counts.copies_in += 1;
        match when {
            ReadWhen::BeforeReturn => self.put(queue, Op::Store(dst, self.ram.get(src.start, src.len))),
            ReadWhen::InOrder => self.put(queue, Op::In(dst, src)),
        }
    }

    fn register_pages(&self, range: HostRange) {
        self.locks.lock().unwrap().push(Lock::Lock(range));
    }

    fn unregister_pages(&self, after: Option<QueueId>, range: HostRange) -> Result<()> {
        self.locks.lock().unwrap().push(Lock::Unlock(after, range));
        Ok(())
    }

    fn copy_out(&self, queue: QueueId, src: DevicePtr, dst: HostRange) -> Result<()> {
        self.inner.lock().unwrap().counts.copies_out += 1;
        self.put(queue, Op::Out(src, dst))
    }

    fn copy_out_changed(
        &self,
        queue: QueueId,
        src: DevicePtr,
        sent: &[u8],
        parts: &[Part],
        chain: Option<&Arc<Chain>>,
    ) -> Result<()> {
        self.inner.lock().unwrap().counts.copies_out += 1;
        self.put(queue, Op::OutChanged(src, sent.to_vec(), parts.to_vec(), chain.cloned()))
    }

    fn compare(&self, queue: QueueId, src: DevicePtr, with: HostRange, _: HostRange) -> Result<()> {
        self.inner.lock().unwrap().counts.compares += 1;
        self.put(queue, Op::Compare(src, with))
    }

    fn copy(&self, queue: QueueId, dst: DevicePtr, src: DevicePtr, len: u64) -> Result<()> {
        self.put(queue, Op::Copy(dst, src, len))
    }

    fn launch(
        &self,
        queue: QueueId,
        key: u64,
        spec: &dyn Fn() -> Result<FunctionSpec>,
        dims: LaunchDims,
        block: ArgBlock<'_>,
    ) -> Result<()> {
        assert!(block.is_sound());
        let known = !self.inner.lock().unwrap().specs.insert(key);
        if !known {
            spec()?;
        }
        self.inner.lock().unwrap().counts.launches += 1;
        let (bytes, relative) = (block.bytes.to_vec(), block.relative.to_vec());
        self.put(queue, Op::Launch { key, dims, bytes, slots: block.slots, relative })
    }

    fn forget_functions(&self, keys: std::ops::Range<u64>) {
        self.inner.lock().unwrap().specs.retain(|key| !keys.contains(key));
    }

    fn global(&self, spec: &GlobalSpec) -> Result<DevicePtr> {
        if self.lacks_globals.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorCode::InvalidArgument, "the code has no such variable"));
        }
        let mut inner = self.inner.lock().unwrap();
        inner.counts.round_trips += 1;
        inner.globals += 1;
        Ok(DevicePtr(GLOBALS + spec.offset))
    }

    fn wait_queue(&self, queue: QueueId, other: QueueId) -> Result<()> {
        let position = {
            let mut inner = self.inner.lock().unwrap();
            inner.counts.queue_waits += 1;
            inner.queues.get(&other).map_or(0, |queue| queue.put)
        };
        self.put(queue, Op::After(other, position))
    }

    fn wait(&self, queues: &[QueueId]) -> Result<()> {
        let gate = self.gate.lock().unwrap().clone().filter(|(queue, _)| queues.contains(queue));
        if let Some((_, barrier)) = gate {
            barrier.wait();
        }
        let mut inner = self.inner.lock().unwrap();
        inner.counts.round_trips += 1;
        for queue in queues {
            self.drain(&mut inner, *queue, u64::MAX);
        }
        match queues.iter().find_map(|queue| inner.queues.get(queue)?.failed.clone()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn test(&self, queues: &[QueueId]) -> Result<bool> {
        let mut inner = self.inner.lock().unwrap();
        inner.counts.round_trips += 1;
        Ok(queues.iter().all(|queue| inner.queues.get(queue).is_none_or(|queue| queue.ops.is_empty())))
    }

    fn memory_free(&self) -> Result<u64> {
        let inner = self.inner.lock().unwrap();
        Ok(self.info.memory - inner.memory.pages.len() as u64 * PAGE)
    }

    fn shutdown(&self) -> Result<()> {
        *self.inner.lock().unwrap() = FakeDevice::default();
        Ok(())
    }
}

/// Several fake devices.
pub(super) struct FakeCluster {
    pub(super) fakes: Vec<Arc<Fake>>,
    pub(super) clients: Vec<Arc<dyn DeviceClient>>,
}

impl Cluster for FakeCluster {
    fn clients(&self) -> &[Arc<dyn DeviceClient>] {
        &self.clients
    }

    fn copy_between(
        &self,
        queue: QueueId,
        source: usize,
        src: DevicePtr,
        target: usize,
        dst: DevicePtr,
        len: u64,
    ) -> Result<()> {
        let target = self.fakes[target].clone();
        let after = target.inner.lock().unwrap().queues.get(&QueueId::SYNC).map_or(0, |queue| queue.put);
        self.fakes[source].put(queue, Op::Push { target, after, src, dst, len })
    }
}

/// The only loaded object.
pub(super) fn object() -> ObjectSpec {
    ObjectSpec { path: "/bin/program".into(), build_id: "0".into(), executable: true }
}
