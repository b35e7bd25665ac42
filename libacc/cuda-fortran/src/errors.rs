//! CUDA's error codes, and fatal errors.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::io::Write;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const MEMORY_ALLOCATION: i32 = 2;
pub(crate) const INVALID_CONFIGURATION: i32 = 9;
pub(crate) const INVALID_DEVICE_FUNCTION: i32 = 98;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const UNSUPPORTED_LIMIT: i32 = 215;
pub(crate) const INVALID_RESOURCE_HANDLE: i32 = 400;
pub(crate) const NOT_READY: i32 = 600;

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(SUCCESS) };
}

/// Records an error for `cudaGetLastError`, and returns it.
pub(crate) fn keep(code: i32) -> i32 {
    if code != SUCCESS && code != NOT_READY {
        LAST.set(code);
    }
    code
}

/// Returns the last error, and clears it unless it `stays`.
pub(crate) fn last(stays: bool) -> i32 {
    if stays { LAST.get() } else { LAST.replace(SUCCESS) }
}

/// Returns the meaning of a code.
pub(crate) fn text(code: i32) -> &'static str {
    match code {
        SUCCESS => "no error",
        INVALID_VALUE => "invalid argument",
        MEMORY_ALLOCATION => "out of memory",
        INVALID_CONFIGURATION => "invalid configuration argument",
        INVALID_DEVICE_FUNCTION => "invalid device function",
        INVALID_DEVICE => "invalid device ordinal",
        UNSUPPORTED_LIMIT => "limit is not supported on this architecture",
        INVALID_RESOURCE_HANDLE => "invalid resource handle",
        NOT_READY => "device not ready",
        _ => "unrecognized error code",
    }
}

/// The place of a statement in the source.
#[derive(Clone, Copy)]
pub(crate) struct SourceLine {
    file: *const c_char,
    line: i32,
}

impl SourceLine {
    pub(crate) fn new(file: *const c_char, line: i32) -> Self {
        Self { file, line }
    }

    fn displayed(self) -> String {
        if self.file.is_null() {
            return String::new();
        }
        // SAFETY: flang passes a terminated static string.
        let file = unsafe { CStr::from_ptr(self.file) }.to_string_lossy();
        format!("{file}:{}: ", self.line)
    }
}

/// Ends the program, for failures without a status in CUDA Fortran.
pub(crate) fn end(place: SourceLine, cause: &str, remedy: &str) -> ! {
    report(&format!("{}{cause}; {remedy}", place.displayed()));
    std::process::exit(1)
}

/// Writes a line for the user.
pub(crate) fn report(text: &str) {
    let _ = writeln!(std::io::stderr(), "accord: {text}");
}
