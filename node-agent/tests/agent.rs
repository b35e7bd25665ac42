//! Agent processes: registration, service, and losses of coordinators, executors and agents.

mod support;

use accord_cluster::Limits;
use accord_fabric::Key;
use accord_fabric::frame::session::Message;
use accord_fabric::handshake::Purpose;
use accord_proto::v1;
use accord_trust::Role;
use accord_trust::issue::Authority;
use accord_types::SessionId;
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStderr, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use support::{Agent, Cluster, HOUR, SOON, command_lane, ends_within, handle, lane, lane_with, up};

/// The time within which an ended session is cleaned up.
const GONE: Duration = Duration::from_secs(3);

#[test]
fn an_agent_registers_its_devices_and_leaves_on_sigterm() {
    let cluster = Cluster::new();
    let mut agent = cluster.agent("h1");
    let view = cluster.view();
    let node = &view.nodes[0];
    assert_eq!(node.links[0].address, agent.address.to_string());
    assert_eq!(node.devices.len(), 2);
    assert_eq!(node.devices[1].memory, 16 << 20);
    assert!(node.devices.iter().all(|device| device.units >= 1 && device.node_name == "h1"));

    let (lease, _door) = cluster.open("h1");
    let _lane = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code(), Some(0));
    assert!(ends_within(&executor, GONE), "the executor outlives its agent");
    cluster.until(|view| view.nodes[0].state == i32::from(v1::NodeState::Gone));
}

#[test]
fn an_agent_whose_terminal_is_gone_leaves_as_on_sigterm() {
    let cluster = Cluster::new();
    let mut agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("h1");
    let _lane = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    agent.signal(Signal::HUP);
    assert_eq!(agent.wait().code(), Some(0));
    assert!(ends_within(&executor, GONE), "the executor outlives its agent");
    cluster.until(|view| view.nodes[0].state == i32::from(v1::NodeState::Gone));
}

#[test]
fn an_agent_whose_standard_error_is_full_serves_and_ends() {
    let (from, to) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let size = fcntl_setpipe_size(&to, 4096).unwrap();
    rustix::io::write(&to, &vec![b'.'; size]).unwrap();
    let cluster = Cluster::new();
    let mut command = cluster.command("h1");
    command.env("ACCORD_LOG", "info").stderr(Stdio::from(to));
    let mut agent = Agent::start(command);
    cluster.until(|view| view.nodes.iter().any(|node| node.state == up()));
    for _ in 0..3 {
        let (lease, _door) = cluster.open("elsewhere");
        let lane = command_lane(&lease).unwrap();
        let (_, executor) = agent.executor();
        drop(lane);
        assert!(ends_within(&executor, GONE), "the executor outlives its program");
    }
    assert_eq!(cluster.view().nodes[0].state, up());
    agent.signal(Signal::TERM);
    assert_eq!(agent.wait().code(), Some(0));
    // Nothing read the pipe, so it has no line of the agent.
    let mut written = vec![0; size];
    assert_eq!(rustix::io::read(&from, &mut written).unwrap(), size);
    assert!(written.iter().all(|byte| *byte == b'.'));
}

#[test]
fn a_session_has_one_executor_from_its_first_lane_to_its_end() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, connection) = cluster.open("elsewhere");
    assert!(agent.executors().is_empty());
    let _command = command_lane(&lease).unwrap();
    let _bulk = lane(&agent.address, Purpose::Bulk, &lease).unwrap();
    let (_, executor) = agent.executor();
    cluster.until(|view| view.sessions.iter().any(|session| session.executors == [0]));

    // Another session has an executor of its own.
    let (other, _other_door) = cluster.open("elsewhere");
    let _other_lane = command_lane(&other).unwrap();
    agent.await_executors(2);

    drop(connection);
    assert!(ends_within(&executor, GONE), "the executor outlives its session");
    let error = command_lane(&lease).unwrap_err();
    assert!(error.cause().contains("has ended"), "{error}");
    cluster.until(|view| view.sessions.len() == 1);
    agent.await_executors(1);
}

#[test]
fn the_end_of_the_programs_command_lane_ends_its_executor() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let lane = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    drop(lane);
    assert!(ends_within(&executor, GONE), "the executor outlives its program");
    cluster.until(|view| view.sessions.iter().all(|session| session.executors.is_empty()));
}

