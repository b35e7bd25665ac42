//! The data routines in their three forms (OpenACC 3.3, 3.2.18 to 3.2.20, 3.2.25).

use super::descriptor::Descriptor;
use super::length;
use crate::abi_boundary::enter;
use crate::api::SYNC;

/// Synchronous forms. The body gets the host address and the length in bytes.
macro_rules! three_forms {
    ($($call:literal: $short:ident, $long:ident, $array:ident $(-> $result:ty)? =
        |$runtime:pat_param, $local:pat_param, $host:ident, $bytes:ident| $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(super) extern "C" fn $short($host: usize, length_: &i32) $(-> $result)? {
                enter($call, |$runtime, $local| {
                    let $bytes = length(i64::from(*length_))?;
                    $body
                })
            }

            #[unsafe(no_mangle)]
            extern "C" fn $long($host: usize, length_: &i64) $(-> $result)? {
                enter($call, |$runtime, $local| {
                    let $bytes = length(*length_)?;
                    $body
                })
            }

            #[unsafe(no_mangle)]
            extern "C" fn $array(descriptor: &Descriptor) $(-> $result)? {
                enter($call, |$runtime, $local| {
                    let ($host, $bytes) = descriptor.section()?;
                    $body
                })
            }
        )*
    };
}

three_forms! {
    "acc_copyin": acc_copyin_32_h_, acc_copyin_64_h_, acc_copyin_array_h_ =
        |runtime, local, host, bytes| runtime.copyin(local, host, bytes, SYNC).map(drop);
    "acc_present_or_copyin": acc_present_or_copyin_32_h_, acc_present_or_copyin_64_h_,
        acc_present_or_copyin_array_h_ =
        |runtime, local, host, bytes| runtime.copyin(local, host, bytes, SYNC).map(drop);
    "acc_create": acc_create_32_h_, acc_create_64_h_, acc_create_array_h_ =
        |runtime, local, host, bytes| runtime.create(local, host, bytes, SYNC).map(drop);
    "acc_present_or_create": acc_present_or_create_32_h_, acc_present_or_create_64_h_,
        acc_present_or_create_array_h_ =
        |runtime, local, host, bytes| runtime.create(local, host, bytes, SYNC).map(drop);
    "acc_copyout": acc_copyout_32_h_, acc_copyout_64_h_, acc_copyout_array_h_ =
        |runtime, local, host, bytes| runtime.copyout(local, host, bytes, SYNC, false);
    "acc_copyout_finalize": acc_copyout_finalize_32_h_, acc_copyout_finalize_64_h_,
        acc_copyout_finalize_array_h_ =
        |runtime, local, host, bytes| runtime.copyout(local, host, bytes, SYNC, true);
    "acc_delete": acc_delete_32_h_, acc_delete_64_h_, acc_delete_array_h_ =
        |runtime, local, host, bytes| runtime.delete(local, host, bytes, SYNC, false);
    "acc_delete_finalize": acc_delete_finalize_32_h_, acc_delete_finalize_64_h_,
        acc_delete_finalize_array_h_ =
        |runtime, local, host, bytes| runtime.delete(local, host, bytes, SYNC, true);
    "acc_update_device": acc_update_device_32_h_, acc_update_device_64_h_,
        acc_update_device_array_h_ =
        |runtime, local, host, bytes| runtime.update_device(local, host, bytes, SYNC);
    "acc_update_self": acc_update_self_32_h_, acc_update_self_64_h_, acc_update_self_array_h_ =
        |runtime, local, host, bytes| runtime.update_self(local, host, bytes, SYNC);
    "acc_is_present": acc_is_present_32_h_, acc_is_present_64_h_, acc_is_present_array_h_ -> i32 =
        |runtime, local, host, bytes| Ok(i32::from(runtime.is_present(local, host, bytes)?));
}

/// Forms with a queue as last argument.
macro_rules! three_async_forms {
    ($($call:literal: $short:ident, $long:ident, $array:ident =
        |$runtime:pat_param, $local:pat_param, $host:ident, $bytes:ident, $queue:ident| $body:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(super) extern "C" fn $short($host: usize, length_: &i32, queue: &i32) {
                enter($call, |$runtime, $local| {
                    let ($bytes, $queue) = (length(i64::from(*length_))?, *queue);
                    $body
                })
            }

            #[unsafe(no_mangle)]
            extern "C" fn $long($host: usize, length_: &i64, queue: &i32) {
                enter($call, |$runtime, $local| {
                    let ($bytes, $queue) = (length(*length_)?, *queue);
                    $body
                })
            }

            #[unsafe(no_mangle)]
            extern "C" fn $array(descriptor: &Descriptor, queue: &i32) {
                enter($call, |$runtime, $local| {
                    let (($host, $bytes), $queue) = (descriptor.section()?, *queue);
                    $body
                })
            }
        )*
    };
}

three_async_forms! {
    "acc_copyin_async": acc_copyin_async_32_h_, acc_copyin_async_64_h_,
        acc_copyin_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.copyin(local, host, bytes, queue).map(drop);
    "acc_create_async": acc_create_async_32_h_, acc_create_async_64_h_,
        acc_create_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.create(local, host, bytes, queue).map(drop);
    "acc_copyout_async": acc_copyout_async_32_h_, acc_copyout_async_64_h_,
        acc_copyout_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.copyout(local, host, bytes, queue, false);
    "acc_copyout_finalize_async": acc_copyout_finalize_async_32_h_,
        acc_copyout_finalize_async_64_h_, acc_copyout_finalize_async_array_h_ =
        |runtime, local, host, bytes, queue| runtime.copyout(local, host, bytes, queue, true);
    "acc_delete_async": acc_delete_async_32_h_, acc_delete_async_64_h_,
        acc_delete_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.delete(local, host, bytes, queue, false);
    "acc_delete_finalize_async": acc_delete_finalize_async_32_h_,
        acc_delete_finalize_async_64_h_, acc_delete_finalize_async_array_h_ =
        |runtime, local, host, bytes, queue| runtime.delete(local, host, bytes, queue, true);
    "acc_update_device_async": acc_update_device_async_32_h_, acc_update_device_async_64_h_,
        acc_update_device_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.update_device(local, host, bytes, queue);
    "acc_update_self_async": acc_update_self_async_32_h_, acc_update_self_async_64_h_,
        acc_update_self_async_array_h_ = |runtime, local, host, bytes, queue|
        runtime.update_self(local, host, bytes, queue);
}
