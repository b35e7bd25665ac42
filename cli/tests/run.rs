//! `accord run`: exit codes, hosts, and that nothing is left, whatever ends it. Most tests use hosts without
//! coordinator and agents, in order to test the launcher alone.
#![forbid(unsafe_code)]

mod common;

use accord_test_tier::cases;
use common::{Run, await_that, namespaces, signal, stdout, ways};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

#[test]
fn the_exit_code_is_the_programs() {
    for way in ways() {
        let run = Run::bare(way, "2x1");
        assert_eq!(run.output("exit 7").status.code(), Some(7), "{way:?}");
        assert_eq!(run.output("kill -SEGV $$").status.code(), Some(128 + 11), "{way:?}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn programs_that_are_not_there_or_not_executable_have_shells_exit_codes() {
    for (program, code) in [("/nowhere/at/all", 127), ("/etc/passwd", 126)] {
        for options in [vec![], vec!["--local-cluster", "1x1", "--bare", "--loopback"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_accord"))
                .arg("run")
                .args(&options)
                .args(["--", program])
                // Without a cluster the library must exist.
                .env("ACCORD_LIBACC", "/etc/passwd")
                .env_remove("LD_PRELOAD")
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(code), "{program} {options:?} {output:?}");
            assert!(String::from_utf8_lossy(&output.stderr).contains(program));
        }
    }
}

#[test]
fn the_program_reads_its_input_and_keeps_its_directory() {
    for way in ways() {
        let run = Run::bare(way, "1x1");
        std::fs::write(run.file("input"), "one line\n").unwrap();
        let output = run
            .command("pwd; cat")
            .current_dir(run.dir.path())
            .stdin(std::fs::File::open(run.file("input")).unwrap())
            .output()
            .unwrap();
        let here = run.dir.path().canonicalize().unwrap();
        assert_eq!(stdout(&output), format!("{}\none line\n", here.display()));
    }
}

#[test]
fn the_first_host_has_its_own_name_and_address_and_reaches_the_bridge() {
    if !namespaces() {
        println!("skipped: no right to make namespaces");
        return;
    }
    let run = Run::bare(&[], "3x1");
    let output =
        run.output("hostname; ip -4 -o addr show dev eth0; ip route get 10.77.0.3; readlink /proc/self/ns/net");
    let text = stdout(&output);
    assert!(text.starts_with("h1\n"), "{text}");
    assert!(text.contains("10.77.0.1/24") && text.contains("10.77.0.3 dev eth0"), "{text}");
    let here = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(text.lines().last().unwrap(), here.to_string_lossy());
    run.assert_nothing_left(text.lines().last());
}

#[test]
fn the_machines_own_network_is_left_as_it_was() {
    if !namespaces() {
        println!("skipped: no right to make namespaces");
        return;
    }
    // Other tests' hosts are not in this namespace either, so this run causes any change.
    let links = || Command::new("ip").args(["-o", "link"]).output().unwrap().stdout;
    let before = links();
    let run = Run::bare(&[], "2x1");
    let mut child = run.spawn("touch $DIR/up; while [ ! -e $DIR/go ]; do sleep 0.01; done");
    run.await_file("up");
    let during = links();
    std::fs::write(run.file("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(String::from_utf8_lossy(&before), String::from_utf8_lossy(&during));
}

#[test]
fn background_processes_end_with_the_run() {
    for way in ways() {
        let run = Run::bare(way, "1x1");
        let output = run.output("setsid bash -c 'sleep 1000 & sleep 1000' $MARK >/dev/null 2>&1 & exit 3");
        assert_eq!(output.status.code(), Some(3), "{way:?}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn an_interrupt_goes_to_the_program_first() {
    for way in ways() {
        let run = Run::bare(way, "2x1");
        let mut child = run.spawn(
            "trap 'echo got it > $DIR/trapped; exit 5' INT; readlink /proc/self/ns/net > $DIR/up.new; \
             mv $DIR/up.new $DIR/up; while true; do sleep 0.01; done",
        );
        let net = run.await_file("up");
        signal(&child, "-INT");
        assert_eq!(child.wait().unwrap().code(), Some(5), "{way:?}");
        assert_eq!(run.await_file("trapped"), "got it\n");
        run.assert_nothing_left((!way.contains(&"--loopback")).then_some(&net));
    }
}

const IGNORES_SIGNALS: &str = "trap '' INT TERM; setsid sleep 1000 & touch $DIR/up; while true; do sleep 0.01; done";

#[test]
fn a_program_that_ignores_an_interrupt_is_killed() {
    let run = Run::bare(&["--loopback"], "1x1");
    let mut child = run.spawn(IGNORES_SIGNALS);
    run.await_file("up");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    run.assert_nothing_left(None);
}

#[test]
fn a_second_signal_kills_at_once() {
    for way in ways() {
        let run = Run::bare(way, "1x1");
        let mut child = run.spawn(IGNORES_SIGNALS);
        run.await_file("up");
        signal(&child, "-INT");
        signal(&child, "-TERM");
        let code = child.wait().unwrap().code().unwrap();
        // The kernel decides which of the two comes first.
        assert!([128 + 2, 128 + 15].contains(&code), "{way:?} {code}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn nothing_survives_the_launchers_sudden_death() {
    for way in ways() {
        let run = Run::bare(way, "2x1");
        let mut child = run.spawn(
            "setsid bash -c 'sleep 1000 & sleep 1000' $MARK & readlink /proc/self/ns/net > $DIR/up.new; \
             mv $DIR/up.new $DIR/up; while true; do sleep 0.01; done",
        );
        let net = run.await_file("up");
        signal(&child, "-KILL");
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        run.assert_nothing_left((!way.contains(&"--loopback")).then_some(&net));
    }
}

#[test]
fn nothing_survives_the_supervisors_sudden_death() {
    for way in ways() {
        let run = Run::bare(way, "2x1");
        let mut child = run.spawn("setsid sleep 1000 & touch $DIR/up; while true; do sleep 0.01; done");
        run.await_file("up");
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let supervisor = std::fs::read_to_string(children).unwrap();
        let killed = Command::new("bash").args(["-c", "kill -KILL $0", supervisor.trim()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(child.wait().unwrap().code(), Some(137), "{way:?}");
        run.assert_nothing_left(None);
    }
}

/// Open MPI names its files by host and process number, which two runs at one time have in common.
#[test]
fn an_mpirun_of_the_program_has_folders_of_its_run() {
    if !namespaces() {
        println!("skipped: hosts in namespaces, for lack of the right to make them");
        return;
    }
    let folders = || {
        let run = Run::bare(&[], "1x1");
        let output = run.output(
            "for name in orte_tmpdir_base btl_vader_backing_directory btl_sm_backing_directory; do \
             value=OMPI_MCA_$name; [ -d ${!value} ] && echo ${!value}; done",
        );
        run.assert_nothing_left(None);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
        assert_eq!(found.len(), 3, "{text}{}", String::from_utf8_lossy(&output.stderr));
        found
    };
    let (one, other) = (folders(), folders());
    assert!(one.iter().all(|folder| folder.contains("accord-run-") && !other.contains(folder)), "{one:?} {other:?}");
}

#[test]
fn ranks_are_spread_over_the_hosts() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    for way in ways() {
        let run = Run::bare(way, "3x1").with(&["-np", "5"]);
        let output = run.output("echo $OMPI_COMM_WORLD_RANK ${ACCORD_NODE:-$(hostname)}; exit 0");
        let mut lines: Vec<String> = stdout(&output).lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["0 h1", "1 h2", "2 h3", "3 h1", "4 h2"], "{way:?} {output:?}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn ranks_on_all_hosts_die_with_the_launcher() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    for way in ways() {
        let run = Run::bare(way, "2x1").with(&["-np", "2"]);
        let mut child = run.spawn("touch $DIR/up.$OMPI_COMM_WORLD_RANK; while true; do sleep 0.01; done");
        for rank in ["up.0", "up.1"] {
            run.await_file(rank);
        }
        signal(&child, "-KILL");
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        run.assert_nothing_left(None);
    }
}

/// The launcher creates no folder itself, and the supervisor none before it follows the launcher.
#[test]
fn a_launcher_that_is_killed_at_any_moment_leaves_nothing() {
    for way in ways() {
        for delay in cases(&Vec::from_iter((0..160).step_by(4)), 10) {
            let run = Run::bare(way, "1x1");
            let mut child = run.spawn("sleep 60");
            std::thread::sleep(Duration::from_millis(delay));
            signal(&child, "-KILL");
            assert_eq!(child.wait().unwrap().signal(), Some(9));
            run.assert_nothing_left(None);
        }
    }
}

#[test]
fn a_run_without_a_cluster_becomes_the_program() {
    let dir = tempfile::tempdir().unwrap();
    // Any library that can be preloaded will do.
    let library = dir.path().join("libacc.so");
    let source = dir.path().join("empty.c");
    std::fs::write(&source, "int accord_test_nothing;\n").unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: no C compiler");
        return;
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_accord"))
        .args(["run", "--", "/bin/bash", "-c", "echo $$ $LD_PRELOAD $ACCORD_LIBACC > $0; exit 9"])
        .arg(dir.path().join("out"))
        .env("ACCORD_LIBACC", &library)
        .env_remove("LD_PRELOAD")
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    await_that("the program has written", || dir.path().join("out").exists());
    let text = std::fs::read_to_string(dir.path().join("out")).unwrap();
    let library = library.canonicalize().unwrap();
    assert_eq!(text, format!("{} {} {}\n", child.id(), library.display(), library.display()));
}

#[test]
fn ctrl_c_in_a_terminal_reaches_the_program_once() {
    if Command::new("script").arg("--version").output().is_err() {
        println!("skipped: no script command (package bsdutils)");
        return;
    }
    for way in ways() {
        let run = Run::bare(way, "1x1");
        let command = run.command(
            "trap 'echo x >> $DIR/count; stop=1' INT; touch $DIR/up; \
             while [ -z \"$stop\" ]; do sleep 0.01; done; sleep 0.3; exit 6",
        );
        std::fs::write(run.file("program"), quoted(&command)).unwrap();
        let mut terminal = Command::new("script")
            .args(["-qec", "exec bash $DIR/program", "/dev/null"])
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        run.await_file("up");
        terminal.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        assert_eq!(terminal.wait().unwrap().code(), Some(6), "{way:?}");
        assert_eq!(run.await_file("count"), "x\n", "{way:?}");
        run.assert_nothing_left(None);
    }
}

/// Returns a command as a line of shell that executes it.
fn quoted(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = |word: &std::ffi::OsStr| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"));
    format!("exec {}\n", words.map(quoted).collect::<Vec<_>>().join(" "))
}

#[test]
fn options_reach_the_program_as_settings() {
    for cluster in [&[][..], &["--local-cluster", "1x1", "--bare", "--loopback"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_accord"))
            .args(["run", "--explain-errors", "--time=times.%p", "--compare=ulp=4"])
            .args(cluster)
            .args(["--", "sh", "-c", "echo $ACCORD_EXPLAIN_ERRORS $ACCORD_TIME $ACCORD_COMPARE"])
            // Without a cluster the library has to be somewhere.
            .env("ACCORD_LIBACC", "/etc/passwd")
            .env_remove("LD_PRELOAD")
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "1 times.%p ulp=4\n", "{cluster:?} {output:?}");
    }
}
