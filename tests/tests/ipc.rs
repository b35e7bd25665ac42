//! Copies between GPUs that different processes of one machine drive, with the tests' own driver. The programs are this
//! binary, started again: they use a session as libacc does, and count the traffic of its lanes.

mod driver;

use accord_client::{
    InProcess, LocalDeviceClient, Order, Session, SessionSettings, TimeLimits, UserMessages, WantedDevices,
    connect_direct,
};
use accord_device::{SameHostPeers, StartConfig};
use accord_fabric::route::TransportChoice;
use accord_fabric::transport::PeerAddress;
use accord_fabric::{ProgramSpec, session_endpoint};
use accord_runtime::ports::{Cluster as _, DeviceClient, ReadWhen};
use accord_tests::{Cluster, Finished, Job, Tool, tool};
use accord_trust::Identity;
use accord_types::{DevicePtr, HostRange, OrderPolicy, QueueId, SessionRequest};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Test = Result<(), Failed>;

/// The variable with the program's task.
const PROGRAM: &str = "ACCORD_TEST_IPC_PROGRAM";
const MIB: u64 = 1 << 20;
/// More than a chunk, and not aligned.
const LEN: u64 = 66 * MIB + 3;
const OFFSET: u64 = 5;
/// Most bytes on lanes besides payload.
const WORDS_MAX: u64 = 10_000;

fn main() {
    let args = Arguments::from_args();
    if let Ok(what) = std::env::var(PROGRAM) {
        let done = match what.as_str() {
            "copies" => session().and_then(|(session, _door)| copies(&session)),
            "endless" => session().and_then(|(session, _door)| endless_copies(&session)),
            _ => copies_with_a_new_executor(),
        };
        if let Err(error) = done {
            println!("failed: {}", error.message().unwrap_or_default());
            std::process::exit(1);
        }
        return;
    }
    let tests = [
        ("executors_copy_without_lanes", executors as fn() -> Test),
        ("a_program_and_an_executor_copy_without_lanes", program_and_executor),
        ("a_hidden_gpu_of_the_programs_own_node_is_a_neighbor", hidden_gpu),
        ("lanes_are_used_if_people_say_so", switched_off),
        ("lanes_are_used_if_the_driver_refuses", driver_refuses),
        ("lanes_are_used_if_only_one_side_can", one_side_cannot),
        ("lanes_are_used_where_they_were_measured_to_take_less", measured),
        ("the_death_of_an_executor_is_an_error_and_no_hang", death_of_an_executor),
        ("an_executor_that_takes_anothers_place_is_a_neighbor_too", new_executor),
    ];
    let trials = tests.into_iter().map(|(name, test)| Trial::test(name, test)).collect();
    libtest_mimic::run(&args, trials).exit();
}

// The program.

/// Opens a session over all devices. This process drives those of the node `ACCORD_NODE` that are visible by
/// `CUDA_VISIBLE_DEVICES`.
fn session() -> Result<(Session, session_endpoint::SessionConnection), Failed> {
    let variable = |name: &str| std::env::var(name).map_err(|_| format!("{name} is not set"));
    let (address, node_name) = (variable("ACCORD_COORDINATOR")?, variable("ACCORD_NODE")?);
    let own = Identity::read(Path::new(&variable("ACCORD_TLS")?))?;
    let request = SessionRequest {
        node_name: node_name.clone(),
        pid: std::process::id(),
        program: "ipc".to_owned(),
        rank: None,
        kind: None,
        order: OrderPolicy::Global,
        devices: None,
        job: None,
    };
    let (lease, connection) =
        session_endpoint::open(&PeerAddress::new(address), &own, Duration::from_secs(10), &request)?;
    // Announces the session to the agents of all nodes.
    for device in &lease.devices {
        connection.ask_use(device.info.id);
        connection.next()?;
    }
    let ipc = variable("ACCORD_IPC").as_deref() != Ok("off");
    let displayed = variable("CUDA_VISIBLE_DEVICES").map_or(u32::MAX, |list| list.split(',').count() as u32);
    let settings = SessionSettings {
        coordinator: None,
        node_name,
        wanted: WantedDevices { order: Order::Global, ..WantedDevices::default() },
        devices: Vec::new(),
        local: Box::new(move |devices| {
            let client = |info: &accord_types::DeviceInfo| -> Arc<dyn LocalDeviceClient> {
                let config = StartConfig { ipc, ..StartConfig::default() };
                Arc::new(InProcess::new(info.clone(), None, config, None).expect("a GPU"))
            };
            Ok(devices.iter().map(|info| (info.id.ordinal < displayed).then(|| client(info))).collect())
        }),
        images: Arc::default(),
        same_host: ipc.then(|| SameHostPeers::new(|why| println!("note: {why}"))),
        program: ProgramSpec { exe: "/bin/ipc".to_owned(), ..ProgramSpec::default() },
        transport: TransportChoice::Auto,
        limits: TimeLimits { silence: None, opening: Duration::ZERO },
        messages: UserMessages { notify: Box::new(|_| ()), waits: Box::new(|_| ()) },
        trace: None,
    };
    Ok((connect_direct(lease, settings)?, connection))
}

