//! An identity that is read again when its files change. Existing connections keep the identity that they began with.

use crate::attester::Attester;
use crate::identity::{CA_FILE, CERTIFICATE_FILE, Identity, KEY_FILE, folder};
use crate::local;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, Result};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Metadata by which a change of a file is noticed.
type Stamp = [Option<(u64, i64, i64, u64)>; 3];

/// The current identity of this process.
#[derive(Debug)]
pub struct Trust {
    /// `None` if the identity never changes.
    folder: Option<PathBuf>,
    /// Attests the user if the folder holds `ca.crt` alone; `None` for a service, which needs a certificate.
    attester: Option<Attester>,
    state: ShortLock<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    identity: Arc<Identity>,
    stamp: Stamp,
}

impl Trust {
    /// Reads a folder's certificates.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::read`].
    pub fn read(folder: &Path) -> Result<Self> {
        Self::of_folder(folder, None)
    }

    /// Returns the identity of a program, or of `accord`, towards the coordinator at `address`. On the same machine the
    /// system attests the user. Else the identity is read from the folder `named`, or the usual one in the home folder.
    /// The folder may hold `ca.crt` alone; `attester` then attests the user.
    ///
    /// # Errors
    /// Returns the errors of [`Identity::of_user`] and [`folder`].
    pub fn of_program(address: &str, named: Option<&str>, attester: Attester, home: Option<&OsStr>) -> Result<Self> {
        if local::path_of(address).is_some() {
            return Ok(Self::of_system());
        }
        Self::of_folder(&folder(named, home)?, Some(attester))
    }

    fn of_folder(folder: &Path, attester: Option<Attester>) -> Result<Self> {
        // Taken before the files are read, so that a change in between is noticed by the next check.
        let stamp = stamp(folder);
        let identity = Arc::new(identity(folder, attester.as_ref())?);
        Ok(Self { folder: Some(folder.to_owned()), attester, state: ShortLock::new(Loaded { identity, stamp }) })
    }

    /// Returns the identity of a process without a certificate, on the coordinator's machine.
    pub fn of_system() -> Self {
        Self::fixed(Identity::of_system())
    }

    /// Returns the folder of the identity's files; `None` if it has none.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Creates an identity that never changes.
    pub fn fixed(identity: Identity) -> Self {
        Self {
            folder: None,
            attester: None,
            state: ShortLock::new(Loaded { identity: Arc::new(identity), stamp: Stamp::default() }),
        }
    }

    /// Returns the identity in the files. If they have changed to an unusable one, calls `notify` once and returns the
    /// previous identity, because a renewal may be half done.
    pub fn current(&self, notify: impl FnOnce(&Error)) -> Arc<Identity> {
        let known = self.lock();
        let Some(folder) = &self.folder else { return known.identity.clone() };
        let (before, seen) = (known.identity.clone(), known.stamp);
        drop(known);
        let now = stamp(folder);
        if now == seen {
            return before;
        }
        let read = identity(folder, self.attester.as_ref());
        let mut state = self.lock();
        state.stamp = now;
        match read {
            Ok(identity) => state.identity = Arc::new(identity),
            Err(error) => notify(&error),
        }
        state.identity.clone()
    }

    fn lock(&self) -> ShortGuard<'_, Loaded> {
        self.state.lock()
    }
}

fn identity(folder: &Path, attester: Option<&Attester>) -> Result<Identity> {
    attester.map_or_else(|| Identity::read(folder), |attester| Identity::of_user(folder, attester))
}

fn stamp(folder: &Path) -> Stamp {
    let of = |metadata: Metadata| (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size());
    [CA_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| std::fs::metadata(folder.join(name)).ok().map(of))
}
