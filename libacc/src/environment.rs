//! The environment at the process's start, even if the program has changed it since.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The environment that the kernel passed, as a null-terminated array.
static ENVIRONMENT: AtomicPtr<*const c_char> = AtomicPtr::new(null_mut());

/// The folder in which this library found the process.
static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Records the folder. For the constructor.
pub(crate) fn keep_folder() {
    FOLDER.get_or_init(|| std::env::current_dir().ok());
}

/// Returns the folder in which the process started, or `None` if unknown.
pub(crate) fn folder() -> Option<&'static PathBuf> {
    FOLDER.get()?.as_ref()
}

/// Records the array, which lives as long as the process.
pub(crate) fn keep(environment: *mut *const c_char) {
    ENVIRONMENT.store(environment, Ordering::Relaxed);
}

/// Returns the variables of [`ENVIRONMENT`] that still exist; none if this library was loaded after the start.
pub(crate) fn at_start() -> Vec<(OsString, OsString)> {
    let mut at: *const *const c_char = ENVIRONMENT.load(Ordering::Relaxed);
    let mut found = Vec::new();
    // SAFETY: the array is null-terminated. The C library replaces it but never frees it.
    while !at.is_null() && !unsafe { *at }.is_null() {
        // SAFETY: each entry is a terminated string on the initial stack.
        let text = unsafe { CStr::from_ptr(*at) }.to_bytes();
        if let Some(equals) = text.iter().position(|byte| *byte == b'=') {
            let part = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
            found.push((part(&text[..equals]), part(&text[equals + 1..])));
        }
        // SAFETY: this was not the last entry.
        at = unsafe { at.add(1) };
    }
    found
}
