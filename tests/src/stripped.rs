//! The built programs as packages have them.

use crate::workspace::scratch;
use crate::{Result, libacc};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What `scripts/install` takes from a build. The object for MPI may be missing.
const FILES: [&str; 6] =
    ["accord", "accord-coordinator", "accord-node-agent", "libacc.so", "libaccord_cuf.a", "libaccord_mpi.so"];

/// Returns a folder with the built programs without symbols and debug information. These are nine tenths of a debug build, which
/// tests of packages would copy many times. All tests share it until the programs are built again.
///
/// # Errors
/// Returns an error if the programs aren't built and can't be, or can't be stripped.
pub fn stripped() -> Result<PathBuf> {
    let build = libacc()?.parent().map(Path::to_owned).unwrap_or_default();
    let folder = scratch().join("stripped");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    let _mine = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error.to_string())?;
    for name in FILES {
        let (from, to) = (build.join(name), folder.join(name));
        let Some(built) = modified(&from) else {
            let _ = fs::remove_file(&to);
            continue;
        };
        if modified(&to).is_none_or(|there| there <= built) {
            let kept = if name.ends_with(".a") { "--strip-debug" } else { "--strip-unneeded" };
            let made = Command::new("strip").arg(kept).arg("-o").arg(&to).arg(&from).output();
            let made = made.map_err(|error| format!("cannot start strip: {error}"))?;
            if !made.status.success() {
                return Err(String::from_utf8_lossy(&made.stderr).into_owned());
            }
        }
    }
    Ok(folder)
}

/// Returns the time of a file's last change; `None` if it is missing.
fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|found| found.modified()).ok()
}
