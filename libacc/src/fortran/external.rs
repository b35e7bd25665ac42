//! Routines under the names that gfortran calls if it has no interface of them (`external acc_wait`), or if the interface in `openacc_lib.h` has this
//! form: `NAME_`, all arguments by reference (OpenACC 3.3, chapter 3). Integers are default integers, except for numbers of bytes, which are
//! `integer(c_size_t)` as in the specification. Results are LOGICAL, 0 or 1, or indices in a list, which start at 1.
//!
//! The data routines always take a number of bytes, a default integer, because an array's own size would need an interface.

use super::data;
use super::property::fill;
use crate::api::{attach, cuda, device, device_queue, init, map, memory, property, property_text, queue};
use std::ffi::{c_char, c_void};

/// Defines `NAME_` for each `NAME`: arguments by reference, except for addresses of data.
macro_rules! by_reference {
    ($($module:ident::$name:ident => $external:ident($($argument:ident: $type:ty = $value:expr),*) $(-> $result:ty)?;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $external($($argument: $type),*) $(-> $result)? {
                $module::$name($($value),*)
            }
        )*
    };
}

by_reference! {
    device::acc_get_num_devices => acc_get_num_devices_(kind: &i32 = *kind) -> i32;
    device::acc_set_device_type => acc_set_device_type_(kind: &i32 = *kind);
    device::acc_get_device_type => acc_get_device_type_() -> i32;
    device::acc_set_device_num => acc_set_device_num_(num: &i32 = *num, kind: &i32 = *kind);
    device::acc_get_device_num => acc_get_device_num_(kind: &i32 = *kind) -> i32;
    device::acc_on_device => acc_on_device_(kind: &i32 = *kind) -> i32;
    property::acc_get_property => acc_get_property_(num: &i32 = *num, kind: &i32 = *kind, what: &i32 = *what) -> usize;

    init::acc_init => acc_init_(kind: &i32 = *kind);
    init::acc_init_device => acc_init_device_(num: &i32 = *num, kind: &i32 = *kind);
    init::acc_shutdown => acc_shutdown_(kind: &i32 = *kind);
    init::acc_shutdown_device => acc_shutdown_device_(num: &i32 = *num, kind: &i32 = *kind);

    queue::acc_async_test => acc_async_test_(queue: &i32 = *queue) -> i32;
    queue::acc_async_test_all => acc_async_test_all_() -> i32;
    queue::acc_wait => acc_wait_(queue: &i32 = *queue);
    queue::acc_async_wait => acc_async_wait_(queue: &i32 = *queue);
    queue::acc_wait_all => acc_wait_all_();
    queue::acc_async_wait_all => acc_async_wait_all_();
    queue::acc_wait_async => acc_wait_async_(waited: &i32 = *waited, queue: &i32 = *queue);
    queue::acc_wait_all_async => acc_wait_all_async_(queue: &i32 = *queue);
    queue::acc_get_default_async => acc_get_default_async_() -> i32;
    queue::acc_set_default_async => acc_set_default_async_(queue: &i32 = *queue);

    device_queue::acc_async_test_device => acc_async_test_device_(queue: &i32 = *queue, num: &i32 = *num) -> i32;
    device_queue::acc_async_test_all_device => acc_async_test_all_device_(num: &i32 = *num) -> i32;
    device_queue::acc_wait_device => acc_wait_device_(queue: &i32 = *queue, num: &i32 = *num);
    device_queue::acc_wait_all_device => acc_wait_all_device_(num: &i32 = *num);
    device_queue::acc_wait_device_async =>
        acc_wait_device_async_(waited: &i32 = *waited, queue: &i32 = *queue, num: &i32 = *num);
    device_queue::acc_wait_all_device_async => acc_wait_all_device_async_(queue: &i32 = *queue, num: &i32 = *num);

    memory::acc_malloc => acc_malloc_(bytes: &usize = *bytes) -> usize;
    memory::acc_free => acc_free_(data: &usize = *data);
    memory::acc_memcpy_to_device =>
        acc_memcpy_to_device_(device: &usize = *device, host: usize = host, bytes: &usize = *bytes);
    memory::acc_memcpy_to_device_async => acc_memcpy_to_device_async_(
        device: &usize = *device, host: usize = host, bytes: &usize = *bytes, queue: &i32 = *queue);
    memory::acc_memcpy_from_device =>
        acc_memcpy_from_device_(host: usize = host, device: &usize = *device, bytes: &usize = *bytes);
    memory::acc_memcpy_from_device_async => acc_memcpy_from_device_async_(
        host: usize = host, device: &usize = *device, bytes: &usize = *bytes, queue: &i32 = *queue);
    memory::acc_memcpy_device => acc_memcpy_device_(dst: &usize = *dst, src: &usize = *src, bytes: &usize = *bytes);
    memory::acc_memcpy_device_async => acc_memcpy_device_async_(
        dst: &usize = *dst, src: &usize = *src, bytes: &usize = *bytes, queue: &i32 = *queue);
    memory::acc_memcpy_d2d => acc_memcpy_d2d_(
        dst: usize = dst, src: usize = src, bytes: &usize = *bytes, to: &i32 = *to, from: &i32 = *from);
    memory::acc_memcpy_d2d_async => acc_memcpy_d2d_async_(
        dst: usize = dst, src: usize = src, bytes: &usize = *bytes, to: &i32 = *to, from: &i32 = *from,
        queue: &i32 = *queue);

    map::acc_map_data => acc_map_data_(host: usize = host, device: &usize = *device, bytes: &usize = *bytes);
    map::acc_unmap_data => acc_unmap_data_(host: usize = host);
    map::acc_deviceptr => acc_deviceptr_(host: usize = host) -> usize;
    map::acc_hostptr => acc_hostptr_(device: &usize = *device) -> usize;

    data::acc_copyin_32_h_ => acc_copyin_(host: usize = host, bytes: &i32 = bytes);
    data::acc_present_or_copyin_32_h_ => acc_present_or_copyin_(host: usize = host, bytes: &i32 = bytes);
    data::acc_create_32_h_ => acc_create_(host: usize = host, bytes: &i32 = bytes);
    data::acc_present_or_create_32_h_ => acc_present_or_create_(host: usize = host, bytes: &i32 = bytes);
    data::acc_copyout_32_h_ => acc_copyout_(host: usize = host, bytes: &i32 = bytes);
    data::acc_copyout_finalize_32_h_ => acc_copyout_finalize_(host: usize = host, bytes: &i32 = bytes);
    data::acc_delete_32_h_ => acc_delete_(host: usize = host, bytes: &i32 = bytes);
    data::acc_delete_finalize_32_h_ => acc_delete_finalize_(host: usize = host, bytes: &i32 = bytes);
    data::acc_update_device_32_h_ => acc_update_device_(host: usize = host, bytes: &i32 = bytes);
    data::acc_update_self_32_h_ => acc_update_self_(host: usize = host, bytes: &i32 = bytes);
    data::acc_present_or_copyin_32_h_ => acc_pcopyin_(host: usize = host, bytes: &i32 = bytes);
    data::acc_present_or_create_32_h_ => acc_pcreate_(host: usize = host, bytes: &i32 = bytes);
    data::acc_is_present_32_h_ => acc_is_present_(host: usize = host, bytes: &i32 = bytes) -> i32;
    data::acc_copyin_async_32_h_ =>
        acc_copyin_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_create_async_32_h_ =>
        acc_create_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_copyout_async_32_h_ =>
        acc_copyout_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_copyout_finalize_async_32_h_ =>
        acc_copyout_finalize_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_delete_async_32_h_ =>
        acc_delete_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_delete_finalize_async_32_h_ =>
        acc_delete_finalize_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_update_device_async_32_h_ =>
        acc_update_device_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);
    data::acc_update_self_async_32_h_ =>
        acc_update_self_async_(host: usize = host, bytes: &i32 = bytes, queue: &i32 = queue);

    attach::acc_attach => acc_attach_(pointer: usize = pointer);
    attach::acc_attach_async => acc_attach_async_(pointer: usize = pointer, queue: &i32 = *queue);
    attach::acc_detach => acc_detach_(pointer: usize = pointer);
    attach::acc_detach_async => acc_detach_async_(pointer: usize = pointer, queue: &i32 = *queue);
    attach::acc_detach_finalize => acc_detach_finalize_(pointer: usize = pointer);
    attach::acc_detach_finalize_async => acc_detach_finalize_async_(pointer: usize = pointer, queue: &i32 = *queue);

    cuda::acc_get_current_cuda_device => acc_get_current_cuda_device_() -> *mut c_void;
    cuda::acc_get_current_cuda_context => acc_get_current_cuda_context_() -> *mut c_void;
    cuda::acc_get_cuda_stream => acc_get_cuda_stream_(queue: &i32 = *queue) -> *mut c_void;
    cuda::acc_set_cuda_stream => acc_set_cuda_stream_(queue: &i32 = *queue, stream: &*mut c_void = *stream) -> i32;
}

/// # Safety
/// `text` must be writable for `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn acc_get_property_string_(num: &i32, kind: &i32, what: &i32, text: *mut c_char, len: usize) {
    let value = property_text("acc_get_property_string", *num, *kind, *what).unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe { fill(text, len, &value) }
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_any_(count: &i32, list: usize) -> i32 {
    from_one(device_queue::acc_wait_any(*count, list))
}

#[unsafe(no_mangle)]
extern "C" fn acc_wait_any_device_(count: &i32, list: usize, num: &i32) -> i32 {
    from_one(device_queue::acc_wait_any_device(*count, list, *num))
}

/// Converts an index of a C array to one of a Fortran array; -1 stays.
fn from_one(at: i32) -> i32 {
    if at < 0 { at } else { at.saturating_add(1) }
}
