//! The coordinator's process: start, output, and end.

use crate::requests::request;
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_proto::channel::Coordinator;
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role, Trust};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn command(dir: &tempfile::TempDir) -> Command {
    command_at(dir, "127.0.0.1:0")
}

pub(crate) fn command_at(dir: &tempfile::TempDir, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    command.args(["--listen", listen, "--tls"]).arg(dir.path().join("tls"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A folder with the coordinator's certificates, and a program's.
pub(crate) fn with_certificates() -> (tempfile::TempDir, Identity) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("tests", HOUR).unwrap();
    authority.issue_into(&dir.path().join("tls"), Role::Coordinator, HOUR).unwrap();
    authority.issue_into(&dir.path().join("agent"), Role::Agent("h1".into()), HOUR).unwrap();
    (dir, authority.identity(Role::Tenant("eva".into()), HOUR).unwrap())
}

pub(crate) fn start(mut command: Command) -> Process {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("accord-coordinator listening on ").expect(&line).parse().unwrap();
    Process { child, address }
}

fn refusal(mut command: Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn coordinator_prints_its_address_and_exits_on_sigterm() {
    let (dir, own) = with_certificates();
    let mut process = start(command(&dir));
    let request = request("h1");
    let address = PeerAddress::new(process.address);
    let error = session_endpoint::open(&address, &own, Duration::from_secs(10), &request).unwrap_err();
    assert!(error.remedy_text().unwrap().contains("accord-node-agent"), "{error}");
    let pid = Pid::from_child(&process.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

#[test]
fn coordinator_exits_when_standard_input_closes() {
    let (dir, _) = with_certificates();
    let mut command = command(&dir);
    command.arg("--stop-on-stdin-eof").stdin(Stdio::piped());
    let mut process = start(command);
    assert!(process.child.try_wait().unwrap().is_none());
    drop(process.child.stdin.take());
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

#[test]
fn coordinator_reports_why_it_can_not_start() {
    let (dir, _) = with_certificates();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut occupied = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    occupied.args(["--listen", &taken.local_addr().unwrap().to_string(), "--tls"]).arg(dir.path().join("tls"));
    let (code, message) = refusal(occupied);
    assert_eq!(code, Some(1));
    assert!(message.contains("cannot listen on") && message.contains("--listen"), "{message}");

    let mut agent = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    agent.args(["--listen", "127.0.0.1:0", "--tls"]).arg(dir.path().join("agent"));
    let (code, message) = refusal(agent);
    assert_eq!(code, Some(1));
    assert!(message.contains("agent h1 may not be the coordinator"), "{message}");

    std::fs::write(dir.path().join("tls/tls.crt"), "short").unwrap();
    let (code, message) = refusal(command(&dir));
    assert_eq!(code, Some(1));
    assert!(message.contains("tls.crt holds no certificate"), "{message}");

    let mut bare = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    bare.env_remove("ACCORD_TLS");
    let (code, message) = refusal(bare);
    assert_eq!(code, Some(2));
    assert!(message.contains("--tls"), "{message}");
}

#[test]
fn coordinator_reports_a_descriptor_limit_that_is_too_low() {
    let (dir, _) = with_certificates();
    let mut listening = 0;
    for descriptors in 4..=32 {
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
        limited.arg(env!("CARGO_BIN_EXE_accord-coordinator")).args([
            "--listen",
            "127.0.0.1:0",
            "--stop-on-stdin-eof",
            "--tls",
        ]);
        limited.arg(dir.path().join("tls")).stdin(Stdio::null());
        // A process that listens ends with its standard input.
        let Output { status, stdout, stderr } = limited.output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        if stdout.contains("listening on") {
            listening += 1;
        } else {
            assert!(stderr.contains("Too many open files"), "with {descriptors}: {status:?}, {stderr}");
        }
        assert!(!stderr.contains("panicked"), "with {descriptors}: {stderr}");
    }
    assert!(listening > 0);
}

/// The user look-up needs a thread, which the system refuses. The caller is informed, and the coordinator continues.
#[test]
fn user_lookup_without_a_thread_is_reported() {
    /// Less than a thread's stack.
    const SPACE: u64 = 1 << 20;
    let (dir, own) = with_certificates();
    let socket = dir.path().join("socket");
    let mut command = command(&dir);
    command.arg("--socket").arg(&socket).stderr(Stdio::null());
    let process = start(command);
    let here =
        Coordinator::new(&format!("unix:{}", socket.display()), Arc::new(Trust::of_system()), Duration::from_secs(10));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connect = || runtime.block_on(here.connect(|endpoint| endpoint));
    // Its memory still grows after it has printed its address, and no longer once it serves. A certificate takes no
    // thread.
    let by_certificate = Coordinator::new(&process.address.to_string(), Arc::new(Trust::fixed(own)), HOUR);
    runtime.block_on(by_certificate.connect(|endpoint| endpoint)).unwrap();

    let pid = Pid::from_raw(i32::try_from(process.child.id()).unwrap());
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.child.id())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")).unwrap();
    let limit = Some(1_024 * size.parse::<u64>().unwrap() + SPACE);
    let before = prlimit(pid, Resource::As, Rlimit { current: limit, maximum: None }).unwrap();
    for _ in 0..2 {
        let error = connect().unwrap_err();
        assert!(error.message().contains("cannot start a thread (accord-witness)"), "{error}");
    }
    prlimit(pid, Resource::As, before).unwrap();
    connect().unwrap();
}
