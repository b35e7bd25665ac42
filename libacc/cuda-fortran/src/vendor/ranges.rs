//! Ranges that programs name by NVTX's functions and module `nvtx`: they appear in the program's trace and timeline.

use crate::acc;
use crate::descriptor::Descriptor;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows of a thread's ranges, by their depth. Deeper ranges are not recorded.
const DEPTH_MAX: u32 = 64;
/// `NVTX_MESSAGE_TYPE_ASCII`.
const ASCII: i32 = 1;
/// The result of a call without a range.
const NO_RANGE: i32 = -1;
/// `CLOCK_MONOTONIC`.
const MONOTONIC: i32 = 1;

/// `nvtxEventAttributes_t`.
#[repr(C)]
struct EventAttributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

#[repr(C)]
struct TimeSpec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut TimeSpec) -> i32;
}

/// A range that has not ended.
struct OpenRange {
    name: CString,
    start_ns: u64,
}

/// Threads with ranges so far.
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The ranges that this thread is in, outermost first, bounded by the program's own calls.
    static OPEN: RefCell<Vec<OpenRange>> = const { RefCell::new(Vec::new()) };
    static THREAD: Cell<Option<u32>> = const { Cell::new(None) };
}

fn now_ns() -> u64 {
    let mut time = TimeSpec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the structure is valid for writing.
    unsafe { clock_gettime(MONOTONIC, &raw mut time) };
    u64::try_from(time.seconds * 1_000_000_000 + time.nanoseconds).unwrap_or(0)
}

/// Begins a range; returns its depth.
fn push(name: &[u8]) -> i32 {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default().trim_ascii_end();
    let name = CString::new(name).unwrap_or_default();
    OPEN.with_borrow_mut(|open| {
        let depth = i32::try_from(open.len()).unwrap_or(i32::MAX);
        open.push(OpenRange { name, start_ns: now_ns() });
        depth
    })
}

/// Returns an argument's characters.
fn text(label: &Descriptor) -> &[u8] {
    // SAFETY: the argument is a scalar of characters in host memory.
    unsafe { std::slice::from_raw_parts(label.base as *const u8, label.element) }
}

#[unsafe(no_mangle)]
extern "C" fn nvtxRangePushA(name: *const c_char) -> i32 {
    // SAFETY: the caller passes a terminated text, or null.
    push(if name.is_null() { &[] } else { unsafe { CStr::from_ptr(name) }.to_bytes() })
}

#[unsafe(no_mangle)]
extern "C" fn nvtxRangePushEx(event: &EventAttributes) -> i32 {
    let message = if event.message_type == ASCII { event.message } else { std::ptr::null() };
    nvtxRangePushA(message)
}

/// Ends this thread's innermost range; returns its depth.
#[unsafe(no_mangle)]
extern "C" fn nvtxRangePop() -> i32 {
    let Some((range, depth)) = OPEN.with_borrow_mut(|open| open.pop().map(|range| (range, open.len()))) else {
        return NO_RANGE;
    };
    let thread = THREAD.get().unwrap_or_else(|| {
        let new = THREADS.fetch_add(1, Ordering::Relaxed);
        THREAD.set(Some(new));
        new
    });
    let depth = u32::try_from(depth).unwrap_or(u32::MAX);
    if depth < DEPTH_MAX {
        acc::record_range(&range.name, range.start_ns, now_ns(), thread.wrapping_mul(DEPTH_MAX).wrapping_add(depth));
    }
    depth.cast_signed()
}

#[unsafe(no_mangle)]
extern "C" fn nvtxMarkA(_name: *const c_char) {}

#[unsafe(no_mangle)]
extern "C" fn accord_nvtx_mark(_label: &Descriptor) {}

#[unsafe(no_mangle)]
extern "C" fn accord_nvtx_push(label: &Descriptor) {
    push(text(label));
}

/// Begins a range. Its colour has no effect.
#[unsafe(no_mangle)]
extern "C" fn accord_nvtx_start(label: &Descriptor, _color: *const i32) {
    push(text(label));
}
