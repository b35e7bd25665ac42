//! The tests' own driver, and the kernels of regions.c for it.

use accord_types::HostRange;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Condvar, Mutex};

type Kernel = extern "C" fn(*const u64) -> i32;

static LIBRARY: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Loads it under the driver's own name, unless `ACCORD_TEST_GPU` requests the real one.
pub(crate) fn load_unless_real() {
    if std::env::var_os("ACCORD_TEST_GPU").is_some() {
        return;
    }
    // Keeps cargo building it.
    let _ = accord_fake_cuda::fake_cuda_links as extern "C" fn() -> u32;
    let path = std::env::current_exe().expect("this binary").with_file_name("libaccord_fake_cuda.so");
    let name = CString::new(path.to_string_lossy().as_bytes()).expect("no zero byte");
    // SAFETY: the name ends with a zero byte, and the library has no constructors.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "{} can't be loaded", path.display());
    LIBRARY.store(library, Ordering::Release);
    let kernels: [(&CStr, Kernel); 5] = [
        (c"add$_omp_fn$0", add),
        (c"double_slowly$_omp_fn$0", double_slowly),
        (c"read_variable$_omp_fn$0", read_variable),
        (c"crash$_omp_fn$0", crash),
        (c"sum$_omp_fn$0", sum),
    ];
    for (name, kernel) in kernels {
        // SAFETY: the library's function of this name has this type.
        let register: extern "C" fn(*const c_char, Kernel) =
            unsafe { std::mem::transmute(symbol(c"fake_cuda_kernel").expect("the library's own")) };
        register(name.as_ptr(), kernel);
    }
}

pub(crate) fn is_loaded() -> bool {
    !LIBRARY.load(Ordering::Acquire).is_null()
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    let library = LIBRARY.load(Ordering::Acquire);
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is loaded, the name ends with a zero byte.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// Makes a call fail once, after `after` successful ones.
pub(crate) fn fail(call: &str, after: u32, code: i32) {
    let call = CString::new(call).expect("no zero byte");
    if let Some(symbol) = symbol(c"fake_cuda_fail") {
        // SAFETY: the library's function of this name has this type.
        let fail: extern "C" fn(*const c_char, u32, i32) = unsafe { std::mem::transmute(symbol) };
        fail(call.as_ptr(), after, code);
    }
}

/// Returns how often PTX was linked.
pub(crate) fn links() -> u32 {
    symbol(c"fake_cuda_links").map_or(0, |symbol| {
        // SAFETY: as above.
        let links: extern "C" fn() -> u32 = unsafe { std::mem::transmute(symbol) };
        links()
    })
}

/// Makes the driver wait for so many microseconds before it checks the addresses of a copy.
pub(crate) fn dawdle(us: u32) {
    set(c"fake_cuda_dawdle", us);
}

/// Returns the number of copies whose memory did not exist.
pub(crate) fn strays() -> u32 {
    number(c"fake_cuda_strays")
}

/// Sets the measured time between two events, in microseconds; the real one if negative.
pub(crate) fn took(us: i32) {
    set(c"fake_cuda_took", us);
}

/// Returns the number of gangs of the last launch.
pub(crate) fn gangs() -> u32 {
    number(c"fake_cuda_gangs")
}

/// Returns its number of gangs per thread block.
pub(crate) fn gangs_of_block() -> u32 {
    number(c"fake_cuda_gangs_of_block")
}

/// Returns the number of calls.
pub(crate) fn calls() -> u32 {
    number(c"fake_cuda_calls")
}

/// Returns the number of launched graphs.
pub(crate) fn graphs() -> u32 {
    number(c"fake_cuda_graphs")
}

/// Returns how often the device has interrupted a core.
pub(crate) fn interrupts() -> u32 {
    number(c"fake_cuda_interrupts")
}

/// Returns the number of copies of several rows.
pub(crate) fn row_copies() -> u32 {
    number(c"fake_cuda_row_copies")
}

fn set<T>(name: &CStr, value: T) {
    if let Some(symbol) = symbol(name) {
        // SAFETY: the library's function of this name takes such a value.
        let set: extern "C" fn(T) = unsafe { std::mem::transmute(symbol) };
        set(value);
    }
}

fn number(name: &CStr) -> u32 {
    symbol(name).map_or(0, |symbol| {
        // SAFETY: as above.
        let gangs: extern "C" fn() -> u32 = unsafe { std::mem::transmute(symbol) };
        gangs()
    })
}

/// Returns this thread's current context, by the driver in use.
pub(crate) fn current_context() -> usize {
    // SAFETY: loading the driver has no preconditions, and its function of this name has this type.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let symbol = libc::dlsym(library, c"cuCtxGetCurrent".as_ptr());
        assert!(!symbol.is_null());
        let get: extern "C" fn(*mut usize) -> i32 = std::mem::transmute(symbol);
        let mut context = 0;
        assert_eq!(get(&raw mut context), 0);
        context
    }
}

/// Waits for a stream by the driver in use, as the program itself does.
pub(crate) fn synchronize(context: usize, stream: usize) {
    // SAFETY: the driver's functions of these names have these types; the handles are a device's own.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let call = |name: &CStr| -> extern "C" fn(usize) -> i32 {
            let symbol = libc::dlsym(library, name.as_ptr());
            assert!(!symbol.is_null());
            std::mem::transmute(symbol)
        };
        let mut popped = 0usize;
        assert_eq!(call(c"cuCtxPushCurrent_v2")(context), 0);
        assert_eq!(call(c"cuStreamSynchronize")(stream), 0);
        assert_eq!(call(c"cuCtxPopCurrent_v2")((&raw mut popped).expose_provenance()), 0);
    }
}

