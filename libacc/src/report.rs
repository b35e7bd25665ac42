//! How an error ends the program: OpenACC's routines have no way to return one.
//!
//! One line on standard error, `accord: CALL (FILE:LINE, FUNCTION) on dev3 (...): CAUSE [CONDITION]; REMEDY`, then exit
//! status 1. OpenACC 3.3, 5.2.2 names the conditions.

use crate::{process, source};
use accord_types::Error;
use std::backtrace::Backtrace;
use std::fmt::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// The thread that ends the process; 0 while nobody does.
static DYING: AtomicI32 = AtomicI32::new(0);

/// Longest time between the first error and the end.
const END_MAX: Duration = Duration::from_secs(5);

/// Status of a program that an error ended.
const EXIT_STATUS: i32 = 1;

/// Reports `error` and ends the program.
pub(crate) fn fatal(error: &Error) -> ! {
    // If the program ends in another thread, that has taken the devices from under this one, which
    // doesn't come back from here.
    process::is_closed();
    claim_the_end();
    let error = source::explain(&process::explain(error));
    let mut message = format!("accord: {error}\n");
    if crate::settings::debug() {
        add_details(&mut message);
    }
    print(&message);
    end()
}

/// Ends the program after a panic in `call`, which the hook below has reported.
pub(crate) fn broken(call: &str) -> ! {
    claim_the_end();
    print(&format!(
        "accord: {call} failed inside Accord [acc_error_implementation_defined]; \
         this is a bug in Accord, please report it with the lines above\n"
    ));
    end()
}

/// Prints `text`, which is whole lines, with one write.
pub(crate) fn print(text: &str) {
    // SAFETY: the buffer is valid for its length. A failed write has nobody to be reported to.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Makes panics of any of this library's threads print one line. The program's own Rust code has
/// its own hook and is not concerned.
pub(crate) fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let mut message = format!("accord: internal error: {info}\n");
            if crate::settings::debug() {
                add_details(&mut message);
            }
            print(&message);
        }));
    });
}

/// A forked child's own end has not begun.
pub(crate) fn forget_the_end() {
    DYING.store(0, Ordering::Relaxed);
}

/// Lets one thread end the process. The others wait for that, but not for ever: an exit handler may
/// be waiting for them. The same thread again, from an exit handler, ends at once.
fn claim_the_end() {
    // SAFETY: has no preconditions.
    let me = unsafe { libc::gettid() };
    match DYING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {}
        Err(other) if other == me => {
            // SAFETY: ends the process without running anything.
            unsafe { libc::_exit(EXIT_STATUS) }
        }
        Err(_) => {
            std::thread::sleep(END_MAX);
            // SAFETY: ends the process without running anything.
            unsafe { libc::_exit(EXIT_STATUS) }
        }
    }
}

fn end() -> ! {
    // SAFETY: exit handlers may call this library again; claim_the_end handles that.
    unsafe { libc::exit(EXIT_STATUS) }
}

fn add_details(message: &mut String) {
    let thread = std::thread::current();
    // SAFETY: has no preconditions.
    let id = unsafe { libc::gettid() };
    let name = thread.name().unwrap_or("of the program");
    // Writing to a String can't fail.
    let _ = writeln!(message, "accord: thread {id} ({name})\n{}", Backtrace::force_capture());
}
