//! A lane to a server of this machine that listens on a UNIX socket in the file system.

use super::lane::SharedLane;
use super::socket;
use accord_trust::local;
use accord_types::{Error, ErrorCode, Result, scarce};
use rustix::net::sockopt::socket_peercred;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

/// The reason why connecting failed.
pub(crate) enum Refused {
    /// No server listens at present.
    Absent(Error),
    /// The listening process, or the socket's folder, can't be trusted.
    Strange(Error),
}

/// Connects to the coordinator at `path`, unless another user's process may have replaced it.
pub(crate) fn connect(path: &Path) -> Result<SharedLane, Refused> {
    let absent = |error: io::Error| {
        let cause = format!("cannot connect to the coordinator at {}{}: {error}", local::SCHEME, path.display());
        let remedy = scarce::remedy(&error).unwrap_or(socket::UNREACHED);
        Refused::Absent(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy))
    };
    // A service's folder is removed when the service stops.
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Err(absent(ErrorKind::NotFound.into()));
    }
    let owner = local::check_folder(path).map_err(Refused::Strange)?;
    let stream = UnixStream::connect(path).map_err(absent)?;
    let server = socket_peercred(&stream).map_err(|error| absent(error.into()))?.uid.as_raw();
    local::check_server(path, owner, server).map_err(Refused::Strange)?;
    Ok(Arc::new(socket::plain(stream.into())))
}
