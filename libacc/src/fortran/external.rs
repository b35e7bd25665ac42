//! Routines that gfortran's module `openacc` lacks: programs that declare them `external` call `NAME_` with arguments by
//! reference (OpenACC 3.3, 3.2.7 to 3.2.14). Results are LOGICAL, 0 or 1, or places in a list, which count from 1.

use crate::api::{device_queue as c, init, queue};

#[unsafe(no_mangle)]
extern "C" fn acc_init_device_(num: &i32, kind: &i32) {
    init::acc_init_device(*num, *kind);
}

#[unsafe(no_mangle)]
extern "C" fn acc_shutdown_device_(num: &i32, kind: &i32) {
    init::acc_shutdown_device(*num, *kind);
}

#[unsafe(no_mangle)]
extern "C" fn acc_async_test_device_(queue: &i32, num: &i32) -> i32 {
    c::acc_async_test_device(*queue, *num)
}

#[unsafe(no_mangle)]
extern "C" fn acc_async_test_all_device_(num: &i32) -> i32 {
    c::acc_async_test_all_device(*num)
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_device_(queue: &i32, num: &i32) {
    c::acc_wait_device(*queue, *num);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_all_device_(num: &i32) {
    c::acc_wait_all_device(*num);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_device_async_(waited: &i32, queue: &i32, num: &i32) {
    c::acc_wait_device_async(*waited, *queue, *num);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_all_device_async_(queue: &i32, num: &i32) {
    c::acc_wait_all_device_async(*queue, *num);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_any_(count: &i32, list: usize) -> i32 {
    from_one(c::acc_wait_any(*count, list))
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_any_device_(count: &i32, list: usize, num: &i32) -> i32 {
    from_one(c::acc_wait_any_device(*count, list, *num))
}

#[unsafe(no_mangle)]
extern "C" fn acc_get_default_async_() -> i32 {
    queue::acc_get_default_async()
}

#[unsafe(no_mangle)]
extern "C" fn acc_set_default_async_(queue_: &i32) {
    queue::acc_set_default_async(*queue_);
}

/// A place of a C array as one of a Fortran array; -1 stays.
fn from_one(at: i32) -> i32 {
    if at < 0 { at } else { at.saturating_add(1) }
}