#[test]
fn a_second_command_lane_gets_a_new_executor_when_the_first_has_ended() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let first = command_lane(&lease).unwrap();
    let (number, executor) = agent.executor();
    let _second = command_lane(&lease).unwrap();
    assert!(ends_within(&executor, Duration::ZERO), "two executors of one session at the same time");
    assert_ne!(agent.executor().0, number);
    let _ = first.read_to_end(&mut Vec::new());
    // Other lanes go to the new executor.
    let bulk = lane(&agent.address, Purpose::Bulk, &lease).unwrap();
    let (_, executor) = agent.executor();
    bulk.send(&[0xff; 4096]).unwrap();
    assert!(ends_within(&executor, SOON), "it did not get the lane");
}

#[test]
fn a_session_that_the_coordinator_did_not_announce_gets_no_executor() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let error = lane_with(&agent.address, Purpose::Command, SessionId(0xdead), &Key::random().unwrap()).unwrap_err();
    assert!(error.cause().contains("the coordinator has not told node h1 of session"), "{error}");
    assert!(error.is_transient(), "the coordinator may be stopped just now");
    assert!(agent.executors().is_empty());
}

#[test]
fn only_a_command_lane_begins_an_executor() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    for purpose in [Purpose::Bulk, Purpose::Control, Purpose::Peer] {
        let error = lane(&agent.address, purpose, &lease).unwrap_err();
        assert!(error.cause().contains("has no executor on node h1"), "{error}");
    }
    assert!(agent.executors().is_empty());
}

#[test]
fn a_crashed_executor_harms_neither_its_agent_nor_others() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    let (lease, _door) = cluster.open("elsewhere");
    let lane = command_lane(&lease).unwrap();
    let (number, executor) = agent.executor();
    let (other, _other_door) = cluster.open("elsewhere");
    let _other_lane = command_lane(&other).unwrap();

    rustix::process::kill_process(support::pid(number), Signal::ABORT).unwrap();
    assert!(ends_within(&executor, SOON));
    let mut rest = Vec::new();
    // The program sees the end of its lane, orderly or not.
    let _ = lane.read_to_end(&mut rest);
    cluster.until(|view| view.sessions.iter().filter(|session| session.executors.is_empty()).count() == 1);
    agent.await_executors(1);
    assert_eq!(cluster.view().nodes[0].state, up());
    // The session may start another executor.
    let _lane = command_lane(&lease).unwrap();
    agent.await_executors(2);
}

#[test]
fn a_killed_agent_takes_its_executors_along_and_is_lost_in_time() {
    let cluster = Cluster::new();
    let mut agent = cluster.agent("h1");
    let (lease, connection) = cluster.open("elsewhere");
    let _lane = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    agent.signal(Signal::KILL);
    agent.wait();
    assert!(ends_within(&executor, GONE), "the executor outlives its agent");
    match connection.next().unwrap() {
        Some(Message::NodeLost { name, .. }) => assert_eq!(name, "h1"),
        other => panic!("{other:?}"),
    }
    // The next agent of that name counts as the same node.
    let _agent = cluster.agent("h1");
    assert_eq!(cluster.view().nodes.len(), 1);
}

#[test]
fn a_coordinators_restart_goes_unnoticed_by_sessions() {
    let cluster = Cluster::new();
    let first = cluster.agent("h1");
    let second = cluster.agent("h2");
    let (lease, _door) = cluster.open("h2");
    let _lane = command_lane(&lease).unwrap();
    let (_, executor) = second.executor();

    let cluster = cluster.restart_coordinator();
    let view = cluster.until(|view| view.nodes.len() == 2 && view.sessions.len() == 1);
    for (name, id) in [("h1", 0), ("h2", 1)] {
        assert!(view.nodes.iter().any(|node| node.name == name && node.id == id), "{view:?}");
    }
    let session = &view.sessions[0];
    assert_eq!((session.id, session.attached, &session.executors[..]), (lease.session.0, false, &[1][..]));
    assert_eq!(session.program, "app");
    assert!(!ends_within(&executor, Duration::ZERO));
    // The session may go on opening lanes, also on nodes that are new to it.
    let _bulk = lane(&second.address, Purpose::Bulk, &lease).unwrap();
    let lane = lane(&first.address, Purpose::Command, &lease).unwrap();
    cluster.until(|view| view.sessions[0].executors == [0, 1]);
    // The end of its lanes ends the session.
    drop((lane, _lane));
    cluster.until(|view| view.sessions.is_empty());
}

