//! Names for people: which source line a code address is.

use addr2line::Loader;

/// `file.c:12` of an offset in an object, if the object has line information. Where functions
/// were inlined it is the line of the outermost, which is the one that was launched.
pub fn position(path: &str, offset: u64) -> Option<String> {
    let loader = Loader::new(path).ok()?;
    let mut frames = loader.find_frames(offset).ok()?;
    let mut position = None;
    while let Ok(Some(frame)) = frames.next() {
        if let Some((file, line)) = frame.location.and_then(|l| Some((l.file?, l.line?))) {
            position = Some(format!("{file}:{line}"));
        }
    }
    position
}

/// What to do about a region that a signal has ended, by an access to `address` if it is one for that.
pub(crate) fn remedy(signal: i32, address: u64) -> &'static str {
    /// Null pointers, and elements near one.
    const NEAR_NULL: u64 = 4096;
    match signal {
        libc::SIGSEGV if address < NEAR_NULL => {
            "it used a null pointer: an array that is not allocated or has a negative stride, absent data of a no_create clause, a pointer \
             in device memory that was not attached (attach(rows[i])), or an absent optional argument without a data clause (GCC reads \
             scalars before any test of present(): name them in copyin)"
        }
        libc::SIGFPE => "look for a division by zero of integers in it, or for data that was not copied in",
        libc::SIGILL => "look for a call of what never returns (__builtin_trap, an array without bounds) in it",
        libc::SIGABRT => {
            "it called abort, or a check of its own failed: see what it wrote; have regions set a variable that is \
             copied out instead"
        }
        libc::SIGKILL | libc::SIGTERM => {
            "see the system's log for who did it: if memory ran out, use smaller data or set ACCORD_CPU_MEMORY"
        }
        _ => "check its data clauses: the device has its own memory, and an address without one is invalid there",
    }
}

/// Name of a signal that ends a worker.
pub(crate) fn signal(number: i32) -> &'static str {
    match number {
        libc::SIGSEGV => "SIGSEGV (invalid memory address)",
        libc::SIGBUS => "SIGBUS (memory could not be provided)",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        _ => "a signal",
    }
}
