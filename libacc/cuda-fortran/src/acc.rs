//! OpenACC's routines, called as in any program.

use crate::errors::{self, CallPlace};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

#[allow(clippy::missing_safety_doc)]
mod raw {
    use super::{c_char, c_void};

    unsafe extern "C" {
        pub(super) safe fn acc_get_num_devices(kind: i32) -> i32;
        pub(super) safe fn acc_get_device_type() -> i32;
        pub(super) safe fn acc_get_device_num(kind: i32) -> i32;
        pub(super) safe fn acc_set_device_num(num: i32, kind: i32);
        pub(super) safe fn acc_malloc(bytes: usize) -> *mut c_void;
        pub(super) fn acc_free(address: *mut c_void);
        pub(super) fn acc_memcpy_to_device(to: *mut c_void, from: *const c_void, bytes: usize);
        pub(super) fn acc_memcpy_from_device(to: *mut c_void, from: *const c_void, bytes: usize);
        pub(super) fn acc_memcpy_to_device_async(to: *mut c_void, from: *const c_void, bytes: usize, queue: i32);
        pub(super) fn acc_memcpy_from_device_async(to: *mut c_void, from: *const c_void, bytes: usize, queue: i32);
        pub(super) fn acc_memcpy_device(to: *mut c_void, from: *const c_void, bytes: usize);
        pub(super) fn acc_memcpy_device_async(to: *mut c_void, from: *const c_void, bytes: usize, queue: i32);
        pub(super) fn acc_memcpy_d2d(
            to: *mut c_void,
            from: *const c_void,
            bytes: usize,
            to_device: i32,
            from_device: i32,
        );
        pub(super) safe fn acc_wait(queue: i32);
        pub(super) safe fn acc_wait_all();
        pub(crate) safe fn acc_wait_async(waited: i32, queue: i32);
        pub(super) safe fn acc_async_test(queue: i32) -> i32;
        pub(crate) safe fn acc_async_test_all() -> i32;
        pub(super) safe fn acc_get_property(num: i32, kind: i32, property: i32) -> usize;
        pub(super) safe fn acc_get_property_string(num: i32, kind: i32, property: i32) -> *const c_char;
        pub(super) safe fn acc_get_current_cuda_context() -> *mut c_void;
        pub(super) safe fn acc_get_cuda_stream(queue: i32) -> *mut c_void;
        pub(super) fn acc_prof_lookup(name: *const c_char) -> *mut c_void;
        pub(super) safe fn acc_deviceptr(host: *const c_void) -> *mut c_void;
        pub(super) fn GOMP_offload_register_ver(version: u32, table: *const c_void, target: i32, data: *const c_void);
        pub(super) fn GOACC_parallel_keyed(
            device: i32,
            function: *const c_void,
            count: usize,
            hosts: *const *const c_void,
            sizes: *const usize,
            kinds: *const u16,
            ...
        );
    }
}

pub(crate) use raw::acc_wait_async as wait_async;

/// A property of a device that is a number.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Number {
    Memory = 1,
    FreeMemory = 2,
}

/// `acc_device_nvidia`.
const NVIDIA: i32 = 5;
/// GCC's number of nvptx among offload targets, and the first version of its images, of a library of GCC 12.
const NVPTX: i32 = 5;
const IMAGE_VERSION: u32 = 0x1_0001;
/// `acc_property_name` and `acc_property_vendor`.
const NAME: i32 = 0x1_0001;
const VENDOR: i32 = 0x1_0002;
/// Accord's own properties: attributes by the CUDA driver's numbers.
const ATTRIBUTES: i32 = 0x2_0000;
/// `firstprivate`, with an alignment of 16 bytes.
const FIRST_PRIVATE: u16 = 0x040c;
/// `acc_async_sync`.
const SYNC: i32 = -2;
/// The device number for the thread's current device.
const CURRENT: i32 = -1;
/// Launch tags of GCC's code: dimensions in the next three words; the queue in the next word.
const DIMENSIONS: u32 = 1 << 28 | 7;
const QUEUE: u32 = 2 << 28 | 0xffff;

/// Sets the source's place for the next calls: file, function, line. A null file ends that.
type PlaceSetter = extern "C" fn(*const c_char, *const c_char, i32);
/// Records a range: name, start and end in nanoseconds of `CLOCK_MONOTONIC`, row.
type RangeRecorder = extern "C" fn(*const c_char, u64, u64, u32);
/// Returns the number of the device with an address, plus one; 0 if none has it.
type OwnerFinder = extern "C" fn(usize) -> i32;

