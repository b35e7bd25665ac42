//! cuSPARSE, as C and module `cusparse` call it. A handle's stream is a stream of CUDA Fortran.

#![allow(non_snake_case, clippy::too_many_arguments)]

use super::library::{VendorLibrary, forwarded, handles, without_handle};

/// `CUSPARSE_STATUS_INVALID_VALUE`.
const INVALID_VALUE: i32 = 3;

static CUSPARSE: VendorLibrary = VendorLibrary::new(
    "cuSPARSE",
    &["libcusparse.so.12", "libcusparse.so.11", "libcusparse.so.10", "libcusparse.so"],
    c"cusparseSetStream",
);

handles! {
    CUSPARSE, INVALID_VALUE;
    cusparseCreate(), cusparseDestroy, cusparseSetStream, cusparseGetStream
}

without_handle! {
    CUSPARSE;
    cusparseCreateCsr(a rows columns nnz p_offsets p_indices p_values offset_type index_type base kind);
    cusparseCreateCsc(a rows columns nnz p_offsets p_indices p_values offset_type index_type base kind);
    cusparseCreateCoo(a rows columns nnz p_rows p_indices p_values index_type base kind);
    cusparseDestroySpMat(a);
    cusparseSpMatSetAttribute(a attribute value bytes);
    cusparseCreateDnVec(x size p_values kind);
    cusparseDestroyDnVec(x);
    cusparseCreateDnMat(a rows columns ld p_values kind order);
    cusparseDestroyDnMat(a);
    cusparseSpSV_createDescr(s);
    cusparseSpSV_destroyDescr(s);
}

forwarded! {
    CUSPARSE, usize;
    cusparseGetVersion(version);
    cusparseSetPointerMode(mode);
    cusparseGetPointerMode(mode);
    cusparseSpMV_bufferSize(op alpha a x beta y kind alg bytes);
    cusparseSpMV_preprocess(op alpha a x beta y kind alg p_buffer);
    cusparseSpMV(op alpha a x beta y kind alg p_buffer);
    cusparseSpMM_bufferSize(opa opb alpha a b beta c kind alg bytes);
    cusparseSpMM(opa opb alpha a b beta c kind alg p_buffer);
    cusparseSpSV_bufferSize(op alpha a x y kind alg s bytes);
    cusparseSpSV_analysis(op alpha a x y kind alg s p_buffer);
    cusparseSpSV_solve(op alpha a x y kind alg s);
    cusparseSparseToDense_bufferSize(a b alg bytes);
    cusparseSparseToDense(a b alg p_buffer);
    cusparseDenseToSparse_bufferSize(b a alg bytes);
    cusparseDenseToSparse_analysis(b a alg p_buffer);
    cusparseDenseToSparse_convert(b a alg p_buffer);
    cusparseXcoo2csr(p_rows nnz m p_offsets base);
    cusparseXcsr2coo(p_offsets nnz m p_rows base);
    cusparseSgtsv2_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseSgtsv2(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseSgtsv2_nopivot_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseSgtsv2_nopivot(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseSgtsv2StridedBatch_bufferSizeExt(m p_dl p_d p_du p_x count stride bytes);
    cusparseSgtsv2StridedBatch(m p_dl p_d p_du p_x count stride p_buffer);
    cusparseDgtsv2_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseDgtsv2(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseDgtsv2_nopivot_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseDgtsv2_nopivot(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseDgtsv2StridedBatch_bufferSizeExt(m p_dl p_d p_du p_x count stride bytes);
    cusparseDgtsv2StridedBatch(m p_dl p_d p_du p_x count stride p_buffer);
    cusparseCgtsv2_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseCgtsv2(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseCgtsv2_nopivot_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseCgtsv2_nopivot(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseCgtsv2StridedBatch_bufferSizeExt(m p_dl p_d p_du p_x count stride bytes);
    cusparseCgtsv2StridedBatch(m p_dl p_d p_du p_x count stride p_buffer);
    cusparseZgtsv2_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseZgtsv2(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseZgtsv2_nopivot_bufferSizeExt(m n p_dl p_d p_du p_b ldb bytes);
    cusparseZgtsv2_nopivot(m n p_dl p_d p_du p_b ldb p_buffer);
    cusparseZgtsv2StridedBatch_bufferSizeExt(m p_dl p_d p_du p_x count stride bytes);
    cusparseZgtsv2StridedBatch(m p_dl p_d p_du p_x count stride p_buffer);
}
