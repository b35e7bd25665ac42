//! Residual data of a session in a device's memory: the next session finds none, on CPU devices and on GPUs whose
//! driver does not clear memory. The next session belongs to another user, if the test can run several.

mod driver;

use accord_tests::{Cluster, ClusterBuilder, Job, test_program};
use driver::driver;
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Users without a name.
const ALICE: u32 = 60_001;
const BOB: u32 = 60_002;

/// The user that leaves bytes, and the user that searches for them.
#[derive(Clone, Copy)]
struct Users {
    leaves: Option<u32>,
    looks: Option<u32>,
}

/// This process's own user.
const ONE: Users = Users { leaves: None, looks: None };
const TWO: Users = Users { leaves: Some(ALICE), looks: Some(BOB) };

impl Users {
    /// Returns [`TWO`]; `None`, with a message, if this process can't run several users.
    fn two() -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: only root can be several users");
            return None;
        }
        Some(TWO)
    }

    fn cluster(self) -> ClusterBuilder {
        let builder = Cluster::builder().hosts(2);
        let (Some(leaves), Some(looks)) = (self.leaves, self.looks) else { return builder };
        let rules = format!("{leaves}={leaves}:{leaves},{looks}={looks}:{looks}");
        builder.tenant(leaves).other_tenants(&[looks]).users(&rules)
    }
}

/// Returns `what` of remains.c, as a program of this user.
fn job(cluster: &Cluster, user: Option<u32>, what: &str) -> Job {
    let job = cluster.job(0, &test_program("cluster/remains.c").unwrap()).unwrap().arg(what).timeout(LIMIT);
    let Some(user) = user else { return job };
    let certificates = if user == BOB { format!("program-{BOB}") } else { "program".to_owned() };
    job.user(user).env("ACCORD_TLS", cluster.tls_of(&certificates))
}

/// Returns the user of each process.
fn owners(processes: &[i32]) -> Vec<Option<u32>> {
    let status = |id: &i32| fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let user =
        |text: String| text.lines().find_map(|line| line.strip_prefix("Uid:\t")?.split('\t').next()?.parse().ok());
    processes.iter().map(status).map(user).collect()
}

/// A session that ends normally, one whose program is killed, and one whose executor is.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    Well,
    ProgramKilled,
    ExecutorKilled,
}

fn executors(cluster: &Cluster) -> Vec<i32> {
    [0, 1].iter().flat_map(|host| cluster.executors(*host)).filter_map(|id| i32::try_from(id).ok()).collect()
}

fn leave(cluster: &Cluster, users: Users, end: End) {
    let (input, output) = std::io::pipe().unwrap();
    let running = job(cluster, users.leaves, "leave").stdin(input).start().unwrap();
    running.await_output("left\n").unwrap();
    if users.leaves.is_some() {
        assert_eq!(owners(&executors(cluster)), [users.leaves], "who has the memory");
    }
    match end {
        End::Well => {}
        End::ProgramKilled => running.signal(Signal::SIGKILL).unwrap(),
        End::ExecutorKilled => {
            let executors = executors(cluster);
            assert!(!executors.is_empty(), "no executor has the memory");
            for id in executors {
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(id), Signal::SIGKILL).unwrap();
            }
        }
    }
    drop(output);
    let finished = running.finish().unwrap();
    assert!(!finished.timed_out, "{}", finished.report());
    let left = cluster.processes_besides_parts(Duration::from_secs(10));
    assert!(left.is_empty(), "{left:?}");
    // Other users' processes carry no mark of the test.
    let begun = Instant::now();
    while !executors(cluster).is_empty() {
        assert!(begun.elapsed() < LIMIT, "executors stay");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn assert_later_programs_do_not_find_it(cluster: &Cluster, users: Users) {
    for end in [End::Well, End::ProgramKilled, End::ExecutorKilled] {
        leave(cluster, users, end);
        let finished = job(cluster, users.looks, "look").run().unwrap().success().unwrap();
        assert_eq!(finished.stdout, "seen 0\n", "{end:?}: {}", finished.report());
    }
}

fn of_cpu_devices(users: Users) {
    assert_later_programs_do_not_find_it(&users.cluster().devices(1).memory("64M").start().unwrap(), users);
}

fn of_gpus(users: Users) {
    let (driver, memory) = (driver(), tempfile::tempdir().unwrap());
    open_to_all(driver.path(), 0o755);
    // The files that represent a driver's memory belong to all users.
    open_to_all(memory.path(), 0o777);
    for gpu in ["gpu-0-0", "gpu-1-0"] {
        File::create(memory.path().join(gpu)).unwrap();
        open_to_all(&memory.path().join(gpu), 0o666);
    }
    let cluster = users
        .cluster()
        .devices(0)
        .gpus(&[1, 1])
        .env("LD_LIBRARY_PATH", driver.path())
        .env("NVIDIA_FAKE_CUDA_REMAINS", memory.path())
        .env("NVIDIA_FAKE_CUDA_MEMORY", "134217728")
        .env("ACCORD_CACHE", "off")
        .start()
        .unwrap();
    assert_later_programs_do_not_find_it(&cluster, users);
    // The bytes are still in free memory, because the tests' own driver does not clear it.
    leave(&cluster, users, End::Well);
    let file = fs::read(memory.path().join("gpu-1-0")).unwrap();
    assert!(file.iter().filter(|byte| **byte == 0x5e).count() >= 24 << 20);
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn nothing_of_a_session_is_left_in_a_cpu_devices_memory() {
    of_cpu_devices(ONE);
}

#[test]
fn nothing_of_a_session_is_left_in_a_gpus_memory() {
    of_gpus(ONE);
}

#[test]
fn another_user_finds_nothing_in_a_cpu_devices_memory() {
    if let Some(users) = Users::two() {
        of_cpu_devices(users);
    }
}

#[test]
fn another_user_finds_nothing_in_a_gpus_memory() {
    if let Some(users) = Users::two() {
        of_gpus(users);
    }
}