/// An incomplete renewal, or another authority's, is reported and does not change the agent's identity; a later valid
/// one does.
#[test]
fn certificates_that_can_not_be_used_are_told_and_change_nothing() {
    let cluster = Cluster::new();
    let mut agent = cluster.agent("h1");
    let printed = OutputLines::by(agent.child.stderr.take().unwrap());
    let folder = cluster.tls(&Role::Agent("h1".into()));
    std::fs::write(folder.join("tls.crt"), "half of one").unwrap();
    let is_up = |view: &v1::ClusterView| view.nodes.iter().any(|node| node.name == "h1" && node.state == up());
    let cluster = cluster.restart_coordinator();
    cluster.until(is_up);
    printed.await_line("the certificates stay as they were");
    let other = cluster.dir.path().join("other");
    Authority::new("tests", HOUR).unwrap().issue_into(&other, Role::Agent("h1".into()), HOUR).unwrap();
    for name in ["ca.crt", "tls.crt", "tls.key"] {
        std::fs::copy(other.join(name), folder.join(name)).unwrap();
    }
    // The files are valid, but their authority is not trusted.
    let cluster = cluster.restart_coordinator();
    printed.await_line("of another authority");
    assert!(!is_up(&cluster.view()));
    std::fs::remove_dir_all(&folder).unwrap();
    let _ = cluster.tls(&Role::Agent("h1".into()));
    cluster.until(is_up);
    agent.signal(Signal::TERM);
    assert!(agent.wait().success());
}

/// A process's output, line by line.
struct OutputLines(Receiver<String>);

impl OutputLines {
    fn by(stderr: ChildStderr) -> Self {
        let (say, printed) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(std::io::Result::ok) {
                let _ = say.send(line);
            }
        });
        Self(printed)
    }

    /// Waits for a line with these words, and skips the lines before.
    fn await_line(&self, words: &str) {
        let begin = Instant::now();
        let left = || (begin + SOON).saturating_duration_since(Instant::now());
        let mut passed = Vec::new();
        loop {
            match self.0.recv_timeout(left()) {
                Ok(line) if line.contains(words) => return,
                Ok(line) => passed.push(line),
                Err(error) => panic!("no line has {words:?}: {error}: {passed:#?}"),
            }
        }
    }
}

#[test]
fn an_agent_waits_for_its_coordinator() {
    let cluster = Cluster::new();
    let command = cluster.command("h1");
    let Cluster { coordinator, authority, dir } = cluster;
    let address = coordinator.address();
    drop(coordinator);
    let agent = Agent::start(command);
    let own = authority.identity(Role::Coordinator, HOUR).unwrap();
    let coordinator = accord_coordinator::Background::start(address, own, Limits::default()).unwrap();
    let cluster = Cluster { coordinator, authority, dir };
    cluster.until(|view| view.nodes.len() == 1);
    drop(agent);
}

#[test]
fn a_refused_agent_says_why_and_ends() {
    let cluster = Cluster::new();
    let other = cluster.dir.path().join("other");
    Authority::new("tests", HOUR).unwrap().issue_into(&other, Role::Agent("h1".into()), HOUR).unwrap();
    let ended = cluster.dir.path().join("ended");
    cluster.authority.issue_into(&ended, Role::Agent("h1".into()), Duration::ZERO).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    for (folder, complaint) in [
        (other, "of another authority"),
        (ended, "accord pki renew"),
        (cluster.tls(&Role::Agent("h2".into())), "agent h2 may not register node h1"),
        (cluster.tls(&Role::Tenant("eva".into())), "tenant eva may not register a node"),
        (cluster.dir.path().join("none"), "cannot read"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_accord-node-agent"))
            .args(["--coordinator", &cluster.coordinator.address().to_string(), "--node", "h1"])
            .args(["--listen", "127.0.0.1:0", "--gpus", "off", "--tls"])
            .arg(&folder)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(complaint), "{message}");
    }
}

