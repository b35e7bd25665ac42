//! Resources for the clean-up of a run, whatever limits it ran under.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises this process's limits on descriptors and memory as far as possible. Listing processes and removing a folder
/// need some of both, and no other process does the clean-up.
pub(crate) fn lift() {
    for resource in [Resource::RLIMIT_NOFILE, Resource::RLIMIT_AS, Resource::RLIMIT_DATA] {
        if let Ok((soft, hard)) = getrlimit(resource)
            && soft < hard
        {
            // Where raising fails, the present limits remain.
            let _ = setrlimit(resource, hard, hard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_descriptor_limit_is_raised_to_the_hard_limit() {
        let (before, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, before.min(hard - 1), hard).unwrap();
        lift();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
