//! cuBLAS, as C and module `cublas_v2` call it. A handle's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, c_name, check_device, forwarded};
use crate::streams;
use std::sync::atomic::AtomicUsize;

/// `CUBLAS_STATUS_SUCCESS` and `CUBLAS_STATUS_INVALID_VALUE`.
pub(super) const SUCCESS: i32 = 0;
const INVALID_VALUE: i32 = 7;

static CUBLAS: VendorLibrary = VendorLibrary::new(
    "cuBLAS",
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"],
    c"cublasSetStream_v2",
);

#[unsafe(no_mangle)]
pub(super) extern "C" fn cublasCreate_v2(handle: &mut usize) -> i32 {
    static SLOT: AtomicUsize = AtomicUsize::new(0);
    let name = c_name!(cublasCreate_v2);
    check_device(name);
    let routine = CUBLAS.routine(&SLOT, name);
    // SAFETY: the routine stores a handle.
    let routine: unsafe extern "C" fn(*mut usize) -> i32 = unsafe { std::mem::transmute(routine) };
    // SAFETY: the handle is the program's variable.
    match unsafe { routine(handle) } {
        SUCCESS => CUBLAS.bind(*handle, streams::selected()),
        status => status,
    }
}

#[unsafe(no_mangle)]
extern "C" fn cublasDestroy_v2(handle: usize) -> i32 {
    static SLOT: AtomicUsize = AtomicUsize::new(0);
    let routine = CUBLAS.routine(&SLOT, c_name!(cublasDestroy_v2));
    CUBLAS.forget(handle);
    // SAFETY: the routine takes a handle.
    let routine: unsafe extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(routine) };
    // SAFETY: the handle is the program's own.
    unsafe { routine(handle) }
}

/// Gives a handle a stream of CUDA Fortran, whose numbers are small, or one of the driver, as OpenACC and C have them.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cublasSetStream_v2(handle: usize, stream: i64) -> i32 {
    check_device(c_name!(cublasSetStream_v2));
    if i32::try_from(stream).is_err() {
        return CUBLAS.bind_raw(handle, stream as usize);
    }
    if streams::device(stream).is_none() { INVALID_VALUE } else { CUBLAS.bind(handle, stream) }
}

/// Returns the handle's stream of CUDA Fortran.
#[unsafe(no_mangle)]
extern "C" fn cublasGetStream_v2(handle: usize, stream: &mut i64) -> i32 {
    let Some(binding) = CUBLAS.binding(handle) else { return INVALID_VALUE };
    *stream = binding.stream;
    SUCCESS
}

