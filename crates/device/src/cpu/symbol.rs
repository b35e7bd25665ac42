//! Names of code addresses for messages.

use accord_types::os_text;
use addr2line::Loader;

/// Returns `file.c:12` for an offset in an object with line information. For inlined code it is the line of the outermost
/// function, which was launched. The path is encoded as by `os_text`.
pub fn position(path: &str, offset: u64) -> Option<String> {
    let loader = Loader::new(os_text::decode(path)).ok()?;
    let mut frames = loader.find_frames(offset).ok()?;
    let mut position = None;
    while let Ok(Some(frame)) = frames.next() {
        if let Some((file, line)) = frame.location.and_then(|l| Some((l.file?, l.line?))) {
            position = Some(format!("{file}:{line}"));
        }
    }
    position
}

/// The floating-point exception that a `SIGFPE` with this `si_code` stands for.
fn float_exception(code: i32) -> Option<&'static str> {
    /// The kernel's `FPE_FLTDIV`, the first of five.
    const FIRST: i32 = 3;
    const NAMES: [&str; 5] = [
        "floating-point division by zero",
        "floating-point overflow",
        "floating-point underflow",
        "floating-point result that is not exact",
        "invalid floating-point operation",
    ];
    NAMES.get(usize::try_from(code.checked_sub(FIRST)?).ok()?).copied()
}

/// Returns the remedy for a region that a signal has ended, by an access to `address` if the signal has one. `code` is the
/// signal's `si_code`.
pub(crate) fn remedy(signal: i32, code: i32, address: u64) -> &'static str {
    /// Largest address of an access through a null pointer or to an element near it.
    const NEAR_NULL: u64 = 4096;
    match signal {
        libc::SIGSEGV if address < NEAR_NULL => {
            "it used a null pointer: an array that is not allocated or has a negative stride, absent data of a no_create clause, a pointer \
             in device memory that was not attached (attach(rows[i])), or an absent optional argument without a data clause (GCC reads \
             scalars before any test of present(): name them in copyin)"
        }
        libc::SIGFPE if float_exception(code).is_some() => {
            "the program has had this exception trapped (feenableexcept, -ffpe-trap), which holds in regions too: look for the operation in \
             it, or for data that was not copied in"
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

/// Returns the name of a signal that ended a worker, with the meaning of its `si_code`.
pub(crate) fn signal(number: i32, code: i32) -> String {
    if let (libc::SIGFPE, Some(exception)) = (number, float_exception(code)) {
        return format!("SIGFPE ({exception})");
    }
    let name = match number {
        libc::SIGSEGV => "SIGSEGV (invalid memory address)",
        libc::SIGBUS => "SIGBUS (memory could not be provided)",
        libc::SIGILL => "SIGILL (illegal instruction)",
        libc::SIGFPE => "SIGFPE (arithmetic error)",
        libc::SIGABRT => "SIGABRT (abort)",
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        _ => "a signal",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_of_floating_point_have_names_and_those_of_integers_are_divisions() {
        assert_eq!(signal(libc::SIGFPE, 3), "SIGFPE (floating-point division by zero)");
        assert_eq!(signal(libc::SIGFPE, 7), "SIGFPE (invalid floating-point operation)");
        for code in [i32::MIN, -6, 0, 1, 2, 8, i32::MAX] {
            assert_eq!(signal(libc::SIGFPE, code), "SIGFPE (arithmetic error)");
        }
        assert!(remedy(libc::SIGFPE, 5, 0).contains("trapped") && remedy(libc::SIGFPE, 1, 0).contains("integers"));
    }
}