#[test]
fn second_agent_with_the_same_node_name_replaces_the_first() {
    let cluster = Cluster::new();
    let mut first = cluster.agent("h1");
    let second = cluster.agent("h1");
    assert_eq!(first.wait().code(), Some(1));
    let mut message = String::new();
    first.child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("--node"), "{message}");
    let view = cluster.view();
    assert_eq!(view.nodes[0].links[0].address, second.address.to_string());
}

#[test]
fn garbage_and_wrong_lanes_leave_the_agent_alone() {
    let cluster = Cluster::new();
    let agent = cluster.agent("h1");
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 64][..], b"ACCORD\r\n"] {
        let mut stream = TcpStream::connect(agent.address.as_str()).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let _silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(agent.address.as_str()).unwrap()).collect();
    let error = lane_with(&agent.address, Purpose::Session, SessionId(0), &Key::random().unwrap()).unwrap_err();
    assert!(error.cause().contains("not the coordinator"), "{error}");
    // Malformed bytes on a command lane end only that session's executor.
    let (lease, _door) = cluster.open("elsewhere");
    let lane = command_lane(&lease).unwrap();
    let (_, executor) = agent.executor();
    lane.send(&[0xff; 4096]).unwrap();
    assert!(ends_within(&executor, SOON));
    let (lease, _door) = cluster.open("elsewhere");
    let _lane = command_lane(&lease).unwrap();
    agent.await_executors(1);
}

#[test]
fn an_agent_ends_with_its_standard_input() {
    let cluster = Cluster::new();
    let mut command = cluster.command("h1");
    command.arg("--stop-on-stdin-eof").stdin(Stdio::piped());
    let mut agent = Agent::start(command);
    let process = handle(agent.child.id()).unwrap();
    assert!(!ends_within(&process, Duration::ZERO));
    drop(agent.child.stdin.take());
    assert_eq!(agent.wait().code(), Some(0));
}

#[test]
fn a_machine_with_two_sockets_a_gpu_and_adapters_is_described() {
    let cluster = Cluster::new();
    let mut command = cluster.command("h1");
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/two-sockets.xml");
    command.env("HWLOC_XMLFILE", fixture);
    let _agent = Agent::start(command);
    let view = cluster.until(|view| view.nodes.len() == 1);
    let hardware = view.nodes[0].hardware.clone().unwrap();
    assert_eq!((hardware.cores, hardware.processors), (4, 4));
    let numa: Vec<_> = hardware.numa.iter().map(|n| (n.index, n.cpus.clone(), n.memory >> 30)).collect();
    assert_eq!(numa, [(0, vec![0, 1], 64), (1, vec![2, 3], 32)]);
    let devices: Vec<_> = hardware.devices.iter().map(|d| (&d.kind[..], &d.name[..], &d.pci[..], d.numa)).collect();
    assert_eq!(
        devices,
        [
            ("gpu", "", "0000:3b:00.0", Some(0)),
            ("network", "ib0,mlx5_0", "0000:86:00.0", Some(1)),
            ("network", "eth0", "0000:87:00.1", Some(1)),
        ]
    );
}

#[test]
fn without_hwloc_the_kernel_describes_the_machine() {
    let cluster = Cluster::new();
    let mut command = cluster.command("h1");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("libhwloc.so.15"), "not a library").unwrap();
    command.env("LD_LIBRARY_PATH", folder.path());
    let _agent = Agent::start(command);
    let view = cluster.until(|view| view.nodes.len() == 1);
    let hardware = view.nodes[0].hardware.clone().unwrap();
    assert!(hardware.cores >= 1 && hardware.processors >= hardware.cores, "{hardware:?}");
    assert!(hardware.numa.iter().any(|node| !node.cpus.is_empty() && node.memory > 0), "{hardware:?}");
    assert!(hardware.devices.is_empty(), "only hwloc knows these: {hardware:?}");
}

#[test]
fn an_executor_is_no_program_for_people() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_accord-node-agent"));
    let output = command.arg("executor").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("started by an agent only"), "{message}");
}
