//! What is wrong with a state, and what to do.

use crate::etcd::{EtcdError, EtcdLocation};
use accord_types::scarce;
use std::fmt::{self, Display};
use std::io::ErrorKind;
use std::path::Path;

/// The reason why a state can't be used, and its remedy.
#[derive(Debug)]
pub struct StoreError {
    /// The file, or the place in etcd.
    subject: String,
    cause: String,
    remedy: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The state can't be used as it is.
    State,
    /// It may go well later.
    Later,
    /// Another coordinator leads.
    Superseded,
}

impl StoreError {
    /// The error of a state in etcd.
    pub(super) fn of_etcd(location: &EtcdLocation, cause: String, remedy: &str) -> Self {
        let subject = format!("the state in {}", location.displayed());
        Self { subject, cause, remedy: remedy.to_owned(), kind: Kind::State }
    }

    /// The error of a request to etcd.
    pub(super) fn of_request(location: &EtcdLocation, error: &EtcdError) -> Self {
        let kind = if error.is_final() { Kind::State } else { Kind::Later };
        Self { kind, ..Self::of_etcd(location, error.cause().to_owned(), error.remedy()) }
    }

    /// The error of a coordinator that leads no longer.
    pub(super) fn superseded(location: &EtcdLocation) -> Self {
        let cause = "another coordinator leads, and this one writes nothing any more".to_owned();
        Self { kind: Kind::Superseded, ..Self::of_etcd(location, cause, "look at that one") }
    }

    /// Whether another coordinator leads: nothing of this one is written any more.
    pub fn is_superseded(&self) -> bool {
        self.kind == Kind::Superseded
    }

    /// Whether the stored state is unusable, so that another attempt would fail in the same way.
    pub fn is_of_state(&self) -> bool {
        self.kind == Kind::State
    }
}

impl Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.subject, self.cause, self.remedy)
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
    let subject = format!("the state file {}", path.display());
    StoreError { subject, cause, remedy: remedy.to_owned(), kind: Kind::State }
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
