//! `accord run` whose own processes are stopped, or have no resources left: it ends with the program or by a signal,
//! and leaves nothing.
#![forbid(unsafe_code)]

mod common;

use accord_test_tier::{cases, pick};
use common::{Run, namespaces, signal, ways};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The time limit of a run's end.
const LIMIT: Duration = Duration::from_secs(30);

fn supervisor_of(launcher: &Child) -> String {
    let children = format!("/proc/{0}/task/{0}/children", launcher.id());
    std::fs::read_to_string(children).unwrap().trim().to_owned()
}

fn ended(launcher: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = launcher.try_wait().unwrap() {
            return status;
        }
        assert!(begin.elapsed() < LIMIT, "the run does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn done(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

#[test]
fn a_stopped_supervisor_ends_the_run_when_the_launcher_is_asked_to_or_is_killed() {
    for way in ways() {
        for (name, code, by) in [("-TERM", Some(128 + 15), None), ("-KILL", None, Some(9))] {
            let run = Run::bare(way, "2x1");
            let mut child = run.spawn("setsid sleep 1000 & touch $DIR/up; while true; do sleep 0.01; done");
            run.await_file("up");
            done("bash", &["-c", "kill -STOP $0", &supervisor_of(&child)]);
            signal(&child, name);
            let status = ended(&mut child);
            assert_eq!((status.code(), status.signal()), (code, by), "{way:?} {name}");
            run.assert_nothing_left(None);
        }
    }
}

/// Whether limits of running processes can be set.
fn can_limit() -> bool {
    let can = Command::new("prlimit").arg("--version").output().is_ok();
    if !can {
        println!("skipped: no prlimit (package util-linux)");
    }
    can
}

/// No descriptors and no memory beyond what a process has.
const LIMITS: [&str; 2] = ["--nofile=3:", "--as=1048576:"];

fn limit(process: &str, limit: &str) {
    done("prlimit", &["--pid", process, limit]);
}

#[test]
fn a_run_that_may_have_no_descriptor_and_no_memory_any_more_still_takes_everything_down() {
    for way in ways().into_iter().filter(|_| can_limit()) {
        for want in LIMITS {
            let run = Run::bare(way, "2x1");
            let mut child =
                run.spawn("setsid sleep 1000 & touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.01; done; exit 5");
            run.await_file("up");
            for process in [supervisor_of(&child), child.id().to_string()] {
                limit(&process, want);
            }
            std::fs::write(run.file("go"), "").unwrap();
            assert_eq!(ended(&mut child).code(), Some(5), "{way:?} {want}");
            run.assert_nothing_left(None);
        }
    }
}

#[test]
fn launcher_and_supervisor_each_end_a_run_alone_at_resource_limits() {
    for way in ways().into_iter().filter(|_| can_limit()) {
        for want in LIMITS {
            for launcher_dies in [true, false] {
                let run = Run::bare(way, "2x1");
                let mut child = run.spawn("setsid sleep 1000 & touch $DIR/up; while true; do sleep 0.01; done");
                run.await_file("up");
                let (launcher, supervisor) = (child.id().to_string(), supervisor_of(&child));
                let (dies, stays) = if launcher_dies { (launcher, supervisor) } else { (supervisor, launcher) };
                limit(&stays, want);
                done("bash", &["-c", "kill -KILL $0", &dies]);
                let status = ended(&mut child);
                let expected = if launcher_dies { (None, Some(9)) } else { (Some(128 + 9), None) };
                assert_eq!((status.code(), status.signal()), expected, "{way:?} {want}");
                run.assert_nothing_left(None);
            }
        }
    }
}

/// The disk of the run's folder fills up at various times: the command reports it and removes its files. At last there
/// is room.
#[test]
fn a_run_on_a_full_disk_says_so_and_leaves_nothing() {
    let parts = Path::new(env!("CARGO_BIN_EXE_accord")).parent().unwrap();
    if !namespaces()
        || !["accord-coordinator", "accord-node-agent", "libacc.so"].iter().all(|part| parts.join(part).exists())
    {
        println!("skipped: only root can have a disk of its own, for a cluster that is built");
        return;
    }
    let run = Run::cluster(&["--loopback"], "2x1");
    let mut reported = 0;
    // Pages of a disk on which each file needs at least one.
    for pages in [2].into_iter().chain(cases(&Vec::from_iter(1..=16), 4)).chain([256]) {
        let disk = format!("mount -t tmpfs -o size={}k tmpfs \"$DIR\"", 4 * pages);
        let command = run.command("true");
        let mut on_disk = Command::new("unshare");
        on_disk.args([
            "--mount",
            "bash",
            "-c",
            &format!("{disk} && \"$@\"; status=$?; ls -A \"$DIR\"; exit $status"),
            "bash",
        ]);
        on_disk.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_disk.env(name, value),
                None => on_disk.env_remove(name),
            };
        }
        let output = on_disk.output().unwrap();
        let (printed, left) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert_eq!(left, "", "{pages} pages: {printed}");
        match output.status.code() {
            Some(0) => {}
            Some(125) => {
                assert!(printed.contains("No space left on device"), "{pages} pages: {printed}");
                reported += 1;
            }
            other => panic!("{pages} pages: {other:?}: {printed}"),
        }
        assert!(pages < 256 || output.status.success(), "{printed}");
    }
    assert!(reported > pick(0, 4), "{reported} times");
}
