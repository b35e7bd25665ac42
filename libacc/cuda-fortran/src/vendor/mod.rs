//! NVIDIA's libraries and tools that programs call. The libraries are loaded at their first call, and work on GPUs of the program's own node.

mod blas;
mod cublas;
mod cufft;
mod curand;
mod cusolver;
mod cusparse;
mod library;
mod ranges;
