//! Bad input and faults of the cluster: an error with its remedy, never a hang, and nothing left behind. Faults of
//! programs alone are in `programs/c/bad_*.c`.

use accord_test_tier::cases;
use accord_tests::{Cluster, Finished, Job, Result, Running, Tool, libacc, test_program, tool};
use accord_trust::Role;
use accord_trust::issue::Authority;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time in which a program must notice a lost node, and a lost program's processes must end.
const LOST: Duration = Duration::from_secs(3);
/// Extra time on a busy machine.
const SLACK: Duration = Duration::from_secs(3);
/// The time limit for closing a connection with garbage.
const CLOSED: Duration = Duration::from_secs(20);

/// The transports on one machine and between machines.
const TRANSPORTS: [&str; 2] = ["shm", "tls"];

fn cluster() -> Cluster {
    cluster_by("auto")
}

fn cluster_by(transport: &str) -> Cluster {
    Cluster::builder().hosts(2).devices(1).memory("256M").env("ACCORD_TRANSPORT", transport).start().unwrap()
}

fn endless(cluster: &Cluster, arguments: &[&str]) -> Result<Running> {
    let job = cluster.job(0, &test_program("cluster/endless.c")?)?;
    let running = job.args(arguments.iter().copied()).timeout(Duration::from_secs(30)).start()?;
    running.await_output("ready")?;
    Ok(running)
}

fn works(cluster: &Cluster) {
    cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap().run().unwrap().success().unwrap();
}

fn failed_with(finished: &Finished, words: &[&str]) {
    assert!(!finished.timed_out, "hangs: {}", finished.report());
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
}

// ---- at start -----------------------------------------------------------------------------

fn program_with_coordinator(address: &str, tls: Option<&Path>) -> Finished {
    let mut job = Job::new(test_program("cluster/device_count.c").unwrap())
        .env("LD_PRELOAD", libacc().unwrap())
        .env("ACCORD_COORDINATOR", address)
        .env("ACCORD_OPEN_TIMEOUT", "300ms")
        .timeout(Duration::from_secs(30));
    job = match tls {
        Some(tls) => job.env("ACCORD_TLS", tls),
        None => job.env("HOME", "/nonexistent"),
    };
    job.run().unwrap()
}

#[test]
fn no_coordinator_at_the_address() {
    let cluster = cluster();
    // A port without a listener: it was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let finished = program_with_coordinator(&free, Some(&cluster.tls()));
    failed_with(&finished, &[&free, "acc_error_"]);
}

#[test]
fn nonsense_as_address() {
    let cluster = cluster();
    let finished = program_with_coordinator("no such host.invalid:port", Some(&cluster.tls()));
    failed_with(&finished, &["no such host.invalid:port", "acc_error_"]);
}

#[test]
fn no_certificate() {
    let cluster = cluster();
    failed_with(&program_with_coordinator(cluster.address(), None), &["ACCORD_TLS", "accord pki issue"]);
}

#[test]
fn wrong_certificates() {
    let cluster = cluster();
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong");
    let hour = Duration::from_secs(3600);
    Authority::new("tests", hour).unwrap().issue_into(&wrong, Role::Tenant("eva".into()), hour).unwrap();
    let finished = program_with_coordinator(cluster.address(), Some(&wrong));
    failed_with(&finished, &["of another authority", "ca.crt", "acc_error_"]);
    let finished = program_with_coordinator(cluster.address(), Some(&cluster.tls_of("h0")));
    failed_with(&finished, &["agent h0 may not open sessions", "tenant", "acc_error_"]);
    works(&cluster);
}

/// Starts a listener that is no coordinator: it answers with `answer`, or not at all.
fn impostor(answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let mut bytes = [0; 4096];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(answer);
        // Until the program disconnects.
        let _ = stream.set_read_timeout(Some(CLOSED));
        while let Ok(1..) = stream.read(&mut bytes) {}
    });
    (address, thread)
}

#[test]
fn something_else_listens_at_the_coordinators_address() {
    let cluster = cluster();
    for answer in [&b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..], &[0xff; 4096], b"ACCORD\r\n"] {
        let (address, thread) = impostor(answer);
        let finished = program_with_coordinator(&address, Some(&cluster.tls()));
        failed_with(&finished, &[&address]);
        thread.join().unwrap();
    }
}

#[test]
fn a_coordinator_that_never_answers() {
    let cluster = cluster();
    let (address, thread) = impostor(b"");
    let finished = program_with_coordinator(&address, Some(&cluster.tls()));
    failed_with(&finished, &[&address]);
    thread.join().unwrap();
}

