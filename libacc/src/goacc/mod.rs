//! The entry points of GCC's code (`GOACC_*`, `GOMP_offload_*`): one file per family.
//!
//! Upper-case names are the compiler's. The arrays of a call are on the caller's stack or in its data. They are never kept,
//! and never written, except for addresses for `use_device`.

mod data;
mod declare;
mod dropped;
mod enter_exit;
mod legacy;
mod offload_register;
mod parallel;
mod variadic;
mod wait;

use accord_runtime::Entries;

/// Returns the three arrays of a call as slices.
///
/// # Safety
/// With `n` of 1 or more, the pointers must be valid for `n` elements during `'a`, and no other code may use `hosts`
/// meanwhile. With 0 they may be anything.
unsafe fn entries<'a>(n: usize, hosts: *mut usize, sizes: *const usize, kinds: *const u16) -> Entries<'a> {
    if n == 0 {
        return Entries::new(&mut [], &[], &[]);
    }
    // SAFETY: the caller's promise.
    unsafe {
        Entries::new(
            std::slice::from_raw_parts_mut(hosts, n),
            std::slice::from_raw_parts(sizes, n),
            std::slice::from_raw_parts(kinds, n),
        )
    }
}

/// A list that the shim gathered.
///
/// # Safety
/// `list` must be valid for `count` elements during `'a`.
unsafe fn list<'a, T>(count: usize, list: *const T) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, count) }
}
