//! The program's environment variables that workers get: all on the program's own node, a list on other nodes.

use crate::loader::{self, LoadedObject};
use crate::{environment, settings};
use accord_device::cpu::WORKER_FOLDER_ENV;
use accord_types::settings as names;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Variables for other nodes, by name or, with a star, by prefix: those that regions and the libraries that they call read. All others may be their
/// owner's secrets, such as tokens.
pub(crate) const SENT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "LD_*",
    "MALLOC_*",
    "GLIBC_TUNABLES",
    "OMP_*",
    "GOMP_*",
    "ACC_*",
    "ACCORD_*",
    "CUDA_*",
    "NVIDIA_*",
    "NVCOMPILER_*",
    "OPENBLAS_*",
    "MKL_*",
];
/// The variables that concern only the program itself.
const NEVER_SENT: &[&str] = &[names::TLS.name, names::COORDINATOR.name, names::ENV.name];

/// Returns the environment of workers on this node: the program's, with the dynamic linker's initial variables if the program
/// has removed them since, and without tools that observe the program.
pub(crate) fn here() -> Vec<(OsString, OsString)> {
    let tool = |name: &OsString| {
        let names = std::iter::once(names::ACC_PROFLIB.name).chain(names::ACC_PROFLIB.aliases.iter().copied());
        names.into_iter().any(|tool| name == tool)
    };
    let lost = environment::at_start()
        .into_iter()
        .filter(|(name, _)| name.as_bytes().starts_with(b"LD_") && std::env::var_os(name).is_none());
    let folder = left_folder().map(|folder| (OsString::from(WORKER_FOLDER_ENV), folder.now.into_os_string()));
    std::env::vars_os().filter(|(name, _)| !tool(name)).chain(lost).chain(folder).collect()
}

/// The folder in which the process started, and its present one.
pub(crate) struct LeftFolder {
    pub(crate) start: PathBuf,
    now: PathBuf,
}

/// Returns the folders if workers must start in another folder than the program's: it has left its first one, and the dynamic linker has found objects by
/// relative paths. A worker finds them in the same way.
pub(crate) fn left_folder() -> Option<LeftFolder> {
    let (start, now) = (environment::folder()?.clone(), std::env::current_dir().ok()?);
    let is_relative = |object: &LoadedObject| !object.executable && !object.name.as_bytes().starts_with(b"/");
    (start != now && loader::objects().iter().any(is_relative)).then_some(LeftFolder { start, now })
}

/// Returns the environment of workers on other nodes: the listed variables of [`here`].
pub(crate) fn elsewhere() -> Vec<(OsString, OsString)> {
    let more = settings::value(names::ENV).unwrap_or_default();
    let more: Vec<&str> = more.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    here().into_iter().filter(|(name, _)| is_sent(name, &more)).collect()
}

fn is_sent(name: &OsStr, more: &[&str]) -> bool {
    let Some(name) = name.to_str() else { return more.contains(&"*") };
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *pattern,
    };
    !NEVER_SENT.contains(&name) && (SENT.iter().any(fits) || more.iter().any(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(name: &str, more: &[&str]) -> bool {
        is_sent(OsStr::new(name), more)
    }

    #[test]
    fn only_listed_variables_reach_the_worker() {
        for name in ["PATH", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "ACCORD_EMULATE"] {
            assert!(sent(name, &[]), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "PATHS", "ACCORD_TLS", "ACCORD_COORDINATOR"] {
            assert!(!sent(name, &[]), "{name}");
        }
        assert!(sent("MY_INPUT", &["MY_*"]) && sent("MY_INPUT", &["MY_INPUT"]) && sent("MY_INPUT", &["*"]));
        assert!(!sent("MY_INPUT", &["MY_"]) && !sent("ACCORD_TLS", &["*"]));
    }

    #[test]
    fn the_list_stands_in_its_document() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/design/trust.md");
        let document = std::fs::read_to_string(document).unwrap();
        for name in SENT {
            assert!(document.contains(&format!("`{name}`")), "{name} is not in docs/design/trust.md");
        }
    }
}
