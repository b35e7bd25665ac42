//! `GOACC_declare`: `declare` of local variables (OpenACC 3.3, 2.13).

use super::entries;
use crate::{abi_boundary, prof};

/// Starts or ends the variables' scope.
///
/// # Safety
/// The arrays must be as GCC passes them: `n` elements each.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOACC_declare(dev: i32, n: usize, hosts: *mut usize, sizes: *const usize, kinds: *const u16) {
    abi_boundary::enter("declare", |runtime, local| {
        // SAFETY: the caller's promise.
        let mut entries = unsafe { entries(n, hosts, sizes, kinds) };
        prof::declare(dev, &mut entries, runtime, local, |entries, local| runtime.declare(local, dev, entries))
    });
}
