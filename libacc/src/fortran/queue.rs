//! Queues (OpenACC 3.3, 3.2.9 to 3.2.14). Each is its C routine with arguments by reference; results
//! are LOGICAL: 0 or 1.

use crate::api::queue as c;

#[unsafe(no_mangle)]
extern "C" fn acc_async_test_h_(queue: &i32) -> i32 {
    c::acc_async_test(*queue)
}

#[unsafe(no_mangle)]
extern "C" fn acc_async_test_all_h_() -> i32 {
    c::acc_async_test_all()
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_h_(queue: &i32) {
    c::acc_wait(*queue);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_async_h_(waited: &i32, queue: &i32) {
    c::acc_wait_async(*waited, *queue);
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_all_h_() {
    c::acc_wait_all();
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_all_async_h_(queue: &i32) {
    c::acc_wait_all_async(*queue);
}
