//! System calls that a sandbox refuses, such as a container's seccomp filter.

use std::io::Error;

/// The remedy for a sandbox that refuses a call.
pub const REMEDY: &str =
    "allow this system call in the sandbox that the process runs in (seccomp, a container's profile)";

const EPERM: i32 = 1;
const ENOSYS: i32 = 38;

/// Names the call in an error that means a refusal; returns other errors unchanged.
pub fn named(call: &str, error: Error) -> Error {
    match error.raw_os_error() {
        Some(EPERM | ENOSYS) => Error::other(format!("{call}{REFUSED}: {error}")),
        _ => error,
    }
}

/// Whether an error is a refusal, as [`named`] writes it.
pub fn is_refusal(error: &Error) -> bool {
    remedy(error).is_some()
}

const REFUSED: &str = " is refused";

/// Returns the remedy if an error, or its text, is a refusal as [`named`] writes it.
pub fn remedy(error: impl std::fmt::Display) -> Option<&'static str> {
    error.to_string().contains(REFUSED).then_some(REMEDY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_call_is_named() {
        for code in [EPERM, ENOSYS] {
            let error = named("memfd_create", Error::from_raw_os_error(code));
            assert!(error.to_string().starts_with("memfd_create is refused: "), "{error}");
            assert_eq!(remedy(error), Some(REMEDY));
        }
        let other = named("memfd_create", Error::from_raw_os_error(24));
        assert_eq!((other.raw_os_error(), remedy(&other)), (Some(24), None));
    }
}
