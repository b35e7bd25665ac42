//! The entry points with variable arguments, between C and Rust.
//!
//! A Rust shared library can't export a C function of a static library. A Rust function that C calls would be exported under a plain name.
//! So each uses jumps: the exported name jumps into the shim, and the shim's hidden name jumps into Rust.

use super::{enter_exit, parallel, wait};
use std::arch::{global_asm, naked_asm};

macro_rules! exported {
    ($($name:ident => $shim:ident;)*) => {
        unsafe extern "C" {
            $(fn $shim();)*
        }
        $(
            /// Jumps to the C part with all arguments unchanged.
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            extern "C" fn $name() {
                naked_asm!(jump!(), target = sym $shim)
            }
        )*
    };
}

exported! {
    GOACC_parallel_keyed => accord_c_parallel_keyed;
    GOACC_parallel => accord_c_parallel;
    GOACC_enter_data => accord_c_enter_data;
    GOACC_exit_data => accord_c_exit_data;
    GOACC_enter_exit_data => accord_c_enter_exit_data;
    GOACC_update => accord_c_update;
    GOACC_wait => accord_c_wait;
}

macro_rules! called_by_shim {
    ($($name:literal => $target:path;)*) => {
        $(
            global_asm!(
                ".pushsection .text.accord_shim, \"ax\", @progbits",
                concat!(".globl ", $name),
                concat!(".hidden ", $name),
                concat!(".type ", $name, ", @function"),
                concat!($name, ":"),
                jump!(),
                ".popsection",
                target = sym $target,
            );
        )*
    };
}

called_by_shim! {
    "accord_parallel" => parallel::parallel;
    "accord_end_host_region" => parallel::end_host_region;
    "accord_enter_data" => enter_exit::enter_data;
    "accord_exit_data" => enter_exit::exit_data;
    "accord_enter_exit_data" => enter_exit::enter_exit_data;
    "accord_update" => enter_exit::update;
    "accord_wait" => wait::wait;
}
