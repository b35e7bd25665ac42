//! The program's calls that lead into this library, read by the unwinder of exceptions.
//!
//! Used only for a message: an ordinary call leaves no trace here and costs nothing.

use crate::loader;
use accord_debuginfo::Frame;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

/// The program's calls that are looked at: a variable may belong to a caller's caller.
const FRAMES_MAX: usize = 8;
/// Most calls of this library's own that are skipped.
pub(super) const OWN_MAX: usize = 200;

/// Callee-saved registers, by their DWARF numbers: only these are known of a caller.
#[cfg(target_arch = "x86_64")]
const KEPT: &[c_int] = &[3, 6, 12, 13, 14, 15];
#[cfg(target_arch = "aarch64")]
const KEPT: &[c_int] = &[19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29];

unsafe extern "C" {
    fn _Unwind_Backtrace(step: EachFrame, data: *mut c_void) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, before: *mut c_int) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> usize;
}

pub(super) const GO_ON: c_int = 0;
pub(super) const STOP: c_int = 5;

/// Called for each frame, with the unwinder's context and `data` of [`backtrace`].
pub(super) type EachFrame = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// Visits the thread's calls, innermost first.
///
/// # Safety
/// `step` must be callable with `data` until this returns.
pub(super) unsafe fn backtrace(step: EachFrame, data: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { _Unwind_Backtrace(step, data) };
}

/// Returns the address where a frame continues, whether that instruction has not begun (after a signal), and its stack pointer there.
///
/// # Safety
/// `context` must be the one that the unwinder passes.
pub(super) unsafe fn position(context: *mut c_void) -> (usize, bool, usize) {
    let mut before = 0;
    // SAFETY: the caller's promise.
    let (ip, sp) = unsafe { (_Unwind_GetIPInfo(context, &raw mut before), _Unwind_GetCFA(context)) };
    (ip, before != 0, sp)
}

struct Walk {
    own: Range<usize>,
    passed: usize,
    limit: usize,
    frames: Vec<Frame>,
}

/// Returns an address inside of the program's call into this library; `None` outside of one, or if the unwinder fails.
pub(crate) fn caller() -> Option<usize> {
    let frame = walk(own(), 1).into_iter().next()?;
    usize::try_from(frame.code).ok()
}

/// Returns the program's function that has called into this library, and the surrounding ones, innermost first.
pub(crate) fn frames() -> Vec<Frame> {
    walk(own(), FRAMES_MAX)
}

/// Returns the range of this library's code.
pub(super) fn own() -> Range<usize> {
    static OWN: OnceLock<Range<usize>> = OnceLock::new();
    OWN.get_or_init(|| loader::holding(own as *const () as usize).map_or(0..0, |object| object.span)).clone()
}

fn walk(own: Range<usize>, limit: usize) -> Vec<Frame> {
    let mut walk = Walk { own, passed: 0, limit, frames: Vec::with_capacity(limit) };
    // SAFETY: `walk` outlives the call, and the callback only uses it and the given context.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
    walk.frames
}

extern "C" fn step(context: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: the unwinder passes its context and the `Walk` of `walk`, which no other code uses meanwhile.
    let (walk, (ip, before, cfa)) = unsafe { (&mut *data.cast::<Walk>(), position(context)) };
    // The unwinder's CFA of a frame is its stack pointer here, which is the CFA of the previous call.
    if let Some(last) = walk.frames.last_mut() {
        last.cfa = Some(cfa as u64);
    }
    if walk.frames.len() == walk.limit || ip == 0 {
        return STOP;
    }
    // A return address may be the first of the next line, or of the next function.
    let code = if before { ip } else { ip - 1 };
    // Also further out, because this library calls the program's main function.
    if walk.own.contains(&code) {
        walk.passed += 1;
        return if walk.passed < OWN_MAX { GO_ON } else { STOP };
    }
    let mut frame = Frame { code: code as u64, ..Frame::default() };
    for &register in KEPT {
        // SAFETY: the unwinder knows the registers that calls keep in every frame.
        frame.registers[register as usize] = Some(unsafe { _Unwind_GetGR(context, register) } as u64);
    }
    walk.frames.push(frame);
    GO_ON
}

/// An address inside of the function that calls this, for tests.
#[cfg(test)]
#[inline(never)]
pub(super) fn here() -> usize {
    let frames = walk(0..0, FRAMES_MAX);
    let me = here as *const () as usize;
    let at = frames.iter().position(|frame| (me..me + 400).contains(&(frame.code as usize))).expect("this function");
    frames[at + 1].code as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_their_frame_addresses_in_order() {
        let frames = walk(0..0, FRAMES_MAX);
        assert_eq!(frames.len(), FRAMES_MAX);
        let addresses: Vec<u64> = frames.iter().filter_map(|frame| frame.cfa).collect();
        assert!(addresses.len() == FRAMES_MAX && addresses.is_sorted(), "{addresses:x?}");
    }
}
