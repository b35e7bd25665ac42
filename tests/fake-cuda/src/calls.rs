//! The driver's functions.
#![allow(unreachable_pub)] // They are found by their names.

use crate::control::{
    CONTEXT_IS_DESTROYED, DAWDLES_US, GANGS, GANGS_OF_BLOCK, GRAPHS, ILLEGAL_ADDRESS, INTERRUPTS, INVALID_CONTEXT,
    INVALID_HANDLE, INVALID_VALUE, NOT_READY, ROW_COPIES, STRAYS, TOOK_US, begin, lock, lose_context, setting,
};
use crate::memory;
use crate::module::{self, Dimensions, Function, Module};
use crate::stream::{Event, Stream, StreamKind, default_stream};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

thread_local! {
    /// Kept for the thread's whole life, because exit handlers call the driver too.
    static CURRENT: RefCell<ManuallyDrop<Vec<usize>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// A primary context is its device's number plus this, and so never null.
const CONTEXT: usize = 0x1000;
/// Distance between contexts of one device.
const NEXT_CONTEXT: usize = 0x1_0000;
/// Number of references to the primary contexts.
static HELD: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
/// Number of contexts created by the program.
static MADE: AtomicUsize = AtomicUsize::new(0);
/// Contexts created by the program and not destroyed, by device.
static LIVE: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// An allocation's handle between processes.
#[repr(C)]
pub struct IpcName([u64; 8]);

/// Returns the devices visible to this process, in its order: by number or name, up to the first that does not exist.
fn visible() -> Vec<c_int> {
    let count = setting("FAKE_CUDA_DEVICES", 2) as c_int;
    let Ok(named) = std::env::var("CUDA_VISIBLE_DEVICES") else { return (0..count).collect() };
    let number = |name: &str| match name.strip_prefix("GPU-") {
        Some(uuid) => {
            let uuid = u128::from_str_radix(&uuid.replace('-', ""), 16).ok()?;
            (0..count).find(|&device| uuid_of(device) == uuid)
        }
        None => name.parse().ok().filter(|number| (0..count).contains(number)),
    };
    named.split(',').map_while(|name| number(name.trim())).collect()
}

/// Returns the devices of the machine, whichever are visible.
pub(crate) fn all_devices() -> std::ops::Range<c_int> {
    0..setting("FAKE_CUDA_DEVICES", 2) as c_int
}

pub(crate) fn uuid_of(device: c_int) -> u128 {
    u128::from(setting("FAKE_CUDA_UUID_SEED", 0)) << 64 | u128::from(device.unsigned_abs())
}

fn current() -> Result<c_int, i32> {
    let context = CURRENT.with_borrow(|stack| stack.last().copied()).ok_or(INVALID_CONTEXT)?;
    let device = context % NEXT_CONTEXT - CONTEXT;
    if context < NEXT_CONTEXT && HELD[device].load(Ordering::Relaxed) == 0 {
        return Err(CONTEXT_IS_DESTROYED);
    }
    Ok(device as c_int)
}

/// Checks the device's side of a copy, which the caller keeps valid from the call on.
fn reach(start: u64, len: usize) -> Result<(), i32> {
    std::thread::sleep(Duration::from_micros(DAWDLES_US.load(Ordering::Relaxed).into()));
    memory::check(start, len).inspect_err(|_| {
        STRAYS.fetch_add(1, Ordering::Relaxed);
    })
}

fn end(result: Result<(), i32>) -> c_int {
    result.err().unwrap_or(0)
}

fn string(raw: *const c_char) -> String {
    // SAFETY: callers of the driver pass strings that end with a zero byte.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

unsafe fn put_string(to: *mut c_char, len: c_int, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(len as usize - 1)];
    // SAFETY: the caller's buffer has `len` bytes.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        *to.add(bytes.len()) = 0;
    }
}

fn stream(raw: *mut c_void) -> Result<Arc<Stream>, i32> {
    if raw.is_null() {
        return default_stream();
    }
    let raw = raw.cast_const().cast::<Stream>();
    // SAFETY: callers pass streams that cuStreamCreate returned and that were not destroyed.
    Ok(unsafe {
        Arc::increment_strong_count(raw);
        Arc::from_raw(raw)
    })
}

