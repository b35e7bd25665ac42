//! The boundary between C and Rust, which every exported function passes.

use crate::{closing, process, report, settings, thread};
use accord_gpu::current_context;
use accord_runtime::{LocalThread, Runtime};
use accord_types::Result;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Runs `body` for the exported function `call`, with the process's runtime and the calling thread's state. An error or a
/// panic is reported and ends the program: no frame of the program is unwound, and no invented value returned. After the end
/// of the session, when destructors of the program may still run, a call does nothing.
pub(crate) fn enter<R: Default>(call: &'static str, body: impl FnOnce(&Runtime, &mut LocalThread) -> Result<R>) -> R {
    enter_without_runtime(call, || {
        if closing::is_closed() {
            closing::warn_closed(call);
            return Ok(R::default());
        }
        let session = process::session()?;
        current_context::begin_call();
        let result = thread::with_local(|local| {
            let runtime = session.runtime();
            let result = body(runtime, local);
            if let Some(context) = runtime.driver_context(local) {
                current_context::settle(context);
            }
            result
        });
        // Constructors of shared libraries run in a worker, too, which has no devices. Their calls must not end it.
        if settings::is_without_devices() { Ok(result.unwrap_or_default()) } else { result }
    })
}

/// Enters the library as [`enter`], for functions that must not start a session.
pub(crate) fn enter_without_runtime<R>(call: &'static str, body: impl FnOnce() -> Result<R>) -> R {
    let _uncancelled = Uncancelled::begin();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => report::fatal(process::explain(&error.call(call))),
        Err(_) => report::broken(call),
    }
}

/// A time in which the thread can't be cancelled (`pthread_cancel`): that unwinds its frames, which this library can't let through. The request has its
/// effect at the thread's next cancellation point.
struct Uncancelled(c_int);

impl Uncancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: the call writes the previous state.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state was this thread's.
        unsafe { pthread_setcancelstate(self.0, null_mut()) };
    }
}

/// Defines an exported function: `routine! { acc_free(data: usize) = |runtime, local| ... }`.
/// Pointers are `usize`: only `host_memory.rs` accesses the program's memory.
macro_rules! routine {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? =
        |$runtime:pat_param, $local:pat_param| $body:expr;)*) => {
        $(
            $(#[$doc])*
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) $(-> $result)? {
                $crate::abi_boundary::enter(stringify!($name), |$runtime, $local| $body)
            }
        )*
    };
}
pub(crate) use routine;
