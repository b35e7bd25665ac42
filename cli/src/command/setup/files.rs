//! Files and folders of a setup.

use super::steps::Steps;
use crate::failure::{Failure, Result};
use std::fs::{DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::Path;

/// Makes a folder of root's with these rights, which belongs to a group; one that is there stays as it is.
pub(super) fn folder(steps: &mut Steps, path: &Path, mode: u32, group: u32) -> Result<bool> {
    steps.step(format!("folder {}", path.display()), path.is_dir(), || {
        DirBuilder::new().recursive(true).mode(mode).create(path).map_err(|error| failed(path, error))?;
        give(path, mode, group)
    })
}

/// Gives a file or folder of root's to a group, with these rights.
pub(super) fn give(path: &Path, mode: u32, group: u32) -> Result<()> {
    let given =
        chown(path, None, Some(group)).and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(mode)));
    given.map_err(|error| failed(path, error))
}

/// Whether a file or folder belongs to root and a group, with these rights.
pub(super) fn is_given(path: &Path, mode: u32, group: u32) -> bool {
    std::fs::metadata(path).is_ok_and(|at| at.uid() == 0 && at.gid() == group && at.mode() & 0o7777 == mode)
}

/// Sets these variables in a file of settings; its other lines stay.
pub(super) fn settings(steps: &mut Steps, path: &Path, wanted: &[(&str, &str)]) -> Result<bool> {
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let what = format!("settings {} in {}", names.join(", "), path.display());
    let before = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| Failure::system(format!("can't read {}", path.display()), error)),
    };
    let after = before.as_deref().map(|before| with_settings(before, wanted)).unwrap_or_default();
    let is_done = before.as_ref().is_ok_and(|before| *before == after);
    steps.step(what, is_done, || before.and_then(|_| write(path, &after)))
}

/// Returns a file of settings in which these have these values. The last line of a variable counts.
fn with_settings(text: &str, wanted: &[(&str, &str)]) -> String {
    let value = |line: &str, name: &str| line.trim().strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (name, wanted) in wanted {
        let is_set = lines.iter().rev().find_map(|line| value(line, name)).is_some_and(|set| set == *wanted);
        if !is_set {
            lines.retain(|line| value(line, name).is_none());
            lines.push(format!("{name}={wanted}"));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Puts a file that all may read in the place of what is there.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    let _ = std::fs::remove_file(&fresh);
    let open = File::options().write(true).create_new(true).mode(0o644).open(&fresh);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes())).and_then(|()| {
        // Whatever the umask is.
        std::fs::set_permissions(&fresh, Permissions::from_mode(0o644))
    });
    written.and_then(|()| std::fs::rename(&fresh, path)).map_err(|error| failed(path, error))
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
    }
}