macro_rules! calls {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            /// See the driver's manual.
            ///
            /// # Safety
            /// As the driver's manual requires.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::too_many_arguments)]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
                #[allow(unused_unsafe)]
                end(begin(stringify!($name)).and_then(|()| {
                    // SAFETY: required of the caller: passed addresses are valid for the call.
                    unsafe { $body }
                }))
            }
        )*
    };
}

calls! {
    fn cuInit(_flags: c_uint) {
        match std::env::var("FAKE_CUDA_INIT") {
            Err(_) => Ok(()),
            Ok(crash) if crash == "crash" => std::process::abort(),
            Ok(code) => Err(code.parse().unwrap_or(INVALID_VALUE)),
        }
    }
    fn cuDriverGetVersion(version: *mut c_int) { *version = setting("FAKE_CUDA_VERSION", 13_000) as c_int; Ok(()) }
    fn cuDeviceGetCount(count: *mut c_int) { *count = visible().len() as c_int; Ok(()) }
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        *device = visible().get(ordinal as usize).copied().ok_or(101)?;
        Ok(())
    }
    fn cuDeviceGetName(name: *mut c_char, len: c_int, _device: c_int) { put_string(name, len, "Fake GPU"); Ok(()) }
    fn cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: c_int) {
        put_string(text, len, &format!("FFFF:FF:{device:02X}.0"));
        Ok(())
    }
    fn cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: c_int) {
        *uuid = uuid_of(device).to_be_bytes();
        Ok(())
    }
    fn cuDeviceTotalMem_v2(bytes: *mut usize, _device: c_int) { *bytes = memory::total() as usize; Ok(()) }
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        // A negative number is no device.
        const NONE: u64 = u64::MAX;
        *value = match attribute {
            75 => 9,          // compute capability, major
            16 => 4,          // multiprocessors
            102 => 1,         // mapping at chosen addresses
            20 if setting("FAKE_CUDA_PROHIBITED", NONE) == u64::from(device.unsigned_abs()) => 2, // compute mode
            103 => setting("FAKE_CUDA_IPC", 1) as c_int, // descriptors of memory
            13 => 1_000_000,  // clock, kHz
            1 | 2 | 3 | 39 => 1024, // threads of a block and its dimensions, of a multiprocessor
            4 => 64,          // third dimension of a block
            5 => c_int::MAX,  // dimensions of a grid
            6 | 7 => 65535,
            8 => 49152,       // shared memory of a block
            10 => 32,         // threads of a warp
            81 => 102_400,    // shared memory of a multiprocessor
            97 => 101_376,    // shared memory of a block that opts in
            88 => setting("FAKE_CUDA_PAGEABLE", 0) as c_int, // kernels reach all memory of the process
            _ => 0,
        };
        Ok(())
    }
    fn cuDeviceCanAccessPeer(can: *mut c_int, _device: c_int, _peer: c_int) { *can = 1; Ok(()) }
    fn cuDevicePrimaryCtxRetain(context: *mut usize, device: c_int) {
        HELD[device as usize].fetch_add(1, Ordering::Relaxed);
        *context = CONTEXT + device as usize;
        Ok(())
    }
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        let less = |held: usize| held.checked_sub(1);
        HELD[device as usize].fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(drop).map_err(|_| INVALID_CONTEXT)
    }
    fn cuCtxCreate_v2(context: *mut usize, _flags: c_uint, device: c_int) {
        let made = MADE.fetch_add(1, Ordering::Relaxed) + 1;
        *context = CONTEXT + device as usize + made * NEXT_CONTEXT;
        LIVE[device as usize].fetch_add(1, Ordering::Relaxed);
        CURRENT.with_borrow_mut(|stack| stack.push(*context));
        Ok(())
    }
    fn cuCtxDestroy_v2(context: usize) {
        if context < NEXT_CONTEXT {
            return Err(INVALID_CONTEXT);
        }
        LIVE[context % NEXT_CONTEXT - CONTEXT].fetch_sub(1, Ordering::Relaxed);
        CURRENT.with_borrow_mut(|stack| {
            stack.pop_if(|current| *current == context);
        });
        Ok(())
    }
    fn cuCtxGetCurrent(context: *mut usize) {
        *context = CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0));
        Ok(())
    }
    fn cuCtxPushCurrent_v2(context: usize) { CURRENT.with_borrow_mut(|stack| stack.push(context)); Ok(()) }
    fn cuCtxPopCurrent_v2(context: *mut usize) {
        *context = CURRENT.with_borrow_mut(|stack| stack.pop()).ok_or(INVALID_CONTEXT)?;
        Ok(())
    }
    fn cuCtxSetCurrent(context: usize) {
        CURRENT.with_borrow_mut(|stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        });
        Ok(())
    }
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let device = current()?;
        let of = |contexts: &[AtomicUsize; 64]| contexts[device as usize].load(Ordering::Relaxed);
        let contexts = of(&HELD).min(1) + of(&LIVE);
        let taken = contexts as u64 * setting("FAKE_CUDA_CONTEXT", 0);
        (*free, *total) = (memory::free(device).saturating_sub(taken) as usize, memory::total() as usize);
        Ok(())
    }
    fn cuMemAddressReserve(start: *mut u64, size: usize, _alignment: usize, at: u64, _flags: c_ulonglong) {
        *start = memory::reserve(at, size)?;
        Ok(())
    }
    fn cuMemAddressFree(start: u64, size: usize) { memory::unreserve(start, size); Ok(()) }
    fn cuMemCreate(handle: *mut u64, size: usize, properties: *const c_int, _flags: c_ulonglong) {
        // Kind, kinds of handles, kind of place, place.
        *handle = memory::create(*properties.add(3), size as u64, *properties.add(1) == 1)?;
        Ok(())
    }
    fn cuMemExportToShareableHandle(descriptor: *mut c_int, handle: u64, kind: c_int, _flags: c_ulonglong) {
        *descriptor = if kind == 1 { memory::export(handle)? } else { return Err(INVALID_VALUE) };
        Ok(())
    }
    fn cuMemImportFromShareableHandle(handle: *mut u64, descriptor: *mut c_void, kind: c_int) {
        if setting("FAKE_CUDA_IMPORT", 1) == 0 {
            return Err(801);
        }
        *handle = if kind == 1 { memory::import(descriptor.addr() as c_int)? } else { return Err(INVALID_VALUE) };
        Ok(())
    }
    fn cuMemRelease(handle: u64) { memory::release(handle) }
    fn cuMemMap(start: u64, size: usize, _offset: usize, handle: u64, _flags: c_ulonglong) {
        memory::map(start, size as u64, handle)
    }
    fn cuMemUnmap(start: u64, size: usize) { memory::unmap(start, size as u64) }
    fn cuMemSetAccess(start: u64, size: usize, _access: *const c_void, _count: usize) { memory::check(start, size) }
    fn cuMemHostAlloc(memory: *mut u64, size: usize, _flags: c_uint) { *memory = memory::pin(size); Ok(()) }
    fn cuMemFreeHost(memory: u64) { memory::unpin(memory) }
    fn cuMemHostRegister_v2(start: u64, size: usize, _flags: c_uint) { memory::register(start, size) }
    fn cuMemHostUnregister(start: u64) { memory::unregister(start) }
    fn cuMemAlloc_v2(start: *mut u64, bytes: usize) { *start = memory::allocate(current()?, bytes)?; Ok(()) }
    fn cuCtxEnablePeerAccess(peer: usize, _flags: c_uint) {
        // As in the driver, once for each pair.
        static ENABLED: Mutex<Vec<(c_int, usize)>> = Mutex::new(Vec::new());
        let (pair, mut enabled) = ((current()?, peer), lock(&ENABLED));
        if enabled.contains(&pair) {
            return Err(704);
        }
        enabled.push(pair);
        Ok(())
    }
    fn cuIpcGetMemHandle(handle: *mut IpcName, start: u64) { *handle = IpcName(memory::name(start)?); Ok(()) }
    fn cuIpcOpenMemHandle_v2(start: *mut u64, handle: IpcName, _flags: c_uint) {
        current()?;
        *start = memory::open(handle.0)?;
        Ok(())
    }
    fn cuIpcCloseMemHandle(start: u64) { memory::close(start) }
    fn cuMemFree_v2(start: u64) { memory::free_allocation(start) }
    fn cuPointerGetAttributes(_count: c_uint, _attributes: *const c_int, values: *const *mut c_uint, address: u64) {
        **values = u32::from(memory::is_pinned(address));
        Ok(())
    }
    fn cuPointerGetAttribute(value: *mut c_uint, _attribute: c_int, address: u64) {
        *value = 1;
        if memory::is_pinned(address) { Ok(()) } else { Err(INVALID_VALUE) }
    }
    fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, raw: *mut c_void) {
        reach(to, bytes)?;
        current()?;
        if memory::reaches(from, bytes)? {
            copy_locked(&*stream(raw)?, to, from, bytes, from);
        } else {
            let taken = std::slice::from_raw_parts(from as *const u8, bytes).to_vec();
            // SAFETY: the range was checked.
            stream(raw)?.put(move || unsafe { (to as *mut u8).copy_from_nonoverlapping(taken.as_ptr(), taken.len()) });
        }
        Ok(())
    }
    fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, raw: *mut c_void) {
        reach(from, bytes)?;
        current()?;
        if memory::reaches(to, bytes)? {
            copy_locked(&*stream(raw)?, to, from, bytes, to);
        } else {
            copy(&*stream(raw)?, to, from, bytes);
            stream(raw)?.wait();
        }
        Ok(())
    }
    fn cuMemcpy2DAsync_v2(copy: *const Rows, raw: *mut c_void) {
        let Rows { src_type, src_host, src_device, src_pitch, dst_type, dst_host, dst_device, dst_pitch, width, rows, .. } = *copy;
        current()?;
        ROW_COPIES.fetch_add(1, Ordering::Relaxed);
        for row in 0..rows as u64 {
            let (src, dst) = (row * src_pitch as u64, row * dst_pitch as u64);
            let (from, to, host, device) = match (src_type, dst_type) {
                (HOST, DEVICE) => (src_host + src, dst_device + dst, src_host + src, dst_device + dst),
                (DEVICE, HOST) => (src_device + src, dst_host + dst, dst_host + dst, src_device + src),
                _ => return Err(INVALID_VALUE),
            };
            reach(device, width)?;
            // The driver would block here for pageable memory.
            if width > src_pitch || width > dst_pitch || !memory::reaches(host, width)? {
                return Err(INVALID_VALUE);
            }
            copy_locked(&*stream(raw)?, to, from, width, host);
        }
        Ok(())
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, raw: *mut c_void) {
        reach(from, bytes)?;
        reach(to, bytes)?;
        copy(&*stream(raw)?, to, from, bytes);
        Ok(())
    }
    fn cuMemsetD32Async(to: u64, value: c_uint, count: usize, raw: *mut c_void) {
        reach(to, count * 4)?;
        current()?;
        // SAFETY: the range was checked, and is aligned as the driver requires.
        stream(raw)?.put(move || unsafe { std::slice::from_raw_parts_mut(to as *mut u32, count).fill(value) });
        Ok(())
    }
    fn cuMemcpyPeerAsync(to: u64, _to_context: usize, from: u64, _from_context: usize, bytes: usize, raw: *mut c_void) {
        reach(from, bytes)?;
        reach(to, bytes)?;
        copy(&*stream(raw)?, to, from, bytes);
        Ok(())
    }
    fn cuStreamCreate(raw: *mut *const Stream, flags: c_uint) {
        const NON_BLOCKING: c_uint = 1;
        current()?;
        let kind = if flags & NON_BLOCKING == 0 { StreamKind::Blocking } else { StreamKind::NonBlocking };
        *raw = Arc::into_raw(Stream::start(kind)?);
        Ok(())
    }
    fn cuStreamDestroy_v2(raw: *mut c_void) {
        let own = Arc::from_raw(raw.cast_const().cast::<Stream>());
        own.close();
        Ok(())
    }
    fn cuStreamQuery(raw: *mut c_void) { if stream(raw)?.is_idle() { begin("") } else { Err(NOT_READY) } }
    fn cuStreamIsCapturing(raw: *mut c_void, status: *mut c_int) {
        stream(raw)?;
        *status = 0;
        Ok(())
    }
    fn cuStreamSynchronize(raw: *mut c_void) { stream(raw)?.wait(); begin("") }
    fn cuStreamWaitEvent(raw: *mut c_void, event: *const Event, _flags: c_uint) {
        (*event).hold_up(&*stream(raw)?);
        Ok(())
    }
    fn cuEventCreate(event: *mut *mut Event, flags: c_uint) {
        const BLOCKING_SYNC: c_uint = 1;
        *event = Box::into_raw(Box::new(Event::new(flags & BLOCKING_SYNC != 0)));
        Ok(())
    }
    fn cuEventDestroy_v2(event: *mut Event) { drop(Box::from_raw(event)); Ok(()) }
    fn cuEventRecord(event: *const Event, raw: *mut c_void) {
        if (*event).interrupts {
            INTERRUPTS.fetch_add(1, Ordering::Relaxed);
        }
        (*event).record(&stream(raw)?);
        Ok(())
    }
    fn cuEventQuery(event: *const Event) { if (*event).is_done() { begin("") } else { Err(NOT_READY) } }
    fn cuEventSynchronize(event: *const Event) { (*event).wait(); begin("") }
    fn cuEventElapsedTime(milliseconds: *mut f32, start: *const Event, end: *const Event) {
        let real = (*end).after(&*start).ok_or(NOT_READY)?;
        *milliseconds = match TOOK_US.load(Ordering::Relaxed) {
            us if us < 0 => real,
            us => us as f32 / 1e3,
        };
        Ok(())
    }
    fn cuLinkCreate_v2(_count: c_uint, _options: *mut c_void, _values: *mut c_void, state: *mut *mut LinkJob) {
        current()?;
        *state = Box::into_raw(Box::default());
        Ok(())
    }
    fn cuLinkAddData_v2(
        state: *mut LinkJob, kind: c_int, data: *const c_char, size: usize, _name: *const c_char,
        _count: c_uint, _options: *mut c_void, _values: *mut c_void,
    ) {
        let text = string(data);
        if kind != 1 || text.len() + 1 != size {
            return Err(INVALID_VALUE);
        }
        (&mut *state).texts.push(text);
        Ok(())
    }
    fn cuLinkComplete(state: *mut LinkJob, code: *mut *const u8, size: *mut usize) {
        let state = &mut *state;
        state.code = module::link(&state.texts)?;
        (*code, *size) = (state.code.as_ptr(), state.code.len());
        Ok(())
    }
    fn cuLinkDestroy(state: *mut LinkJob) { drop(Box::from_raw(state)); Ok(()) }
    fn cuModuleLoadData(module: *mut *mut Module, code: *const c_char) {
        *module = Box::into_raw(Box::new(Module::load(&string(code), current()?)?));
        Ok(())
    }
    fn cuModuleUnload(module: *mut Module) { Box::from_raw(module).unload(); Ok(()) }
    fn cuModuleGetFunction(function: *mut *mut Function, module: *const Module, name: *const c_char) {
        // Lives until the process ends, as test handles may.
        *function = Box::into_raw(Box::new((*module).function(&string(name))?));
        Ok(())
    }
    fn cuModuleGetGlobal_v2(start: *mut u64, bytes: *mut usize, module: *const Module, name: *const c_char) {
        (*start, *bytes) = (*module).variable(&string(name))?;
        Ok(())
    }
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: *const Function) {
        *value = match attribute {
            1 => 0,                       // static shared memory
            8 => (*function).shared_max,  // dynamic shared memory
            _ => 1024,
        };
        Ok(())
    }
    fn cuFuncSetAttribute(function: *mut Function, attribute: c_int, value: c_int) {
        if attribute != 8 || !(0..=101_376).contains(&value) {
            return Err(INVALID_VALUE);
        }
        (*function).shared_max = value;
        Ok(())
    }
    fn cuOccupancyMaxPotentialBlockSize(
        grid: *mut c_int, block: *mut c_int, _function: *const Function, _shared: *const c_void, _dynamic: usize, limit: c_int,
    ) {
        (*grid, *block) = (8, if limit == 0 { 256 } else { limit });
        Ok(())
    }
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int, _function: *const Function, threads: c_int, _dynamic: usize,
    ) {
        // Two blocks of up to 4 warps.
        *blocks = (256 / threads.max(1)).min(2);
        Ok(())
    }
    fn cuLaunchKernel(
        function: *const Function, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint, raw: *mut c_void,
        parameters: *const *const u8, extra: *mut c_void,
    ) {
        let [grid, block] = [[grid_x, grid_y, grid_z], [block_x, block_y, block_z]];
        Launch::read(&KernelNode { function, grid, block, shared, parameters, extra, rest: [0; 2] })?.put(raw)
    }
    fn cuGraphCreate(graph: *mut *mut Graph, _flags: c_uint) { *graph = Box::into_raw(Box::default()); Ok(()) }
    fn cuGraphDestroy(graph: *mut Graph) { drop(Box::from_raw(graph)); Ok(()) }
    fn cuGraphAddKernelNode_v2(
        node: *mut *mut Graph, graph: *mut Graph, _after: *const c_void, _count: usize, kernel: *const KernelNode,
    ) {
        (*graph).kernel = Some(Launch::read(&*kernel)?);
        *node = graph;
        Ok(())
    }
    fn cuGraphInstantiateWithFlags(exec: *mut *mut Graph, graph: *const Graph, _flags: c_ulonglong) {
        *exec = Box::into_raw(Box::new(Graph { kernel: (*graph).kernel.clone() }));
        Ok(())
    }
    fn cuGraphExecKernelNodeSetParams_v2(exec: *mut Graph, _node: *mut Graph, kernel: *const KernelNode) {
        (*exec).kernel = Some(Launch::read(&*kernel)?);
        Ok(())
    }
    fn cuGraphExecDestroy(exec: *mut Graph) { drop(Box::from_raw(exec)); Ok(()) }
    fn cuGraphLaunch(exec: *const Graph, raw: *mut c_void) {
        GRAPHS.fetch_add(1, Ordering::Relaxed);
        (*exec).kernel.clone().ok_or(INVALID_VALUE)?.put(raw)
    }
}

