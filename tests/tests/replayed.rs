//! An administrator's requests to the coordinator through TLS, recorded by a proxy and replayed: the replay has no
//! effect.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Tool, test_program, tool};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The time limit for closing a replayed connection.
const CLOSED: Duration = Duration::from_secs(20);
/// How long the replay waits for an answer between two pieces.
const ANSWER: Duration = Duration::from_millis(200);

/// One connection, in pieces as the administrator sent them.
type RecordedBytes = Vec<Vec<u8>>;

/// A proxy that records the bytes to the coordinator.
struct Recorder {
    address: String,
    printed: Arc<Mutex<Vec<RecordedBytes>>>,
}

impl Recorder {
    fn new(coordinator: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, printed) =
            (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<RecordedBytes>>>::default());
        let (kept, coordinator) = (printed.clone(), coordinator.to_owned());
        std::thread::spawn(move || {
            while let Ok((from, _)) = listener.accept() {
                let Ok(to) = TcpStream::connect(&coordinator) else { continue };
                let nth = {
                    let mut all = kept.lock().unwrap();
                    all.push(RecordedBytes::new());
                    all.len() - 1
                };
                let (back_from, back_to) = (to.try_clone().unwrap(), from.try_clone().unwrap());
                std::thread::spawn(move || pass_on(back_from, back_to, |_| {}));
                let kept = kept.clone();
                std::thread::spawn(move || pass_on(from, to, |piece| kept.lock().unwrap()[nth].push(piece.to_vec())));
            }
        });
        Self { address, printed }
    }

    /// Returns the connections since the last call.
    fn take(&self) -> Vec<RecordedBytes> {
        let printed = std::mem::take(&mut *self.printed.lock().unwrap());
        assert!(printed.iter().flatten().any(|piece| !piece.is_empty()), "nothing was recorded");
        printed
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, mut received: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        received(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// Runs `accord` as the administrator.
fn accord(cluster: &Cluster, address: &str, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    job.env("ACCORD_COORDINATOR", address).env("ACCORD_TLS", cluster.tls_of("admin")).run().unwrap()
}

/// Replays all pieces on a new connection. With `slowly`, it waits for the coordinator's answer between pieces, as the
/// administrator did. The coordinator ends the connection.
fn replay(coordinator: &str, printed: &RecordedBytes, slowly: bool) {
    let mut stream = TcpStream::connect(coordinator).unwrap();
    let mut answer = [0; 4096];
    for piece in printed {
        // The coordinator may have disconnected.
        if stream.write_all(piece).is_err() {
            return;
        }
        if slowly {
            stream.set_read_timeout(Some(ANSWER)).unwrap();
            if matches!(stream.read(&mut answer), Ok(0)) {
                return;
            }
        }
    }
    stream.set_read_timeout(Some(CLOSED)).unwrap();
    loop {
        match stream.read(&mut answer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the coordinator goes on to listen")
            }
            Err(_) => return,
        }
    }
}

/// Replays in all ways: whole, in pieces, and from each of the first pieces on, so that one replay begins with a
/// request and no handshake.
fn replay_in_all_ways(coordinator: &str, printed: &[RecordedBytes]) {
    for one in printed.iter().filter(|one| !one.is_empty()) {
        replay(coordinator, &vec![one.concat()], false);
        replay(coordinator, one, true);
        for from in 1..one.len() {
            replay(coordinator, &one[from..].to_vec(), false);
        }
    }
}

fn states(info: &Value) -> Vec<&str> {
    let nodes = info["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    nodes.iter().filter_map(|node| node["state"].as_str()).collect()
}

fn all_is_well(cluster: &Cluster, coordinator: u32) {
    assert_eq!(cluster.coordinator_id(), Some(coordinator));
    assert_eq!(states(&cluster.info().unwrap()), ["up", "up"], "{}", cluster.messages());
    let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
    job.run().unwrap().success().unwrap();
}

fn cluster() -> Cluster {
    Cluster::builder().hosts(2).devices(1).memory("64M").start().unwrap()
}

/// The same coordinator, which has handled it once.
#[test]
fn a_recorded_drain_drains_nothing_again() {
    let cluster = cluster();
    let (coordinator, recorder) = (cluster.coordinator_id().unwrap(), Recorder::new(cluster.address()));
    let drained = accord(&cluster, &recorder.address, &["drain", "h1"]);
    assert_eq!(drained.code(), 0, "{}", drained.report());
    let printed = recorder.take();
    assert_eq!(states(&cluster.info().unwrap()), ["up", "draining"]);
    assert_eq!(accord(&cluster, cluster.address(), &["drain", "--undo", "h1"]).code(), 0);
    replay_in_all_ways(cluster.address(), &printed);
    all_is_well(&cluster, coordinator);
}

/// The next coordinator at the same address, with the same certificate, which gets it for the first time.
#[test]
fn a_recorded_shutdown_stops_nothing() {
    let mut cluster = cluster();
    let recorder = Recorder::new(cluster.address());
    let stopped = accord(&cluster, &recorder.address, &["shutdown"]);
    assert_eq!(stopped.stdout, "the coordinator stops\n", "{}", stopped.report());
    let printed = recorder.take();
    // The coordinator ends by itself.
    assert_eq!(cluster.await_coordinator_ended(), Ok(()));
    cluster.start_coordinator().unwrap();
    cluster.await_devices(2).unwrap();
    let coordinator = cluster.coordinator_id().unwrap();
    replay_in_all_ways(cluster.address(), &printed);
    all_is_well(&cluster, coordinator);
    // The recording was effective: through the same proxy, the administrator stops this coordinator, too.
    assert_eq!(accord(&cluster, &recorder.address, &["shutdown"]).code(), 0);
    assert_eq!(cluster.await_coordinator_ended(), Ok(()));
}
