//! A run's private folder for keys, logs and traces. It is removed at the run's end, however that comes about.

use crate::failure::{Failure, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "accord-run-";
/// Most tries to create a folder that another run is removing.
const TRIES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

/// A folder that only this user can enter, locked by its creator. An unlocked folder belongs to a run whose processes
/// were all killed at once, and the next run removes it.
pub(crate) struct RunFolder {
    path: PathBuf,
    _lock: Flock<File>,
}

impl RunFolder {
    /// Returns a new name for a folder in `parent`, by default in the system's temporary folder. Does not create it.
    pub(crate) fn name(parent: Option<PathBuf>) -> Result<PathBuf> {
        let mut random = [0; 8];
        let filled =
            File::open("/dev/urandom").and_then(|mut source| std::io::Read::read_exact(&mut source, &mut random));
        filled.map_err(|error| Failure::system("can't get random numbers", error))?;
        Ok(parent.unwrap_or_else(std::env::temp_dir).join(format!("{PREFIX}{:016x}", u64::from_le_bytes(random))))
    }

    /// Returns the folder of the run's shared memory, which belongs to the folder `path`. A launcher that is killed at
    /// the run's end leaves files there.
    pub(crate) fn of_shared_memory(path: &Path) -> PathBuf {
        Path::new("/dev/shm").join(path.file_name().unwrap_or_default())
    }

    /// Creates the folder, and removes those that killed runs have left.
    pub(crate) fn make(path: &Path) -> Result<Self> {
        let failed =
            |error: std::io::Error| Failure::system(format!("can't make the folder {}", path.display()), error);
        if let Some(parent) = path.parent() {
            sweep(parent);
        }
        // Before it is locked, another run may take the folder for an abandoned one and remove it. No other process
        // does that.
        for taken in 0..TRIES {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && taken > 0 => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                made => made.map_err(failed)?,
            }
            let folder = match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened.map_err(failed)?,
            };
            if let Ok(lock) = Flock::lock(folder, FlockArg::LockExclusiveNonblock)
                && is_at(&lock, path)
            {
                return Ok(Self { path: path.to_owned(), _lock: lock });
            }
        }
        Err(failed(ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes this user's folders of killed runs.
fn sweep(parent: &Path) {
    let own = nix::unistd::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_run = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_own = is_run && entry.metadata().is_ok_and(|about| about.is_dir() && about.uid() == own);
        if is_own
            && let Ok(folder) = File::open(entry.path())
            && let Ok(lock) = Flock::lock(folder, FlockArg::LockExclusiveNonblock)
            && is_at(&lock, &entry.path())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the path still names the folder that was opened.
fn is_at(folder: &File, path: &Path) -> bool {
    let of = |about: Metadata| (about.dev(), about.ino());
    folder.metadata().is_ok_and(|opened| path.metadata().is_ok_and(|named| of(opened) == of(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_ends_with_its_run_and_left_ones_with_the_next() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(format!("{PREFIX}{name}"));
        let first = RunFolder::make(&path("first")).unwrap();
        assert_eq!(std::fs::metadata(path("first")).unwrap().mode() & 0o777, 0o700);
        std::fs::write(path("first").join("key"), "k").unwrap();
        // As if all processes of a run were killed at once.
        std::fs::create_dir(path("left")).unwrap();
        std::fs::write(path("left").join("key"), "k").unwrap();
        std::fs::create_dir(parent.path().join("accord-other")).unwrap();
        let second = RunFolder::make(&path("second")).unwrap();
        assert!(path("first").join("key").exists() && !path("left").exists());
        assert!(parent.path().join("accord-other").exists());
        assert!(RunFolder::make(&path("second")).is_err(), "it is another run's");
        drop((first, second));
        assert!(!path("first").exists() && !path("second").exists());
    }

    #[test]
    fn runs_that_start_at_once_do_not_take_each_others_folders() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for k in 0..500 {
                        let path = parent.join(format!("{PREFIX}{thread}-{k}"));
                        let folder = RunFolder::make(&path).unwrap();
                        assert!(path.exists());
                        drop(folder);
                    }
                });
            }
        });
    }
}
