//! The Fortran module, compiled for the compiler in use: compiled modules belong to one version of gfortran.

use crate::command::module_cache::{self, Fnv};
use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module's source, next to the headers.
const SOURCE: &str = "openacc.f90";

/// Returns a folder with `openacc.mod` for `compiler`: kept for later runs, or temporary.
pub(super) fn folder(compiler: &OsStr, include: &Path) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    let name = format!("modules-{}", key(compiler, include)?);
    module_cache::folder(&name, "openacc.mod", |to| compile(compiler, include, to))
}

fn compile(compiler: &OsStr, include: &Path, to: &Path) -> Result<()> {
    let output = Command::new(compiler)
        .args(["-fopenacc", "-fsyntax-only", "-w"])
        .arg(prefixed("-J", to))
        .arg(prefixed("-I", include))
        .arg(include.join(SOURCE))
        .current_dir(to)
        .output()
        .map_err(|error| Failure::start(compiler, &error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} can't compile the module openacc: {}",
        compiler.to_string_lossy(),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

/// Joins an option and a path into one argument.
pub(super) fn prefixed(option: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(option);
    argument.push(path);
    argument
}

/// Returns a key of what a compiled module depends on: the compiler's version and the source.
fn key(compiler: &OsStr, include: &Path) -> Result<String> {
    let output = Command::new(compiler)
        .args(["-dumpfullversion", "-dumpversion", "-dumpmachine"])
        .output()
        .map_err(|error| Failure::start(compiler, &error))?;
    let mut hash = Fnv::new();
    hash.take(&output.stdout);
    for file in [SOURCE, "openacc_lib.h"] {
        let path = include.join(file);
        hash.take(
            &std::fs::read(&path).map_err(|error| Failure::system(format!("can't read {}", path.display()), error))?,
        );
    }
    Ok(hash.text())
}
