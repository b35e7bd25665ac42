//! An identity that is read again when its files change. Connections that are there keep what they began with.

use crate::identity::{CA_FILE, CERTIFICATE_FILE, Identity, KEY_FILE};
use accord_types::{Error, Result};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// What tells one version of a file from another.
type Stamp = [Option<(u64, i64, i64, u64)>; 3];

/// Who this process is, now.
#[derive(Debug)]
pub struct Trust {
    /// None: it never changes.
    folder: Option<PathBuf>,
    state: Mutex<Loaded>,
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
    /// As for [`Identity::read`].
    pub fn read(folder: &Path) -> Result<Self> {
        // Before the files: what changes meanwhile is seen the next time.
        let stamp = stamp(folder);
        let identity = Arc::new(Identity::read(folder)?);
        Ok(Self { folder: Some(folder.to_owned()), state: Mutex::new(Loaded { identity, stamp }) })
    }

    /// An identity without files.
    pub fn fixed(identity: Identity) -> Self {
        Self { folder: None, state: Mutex::new(Loaded { identity: Arc::new(identity), stamp: Stamp::default() }) }
    }

    /// What the files say. If they have changed to something that can't be used, `tell` hears of it, once, and what was read before
    /// counts: half of a renewal is no reason to stop.
    pub fn current(&self, tell: impl FnOnce(&Error)) -> Arc<Identity> {
        let known = self.lock();
        let Some(folder) = &self.folder else { return known.identity.clone() };
        let (before, seen) = (known.identity.clone(), known.stamp);
        drop(known);
        let now = stamp(folder);
        if now == seen {
            return before;
        }
        let read = Identity::read(folder);
        let mut state = self.lock();
        state.stamp = now;
        match read {
            Ok(identity) => state.identity = Arc::new(identity),
            Err(error) => tell(&error),
        }
        state.identity.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(folder: &Path) -> Stamp {
    let of = |metadata: Metadata| (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.size());
    [CA_FILE, CERTIFICATE_FILE, KEY_FILE].map(|name| std::fs::metadata(folder.join(name)).ok().map(of))
}