/// A kernel launch as the graph API describes it.
#[repr(C)]
pub struct KernelNode {
    function: *const Function,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    parameters: *const *const u8,
    extra: *mut c_void,
    rest: [usize; 2],
}

/// A kernel launch with its arguments.
#[derive(Clone)]
struct Launch {
    function: Function,
    gangs: u32,
    of_block: u32,
    dimensions: Dimensions,
    /// Aligned as a parameter is.
    parameter: Vec<u128>,
    bytes: usize,
}

/// A graph of one kernel, or its executable instance.
#[derive(Default)]
pub struct Graph {
    kernel: Option<Launch>,
}

/// Returns the parameter buffer in a launch's extra options: key and value in turn, a null key last.
unsafe fn buffer(extra: *const usize) -> Option<(*const u8, usize)> {
    const BUFFER: usize = 1;
    const SIZE: usize = 2;
    if extra.is_null() {
        return None;
    }
    let (mut start, mut bytes, mut at) = (std::ptr::null(), 0, extra);
    // SAFETY: the caller's promise: the list ends with a null key.
    unsafe {
        while *at != 0 {
            match *at {
                BUFFER => start = *at.add(1) as *const u8,
                SIZE => bytes = *(*at.add(1) as *const usize),
                _ => return None,
            }
            at = at.add(2);
        }
    }
    Some((start, bytes))
}

