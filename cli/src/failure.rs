//! What ends the command with a message, and the exit codes.

use accord_types::scarce;
use std::fmt;

/// Accord itself failed, before or after the program.
const ACCORD_FAILED: u8 = 125;
/// A cluster gives no devices: the request was refused, or has waited for as long as it says.
const NO_DEVICES: u8 = 121;
/// The command line makes no sense.
const USAGE: u8 = 2;
/// The program is there but can't be executed.
const CANNOT_EXECUTE: u8 = 126;
/// The program is not there.
const NOT_FOUND: u8 = 127;

/// A failure of the command itself: cause, remedy, exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The exit code if the command's job has ended before its program: by its limit, or by accord cancel.
    pub(crate) const JOB_ENDED: u8 = 122;

    /// A request for devices that a cluster does not fulfil.
    pub(crate) fn no_devices(why: Self) -> Self {
        Self { code: NO_DEVICES, ..why }
    }

    /// Accord can't do what it was asked to. `message` says why and what to do.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { code: ACCORD_FAILED, message: message.into() }
    }

    /// A command line that makes no sense. `message` says where and what to write.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: USAGE, message: message.into() }
    }

    /// A file that can't be executed.
    pub(crate) fn cannot_execute(message: impl Into<String>) -> Self {
        Self { code: CANNOT_EXECUTE, message: message.into() }
    }

    /// Creates the failure of a call that the system refused.
    pub(crate) fn system(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    /// A signal that came before the program was started.
    pub(crate) fn interrupted(signal: i32) -> Self {
        let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
        Self { code, message: "interrupted before the program was started".to_owned() }
    }

    /// A program that could not be started.
    pub(crate) fn start(program: impl fmt::Debug, error: &std::io::Error) -> Self {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => NOT_FOUND,
            _ => CANNOT_EXECUTE,
        };
        Self { code, message: format!("can't start {program:?}: {error}") }
    }

    /// The command's exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        // A process that lacks a resource reports it in the system's words, and other processes' messages have them, too.
        match scarce::remedy_of_words(&self.message).filter(|_| !self.message.contains("ulimit")) {
            Some(remedy) if self.message.ends_with('\n') => write!(f, "{remedy}"),
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

impl From<accord_types::Error> for Failure {
    fn from(error: accord_types::Error) -> Self {
        // Conditions of the specification mean nothing on a command line.
        let remedy = error.remedy_text().map(|remedy| format!("; {remedy}")).unwrap_or_default();
        Self::new(format!("{}{remedy}", error.cause()))
    }
}

/// Result of a command: its exit code.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;
