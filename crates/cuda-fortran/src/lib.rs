//! Lowers CUDA Fortran, as flang 22 represents it, to host code with calls of the runtime and to kernels for GPUs and CPU devices.
//!
//! Pure: text in, text out. The text is MLIR's generic operation form ([`mlir`]), as `flang -emit-fir` and `fir-opt`
//! print it with `--mlir-print-op-generic`. flang's own passes ([`CUF_PASSES`]) run between two calls of this crate.

#![forbid(unsafe_code)]

mod archive;
mod embedded;
mod mathematics;
pub mod mlir;
pub mod mpi;
mod pass;
pub mod ptx;
pub mod reductions;
mod refusal;
pub mod remedies;

pub use archive::PtxArchives;
pub use embedded::GpuCode;
pub use mathematics::Library;
pub use refusal::{Error, Refusal, SourceLocation};

/// The version of LLVM that these passes were written and tested for.
pub const LLVM: u32 = 22;

/// flang's passes between [`prepared`] and [`host_code`] or [`gpu_code`].
pub const CUF_PASSES: &str = "builtin.module(func.func(cuf-predefined-var-to-gpu),cuf-function-rewrite,\
cuf-transform-device-func,cuf-device-global,cuf-compute-shared-memory,cuf-allocation-convert,cuf-convert,\
cuf-launch-attach-attr,cuf-add-constructor)";

/// Rewrites what flang's passes omit or get wrong: `!$cuf kernel do`, deallocation of device pointers.
///
/// # Errors
/// Returns a refusal with its place in the source, or the place where the text is not MLIR.
pub fn prepared(fir: &str) -> Result<String, Error> {
    let mut module = mlir::module(fir)?;
    pass::pointers::rewrite(&mut module)?;
    pass::loops::rewrite(&mut module)?;
    pass::managed::rewrite(&mut module)?;
    Ok(module.to_string())
}

/// Returns host code with the kernels compiled for CPU devices, and their registration with the code for GPUs.
///
/// # Errors
/// Returns a refusal with its place in the source, or the place where the text is not MLIR.
pub fn host_code(mixed: &str, gpu: &GpuCode) -> Result<String, Error> {
    let module = mlir::module(mixed)?;
    pass::host::lower(module, gpu).map(|module| module.to_string())
}

/// Returns the kernels for GPUs and their symbols; `None` if the source has no device code.
///
/// # Errors
/// Returns a refusal with its place in the source, or the place where the text is not MLIR.
pub fn gpu_code(mixed: &str) -> Result<Option<(String, Vec<String>)>, Error> {
    let module = mlir::module(mixed)?;
    Ok(pass::gpu::lower(module)?.map(|(module, kernels)| (module.to_string(), kernels)))
}
