//! cuSOLVER for dense matrices, as C and module `cusolverDn` call it. A handle's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, forwarded, handles};

/// `CUSOLVER_STATUS_INVALID_VALUE`.
const INVALID_VALUE: i32 = 3;

static CUSOLVER: VendorLibrary = VendorLibrary::new(
    "cuSOLVER",
    &["libcusolver.so.12", "libcusolver.so.11", "libcusolver.so.10", "libcusolver.so"],
    c"cusolverDnSetStream",
);

handles! {
    CUSOLVER, INVALID_VALUE;
    cusolverDnCreate(), cusolverDnDestroy, cusolverDnSetStream, cusolverDnGetStream
}

forwarded! {
    CUSOLVER, usize;
    cusolverDnSgetrf_bufferSize(m n p_a lda lwork);
    cusolverDnSgetrf(m n p_a lda p_work p_pivots p_info);
    cusolverDnSgetrs(op n nrhs p_a lda p_pivots p_b ldb p_info);
    cusolverDnSpotrf_bufferSize(uplo n p_a lda lwork);
    cusolverDnSpotrf(uplo n p_a lda p_work lwork p_info);
    cusolverDnSpotrs(uplo n nrhs p_a lda p_b ldb p_info);
    cusolverDnSgeqrf_bufferSize(m n p_a lda lwork);
    cusolverDnSgeqrf(m n p_a lda p_tau p_work lwork p_info);
    cusolverDnSsyevd_bufferSize(jobz uplo n p_a lda p_w lwork);
    cusolverDnSsyevd(jobz uplo n p_a lda p_w p_work lwork p_info);
    cusolverDnSgesvd_bufferSize(m n lwork);
    cusolverDnSgesvd(jobu jobvt m n p_a lda p_s p_u ldu p_vt ldvt p_work lwork p_rwork p_info);
    cusolverDnDgetrf_bufferSize(m n p_a lda lwork);
    cusolverDnDgetrf(m n p_a lda p_work p_pivots p_info);
    cusolverDnDgetrs(op n nrhs p_a lda p_pivots p_b ldb p_info);
    cusolverDnDpotrf_bufferSize(uplo n p_a lda lwork);
    cusolverDnDpotrf(uplo n p_a lda p_work lwork p_info);
    cusolverDnDpotrs(uplo n nrhs p_a lda p_b ldb p_info);
    cusolverDnDgeqrf_bufferSize(m n p_a lda lwork);
    cusolverDnDgeqrf(m n p_a lda p_tau p_work lwork p_info);
    cusolverDnDsyevd_bufferSize(jobz uplo n p_a lda p_w lwork);
    cusolverDnDsyevd(jobz uplo n p_a lda p_w p_work lwork p_info);
    cusolverDnDgesvd_bufferSize(m n lwork);
    cusolverDnDgesvd(jobu jobvt m n p_a lda p_s p_u ldu p_vt ldvt p_work lwork p_rwork p_info);
    cusolverDnCgetrf_bufferSize(m n p_a lda lwork);
    cusolverDnCgetrf(m n p_a lda p_work p_pivots p_info);
    cusolverDnCgetrs(op n nrhs p_a lda p_pivots p_b ldb p_info);
    cusolverDnCpotrf_bufferSize(uplo n p_a lda lwork);
    cusolverDnCpotrf(uplo n p_a lda p_work lwork p_info);
    cusolverDnCpotrs(uplo n nrhs p_a lda p_b ldb p_info);
    cusolverDnCgeqrf_bufferSize(m n p_a lda lwork);
    cusolverDnCgeqrf(m n p_a lda p_tau p_work lwork p_info);
    cusolverDnCheevd_bufferSize(jobz uplo n p_a lda p_w lwork);
    cusolverDnCheevd(jobz uplo n p_a lda p_w p_work lwork p_info);
    cusolverDnCgesvd_bufferSize(m n lwork);
    cusolverDnCgesvd(jobu jobvt m n p_a lda p_s p_u ldu p_vt ldvt p_work lwork p_rwork p_info);
    cusolverDnZgetrf_bufferSize(m n p_a lda lwork);
    cusolverDnZgetrf(m n p_a lda p_work p_pivots p_info);
    cusolverDnZgetrs(op n nrhs p_a lda p_pivots p_b ldb p_info);
    cusolverDnZpotrf_bufferSize(uplo n p_a lda lwork);
    cusolverDnZpotrf(uplo n p_a lda p_work lwork p_info);
    cusolverDnZpotrs(uplo n nrhs p_a lda p_b ldb p_info);
    cusolverDnZgeqrf_bufferSize(m n p_a lda lwork);
    cusolverDnZgeqrf(m n p_a lda p_tau p_work lwork p_info);
    cusolverDnZheevd_bufferSize(jobz uplo n p_a lda p_w lwork);
    cusolverDnZheevd(jobz uplo n p_a lda p_w p_work lwork p_info);
    cusolverDnZgesvd_bufferSize(m n lwork);
    cusolverDnZgesvd(jobu jobvt m n p_a lda p_s p_u ldu p_vt ldvt p_work lwork p_rwork p_info);
}
