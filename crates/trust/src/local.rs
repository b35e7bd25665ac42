//! Checks the coordinator's UNIX socket. The system reports the peer's user, but not whether that user should be the
//! coordinator. The socket's folder decides this: only its owner and root can place a socket there.

use accord_types::{Error, ErrorCode, Result};
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The prefix of the address of a coordinator on this machine.
pub const SCHEME: &str = "unix:";
/// Write access of a group or of all users.
const OTHERS_WRITE: u32 = 0o022;
/// The sticky bit: only owners may remove files of a folder.
const STICKY: u32 = 0o1000;

/// Returns the socket's path of an address `unix:/path`; `None` for an address `host:port`.
pub fn path_of(address: &str) -> Option<&Path> {
    address.strip_prefix(SCHEME).map(Path::new)
}

/// Returns the addresses of a cluster's coordinators: those between commas, or one socket, whose path may have commas.
pub fn addresses(text: &str) -> impl Iterator<Item = &str> {
    let is_list = path_of(text).is_none();
    text.split(move |c| is_list && c == ',').map(str::trim)
}

/// Returns the owner of the socket's folder: only the owner and root can have put the socket there.
///
/// # Errors
/// Returns `acc_error_invalid_argument` if other users can.
pub fn check_folder(socket: &Path) -> Result<u32> {
    let folder = match socket.parent() {
        Some(folder) if socket.is_absolute() => folder,
        _ => return Err(bad(format!("{} is no whole path", socket.display())).remedy("begin it with a slash")),
    };
    let unreadable = |at: &Path, error: std::io::Error| bad(format!("can't look at {}: {error}", at.display()));
    let folder: PathBuf = folder.canonicalize().map_err(|error| unreadable(folder, error))?;
    let owner = std::fs::metadata(&folder).map_err(|error| unreadable(&folder, error))?.uid();
    for at in folder.ancestors() {
        let metadata = std::fs::metadata(at).map_err(|error| unreadable(at, error))?;
        let kept = at != folder && metadata.mode() & STICKY != 0;
        let others = metadata.mode() & OTHERS_WRITE != 0 && !kept;
        if others || ![0, owner, geteuid().as_raw()].contains(&metadata.uid()) {
            let cause = format!(
                "others than user {owner} can change {}, and so take the place of {}",
                at.display(),
                socket.display()
            );
            return Err(
                bad(cause).remedy("use a folder that only its owner can change, such as one in /run (chmod go-w)")
            );
        }
    }
    Ok(owner)
}

/// Refuses a server that runs neither as the owner of the socket's folder, nor as root, nor as this process's user.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the server is another user's.
pub fn check_server(socket: &Path, owner: u32, server: u32) -> Result<()> {
    if [0, owner, geteuid().as_raw()].contains(&server) {
        return Ok(());
    }
    let cause = format!("user {server} listens at {}, in a folder of user {owner}'s", socket.display());
    Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("ask who runs the coordinator"))
}

fn bad(cause: String) -> Error {
    Error::new(ErrorCode::InvalidArgument, cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_list_has_addresses_and_a_socket_is_none() {
        let of = |text| addresses(text).collect::<Vec<_>>().join(" ");
        assert_eq!(
            ["h:1", "h:1,[fd00::1]:2, i:3", "unix:/run/a,b"].map(of),
            ["h:1", "h:1 [fd00::1]:2 i:3", "unix:/run/a,b"]
        );
    }

    #[test]
    fn a_folder_that_others_can_change_is_refused() {
        let own = geteuid().as_raw();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("in/socket");
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let allow = |at: &str, mode| set_permissions(folder.path().join(at), Permissions::from_mode(mode)).unwrap();
        allow("in", 0o755);
        assert_eq!(check_folder(&socket).unwrap(), own);
        for mode in [0o775, 0o757, 0o1777] {
            allow("in", mode);
            let error = check_folder(&socket).unwrap_err().to_string();
            assert!(error.contains("others than user") && error.contains("chmod go-w"), "{mode:o}: {error}");
        }
        allow("in", 0o755);
        // A user who can change the parent folder can replace the folder.
        allow("", 0o777);
        assert!(check_folder(&socket).is_err());
        allow("", 0o1777);
        assert!(check_folder(&socket).is_ok());
        assert!(check_folder(Path::new("socket")).is_err() && check_folder(&folder.path().join("none/x")).is_err());
    }

    #[test]
    fn socket_server_must_be_the_folder_owner_or_root() {
        let own = geteuid().as_raw();
        let at = Path::new("/run/x/s");
        assert!(check_server(at, 7, 7).is_ok() && check_server(at, 7, 0).is_ok() && check_server(at, 7, own).is_ok());
        assert!(check_server(at, 7, 60_000).is_err());
    }
}
