//! Ends the program after an error, because OpenACC's routines can't return one. The program's error callbacks are called first.
//!
//! One line on standard error, `accord: CALL (FILE:LINE, FUNCTION) on dev3 (...): CAUSE [CONDITION]; REMEDY`, then exit
//! status 1. OpenACC 3.3, 5.2.2 names the conditions.

use crate::output::{add_details, print};
use crate::prof::errors;
use crate::{closing, settings, source};
use accord_types::threads::{Panic, REMEDY};
use accord_types::{Error, ErrorCode};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
use std::time::Duration;

/// The thread that ends the process, or 0.
static DYING: AtomicI32 = AtomicI32::new(0);

/// Whether callbacks of the first error are being called, or one has not returned.
static CALLING: AtomicBool = AtomicBool::new(false);

/// The last message that was to be printed. Never freed.
static FIRST: AtomicPtr<&'static str> = AtomicPtr::new(std::ptr::null_mut());

/// Longest time that other threads' errors wait for the callbacks of the first error.
const CALLBACKS_MAX: Duration = Duration::from_secs(60);

/// Longest time between the first message and the end.
const END_MAX: Duration = Duration::from_secs(5);

/// Exit status of a program that an error ended.
const EXIT_STATUS: i32 = 1;

/// Reports `error` and ends the program: error callbacks, then the message, then `exit`.
///
/// No frame of this library between the program and its callbacks has anything to drop, so that a callback may leave by `longjmp`. The program then
/// continues at its own risk. A second error of that thread, for example in a call of a callback, ends the program with both messages and without
/// callbacks.
pub(crate) fn fatal(error: Error) -> ! {
    // If another thread ends the program, it has taken the devices from this thread, which then does not return from here.
    closing::is_closed();
    let claim = claim_the_end();
    let mut tellers = std::ptr::null_mut();
    let message = notify(&error, claim, &mut tellers);
    finish(message, tellers)
}

/// Ends the program after a panic in `call`, which the hook has reported.
pub(crate) fn broken(call: &str) -> ! {
    fatal(bug("failed inside Accord".to_owned()).call(call))
}

/// Ends the program after a panic of one of this library's own threads, for which calls may be waiting.
pub(crate) fn broken_thread(panic: &Panic) -> ! {
    fatal(bug(panic.to_string()))
}

fn bug(cause: String) -> Error {
    Error::new(ErrorCode::ImplementationDefined, cause).remedy(format!("{REMEDY} with the lines above"))
}

/// Returns the text to print, and sets the records for callbacks, if any. Both are never freed.
fn notify(error: &Error, claim: Claim, tellers: &mut *mut errors::Records) -> &'static str {
    let (error, place) = source::explain(error);
    let message = error.to_string();
    let mut text = format!("accord: {message}\n");
    match claim {
        Claim::First if errors::wanted() => *tellers = errors::records(&error, place.as_deref(), &message),
        Claim::First => {}
        Claim::Again => {
            let first = FIRST.load(Ordering::Acquire);
            // SAFETY: a message that is kept is never freed.
            if let Some(first) = unsafe { first.as_ref() } {
                text.insert_str(0, first);
            }
        }
    }
    if settings::debug() {
        add_details(&mut text);
    }
    let text: &'static str = text.leak();
    FIRST.store(Box::into_raw(Box::new(text)), Ordering::Release);
    text
}

/// Calls the callbacks, prints the message and ends the program.
fn finish(message: &'static str, tellers: *mut errors::Records) -> ! {
    if !tellers.is_null() {
        CALLING.store(true, Ordering::Release);
        // SAFETY: `errors::records` has created the records.
        let thrown = unsafe { errors::call(tellers) };
        CALLING.store(false, Ordering::Release);
        if thrown {
            print("accord: an error callback has thrown an exception, which goes no further\n");
        }
    }
    print(message);
    end()
}

/// A forked child's own end has not begun.
pub(crate) fn forget_the_end() {
    DYING.store(0, Ordering::Relaxed);
    CALLING.store(false, Ordering::Relaxed);
}

/// The claim to end the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    /// The calling thread's, for the first time.
    First,
    /// The calling thread's claim, while its first error is being reported, or a callback did not return.
    Again,
}

/// Lets one thread end the process. The others wait for that, but not for ever: an exit handler or a callback may wait for
/// them. A repeated call of the same thread, from an exit handler, ends the process at once.
fn claim_the_end() -> Claim {
    // SAFETY: has no preconditions.
    let me = unsafe { libc::gettid() };
    match DYING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Claim::First,
        Err(other) if other == me && CALLING.swap(false, Ordering::AcqRel) => Claim::Again,
        Err(other) if other == me => {
            // SAFETY: the call ends the process without running other code.
            unsafe { libc::_exit(EXIT_STATUS) }
        }
        Err(_) => {
            let mut callbacks = CALLBACKS_MAX;
            while CALLING.load(Ordering::Acquire) && !callbacks.is_zero() {
                std::thread::sleep(Duration::from_secs(1));
                callbacks -= Duration::from_secs(1);
            }
            std::thread::sleep(END_MAX);
            // SAFETY: the call ends the process without running other code.
            unsafe { libc::_exit(EXIT_STATUS) }
        }
    }
}

fn end() -> ! {
    // SAFETY: exit handlers may call this library again; claim_the_end handles that.
    unsafe { libc::exit(EXIT_STATUS) }
}
