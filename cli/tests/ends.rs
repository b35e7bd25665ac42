//! `accord run` whose own processes are stopped, or may have nothing any more: it ends with the program or with whoever ends it, and leaves nothing.
#![forbid(unsafe_code)]

mod common;

use common::{Run, signal, ways};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A run that has not ended by then never does.
const PATIENCE: Duration = Duration::from_secs(30);

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
        assert!(begin.elapsed() < PATIENCE, "the run does not end");
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

#[test]
fn a_run_that_may_have_no_descriptor_and_no_memory_any_more_still_takes_everything_down() {
    if Command::new("prlimit").arg("--version").output().is_err() {
        println!("skipped: no prlimit (package util-linux)");
        return;
    }
    for way in ways() {
        for limit in ["--nofile=3:", "--as=1048576:"] {
            let run = Run::bare(way, "2x1");
            let mut child =
                run.spawn("setsid sleep 1000 & touch $DIR/up; until [ -e $DIR/go ]; do sleep 0.01; done; exit 5");
            run.await_file("up");
            for process in [supervisor_of(&child), child.id().to_string()] {
                done("prlimit", &["--pid", &process, limit]);
            }
            std::fs::write(run.file("go"), "").unwrap();
            assert_eq!(ended(&mut child).code(), Some(5), "{way:?} {limit}");
            run.assert_nothing_left(None);
        }
    }
}
