//! A coordinator as a process of its own, and what it costs.
// Each test binary uses a part of it.
#![allow(dead_code)]

use crate::crowd::{Cost, Waited};
use crate::requests::request;
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long certificates count.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// What an honest program may wait for its answer.
pub(crate) const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// It is killed when dropped.
pub(crate) struct Coordinator {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) authority: Authority,
    program: Identity,
    _dir: tempfile::TempDir,
}

impl Coordinator {
    /// With room for so many descriptors, if that is said.
    pub(crate) fn start(descriptors: Option<u64>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new("tests", HOUR).unwrap();
        authority.issue_into(&dir.path().join("tls"), Role::Coordinator, HOUR).unwrap();
        let limit = descriptors.map_or_else(String::new, |many| format!("ulimit -n {many}; "));
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{limit}exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_accord-coordinator")]);
        command.args(["--lost-after", "1h", "--listen", "127.0.0.1:0", "--tls"]).arg(dir.path().join("tls"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("accord-coordinator listening on ").expect(&line).parse().unwrap();
        let program = authority.identity(Role::Tenant("eva".into()), HOUR).unwrap();
        Self { child, address, authority, program, _dir: dir }
    }

    /// An honest program asks for a session. There is no device, which it is told.
    pub(crate) fn ask(&self) {
        let request = request("h1");
        let address = PeerAddress::new(self.address);
        let error = session_endpoint::open(&address, &self.program, 10 * ANSWERED_WITHIN, &request).unwrap_err();
        assert!(error.remedy_text().unwrap().contains("accord-node-agent"), "{error}");
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
