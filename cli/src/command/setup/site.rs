//! Where a setup puts things on a machine, and what it asks of the machine.

use crate::command::pki::days_left;
use crate::failure::{Failure, Result};
use accord_trust::PeerName;
use accord_trust::identity::holder_of;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use std::fs::File;
use std::path::Path;

/// The folder of settings, policy and authority.
pub(super) const FOLDER: &str = "/etc/accord";
/// The folder of certificates.
pub(super) const TLS: &str = "/etc/accord/tls";

/// Refuses a change of the machine by a user other than root.
pub(super) fn check_root(command: &str, is_dry: bool) -> Result<()> {
    if is_dry || geteuid().is_root() {
        return Ok(());
    }
    Err(Failure::new(format!("{command} changes this machine: enter it as root (sudo), or with --dry-run")))
}

/// Returns this machine's name, as agents use it.
pub(super) fn host_name() -> Result<String> {
    let name = nix::unistd::gethostname().map_err(|error| Failure::system("this machine has no name", error))?;
    Ok(name.to_string_lossy().into_owned())
}

/// Keeps a second setup from changing this machine while the lock lives.
pub(super) fn lock() -> Result<Flock<File>> {
    let folder = File::open(FOLDER).map_err(|error| Failure::system(format!("can't open {FOLDER}"), error))?;
    Flock::lock(folder, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        Errno::EWOULDBLOCK => {
            Failure::new("another accord setup changes this machine; enter this command again when it has ended")
        }
        error => Failure::system(format!("can't lock {FOLDER}"), error),
    })
}

/// The certificate of a folder.
pub(super) struct Shown {
    pub(super) name: PeerName,
    pub(super) days: i64,
    /// Both, in words.
    pub(super) text: String,
}

/// Returns the name in a certificate, and the days that are left of it.
pub(super) fn shown(certificate: &Path) -> Option<Shown> {
    let (name, expiry) = holder_of(certificate).ok()?;
    let days = days_left(expiry);
    let left = if days < 0 { "expired".to_owned() } else { format!("{days} days left") };
    let text = format!("{} of cluster {}, {left}", name.role, name.cluster);
    Some(Shown { name, days, text })
}
