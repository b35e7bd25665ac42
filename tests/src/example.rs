//! The example programs, as tests use them.

use crate::compile::compile_source;
use crate::{Language, Program, Result, Variant, compile, root};
use std::path::PathBuf;

/// A file of the repository.
pub fn repository_file(path: &str) -> PathBuf {
    root().join(path)
}

/// Compiles an example with its own flags: `mandelbrot/mandelbrot.c`.
///
/// # Errors
/// Returns the compiler's message.
pub fn example(path: &str, variant: Variant) -> Result<PathBuf> {
    compile_source(&root().join("examples").join(path), &["-ffp-contract=off"], variant)
}

/// Compiles a C program of `tests/programs`, `cluster/endless.c`, in the plain variant.
///
/// # Errors
/// Returns the compiler's message.
pub fn test_program(path: &str) -> Result<PathBuf> {
    let program = Program::read(crate::program::folder().join(path), Language::C)?;
    Ok(compile(&program, Variant::PLAIN)?.program)
}

/// The shared object that comes with such a program.
///
/// # Errors
/// Returns the compiler's message, or an error if the program has no shared object.
pub fn test_plugin(path: &str) -> Result<PathBuf> {
    let program = Program::read(crate::program::folder().join(path), Language::C)?;
    compile(&program, Variant::PLAIN)?.plugin.ok_or_else(|| format!("{path} has no shared object"))
}
