//! cuBLAS, as C and module `cublas_v2` call it. A handle's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, forwarded, handles};

/// `CUBLAS_STATUS_SUCCESS` and `CUBLAS_STATUS_INVALID_VALUE`.
pub(super) const SUCCESS: i32 = 0;
const INVALID_VALUE: i32 = 7;

static CUBLAS: VendorLibrary = VendorLibrary::new(
    "cuBLAS",
    &["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"],
    c"cublasSetStream_v2",
);

handles! {
    CUBLAS, INVALID_VALUE;
    cublasCreate_v2(), cublasDestroy_v2, cublasSetStream_v2, cublasGetStream_v2
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
