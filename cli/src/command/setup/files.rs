//! Files and folders that a setup creates.

use super::steps::Steps;
use crate::failure::{Failure, Result};
use nix::fcntl::OFlag;
use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

/// Write access for the group or for all.
const OTHERS_WRITE: u32 = 0o022;
const MODE: u32 = 0o7777;

/// Creates a folder of root with these rights. An existing one must belong to root, have at least these rights, and not
/// be writable for others; with `group`, it must belong to that group.
pub(super) fn folder(steps: &mut Steps, path: &Path, mode: u32, group: Option<u32>) -> Result<bool> {
    let old = std::fs::metadata(path).ok();
    let is_kept = |at: &Metadata| {
        let is_safe = at.uid() == 0 && at.mode() & OTHERS_WRITE == 0;
        at.is_dir() && is_safe && at.mode() & mode == mode && group.is_none_or(|group| at.gid() == group)
    };
    let mode = old.as_ref().map_or(mode, |at| (at.mode() | mode) & MODE & !OTHERS_WRITE);
    steps.step(format!("folder {}", path.display()), old.as_ref().is_some_and(is_kept), || {
        if old.is_none() {
            DirBuilder::new().recursive(true).mode(mode).create(path).map_err(|error| failed(path, error))?;
        }
        give(path, mode, group)
    })
}

/// Assigns a file or folder to root, and to a group if there is one, with these rights.
pub(super) fn give(path: &Path, mode: u32, group: Option<u32>) -> Result<()> {
    // Do not follow links.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let given = opened.and_then(|file| {
        fchown(&file, Some(0), group)?;
        file.set_permissions(Permissions::from_mode(mode))
    });
    given.map_err(|error| failed(path, error))
}

/// Whether a file or folder belongs to root and a group, with these rights.
pub(super) fn is_given(path: &Path, mode: u32, group: u32) -> bool {
    path.symlink_metadata().is_ok_and(|at| at.uid() == 0 && at.gid() == group && at.mode() & MODE == mode)
}

/// Sets these variables in a file of settings, and keeps its other lines.
pub(super) fn settings(steps: &mut Steps, path: &Path, wanted: &[(&str, &str)]) -> Result<bool> {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let what = format!("settings {} in {}", names.join(", "), path.display());
    let before = read(path);
    let after = before.as_deref().map(|before| with_settings(before, wanted)).unwrap_or_default();
    let is_done = before.as_ref().is_ok_and(|before| *before == after);
    steps.step(what, is_done, || before.and_then(|_| write(path, &after)))
}

/// Returns the value of a variable in a file of settings.
pub(super) fn setting(path: &Path, name: &str) -> Result<Option<String>> {
    let text = read(path)?;
    Ok(text.lines().rev().find_map(|line| value(line, name)).map(|value| unquoted(value).to_owned()))
}

/// Refuses a file of settings in which the site has set a variable to another value.
pub(super) fn check_own(path: &Path, name: &str, wanted: &str) -> Result<()> {
    match setting(path, name)? {
        Some(own) if own != wanted => Err(Failure::new(format!(
            "{} has {name}={own}, and this command would set {wanted}; take the line out, or set this machine up by hand",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads a file of settings; a missing one counts as empty.
fn read(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| Failure::system(format!("can't read {}", path.display()), error)),
    }
}

fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.trim().strip_prefix(name)?.strip_prefix('=')
}

fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

/// Returns a file of settings with these values set. The last line of a variable counts.
fn with_settings(text: &str, wanted: &[(&str, &str)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, wanted) in wanted {
        let set = lines.iter().rev().find_map(|line| value(line, name));
        if set.is_none_or(|set| unquoted(set) != *wanted) {
            lines.retain(|line| value(line, name).is_none());
            lines.push(format!("{name}={wanted}"));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Replaces a file, keeping its owner and mode; a new one is readable by all. A link is followed and kept.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let is_link = path.symlink_metadata().is_ok_and(|at| at.is_symlink());
    let place = if is_link { path.canonicalize().map_err(|error| failed(path, error))? } else { path.to_owned() };
    let old = std::fs::metadata(&place).ok();
    let fresh = place.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let opened = File::options().write(true).create_new(true).mode(0o600).open(&fresh);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if let Some(old) = &old {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        // Independent of the umask.
        file.set_permissions(Permissions::from_mode(old.map_or(0o644, |old| old.mode() & MODE)))?;
        file.sync_all()?;
        std::fs::rename(&fresh, &place)
    });
    written.map_err(|error| {
        let _ = std::fs::remove_file(&fresh);
        failed(path, error)
    })
}

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::system(format!("can't write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_beside_those_of_the_site() {
        let wanted = [("ACCORD_TLS", "/t"), ("ACCORD_COORDINATOR", "h:7447")];
        let fresh = with_settings("", &wanted);
        assert_eq!(fresh, "ACCORD_TLS=/t\nACCORD_COORDINATOR=h:7447\n");
        assert_eq!(with_settings(&fresh, &wanted), fresh);
        let own = "# ours\nACCORD_TLS=/old\nACCORD_LOG=info\nACCORD_TLS=/older\nACCORD_COORDINATOR=h:7447\n";
        let merged = with_settings(own, &wanted);
        assert_eq!(merged, "# ours\nACCORD_LOG=info\nACCORD_COORDINATOR=h:7447\nACCORD_TLS=/t\n");
        assert_eq!(with_settings(&merged, &wanted), merged);
        let quoted = "ACCORD_TLS=\"/t\"\nACCORD_COORDINATOR='h:7447'\n";
        assert_eq!(with_settings(quoted, &wanted), quoted);
    }

    #[test]
    fn a_value_of_the_site_stops_a_setup() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("agent.env");
        check_own(&file, "ACCORD_TLS", "/t").unwrap();
        std::fs::write(&file, "ACCORD_TLS=/own\n").unwrap();
        let printed = check_own(&file, "ACCORD_TLS", "/t").unwrap_err().to_string();
        assert!(printed.contains("has ACCORD_TLS=/own"), "{printed}");
        check_own(&file, "ACCORD_TLS", "/own").unwrap();
    }

    #[test]
    fn a_written_file_keeps_its_mode_and_a_link_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("kept.env"), folder.path().join("link.env"));
        std::fs::write(&file, "old").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, "new").unwrap();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & MODE, 0o640);
    }

    #[test]
    fn ownership_change_does_not_follow_symbolic_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(give(&link, 0o644, None).is_err());
        assert_eq!(std::fs::metadata(&file).unwrap().mode() & MODE, 0o600);
    }
}
