//! Where a setup puts things on a machine, and what it asks of the machine.

use crate::command::pki::days_left;
use crate::failure::{Failure, Result};
use accord_trust::PeerName;
use accord_trust::identity::holder_of;
use nix::unistd::geteuid;
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

/// Returns the name in a folder's certificate, and the days that are left of it, in words.
pub(super) fn shown(certificate: &Path) -> Option<(PeerName, String)> {
    let (name, expiry) = holder_of(certificate).ok()?;
    let shown = format!("{} of cluster {}, {} days left", name.role, name.cluster, days_left(expiry));
    Some((name, shown))
}
