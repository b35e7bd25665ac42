//! Error callbacks (OpenACC 3.3, 1.5 and 5.1): `acc_ev_error` is raised before an error ends the program.
//!
//! Callbacks are called without locks, and while no frame of the stack has anything to drop. So a callback may call routines, end the program, or leave
//! by `longjmp`. An exception of a callback ends in [`call`].

use super::Kind;
use crate::raw_lock::Locked;
use accord_types::{Error, ErrorCode};
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// The number of `acc_ev_error` in the specification; GCC's `acc_prof.h` has no such event.
const EVENT: i32 = 100;
/// The version in `acc_prof_info`, as for all events.
const VERSION: i32 = 201_711;
const UNKNOWN: i32 = -1;

#[derive(Clone, Copy)]
struct Listener {
    callback: usize,
    registrations: u32,
    enabled: bool,
    /// Later entries have higher numbers.
    serial: u64,
}

struct Listeners {
    list: Vec<Listener>,
    enabled: bool,
    serials: u64,
}

static LISTENERS: Locked<Listeners> = Locked::new(Listeners { list: Vec::new(), enabled: true, serials: 0 });

thread_local! {
    static THREAD_ENABLED: Cell<bool> = const { Cell::new(true) };
}

/// The layout of `acc_prof_info`.
#[repr(C)]
struct ProfInfo {
    event_type: i32,
    valid_bytes: i32,
    version: i32,
    device_type: i32,
    device_number: i32,
    thread_id: i32,
    async_: i64,
    async_queue: i64,
    src_file: *const c_char,
    func_name: *const c_char,
    line_no: i32,
    end_line_no: i32,
    func_line_no: i32,
    func_end_line_no: i32,
}

/// The layout of `acc_error_event_info`.
#[repr(C)]
struct ErrorInfo {
    event_type: i32,
    valid_bytes: i32,
    parent_construct: i32,
    implicit: i32,
    tool_info: *mut c_void,
    error_code: i32,
    error_message: *const c_char,
    runtime_info: usize,
}

/// The layout of `acc_api_info`.
#[repr(C)]
struct ApiInfo {
    device_api: i32,
    valid_bytes: i32,
    device_type: i32,
    vendor: i32,
    handles: [*const c_void; 3],
}

/// The records for one error's callbacks. Never freed: a callback may keep them, and may not return.
#[repr(C)]
pub(crate) struct Records {
    prof: ProfInfo,
    error: ErrorInfo,
    api: ApiInfo,
}

unsafe extern "C" {
    /// Calls a callback. Returns 1 if it has thrown, or tried to end its thread (`shim/guard.c`).
    fn accord_call_guarded(callback: usize, prof: *mut ProfInfo, error: *mut ErrorInfo, api: *mut ApiInfo) -> c_int;
}

/// Registers a callback with `add`, or removes it. Returns `false` if the call does not concern errors only.
pub(crate) fn register(event: i32, callback: usize, kind: Kind, add: bool) -> bool {
    let everything = event == 0 && callback == 0;
    if event != EVENT && !(everything && kind != Kind::Register) {
        return false;
    }
    match kind {
        Kind::TogglePerThread => {
            if everything {
                THREAD_ENABLED.set(add);
            }
        }
        Kind::Toggle => LISTENERS.with(|listeners| {
            if callback == 0 {
                listeners.enabled = add;
            }
            for listener in listeners.list.iter_mut().filter(|listener| listener.callback == callback) {
                listener.enabled = add;
            }
        }),
        Kind::Register => LISTENERS.with(|listeners| {
            let at = listeners.list.iter().position(|listener| listener.callback == callback);
            match (at, add) {
                _ if callback == 0 => {}
                (Some(at), true) => listeners.list[at].registrations += 1,
                (None, true) => {
                    listeners.serials += 1;
                    let serial = listeners.serials;
                    listeners.list.push(Listener { callback, registrations: 1, enabled: true, serial });
                }
                (Some(at), false) if listeners.list[at].registrations > 1 => listeners.list[at].registrations -= 1,
                (Some(at), false) => {
                    listeners.list.remove(at);
                }
                (None, false) => {}
            }
        }),
    }
    !everything
}

/// Whether an error of this thread has callbacks to be called.
pub(crate) fn wanted() -> bool {
    THREAD_ENABLED.get() && LISTENERS.with(|listeners| listeners.enabled && !listeners.list.is_empty())
}

/// Returns the enabled callback after the one with serial `last`, at this time: callbacks may register others.
fn next(last: u64) -> Option<Listener> {
    LISTENERS.with(|listeners| {
        let mut list = listeners.list.iter().filter(|_| listeners.enabled);
        list.find(|listener| listener.enabled && listener.serial > last).copied()
    })
}

