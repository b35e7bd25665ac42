//! A program's surroundings: limits, paths, sandboxes and tools. It runs as under libgomp, or one message says what
//! prevents it.

use accord_tests::{Finished, Job, Tool, gcc, libacc, repository_file, test_program, tool};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// One remote device, whose agent is not under the program's limits.
const REMOTE: [&str; 6] = ["run", "--local-cluster", "1x1", "--loopback", "--remote-only", "--"];

const TIME: Duration = Duration::from_secs(120);

/// Returns a command line with a device of the program's own process, and with one of another process.
fn both_ways(line: &[&OsStr]) -> [Job; 2] {
    let mut words = line.iter().map(OsString::from);
    let local = Job::new(words.next().unwrap()).args(words).env("ACCORD_CPU_DEVICES", "1");
    let local = local.env("LD_PRELOAD", libacc().unwrap());
    let remote = Job::new(tool(Tool::Accord).unwrap()).args(REMOTE).args(line.iter().map(OsString::from));
    [local, remote].map(|job| job.env("ACCORD_CPU_MEMORY", "64M").timeout(TIME))
}

/// Returns the program below a shell that runs `first` before.
fn below_shell(first: &str, program: &Path) -> [OsString; 5] {
    let line = format!("{first}; exec \"$0\"");
    ["/bin/bash".into(), "-c".into(), line.into(), program.into(), OsString::new()]
}

fn words(line: &[OsString]) -> Vec<&OsStr> {
    line.iter().map(OsString::as_os_str).collect()
}

fn compiled(source: &str, flags: &[&str], to: &Path) -> bool {
    let source = repository_file(&format!("tests/programs/{source}"));
    let support = repository_file("tests/programs/support");
    let mut compiler = Command::new(gcc("gcc"));
    compiler.args(["-g", "-fopenacc", "-foffload=disable"]).args(flags).arg("-I").args([&support, &source]);
    compiler.arg("-o").arg(to).output().unwrap().status.success()
}

fn failed_with(finished: &Finished, words: &[&str]) {
    assert!(!finished.timed_out, "hangs: {}", finished.report());
    assert_eq!(finished.code(), 1, "{}", finished.report());
    for word in words {
        assert!(finished.stderr.contains(word), "no {word:?}: {}", finished.report());
    }
}

#[test]
fn file_size_limit_selects_another_lane_or_is_reported() {
    let program = test_program("c/data_copy.c").unwrap();
    let line = below_shell("ulimit -f 100", &program);
    let [local, remote] = both_ways(&words(&line));
    remote.run().unwrap().success().unwrap();
    failed_with(&local.run().unwrap(), &["device memory", "(ulimit -f)"]);
    let [_, asked] = both_ways(&words(&line));
    failed_with(&asked.env("ACCORD_TRANSPORT", "shm").run().unwrap(), &["(ulimit -f)"]);
}

/// The exit status is the program's own, too.
#[test]
fn a_trace_above_the_limit_of_file_sizes_is_told_and_the_program_ends_as_it_does() {
    let folder = tempfile::tempdir().unwrap();
    let program = test_program("c/async_many_queues.c").unwrap();
    let line = below_shell("ulimit -f 1", &program);
    let [_, remote] = both_ways(&words(&line));
    let finished = remote.env("ACCORD_TRACE", folder.path().join("trace.json")).run().unwrap().success().unwrap();
    assert!(finished.stderr.contains("File too large"), "{}", finished.report());
}

#[test]
fn a_device_needs_few_addresses() {
    let program = test_program("c/data_copy.c").unwrap();
    let line = below_shell("ulimit -v 4000000", &program);
    for job in both_ways(&words(&line)) {
        job.run().unwrap().success().unwrap();
    }
    let [usual, _] = both_ways(&words(&line));
    // As much memory as fits.
    usual.env("ACCORD_CPU_MEMORY", "").run().unwrap().success().unwrap();
}

#[test]
#[ignore = "long"]
fn a_program_runs_below_valgrind() {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no valgrind");
        return;
    }
    let program = test_program("c/data_copy.c").unwrap();
    let [local, remote] = both_ways(&["valgrind".as_ref(), "-q".as_ref(), program.as_os_str()]);
    for job in [local, remote] {
        job.timeout(Duration::from_secs(300)).run().unwrap().success().unwrap();
    }
}

