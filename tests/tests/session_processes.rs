//! Effects of a session's processes on its node: none on the agent, none after the session.

use accord_tests::{Cluster, ClusterBuilder, Finished, Job, Running, Tool, gcc, repository_file, tool};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Users without names.
const ALICE: u32 = 60_001;
const BOB: u32 = 60_002;
/// How long processes of an ended session may stay.
const END: Duration = Duration::from_secs(20);

/// A folder that every user may enter, with a program.
struct Site {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Site {
    /// Returns `None`, and prints so, if this machine can't have it.
    fn new(program: &str) -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: only root can be several users");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join(program);
        let output = Command::new(gcc("gcc"))
            .args(["-O1", "-g", "-fopenacc", "-foffload=disable"])
            .arg(repository_file(&format!("tests/programs/cluster/{program}.c")))
            .arg("-o")
            .arg(&path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(Self { folder, program: path })
    }

    /// Returns a tenant's certificates, readable for this user alone.
    fn certificates(&self, cluster: &Cluster, user: u32) -> PathBuf {
        let folder = self.folder.path().join(format!("tls-{user}"));
        let given = if user == ALICE { cluster.tls() } else { cluster.tls_of(&format!("program-{user}")) };
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let file = folder.join(name);
            fs::copy(given.join(name), &file).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(user))).unwrap();
        }
        folder
    }

    fn start(&self, cluster: &Cluster, arguments: &[&str]) -> Running {
        self.job(cluster, arguments).start().unwrap()
    }

    fn job(&self, cluster: &Cluster, arguments: &[&str]) -> Job {
        self.job_of(ALICE, cluster, arguments)
    }

    fn job_of(&self, user: u32, cluster: &Cluster, arguments: &[&str]) -> Job {
        let job = cluster.job(0, &self.program).unwrap().user(user).env("ACCORD_TLS", self.certificates(cluster, user));
        job.args(arguments.iter().copied())
    }
}

/// Returns a cluster of two agents of root, whose tenant is Alice.
fn cluster() -> ClusterBuilder {
    let rules = format!("{ALICE}={ALICE}:{ALICE}");
    Cluster::builder().hosts(2).devices(1).memory("64M").tenant(ALICE).users(&rules).own_cgroups()
}

fn line<'a>(finished: &'a Finished, beginning: &str) -> &'a str {
    let line = finished.stdout.lines().find_map(|line| line.strip_prefix(beginning));
    line.unwrap_or_else(|| panic!("no {beginning} in {}", finished.report()))
}

#[test]
fn a_region_reaches_neither_its_agent_nor_its_executor() {
    let Some(site) = Site::new("attacks_agent") else { return };
    let cluster = cluster().start().unwrap();
    let (agent, log) = (cluster.agent_id(1).unwrap().to_string(), cluster.log(Some(1)).unwrap().to_owned());
    let running = site.start(&cluster, &[&agent, &log.to_string_lossy()]);
    let finished = running.finish().unwrap();
    assert_eq!(finished.code(), 0, "{}", finished.report());
    assert_eq!(line(&finished, "agent:"), "", "{}", finished.report());
    assert_eq!(line(&finished, "executor:"), "", "{}", finished.report());
    assert!(finished.stdout.contains("log=0 apart=1 dumpable=1 terminal=0\n"), "{}", finished.report());
    // The same attacks on a process that the region may trace: they can succeed, and its user may debug a worker.
    let own = line(&finished, "own:");
    for way in ["kill", "mem", "environ", "fd", "pidfd_getfd", "process_vm_writev", "ptrace"] {
        assert!(own.split(' ').any(|word| word == way), "{way} is not in {own}");
    }
}

/// Returns the process that the program's region has left running.
fn await_process(running: &Running) -> PathBuf {
    running.await_output("stays ").unwrap();
    let line = running.output();
    let id = line.lines().find_map(|line| line.strip_prefix("stays ")).unwrap().trim().to_owned();
    let process = PathBuf::from(format!("/proc/{id}"));
    assert!(is_alive(&process), "{line}");
    process
}

