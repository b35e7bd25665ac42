//! What to do where the system has no more of something: that is never the fault of what was just tried.

use std::io::Error;

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// The remedy, if `error` says that the system has no more descriptors.
pub fn descriptors(error: &Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        EMFILE => Some("allow more open files (ulimit -n)"),
        ENFILE => Some("allow more open files on this machine (sysctl fs.file-max)"),
        _ => None,
    }
}

/// The same for descriptors and memory.
pub fn remedy(error: &Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        EMFILE | ENFILE => descriptors(error),
        ENOMEM => Some("allow more memory (ulimit -v, a control group's limit), or use a machine that has more"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_scarce_is_named() {
        let of = |code| remedy(&Error::from_raw_os_error(code));
        assert!(of(EMFILE).is_some_and(|remedy| remedy.contains("ulimit -n")));
        assert!(of(ENOMEM).is_some_and(|remedy| remedy.contains("ulimit -v")));
        assert_eq!((of(2), descriptors(&Error::from_raw_os_error(ENOMEM))), (None, None));
        assert_eq!(remedy(&Error::other("no system's")), None);
    }
}