#[test]
fn a_program_with_a_thread_sanitizer_runs_and_no_race_is_told_of_libacc() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sanitized");
    if !compiled("c/async_many_queues.c", &["-fsanitize=thread"], &program) {
        println!("skipped: gcc has no thread sanitizer");
        return;
    }
    if !Command::new(&program).arg("-").output().is_ok_and(|output| !output.stderr.starts_with(b"FATAL")) {
        println!("skipped: thread sanitizers do not run here");
        return;
    }
    for job in both_ways(&[program.as_os_str()]) {
        let finished = job.timeout(Duration::from_secs(300)).run().unwrap().success().unwrap();
        assert!(!finished.stderr.contains("ThreadSanitizer"), "{}", finished.report());
    }
}

#[test]
fn a_working_folder_that_the_devices_node_has_not_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let program = test_program("c/data_copy.c").unwrap();
    let line = "mount -t tmpfs none \"$0\" && mkdir \"$0/only-here\" && cd \"$0/only-here\" && exec \"$1\"";
    let line = ["unshare", "-m", "/bin/sh", "-c", line].map(OsStr::new);
    let line = [&line[..], &[folder.path().as_os_str(), program.as_os_str()]].concat();
    let [_, remote] = both_ways(&line);
    let finished = remote.run().unwrap();
    if finished.stderr.contains("unshare") {
        println!("skipped: there are no mount namespaces");
        return;
    }
    finished.success().unwrap();
    // A removed one.
    let gone = folder.path().join("gone");
    let line = format!("mkdir {0} && cd {0} && rmdir {0}", gone.display());
    for job in both_ways(&words(&below_shell(&line, &program))) {
        job.run().unwrap().success().unwrap();
    }
}

#[test]
fn paths_may_hold_any_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let odd = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    let home = odd(b"gr\xf6\xdfe");
    std::fs::create_dir(&home).unwrap();
    let program = home.join(OsStr::from_bytes(b"progr\xe4mm"));
    std::fs::copy(test_program("c/data_copy.c").unwrap(), &program).unwrap();
    // Regions of a library, which its worker loads by path.
    let library: PathBuf = home.join(OsStr::from_bytes(b"b\xfccher.so"));
    let source = repository_file("tests/programs/support/odd_library.c");
    let made = Command::new(gcc("gcc"))
        .args(["-g", "-fopenacc", "-foffload=disable", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let loads = folder.path().join("loads");
    assert!(compiled("support/loads_library.c", &["-ldl"], &loads));
    let in_it = "cd \"${0%/*}\"";
    for trace in [None, Some(folder.path().join("trace.json"))] {
        for line in [&below_shell(in_it, &program)[..], &[loads.clone().into(), library.clone().into()]] {
            for job in both_ways(&words(line)) {
                let job = trace.iter().fold(job, |job, trace| job.env("ACCORD_TRACE", trace).env("ACCORD_TIME", "1"));
                job.run().unwrap().success().unwrap();
            }
        }
    }
    // Messages name bytes of a path that are not UTF-8 by their numbers.
    let bad = home.join("bad");
    std::fs::copy(test_program("c/bad_constant_by_pointer.c").unwrap(), &bad).unwrap();
    for job in both_ways(&words(&below_shell(in_it, &bad))) {
        let finished = job.run().unwrap();
        let place = finished.stderr.split("second._omp_fn.0 (").nth(1).unwrap_or_default();
        assert!(
            place.contains("bad_constant_by_pointer.c:") && place.contains("gr\\xF6\\xDFe/bad+0x"),
            "{}",
            finished.report()
        );
    }
    let run = Job::new(tool(Tool::Accord).unwrap()).args(["run", "--"]).arg(&program);
    run.env("ACCORD_CPU_MEMORY", "64M").env("ACCORD_LIBACC", libacc().unwrap()).run().unwrap().success().unwrap();
}

#[test]
fn a_system_call_that_a_sandbox_refuses_is_named_or_done_without() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = folder.path().join("refuse");
    assert!(compiled("support/refuse.c", &["-fno-openacc"], &refuse));
    let program = test_program("c/data_copy.c").unwrap();
    for (call, is_needed) in [("memfd_create", true), ("socketpair", true), ("pidfd_open", false)] {
        for error in ["EPERM", "ENOSYS"] {
            let line = [refuse.as_os_str(), error.as_ref(), call.as_ref(), program.as_os_str()];
            let [local, remote] = both_ways(&line);
            let finished = local.run().unwrap();
            if finished.code() == 77 {
                println!("skipped: {}", finished.stderr);
                return;
            }
            if is_needed {
                failed_with(&finished, &[&format!("{call} is refused"), "seccomp"]);
            } else {
                finished.success().unwrap_or_else(|report| panic!("{call} {error}: {report}"));
            }
            // The agent is not in the sandbox, and shared memory is not needed.
            remote.run().unwrap().success().unwrap_or_else(|report| panic!("{call} {error}: {report}"));
        }
    }
    // With an agent in the sandbox, too.
    for call in ["socketpair", "pidfd_open"] {
        let words = ["EPERM".into(), call.into(), tool(Tool::Accord).unwrap().into_os_string()];
        let job = Job::new(&refuse).args(words).args(REMOTE).arg(&program).env("ACCORD_CPU_MEMORY", "64M");
        let finished = job.timeout(TIME).run().unwrap();
        assert!(finished.code() != 0 && finished.stderr.contains(call), "{call}: {}", finished.report());
    }
}