/// Creates the records of `error`, whose whole message is `message`.
pub(crate) fn records(error: &Error, place: Option<&crate::source::SourceLocation>, message: &str) -> *mut Records {
    let text = |text: &str| CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw().cast_const();
    let line = |line: Option<u32>| line.and_then(|line| i32::try_from(line).ok()).unwrap_or(UNKNOWN);
    let lines = place.and_then(|place| place.function_lines);
    let queue = error.place().queue.map_or(crate::api::SYNC, |queue| queue.0.cast_signed());
    let device = error.place().device.and_then(|device| i32::try_from(device.0).ok()).unwrap_or(UNKNOWN);
    Box::into_raw(Box::new(Records {
        prof: ProfInfo {
            event_type: EVENT,
            valid_bytes: size_of::<ProfInfo>() as i32,
            version: VERSION,
            device_type: 0,
            device_number: device,
            // SAFETY: has no preconditions.
            thread_id: unsafe { libc::gettid() },
            async_: i64::from(queue),
            async_queue: i64::from(queue),
            src_file: place.and_then(|place| place.file.as_deref()).map_or(null(), text),
            func_name: place.and_then(|place| place.function.as_deref()).map_or(null(), text),
            line_no: line(place.and_then(|place| place.line)),
            // The call's own line, unless the call begins a construct of several lines.
            end_line_no: match error.place().call.as_deref() {
                Some("parallel" | "data") => UNKNOWN,
                _ => line(place.and_then(|place| place.line)),
            },
            func_line_no: line(lines.map(|lines| lines.0)),
            func_end_line_no: line(lines.map(|lines| lines.1)),
        },
        error: ErrorInfo {
            event_type: EVENT,
            valid_bytes: size_of::<ErrorInfo>() as i32,
            parent_construct: construct(error.place().call.as_deref().unwrap_or_default()),
            implicit: 0,
            tool_info: null_mut(),
            error_code: number(error.code()),
            error_message: text(message),
            runtime_info: 0,
        },
        api: ApiInfo {
            device_api: 0,
            valid_bytes: size_of::<ApiInfo>() as i32,
            device_type: 0,
            vendor: UNKNOWN,
            handles: [null(); 3],
        },
    }))
}

/// Calls the callbacks in the order of their registration. Returns `true` if one has thrown.
///
/// # Safety
/// `records` must come from [`records`].
pub(crate) unsafe fn call(records: *mut Records) -> bool {
    let (mut last, mut thrown) = (0, false);
    while let Some(listener) = next(last) {
        last = listener.serial;
        // SAFETY: the records are never freed, and a tool registered this address as a callback. No value here needs to be dropped if it
        // leaves by longjmp.
        thrown |= unsafe {
            accord_call_guarded(
                listener.callback,
                &raw mut (*records).prof,
                &raw mut (*records).error,
                &raw mut (*records).api,
            )
        } != 0;
    }
    thrown
}

/// Returns the `acc_construct_t` of a call.
fn construct(call: &str) -> i32 {
    const RUNTIME_API: i32 = 15;
    match call {
        "parallel" => 0,
        "data" | "end data" | "end of data" => 3,
        "enter data" => 4,
        "exit data" => 5,
        "host_data" => 6,
        "declare" => 8,
        "update" => 12,
        "wait" => 14,
        _ => RUNTIME_API,
    }
}

/// Returns the `acc_error_t` of a code.
fn number(code: ErrorCode) -> i32 {
    const IMPLEMENTATION_DEFINED: i32 = 100;
    match code {
        ErrorCode::ImplementationDefined => IMPLEMENTATION_DEFINED,
        // The numbers begin at 1, in the specification's order.
        other => i32::from(other.to_wire()) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_layouts_are_those_of_the_other_events() {
        assert_eq!(size_of::<ProfInfo>(), 72);
        assert_eq!(offset_of!(ErrorInfo, error_code), 24);
        assert_eq!(offset_of!(ErrorInfo, error_message), 32);
        assert_eq!(size_of::<ErrorInfo>(), 48);
        assert_eq!(size_of::<ApiInfo>(), 40);
    }

    #[test]
    fn codes_have_the_specifications_numbers() {
        assert_eq!(number(ErrorCode::Other), 1);
        assert_eq!(number(ErrorCode::NotPresent), 10);
        assert_eq!(number(ErrorCode::InvalidDataSection), 16);
        assert_eq!(number(ErrorCode::ImplementationDefined), 100);
    }

    /// A single test, because the list is the process's.
    #[test]
    fn callbacks_are_counted_and_toggled() {
        assert!(!register(1, 7, Kind::Register, true), "another event");
        for callback in [7, 8, 7] {
            assert!(register(EVENT, callback, Kind::Register, true));
        }
        let listening = || {
            let mut last = 0;
            std::iter::from_fn(|| next(last).inspect(|found| last = found.serial))
                .map(|l| l.callback)
                .collect::<Vec<_>>()
        };
        assert_eq!(listening(), [7, 8]);
        register(EVENT, 7, Kind::Register, false);
        register(EVENT, 8, Kind::Toggle, false);
        assert_eq!(listening(), [7]);
        register(EVENT, 7, Kind::Register, false);
        register(EVENT, 8, Kind::Toggle, true);
        assert_eq!(listening(), [8]);
        assert!(!register(0, 0, Kind::TogglePerThread, false), "other events want to know");
        assert!(!wanted());
        register(0, 0, Kind::TogglePerThread, true);
        assert!(wanted());
        register(0, 0, Kind::Toggle, false);
        assert!(!wanted());
        register(0, 0, Kind::Toggle, true);
        register(EVENT, 8, Kind::Register, false);
        assert!(!wanted());
    }
}
