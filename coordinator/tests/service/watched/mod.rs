//! A coordinator in a process of its own, and its use of resources.
// Each test binary uses a part of it.
#![allow(dead_code)]

use crate::crowd::{Cost, Waited};
use crate::requests::request;
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_trust::attester::Attester;
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SOCKET: &str = "coordinator";
/// Lifetime of certificates.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// Longest wait of an honest program for its answer.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// A coordinator's process, which is killed when dropped.
pub(crate) struct Coordinator {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    program: Identity,
    dir: tempfile::TempDir,
}

impl Coordinator {
    /// Starts a coordinator, with a limit on descriptors if one is given.
    pub(crate) fn start(descriptors: Option<u64>) -> Self {
        Self::start_with(descriptors, |_| Vec::new())
    }

    /// Starts a coordinator that writes log messages of this level and above to `to`.
    pub(crate) fn start_logging(to: Stdio, level: &str) -> Self {
        Self::start_so(None, to, |_| vec!["--log".into(), level.into()])
    }

    /// Starts a coordinator with options, which may use its folder.
    pub(crate) fn start_with(descriptors: Option<u64>, options: impl FnOnce(&Path) -> Vec<OsString>) -> Self {
        Self::start_so(descriptors, Stdio::null(), options)
    }

    fn start_so(descriptors: Option<u64>, stderr: Stdio, options: impl FnOnce(&Path) -> Vec<OsString>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("tests", HOUR).unwrap();
        authority.issue_into(&dir.path().join("tls"), Role::Coordinator, HOUR).unwrap();
        let limit = descriptors.map_or_else(String::new, |many| format!("ulimit -n {many}; "));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_accord-coordinator")]);
        command.args(["--lost-after", "1h", "--listen", "127.0.0.1:0", "--tls"]).arg(dir.path().join("tls"));
        command.args(options(dir.path()));
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("accord-coordinator listening on ").expect(&line).parse().unwrap();
        let program = authority.identity(Role::Tenant("eva".into()), HOUR).unwrap();
        Self { child, address, authority, program, dir }
    }

    /// Starts a coordinator that also listens at [`Coordinator::socket`].
    pub(crate) fn start_with_socket(descriptors: Option<u64>) -> Self {
        Self::start_with(descriptors, |dir| vec!["--socket".into(), dir.join(SOCKET).into()])
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join(SOCKET)
    }

    /// Returns the identity of programs without a certificate that use MUNGE at this socket.
    pub(crate) fn of_user(&self, munge: &Path) -> Identity {
        let folder = self.dir.path().join("everybody");
        if !folder.exists() {
            std::fs::create_dir(&folder).unwrap();
            std::fs::copy(self.dir.path().join("tls/ca.crt"), folder.join("ca.crt")).unwrap();
        }
        Identity::of_user(&folder, &Attester::of_settings(munge.to_str(), None)).unwrap()
    }

    /// Requests a session for an honest program, which is refused because there is no device.
    pub(crate) fn ask(&self) {
        Self::ask_as(&PeerAddress::new(self.address), &self.program);
    }

    /// Requests a session at another address or with another identity.
    pub(crate) fn ask_as(address: &PeerAddress, program: &Identity) {
        let error = session_endpoint::open(address, program, 10 * ANSWERED_WITHIN, &request("h1")).unwrap_err();
        assert!(error.remedy_text().is_some_and(|text| text.contains("accord-node-agent")), "{error}");
    }

    pub(crate) fn waited(&self) -> Waited {
        Waited::until_now(self.child.id())
    }

    pub(crate) fn cost(&self) -> Cost {
        Cost::of(self.child.id())
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