/// The program's own libacc is on its own node only.
#[test]
fn an_installed_agent_brings_the_libacc_of_its_installation() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let built = tool(Tool::Accord).unwrap().parent().unwrap().to_owned();
    for (name, part) in [("bin", "accord-coordinator"), ("bin", "accord-node-agent"), ("lib", "libacc.so")] {
        std::fs::create_dir_all(at(name)).unwrap();
        let (from, to) = (built.join(part), at(name).join(part));
        std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop)).unwrap();
    }
    std::fs::create_dir(at("own")).unwrap();
    // Each ends with the shell, which closes what they read.
    let script = "bin/accord-coordinator --listen 127.0.0.1:0 --socket $PWD/socket --stop-on-stdin-eof <&3 >coordinator & \
        until [ -S socket ]; do sleep 0.1; done; \
        bin/accord-node-agent --coordinator unix:$PWD/socket --users \"$(id -un)\" --node h1 --gpus off --measure off \
            --cpu-devices 1 --cpu-memory 64M --listen 127.0.0.1:0 --stop-on-stdin-eof <&3 >agent & \
        until [ -s agent ]; do sleep 0.1; done; exec 3<&-; \
        ACCORD_COORDINATOR=unix:$PWD/socket ACCORD_NODE=elsewhere ACCORD_OPEN_TIMEOUT=20 unshare -m /bin/sh -c \
            'mount -t tmpfs none own && cp lib/libacc.so own/ && LD_PRELOAD=$PWD/own/libacc.so exec \"$0\"' \"$0\"";
    let line = format!("cd '{}'; {script}", folder.path().display());
    let (input, keep) = std::io::pipe().unwrap();
    let job =
        Job::new("/bin/bash").args(["-c", &format!("exec 3<&0; {line}")]).arg(test_program("c/data_copy.c").unwrap());
    let running = job.stdin(input).timeout(TIME).start().unwrap();
    running.await_output("PASS").unwrap();
    drop(keep);
    let finished = running.finish().unwrap();
    if finished.stderr.contains("unshare") {
        println!("skipped: there are no mount namespaces");
        return;
    }
    finished.success().unwrap();
}

#[test]
fn unknown_setting_is_reported_once() {
    let program = test_program("c/data_copy.c").unwrap();
    for job in both_ways(&[program.as_os_str()]) {
        let finished = job.env("ACCORD_TIEM", "1").run().unwrap().success().unwrap();
        let reported = finished.stderr.matches("ACCORD_TIEM is no setting: did you mean ACCORD_TIME?").count();
        assert_eq!(reported, 1, "{}", finished.report());
    }
}