impl Launch {
    unsafe fn read(node: &KernelNode) -> Result<Self, i32> {
        current()?;
        let threads: u32 = node.block.iter().product();
        if node.grid[0] == 0 || threads == 0 || threads > 1024 {
            return Err(INVALID_VALUE);
        }
        // SAFETY: required of the caller.
        unsafe {
            let function = node.function.as_ref().ok_or(INVALID_HANDLE)?.clone();
            if node.shared > function.shared_max.unsigned_abs() {
                return Err(INVALID_VALUE);
            }
            let (from, bytes) = match buffer(node.extra.cast()) {
                Some(buffer) => buffer,
                None if node.parameters.is_null() => (std::ptr::null(), function.bytes),
                None => (*node.parameters, function.bytes),
            };
            let mut parameter = vec![0u128; bytes.div_ceil(16)];
            if !from.is_null() {
                parameter.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, bytes);
            }
            let dimensions = Dimensions { grid: node.grid, block: node.block, shared: node.shared };
            // In z there are gangs.
            let gangs = node.grid[0] * node.block[2];
            Ok(Self { function, gangs, of_block: node.block[2], dimensions, parameter, bytes })
        }
    }

    fn put(self, raw: *mut c_void) -> Result<(), i32> {
        current()?;
        GANGS.store(self.gangs, Ordering::Relaxed);
        GANGS_OF_BLOCK.store(self.of_block, Ordering::Relaxed);
        stream(raw)?.put(move || {
            // SAFETY: the bytes are the vector's own.
            let parameter = unsafe { std::slice::from_raw_parts(self.parameter.as_ptr().cast(), self.bytes) };
            self.function.run(parameter, self.dimensions);
        });
        Ok(())
    }
}

