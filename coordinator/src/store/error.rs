//! Errors of the state file, each with its remedy.

use accord_types::scarce;
use std::fmt::{self, Display};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The reason why a state file can't be used, and the remedy.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    cause: String,
    remedy: String,
}

impl Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state file {}: {}; {}", self.path.display(), self.cause, self.remedy)
    }
}

/// An error of the database, boxed because it is large.
#[derive(Debug)]
pub(super) struct DatabaseFailure(Box<redb::Error>);

macro_rules! failures {
    ($($error:ty),*) => {$(
        impl From<$error> for DatabaseFailure {
            fn from(error: $error) -> Self {
                Self(Box::new(error.into()))
            }
        }
    )*};
}

failures!(redb::TransactionError, redb::TableError, redb::StorageError, redb::CommitError, redb::DatabaseError);

impl From<std::io::Error> for DatabaseFailure {
    fn from(error: std::io::Error) -> Self {
        Self(Box::new(redb::Error::Io(error)))
    }
}

/// Returns an error of the file's contents or use.
pub(super) fn wrong(path: &Path, cause: String, remedy: &str) -> StoreError {
    StoreError { path: path.to_owned(), cause, remedy: remedy.to_owned() }
}

/// The remedy for an unreadable file.
pub(super) const RESTORE: &str = "put a backup in its place, or move it away to begin anew";

/// Returns the error of the file that a database error means.
pub(super) fn explain(path: &Path, error: &DatabaseFailure) -> StoreError {
    use redb::Error as Cause;
    match error.0.as_ref() {
        Cause::DatabaseAlreadyOpen => {
            wrong(path, "another coordinator has it open".to_owned(), "stop that one, or name another file by --state")
        }
        Cause::UpgradeRequired(version) => wrong(
            path,
            format!("its database has the format {version}, which this coordinator does not read"),
            "start the release that wrote it, or put a backup in its place",
        ),
        Cause::Corrupted(what) => wrong(path, format!("it is damaged: {what}"), RESTORE),
        Cause::Io(error) => {
            let remedy = match error.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on its disk",
                ErrorKind::NotFound => "put it back or make its folder, and start the coordinator again",
                ErrorKind::PermissionDenied => "let the coordinator's user read and write it",
                ErrorKind::ReadOnlyFilesystem => "mount its file system writable",
                _ => scarce::remedy(error).unwrap_or("look at its disk"),
            };
            wrong(path, error.to_string(), remedy)
        }
        other => wrong(path, other.to_string(), RESTORE),
    }
}
