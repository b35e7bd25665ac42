//! A cache on disk of compiled images, so that only the first start of a program compiles its PTX.

use accord_device::file_limit;
use accord_types::ImageId;
use sha2::{Digest as _, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most bytes that the cache keeps; the least recently used entries are removed first.
const BYTES_MAX: u64 = 256 << 20;
/// Length of the hash before the code.
const HASH: usize = 32;

/// Returns the folder for compiled code by the setting `ACCORD_CACHE`: a folder, `off`, or (unset or empty) one in the
/// user's cache folder. Returns `None` if code is not kept, or the user has no home.
pub fn cache_folder(setting: Option<&OsStr>) -> Option<PathBuf> {
    folder(setting, |name| std::env::var_os(name))
}

fn folder(setting: Option<&OsStr>, environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(folder) = setting.filter(|folder| !folder.is_empty()) {
        return (folder != "off").then(|| PathBuf::from(folder));
    }
    let set = |name| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(base.join("accord"))
}

/// A folder with compiled code, which any number of processes may use concurrently.
pub(crate) struct Cache {
    folder: PathBuf,
}

/// The inputs of machine code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) image: ImageId,
    /// The compute capability, for example 90 for `sm_90`.
    pub(crate) sm: u32,
    pub(crate) driver: i32,
    /// The PTX was rewritten, by this version of the rewriting.
    pub(crate) rewritten: Option<u32>,
}

impl Cache {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the code stored under a key. A damaged file counts as none.
    pub(crate) fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        let mut bytes = std::fs::read(&path).ok()?;
        if bytes.len() < HASH || Sha256::digest(&bytes[HASH..])[..] != bytes[..HASH] {
            return None;
        }
        bytes.drain(..HASH);
        if let Ok(file) = std::fs::File::open(&path) {
            // The file's time is that of its last use.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Stores code. A cache that can't be written is no error: the next start compiles again.
    pub(crate) fn store(&self, key: &Key, code: &[u8]) {
        let _ = file_limit::as_error(|| self.write(&self.path(key), code));
        self.trim();
    }

    fn write(&self, path: &Path, code: &[u8]) -> std::io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written = file.write_all(&Sha256::digest(code)).and_then(|()| file.write_all(code));
        // Renaming is atomic, so that other processes see the whole file or none.
        let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&temporary);
        }
        renamed
    }

    fn trim(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut sum: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if sum <= BYTES_MAX {
                break;
            }
            // Another process may have removed it first.
            let _ = std::fs::remove_file(path);
            sum -= len;
        }
    }

    fn path(&self, key: &Key) -> PathBuf {
        let image: String = key.image.0.iter().map(|byte| format!("{byte:02x}")).collect();
        let kind = key.rewritten.map_or("m".to_owned(), |version| format!("p{version}"));
        self.folder.join(format!("{image}-sm{}-{}-{kind}.cubin", key.sm, key.driver))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        Key { image: ImageId([byte; 32]), sm: 90, driver: 13_000, rewritten: Some(1) }
    }

    #[test]
    fn the_folder_is_the_settings_or_beside_the_users_other_caches() {
        let home = |name: &str| (name == "HOME").then(|| "/home/me".into());
        let both = |name: &str| Some(if name == "HOME" { "/home/me".into() } else { "/fast".into() });
        let set = |text: &'static str| Some(OsStr::new(text));
        assert_eq!(folder(set("/there"), home), Some("/there".into()));
        assert_eq!(folder(set("off"), both), None);
        assert_eq!(folder(set(""), home), Some("/home/me/.cache/accord".into()));
        assert_eq!(folder(None, both), Some("/fast/accord".into()));
        assert_eq!(folder(None, |_| None), None);
    }

    #[test]
    fn code_comes_back_under_its_own_key_only() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("not/there/yet"));
        assert!(cache.load(&key(1)).is_none());
        cache.store(&key(1), b"code");
        assert_eq!(cache.load(&key(1)).as_deref(), Some(&b"code"[..]));
        assert!(cache.load(&key(2)).is_none());
        assert!(cache.load(&Key { driver: 12_080, ..key(1) }).is_none());
        assert!(cache.load(&Key { rewritten: None, ..key(1) }).is_none());
    }

    #[test]
    fn a_damaged_file_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        cache.store(&key(1), b"code");
        let path = cache.path(&key(1));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.pop();
        std::fs::write(&path, &bytes).unwrap();
        assert!(cache.load(&key(1)).is_none());
        std::fs::write(&path, b"").unwrap();
        assert!(cache.load(&key(1)).is_none());
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        cache.store(&key(1), b"old");
        let old = std::fs::File::open(cache.path(&key(1))).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        // Sparse: the file uses no space on the disk.
        std::fs::File::create(folder.path().join("large")).unwrap().set_len(BYTES_MAX).unwrap();
        cache.store(&key(2), b"new");
        assert!(cache.load(&key(1)).is_none());
        assert!(std::fs::read_dir(folder.path()).unwrap().count() >= 1);
    }
}