/// Calls `act` with a context current and the driver's function of this name.
fn with_driver<T>(context: usize, name: &CStr, act: impl FnOnce(*mut c_void) -> T) -> T {
    // SAFETY: the driver's functions of these names have these types; the context is a device's own.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let find = |name: &CStr| {
            let symbol = libc::dlsym(library, name.as_ptr());
            assert!(!symbol.is_null());
            symbol
        };
        let push: extern "C" fn(usize) -> i32 = std::mem::transmute(find(c"cuCtxPushCurrent_v2"));
        let pop: extern "C" fn(*mut usize) -> i32 = std::mem::transmute(find(c"cuCtxPopCurrent_v2"));
        assert_eq!(push(context), 0);
        let result = act(find(name));
        assert_eq!(pop(&mut 0), 0);
        result
    }
}

/// Fills `words` words of 4 bytes with `value` in the driver's default stream, as the program itself does.
pub(crate) fn fill(context: usize, at: u64, value: u32, words: usize) {
    with_driver(context, c"cuMemsetD32Async", |symbol| {
        // SAFETY: the driver's function of this name has this type.
        let fill: extern "C" fn(u64, u32, usize, usize) -> i32 = unsafe { std::mem::transmute(symbol) };
        assert_eq!(fill(at, value, words, 0), 0);
    });
}

/// Whether the driver in use knows the memory at an address, as pinned or locked.
pub(crate) fn knows(context: usize, address: usize) -> bool {
    const MEMORY_TYPE: i32 = 2;
    with_driver(context, c"cuPointerGetAttributes", |symbol| {
        // SAFETY: the driver's function of this name has this type.
        let ask: extern "C" fn(u32, *const i32, *const *mut u32, u64) -> i32 = unsafe { std::mem::transmute(symbol) };
        let mut kind = 0;
        let value = &raw mut kind;
        ask(1, &MEMORY_TYPE, &raw const value, address as u64) == 0 && kind != 0
    })
}

/// Returns memory that the program itself has pinned.
pub(crate) fn pin(context: usize, len: usize) -> &'static mut [u8] {
    with_driver(context, c"cuMemHostAlloc", |symbol| {
        // SAFETY: the driver's function of this name has this type; the memory is never freed.
        unsafe {
            let allocate: extern "C" fn(*mut *mut u8, usize, u32) -> i32 = std::mem::transmute(symbol);
            let mut memory = std::ptr::null_mut();
            assert_eq!(allocate(&raw mut memory, len, 1), 0);
            memory.write_bytes(0, len);
            std::slice::from_raw_parts_mut(memory, len)
        }
    })
}

/// Forks a process that ends at once, and waits for it.
pub(crate) fn fork() {
    // SAFETY: the child calls nothing but `_exit`.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::_exit(0);
        }
        assert!(child > 0);
        assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
    }
}

/// Writes bytes to the program's memory.
pub(crate) fn write(range: HostRange, bytes: &[u8]) {
    assert!(bytes.len() <= range.len);
    // SAFETY: the tests pass ranges of vectors that live.
    unsafe {
        std::ptr::with_exposed_provenance_mut::<u8>(range.start).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
}

// SAFETY of all kernels: the tests pass slots as the regions of regions.c have them.

unsafe fn get<T: Copy>(slots: *const u64, index: usize) -> *mut T {
    // SAFETY: see above.
    unsafe { *slots.add(index) as *mut T }
}

extern "C" fn add(slots: *const u64) -> i32 {
    // SAFETY: see above.
    unsafe {
        let (a, s, n): (*mut f64, f64, i32) = (get(slots, 0), *get(slots, 1), *get(slots, 2));
        for i in 0..n as usize {
            *a.add(i) += s;
        }
    }
    0
}

/// Whether `double_slowly` waits before it ends, and what wakes it.
static IS_HELD: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

/// Keeps regions `double_slowly` from ending until it is dropped. On a real driver they end by themselves.
pub(crate) struct SlowRegions(());

impl SlowRegions {
    pub(crate) fn hold() -> Self {
        Self::set(true);
        Self(())
    }

    fn set(is_held: bool) {
        *IS_HELD.0.lock().expect("test lock") = is_held;
        IS_HELD.1.notify_all();
    }
}

impl Drop for SlowRegions {
    fn drop(&mut self) {
        Self::set(false);
    }
}

extern "C" fn double_slowly(slots: *const u64) -> i32 {
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(IS_HELD.1.wait_while(IS_HELD.0.lock().expect("test lock"), |is_held| *is_held));
    // SAFETY: see above.
    unsafe {
        let (a, b): (*mut f64, f64) = (get(slots, 0), *get(slots, 2));
        *a = 2.0 * *a + b;
    }
    0
}

extern "C" fn read_variable(slots: *const u64) -> i32 {
    // SAFETY: see above.
    unsafe { *get::<f64>(slots, 0) = f64::from(*get::<i32>(slots, 1)) };
    0
}

extern "C" fn crash(_slots: *const u64) -> i32 {
    700
}

extern "C" fn sum(slots: *const u64) -> i32 {
    // SAFETY: see above.
    unsafe {
        let (s, a, n): (*mut f64, *mut f64, i32) = (get(slots, 0), get(slots, 1), *get(slots, 2));
        *s += (0..n as usize).map(|i| *a.add(i)).sum::<f64>();
    }
    0
}
