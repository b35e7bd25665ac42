//! Paths of a setup on a machine, and requirements on the machine.

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

/// Refuses changes of the machine by a user other than root.
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

/// Locks this machine's setup until the lock is dropped. Fails if another setup holds the lock.
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
pub(super) struct CertificateSummary {
    pub(super) name: PeerName,
    pub(super) days: i64,
    /// Name and days, in words.
    pub(super) text: String,
}

/// Returns the name in a certificate, and its days left.
pub(super) fn displayed(certificate: &Path) -> Option<CertificateSummary> {
    let (name, expiry) = holder_of(certificate).ok()?;
    let days = days_left(expiry);
    let left = if days < 0 { "expired".to_owned() } else { format!("{days} days left") };
    let text = format!("{} of cluster {}, {left}", name.role, name.cluster);
    Some(CertificateSummary { name, days, text })
}
