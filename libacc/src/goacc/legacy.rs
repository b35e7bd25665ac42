//! What only GCC 5's host code calls. Its `GOACC_parallel` is in the shim, as a keyed launch.

/// A region on the host has one thread.
#[unsafe(no_mangle)]
extern "C" fn GOACC_get_num_threads() -> i32 {
    1
}

/// And it is this one.
#[unsafe(no_mangle)]
extern "C" fn GOACC_get_thread_num() -> i32 {
    0
}
