//! What a session's processes can do to its node: nothing to the agent, nothing after the session.

use accord_tests::{Cluster, ClusterBuilder, Finished, Job, Running, gcc, repository_file};
use nix::sys::signal::Signal;
use nix::unistd::{Gid, Uid, chown, geteuid};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A user without a name.
const ALICE: u32 = 60_001;
/// How long processes of a session may stay when it has ended.
const END: Duration = Duration::from_secs(20);

/// A folder that every user may enter, with a program.
struct Site {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Site {
    /// None if this machine can't have it, and prints so.
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

    /// The tenant's certificates, for this user alone.
    fn certificates(&self, cluster: &Cluster) -> PathBuf {
        let folder = self.folder.path().join("tls");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        for name in ["ca.crt", "tls.crt", "tls.key"] {
            let file = folder.join(name);
            fs::copy(cluster.tls().join(name), &file).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(Uid::from_raw(ALICE)), Some(Gid::from_raw(ALICE))).unwrap();
        }
        folder
    }

    fn start(&self, cluster: &Cluster, arguments: &[&str]) -> Running {
        self.job(cluster, arguments).start().unwrap()
    }

    fn job(&self, cluster: &Cluster, arguments: &[&str]) -> Job {
        let job = cluster.job(0, &self.program).unwrap().user(ALICE).env("ACCORD_TLS", self.certificates(cluster));
        job.args(arguments.iter().copied())
    }
}

/// A cluster of two agents of root, whose tenant is Alice.
fn cluster() -> ClusterBuilder {
    let rules = format!("{ALICE}={ALICE}:{ALICE}");
    Cluster::builder().hosts(2).devices(1).memory("64M").tenant(ALICE).users(&rules)
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
    assert!(finished.stdout.contains("log=0 apart=1 dumpable=1"), "{}", finished.report());
    // The same attacks on a process that is the region's to trace: they can succeed, and its user may debug a worker.
    let own = line(&finished, "own:");
    for way in ["kill", "mem", "environ", "fd", "pidfd_getfd", "process_vm_writev", "ptrace"] {
        assert!(own.split(' ').any(|word| word == way), "{way} is not in {own}");
    }
}

/// The process that the program's region has left running.
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

fn what_a_region_forks_ends_with_the_session(builder: &ClusterBuilder) {
    let Some(site) = Site::new("forks_on") else { return };
    let mut cluster = builder.clone().start().unwrap();
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    running.signal(Signal::SIGKILL).unwrap();
    assert_ends(&process, "when its program was killed");
    drop(running);

    // With its executor it ends as well, though nothing looks after it there any more.
    let (input, output) = std::io::pipe().unwrap();
    let running = site.job(&cluster, &["kill"]).stdin(input).start().unwrap();
    let process = await_process(&running);
    drop(output);
    assert_ends(&process, "when its region has killed the executor");
    let _ = running.signal(Signal::SIGKILL);
    drop(running);
    assert_eq!(cluster.processes_of(&site.program, END), Vec::<String>::new());

    // And with an agent that is killed.
    let running = site.start(&cluster, &["stay"]);
    let process = await_process(&running);
    cluster.kill_agent(1);
    assert_ends(&process, "when its agent was killed");
    let _ = running.signal(Signal::SIGKILL);
}

#[test]
fn what_a_region_forks_ends_with_the_session_by_control_groups() {
    what_a_region_forks_ends_with_the_session(&cluster());
}

#[test]
fn what_a_region_forks_ends_with_the_session_without_control_groups() {
    what_a_region_forks_ends_with_the_session(&cluster().without_cgroups());
}

#[test]
fn what_a_region_forks_ends_when_the_session_has_lasted_long_enough() {
    let Some(site) = Site::new("forks_on") else { return };
    for builder in [cluster(), cluster().without_cgroups()] {
        let cluster = builder.env("ACCORD_SESSION_TIME", "3s").start().unwrap();
        let running = site.start(&cluster, &["stay"]);
        let process = await_process(&running);
        assert_ends(&process, "beyond ACCORD_SESSION_TIME");
        let _ = running.signal(Signal::SIGKILL);
    }
}
