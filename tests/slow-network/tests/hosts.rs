//! Hosts at a distance of 1 ms: the delay, what it costs programs, and that no trace is left. Skipped with a message without network
//! namespaces.
#![forbid(unsafe_code)]

use accord_tests::{Finished, Job, Result, Tool, libacc, test_program, tool};
use std::collections::HashMap;
use std::path::Path;

const SLOW: &str = env!("CARGO_BIN_EXE_slow-network");

fn job(options: &[&str]) -> Result<Job> {
    let job = Job::new(tool(Tool::Accord)?).env("ACCORD_LIBACC", libacc()?).env("ACCORD_CPU_MEMORY", "128M");
    // Measurements of hosts would be messages, too.
    Ok(job.env("ACCORD_MEASURE", "off").args(["run", "--local-cluster", "3x1"]).args(options.iter().copied()))
}

/// The outcome of a program over such a network, and the network's totals.
fn over_network(options: &[&str], program: &Path, arguments: &[&str]) -> Result<(Finished, HashMap<String, u64>)> {
    let job = job(options)?.args(["--", SLOW, "--figures", "--"]).arg(program).args(arguments.iter().copied());
    let finished = job.run()?.success()?;
    let mut figures = HashMap::new();
    for line in finished.stdout.lines().filter(|line| line.starts_with("{\"name\":\"network_")) {
        let figure: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{error} in {line}"))?;
        let value = figure["samples"][0].as_u64().ok_or_else(|| format!("no figure: {line}"))?;
        figures.insert(figure["name"].as_str().unwrap_or_default().to_owned(), value);
    }
    Ok((finished, figures))
}

/// Whether hosts are namespaces on this machine.
fn hosts_are_apart() -> Result<bool> {
    let first = job(&["--bare"])?.args(["--", "hostname"]).run()?.stdout;
    let apart = first.trim() == "h1";
    if !apart {
        println!("skipped: no network namespaces here");
    }
    Ok(apart)
}

/// Returns the consecutive round trips that a program has waited for, beyond those of opening its devices.
fn hops(what: &str, count: u32) -> Result<u64> {
    let program = test_program("cluster/far.c")?;
    let (finished, figures) = over_network(&[], &program, &[what, &count.to_string()])?;
    assert!(finished.stdout.contains("PASS"), "{}", finished.report());
    assert_eq!(figures["network_dropped"], 0, "{}", finished.report());
    Ok(figures["network_hops"])
}

/// Operations without waits take no round trip each. The count is of consecutive messages, of which a round trip has
/// two.
#[test]
fn operations_without_waits_cost_no_round_trip() -> Result<()> {
    if !hosts_are_apart()? {
        return Ok(());
    }
    // A busy machine may add one: a late frame counts as an answer.
    let starts = [hops("nothing", 0)?, hops("nothing", 0)?, hops("nothing", 0)?];
    let start = starts.into_iter().min().unwrap_or_default();
    // The same count includes round trips that the program waits for.
    let waits = 40;
    let waited = hops("waits", waits)?;
    assert!(waited >= start + 2 * u64::from(waits), "{start} and {waited}");
    // A quarter of a round trip for each operation would fail; heartbeats and delays on a busy machine add a few.
    for (what, count) in [("launches", 1_000), ("updates", 400), ("after-regions", 400), ("copies", 400), ("data", 400)]
    {
        let taken = hops(what, count)?.saturating_sub(start);
        assert!(taken < u64::from(count) / 2, "{count} {what}: {taken} hops in a row");
    }
    // Eight at a time take one round trip for eight.
    let count = 320;
    let taken = hops("in-turn", count)?.saturating_sub(start);
    assert!(taken < u64::from(count), "{count} in turn: {taken} hops in a row");
    // Devices of two hosts take one round trip for both.
    let steps = 100;
    let taken = hops("devices", steps)?.saturating_sub(start);
    assert!(taken < 3 * u64::from(steps), "{steps} steps of two devices: {taken} hops in a row");
    Ok(())
}

