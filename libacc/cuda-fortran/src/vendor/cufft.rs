//! cuFFT, as C and module `cufft` call it. A plan's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, c_name, check_device, forwarded};
use crate::streams;
use std::sync::atomic::AtomicUsize;

/// `CUFFT_SUCCESS` and `CUFFT_INVALID_VALUE`.
const SUCCESS: i32 = 0;
const INVALID_VALUE: i32 = 4;

static CUFFT: VendorLibrary = VendorLibrary::new(
    "cuFFT",
    &["libcufft.so.12", "libcufft.so.11", "libcufft.so.10", "libcufft.so"],
    c"cufftSetStream",
);

/// Returns a plan as a handle.
fn handle(plan: i32) -> usize {
    plan.cast_unsigned() as usize
}

/// Defines routines that make plans.
macro_rules! plans {
    ($($name:ident($($argument:ident)*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(plan: &mut i32, $($argument: usize),*) -> i32 {
            static SLOT: AtomicUsize = AtomicUsize::new(0);
            let name = c_name!($name);
            check_device(name);
            let routine = CUFFT.routine(&SLOT, name);
            let routine: unsafe extern "C" fn(*mut i32, $($argument: usize),*) -> i32 =
                // SAFETY: cuFFT's routine of this name has these arguments.
                unsafe { std::mem::transmute(routine) };
            // SAFETY: the arguments are the program's own.
            match unsafe { routine(plan, $($argument),*) } {
                SUCCESS => CUFFT.bind(handle(*plan), streams::selected()),
                status => status,
            }
        }
    )*};
}

plans! {
    cufftCreate();
    cufftPlan1d(nx kind batch);
    cufftPlan2d(nx ny kind);
    cufftPlan3d(nx ny nz kind);
    cufftPlanMany(rank n inembed istride idist onembed ostride odist kind batch);
}

#[unsafe(no_mangle)]
extern "C" fn cufftDestroy(plan: i32) -> i32 {
    static SLOT: AtomicUsize = AtomicUsize::new(0);
    let routine = CUFFT.routine(&SLOT, c_name!(cufftDestroy));
    CUFFT.forget(handle(plan));
    // SAFETY: the routine takes a plan.
    let routine: unsafe extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(routine) };
    // SAFETY: the plan is the program's own.
    unsafe { routine(plan) }
}

/// Gives a plan a stream of CUDA Fortran, whose numbers are small, or one of the driver, as OpenACC and C have them.
#[unsafe(no_mangle)]
extern "C" fn cufftSetStream(plan: i32, stream: i64) -> i32 {
    check_device(c_name!(cufftSetStream));
    if i32::try_from(stream).is_err() {
        return CUFFT.bind_raw(handle(plan), stream as usize);
    }
    if streams::device(stream).is_none() { INVALID_VALUE } else { CUFFT.bind(handle(plan), stream) }
}

#[unsafe(no_mangle)]
extern "C" fn cufftGetVersion(version: *mut i32) -> i32 {
    static SLOT: AtomicUsize = AtomicUsize::new(0);
    let routine = CUFFT.routine(&SLOT, c_name!(cufftGetVersion));
    // SAFETY: the routine stores a number.
    let routine: unsafe extern "C" fn(*mut i32) -> i32 = unsafe { std::mem::transmute(routine) };
    // SAFETY: the variable is the program's own.
    unsafe { routine(version) }
}

forwarded! {
    CUFFT, u32;
    cufftMakePlan1d(nx kind batch bytes);
    cufftMakePlan2d(nx ny kind bytes);
    cufftMakePlan3d(nx ny nz kind bytes);
    cufftMakePlanMany(rank n inembed istride idist onembed ostride odist kind batch bytes);
    cufftSetAutoAllocation(automatic);
    cufftSetWorkArea(p_area);
    cufftGetSize(bytes);
    cufftExecC2C(p_input p_output direction);
    cufftExecZ2Z(p_input p_output direction);
    cufftExecR2C(p_input p_output);
    cufftExecC2R(p_input p_output);
    cufftExecD2Z(p_input p_output);
    cufftExecZ2D(p_input p_output);
}
