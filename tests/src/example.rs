//! The example programs for tests.

use crate::compile::compile_source;
use crate::{Language, Program, Result, Variant, compile, root};
use std::path::PathBuf;

/// Returns the path of a file of the repository.
pub fn repository_file(path: &str) -> PathBuf {
    root().join(path)
}

/// Compiles an example with its own flags, such as `mandelbrot/mandelbrot.c`.
///
/// # Errors
/// Returns the compiler's message.
pub fn example(path: &str, variant: Variant) -> Result<PathBuf> {
    compile_source(&root().join("examples").join(path), &["-ffp-contract=off"], variant)
}

/// Compiles a C program of `tests/programs`, such as `cluster/endless.c`, in the plain variant.
///
/// # Errors
/// Returns the compiler's message.
pub fn test_program(path: &str) -> Result<PathBuf> {
    let program = Program::read(crate::program::folder().join(path), Language::C)?;
    Ok(compile(&program, Variant::PLAIN)?.program)
}

/// Returns the shared object of such a program.
///
/// # Errors
/// Returns the compiler's message, or an error if the program has no shared object.
pub fn test_plugin(path: &str) -> Result<PathBuf> {
    let program = Program::read(crate::program::folder().join(path), Language::C)?;
    compile(&program, Variant::PLAIN)?.plugin.ok_or_else(|| format!("{path} has no shared object"))
}
