//! Choosing, starting and ending devices (OpenACC 3.3, 3.2.1 to 3.2.8, 3.2.15). Each is its C
//! routine with arguments by reference.

use crate::api::device as c;
use crate::api::init;

#[unsafe(no_mangle)]
extern "C" fn acc_get_num_devices_h_(kind: &i32) -> i32 {
    c::acc_get_num_devices(*kind)
}

#[unsafe(no_mangle)]
extern "C" fn acc_set_device_type_h_(kind: &i32) {
    c::acc_set_device_type(*kind);
}

#[unsafe(no_mangle)]
extern "C" fn acc_get_device_type_h_() -> i32 {
    c::acc_get_device_type()
}

#[unsafe(no_mangle)]
extern "C" fn acc_set_device_num_h_(num: &i32, kind: &i32) {
    c::acc_set_device_num(*num, *kind);
}

#[unsafe(no_mangle)]
extern "C" fn acc_get_device_num_h_(kind: &i32) -> i32 {
    c::acc_get_device_num(*kind)
}

#[unsafe(no_mangle)]
extern "C" fn acc_on_device_h_(kind: &i32) -> i32 {
    c::acc_on_device(*kind)
}

#[unsafe(no_mangle)]
extern "C" fn acc_init_h_(kind: &i32) {
    init::acc_init(*kind);
}

#[unsafe(no_mangle)]
extern "C" fn acc_shutdown_h_(kind: &i32) {
    init::acc_shutdown(*kind);
}
