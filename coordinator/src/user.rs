//! Whose a cluster's programs are: whoever proves a key has read its file, which is its owner's alone.

use nix::unistd::{Uid, User, geteuid};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The user that a key file belongs to.
///
/// # Errors
/// If the file can't be looked at, in one line.
pub fn owner(key_file: &Path) -> Result<String, String> {
    let file =
        std::fs::metadata(key_file).map_err(|error| format!("cannot look at {}: {error}", key_file.display()))?;
    Ok(name(Uid::from_raw(file.uid())))
}

/// This process's user.
pub fn own() -> String {
    name(geteuid())
}

/// A user's name; the number of one that the system has no name for.
fn name(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_names_and_others_their_numbers() {
        assert_eq!(name(Uid::from_raw(0)), "root");
        assert_eq!(name(Uid::from_raw(2_000_000_001)), "2000000001");
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(owner(file.path()).unwrap(), own());
    }
}
