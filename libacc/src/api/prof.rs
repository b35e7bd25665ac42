//! The profiling interface's routines (OpenACC 3.3, 5.3 and 5.4).

use crate::abi_boundary::{enter, enter_without_runtime};
use crate::prof::{self, Kind};
use crate::{process, redirect};
use std::ffi::{CStr, c_char, c_void};

/// Type of `acc_prof_register` and `acc_prof_unregister`: event, callback, `acc_register_t`.
pub(crate) type Register = extern "C" fn(i32, usize, i32);
/// Type of `acc_prof_lookup`.
pub(crate) type Lookup = extern "C" fn(*const c_char) -> *mut c_void;

/// Adds or enables a callback (5.4).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_register(event: i32, callback: usize, kind: i32) {
    enter_without_runtime("acc_prof_register", || {
        if let Some(kind) = Kind::from_raw(kind)
            && !prof::errors::register(event, callback, kind, true)
        {
            prof::register(event, callback, kind);
        }
        Ok(())
    });
}

/// Removes or disables a callback (5.4).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_unregister(event: i32, callback: usize, kind: i32) {
    enter_without_runtime("acc_prof_unregister", || {
        if let Some(kind) = Kind::from_raw(kind)
            && !prof::errors::register(event, callback, kind, false)
        {
            prof::unregister(event, callback, kind);
        }
        Ok(())
    });
}

/// [`acc_prof_register`] under its OpenACC 3.2 name.
#[unsafe(no_mangle)]
extern "C" fn acc_callback_register(event: i32, callback: usize, kind: i32) {
    acc_prof_register(event, callback, kind);
}

/// [`acc_prof_unregister`] under its OpenACC 3.2 name.
#[unsafe(no_mangle)]
extern "C" fn acc_callback_unregister(event: i32, callback: usize, kind: i32) {
    acc_prof_unregister(event, callback, kind);
}

/// Returns an inquiry function by its name (5.3.1); null for an unknown one. The specification defines none, and Accord
/// [`accord_prof_place`]. The others are for the runtime of CUDA Fortran.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_lookup(name: *const c_char) -> *mut c_void {
    // SAFETY: the tool passes a terminated string or null.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    match name.map(CStr::to_bytes) {
        Some(b"accord_prof_place") => accord_prof_place as *mut c_void,
        Some(b"accord_prof_at") => accord_prof_at as *mut c_void,
        Some(b"accord_prof_range") => accord_prof_range as *mut c_void,
        Some(b"accord_device_of") => accord_device_of as *mut c_void,
        _ => std::ptr::null_mut(),
    }
}

/// Sets the source's place for this thread's next calls, which come from a runtime and not from the program itself. A null file ends that. The texts
/// live as long as their object.
extern "C" fn accord_prof_at(file: *const c_char, function: *const c_char, line: i32) {
    prof::set_place(file, function, line);
}

/// Returns the number of the device that has an address, plus one; 0 if none has it.
extern "C" fn accord_device_of(address: usize) -> i32 {
    enter("accord_device_of", |runtime, local| {
        let num = runtime.num_of_owner(local, address as u64);
        Ok(num.and_then(|num| i32::try_from(num).ok()).map_or(0, |num| num.saturating_add(1)))
    })
}

/// Records a range that the program named, with its times by `CLOCK_MONOTONIC` in nanoseconds.
extern "C" fn accord_prof_range(name: *const c_char, start_ns: u64, end_ns: u64, row: u32) {
    enter_without_runtime("nvtxRangePop", || {
        if !name.is_null() {
            // SAFETY: the runtime of CUDA Fortran passes a terminated string.
            process::record_range(unsafe { CStr::from_ptr(name) }, start_ns..end_ns, row);
        }
        Ok(())
    });
}

/// Returns the place of the event whose callback this thread runs: device, node, queue (`accord_prof.h`). Null outside of
/// callbacks. Valid until the callback returns; its names until the program ends.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn accord_prof_place() -> *const prof::Place {
    prof::here()
}

/// The entry point of a tool (5.3.1): a libgomp calls it at its start if `ACC_PROFLIB` names this library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, allow(dead_code))]
extern "C" fn acc_register_library(register: Register, _unregister: Register, _lookup: Lookup) {
    enter_without_runtime("acc_register_library", || {
        redirect::redirect_started_libgomp(register as *const () as usize)
    });
}