/// A started device, and the start of a copy in its memory.
type Started = (Arc<dyn DeviceClient>, DevicePtr);

fn started(session: &Session) -> Result<Vec<Started>, Failed> {
    let start = |client: &Arc<dyn DeviceClient>| {
        client.start()?;
        let start = client.addresses().0;
        client.map(start, 70 * MIB)?;
        Ok((client.clone(), start.offset(OFFSET)))
    };
    session.clients().iter().map(start).collect()
}

fn pattern(seed: usize) -> Vec<u8> {
    let block: Vec<u8> = (0..65_521).map(|n: usize| (n.wrapping_mul(seed * 2 + 1) >> 3) as u8).collect();
    let mut bytes = block.repeat(LEN as usize / block.len() + 1);
    bytes.truncate(LEN as usize);
    bytes
}

fn range(bytes: &[u8]) -> HostRange {
    HostRange { start: bytes.as_ptr().expose_provenance(), len: bytes.len() }
}

/// Returns the bytes on all lanes of the session so far, as counted by the executors and the program.
fn on_lanes(session: &Session) -> Result<u64, Failed> {
    let sent = |counters: accord_fabric::stats::Counters| counters.bulk_sent + counters.bulk_received;
    Ok(session.report()?.into_iter().map(|link| sent(link.program) + sent(link.executor) + sent(link.peers)).sum())
}

/// Copies from each device to each other, twice, and prints the highest traffic on lanes for one copy.
fn copies(session: &Session) -> Test {
    let devices = started(session)?;
    let mut most = 0;
    for seed in 0..2 {
        for (source, (from, src)) in devices.iter().enumerate() {
            for (target, (to, dst)) in devices.iter().enumerate().filter(|(target, _)| *target != source) {
                let bytes = pattern(seed * 100 + source * 10 + target);
                from.copy_in(QueueId(1), *src, range(&bytes), ReadWhen::BeforeReturn)?;
                from.wait(&[QueueId(1)])?;
                let before = on_lanes(session)?;
                session.copy_between(QueueId(1), source, *src, target, *dst, LEN)?;
                from.wait(&[QueueId(1)])?;
                most = most.max(on_lanes(session)? - before);
                let mut arrived = vec![0; LEN as usize];
                let into = HostRange { start: arrived.as_mut_ptr().expose_provenance(), len: arrived.len() };
                to.copy_out(QueueId::SYNC, *dst, into)?;
                to.wait(&[QueueId::SYNC])?;
                if arrived != bytes {
                    return Err(format!("wrong bytes from {source} to {target}").into());
                }
            }
        }
    }
    // Newly mapped memory is another allocation.
    let (client, start) = devices.last().ok_or("no device")?;
    let base = DevicePtr(start.0 - OFFSET);
    client.unmap(QueueId::SYNC, base, 70 * MIB)?;
    client.wait(&[QueueId::SYNC])?;
    client.map(base, 70 * MIB)?;
    println!("devices={} lanes={most}", devices.len());
    Ok(())
}

