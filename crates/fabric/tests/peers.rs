//! A peer in a process of its own that is killed or stopped, over every transport between processes.

mod common;

use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::{Handover, SharedLane, Transport, accept_tls, connect_tls};
use accord_trust::issue::Authority;
use accord_trust::{Identity, Role};
use accord_types::SessionId;
use common::{PROTOCOL, SHORT, SOON, ends, read};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{ErrorKind, IoSlice};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

const BETWEEN_PROCESSES: [Transport; 3] = [Transport::Shm, Transport::Tcp, Transport::Tls];

/// The state of the other process.
const STATES: [&str; 5] = ["reads", "writes", "answers", "counts", "holds"];

#[test]
#[ignore = "the other process of these tests"]
fn peer_process() {
    let state = std::env::var("ACCORD_TEST_PEER").expect("it is started by another test");
    let way = Handover::from_descriptor(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (mut lane, _) = way.receive().unwrap().unwrap();
    if let Some(folder) = std::env::var_os("ACCORD_TEST_TLS") {
        let server = Identity::read(Path::new(&folder)).unwrap().server(&[PROTOCOL]).unwrap();
        lane = accept_tls(lane, server, SOON).unwrap();
    }
    lane.send(b"ready").unwrap();
    match &*state {
        "reads" => drop(lane.read(&mut [0; 4])),
        "writes" => while lane.send(&[7; 100_000]).is_ok() {},
        "answers" => {
            while let Ok(1..) = lane.read(&mut [0; 1]) {
                lane.send(b"x").unwrap();
            }
        }
        "counts" => {
            let (mut all, mut bytes) = (0u64, vec![0; 1 << 20]);
            loop {
                match lane.read(&mut bytes) {
                    Ok(received @ 1..) => all += received as u64,
                    // The process was stopped meanwhile.
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => break,
                }
            }
            let _ = lane.send(&all.to_le_bytes());
        }
        _ => {}
    }
    std::thread::sleep(SOON);
}

fn peer(transport: Transport, state: &str) -> (SharedLane, Child) {
    let tls = transport == Transport::Tls;
    let (mut here, there) = ends(if tls { Transport::Tcp } else { transport });
    let (way, theirs) = Handover::pair().unwrap();
    let (hour, folder) = (Duration::from_secs(3600), tempfile::tempdir().unwrap());
    let authority = Authority::new("tests", hour).unwrap();
    authority.issue_into(&folder.path().join("server"), Role::Coordinator, hour).unwrap();
    let mut process = Process::new(std::env::current_exe().unwrap());
    process
        .args(["--exact", "peer_process", "--ignored", "--nocapture"])
        .env("ACCORD_TEST_PEER", state)
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(Stdio::null());
    if tls {
        process.env("ACCORD_TEST_TLS", folder.path().join("server"));
    }
    let child = process.spawn().unwrap();
    way.send(&*there, &Hello::new(Purpose::Command, SessionId(1), 0, PeerId::PROGRAM).into()).unwrap();
    drop(there);
    if tls {
        let client = authority.identity(Role::Tenant("eva".into()), hour).unwrap();
        here = connect_tls(here, client.to_coordinator(PROTOCOL).unwrap(), SOON).unwrap();
        here.limit(Some(SOON)).unwrap();
    }
    assert_eq!(read(&*here, 5, 5), b"ready");
    (here, child)
}

#[test]
fn a_killed_peer_is_noticed_in_every_state() {
    for transport in BETWEEN_PROCESSES {
        for state in STATES {
            for here_does in ["reads", "looks", "writes"] {
                println!("{transport}: the peer {state}, this side {here_does}");
                let (lane, mut child) = peer(transport, state);
                if state == "answers" {
                    for _ in 0..100 {
                        lane.send(b"x").unwrap();
                        read(&*lane, 1, 1);
                    }
                }
                std::thread::scope(|scope| {
                    let watching = scope.spawn(|| {
                        let mut bytes = vec![0; 1 << 16];
                        match here_does {
                            "reads" => while matches!(lane.read(&mut bytes), Ok(1..)) {},
                            "looks" => loop {
                                match lane.try_read(&mut bytes) {
                                    Ok(1..) => {}
                                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                                    _ => break,
                                }
                            },
                            _ => while lane.write(&[IoSlice::new(&bytes)]).is_ok() {},
                        }
                    });
                    std::thread::sleep(SHORT);
                    let start = Instant::now();
                    child.kill().unwrap();
                    child.wait().unwrap();
                    watching.join().unwrap();
                    assert!(start.elapsed() < SOON / 2, "only the limit has ended it");
                });
            }
        }
    }
}

/// A child process, which is killed at the end in any case.
struct Stopping(Child);

impl Stopping {
    /// Stops the process, and returns once it has stopped.
    fn stop(&self) {
        let process = Pid::from_child(&self.0);
        kill_process(process, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(process), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).unwrap();
    }
}

impl Drop for Stopping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A half-open connection: the peer's system answers, but the peer does nothing. Waits end by their limits, no bytes are
/// lost meanwhile, and the lane can be given up.
#[test]
fn a_stopped_peer_blocks_no_thread_beyond_its_limit_and_loses_no_bytes() {
    for transport in BETWEEN_PROCESSES {
        println!("over {transport}");
        let (lane, child) = peer(transport, "counts");
        let child = Stopping(child);
        child.stop();
        lane.limit(Some(SHORT)).unwrap();
        assert_eq!(lane.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(lane.try_read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
        // The peer reads nothing: bytes without space are not written, and the writer gets an error.
        let (piece, mut written) = ([1; 64 << 10], 0);
        let full = loop {
            match lane.write(&[IoSlice::new(&piece)]) {
                Ok(n) => written += n,
                Err(error) => break error.kind(),
            }
            assert!(written < 64 << 20, "no bound");
        };
        assert_eq!(full, ErrorKind::WouldBlock);
        child.go_on();
        lane.limit(Some(SOON)).unwrap();
        // Some of the piece may be in flight, so that the writer repeats it after the error.
        lane.send(&piece).unwrap();
        lane.finish().unwrap();
        assert_eq!(read(&*lane, 8, 8), ((written + piece.len()) as u64).to_le_bytes());
        drop((lane, child));
        // Only this side's own shutdown wakes its waiters.
        let (lane, child) = peer(transport, "holds");
        let child = Stopping(child);
        child.stop();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| lane.read(&mut [0; 4]));
            std::thread::sleep(SHORT);
            let start = Instant::now();
            lane.shutdown();
            assert!(!matches!(waits.join().unwrap(), Ok(1..)));
            assert!(start.elapsed() < SOON / 2, "only the limit has ended it");
        });
    }
}