/// Runs a program in a shell that has lowered a limit before.
fn limited(limit: &str) -> Finished {
    let program = test_program("c/data_copy.c").unwrap();
    let script = format!("{limit}; LD_PRELOAD=$LIBRARY exec {}", program.display());
    Job::new("bash").args(["-c", &script]).env("LIBRARY", libacc().unwrap()).run().unwrap()
}

#[test]
fn no_room_for_device_memory() {
    failed_with(&limited("trap '' XFSZ; ulimit -f 1000"), &["device memory", "acc_error_", "ulimit"]);
}

#[test]
fn no_address_space_for_device_memory() {
    failed_with(
        &limited("export ACCORD_CPU_MEMORY=256M; ulimit -v 200000"),
        &["device memory", "acc_error_", "ulimit"],
    );
}

// ---- lost agents --------------------------------------------------------------------------

fn agent_dies_during(arguments: &[&str]) {
    TRANSPORTS.iter().for_each(|transport| agent_dies_during_by(transport, arguments));
}

fn agent_dies_during_by(transport: &str, arguments: &[&str]) {
    let mut cluster = cluster_by(transport);
    let running = endless(&cluster, arguments).unwrap();
    let killed = Instant::now();
    cluster.kill_agent(1);
    let finished = running.finish().unwrap();
    let took = killed.elapsed();
    failed_with(&finished, &["acc_error_device_unavailable"]);
    assert!(took < LOST + SLACK, "took {took:?}: {}", finished.report());
    // The rest goes on, and the node can return.
    cluster.start_agent(1).unwrap();
    cluster.await_devices(2).unwrap();
    works(&cluster);
}

#[test]
fn agent_dies_during_a_launch() {
    agent_dies_during(&["launch", "1"]);
}

#[test]
fn agent_dies_during_a_copy() {
    agent_dies_during(&["copy", "1"]);
}

#[test]
fn agent_dies_during_a_d2d_as_source() {
    agent_dies_during(&["d2d", "1", "0"]);
}

#[test]
fn agent_dies_during_a_d2d_as_target() {
    agent_dies_during(&["d2d", "0", "1"]);
}

