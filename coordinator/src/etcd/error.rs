//! What is wrong with etcd, and what to do.

use std::fmt::{self, Display};
use tonic::{Code, Status};

/// The reason why etcd did not do what it was asked for, and its remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EtcdError {
    cause: String,
    remedy: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Another member may answer.
    Member,
    /// It may go well later.
    Later,
    /// It needs another setting.
    Setting,
}

impl Display for EtcdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.remedy)
    }
}

const AWAY: &str = "start it, or correct --state";
const SILENT: &str = "look whether most of its members run: etcdctl endpoint status --cluster";
const FILES: &str = "correct --etcd-ca, --etcd-cert and --etcd-key";

impl EtcdError {
    /// The error of an answer.
    pub(super) fn of(status: &Status) -> Self {
        let text = status.message();
        let reported = |kind, remedy| Self { cause: format!("etcd says: {text}"), remedy, kind };
        match status.code() {
            Code::ResourceExhausted if text.contains("space") => reported(
                Kind::Later,
                "make room: etcdctl compact, etcdctl defrag, then etcdctl alarm disarm; see --auto-compaction-retention and --quota-backend-bytes of etcd",
            ),
            Code::Unavailable if text.contains("etcdserver") => reported(Kind::Member, SILENT),
            Code::Unavailable | Code::Unknown | Code::Cancelled | Code::DeadlineExceeded => {
                Self { cause: format!("etcd does not answer: {text}"), remedy: AWAY, kind: Kind::Member }
            }
            Code::Unauthenticated | Code::PermissionDenied => {
                let remedy = "let the coordinator's certificate (--etcd-cert) read and write its prefix";
                reported(Kind::Setting, remedy)
            }
            _ => reported(Kind::Later, "look at etcd's messages"),
        }
    }

    /// The error of a member that does not answer in time.
    pub(super) fn silent(member: &str) -> Self {
        Self { cause: format!("etcd at {member} does not answer in time"), remedy: SILENT, kind: Kind::Member }
    }

    /// The error of a member that can't be reached.
    pub(super) fn away(member: &str, why: &str) -> Self {
        Self { cause: format!("etcd does not answer at {member}: {why}"), remedy: AWAY, kind: Kind::Member }
    }

    /// The error of files for TLS that can't be used.
    pub(super) fn files(cause: String) -> Self {
        Self { cause, remedy: FILES, kind: Kind::Setting }
    }

    /// The error of a TLS handshake.
    pub(super) fn handshake(member: &str, why: &str) -> Self {
        Self { cause: format!("no TLS with etcd at {member}: {why}"), remedy: FILES, kind: Kind::Member }
    }

    /// Whether another member may answer.
    pub(super) fn is_of_member(&self) -> bool {
        self.kind == Kind::Member
    }

    /// Whether only other settings help.
    pub fn is_final(&self) -> bool {
        self.kind == Kind::Setting
    }

    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }

    pub(crate) fn remedy(&self) -> &'static str {
        self.remedy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_remedy() {
        let of = |code, text: &str| EtcdError::of(&Status::new(code, text));
        let full = of(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert!(full.to_string().contains("etcdctl defrag") && !full.is_of_member() && !full.is_final(), "{full}");
        let lost = of(Code::Unavailable, "etcdserver: request timed out");
        assert!(lost.to_string().contains("etcdctl endpoint status") && lost.is_of_member(), "{lost}");
        let denied = of(Code::PermissionDenied, "etcdserver: permission denied");
        assert!(denied.to_string().contains("--etcd-cert") && denied.is_final(), "{denied}");
    }
}
