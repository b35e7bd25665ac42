//! `GOMP_offload_register_ver` and its variants: an object with offload code is loaded or unloaded.
//!
//! Constructors and destructors call them, so that they neither initialise nor start anything.

use crate::abi_boundary;
use crate::images::{self, Image};
use crate::{loader, mappings, redirect};
use std::ffi::{CStr, c_void};

type WithVersion = unsafe extern "C" fn(u32, *const c_void, i32, *const c_void);
type WithoutVersion = unsafe extern "C" fn(*const c_void, i32, *const c_void);

/// The entry point for GCC 6 and later.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_register_ver(version: u32, table: *const c_void, target: i32, data: *const c_void) {
    abi_boundary::enter_without_runtime("GOMP_offload_register_ver", || {
        images::register(image(version, table, target, data));
        forward_with_version(c"GOMP_offload_register_ver", version, table, target, data);
        Ok(())
    });
}

/// The entry point for GCC 6 and later.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_unregister_ver(version: u32, table: *const c_void, target: i32, data: *const c_void) {
    abi_boundary::enter_without_runtime("GOMP_offload_unregister_ver", || {
        images::unregister(image(version, table, target, data));
        forward_with_version(c"GOMP_offload_unregister_ver", version, table, target, data);
        Ok(())
    });
}

/// The entry point for GCC 5.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_register(table: *const c_void, target: i32, data: *const c_void) {
    abi_boundary::enter_without_runtime("GOMP_offload_register", || {
        images::register(image(0, table, target, data));
        forward_without_version(c"GOMP_offload_register", table, target, data);
        Ok(())
    });
}

/// The entry point for GCC 5.
#[unsafe(no_mangle)]
extern "C" fn GOMP_offload_unregister(table: *const c_void, target: i32, data: *const c_void) {
    abi_boundary::enter_without_runtime("GOMP_offload_unregister", || {
        images::unregister(image(0, table, target, data));
        forward_without_version(c"GOMP_offload_unregister", table, target, data);
        Ok(())
    });
}

fn image(version: u32, table: *const c_void, target: i32, data: *const c_void) -> Image {
    Image { version, table: table as usize, target, data: data as usize }
}

/// Whether libgomp needs the object, which then has OpenMP's `target` regions. Other objects are not passed to it: libgomp
/// ends a program of a GCC newer than its own.
fn is_libgomps(table: *const c_void) -> bool {
    loader::holding(table as usize).is_none_or(|object| object.uses_openmp_devices())
}

fn forward_with_version(name: &CStr, version: u32, table: *const c_void, target: i32, data: *const c_void) {
    if !is_libgomps(table) {
        return;
    }
    in_libgomp(name, |symbol| {
        // SAFETY: libgomp's function of this name has this type.
        let function: WithVersion = unsafe { std::mem::transmute(symbol) };
        // SAFETY: the arguments are the caller's own.
        unsafe { function(version, table, target, data) };
    });
}

fn forward_without_version(name: &CStr, table: *const c_void, target: i32, data: *const c_void) {
    if !is_libgomps(table) {
        return;
    }
    in_libgomp(name, |symbol| {
        // SAFETY: libgomp's function of this name has this type.
        let function: WithoutVersion = unsafe { std::mem::transmute(symbol) };
        // SAFETY: the arguments are the caller's own.
        unsafe { function(table, target, data) };
    });
}

/// Runs `body` with libgomp's own symbol, if libgomp is loaded. The symbol isn't kept: libgomp may come and go with an object
/// loaded by `dlopen`, and then is not after this library in the search order.
fn in_libgomp(name: &CStr, body: impl FnOnce(*mut c_void)) {
    if let Some(symbol) = redirect::libgomps(name) {
        return body(symbol);
    }
    // SAFETY: the name is terminated.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !symbol.is_null() && !is_own(symbol) {
        return body(symbol);
    }
    // SAFETY: the name is terminated, and the call loads no new object.
    let library = unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return;
    }
    // SAFETY: the library is loaded until dlclose below.
    let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
    if !symbol.is_null() && !is_own(symbol) {
        body(symbol);
    }
    // SAFETY: the call releases the handle of dlopen, and the caller's object keeps libgomp loaded.
    unsafe { libc::dlclose(library) };
}

/// Whether a symbol is this library's. A libgomp with a changed symbol table leads here, and the call would recurse for ever.
fn is_own(symbol: *mut c_void) -> bool {
    mappings::object_of(symbol.cast_const().cast()) == mappings::object_of(is_own as *const ())
}