/// Both ends of a copy notice; the error names the lost one.
#[test]
fn a_loss_in_d2d_names_the_node_that_was_lost() {
    let mut wrong = Vec::new();
    for round in cases(&Vec::from_iter(0..12u32), 4) {
        let mut cluster = Cluster::builder().hosts(3).devices(1).memory("64M").start().unwrap();
        let (arguments, lost) =
            (if round % 2 == 0 { ["d2d", "1", "2"] } else { ["d2d", "2", "1"] }, 1 + round as usize / 2 % 2);
        let running = endless(&cluster, &arguments).unwrap();
        // No synchronisation: the delay varies the moment.
        std::thread::sleep(Duration::from_millis(u64::from(round * 7 % 30)));
        cluster.kill_agent(lost);
        let finished = running.finish().unwrap();
        failed_with(&finished, &["acc_error_device_unavailable"]);
        let (named, other) = (format!("h{lost}"), format!("h{}", 3 - lost));
        let line = finished.stderr.lines().find(|line| line.contains("acc_error_")).unwrap().to_owned();
        // The prefix names the device of the call, which may be the other one; the lost one follows.
        let printed = line.split_once("): ").map_or(&*line, |(_, printed)| printed);
        if !printed.contains(&named) || printed.contains(&other) {
            wrong.push(format!("{lost} was lost in {arguments:?}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Whatever is in progress when the agent dies, the program ends with the error in time.
#[test]
fn agent_dies_at_any_moment() {
    let program = test_program("cluster/random_work.c").unwrap();
    let all = Vec::from_iter((0..8u32).zip(TRANSPORTS.into_iter().cycle()));
    for (seed, transport) in cases(&all, 3) {
        let mut cluster = cluster_by(transport);
        let running = cluster
            .job(0, &program)
            .unwrap()
            .args([&seed.to_string(), "10000000"])
            .timeout(Duration::from_secs(30))
            .start()
            .unwrap();
        // A node without an agent would be in no lease.
        cluster.await_info("a session", |info| info["sessions"].as_array().is_some_and(|all| !all.is_empty())).unwrap();
        // No synchronisation: the delay varies the moment.
        std::thread::sleep(Duration::from_millis(u64::from(seed * seed * 12)));
        let killed = Instant::now();
        cluster.kill_agent(1);
        let finished = running.finish().unwrap();
        let took = killed.elapsed();
        failed_with(&finished, &["acc_error_device_unavailable"]);
        assert!(took < LOST + SLACK, "took {took:?}: {}", finished.report());
    }
}

// ---- lost executors -----------------------------------------------------------------------

/// Kills an agent's executor, and waits for its end. Returns `false` if there is none.
fn kill_executor(cluster: &Cluster) -> bool {
    let executors = || {
        let mut found = cluster.processes_besides_parts(Duration::ZERO);
        found.retain(|line| line.ends_with(" executor"));
        found
    };
    let Some(before) = executors().first().cloned() else { return false };
    let id = before.split(' ').next().and_then(|id| id.parse().ok()).expect("a process id");
    // The executor may end by itself meanwhile.
    let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
    while executors().contains(&before) {
        std::thread::yield_now();
    }
    true
}

#[test]
fn executor_dies_during_work() {
    for transport in TRANSPORTS {
        for arguments in cases(&[&["launch", "1"][..], &["copy", "1"], &["d2d", "1", "0"], &["d2d", "0", "1"]], 1) {
            let cluster = cluster_by(transport);
            let running = endless(&cluster, arguments).unwrap();
            assert!(kill_executor(&cluster));
            let finished = running.finish().unwrap();
            failed_with(&finished, &["acc_error_device_unavailable", "lost", "node h1"]);
            works(&cluster);
        }
    }
}

/// Whatever is in progress when it dies, the program ends with the error in time.
#[test]
fn executor_dies_at_any_moment() {
    let program = test_program("cluster/random_work.c").unwrap();
    let all = Vec::from_iter((0..6u32).zip(TRANSPORTS.into_iter().cycle()));
    for (seed, transport) in cases(&all, 3) {
        let builder = Cluster::builder().hosts(3).devices(1).memory("64M");
        let cluster = builder.env("ACCORD_TRANSPORT", transport).start().unwrap();
        let job = cluster.job(0, &program).unwrap().args([&seed.to_string(), "10000000"]);
        let running = job.timeout(Duration::from_secs(30)).start().unwrap();
        // No synchronisation: the delay varies the moment.
        std::thread::sleep(Duration::from_millis((seed * seed * 15).into()));
        kill_executor(&cluster);
        // An executor that dies while its device starts is replaced at once, but only once.
        let begin = Instant::now();
        while running.goes_on() && begin.elapsed() < Duration::from_secs(30) {
            kill_executor(&cluster);
            std::thread::sleep(Duration::from_millis(10));
        }
        failed_with(&running.finish().unwrap(), &["acc_error_device_unavailable"]);
    }
}

#[test]
fn an_executor_that_died_is_replaced_after_a_shutdown() {
    let cluster = Cluster::builder().hosts(3).devices(2).memory("64M").start().unwrap();
    let program = test_program("cluster/on_request.c").unwrap();
    let (input, mut output) = std::io::pipe().unwrap();
    let running = cluster.job(0, &program).unwrap().stdin(input).start().unwrap();
    let mut ask = {
        let mut step = 0;
        let running = &running;
        move |line: &[u8]| {
            step += 1;
            output.write_all(line).unwrap();
            running.await_output(&format!("done {step}\n")).unwrap();
        }
    };
    ask(b"compute\n");
    for _ in 0..3 {
        assert!(kill_executor(&cluster));
        ask(b"shutdown\n");
        ask(b"compute\n");
    }
    // No device has failed, so no new ones are needed.
    ask(b"shutdown\n");
    ask(b"compute\n");
    drop(ask);
    running.finish().unwrap().success().unwrap();
}

#[test]
fn an_executor_that_died_is_missed_without_a_shutdown() {
    let cluster = cluster();
    let program = test_program("cluster/on_request.c").unwrap();
    let (input, mut output) = std::io::pipe().unwrap();
    let running = cluster.job(0, &program).unwrap().stdin(input).start().unwrap();
    output.write_all(b"compute\n").unwrap();
    running.await_output("done 1\n").unwrap();
    assert!(kill_executor(&cluster));
    output.write_all(b"compute\n").unwrap();
    drop(output);
    failed_with(&running.finish().unwrap(), &["acc_error_device_unavailable", "lost", "acc_shutdown"]);
}

#[test]
fn a_killed_executor_is_reported_as_killed() {
    let cluster = cluster();
    let running = endless(&cluster, &["launch", "1"]).unwrap();
    assert!(kill_executor(&cluster));
    let finished = running.finish().unwrap();
    failed_with(&finished, &["node h1", "its process has ended: signal: 9 (SIGKILL)"]);
    assert!(!finished.stderr.contains("out-of-memory"), "{}", finished.report());
}

// ---- lost programs ------------------------------------------------------------------------

#[test]
fn a_killed_program_leaves_nothing_on_any_node() {
    let works_of = [&["launch", "1"][..], &["copy", "1"], &["idle", "1"], &["d2d", "1", "0"]];
    for (arguments, transport) in works_of.into_iter().flat_map(|work| TRANSPORTS.map(|transport| (work, transport))) {
        let cluster = cluster_by(transport);
        let running = endless(&cluster, arguments).unwrap();
        let busy = cluster.processes_besides_parts(Duration::ZERO);
        assert!(!busy.is_empty(), "the node has an executor for the program");
        running.signal(Signal::SIGKILL).unwrap();
        let left = cluster.processes_besides_parts(LOST + SLACK);
        assert!(left.is_empty(), "{arguments:?}: {left:?}");
        let finished = running.finish().unwrap();
        assert!(finished.left_behind.is_empty(), "{arguments:?}: {}", finished.report());
        cluster
            .await_info("no sessions", |info: &Value| info["sessions"].as_array().is_some_and(Vec::is_empty))
            .unwrap();
        works(&cluster);
    }
}

#[test]
fn an_interrupted_program_leaves_nothing() {
    let cluster = cluster();
    let running = endless(&cluster, &["launch", "1"]).unwrap();
    running.signal(Signal::SIGINT).unwrap();
    let finished = running.finish().unwrap();
    assert_eq!(finished.code(), 128 + Signal::SIGINT as i32, "{}", finished.report());
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    let left = cluster.processes_besides_parts(LOST + SLACK);
    assert!(left.is_empty(), "{left:?}");
}

/// `accord run` ends everything, agents included, on an interrupt and when it is killed itself.
#[test]
fn accord_run_with_busy_devices_leaves_nothing() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let running = Job::new(tool(Tool::Accord).unwrap())
            .env("ACCORD_LIBACC", libacc().unwrap())
            .env("ACCORD_CPU_MEMORY", "128M")
            .args(["run", "--local-cluster", "2x1", "--"])
            .arg(test_program("cluster/endless.c").unwrap())
            .args(["launch", "1"])
            .timeout(Duration::from_secs(30))
            .start()
            .unwrap();
        running.await_output("ready").unwrap();
        running.signal(signal).unwrap();
        let finished = running.finish().unwrap();
        assert!(!finished.timed_out, "{signal}: {}", finished.report());
        assert_eq!(finished.code(), 128 + signal as i32, "{signal}: {}", finished.report());
        assert!(finished.left_behind.is_empty(), "{signal}: {}", finished.report());
    }
}

// ---- lost coordinators --------------------------------------------------------------------

#[test]
fn the_coordinator_may_be_killed_and_restarted_under_running_programs() {
    let mut cluster = cluster();
    let program = test_program("cluster/stepwise.c").unwrap();
    let (input, mut output) = std::io::pipe().unwrap();
    let running = cluster.job(0, &program).unwrap().stdin(input).start().unwrap();
    output.write_all(b"go\n").unwrap();
    running.await_output("step 1").unwrap();
    cluster.kill_coordinator();
    output.write_all(b"go\n").unwrap();
    running.await_output("step 2").unwrap();
    cluster.start_coordinator().unwrap();
    cluster.await_devices(2).unwrap();
    output.write_all(b"go\n").unwrap();
    running.await_output("step 3").unwrap();
    drop(output);
    running.finish().unwrap().success().unwrap();
    works(&cluster);
}

#[test]
fn agents_and_the_coordinator_stop_on_sigterm() {
    let mut cluster = cluster();
    assert_eq!(cluster.terminate(Some(1)).unwrap(), 0, "agent");
    cluster.await_devices(1).unwrap();
    assert_eq!(cluster.terminate(None).unwrap(), 0, "coordinator");
    assert_eq!(cluster.terminate(Some(0)).unwrap(), 0, "agent without coordinator");
}

// ---- garbage ------------------------------------------------------------------------------

/// Returns an agent's address, as printed by `accord info`.
fn agent_address(cluster: &Cluster) -> String {
    let info = cluster.info().unwrap();
    let link = info["nodes"][0]["links"][0].as_str().unwrap().to_owned();
    link.split_whitespace().last().unwrap().to_owned()
}

/// Sends bytes and is then silent; returns `true` once the other side has disconnected.
fn thrown_out(address: &str, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(CLOSED)).unwrap();
    if stream.write_all(bytes).is_err() {
        return true;
    }
    let mut answer = [0; 4096];
    loop {
        match stream.read(&mut answer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn garbage_half_and_enormous_frames_end_only_their_own_connection() {
    let cluster = cluster();
    let running = endless(&cluster, &["launch", "1"]).unwrap();
    let mut enormous = b"ACCORD\r\n".to_vec();
    enormous.extend((1u64 << 60).to_le_bytes().repeat(32));
    let garbage: Vec<u8> = (0..4096u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for address in [cluster.address().to_owned(), agent_address(&cluster)] {
        for bytes in [&garbage[..], &enormous[..], &enormous[..9], b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff"]
        {
            assert!(thrown_out(&address, bytes), "{address} keeps {} bytes and silence", bytes.len());
        }
    }
    running.signal(Signal::SIGKILL).unwrap();
    running.finish().unwrap();
    works(&cluster);
}
