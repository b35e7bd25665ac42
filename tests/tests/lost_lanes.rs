//! Two nodes that lose each other while the program uses both: copies in flight fail with the node's name, later ones
//! use a new lane.

use accord_tests::{Job, Running, Tool, libacc, test_program, tool};
use std::process::Command;
use std::time::Duration;

/// The time limit of the program: a longer run hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command in the network namespace of an agent, and returns its output.
fn inside(agent: &str, arguments: &[&str]) -> String {
    let output = Command::new("nsenter").arg(format!("--net=/proc/{agent}/ns/net")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the process of a host's agent.
fn agent(running: &Running, host: &str) -> String {
    let found = accord_tests::leftovers(running.mark());
    let is_its = |line: &&String| {
        line.contains("accord-node-agent") && !line.ends_with(" executor") && line.contains(&format!("--node {host} "))
    };
    let line = found.iter().find(is_its).expect("the host has an agent");
    line.split(' ').next().unwrap().to_owned()
}

/// Returns the address of an agent's host.
fn address(agent: &str) -> String {
    let text = inside(agent, &["ip", "-o", "-4", "addr", "show", "scope", "global"]);
    let address = text.split_whitespace().skip_while(|word| *word != "inet").nth(1).expect("an address");
    address.split('/').next().unwrap().to_owned()
}

#[test]
fn copies_go_over_a_new_lane_when_the_old_one_is_lost() {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !nix::unistd::geteuid().is_root() || !has("ip") || !has("nsenter") {
        println!("skipped: only root with ip and nsenter may change the routes of hosts");
        return;
    }
    let (input, release) = std::io::pipe().unwrap();
    let running = Job::new(tool(Tool::Accord).unwrap())
        .env("ACCORD_LIBACC", libacc().unwrap())
        .env("ACCORD_CPU_MEMORY", "64M")
        .env("ACCORD_TEST_SEPARATE", "1")
        .args(["run", "--local-cluster", "3x1", "--"])
        .arg(test_program("cluster/lost_lane.c").unwrap())
        .args(["2", "1"])
        .stdin(input)
        .timeout(LIMIT)
        .start()
        .unwrap();
    running.await_output("ready").unwrap();
    // Only the lane between them, so that the program learns of it from both.
    let (source, target) = (agent(&running, "h3"), agent(&running, "h2"));
    let route = ["ip", "route", "add", "blackhole", &address(&target)];
    inside(&source, &route);
    running.await_output("lost").unwrap();
    inside(&source, &["ip", "route", "del", "blackhole", route[4]]);
    drop(release);
    let finished = running.finish().unwrap().success().unwrap();
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    let message = &finished.stderr;
    assert!(message.contains("acc_memcpy_d2d") || message.contains("acc_error_device_unavailable"), "{message}");
    assert!(message.contains("the executor of node h2") && message.contains("new connection"), "{message}");
}
