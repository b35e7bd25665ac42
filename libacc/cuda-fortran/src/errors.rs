//! CUDA's error codes, and fatal errors.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::io::Write;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const INVALID_VALUE: i32 = 1;
pub(crate) const MEMORY_ALLOCATION: i32 = 2;
pub(crate) const INVALID_CONFIGURATION: i32 = 9;
pub(crate) const INVALID_SYMBOL: i32 = 13;
pub(crate) const INVALID_DEVICE_FUNCTION: i32 = 98;
pub(crate) const INVALID_DEVICE: i32 = 101;
pub(crate) const UNSUPPORTED_LIMIT: i32 = 215;
pub(crate) const INVALID_RESOURCE_HANDLE: i32 = 400;
pub(crate) const NOT_READY: i32 = 600;
pub(crate) const ALREADY_REGISTERED: i32 = 712;
pub(crate) const NOT_REGISTERED: i32 = 713;

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

/// Codes with their names and meanings.
const TEXTS: &[(i32, &str, &str)] = &[
    (SUCCESS, "cudaSuccess", "no error"),
    (INVALID_VALUE, "cudaErrorInvalidValue", "invalid argument"),
    (MEMORY_ALLOCATION, "cudaErrorMemoryAllocation", "out of memory"),
    (INVALID_CONFIGURATION, "cudaErrorInvalidConfiguration", "invalid configuration argument"),
    (INVALID_SYMBOL, "cudaErrorInvalidSymbol", "invalid device symbol"),
    (INVALID_DEVICE_FUNCTION, "cudaErrorInvalidDeviceFunction", "invalid device function"),
    (INVALID_DEVICE, "cudaErrorInvalidDevice", "invalid device ordinal"),
    (UNSUPPORTED_LIMIT, "cudaErrorUnsupportedLimit", "limit is not supported on this architecture"),
    (INVALID_RESOURCE_HANDLE, "cudaErrorInvalidResourceHandle", "invalid resource handle"),
    (NOT_READY, "cudaErrorNotReady", "device not ready"),
    (
        ALREADY_REGISTERED,
        "cudaErrorHostMemoryAlreadyRegistered",
        "part or all of the requested memory range is already mapped",
    ),
    (NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"),
];

/// Returns the meaning of a code.
pub(crate) fn text(code: i32) -> &'static str {
    TEXTS.iter().find(|(known, _, _)| *known == code).map_or("unrecognized error code", |(_, _, text)| text)
}

/// Returns the name of a code.
pub(crate) fn name(code: i32) -> &'static str {
    TEXTS.iter().find(|(known, _, _)| *known == code).map_or("unrecognized error code", |(_, name, _)| name)
}

/// The place of a statement in the source.
#[derive(Clone, Copy)]
pub(crate) struct SourceLine {
    file: *const c_char,
    line: i32,
}

impl SourceLine {
    /// Returns the place of this thread's present call of the runtime.
    pub(crate) fn now() -> Self {
        let CallPlace { file, line, .. } = CALL.get();
        Self { file, line }
    }

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

/// The place of a call of the runtime.
#[derive(Clone, Copy)]
pub(crate) struct CallPlace {
    pub(crate) file: *const c_char,
    pub(crate) function: *const c_char,
    pub(crate) line: i32,
}

thread_local! {
    static CALL: Cell<CallPlace> =
        const { Cell::new(CallPlace { file: std::ptr::null(), function: std::ptr::null(), line: 0 }) };
}

/// Returns the place of this thread's present call of the runtime, or its last one.
pub(crate) fn call_place() -> CallPlace {
    CALL.get()
}

/// Records the place of this thread's next call of the runtime. Compiled code calls it before each.
#[unsafe(no_mangle)]
extern "C" fn accord_cuf_at(file: *const c_char, function: *const c_char, line: i32) {
    CALL.set(CallPlace { file, function, line });
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
