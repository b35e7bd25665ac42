//! Detects whether other code in the process uses CUDA's driver: the program itself, a library, or an interpreter, which
//! can call any function.
//!
//! Copies of rows may be held back for a moment (`crates/gpu/src/holding.rs`), which only calls of this library
//! end. A program that calls `cudaDeviceSynchronize` and then reads the rows would miss them.

use crate::elf;
use crate::loader::{self, LoadedObject};
use std::sync::atomic::{AtomicU8, Ordering};

/// The name by which objects load or link the driver. It is part of CUDA's runtime, even if that is linked into an
/// executable.
const DRIVER: &[u8] = b"libcuda.so";
/// The symbol by which an interpreter is known.
const INTERPRETER: &[u8] = b"Py_Initialize";

const UNKNOWN: u8 = 0;
const ALONE: u8 = 1;
const IN_COMPANY: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether there is such code. The first call reads the files of all loaded objects.
pub(crate) fn in_company() -> bool {
    match STATE.load(Ordering::Acquire) {
        UNKNOWN => {
            let found = loader::objects().iter().any(uses_driver);
            STATE.store(if found { IN_COMPANY } else { ALONE }, Ordering::Release);
            found
        }
        state => state == IN_COMPANY,
    }
}

/// An object was loaded.
pub(crate) fn loaded(object: &LoadedObject) {
    if STATE.load(Ordering::Acquire) == ALONE && uses_driver(object) {
        STATE.store(IN_COMPANY, Ordering::Release);
    }
}

fn uses_driver(object: &LoadedObject) -> bool {
    let name = object.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    // This library contains the name too, and so do the driver's own parts.
    let own = object.span.contains(&(in_company as *const () as usize));
    if own || ["libcuda.so", "libnvidia-"].iter().any(|driver| name.starts_with(driver)) {
        return false;
    }
    object.names(DRIVER) || object.names(INTERPRETER) || elf::has_text(&object.file, DRIVER)
}
