//! Remedies for exhausted resources of the system. The operation that failed is never the cause.

use std::io::Error;

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EFBIG: i32 = 27;

/// The remedy for missing threads or processes; a thread without memory for its stack counts, too.
pub const THREADS: &str = "allow more processes, threads and memory (ulimit -u, ulimit -v, a control group's limits)";

const MEMORY: &str = "allow more memory (ulimit -v, a control group's limit), or use a machine that has more";
const FILE_SIZE: &str = "allow larger files (ulimit -f)";

/// Returns the remedy if `error` says that the system has no more descriptors.
pub fn descriptors(error: &Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        EMFILE => Some("allow more open files (ulimit -n)"),
        ENFILE => Some("allow more open files on this machine (sysctl fs.file-max)"),
        _ => None,
    }
}

/// Returns the remedy for missing descriptors, memory or file size.
pub fn remedy(error: &Error) -> Option<&'static str> {
    match error.raw_os_error()? {
        EMFILE | ENFILE => descriptors(error),
        ENOMEM => Some(MEMORY),
        EFBIG => Some(FILE_SIZE),
        _ => None,
    }
}

/// Returns the remedy for an error known only by text: the system's message, the loader's, or the signal that ended a
/// process. A process that starts others has only such texts.
pub fn remedy_of_words(text: &str) -> Option<&'static str> {
    const WORDS: [(&[&str], &str); 4] = [
        (&["Too many open files", ": Error 24"], "allow more open files (ulimit -n)"),
        (&["Resource temporarily unavailable"], THREADS),
        (&["Cannot allocate memory", "failed to map segment", "memory allocation of"], MEMORY),
        (&["File too large", "SIGXFSZ"], FILE_SIZE),
    ];
    WORDS.iter().find(|(words, _)| words.iter().any(|words| text.contains(words))).map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhausted_resource_is_named() {
        let of = |code| remedy(&Error::from_raw_os_error(code));
        assert!(of(EMFILE).is_some_and(|remedy| remedy.contains("ulimit -n")));
        assert!(of(ENOMEM).is_some_and(|remedy| remedy.contains("ulimit -v")));
        assert_eq!((of(2), descriptors(&Error::from_raw_os_error(ENOMEM))), (None, None));
        assert_eq!(remedy(&Error::other("no system's")), None);
        assert!(of(EFBIG).is_some_and(|remedy| remedy.contains("ulimit -f")));
    }

    #[test]
    fn resource_is_named_from_a_reported_error_text() {
        for (code, word) in [(EMFILE, "ulimit -n"), (11, "ulimit -u"), (ENOMEM, "ulimit -v"), (EFBIG, "ulimit -f")] {
            let text = format!("cannot start: {}", Error::from_raw_os_error(code));
            assert!(remedy_of_words(&text).is_some_and(|remedy| remedy.contains(word)), "{text}");
        }
        assert_eq!(remedy_of_words("cannot start: No such file or directory (os error 2)"), None);
    }
}
