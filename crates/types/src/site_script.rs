//! Scripts of the site.

/// A program of the site that an agent runs for each job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiteScript {
    /// Runs before the job's first use of the node's devices.
    Prolog,
    /// Runs after the job's last use of them.
    Epilog,
}

impl SiteScript {
    /// Returns the script's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prolog => "prolog",
            Self::Epilog => "epilog",
        }
    }
}
