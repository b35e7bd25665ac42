//! CUDA's own objects (OpenACC 3.3, A.2.1), for programs that also use CUDA or its libraries.

use crate::abi_boundary::routine;
use std::ffi::c_void;
use std::ptr::null_mut;

/// The answer of GCC's runtime where a queue can't be a CUDA stream.
const NO_STREAM: i32 = -1;
const DONE: i32 = 1;

/// Most GPUs of one machine.
const DEVICES_MAX: usize = 64;

/// Addresses of driver numbers, which programs get as from GCC's runtime.
static DEVICES: [i32; DEVICES_MAX] = {
    let mut numbers = [0; DEVICES_MAX];
    let mut index = 0;
    while index < DEVICES_MAX {
        numbers[index] = index as i32;
        index += 1;
    }
    numbers
};

routine! {
    /// Returns the current device's CUDA device; null if it has none.
    fn acc_get_current_cuda_device() -> *mut c_void = |runtime, local| {
        let number = runtime.cuda_device(local)?.and_then(|number| DEVICES.get(usize::try_from(number).ok()?));
        Ok(number.map_or(null_mut(), |number| std::ptr::from_ref(number).cast_mut().cast()))
    };

    /// Returns the current device's CUDA context; null if it has none.
    fn acc_get_current_cuda_context() -> *mut c_void = |runtime, local| {
        Ok(runtime.cuda_context(local)?.map_or(null_mut(), std::ptr::with_exposed_provenance_mut))
    };

    /// Returns a queue's CUDA stream; null if it has none.
    fn acc_get_cuda_stream(queue: i32) -> *mut c_void = |runtime, local| {
        Ok(runtime.cuda_stream(local, queue)?.map_or(null_mut(), std::ptr::with_exposed_provenance_mut))
    };

    /// Makes a CUDA stream that of a queue.
    fn acc_set_cuda_stream(queue: i32, stream: *mut c_void) -> i32 = |runtime, local| {
        let set = !stream.is_null() && runtime.set_cuda_stream(local, queue, stream.expose_provenance())?;
        Ok(if set { DONE } else { NO_STREAM })
    };
}