fn is_alive(process: &Path) -> bool {
    fs::read_to_string(process.join("stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start().to_owned());
        state.is_some_and(|state| !state.starts_with('Z'))
    })
}

fn assert_ends(process: &Path, when: &str) {
    let end = Instant::now() + END;
    while is_alive(process) {
        assert!(Instant::now() < end, "a process that a region has forked is there {when}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_forked_processes_end_with_the_session(builder: &ClusterBuilder) {
    let Some(site) = Site::new("forks_on") else { return };
    let mut cluster = builder.clone().start().unwrap();
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    running.signal(Signal::SIGKILL).unwrap();
    assert_ends(&process, "when its program was killed");
    drop(running);

    // The process ends with its executor, although nothing there waits for it any more.
    let (input, output) = std::io::pipe().unwrap();
    let running = site.job(&cluster, &["kill"]).stdin(input).start().unwrap();
    let process = await_process(&running);
    drop(output);
    assert_ends(&process, "when its region has killed the executor");
    let _ = running.signal(Signal::SIGKILL);
    drop(running);
    assert_eq!(cluster.processes_of(&site.program, END), Vec::<String>::new());

    // The process ends with a killed agent, too.
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    cluster.kill_agent(1);
    assert_ends(&process, "when its agent was killed");
    let _ = running.signal(Signal::SIGKILL);
    drop(running);

    // The process ends also if the region has stopped its executor before.
    cluster.start_agent(1).unwrap();
    cluster.await_devices(2).unwrap();
    let (input, output) = std::io::pipe().unwrap();
    let running = site.job(&cluster, &["stop"]).stdin(input).start().unwrap();
    let process = await_process(&running);
    let executor = executor_of(&cluster, 1);
    drop(output);
    await_state(&executor, 'T');
    cluster.kill_agent(1);
    assert_ends(&process, "when its executor was stopped and its agent killed");
    assert_ends(&executor, "when it was stopped and its agent killed");
    let _ = running.signal(Signal::SIGKILL);
}

/// Returns the only executor of a host.
fn executor_of(cluster: &Cluster, host: usize) -> PathBuf {
    let executors = cluster.executors(host);
    let [executor] = executors[..] else { panic!("{executors:?}") };
    PathBuf::from(format!("/proc/{executor}"))
}

fn await_state(process: &Path, state: char) {
    let end = Instant::now() + END;
    let has_state =
        || fs::read_to_string(process.join("status")).is_ok_and(|text| text.contains(&format!("State:\t{state}")));
    while !has_state() {
        assert!(Instant::now() < end, "{} is not in state {state}", process.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn forked_processes_end_with_the_session_by_cgroups() {
    assert_forked_processes_end_with_the_session(&cluster());
}

#[test]
fn forked_processes_end_with_the_session_without_cgroups() {
    assert_forked_processes_end_with_the_session(&cluster().without_cgroups());
}

#[test]
fn forked_processes_end_at_the_session_time_limit() {
    let Some(site) = Site::new("forks_on") else { return };
    for builder in [cluster(), cluster().without_cgroups()] {
        let cluster = builder.env("ACCORD_SESSION_TIME", "3s").start().unwrap();
        let running = site.start(&cluster, &["stay"]);
        let process = await_process(&running);
        assert_ends(&process, "beyond ACCORD_SESSION_TIME");
        let _ = running.signal(Signal::SIGKILL);
    }
}

/// A group of version 1's freezer, whose processes do not end even when killed, until it is dropped.
struct Freezer(PathBuf);

impl Freezer {
    /// Returns `None`, and prints so, if the machine has none.
    fn new() -> Option<Self> {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/freezer/accord-test-{}", std::process::id()));
        if fs::create_dir(&folder).is_err() || !folder.join("freezer.state").exists() {
            println!("skipped: no control group freezes processes here");
            return None;
        }
        Some(Self(folder))
    }

    fn freeze(&self, process: &Path) {
        fs::write(self.0.join("cgroup.procs"), process.file_name().unwrap().to_str().unwrap()).unwrap();
        fs::write(self.0.join("freezer.state"), "FROZEN").unwrap();
        let end = Instant::now() + END;
        while fs::read_to_string(self.0.join("freezer.state")).unwrap().trim() != "FROZEN" {
            assert!(Instant::now() < end, "it does not freeze");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn thaw(&self) {
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.thaw();
        let end = Instant::now() + END;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn await_log(cluster: &Cluster, words: &str) {
    let (log, end) = (cluster.log(Some(1)).unwrap().to_owned(), Instant::now() + END);
    while !fs::read_to_string(&log).unwrap().contains(words) {
        assert!(Instant::now() < end, "no {words:?}:\n{}", fs::read_to_string(&log).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_process_that_does_not_end_keeps_its_account_and_delays_no_other_session() {
    let Some(site) = Site::new("forks_on") else { return };
    let Some(freezer) = Freezer::new() else { return };
    // One number for all users, which Alice has.
    let cluster = cluster().other_tenants(&[BOB]).users("*=60003-60003").without_cgroups();
    let cluster = cluster.env("ACCORD_LOG", "info").start().unwrap();
    let running = site.start(&cluster, &["stay"]);
    let frozen = await_process(&running);
    freezer.freeze(&frozen);
    running.signal(Signal::SIGKILL).unwrap();
    drop(running);
    const GOES_ON: &str = "go on although they were killed";
    await_log(&cluster, GOES_ON);
    await_log(&cluster, "account 60003 goes to no other user");

    // Another session of hers waits for its own processes.
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    running.signal(Signal::SIGKILL).unwrap();
    drop(running);
    assert_ends(&process, "when its program was killed");
    let ended = |cluster: &Cluster| {
        cluster.await_info("no session", |info| info["sessions"].as_array().is_some_and(Vec::is_empty)).unwrap();
        let end = Instant::now() + END;
        while !cluster.executors(1).is_empty() {
            assert!(Instant::now() < end, "there is an executor");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    ended(&cluster);

    // Bob does not get the number.
    let refused = site.job_of(BOB, &cluster, &["stay"]).run().unwrap();
    assert_eq!(refused.code(), 1, "{}", refused.report());
    assert!(refused.stderr.contains("1 of them by processes that do not end"), "{}", refused.report());
    let log = fs::read_to_string(cluster.log(Some(1)).unwrap()).unwrap();
    assert_eq!(log.matches(GOES_ON).count(), 1, "{log}");
    assert!(is_alive(&frozen));

    freezer.thaw();
    await_log(&cluster, "no process of session");
    let running = site.job_of(BOB, &cluster, &["stay"]).start().unwrap();
    await_process(&running);
    running.signal(Signal::SIGKILL).unwrap();
}

/// An agent that is not root's: a region may stop its executor and its keeper.
#[test]
fn the_next_agent_ends_what_a_killed_one_has_left() {
    let Some(site) = Site::new("forks_on") else { return };
    let cluster = Cluster::builder().hosts(2).devices(1).memory("64M").tenant(ALICE).agents_of(ALICE);
    let mut cluster = cluster.start().unwrap();
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    let executor = executor_of(&cluster, 1);
    let keeper = fs::read_to_string(executor.join("stat")).unwrap();
    let keeper = keeper.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper), Signal::SIGSTOP).unwrap();
    await_state(&PathBuf::from(format!("/proc/{keeper}")), 'T');
    cluster.kill_agent(1);
    assert!(is_alive(&process));
    cluster.start_agent(1).unwrap();
    assert_ends(&process, "when another agent has started");
    let _ = running.signal(Signal::SIGKILL);
}

/// Whether the kernel of the second node enforces this limit of sessions; prints so if not.
fn enforces(cluster: &Cluster, limit: &str) -> bool {
    let info = cluster.info().unwrap();
    let limits = &info["nodes"][1]["kernel_limits"];
    let enforces = limits[limit] == true;
    if !enforces {
        println!("skipped: the kernel enforces no limit on {limit} here: {limits}");
    }
    enforces
}

/// Runs the program that takes too much beside another session of the node, which goes on.
fn take_too_much(builder: &ClusterBuilder, limit: &str, request: &str) -> Option<Finished> {
    let (site, others) = (Site::new("takes_too_much")?, Site::new("forks_on")?);
    let cluster = builder.clone().other_tenants(&[BOB]).users("*=60003-60012").start().unwrap();
    if !enforces(&cluster, limit) {
        return None;
    }
    let other = others.job_of(BOB, &cluster, &["stay"]).env("ACCORD_DEVICES", "1:cpu:16M on=h1").start().unwrap();
    let process = await_process(&other);
    let job = site.job(&cluster, &[limit]).env("ACCORD_DEVICES", request);
    let finished = job.run().unwrap();
    assert!(other.goes_on() && is_alive(&process), "another session has ended: {}", finished.report());
    other.signal(Signal::SIGKILL).unwrap();
    Some(finished)
}

#[test]
fn a_session_that_takes_more_host_memory_than_it_may_have_learns_the_limit() {
    let builder = cluster().env("ACCORD_SESSION_MEMORY", "256M");
    // The device's own memory is 64 MiB.
    let Some(finished) = take_too_much(&builder, "memory", "1:cpu:32M on=h1") else { return };
    assert!(finished.code() != 0 && !finished.stdout.contains("got"), "{}", finished.report());
    let words = "had more than the 320 MiB of host memory that";
    assert!(finished.stderr.contains(words) && finished.stderr.contains("ram="), "{}", finished.report());
    // A job that asks for it has it.
    let finished = take_too_much(&builder, "memory", "1:cpu:32M:ram=1500M on=h1").unwrap();
    assert!(finished.stdout.contains("got 1"), "{}", finished.report());
}

#[test]
fn a_session_that_forks_without_end_is_refused_more_and_its_log_says_so() {
    let builder = cluster().env("ACCORD_SESSION_PROCESSES", "100").env("ACCORD_LOG", "info");
    let Some(finished) = take_too_much(&builder, "processes", "1:cpu:32M on=h1") else { return };
    let got: u32 = line(&finished, "got ").parse().unwrap();
    assert!((1..100).contains(&got), "{}", finished.report());
}

#[test]
fn a_session_runs_on_no_more_cores_than_its_devices_have() {
    let Some(finished) = take_too_much(&cluster().devices(2), "cores", "1:cpu:32M on=h1") else { return };
    let got: usize = line(&finished, "got ").parse().unwrap();
    let all = std::thread::available_parallelism().unwrap().get();
    assert!(got == all.div_ceil(2) || got == all / 2, "{got} of {all}: {}", finished.report());
}

/// A node without control groups enforces nothing; one with them names what it enforces, or the reason for omissions.
#[test]
fn info_says_which_limits_the_kernel_enforces() {
    for (builder, has_groups) in [(cluster(), true), (cluster().without_cgroups(), false)] {
        let cluster = builder.start().unwrap();
        let info = cluster.info().unwrap();
        let nodes = info["nodes"].as_array().unwrap();
        assert!(!nodes.is_empty());
        for limits in nodes.iter().map(|node| &node["kernel_limits"]) {
            let enforced = ["memory", "processes", "cores", "device_files"].map(|name| limits[name].as_bool().unwrap());
            let why_not = limits["why_not"].as_str().unwrap();
            assert_eq!(enforced == [true; 4], why_not.is_empty(), "{limits}");
            if !has_groups {
                assert_eq!((enforced, why_not), ([false; 4], "the agent can make no control groups of version 2"));
            }
        }
        let job = Job::new(tool(Tool::Accord).unwrap()).arg("info").env("ACCORD_COORDINATOR", cluster.address());
        let displayed = job.env("ACCORD_TLS", cluster.tls_of("admin")).run().unwrap().success().unwrap().stdout;
        let why_not = nodes[0]["kernel_limits"]["why_not"].as_str().unwrap();
        let line = format!("are only asked for on h0, h1: {why_not}");
        assert!(displayed.contains("ENFORCED") && (why_not.is_empty() || displayed.contains(&line)), "{displayed}");
    }
}
