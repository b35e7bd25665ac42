//! The example programs, as tests use them.

use crate::compile::compile_source;
use crate::{Result, Variant, root};
use std::path::PathBuf;

/// A file of the repository.
pub fn repository_file(path: &str) -> PathBuf {
    root().join(path)
}

/// Compiles an example with its own flags: `mandelbrot/mandelbrot.c`.
///
/// # Errors
/// What the compiler says.
pub fn example(path: &str, variant: Variant) -> Result<PathBuf> {
    compile_source(&root().join("examples").join(path), &["-ffp-contract=off"], variant)
}
