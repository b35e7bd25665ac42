//! CUDA's own objects (OpenACC 3.3, A.2.1). No device of this version has any.

use std::ffi::c_void;
use std::ptr::null_mut;

/// What GCC's runtime answers where a queue can't be a CUDA stream.
const NO_STREAM: i32 = -1;

/// The current device's CUDA device; null if it has none.
#[unsafe(no_mangle)]
extern "C" fn acc_get_current_cuda_device() -> *mut c_void {
    null_mut()
}

/// The current device's CUDA context; null if it has none.
#[unsafe(no_mangle)]
extern "C" fn acc_get_current_cuda_context() -> *mut c_void {
    null_mut()
}

/// A queue's CUDA stream; null if it has none.
#[unsafe(no_mangle)]
extern "C" fn acc_get_cuda_stream(_queue: i32) -> *mut c_void {
    null_mut()
}

/// Makes a CUDA stream a queue's own.
#[unsafe(no_mangle)]
extern "C" fn acc_set_cuda_stream(_queue: i32, _stream: *mut c_void) -> i32 {
    NO_STREAM
}
