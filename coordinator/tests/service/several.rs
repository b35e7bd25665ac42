//! Coordinators with one state in etcd, as processes: which one leads, and what each says of it.

use super::process::{Process, command, command_at, start, with_certificates};
use crate::etcd::{Etcd, free_port};
use crate::requests::request;
use accord_fabric::session_endpoint;
use accord_fabric::transport::PeerAddress;
use accord_trust::Identity;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(10);

/// A coordinator, and what it says.
struct Coordinator {
    process: Process,
    messages: Receiver<String>,
}

impl Coordinator {
    fn start(dir: &TempDir, state: &str) -> Self {
        // One that starts anew listens there again.
        let mut command = command_at(dir, &free_port().to_string());
        command.args(["--state", state]);
        let mut process = start(command);
        let (printed, messages) = channel();
        let stderr: ChildStderr = process.child.stderr.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| printed.send(line))
        });
        Self { process, messages }
    }

    /// Waits for a message.
    fn says(&self, part: &str) -> String {
        let limit = Duration::from_secs(120);
        let mut printed = Vec::new();
        while let Ok(message) = self.messages.recv_timeout(limit) {
            if message.contains(part) {
                return message;
            }
            printed.push(message);
        }
        panic!("{part:?} is awaited in vain: {printed:#?}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.child), signal).unwrap();
    }

    /// The answer to a program that asks for devices, of which there are none.
    fn answer(&self, own: &Identity) -> String {
        answer(&self.process.address.to_string(), own)
    }
}

fn answer(coordinators: &str, own: &Identity) -> String {
    let error = session_endpoint::open(&PeerAddress::new(coordinators), own, SOON, &request("h1")).unwrap_err();
    format!("{}; {}", error.cause(), error.remedy_text().unwrap_or_default())
}

const LEADS: &str = "this coordinator leads the cluster";
/// The leader's answer.
const NO_DEVICES: &str = "accord-node-agent";

#[test]
fn follower_names_the_leader_and_takes_over() {
    let Some(etcd) = Etcd::start(1, &[]) else { return };
    let (dir, own) = with_certificates();
    let state = etcd.location("site");
    let first = Coordinator::start(&dir, &state);
    first.says(LEADS);
    let second = Coordinator::start(&dir, &state);
    let named = format!("this coordinator does not lead the cluster, the one at {} does", first.process.address);
    let printed = loop {
        let printed = second.answer(&own);
        if !printed.contains("no coordinator leads") {
            break printed;
        }
    };
    assert!(printed.contains(&named) && printed.contains("ACCORD_COORDINATOR"), "{printed}");
    assert!(first.answer(&own).contains(NO_DEVICES));
    // With the addresses of both a program finds the one that leads.
    let both = format!("{},{}", second.process.address, first.process.address);
    assert!(answer(&both, &own).contains(NO_DEVICES));

    // One that is told to stop gives the lease back.
    first.signal(Signal::TERM);
    second.says(LEADS);
    assert!(second.answer(&own).contains(NO_DEVICES));
    drop(first);

    // One that is stopped loses it, and follows when it wakes.
    let third = Coordinator::start(&dir, &state);
    second.signal(Signal::STOP);
    third.says(LEADS);
    second.signal(Signal::CONT);
    let message = second.says("leads no longer");
    assert!(message.contains("it starts anew, and follows"), "{message}");
    let named = format!("the one at {} does", third.process.address);
    while !second.answer(&own).contains(&named) {}
}

#[test]
fn a_coordinator_waits_for_an_etcd_that_is_away_and_says_so() {
    let Some(mut etcd) = Etcd::start(1, &[]) else { return };
    let (dir, own) = with_certificates();
    etcd.kill(0);
    let coordinator = Coordinator::start(&dir, &etcd.location("site"));
    let message = coordinator.says("etcd does not answer");
    assert!(message.contains("start it, or correct --state"), "{message}");
    assert!(coordinator.answer(&own).contains("no coordinator is known to lead"));
    etcd.start_member(0);
    coordinator.says(LEADS);
    assert!(coordinator.answer(&own).contains(NO_DEVICES));
}

#[test]
fn options_for_etcd_are_checked() {
    let (dir, _) = with_certificates();
    let refused = |arguments: &[&str]| {
        let output = command(&dir).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, message) = refused(&["--state", "etcd://nowhere"]);
    assert!(code == Some(2) && message.contains("etcd://HOST:PORT"), "{message}");
    let (code, message) = refused(&["--state", "etcd://127.0.0.1:1", "--etcd-ca", "/nowhere/ca.pem"]);
    assert!(code == Some(1) && message.contains("/nowhere/ca.pem can't be used for TLS with etcd"), "{message}");
    assert_eq!(refused(&["--etcd-cert", "c.pem"]).0, Some(2));
}
