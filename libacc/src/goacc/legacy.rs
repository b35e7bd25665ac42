//! Entry points that only GCC 5's host code calls. Its `GOACC_parallel` is in the shim, as a keyed launch.

/// Returns the number of threads of a region on the host: one.
#[unsafe(no_mangle)]
extern "C" fn GOACC_get_num_threads() -> i32 {
    1
}

/// Returns the number of that thread: 0.
#[unsafe(no_mangle)]
extern "C" fn GOACC_get_thread_num() -> i32 {
    0
}
