//! Controls of the fake driver for tests, besides the driver's own calls.

use crate::memory;
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString, c_char, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A kernel: receives its slots, and returns 0 or the error that ends the context.
pub type Kernel = extern "C" fn(slots: *const u64) -> i32;

pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const OUT_OF_MEMORY: i32 = 2;
pub(crate) const INVALID_CONTEXT: i32 = 201;
pub(crate) const CONTEXT_IS_DESTROYED: i32 = 709;
pub(crate) const INVALID_HANDLE: i32 = 400;
pub(crate) const NOT_FOUND: i32 = 500;
pub(crate) const NOT_READY: i32 = 600;
pub(crate) const ILLEGAL_ADDRESS: i32 = 700;
pub(crate) const ALREADY_REGISTERED: i32 = 712;
pub(crate) const NOT_REGISTERED: i32 = 713;
pub(crate) const NOT_SUPPORTED: i32 = 801;

static KERNELS: Mutex<Option<HashMap<String, Kernel>>> = Mutex::new(None);
/// Call, calls until it fails, and error.
static FAILURES: Mutex<Vec<(String, u32, i32)>> = Mutex::new(Vec::new());
static LINKS: AtomicU32 = AtomicU32::new(0);
pub(crate) static GANGS: AtomicU32 = AtomicU32::new(0);
pub(crate) static GANGS_OF_BLOCK: AtomicU32 = AtomicU32::new(0);
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Number of launched graphs.
pub(crate) static GRAPHS: AtomicU32 = AtomicU32::new(0);
/// Number of copies of several rows.
pub(crate) static ROW_COPIES: AtomicU32 = AtomicU32::new(0);
/// Number of events that interrupt a core.
pub(crate) static INTERRUPTS: AtomicU32 = AtomicU32::new(0);
/// Delay in microseconds before the driver reads a copy's addresses.
pub(crate) static DAWDLES_US: AtomicU32 = AtomicU32::new(0);
/// Number of copies of unmapped memory.
pub(crate) static STRAYS: AtomicU32 = AtomicU32::new(0);
pub(crate) static TOOK_US: AtomicI32 = AtomicI32::new(-1);
/// The error of every call once the context is lost.
static STICKY: AtomicI32 = AtomicI32::new(0);

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn text(raw: *const c_char) -> String {
    // SAFETY: callers pass strings that end with a zero byte.
    unsafe { CStr::from_ptr(raw) }.to_string_lossy().into_owned()
}

/// Runs `kernel` for every launch of the function `name`.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_kernel(name: *const c_char, kernel: Kernel) {
    lock(&KERNELS).get_or_insert_default().insert(text(name), kernel);
}

/// Makes the driver's function `name` fail with `code` once, after `after` successful calls.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_fail(name: *const c_char, after: u32, code: i32) {
    lock(&FAILURES).push((text(name), after, code));
}

/// Returns how often PTX was linked.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_links() -> u32 {
    LINKS.load(Ordering::Relaxed)
}

/// Sets the time between two completed events in microseconds, or restores the real time if negative.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_took(us: i32) {
    TOOK_US.store(us, Ordering::Relaxed);
}

/// Returns the number of gangs of the last launch.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_gangs() -> u32 {
    GANGS.load(Ordering::Relaxed)
}

/// Returns the number of its gangs per thread block.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_gangs_of_block() -> u32 {
    GANGS_OF_BLOCK.load(Ordering::Relaxed)
}

/// Returns the number of calls of a function.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_calls() -> u32 {
    CALLS.load(Ordering::Relaxed)
}

/// Returns the number of launched graphs.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_graphs() -> u32 {
    GRAPHS.load(Ordering::Relaxed)
}

/// Returns how often the device has interrupted a core.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Returns the number of copies of several rows.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_row_copies() -> u32 {
    ROW_COPIES.load(Ordering::Relaxed)
}

/// Sets a delay in microseconds before the driver reads a copy's addresses.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_dawdle(us: u32) {
    DAWDLES_US.store(us, Ordering::Relaxed);
}

/// Returns the number of copies of unmapped memory, for which a real device would lose its context.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_strays() -> u32 {
    STRAYS.load(Ordering::Relaxed)
}

/// Returns the number of locked host ranges that overlap this one.
#[unsafe(no_mangle)]
pub extern "C" fn fake_cuda_registered(start: u64, len: u64) -> u32 {
    let overlaps = |(at, bytes): &&(u64, u64)| *at < start.saturating_add(len) && start < at + bytes;
    memory::registered().iter().filter(overlaps).count() as u32
}

/// Returns the function that stands for a kernel: one registered by this process, else one of the library `FAKE_CUDA_KERNELS`.
pub(crate) fn kernel(name: &str) -> Option<Kernel> {
    let registered = lock(&KERNELS).as_ref().and_then(|kernels| kernels.get(name).copied());
    registered.or_else(|| {
        let name = CString::new(name).ok()?;
        // SAFETY: the library stays loaded, and the name ends with a zero byte.
        let symbol = unsafe { libc::dlsym(library()? as *mut c_void, name.as_ptr()) };
        // SAFETY: the library's functions with kernels' names are kernels, and a null pointer is `None`.
        unsafe { std::mem::transmute::<*mut c_void, Option<Kernel>>(symbol) }
    })
}

/// Loads the library with functions in place of kernels, for processes other than the test's own.
fn library() -> Option<usize> {
    static LIBRARY: OnceLock<Option<usize>> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        let path = CString::new(std::env::var("FAKE_CUDA_KERNELS").ok()?).ok()?;
        // SAFETY: the path ends with a zero byte, and the library is the test's own.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "{path:?} can't be loaded");
        Some(library as usize)
    })
}

pub(crate) fn count_link() {
    LINKS.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn lose_context(code: i32) {
    let _ = STICKY.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed);
}

/// Calls that access a device's memory or run code on it.
const TOUCHING: [&str; 5] =
    ["cuLaunchKernel", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuEventSynchronize"];

/// Returns the current fault of the process's GPUs: the number in the file `gpu-SEED` of the folder `FAKE_CUDA_FAULTS`.
fn fault() -> Option<i32> {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let folder = variable("FAKE_CUDA_FAULTS")?;
        Some(PathBuf::from(folder).join(format!("gpu-{}", setting("FAKE_CUDA_UUID_SEED", 0))))
    });
    std::fs::read_to_string(file.as_ref()?).ok()?.trim().parse().ok()
}

/// Returns the error that a call must return, at its start.
pub(crate) fn begin(call: &str) -> Result<(), i32> {
    CALLS.fetch_add(1, Ordering::Relaxed);
    if TOUCHING.contains(&call)
        && let Some(code) = fault()
    {
        lose_context(code);
    }
    let sticky = STICKY.load(Ordering::Acquire);
    if sticky != 0 {
        return Err(sticky);
    }
    let mut failures = lock(&FAILURES);
    if let Some(at) = failures.iter().position(|(name, _, _)| name == call) {
        if failures[at].1 == 0 {
            return Err(failures.swap_remove(at).2);
        }
        failures[at].1 -= 1;
    }
    Ok(())
}

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    variable(name).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(default)
}

/// Names may have the prefix `NVIDIA_`, with which they reach executors of users other than the agent's.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).or_else(|| std::env::var_os(format!("NVIDIA_{name}")))
}
