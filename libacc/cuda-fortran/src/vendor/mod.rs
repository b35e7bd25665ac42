//! NVIDIA's libraries and tools that programs call: cuBLAS and cuFFT are loaded at their first call, and work on GPUs of the program's own node.

mod blas;
mod cublas;
mod cufft;
mod library;
mod ranges;
