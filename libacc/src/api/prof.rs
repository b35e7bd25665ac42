//! The profiling interface's routines (OpenACC 3.3, 5.3).

use crate::door::enter_without_runtime;
use crate::prof::{self, Kind};
use std::ffi::{c_char, c_void};

/// `acc_prof_register` and `acc_prof_unregister`: event, callback, `acc_register_t`.
pub(crate) type Register = extern "C" fn(i32, usize, i32);
/// `acc_prof_lookup`.
pub(crate) type Lookup = extern "C" fn(*const c_char) -> *mut c_void;

/// Adds or enables a callback.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_register(event: i32, callback: usize, kind: i32) {
    enter_without_runtime("acc_prof_register", || {
        if let Some(kind) = Kind::from_raw(kind) {
            prof::register(event, callback, kind);
        }
        Ok(())
    });
}

/// Removes or disables a callback.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_unregister(event: i32, callback: usize, kind: i32) {
    enter_without_runtime("acc_prof_unregister", || {
        if let Some(kind) = Kind::from_raw(kind) {
            prof::unregister(event, callback, kind);
        }
        Ok(())
    });
}

/// [`acc_prof_register`] under its name of OpenACC 3.2.
#[unsafe(no_mangle)]
extern "C" fn acc_callback_register(event: i32, callback: usize, kind: i32) {
    acc_prof_register(event, callback, kind);
}

/// [`acc_prof_unregister`] under its name of OpenACC 3.2.
#[unsafe(no_mangle)]
extern "C" fn acc_callback_unregister(event: i32, callback: usize, kind: i32) {
    acc_prof_unregister(event, callback, kind);
}

/// Finds an inquiry function; the specification defines none.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn acc_prof_lookup(_name: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}

/// A tool's entry; this one is for programs without a tool.
#[unsafe(no_mangle)]
extern "C" fn acc_register_library(_register: Register, _unregister: Register, _lookup: Lookup) {}
