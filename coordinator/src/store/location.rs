//! Where the state is, as `--state` names it.

use crate::etcd::EtcdLocation;
use std::ffi::OsString;
use std::path::PathBuf;

/// The location of the coordinator's state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateLocation {
    /// A file of this machine.
    File(PathBuf),
    /// Keys in etcd, for several coordinators.
    Etcd(EtcdLocation),
}

impl StateLocation {
    /// Reads the value of `--state`.
    ///
    /// # Errors
    /// Returns what is wrong with a location in etcd.
    pub fn read(text: OsString) -> Result<Self, String> {
        match text.to_str().and_then(EtcdLocation::parse) {
            Some(location) => location.map(Self::Etcd),
            None => Ok(Self::File(text.into())),
        }
    }
}
