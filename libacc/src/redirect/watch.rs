//! Watches a libgomp inside of an object, which can't be redirected. It reports the use of its OpenACC, as to profiling tools, and the program is ended
//! then.

use crate::raw_lock::Locked;
use crate::{loader, output, report};
use accord_types::{Error, ErrorCode, os_text};

/// The type of `acc_prof_register`: event, callback, `acc_register_t` (OpenACC 3.3, 5.4).
type Register = extern "C" fn(i32, usize, i32);

/// Most objects with a libgomp inside; further ones share the last name.
const WATCHED_MAX: usize = 4;

/// Paths of objects whose libgomp is watched, as messages have them.
static WATCHED: Locked<Vec<String>> = Locked::new(Vec::new());

/// Makes a libgomp report when a program uses its OpenACC. `register` is its `acc_prof_register`.
pub(super) fn watch(register: usize) {
    /// Starts of a device, of data constructs, of updates, of compute constructs and of waits (acc_prof.h).
    const EVENTS: [i32; 6] = [1, 10, 12, 14, 16, 24];
    const CALLBACKS: [extern "C" fn(usize, usize, usize); WATCHED_MAX] =
        [bypassed::<0>, bypassed::<1>, bypassed::<2>, bypassed::<3>];
    let path = os_text::displayed(&loader::holding(register).map_or_else(executable, |object| object.path));
    let known = WATCHED.with(|all| {
        let known = all.contains(&path);
        if !known && all.len() < WATCHED_MAX {
            all.push(path.clone());
        }
        (known, all.len() - 1)
    });
    let (false, at) = known else { return };
    // SAFETY: this is a libgomp's acc_prof_register, which has this type.
    let register: Register = unsafe { std::mem::transmute(register) };
    for event in EVENTS {
        register(event, CALLBACKS[at] as usize, 0);
    }
}

fn executable() -> String {
    loader::executable_path().map_or_else(|_| String::from("the program"), |path| os_text::encode(path.as_os_str()))
}

/// A construct begins in a libgomp that was not redirected.
extern "C" fn bypassed<const AT: usize>(_info: usize, _event: usize, _api: usize) {
    let path = WATCHED.with(|all| all.get(AT).cloned()).unwrap_or_default();
    let error = Error::new(
        ErrorCode::DeviceUnavailable,
        format!("{path} calls OpenACC in a libgomp that is inside of it, which nothing can come before"),
    )
    .remedy("link it with the shared libgomp (without -static and libgomp.a), or by accord cc");
    if loader::objects().is_empty() {
        // The executable is static. Not even this C library is the program's, and its exit handlers are not.
        output::print(&format!("accord: {error}\n"));
        // SAFETY: the call ends the process without running other code.
        unsafe { libc::_exit(1) }
    }
    report::fatal(error);
}
