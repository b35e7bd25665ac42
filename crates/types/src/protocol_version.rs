//! Versions of a protocol. A release works together with the one before it and the one after it.

/// The remedy for peers whose releases are no neighbours.
pub const UPGRADE: &str = "install the same version on both: only neighbouring releases work together";

/// The version of a protocol that this release speaks. Each release has its own number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolVersion {
    own: u32,
    /// The first released one.
    first: u32,
}

impl ProtocolVersion {
    /// Creates the version of this release, where `first` was that of the first one.
    pub const fn new(own: u32, first: u32) -> Self {
        Self { own, first }
    }

    /// Returns this process's version.
    pub fn own(self) -> u32 {
        self.own + releases_ahead()
    }

    /// Whether a peer of this version is of the same or a neighbouring release.
    pub fn serves(self, theirs: u32) -> bool {
        theirs >= self.first && theirs.abs_diff(self.own()) <= 1
    }

    /// Returns the version of a connection to such a peer: that of the older release, which both know.
    pub fn common(self, theirs: u32) -> u32 {
        theirs.min(self.own())
    }

    /// Returns the versions that this process can use: its own, and that of the release before.
    pub fn known(self) -> impl Iterator<Item = u32> {
        [self.own(), self.own() - 1].into_iter().filter(move |version| *version >= self.first)
    }
}

/// Returns by how many releases a test lets this process be ahead of what it was built as; 0 but in debug builds. Its
/// messages are those of this release.
fn releases_ahead() -> u32 {
    #[cfg(debug_assertions)]
    {
        use std::sync::OnceLock;
        static AHEAD: OnceLock<u32> = OnceLock::new();
        let read = || std::env::var("ACCORD_TEST_RELEASES_AHEAD").ok()?.parse().ok();
        *AHEAD.get_or_init(|| read().unwrap_or(0))
    }
    #[cfg(not(debug_assertions))]
    {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_releases_speak_the_older_one_s_version() {
        let version = ProtocolVersion::new(7, 5);
        let served: Vec<u32> = (0..20).filter(|theirs| version.serves(*theirs)).collect();
        assert_eq!(served, [6, 7, 8]);
        assert_eq!(served.iter().map(|theirs| version.common(*theirs)).collect::<Vec<_>>(), [6, 7, 7]);
        assert_eq!(version.known().collect::<Vec<_>>(), [7, 6]);
        // The first release has none before it.
        let first = ProtocolVersion::new(5, 5);
        assert!(!first.serves(4) && first.serves(5) && first.serves(6));
        assert_eq!(first.known().collect::<Vec<_>>(), [5]);
    }
}