forwarded! {
    CUBLAS, usize;
    cublasGetVersion_v2(version);
    cublasSetPointerMode_v2(mode);
    cublasGetPointerMode_v2(mode);
    cublasSetMathMode(mode);
    cublasSaxpy_v2(n alpha p_x incx p_y incy);
    cublasScopy_v2(n p_x incx p_y incy);
    cublasSswap_v2(n p_x incx p_y incy);
    cublasSscal_v2(n alpha p_x incx);
    cublasSdot_v2(n p_x incx p_y incy result);
    cublasSnrm2_v2(n p_x incx result);
    cublasSasum_v2(n p_x incx result);
    cublasIsamax_v2(n p_x incx result);
    cublasIsamin_v2(n p_x incx result);
    cublasSgemv_v2(trans m n alpha p_a lda p_x incx beta p_y incy);
    cublasSger_v2(m n alpha p_x incx p_y incy p_a lda);
    cublasSgemm_v2(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc);
    cublasSsymm_v2(side uplo m n alpha p_a lda p_b ldb beta p_c ldc);
    cublasSsyrk_v2(uplo trans n k alpha p_a lda beta p_c ldc);
    cublasStrsm_v2(side uplo transa diag m n alpha p_a lda p_b ldb);
    cublasSgeam(transa transb m n alpha p_a lda beta p_b ldb p_c ldc);
    cublasSgemmBatched(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc count);
    cublasSgemmStridedBatched(transa transb m n k alpha p_a lda stridea p_b ldb strideb beta p_c ldc stridec count);
    cublasDaxpy_v2(n alpha p_x incx p_y incy);
    cublasDcopy_v2(n p_x incx p_y incy);
    cublasDswap_v2(n p_x incx p_y incy);
    cublasDscal_v2(n alpha p_x incx);
    cublasDdot_v2(n p_x incx p_y incy result);
    cublasDnrm2_v2(n p_x incx result);
    cublasDasum_v2(n p_x incx result);
    cublasIdamax_v2(n p_x incx result);
    cublasIdamin_v2(n p_x incx result);
    cublasDgemv_v2(trans m n alpha p_a lda p_x incx beta p_y incy);
    cublasDger_v2(m n alpha p_x incx p_y incy p_a lda);
    cublasDgemm_v2(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc);
    cublasDsymm_v2(side uplo m n alpha p_a lda p_b ldb beta p_c ldc);
    cublasDsyrk_v2(uplo trans n k alpha p_a lda beta p_c ldc);
    cublasDtrsm_v2(side uplo transa diag m n alpha p_a lda p_b ldb);
    cublasDgeam(transa transb m n alpha p_a lda beta p_b ldb p_c ldc);
    cublasDgemmBatched(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc count);
    cublasDgemmStridedBatched(transa transb m n k alpha p_a lda stridea p_b ldb strideb beta p_c ldc stridec count);
    cublasCaxpy_v2(n alpha p_x incx p_y incy);
    cublasCcopy_v2(n p_x incx p_y incy);
    cublasCswap_v2(n p_x incx p_y incy);
    cublasCscal_v2(n alpha p_x incx);
    cublasCdotu_v2(n p_x incx p_y incy result);
    cublasCdotc_v2(n p_x incx p_y incy result);
    cublasScnrm2_v2(n p_x incx result);
    cublasScasum_v2(n p_x incx result);
    cublasIcamax_v2(n p_x incx result);
    cublasIcamin_v2(n p_x incx result);
    cublasCgemv_v2(trans m n alpha p_a lda p_x incx beta p_y incy);
    cublasCgemm_v2(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc);
    cublasCsymm_v2(side uplo m n alpha p_a lda p_b ldb beta p_c ldc);
    cublasCsyrk_v2(uplo trans n k alpha p_a lda beta p_c ldc);
    cublasCtrsm_v2(side uplo transa diag m n alpha p_a lda p_b ldb);
    cublasCgeam(transa transb m n alpha p_a lda beta p_b ldb p_c ldc);
    cublasCgemmBatched(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc count);
    cublasCgemmStridedBatched(transa transb m n k alpha p_a lda stridea p_b ldb strideb beta p_c ldc stridec count);
    cublasZaxpy_v2(n alpha p_x incx p_y incy);
    cublasZcopy_v2(n p_x incx p_y incy);
    cublasZswap_v2(n p_x incx p_y incy);
    cublasZscal_v2(n alpha p_x incx);
    cublasZdotu_v2(n p_x incx p_y incy result);
    cublasZdotc_v2(n p_x incx p_y incy result);
    cublasDznrm2_v2(n p_x incx result);
    cublasDzasum_v2(n p_x incx result);
    cublasIzamax_v2(n p_x incx result);
    cublasIzamin_v2(n p_x incx result);
    cublasZgemv_v2(trans m n alpha p_a lda p_x incx beta p_y incy);
    cublasZgemm_v2(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc);
    cublasZsymm_v2(side uplo m n alpha p_a lda p_b ldb beta p_c ldc);
    cublasZsyrk_v2(uplo trans n k alpha p_a lda beta p_c ldc);
    cublasZtrsm_v2(side uplo transa diag m n alpha p_a lda p_b ldb);
    cublasZgeam(transa transb m n alpha p_a lda beta p_b ldb p_c ldc);
    cublasZgemmBatched(transa transb m n k alpha p_a lda p_b ldb beta p_c ldc count);
    cublasZgemmStridedBatched(transa transb m n k alpha p_a lda stridea p_b ldb strideb beta p_c ldc stridec count);
}
