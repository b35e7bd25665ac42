//! Binds this library's calls of the C library to the C library.
//!
//! The C standard reserves none of POSIX's names, so a program may have functions of its own named `read` or `connect`. They precede the C library's, and
//! the dynamic linker binds this library's calls to them. What replaces functions for all code of a process stays: allocators, threads, preloaded
//! libraries, sanitizers.

use super::image::Image;
use super::patch::Patch;
use crate::settings;
use accord_types::{Error, ErrorCode, Result};
use std::ffi::{CStr, c_void};

/// The C library's name for objects that are linked with it.
const C_LIBRARY: &CStr = c"libc.so.6";

/// A function that each sanitizer's runtime defines.
const OF_SANITIZERS: &CStr = c"__sanitizer_print_stack_trace";

/// Functions that a program replaces for all code of the process.
fn is_replaceable(name: &CStr) -> bool {
    const ALLOCATOR: [&str; 9] =
        ["malloc", "calloc", "realloc", "free", "aligned_alloc", "memalign", "posix_memalign", "valloc", "pvalloc"];
    name.to_str().is_ok_and(|name| {
        ALLOCATOR.contains(&name) || ["malloc_", "pthread_"].iter().any(|start| name.starts_with(start))
    })
}

/// Binds the calls of `own`, this library, that other objects have taken.
///
/// # Errors
/// Returns `acc_error_system` if the system refuses to change this library in memory.
pub(super) fn bind(images: &[Image], own: &Image) -> Result<()> {
    let Some(c_library) = images.iter().find(|image| image.soname() == C_LIBRARY) else { return Ok(()) };
    let preloaded = settings::preloaded();
    let replaces_for_all = |image: &Image| {
        let name = image.path.rsplit('/').next().unwrap_or_default();
        preloaded.iter().any(|path| path.rsplit('/').next() == Some(name)) || image.definition(OF_SANITIZERS).is_some()
    };
    let is_other = |image: &&Image| image.base != own.base && image.base != c_library.base && !replaces_for_all(image);
    let others: Vec<&Image> = images.iter().filter(is_other).collect();
    let mut patch = Patch::new();
    let mut taken = None;
    for slot in own.slots(|name| !is_replaceable(name)) {
        // SAFETY: the dynamic linker has filled in the word: this library is bound before its constructors run.
        let bound = unsafe { *(slot.at as *const usize) };
        // What the C library does not define as a function is not its, as the variables that executables have copies of.
        if !others.iter().any(|image| image.holds(bound)) || c_library.definition(slot.name).is_none() {
            continue;
        }
        let theirs = in_c_library(slot.name);
        if c_library.holds(theirs) {
            patch.add(slot.at, theirs);
            taken = Some(slot.name);
        }
    }
    let Some(name) = taken else { return Ok(()) };
    patch.apply(own).map_err(|error| {
        let name = name.to_string_lossy();
        let cause = format!("calls of libacc.so reach the program's function {name}, and can't be changed: {error}");
        Error::new(ErrorCode::System, cause).remedy("rename that function, or make it static")
    })
}

/// Returns the address of a function in the C library, of the version that new programs get.
fn in_c_library(name: &CStr) -> usize {
    // SAFETY: the names are terminated; the library is loaded, and stays.
    unsafe {
        let library: *mut c_void = libc::dlopen(C_LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return 0;
        }
        let found = libc::dlsym(library, name.as_ptr());
        libc::dlclose(library);
        found.addr()
    }
}
