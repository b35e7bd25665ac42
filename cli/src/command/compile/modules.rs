//! The Fortran module, compiled for the compiler in use: compiled modules belong to one version of gfortran.

use crate::failure::{Failure, Result};
use accord_types::settings;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module's source, next to the headers.
const SOURCE: &str = "openacc.f90";

/// Returns a folder with `openacc.mod` for `compiler`: kept for later runs, or temporary.
pub(super) fn folder(compiler: &OsStr, include: &Path) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    let key = key(compiler, include)?;
    if let Some(cache) = cache() {
        let kept = cache.join(format!("modules-{key}"));
        if kept.join("openacc.mod").is_file() {
            return Ok((kept, None));
        }
        if std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&cache).is_ok()
            && let Ok(made) = tempfile::Builder::new().prefix("modules-").tempdir_in(&cache)
        {
            compile(compiler, include, made.path())?;
            let made = made.keep();
            // Another process may have been faster; its folder is equivalent.
            if std::fs::rename(&made, &kept).is_err() {
                let _ = std::fs::remove_dir_all(&made);
            }
            if kept.join("openacc.mod").is_file() {
                return Ok((kept, None));
            }
        }
    }
    let made = tempfile::Builder::new()
        .prefix("accord-modules-")
        .tempdir()
        .map_err(|error| Failure::system("can't make a folder for the module openacc", error))?;
    compile(compiler, include, made.path())?;
    Ok((made.path().to_owned(), Some(made)))
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
    Ok(format!("{:016x}", hash.0))
}

/// FNV-1a, for a folder's name; not a safeguard.
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn cache() -> Option<PathBuf> {
    accord_device::cache_folder(std::env::var_os(settings::CACHE.name).as_deref())
}
