//! Creates the coordinator's UNIX socket. Every user of the machine may connect, but only the owner can replace the
//! socket.

use accord_trust::local::check_folder;
use rustix::process::geteuid;
use std::fs::{Permissions, set_permissions};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tokio::net::UnixListener;

/// Listens on the socket at `path`, and removes one that a killed coordinator has left. Must be called within a Tokio
/// runtime.
///
/// # Errors
/// Returns the reason if other users could listen there, if another process listens, or if the system refuses.
pub fn listen_here(path: &Path) -> std::result::Result<UnixListener, String> {
    let owner = check_folder(path).map_err(|error| error.to_string())?;
    let own = geteuid().as_raw();
    if ![0, own].contains(&owner) {
        return Err(format!(
            "the folder of {} is user {owner}'s, whom programs would believe there; use one of user {own}'s",
            path.display()
        ));
    }
    listen(path).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => {
            format!("another process listens at {} already; choose another --socket", path.display())
        }
        _ => format!("cannot listen at {}: {error}; choose another --socket", path.display()),
    })
}

fn listen(path: &Path) -> Result<UnixListener> {
    if path.symlink_metadata().is_ok_and(|there| there.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(listener)
}
