//! Prints whole lines on standard error, and only on request or if the program ends.

use crate::settings;
use accord_types::threads;
use std::backtrace::Backtrace;
use std::fmt::Write;
use std::sync::Once;

/// Prints `text`, which consists of whole lines, with one write if the system accepts it.
pub(crate) fn print(text: &str) {
    let mut left = text.as_bytes();
    while !left.is_empty() {
        // SAFETY: the buffer is valid for its length. A failed write can't be reported.
        let written = unsafe { libc::write(libc::STDERR_FILENO, left.as_ptr().cast(), left.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => left = &left[written.min(left.len())..],
            _ => return,
        }
    }
}

/// Makes panics of this library's threads print one line. The program's own Rust code has its own hook and is not affected.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let mut message = format!("accord: internal error: {}\n", threads::describe(info));
            if settings::debug() {
                add_details(&mut message);
            }
            print(&message);
        }));
    });
}

/// Appends the calling thread and its stack, for `ACCORD_DEBUG`.
pub(crate) fn add_details(message: &mut String) {
    let thread = std::thread::current();
    // SAFETY: has no preconditions.
    let id = unsafe { libc::gettid() };
    let name = thread.name().unwrap_or("of the program");
    // Writing to a String can't fail.
    let _ = writeln!(message, "accord: thread {id} ({name})\n{}", Backtrace::force_capture());
}
