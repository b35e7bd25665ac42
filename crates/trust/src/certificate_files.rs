//! Writes the folders of certificates and of authorities.

use crate::identity::{CA_FILE, CERTIFICATE_FILE, KEY_FILE};
use accord_types::{Error, ErrorCode, Result};
use std::fs::{DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// The authority's key, in the same folder as its certificate.
pub const CA_KEY_FILE: &str = "ca.key";
/// The folder of a machine's services. Files that root writes there stay root's.
const SITE_FOLDER: &str = "/etc/accord";

/// A certificate and its key, as text.
pub struct Issued {
    /// PEM.
    pub certificate: String,
    /// PEM.
    pub key: String,
}

/// Returns the names and texts of a certificate's files.
pub(crate) fn files_of<'a>(authority: &'a str, issued: &'a Issued) -> [(&'static str, &'a str); 3] {
    [(KEY_FILE, &issued.key), (CERTIFICATE_FILE, &issued.certificate), (CA_FILE, authority)]
}

/// Writes the files of a certificate. An existing file is replaced; the new one inherits its owner, group and mode as
/// far as these are safe.
///
/// # Errors
/// Returns `acc_error_system` if the system refuses to write a file.
pub fn write_folder(folder: &Path, authority: &str, issued: &Issued) -> Result<()> {
    let files = files_of(authority, issued);
    if folder.symlink_metadata().is_err() {
        return new_files(folder, &files);
    }
    files.iter().try_for_each(|(name, text)| replace(&folder.join(name), text))
}

/// Writes new files into a folder and refuses to overwrite. A new folder appears with all files, or not at all.
pub(crate) fn new_files(folder: &Path, files: &[(&str, &str)]) -> Result<()> {
    let name = folder.file_name().filter(|_| folder.symlink_metadata().is_err());
    let Some(name) = name else {
        let there = files.iter().map(|(name, _)| folder.join(name)).find(|file| file.symlink_metadata().is_ok());
        return match there {
            Some(file) => Err(is_there(&file)),
            None => write_all(folder, files),
        };
    };
    let fresh = folder.with_file_name(format!(".{}.new", name.to_string_lossy()));
    let _ = std::fs::remove_dir_all(&fresh);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&fresh);
    let written = made
        .map_err(|error| cannot_write(folder, &error))
        .and_then(|()| write_all(&fresh, files))
        .and_then(|()| std::fs::rename(&fresh, folder).map_err(|error| cannot_write(folder, &error)));
    written.inspect_err(|_| {
        let _ = std::fs::remove_dir_all(&fresh);
    })
}

/// Writes all files, or removes those already written.
fn write_all(folder: &Path, files: &[(&str, &str)]) -> Result<()> {
    for (count, (name, text)) in files.iter().enumerate() {
        write_new(&folder.join(name), text).inspect_err(|_| {
            for (written, _) in &files[..count] {
                let _ = std::fs::remove_file(folder.join(written));
            }
        })?;
    }
    Ok(())
}

fn write_new(path: &Path, text: &str) -> Result<File> {
    let mut file = match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(is_there(path)),
        Err(error) => return Err(cannot_write(path, &error)),
    };
    match file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        Ok(()) => Ok(file),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(cannot_write(path, &error))
        }
    }
}

/// Atomically replaces a file.
fn replace(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let file = write_new(&fresh, text)?;
    let replaced = take_access(&file, &fresh, path)
        .and_then(|()| std::fs::rename(&fresh, path).map_err(|error| cannot_write(path, &error)));
    replaced.inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

/// Owner, group and mode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Access {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Access {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() & 0o777 }
    }

    /// Returns the access of a file that replaces one with this access. `fresh` is the access of the new file, which
    /// only its writer can use.
    fn inherited(self, fresh: Self, is_key: bool, is_of_site: bool) -> Self {
        if is_of_site && fresh.owner == 0 && self.owner != 0 {
            return fresh;
        }
        // The same rule as for reading an identity: root may let a group read a key.
        let mask = match (is_key, self.owner) {
            (false, _) => 0o755,
            (true, 0) => 0o640,
            (true, _) => 0o600,
        };
        Self { mode: self.mode & mask, ..self }
    }
}

/// Gives the open file `fresh` the safe part of the access of the file `old`, if `old` exists.
fn take_access(file: &File, fresh: &Path, old: &Path) -> Result<()> {
    let (Ok(there), Ok(own)) = (std::fs::metadata(old), file.metadata()) else { return Ok(()) };
    let own = Access::of(&own);
    let is_key = old.file_name().is_some_and(|name| name == KEY_FILE || name == CA_KEY_FILE);
    let wanted = Access::of(&there).inherited(own, is_key, old.starts_with(SITE_FOLDER));
    let changed = |new: u32, now: u32| (new != now).then_some(new);
    // Changes the open file, not the path, where another user may have placed a link.
    fchown(file, changed(wanted.owner, own.owner), changed(wanted.group, own.group))
        .and_then(|()| file.set_permissions(Permissions::from_mode(wanted.mode)))
        .map_err(|error| cannot_write(fresh, &error).remedy("renew as the user whose files these are, or as root"))
}

fn is_there(file: &Path) -> Error {
    let cause = format!("{} is there already", file.display());
    Error::new(ErrorCode::InvalidArgument, cause)
        .remedy("nothing was overwritten; name another folder, or renew it (accord pki renew)")
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorCode::System, format!("cannot write {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_with_all_its_files_or_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("tls");
        // The leftover of an interrupted process.
        std::fs::create_dir(place.path().join(".tls.new")).unwrap();
        std::fs::write(place.path().join(".tls.new/a"), "old").unwrap();
        assert!(new_files(&folder, &[("a", "1"), ("none/b", "2")]).is_err());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        new_files(&folder, &[("a", "1"), ("b", "2")]).unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("b")).unwrap(), "2");
        assert!(new_files(&folder, &[("c", "3"), ("b", "3")]).is_err());
        assert!(new_files(&folder, &[("c", "3"), ("none/d", "3")]).is_err());
        assert!(!folder.join("c").exists());
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn keys_inherit_no_unsafe_access() {
        let access = |owner, group, mode| Access { owner, group, mode };
        let (root, user) = (access(0, 0, 0o600), access(7, 7, 0o600));
        assert_eq!(access(7, 7, 0o666).inherited(user, true, false), access(7, 7, 0o600));
        assert_eq!(access(0, 9, 0o644).inherited(root, true, true), access(0, 9, 0o640));
        assert_eq!(access(0, 9, 0o646).inherited(root, false, true), access(0, 9, 0o644));
        assert_eq!(access(7, 7, 0o640).inherited(root, true, false), access(7, 7, 0o600));
        assert_eq!(access(7, 7, 0o640).inherited(root, true, true), root);
    }

    #[test]
    fn a_replaced_key_is_readable_by_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join(KEY_FILE);
        std::fs::write(&key, "old").unwrap();
        std::fs::set_permissions(&key, Permissions::from_mode(0o666)).unwrap();
        replace(&key, "new").unwrap();
        assert_eq!(std::fs::metadata(&key).unwrap().mode() & 0o137, 0);
    }
}
