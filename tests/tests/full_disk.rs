//! Coordinator, agents and executors with a full disk: for messages, GPU code and figures. They go on, and so do their
//! programs; files are complete or absent.
#![forbid(unsafe_code)]

mod driver;

use accord_tests::{
    Cluster, ClusterBuilder, Finished, Language, Optimize, Program, Running, Variant, compile, compile_support,
    repository_file, test_program,
};
use driver::driver;
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io::{ErrorKind, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PAGE: u64 = 4096;
const LIMIT: Duration = Duration::from_secs(60);

/// A small disk that is visible only to this thread and to processes that it starts.
struct Disk(TempDir);

impl Disk {
    /// Returns `None`, and prints so, if this machine can't have it.
    fn new(kibibytes: u32) -> Option<Self> {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNS) {
            println!("skipped: no disk of its own for this test: {error}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mount = |arguments: &[&str]| Command::new("mount").args(arguments).arg(folder.path()).status();
        let private = Command::new("mount").args(["--make-rprivate", "/"]).status();
        let mounted = private.and_then(|_| mount(&["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"]));
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: no disk of its own for this test: mount fails");
            return None;
        }
        Some(Self(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Leaves this many free pages.
    fn fill_up_to(&self, pages: u64) {
        let mut file = File::create(self.path("filler")).unwrap();
        let mut written = 0;
        loop {
            match file.write(&[1; PAGE as usize]) {
                Ok(len) => written += len as u64,
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => panic!("{error}"),
            }
        }
        file.set_len(written.saturating_sub(pages * PAGE)).unwrap();
    }

    fn is_full(&self) -> bool {
        let probe = self.path("probe");
        let written = fs::write(&probe, [1]);
        fs::remove_file(&probe).unwrap();
        written.is_err_and(|error| error.kind() == ErrorKind::StorageFull)
    }

    fn make_space(&self) {
        fs::remove_file(self.path("filler")).unwrap();
    }

    /// Returns the files on it, except those that fill it.
    fn files(&self) -> Vec<PathBuf> {
        let (mut open, mut found) = (vec![self.0.path().to_owned()], Vec::new());
        while let Some(folder) = open.pop() {
            for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    open.push(path.clone());
                } else if !path.ends_with("filler") {
                    found.push(path);
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Returns a cluster that writes everything to the disk.
fn on(disk: &Disk) -> ClusterBuilder {
    Cluster::builder().folder_in(disk.0.path()).env("ACCORD_CACHE", disk.path("cache"))
}

fn works(cluster: &Cluster) {
    for host in 0..3 {
        let job = cluster.job(host, &test_program("c/devices_each.c").unwrap()).unwrap();
        let finished = job.timeout(LIMIT).run().unwrap().success().unwrap();
        assert_eq!(finished.stderr, "");
    }
}

/// Starts a program that uses all devices, one step per line of input.
fn steps(cluster: &Cluster) -> (Running, PipeWriter) {
    let (input, output) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/on_request.c").unwrap()).unwrap();
    (job.stdin(input).timeout(LIMIT).start().unwrap(), output)
}

fn step(of: &mut (Running, PipeWriter), nth: u32) {
    writeln!(of.1, "compute").unwrap();
    of.0.await_output(&format!("done {nth}\n")).unwrap();
}

/// Kills an executor, which its agent logs.
fn executor_killed(cluster: &Cluster) -> Finished {
    let others = cluster.executors(1);
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap();
    let running = job.args(["launch", "1"]).timeout(LIMIT).start().unwrap();
    running.await_output("ready").unwrap();
    let mut executors = cluster.executors(1);
    executors.retain(|id| !others.contains(id));
    assert_eq!(executors.len(), 1);
    kill(Pid::from_raw(executors[0].cast_signed()), Signal::SIGKILL).unwrap();
    let finished = running.finish().unwrap();
    assert_eq!((finished.code(), finished.timed_out), (1, false), "{}", finished.report());
    assert!(finished.stderr.contains("acc_error_device_unavailable"), "{}", finished.report());
    assert!(finished.stderr.contains("node h1"), "{}", finished.report());
    finished
}

fn nothing_is_left(cluster: &Cluster) {
    let left = cluster.processes_besides_parts(Duration::from_secs(20));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn coordinator_agents_and_executors_go_on_without_room_for_messages() {
    let Some(disk) = Disk::new(2048) else { return };
    let mut cluster = on(&disk).hosts(3).devices(1).memory("64M").env("ACCORD_LOG", "debug").start().unwrap();
    let parts =
        |cluster: &Cluster| [cluster.coordinator_id(), cluster.agent_id(0), cluster.agent_id(1), cluster.agent_id(2)];
    let (files, all) = (disk.files(), parts(&cluster));
    // The disk fills up while a program runs.
    let mut program = steps(&cluster);
    step(&mut program, 1);
    disk.fill_up_to(0);
    step(&mut program, 2);
    works(&cluster);
    executor_killed(&cluster);
    works(&cluster);
    step(&mut program, 3);
    assert!(disk.is_full());
    // A program reports its own failed writes to it.
    let job = cluster.job(0, &test_program("c/devices_each.c").unwrap()).unwrap();
    let finished = job.env("ACCORD_TRACE", disk.path("trace")).run().unwrap().success().unwrap();
    let words = ["cannot write the trace", "No space left on device"];
    assert!(words.iter().all(|word| finished.stderr.contains(word)), "{}", finished.report());
    let _ = fs::remove_file(disk.path("trace"));
    drop(program.1);
    program.0.finish().unwrap().success().unwrap();
    nothing_is_left(&cluster);
    assert_eq!(parts(&cluster), all);
    cluster.await_devices(3).unwrap();
    // Parts need no room to start, either.
    cluster.kill_agent(1);
    cluster.start_agent(1).unwrap();
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    cluster.await_devices(3).unwrap();
    works(&cluster);
    nothing_is_left(&cluster);
    assert!(disk.is_full());
    assert_eq!(disk.files(), files);
    // Messages are written again as soon as there is room.
    disk.make_space();
    let before = cluster.messages().len();
    executor_killed(&cluster);
    cluster.await_messages(|messages| messages[before..].contains("executor")).unwrap();
    works(&cluster);
}

/// Starts a program that holds a device until its input ends.
fn asks(cluster: &Cluster) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/holds_devices.c").unwrap()).unwrap();
    (job.env("ACCORD_DEVICES", "1:cpu").stdin(input).timeout(LIMIT).start().unwrap(), ends)
}

#[test]
fn without_room_for_the_state_requests_are_refused_and_running_programs_go_on() {
    let Some(disk) = Disk::new(8192) else { return };
    let state = disk.path("state");
    let builder = Cluster::builder().hosts(1).devices(2).memory("64M").env("ACCORD_STATE", state.as_os_str());
    let cluster = builder.start().unwrap();
    let (input, output) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program("cluster/on_request.c").unwrap()).unwrap();
    let mut program = (job.env("ACCORD_DEVICES", "1:cpu").stdin(input).timeout(LIMIT).start().unwrap(), output);
    step(&mut program, 1);
    disk.fill_up_to(0);
    // The file's last page may have room for a few more requests.
    let printed = format!("the state file {}: No space left on device", state.display());
    let mut askers = Vec::new();
    comes(&printed, || {
        if askers.len() < 50 {
            askers.push(asks(&cluster));
        }
        cluster.messages().contains(&printed)
    });
    let (refused, ends) = asks(&cluster);
    let refused = refused.finish().unwrap();
    drop(ends);
    let expected = "the coordinator can't keep a request: the state file";
    assert!(refused.code() != 0 && refused.stderr.contains(expected), "{}", refused.report());
    assert!(refused.stderr.contains("make room on its disk"), "{}", refused.report());
    step(&mut program, 2);
    disk.make_space();
    comes("the state is written again", || cluster.messages().contains("the state is written again"));
    let (again, ends) = asks(&cluster);
    askers.into_iter().for_each(|(running, ends)| {
        drop(ends);
        let finished = running.finish().unwrap();
        assert!(finished.code() == 0 || finished.stderr.contains(expected), "{}", finished.report());
    });
    again.await_output("has").unwrap();
    drop(ends);
    again.finish().unwrap().success().unwrap();
    step(&mut program, 3);
    drop(program.1);
    program.0.finish().unwrap().success().unwrap();
    nothing_is_left(&cluster);
}

fn gpu_program() -> PathBuf {
    let program = Program::read(repository_file("tests/programs/gpu/cluster.c"), Language::C).unwrap();
    compile(&program, Variant { optimize: Optimize::Yes, offload: true, linked: false }).unwrap().program
}

/// Returns files with compiled code, and all others in that folder.
fn kept(cache: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let all = fs::read_dir(cache).into_iter().flatten().map(|entry| entry.unwrap().path());
    all.partition(|path| path.extension().is_some_and(|extension| extension == "cubin"))
}

#[test]
fn code_of_gpus_is_kept_whole_or_not_at_all() {
    let Some(disk) = Disk::new(2048) else { return };
    let (driver, program) = (driver(), gpu_program());
    compile_support("cluster_kernels", driver.path()).unwrap();
    let builder = on(&disk).hosts(2).devices(0).gpus(&[1, 1]).env("LD_LIBRARY_PATH", driver.path());
    let kernels = driver.path().join("cluster_kernels.so");
    let cluster = builder.env("FAKE_CUDA_KERNELS", kernels).start().unwrap();
    // From too little room for the code to enough.
    let mut sizes = Vec::new();
    for pages in [0, 1, 2, 3, 64] {
        disk.fill_up_to(pages);
        let finished = cluster.job(0, &program).unwrap().timeout(LIMIT).run().unwrap().success().unwrap();
        assert!(finished.stdout.contains("PASS"), "{pages} pages: {}", finished.report());
        nothing_is_left(&cluster);
        let (code, others) = kept(&disk.path("cache"));
        assert!(others.is_empty(), "{pages} pages: {others:?}");
        sizes.push(code.iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>());
    }
    println!("code kept with 0, 1, 2, 3 and 64 pages of room: {sizes:?}");
    assert_eq!(sizes[0], 0, "{sizes:?}");
    let whole = sizes[4];
    assert!(whole > 0 && sizes.iter().all(|size| [0, whole].contains(size)), "{sizes:?}");
}

/// Waits for a condition.
fn comes(what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < LIMIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn figures_are_measured_and_kept_when_there_is_room() {
    let Some(disk) = Disk::new(512) else { return };
    disk.fill_up_to(0);
    // Messages have room, and report it.
    let builder = Cluster::builder().env("ACCORD_CACHE", disk.path("cache")).env("ACCORD_LOG", "info");
    let mut cluster = builder.env("ACCORD_MEASURE", "on").memory("64M").start().unwrap();
    let printed = "figures of this node are not kept: No space left on device";
    comes(printed, || cluster.messages().contains(printed));
    assert_eq!(disk.files(), Vec::<PathBuf>::new());
    let job = cluster.job(1, &test_program("c/devices_each.c").unwrap()).unwrap();
    job.timeout(LIMIT).run().unwrap().success().unwrap();
    nothing_is_left(&cluster);
    disk.make_space();
    cluster.kill_agent(0);
    cluster.start_agent(0).unwrap();
    comes("a file with figures", || {
        let files = disk.files();
        files.len() == 1 && files[0].extension().is_some_and(|extension| extension == "txt")
    });
}
