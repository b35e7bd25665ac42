//! Module `cublas`: the interfaces of BLAS, and those of cuBLAS without handles, over a handle for each device. A failure ends the program, because these
//! have no status.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::cublas::*;
use crate::errors::{SourceLine, end};
use crate::{acc, streams};
use accord_types::short_lock::ShortLock;
use std::collections::BTreeMap;

/// The handles by device, one for each.
static HANDLES: ShortLock<BTreeMap<i32, usize>> = ShortLock::new(BTreeMap::new());

/// Returns the handle of the current device, with the stream of this thread.
fn handle() -> usize {
    let device = acc::device();
    let known = HANDLES.lock().get(&device).copied();
    let handle = known.unwrap_or_else(|| {
        let mut new = 0;
        finish("cublasInit", cublasCreate_v2(&mut new));
        *HANDLES.lock().entry(device).or_insert(new)
    });
    finish("cublasSetStream", cublasSetStream_v2(handle, streams::selected()));
    handle
}

/// Ends the program if a call has failed.
fn finish(name: &str, status: i32) {
    if status != SUCCESS {
        end(
            SourceLine::now(),
            &format!("{name} failed with cuBLAS's status {status}"),
            "check the arguments; 1 and 3 mean that the GPU has no memory left for cuBLAS",
        );
    }
}

/// Creates the current device's handle.
#[unsafe(no_mangle)]
extern "C" fn accord_cublas_init() -> i32 {
    handle();
    SUCCESS
}

/// Returns the argument at an address that Fortran passes.
///
/// # Safety
/// The address is that of a character.
unsafe fn character(address: usize) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { (address as *const u8).read() }.to_ascii_uppercase()
}

/// Returns the code for `N`, `T` or `C`.
unsafe fn operation_code(address: usize) -> usize {
    // SAFETY: the caller's promise.
    match unsafe { character(address) } {
        b'T' => 1,
        b'C' => 2,
        _ => 0,
    }
}

unsafe fn triangle_code(address: usize) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { character(address) } == b'U')
}

unsafe fn side_code(address: usize) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { character(address) } == b'R')
}

unsafe fn diagonal_code(address: usize) -> usize {
    // SAFETY: the caller's promise.
    usize::from(unsafe { character(address) } == b'U')
}

unsafe fn integer(address: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (address as *const i32).read() as usize }
}

unsafe fn address(address: usize) -> usize {
    address
}

/// Defines routines by those with a handle.
macro_rules! with_handle {
    ($($name:ident => $routine:ident($($argument:ident: $kind:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: usize),*) {
            // SAFETY: Fortran passes all arguments by their addresses.
            let status = unsafe { $routine(handle(), $($kind($argument)),*) };
            finish(stringify!($routine), status);
        }
    )*};
}

/// Defines functions by routines with a handle that store a result.
macro_rules! functions {
    ($($name:ident => $routine:ident($($argument:ident: $kind:ident),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: usize),*) -> $result {
            let mut result = <$result>::default();
            // SAFETY: Fortran passes all arguments by their addresses.
            let status = unsafe { $routine(handle(), $($kind($argument)),*, (&raw mut result).expose_provenance()) };
            finish(stringify!($routine), status);
            result
        }
    )*};
}