/// A link in progress.
#[derive(Default)]
pub struct LinkJob {
    texts: Vec<String>,
    code: Vec<u8>,
}

fn copy(stream: &Stream, to: u64, from: u64, bytes: usize) {
    // SAFETY: callers have checked the device's side; the host's side is required of the caller.
    stream.put(move || unsafe { (from as *const u8).copy_to(to as *mut u8, bytes) });
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Rows {
    src_x: usize,
    src_y: usize,
    src_type: c_uint,
    src_host: u64,
    src_device: u64,
    src_array: u64,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_type: c_uint,
    dst_host: u64,
    dst_device: u64,
    dst_array: u64,
    dst_pitch: usize,
    width: usize,
    rows: usize,
}

const HOST: c_uint = 1;
const DEVICE: c_uint = 2;

/// A copy from or to memory at `host`, which must still be pinned or locked when the copy runs.
fn copy_locked(stream: &Stream, to: u64, from: u64, bytes: usize, host: u64) {
    stream.put(move || {
        if !memory::has_locked_pages(host, bytes) {
            // Writes to the old pages, which are no longer mapped anywhere. The bytes are lost, which tests detect.
            if host == from {
                // SAFETY: callers have checked the device's side.
                unsafe { (to as *mut u8).write_bytes(0xee, bytes) };
            }
        } else if memory::reaches(host, bytes) == Ok(true) {
            // SAFETY: callers have checked the device's side; the host's side is mapped as long as it is locked.
            unsafe { (from as *const u8).copy_to(to as *mut u8, bytes) };
        } else {
            lose_context(ILLEGAL_ADDRESS);
        }
    });
}

/// See the driver's manual.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
extern "C" fn cuGetErrorName(code: c_int, text: *mut *const c_char) -> c_int {
    let name = match code {
        1 => c"CUDA_ERROR_INVALID_VALUE",
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        700 => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        _ => c"CUDA_ERROR_OF_THE_FAKE",
    };
    // SAFETY: required of the caller.
    unsafe { *text = name.as_ptr() };
    0
}

/// See the driver's manual.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
extern "C" fn cuGetErrorString(_code: c_int, text: *mut *const c_char) -> c_int {
    // SAFETY: required of the caller.
    unsafe { *text = c"as the test asked for".as_ptr() };
    0
}