/// Returns a function of Accord's own, beyond OpenACC's; null under another OpenACC runtime.
fn extension(name: &CStr) -> *mut c_void {
    // SAFETY: the name is terminated.
    unsafe { raw::acc_prof_lookup(name.as_ptr()) }
}

/// Calls `f`, with the place of the program's call of this runtime as that of the calls of OpenACC.
fn located<R>(f: impl FnOnce() -> R) -> R {
    static SETTER: OnceLock<Option<PlaceSetter>> = OnceLock::new();
    let setter = SETTER.get_or_init(|| {
        let setter = extension(c"accord_prof_at");
        // SAFETY: the function of this name has this type.
        (!setter.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, PlaceSetter>(setter) })
    });
    let CallPlace { file, function, line } = errors::call_place();
    let setter = setter.filter(|_| !file.is_null());
    if let Some(set) = setter {
        set(file, function, line);
    }
    let result = f();
    if let Some(set) = setter {
        set(std::ptr::null(), std::ptr::null(), 0);
    }
    result
}

/// Records a range that the program has named in its trace.
pub(crate) fn record_range(name: &CStr, start_ns: u64, end_ns: u64, row: u32) {
    static RECORDER: OnceLock<Option<RangeRecorder>> = OnceLock::new();
    let recorder = RECORDER.get_or_init(|| {
        let recorder = extension(c"accord_prof_range");
        // SAFETY: the function of this name has this type.
        (!recorder.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, RangeRecorder>(recorder) })
    });
    if let Some(record) = recorder {
        record(name.as_ptr(), start_ns, end_ns, row);
    }
}

/// Returns the device that has an address, also of memory that OpenACC allocated; `None` for host memory.
pub(crate) fn owner(address: usize) -> Option<i32> {
    static FINDER: OnceLock<Option<OwnerFinder>> = OnceLock::new();
    let finder = FINDER.get_or_init(|| {
        let finder = extension(c"accord_device_of");
        // SAFETY: the function of this name has this type.
        (!finder.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, OwnerFinder>(finder) })
    });
    let found = finder.map_or(0, |find| find(address));
    (found > 0).then(|| found - 1)
}

/// Returns the driver's stream of a queue of the current device, which is a GPU of this process.
pub(crate) fn cuda_stream(queue: i32) -> usize {
    raw::acc_get_cuda_stream(queue).expose_provenance()
}

/// Lets a queue's next work come after that of the synchronous queue: a copy from the host returns before the device has all of it.
pub(crate) fn follow_copies(queue: i32) {
    raw::acc_wait_async(SYNC, queue);
}

/// Waits for a queue of the current device.
pub(crate) fn wait(queue: i32) {
    located(|| raw::acc_wait(queue));
}

pub(crate) fn devices() -> i32 {
    raw::acc_get_num_devices(raw::acc_get_device_type())
}

pub(crate) fn is_device(num: i32) -> bool {
    (0..devices()).contains(&num)
}

pub(crate) fn device() -> i32 {
    raw::acc_get_device_num(raw::acc_get_device_type())
}

/// Returns the current device, and whether its type is that of GPUs.
pub(crate) fn device_and_type() -> (i32, bool) {
    let device_type = raw::acc_get_device_type();
    (raw::acc_get_device_num(device_type), device_type == NVIDIA)
}

/// Whether the current device is a GPU.
pub(crate) fn is_gpu() -> bool {
    is_gpu_device(device())
}

/// Whether a device is a GPU. A CPU device can appear under its type.
pub(crate) fn is_gpu_device(num: i32) -> bool {
    raw::acc_get_device_type() == NVIDIA && text(num, VENDOR) == b"NVIDIA"
}

/// Whether the current device is a GPU that this process drives.
pub(crate) fn has_cuda_context() -> bool {
    !raw::acc_get_current_cuda_context().is_null()
}

/// Returns the address of a registered variable on the current device; 0 if the device does not have it.
pub(crate) fn address_of(host: usize) -> usize {
    raw::acc_deviceptr(host as *const c_void).addr()
}

/// Registers code for GPUs.
///
/// # Safety
/// `table` and `data` are a host table and an image of [`NVPTX`] in [`IMAGE_VERSION`], which are never freed.
pub(crate) unsafe fn register_image(table: usize, data: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        raw::GOMP_offload_register_ver(IMAGE_VERSION, table as *const c_void, NVPTX, data as *const c_void);
    }
}

pub(crate) fn set_device(num: i32) {
    raw::acc_set_device_num(num, raw::acc_get_device_type());
}

