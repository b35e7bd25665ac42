//! `GOACC_wait` (OpenACC 3.3, 2.16.3).

use super::list;
use crate::abi_boundary;
use crate::prof::{self, Construct};

/// Performs the waits, for the shim.
pub(super) extern "C" fn wait(async_: i32, wait_count: usize, waits: *const i32) {
    abi_boundary::enter("wait", |runtime, local| {
        // SAFETY: the shim has gathered the waits.
        let waits = unsafe { list(wait_count, waits) };
        prof::within(Construct::Wait, || runtime.wait(local, async_, waits))
    });
}
