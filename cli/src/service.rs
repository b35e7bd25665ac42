//! The services of a cluster, which are this program by another name.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

/// A service's name and its `main`.
type Service = (&'static str, fn() -> ExitCode);

#[cfg(feature = "services")]
const SERVICES: &[Service] = &[
    ("accord-coordinator", accord_coordinator::process::main),
    ("accord-node-agent", accord_node_agent::programs::main),
];
/// They are programs of their own.
#[cfg(not(feature = "services"))]
const SERVICES: &[Service] = &[];

/// Returns the service that the program's first argument names.
pub(crate) fn named(program: Option<&OsStr>) -> Option<Service> {
    let name = Path::new(program?).file_name()?;
    SERVICES.iter().copied().find(|(service, _)| name == *service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_s_name_chooses_the_service() {
        for (service, _) in SERVICES {
            let path = format!("/usr/bin/{service}");
            for name in [service, path.as_str()] {
                assert_eq!(named(Some(OsStr::new(name))).map(|(found, _)| found), Some(*service));
            }
        }
        for other in ["accord", "/usr/bin/accord-cc", ""] {
            assert!(named(Some(OsStr::new(other))).is_none(), "{other}");
        }
        assert!(named(None).is_none());
    }
}