/// Copies to and fro between the first and the last device until that fails.
fn endless_copies(session: &Session) -> Test {
    let devices = started(session)?;
    let last = devices.len() - 1;
    for round in 0u64.. {
        let (source, target) = if round.is_multiple_of(2) { (0, last) } else { (last, 0) };
        session.copy_between(QueueId(1), source, devices[source].1, target, devices[target].1, LEN)?;
        devices[source].0.wait(&[QueueId(1)])?;
        if round == 4 {
            println!("under way");
        }
    }
    Ok(())
}

/// Copies until that fails, shuts all devices down, and copies again.
fn copies_with_a_new_executor() -> Test {
    let (session, _door) = session()?;
    if endless_copies(&session).is_ok() {
        return Err("nothing was lost".into());
    }
    session.clients().iter().try_for_each(|client| client.shutdown())?;
    copies(&session)
}

// The tests.

fn program(cluster: &Cluster, driver: &Path, node: &str, what: &str) -> Result<Job, Failed> {
    Ok(Job::new(std::env::current_exe()?)
        .env(PROGRAM, what)
        .env("LD_LIBRARY_PATH", driver)
        .env("ACCORD_COORDINATOR", cluster.address())
        .env("ACCORD_TLS", cluster.tls())
        .env("ACCORD_NODE", node)
        .timeout(Duration::from_secs(60)))
}

fn cluster(driver: &Path, gpus: &[u32], environment: &[(&str, &str)]) -> Result<Cluster, Failed> {
    let builder = Cluster::builder().hosts(gpus.len() as u32).devices(0).gpus(gpus).env("LD_LIBRARY_PATH", driver);
    let builder = builder.env("ACCORD_CACHE", "off");
    Ok(environment.iter().fold(builder, |builder, (name, value)| builder.env(name, *value)).start()?)
}

fn lanes(finished: &Finished, devices: usize) -> Result<u64, Failed> {
    if finished.code() != 0 || !finished.stdout.contains(&format!("devices={devices} ")) {
        return Err(finished.report().into());
    }
    let text = finished.stdout.split("lanes=").nth(1).and_then(|rest| rest.split_whitespace().next());
    text.and_then(|text| text.parse().ok()).ok_or_else(|| finished.report().into())
}

fn few(finished: &Finished, devices: usize) -> Test {
    match lanes(finished, devices)? {
        0..WORDS_MAX => Ok(()),
        bytes => Err(format!("{bytes} bytes went over lanes").into()),
    }
}

fn many(finished: &Finished, devices: usize) -> Test {
    // Each side counts them.
    match lanes(finished, devices)? {
        bytes if bytes >= LEN => Ok(()),
        bytes => Err(format!("only {bytes} bytes went over lanes").into()),
    }
}

/// A node without an agent, so that the program has no devices of its own.
const ELSEWHERE: &str = "elsewhere";

fn executors() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[])?;
    few(&program(&cluster, driver.path(), ELSEWHERE, "copies")?.run()?, 2)
}

fn program_and_executor() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[])?;
    few(&program(&cluster, driver.path(), "h0", "copies")?.run()?, 2)
}

fn hidden_gpu() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[2], &[])?;
    let job = program(&cluster, driver.path(), "h0", "copies")?;
    few(&job.env("CUDA_VISIBLE_DEVICES", "0").run()?, 2)
}

fn switched_off() -> Test {
    let driver = driver::driver();
    let off = cluster(driver.path(), &[1, 1], &[("ACCORD_IPC", "off")])?;
    many(&program(&off, driver.path(), ELSEWHERE, "copies")?.run()?, 2)?;
    many(&program(&off, driver.path(), "h0", "copies")?.run()?, 2)?;
    let on = cluster(driver.path(), &[1, 1], &[])?;
    many(&program(&on, driver.path(), "h0", "copies")?.env("ACCORD_IPC", "off").run()?, 2)
}

fn driver_refuses() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[("FAKE_CUDA_IMPORT", "0")])?;
    many(&program(&cluster, driver.path(), ELSEWHERE, "copies")?.run()?, 2)?;
    // Each of the two executors maps the other one's memory.
    cluster.await_messages(|messages| {
        let printed = messages.matches("copies go over the network").count();
        printed == 2 && messages.contains("cuMemImportFromShareableHandle")
    })?;
    let finished = program(&cluster, driver.path(), "h0", "copies")?.env("FAKE_CUDA_IMPORT", "0").run()?;
    many(&finished, 2)?;
    if finished.stdout.matches("note: ").count() != 1 {
        return Err(finished.report().into());
    }
    Ok(())
}

