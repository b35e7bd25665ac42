//! Compiled Fortran modules, kept between runs: they belong to one version of a compiler and of their sources.

use crate::failure::{Failure, Result};
use accord_types::settings;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Returns the folder of a compiled module: kept for later runs, or temporary. `file` is a file that `compile` writes there.
///
/// # Errors
/// Returns an error of `compile`, or that of the temporary folder.
pub(super) fn folder(
    name: &str,
    file: &str,
    compile: impl Fn(&Path) -> Result<()>,
) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Some(cache) = cache() {
        let kept = cache.join(name);
        if kept.join(file).is_file() {
            return Ok((kept, None));
        }
        if std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&cache).is_ok()
            && let Ok(made) = tempfile::Builder::new().prefix("modules-").tempdir_in(&cache)
        {
            compile(made.path())?;
            let made = made.keep();
            // Another process may have been faster; its folder is equivalent.
            if std::fs::rename(&made, &kept).is_err() {
                let _ = std::fs::remove_dir_all(&made);
            }
            if kept.join(file).is_file() {
                return Ok((kept, None));
            }
        }
    }
    let made = tempfile::Builder::new()
        .prefix("accord-modules-")
        .tempdir()
        .map_err(|error| Failure::system(format!("can't make a folder for {file}"), error))?;
    compile(made.path())?;
    Ok((made.path().to_owned(), Some(made)))
}

fn cache() -> Option<PathBuf> {
    accord_gpu::cache_folder(std::env::var_os(settings::CACHE.name).as_deref())
}

/// FNV-1a, for a folder's name; not a safeguard.
pub(super) struct Fnv(u64);

impl Fnv {
    pub(super) fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Returns the hash as a part of a folder's name.
    pub(super) fn text(&self) -> String {
        format!("{:016x}", self.0)
    }
}