/// Runs `f` with `num` as the thread's current device.
pub(crate) fn on_device<R>(num: i32, f: impl FnOnce() -> R) -> R {
    let current = device();
    if num != current {
        set_device(num);
    }
    let result = f();
    if num != current {
        set_device(current);
    }
    result
}

/// Waits for all queues of the current device.
pub(crate) fn wait_all() {
    located(|| raw::acc_wait_all());
}

/// Whether no queue of the current device has work left.
pub(crate) fn is_idle() -> bool {
    raw::acc_async_test_all() != 0
}

pub(crate) fn is_done(queue: i32) -> bool {
    raw::acc_async_test(queue) != 0
}

pub(crate) fn number(num: i32, property: Number) -> usize {
    raw::acc_get_property(num, raw::acc_get_device_type(), property as i32)
}

/// Returns an attribute of a device by the CUDA driver's number; 0 if it is unknown.
pub(crate) fn attribute(num: i32, attribute: i32) -> i32 {
    let value = raw::acc_get_property(num, raw::acc_get_device_type(), ATTRIBUTES + attribute);
    i32::try_from(value).unwrap_or(0)
}

/// Returns the name of a device.
pub(crate) fn name(num: i32) -> Vec<u8> {
    text(num, NAME).to_vec()
}

/// Returns a property of a device that is a text; empty if it has none.
fn text(num: i32, property: i32) -> &'static [u8] {
    let text = raw::acc_get_property_string(num, raw::acc_get_device_type(), property);
    // SAFETY: the routine returns a terminated static string, or null.
    if text.is_null() { &[] } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

/// Allocates memory of the current device; returns 0 if there is none left.
pub(crate) fn allocate(bytes: usize) -> usize {
    located(|| raw::acc_malloc(bytes.max(1))).addr()
}

/// Frees memory of the current device.
pub(crate) fn free(address: usize) {
    // SAFETY: the address is from `allocate`, and is freed once: `memory` has removed it from its table.
    located(|| unsafe { raw::acc_free(address as *mut c_void) });
}

/// The direction of a copy that involves the current device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyDirection {
    ToDevice,
    FromDevice,
    Within,
}

/// Performs or enqueues a copy on the current device.
///
/// # Safety
/// Both ranges are valid on their sides until the copy has ended.
pub(crate) unsafe fn copy(way: CopyDirection, to: usize, from: usize, bytes: usize, queue: Option<i32>) {
    let (to, from) = (to as *mut c_void, from as *const c_void);
    // SAFETY: the caller's promise.
    located(|| unsafe {
        match (way, queue) {
            (CopyDirection::ToDevice, None) => raw::acc_memcpy_to_device(to, from, bytes),
            (CopyDirection::FromDevice, None) => raw::acc_memcpy_from_device(to, from, bytes),
            (CopyDirection::Within, None) => raw::acc_memcpy_device(to, from, bytes),
            (CopyDirection::ToDevice, Some(queue)) => raw::acc_memcpy_to_device_async(to, from, bytes, queue),
            (CopyDirection::FromDevice, Some(queue)) => raw::acc_memcpy_from_device_async(to, from, bytes, queue),
            (CopyDirection::Within, Some(queue)) => raw::acc_memcpy_device_async(to, from, bytes, queue),
        }
    });
}

/// Copies between devices, and waits for the end.
///
/// # Safety
/// Both ranges are valid on their devices.
pub(crate) unsafe fn copy_between(to: (usize, i32), from: (usize, i32), bytes: usize) {
    // SAFETY: the caller's promise.
    located(|| unsafe { raw::acc_memcpy_d2d(to.0 as *mut c_void, from.0 as *const c_void, bytes, to.1, from.1) });
}

/// Starts a region on the current device with one entry, which is passed by value. `blocks` and `threads` are for observers.
///
/// # Safety
/// `region` is a function of this program that takes such an entry.
pub(crate) unsafe fn launch(region: usize, entry: &[u64], queue: i32, blocks: u32, threads: u32) {
    let hosts = [entry.as_ptr().cast::<c_void>()];
    let sizes = [size_of_val(entry)];
    let kinds = [FIRST_PRIVATE];
    // SAFETY: the arrays have one element each, and the tags are as GCC writes them, with a 0 at the end.
    located(|| unsafe {
        raw::GOACC_parallel_keyed(
            CURRENT,
            region as *const c_void,
            1,
            hosts.as_ptr(),
            sizes.as_ptr(),
            kinds.as_ptr(),
            DIMENSIONS,
            blocks,
            1_u32,
            threads,
            QUEUE,
            queue,
            0_u32,
        );
    });
}
