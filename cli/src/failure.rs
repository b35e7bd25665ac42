//! Failures of commands, with message and exit code.

use accord_types::scarce;
use std::fmt;

/// Accord itself failed.
const ACCORD_FAILED: u8 = 125;
/// The cluster assigned no devices: the request was refused, or its wait expired.
const NO_DEVICES: u8 = 121;
/// The command line is invalid.
const USAGE: u8 = 2;
/// The program exists but can't be executed.
const CANNOT_EXECUTE: u8 = 126;
/// The program does not exist.
const NOT_FOUND: u8 = 127;

/// A failure of the command itself: a message with cause and remedy, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The exit code if the command's job ended before its program, by its limit or by accord cancel.
    pub(crate) const JOB_ENDED: u8 = 122;

    /// Creates the failure of a request for devices.
    pub(crate) fn no_devices(why: Self) -> Self {
        Self { code: NO_DEVICES, ..why }
    }

    /// Creates a failure of Accord; `message` has cause and remedy.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: ACCORD_FAILED, message: message.into() }
    }

    /// Creates the failure of an invalid command line; `message` says what to write.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// Creates the failure for a file that can't be executed.
    pub(crate) fn cannot_execute(message: impl Into<String>) -> Self {
        Self { code: CANNOT_EXECUTE, message: message.into() }
    }

    /// Creates the failure of a call that the system refused.
    pub(crate) fn system(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    /// Creates the failure for a signal that came before the program was started.
    pub(crate) fn interrupted(signal: i32) -> Self {
        let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        Self { code, message: "interrupted before the program was started".to_owned() }
    }

    /// Creates the failure for a program that could not be started.
    pub(crate) fn start(program: impl fmt::Debug, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NOT_FOUND,
            _ => CANNOT_EXECUTE,
        };
        Self { code, message: format!("can't start {program:?}: {error}") }
    }

    /// Returns the command's exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        // A process that lacks a resource reports it in the system's words, which other processes' messages may
        // contain, too.
        match scarce::remedy_of_words(&self.message).filter(|_| !self.message.contains("ulimit")) {
            Some(remedy) if self.message.ends_with('\n') => write!(f, "{remedy}"),
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl From<accord_types::Error> for Failure {
    fn from(error: accord_types::Error) -> Self {
        // The specification's error conditions mean nothing on a command line.
        let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        Self::new(format!("{}{remedy}", error.cause()))
    }
}

/// Result of a command: its exit code.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;
