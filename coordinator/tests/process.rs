//! The coordinator as a process: how it starts, says where it is, and ends.

use accord_fabric::peer::PeerId;

use accord_fabric::Key;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::transport::PeerAddress;
use accord_types::SessionId;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    command.args(["--listen", "127.0.0.1:0", "--key-file"]).arg(dir.path().join("key"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn with_key() -> (tempfile::TempDir, Key) {
    let dir = tempfile::tempdir().unwrap();
    let key = Key::random().unwrap();
    key.write(&dir.path().join("key")).unwrap();
    (dir, key)
}

fn start(mut command: Command) -> Process {
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
fn it_says_where_it_listens_and_ends_on_sigterm() {
    let (dir, key) = with_key();
    let mut process = start(command(&dir));
    let hello = Hello::new(Purpose::Session, SessionId(0), 0, PeerId::PROGRAM);
    let connection =
        handshake::connect(&PeerAddress::new(process.address), &hello, &key, Duration::from_secs(10)).unwrap();
    let pid = Pid::from_child(&process.child);
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
    drop(connection);
}

#[test]
fn it_ends_with_the_input_of_whoever_started_it() {
    let (dir, _) = with_key();
    let mut command = command(&dir);
    command.arg("--stop-on-stdin-eof").stdin(Stdio::piped());
    let mut process = start(command);
    assert!(process.child.try_wait().unwrap().is_none());
    drop(process.child.stdin.take());
    assert_eq!(process.child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_says_what_it_lacks() {
    let (dir, _) = with_key();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut occupied = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    occupied.args(["--listen", &taken.local_addr().unwrap().to_string(), "--key-file"]).arg(dir.path().join("key"));
    let (code, message) = refusal(occupied);
    assert_eq!(code, Some(1));
    assert!(message.contains("cannot listen on") && message.contains("--listen"), "{message}");

    std::fs::write(dir.path().join("key"), "short").unwrap();
    let (code, message) = refusal(command(&dir));
    assert_eq!(code, Some(1));
    assert!(message.contains("5 bytes"), "{message}");

    let mut bare = Command::new(env!("CARGO_BIN_EXE_accord-coordinator"));
    bare.env_remove("ACCORD_KEY_FILE");
    let (code, message) = refusal(bare);
    assert_eq!(code, Some(2));
    assert!(message.contains("--key-file"), "{message}");
}