/// Data arrives intact, with TLS and without.
#[test]
fn programs_over_such_a_network_do_what_they_do() -> Result<()> {
    if !hosts_are_apart()? {
        return Ok(());
    }
    for options in [&[][..], &["--insecure-plain-tcp"]] {
        let (finished, figures) = over_network(options, &test_program("c/d2d_all_pairs.c")?, &[])?;
        assert!(finished.stdout.contains("PASS"), "{}", finished.report());
        assert!(figures["network_frames"] > 100 && figures["network_hops"] > 20, "{}", finished.report());
    }
    Ok(())
}

/// One message and its answer, over links with the rate.
#[test]
fn the_delay_and_the_rate_are_had() -> Result<()> {
    if !hosts_are_apart()? {
        return Ok(());
    }
    let script = r#"
        tc qdisc show dev eth0
        begin=$(date +%s%N)
        for i in 1 2 3 4 5; do (exec 3<>/dev/tcp/10.77.0.2/9) 2> /dev/null; done
        echo "us: $((($(date +%s%N) - begin) / 1000))"
    "#;
    let delay_us = 20_000;
    let run = |network: &[&str]| -> Result<Finished> {
        job(&["--bare"])?.arg("--").args(network.iter().copied()).args(["bash", "-c", script]).run()?.success()
    };
    // No server listens there, so the host refuses at once.
    let slow = run(&[SLOW, "--delay-us", &delay_us.to_string(), "--mbit", "500", "--"])?;
    let us = |finished: &Finished| {
        let line = finished.stdout.lines().find_map(|line| line.strip_prefix("us: "));
        line.and_then(|us| us.parse::<u64>().ok()).unwrap_or_else(|| panic!("{}", finished.report()))
    };
    assert!(slow.stdout.contains("tbf") && slow.stdout.contains("rate 500Mbit"), "{}", slow.report());
    assert!(us(&slow) >= 5 * 2 * delay_us, "{}", slow.report());
    assert!(!run(&[])?.stdout.contains("tbf"));
    Ok(())
}

/// All hosts still reach each other after the program's end, because other processes may still communicate.
#[test]
fn hosts_have_their_bridge_back() -> Result<()> {
    if !hosts_are_apart()? {
        return Ok(());
    }
    let script = format!(
        "'{SLOW}' -- true && (exec 3<>/dev/tcp/10.77.0.254/7000) && echo reached && nsenter --net=/proc/1/ns/net ip -o link show master hosts"
    );
    let finished = job(&[])?.args(["--", "bash", "-c", &script]).run()?.success()?;
    assert!(finished.stdout.contains("reached"), "{}", finished.report());
    for host in ["h1", "h2", "h3"] {
        assert!(finished.stdout.contains(&format!(": {host}@")), "{}", finished.report());
    }
    Ok(())
}

/// The exit code is the program's, or the reason is printed.
#[test]
fn exit_code_is_the_programs_or_the_reason_is_reported() -> Result<()> {
    let slow = |arguments: &[&str]| Job::new(SLOW).args(arguments.iter().copied()).run();
    let wrong = slow(&["--delay", "1", "--", "true"])?;
    assert!(wrong.code() == 2 && wrong.stderr.contains("usage: slow-network"), "{}", wrong.report());
    // Outside of a run the network stays unchanged.
    let outside = slow(&["--", "true"])?;
    assert!(outside.code() == 2 && outside.stderr.starts_with("slow-network: "), "{}", outside.report());
    if hosts_are_apart()? {
        let ended = job(&["--bare"])?.args(["--", SLOW, "--", "bash", "-c", "exit 7"]).run()?;
        assert_eq!(ended.code(), 7, "{}", ended.report());
    }
    Ok(())
}

/// The run's end removes the switch and the namespaces, whichever process is killed.
#[test]
fn nothing_is_left_of_a_run_that_is_killed() -> Result<()> {
    if !hosts_are_apart()? {
        return Ok(());
    }
    let running = job(&["--bare"])?.args(["--", SLOW, "--", "bash", "-c", "echo up; exec sleep 1000"]).start()?;
    running.await_output("up")?;
    running.signal(nix::sys::signal::Signal::SIGKILL)?;
    let finished = running.finish()?;
    assert!(finished.left_behind.is_empty(), "{}", finished.report());
    Ok(())
}
