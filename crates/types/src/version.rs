//! The version of a program, with the commit that it was built from.

use std::sync::OnceLock;

/// The version and commit of a program. [`build_version!`](crate::build_version) takes them from the build's environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuildVersion {
    /// The version.
    pub version: &'static str,
    /// The commit, or `unknown`.
    pub commit: &'static str,
}

impl BuildVersion {
    /// Creates one of what the compiler has found; an empty commit counts as unknown.
    pub const fn new(version: &'static str, commit: Option<&'static str>) -> Self {
        match commit {
            Some(commit) if !commit.is_empty() => Self { version, commit },
            _ => Self { version, commit: "unknown" },
        }
    }

    /// Returns both as `--version` prints them. A process has one version, so that the first result is kept.
    pub fn text(self) -> &'static str {
        static TEXT: OnceLock<String> = OnceLock::new();
        TEXT.get_or_init(|| format!("{} (commit {})", self.version, self.commit))
    }
}

/// Returns the [`BuildVersion`](crate::version::BuildVersion) of the calling crate. The build sets `ACCORD_COMMIT` where it knows the commit; only crates
/// that call this are compiled again when it changes.
#[macro_export]
macro_rules! build_version {
    () => {
        $crate::version::BuildVersion::new(env!("CARGO_PKG_VERSION"), option_env!("ACCORD_COMMIT"))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_knows_no_commit_says_so() {
        assert_eq!(BuildVersion::new("1.2.3", Some("abc")), BuildVersion { version: "1.2.3", commit: "abc" });
        for none in [None, Some("")] {
            assert_eq!(BuildVersion::new("1.2.3", none).commit, "unknown");
        }
        assert_eq!(BuildVersion::new("1.2.3", None).text(), "1.2.3 (commit unknown)");
    }
}