with_handle! {
    accord_cublas_saxpy => cublasSaxpy_v2(n: integer, alpha: address, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_scopy => cublasScopy_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_sswap => cublasSswap_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_sscal => cublasSscal_v2(n: integer, alpha: address, x: address, incx: integer);
    accord_cublas_sgemv => cublasSgemv_v2(trans: operation_code, m: integer, n: integer, alpha: address, a: address, lda: integer, x: address, incx: integer, beta: address, y: address, incy: integer);
    accord_cublas_sgemm => cublasSgemm_v2(transa: operation_code, transb: operation_code, m: integer, n: integer, k: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer, beta: address, c: address, ldc: integer);
    accord_cublas_ssyrk => cublasSsyrk_v2(uplo: triangle_code, trans: operation_code, n: integer, k: integer, alpha: address, a: address, lda: integer, beta: address, c: address, ldc: integer);
    accord_cublas_strsm => cublasStrsm_v2(side: side_code, uplo: triangle_code, transa: operation_code, diag: diagonal_code, m: integer, n: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer);
    accord_cublas_daxpy => cublasDaxpy_v2(n: integer, alpha: address, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_dcopy => cublasDcopy_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_dswap => cublasDswap_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_dscal => cublasDscal_v2(n: integer, alpha: address, x: address, incx: integer);
    accord_cublas_dgemv => cublasDgemv_v2(trans: operation_code, m: integer, n: integer, alpha: address, a: address, lda: integer, x: address, incx: integer, beta: address, y: address, incy: integer);
    accord_cublas_dgemm => cublasDgemm_v2(transa: operation_code, transb: operation_code, m: integer, n: integer, k: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer, beta: address, c: address, ldc: integer);
    accord_cublas_dsyrk => cublasDsyrk_v2(uplo: triangle_code, trans: operation_code, n: integer, k: integer, alpha: address, a: address, lda: integer, beta: address, c: address, ldc: integer);
    accord_cublas_dtrsm => cublasDtrsm_v2(side: side_code, uplo: triangle_code, transa: operation_code, diag: diagonal_code, m: integer, n: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer);
    accord_cublas_caxpy => cublasCaxpy_v2(n: integer, alpha: address, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_ccopy => cublasCcopy_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_cswap => cublasCswap_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_cscal => cublasCscal_v2(n: integer, alpha: address, x: address, incx: integer);
    accord_cublas_cgemv => cublasCgemv_v2(trans: operation_code, m: integer, n: integer, alpha: address, a: address, lda: integer, x: address, incx: integer, beta: address, y: address, incy: integer);
    accord_cublas_cgemm => cublasCgemm_v2(transa: operation_code, transb: operation_code, m: integer, n: integer, k: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer, beta: address, c: address, ldc: integer);
    accord_cublas_csyrk => cublasCsyrk_v2(uplo: triangle_code, trans: operation_code, n: integer, k: integer, alpha: address, a: address, lda: integer, beta: address, c: address, ldc: integer);
    accord_cublas_ctrsm => cublasCtrsm_v2(side: side_code, uplo: triangle_code, transa: operation_code, diag: diagonal_code, m: integer, n: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer);
    accord_cublas_zaxpy => cublasZaxpy_v2(n: integer, alpha: address, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_zcopy => cublasZcopy_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_zswap => cublasZswap_v2(n: integer, x: address, incx: integer, y: address, incy: integer);
    accord_cublas_zscal => cublasZscal_v2(n: integer, alpha: address, x: address, incx: integer);
    accord_cublas_zgemv => cublasZgemv_v2(trans: operation_code, m: integer, n: integer, alpha: address, a: address, lda: integer, x: address, incx: integer, beta: address, y: address, incy: integer);
    accord_cublas_zgemm => cublasZgemm_v2(transa: operation_code, transb: operation_code, m: integer, n: integer, k: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer, beta: address, c: address, ldc: integer);
    accord_cublas_zsyrk => cublasZsyrk_v2(uplo: triangle_code, trans: operation_code, n: integer, k: integer, alpha: address, a: address, lda: integer, beta: address, c: address, ldc: integer);
    accord_cublas_ztrsm => cublasZtrsm_v2(side: side_code, uplo: triangle_code, transa: operation_code, diag: diagonal_code, m: integer, n: integer, alpha: address, a: address, lda: integer, b: address, ldb: integer);
}

functions! {
    accord_cublas_sdot => cublasSdot_v2(n: integer, x: address, incx: integer, y: address, incy: integer) -> f32;
    accord_cublas_snrm2 => cublasSnrm2_v2(n: integer, x: address, incx: integer) -> f32;
    accord_cublas_sasum => cublasSasum_v2(n: integer, x: address, incx: integer) -> f32;
    accord_cublas_isamax => cublasIsamax_v2(n: integer, x: address, incx: integer) -> i32;
    accord_cublas_ddot => cublasDdot_v2(n: integer, x: address, incx: integer, y: address, incy: integer) -> f64;
    accord_cublas_dnrm2 => cublasDnrm2_v2(n: integer, x: address, incx: integer) -> f64;
    accord_cublas_dasum => cublasDasum_v2(n: integer, x: address, incx: integer) -> f64;
    accord_cublas_idamax => cublasIdamax_v2(n: integer, x: address, incx: integer) -> i32;
}

/// Defines products of matrices as cuBLAS's first interface for C has them.
macro_rules! products_by_value {
    ($($name:ident => $routine:ident: $kind:ty;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            transa: u8,
            transb: u8,
            m: i32,
            n: i32,
            k: i32,
            alpha: $kind,
            a: usize,
            lda: i32,
            b: usize,
            ldb: i32,
            beta: $kind,
            c: usize,
            ldc: i32,
        ) {
            let at = |value: &$kind| std::ptr::from_ref(value).expose_provenance();
            let code = |text: &u8| {
                // SAFETY: a character of this function.
                unsafe { operation_code(std::ptr::from_ref(text).expose_provenance()) }
            };
            let [m, n, k, lda, ldb, ldc] = [m, n, k, lda, ldb, ldc].map(|value| value as usize);
            let (transa, transb) = (code(&transa), code(&transb));
            let status = $routine(handle(), transa, transb, m, n, k, at(&alpha), a, lda, b, ldb, at(&beta), c, ldc);
            finish(stringify!($name), status);
        }
    )*};
}

products_by_value! {
    cublasSgemm => cublasSgemm_v2: f32;
    cublasDgemm => cublasDgemm_v2: f64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_cublas_codes() {
        let at = |text: &u8| std::ptr::from_ref(text).expose_provenance();
        // SAFETY: all addresses are those of characters.
        unsafe {
            assert_eq!([b'n', b'T', b'c'].map(|text| operation_code(at(&text))), [0, 1, 2]);
            assert_eq!([b'l', b'U'].map(|text| triangle_code(at(&text))), [0, 1]);
            assert_eq!([b'L', b'r'].map(|text| side_code(at(&text))), [0, 1]);
            assert_eq!([b'n', b'u'].map(|text| diagonal_code(at(&text))), [0, 1]);
        }
    }
}