fn one_side_cannot() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[("FAKE_CUDA_IPC", "0")])?;
    many(&program(&cluster, driver.path(), ELSEWHERE, "copies")?.run()?, 2)?;
    // The program can provide what the executor can't.
    many(&program(&cluster, driver.path(), "h0", "copies")?.run()?, 2)
}

/// Makes the agents measure their nodes, or read kept figures. Returns the reported way of a copy between two of them.
fn way_by_figures(cluster: &Cluster) -> Result<String, Failed> {
    let explain = Job::new(tool(Tool::Accord)?).args(["explain", "d2d", "0", "2", "64M", "--wait", "2m", "--json"]);
    let explain = explain.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls());
    let finished = explain.env("ACCORD_NODE", ELSEWHERE).timeout(Duration::from_secs(180)).run()?;
    let reported: Value = serde_json::from_str(&finished.stdout).map_err(|_| finished.report())?;
    match (&reported["taken"]["source"], reported["taken"]["way"].as_str()) {
        (source, Some(way)) if source != "default" => Ok(way.to_owned()),
        _ => Err(finished.report().into()),
    }
}

/// Agents' measurements decide, not the default order: kept figures pretend that mapped memory has a rate of a byte per
/// second.
fn measured() -> Test {
    let driver = driver::driver();
    let cache = tempfile::tempdir()?;
    let folder = cache.path().to_string_lossy();
    let start = || cluster(driver.path(), &[2, 2], &[("ACCORD_CACHE", &folder), ("ACCORD_MEASURE", "on")]);
    {
        let cluster = start()?;
        assert_eq!(way_by_figures(&cluster)?, "mapped");
        few(&program(&cluster, driver.path(), ELSEWHERE, "copies")?.run()?, 4)?;
    }
    let mut slowed = 0;
    for file in std::fs::read_dir(cache.path().join("figures"))? {
        let file = file?.path();
        let slow = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            ["pair", from, to, small, medium, _] => format!("pair {from} {to} {small} {medium} 1\n"),
            _ => format!("{line}\n"),
        };
        let text = std::fs::read_to_string(&file)?;
        slowed += usize::from(text.contains("\npair "));
        std::fs::write(&file, text.lines().map(slow).collect::<String>())?;
    }
    if slowed == 0 {
        return Err("no agent has measured copies between its GPUs".into());
    }
    let cluster = start()?;
    assert_eq!(way_by_figures(&cluster)?, "lane");
    many(&program(&cluster, driver.path(), ELSEWHERE, "copies")?.run()?, 4)
}

fn kill_executors(cluster: &Cluster, host: usize) -> Test {
    let executors = cluster.executors(host);
    if executors.is_empty() {
        return Err("there is no executor".into());
    }
    for executor in executors {
        kill(Pid::from_raw(executor.cast_signed()), Signal::SIGKILL)?;
    }
    Ok(())
}

fn new_executor() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[])?;
    for (node, victim) in accord_test_tier::cases(&[(ELSEWHERE, 0), ("h0", 1), (ELSEWHERE, 1)], 1) {
        let running = program(&cluster, driver.path(), node, "replaced")?.start()?;
        running.await_output("under way")?;
        kill_executors(&cluster, victim)?;
        few(&running.finish()?, 2)?;
    }
    Ok(())
}

fn death_of_an_executor() -> Test {
    let driver = driver::driver();
    let cluster = cluster(driver.path(), &[1, 1], &[])?;
    for (node, victim) in accord_test_tier::cases(&[("h0", 1), (ELSEWHERE, 0), (ELSEWHERE, 1)], 1) {
        let running = program(&cluster, driver.path(), node, "endless")?.start()?;
        running.await_output("under way")?;
        kill_executors(&cluster, victim)?;
        let finished = running.finish()?;
        if finished.timed_out || finished.code() != 1 || !finished.stdout.contains("failed: ") {
            return Err(finished.report().into());
        }
        // The other devices work.
        few(&program(&cluster, driver.path(), node, "copies")?.run()?, 2)?;
    }
    Ok(())
}
