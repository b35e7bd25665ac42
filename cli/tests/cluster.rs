//! A local cluster with its coordinator and agents, as programs in it see it.
#![forbid(unsafe_code)]

mod common;

use accord_test_tier::cases;
use accord_trust::Role;
use accord_trust::issue::Authority;
use common::{Run, signal, ways};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const INFO: &str = concat!("'", env!("CARGO_BIN_EXE_accord"), "' info --json");

#[test]
fn a_program_sees_every_device_its_own_hosts_first() {
    if !built() {
        return;
    }
    for way in ways() {
        let run = Run::cluster(way, "3x2");
        let output = run.command(INFO).env("ACCORD_EMULATE", "nvidia").output().unwrap();
        let info: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        let nodes: Vec<_> = list(&info, "nodes").iter().map(|node| (text(node, "name"), text(node, "state"))).collect();
        assert_eq!(nodes, [("h1", "up"), ("h2", "up"), ("h3", "up")], "{way:?}");
        // Hosts in network namespaces of their own can't use shared memory.
        let route = if *way == ["--loopback"] { "shm (same machine)" } else { "tls (another machine)" };
        let routes: Vec<_> = list(&info, "nodes").iter().map(|node| text(node, "route")).collect();
        assert_eq!(routes, ["in-process", route, route], "{way:?}");
        let devices: Vec<_> = list(&info, "devices")
            .iter()
            .map(|device| (device["num"].as_u64().unwrap(), text(device, "node"), text(device, "type")))
            .collect();
        let hosts = ["h1", "h1", "h2", "h2", "h3", "h3"];
        let expected: Vec<_> = (0..).zip(hosts).map(|(num, node)| (num, node, "acc_device_nvidia")).collect();
        assert_eq!(devices, expected, "{way:?}");
        // Six devices share the machine's memory.
        let memory: u64 = list(&info, "devices").iter().map(|device| device["memory"].as_u64().unwrap()).sum();
        assert!(memory < machine_memory(), "{memory}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn all_devices_may_be_on_other_hosts_than_the_program() {
    if !built() {
        return;
    }
    for way in ways() {
        let run = Run::cluster(way, "2x1").with(&["--remote-only"]);
        if !compiled(&run) {
            return;
        }
        let output = run.output(&format!("{INFO} > $DIR/info; exec $DIR/program once"));
        assert!(output.status.success(), "{output:?}");
        let info: Value = serde_json::from_str(&run.await_file("info")).unwrap();
        let nodes: Vec<_> = list(&info, "devices").iter().map(|device| text(device, "node")).collect();
        assert_eq!(nodes, ["h2", "h3"], "{way:?}");
        assert_eq!(run.await_file("up"), "2 devices\n", "{way:?}");
        run.assert_nothing_left(None);
    }
}

#[test]
fn every_rank_has_its_own_host_first() {
    if !built() {
        return;
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    for way in ways() {
        let run = Run::cluster(way, "2x1").with(&["-np", "2"]);
        let output = run.output(&format!("{INFO} > $DIR/rank.$OMPI_COMM_WORLD_RANK"));
        assert!(output.status.success(), "{output:?}");
        for (rank, host) in [("rank.0", "h1"), ("rank.1", "h2")] {
            let info: Value = serde_json::from_str(&run.await_file(rank)).unwrap();
            assert_eq!(text(&list(&info, "devices")[0], "node"), host, "{way:?}");
        }
        run.assert_nothing_left(None);
    }
}

#[test]
fn coordinator_and_agents_end_with_the_run() {
    if !built() {
        return;
    }
    for way in ways() {
        for name in ["-TERM", "-KILL"] {
            let run = Run::cluster(way, "2x1");
            let mut child = run.spawn("touch $DIR/up; while true; do sleep 0.01; done");
            run.await_file("up");
            signal(&child, name);
            let status = child.wait().unwrap();
            assert!(matches!((status.code(), status.signal()), (Some(143), None) | (None, Some(9))), "{status:?}");
            run.assert_nothing_left(None);
        }
    }
}

/// Times during its start, when certificates are written, and during its work.
#[test]
fn a_run_that_is_killed_at_any_moment_leaves_no_certificates_and_no_process() {
    if !built() {
        return;
    }
    for way in ways() {
        let program = Run::cluster(way, "2x1");
        if !compiled(&program) {
            return;
        }
        for moment in cases(&Vec::from_iter(0..18), 6) {
            let run = Run::cluster(way, "2x1");
            std::fs::copy(program.file("program"), run.file("program")).unwrap();
            let mut child = run.spawn("exec $DIR/program");
            std::thread::sleep(Duration::from_millis(moment * 50 + moment % 7));
            signal(&child, "-KILL");
            assert_eq!(child.wait().unwrap().signal(), Some(9), "{way:?} {moment}");
            run.assert_nothing_left(None);
        }
    }
}

#[test]
fn executors_and_workers_end_with_the_run() {
    if !built() {
        return;
    }
    for way in ways() {
        for name in ["-TERM", "-KILL"] {
            let run = Run::cluster(way, "2x1");
            if !compiled(&run) {
                return;
            }
            let mut child = run.spawn("exec $DIR/program");
            assert_eq!(run.await_file("up"), "2 devices\n", "{way:?}");
            signal(&child, name);
            let status = child.wait().unwrap();
            assert!(matches!((status.code(), status.signal()), (Some(143), None) | (None, Some(9))), "{status:?}");
            run.assert_nothing_left(None);
        }
    }
}

#[test]
fn a_timeline_shows_every_ranks_devices() {
    if !built() {
        return;
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    for way in ways() {
        let run = Run::cluster(way, "2x1");
        let files = [run.file("t.svg"), run.file("t.json")].map(|path| path.to_string_lossy().into_owned());
        let run = run.with(&["-np", "2", "--timeline", &files[0], "--trace", &files[1]]);
        if !compiled(&run) {
            return;
        }
        let output = run.output("exec $DIR/program once");
        assert!(output.status.success(), "{output:?}");
        let picture = run.await_file("t.svg");
        for text in ["h1:0", "h2:0", "rank 0, sync", "rank 1, sync", "main._omp_fn.0"] {
            assert!(picture.contains(text), "{way:?}: {text} is missing:\n{picture}");
        }
        let trace: Value = serde_json::from_str(&run.await_file("t.json")).unwrap();
        let launches = list(&trace, "traceEvents").iter().filter(|event| event["cat"] == "launch").count();
        assert_eq!(launches, 4, "two ranks, two devices each");
        run.assert_nothing_left(None);
    }
}

/// This includes a rank that a signal kills.
#[test]
fn times_of_all_ranks_are_added_up() {
    if !built() {
        return;
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("skipped: no mpirun");
        return;
    }
    let run = Run::cluster(&["--loopback"], "2x1").with(&["-np", "2", "--time", "--json"]);
    if !compiled(&run) {
        return;
    }
    let times = |output: &std::process::Output| -> Value {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{output:?}"));
        serde_json::from_str(line).unwrap()
    };
    let output = run.output("exec $DIR/program once");
    assert!(output.status.success(), "{output:?}");
    let all = times(&output);
    assert_eq!(all["summary"]["ranks"], 2, "{all:#}");
    assert_eq!(all["summary"]["unfinished"], serde_json::json!([]), "{all:#}");
    let ranks: Vec<_> = list(&all, "reports").iter().map(|report| &report["rank"]).collect();
    assert_eq!(ranks, [0, 1], "{all:#}");
    let calls = |all: &Value| {
        let places = list(&all["summary"], "places").iter();
        let region = places.filter(|place| text(place, "place").ends_with(": compute construct"));
        region.map(|place| place["calls"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(calls(&all), 4, "each rank's region on each of two devices: {all:#}");

    let output = run.output("[ $OMPI_COMM_WORLD_RANK = 0 ] && exec $DIR/program once; exec $DIR/program killed");
    assert!(!output.status.success(), "{output:?}");
    let all = times(&output);
    let unfinished = list(&all["summary"], "unfinished");
    assert!(unfinished.iter().any(|rank| rank[0] == 1), "{all:#}");
    assert!(calls(&all) > 0, "{all:#}");
    run.assert_nothing_left(None);
}

/// Builds the program of [`USES_EVERY_DEVICE`].
fn compiled(run: &Run) -> bool {
    std::fs::write(run.file("program.c"), USES_EVERY_DEVICE).unwrap();
    let compiler = Command::new("gcc")
        .args(["-fopenacc", "-foffload=disable", "-o", "program", "program.c"])
        .current_dir(run.dir.path())
        .status();
    let compiled = compiler.is_ok_and(|status| status.success());
    if !compiled {
        println!("skipped: no gcc with OpenACC");
    }
    compiled
}

/// Runs a region on every device and prints a line. Loops without arguments; with `killed`, a signal ends it.
const USES_EVERY_DEVICE: &str = r#"
#include <openacc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    acc_device_t type = acc_get_device_type();
    int devices = acc_get_num_devices(type), right = 0;
    char new_name[4096], name[4096];
    snprintf(new_name, sizeof new_name, "%s/up.new", getenv("DIR"));
    snprintf(name, sizeof name, "%s/up", getenv("DIR"));
    for (int round = 0;; round++) {
        for (int d = 0; d < devices; d++) {
            int value = 0;
            acc_set_device_num(d, type);
            #pragma acc parallel copy(value)
            value = acc_on_device(acc_device_not_host) ? 1 : 0;
            right += round == 0 && value == 1;
        }
        if (round == 0) {
            FILE *up = fopen(new_name, "w");
            fprintf(up, "%d devices\n", right);
            fclose(up);
            rename(new_name, name);
            if (argc > 1 && !strcmp(argv[1], "killed"))
                raise(SIGKILL);
            if (argc > 1)
                return 0;
        }
    }
}
"#;

#[test]
fn two_clusters_do_not_meet() {
    if !built() {
        return;
    }
    for way in ways() {
        let runs = [Run::cluster(way, "1x1"), Run::cluster(way, "2x1")];
        let script =
            format!("{INFO} > $DIR/info.new; mv $DIR/info.new $DIR/info; while [ ! -e $DIR/go ]; do sleep 0.01; done");
        let mut children: Vec<_> = runs.iter().map(|run| run.spawn(&script)).collect();
        for (run, nodes) in runs.iter().zip([1, 2]) {
            let info: Value = serde_json::from_str(&run.await_file("info")).unwrap();
            assert_eq!(list(&info, "nodes").len(), nodes, "{way:?}");
        }
        for (run, child) in runs.iter().zip(&mut children) {
            std::fs::write(run.file("go"), "").unwrap();
            assert!(child.wait().unwrap().success());
            run.assert_nothing_left(None);
        }
    }
}

#[test]
fn certificates_of_another_authority_are_refused_with_a_remedy() {
    if !built() {
        return;
    }
    let run = Run::cluster(&["--loopback"], "1x1");
    let hour = Duration::from_secs(3600);
    let other = Authority::new("local", hour).unwrap();
    other.issue_into(&run.file("other"), Role::Tenant("eva".into()), hour).unwrap();
    let output = run.output(&format!("ACCORD_TLS=$DIR/other {INFO}"));
    assert_eq!(output.status.code(), Some(125));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("refuses") && message.contains("ACCORD_TLS"), "{message}");
}

fn built() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_accord")).parent().unwrap();
    for name in ["accord-coordinator", "accord-node-agent", "libacc.so"] {
        if !beside.join(name).exists() {
            println!("skipped: {name} is not built");
            return false;
        }
    }
    true
}

fn machine_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("MemTotal:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no {key} in {value:#}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value:#}"))
}
