//! Commands of users and administrators for jobs: `accord queue` and its siblings, and policies.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Running, Tool, package_example, test_program, tool};
use nix::unistd::geteuid;
use serde_json::Value;
use std::io::PipeWriter;
use std::path::Path;
use std::time::{Duration, Instant};

/// A user other than that of the tests.
const OTHER: u32 = 12_345;

/// A program that prints its number of devices, and holds them until its input ends.
const HOLDS: &str = "cluster/holds_devices.c";

/// Starts a cluster for the two users. Returns `None`, and prints so, if its agent can't run several users.
fn cluster() -> Option<Cluster> {
    if !geteuid().is_root() {
        println!("skipped: only root can be several users");
        return None;
    }
    // The machine has no account with the other user's name.
    let cluster = Cluster::builder().hosts(1).devices(2).memory("64M").other_tenants(&[OTHER]);
    Some(cluster.users("*=60003-60012").start().unwrap())
}

/// Runs `accord` with the certificates of a user.
fn accord(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name));
    job.env("ACCORD_NODE", cluster.host(0)).run().unwrap()
}

fn json(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Value {
    let finished = accord(cluster, user_name, &[arguments, &["--json"]].concat());
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.report()))
}

/// Asserts that the command ended with `code`, and that its output contains all words.
fn assert_prints(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), code, "{}", finished.report());
    for word in words {
        assert!(finished.stdout.contains(word) || finished.stderr.contains(word), "no {word:?}\n{}", finished.report());
    }
}

fn other() -> String {
    format!("program-{OTHER}")
}

/// Starts a program of a user that requests devices. Dropping the pipe ends it.
fn asks(cluster: &Cluster, user_name: &str, request: &str) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program(HOLDS).unwrap()).unwrap();
    let job = job.env("ACCORD_TLS", cluster.tls_of(user_name)).env("ACCORD_DEVICES", request).stdin(input);
    (job.start().unwrap(), ends)
}

/// Starts a program of a user, on a machine outside of the cluster, that requests devices and uses them forever.
fn works(cluster: &Cluster, user_name: &str, request: &str) -> Running {
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap().args(["launch", "0"]);
    let job = job.env("ACCORD_TLS", cluster.tls_of(user_name)).env("ACCORD_DEVICES", request);
    job.env("ACCORD_NODE", "elsewhere").start().unwrap()
}

/// Waits until the queue, as an administrator sees it, satisfies `is`.
fn await_queue(cluster: &Cluster, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let queue = json(cluster, "admin", &["queue"]);
        if is(&queue) {
            return queue;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited in vain for {what}: {queue:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn state(queue: &Value, job: u64) -> Option<&str> {
    queue["jobs"].as_array().unwrap().iter().find(|known| known["job"] == job)?["state"].as_str()
}

fn policy(cluster: &Cluster, user_name: &str, text: &str, more: &[&str]) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, text).unwrap();
    accord(cluster, user_name, &[&["policy", "apply", file.to_str().unwrap()], more].concat())
}

/// Replays an exported history, also with a policy, and asserts that each queue starts all of its jobs.
fn assert_replayed(export: &str, jobs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (history, policy) = (folder.path().join("history.jsonl"), folder.path().join("p.toml"));
    std::fs::write(&history, export).unwrap();
    std::fs::write(&policy, "half-life = \"1d\"\n[site]\nlongest = \"1h\"\n").unwrap();
    let replay = Job::new(package_example("accord-scheduler", "sched-replay").unwrap()).arg("history").arg(&history);
    let replay = replay.arg("--policy").arg(&policy).run().unwrap();
    assert_prints(&replay, 0, &[]);
    let started = format!(", {jobs} of {jobs} started");
    for queue in
        ["first come, first served, best fit", "strict backfill, best fit", "Accord", "Accord with this policy"]
    {
        let head = format!("history: {queue}: ");
        let line = replay.stdout.lines().find(|line| line.starts_with(&head));
        assert!(line.is_some_and(|line| line.ends_with(&started)), "{queue}: {}", replay.report());
    }
}

#[test]
fn jobs_are_shown_explained_held_and_cancelled_by_their_users_and_by_administrators() {
    let Some(cluster) = cluster() else { return };
    let first = works(&cluster, "program", "2:cpu limit=1h");
    first.await_output("ready").unwrap();
    let (second, ends_second) = asks(&cluster, "program", "1:cpu limit=1h");
    second.await_errors("job 2 waits").unwrap();
    let (third, ends_third) = asks(&cluster, &other(), "1:cpu limit=1h");
    third.await_errors("job 3 waits").unwrap();

    // A user sees own jobs, and the number of others'. A user with less usage is ahead.
    let own = accord(&cluster, "program", &["queue"]);
    assert_prints(
        &own,
        0,
        &["2:cpu limit=1h", "h0/0-1", "WHY IT WAITS", "min, reserved", "1 job of other users waits"],
    );
    assert!(!own.stdout.contains(&OTHER.to_string()), "{}", own.report());
    let queue = json(&cluster, "program", &["queue"]);
    assert_eq!((queue["jobs"].as_array().unwrap().len(), &queue["others_waiting"]), (2, &Value::from(1)));
    let waits = &queue["jobs"][1];
    assert_eq!((&waits["job"], &waits["state"], &waits["position"]), (&2.into(), &"waiting".into(), &1.into()));
    assert!(waits["why"].as_str().unwrap().contains(", and none is free"), "{waits:#}");
    let starts = waits["starts_unix_ms"].as_u64().unwrap() - queue["unix_ms"].as_u64().unwrap();
    assert!((3_000_000..3_700_000).contains(&starts), "{queue:#}");
    assert!(queue["jobs"][0]["program"].as_str().unwrap().starts_with("endless"), "{queue:#}");
    // An administrator sees all of them, also in pages.
    let all = json(&cluster, "admin", &["queue"]);
    assert_eq!([1, 2, 3].map(|job| state(&all, job)), [Some("running"), Some("waiting"), Some("waiting")]);
    let page = json(&cluster, "admin", &["queue", "--page", "3", "--rows", "1"]);
    assert_eq!((page["jobs"].as_array().unwrap().len(), &page["jobs"][0]["job"]), (1, &2.into()));
    assert_prints(&accord(&cluster, "admin", &["queue", "--page", "4", "--rows", "1"]), 2, &["there are 3 pages"]);
    assert_prints(&accord(&cluster, "admin", &["queue", "--page", "0"]), 2, &["--page"]);

    let explained = accord(&cluster, "program", &["explain", "job", "2"]);
    assert_prints(
        &explained,
        0,
        &["1 job is before it", "a reserved start in", "it gets 1 device on h0 once these end: job 1 ("],
    );
    let why = accord(&cluster, &other(), &["explain", "job", "3"]);
    assert_prints(&why, 0, &["no job is before it", "once these end: 1 job of other users"]);
    assert_prints(
        &accord(&cluster, "program", &["explain", "job", "1"]),
        0,
        &["its time limit ends it in", "2 devices (cpu", "on h0: to itself"],
    );
    assert_prints(&accord(&cluster, "program", &["explain", "job", "3"]), 125, &["job 3 is another user's"]);
    assert_prints(&accord(&cluster, "program", &["explain", "job", "99"]), 125, &["no waiting or running job 99"]);

    for act in ["cancel", "hold", "release"] {
        assert_prints(&accord(&cluster, "program", &[act, "3"]), 125, &["job 3 is another user's", act]);
        assert_prints(&accord(&cluster, "program", &[act, "99"]), 125, &["no waiting or running job 99"]);
    }
    assert_prints(&accord(&cluster, "program", &["release", "2"]), 125, &["job 2 is not on hold"]);
    assert_prints(&accord(&cluster, "program", &["hold", "1"]), 125, &["job 1 does not wait"]);
    assert_prints(&accord(&cluster, "program", &["hold", "2"]), 0, &["job 2 is on hold"]);
    second.await_errors("job 2 waits: it is on hold").unwrap();
    let held = accord(&cluster, "program", &["explain", "job", "2"]);
    assert_prints(&held, 0, &["why: it is on hold", "accord release 2"]);

    // The job on hold is skipped.
    assert_prints(&accord(&cluster, "program", &["cancel", "1"]), 0, &["job 1 is ended"]);
    third.await_output("has 1").unwrap();
    let cancelled = first.finish().unwrap();
    assert_prints(&cancelled, 1, &["job 1 has ended: cancelled by"]);
    assert!(!cancelled.stderr.contains("longer limit"), "it was no limit: {}", cancelled.report());
    assert_prints(&accord(&cluster, "program", &["release", "2"]), 0, &["job 2 "]);
    second.await_output("has 1").unwrap();
    assert_prints(&accord(&cluster, "admin", &["cancel", "3"]), 0, &["job 3 is ended"]);
    drop(ends_third);
    third.finish().unwrap();
    drop(ends_second);
    second.finish().unwrap().success().unwrap();
    await_queue(&cluster, "an empty queue", |queue| queue["jobs"].as_array().unwrap().is_empty());

    // The records of the ended jobs.
    let own = json(&cluster, "program", &["history"]);
    let jobs: Vec<u64> = own["jobs"].as_array().unwrap().iter().filter_map(|job| job["job"].as_u64()).collect();
    assert_eq!(jobs, [2, 1]);
    assert_eq!(
        (&own["jobs"][0]["why"], &own["jobs"][0]["request"]),
        (&"its command ended".into(), &"1:cpu limit=1h".into())
    );
    let all = json(&cluster, "admin", &["history"]);
    let all = all["jobs"].as_array().unwrap();
    let sum = |of: &str, jobs: &[Value]| jobs.iter().filter_map(|job| job[of].as_u64()).sum::<u64>();
    for job in all {
        let (used, ran) = (job["device_ms"].as_u64().unwrap(), job["ran_ms"].as_u64().unwrap());
        let devices = job["devices"][0]["ordinals"].as_array().unwrap().len() as u64;
        assert!(used >= ran * devices, "charged until its devices are free: {job:#}");
    }
    let table = accord(&cluster, "admin", &["history", "--page", "1", "--rows", "2"]);
    assert_prints(&table, 0, &["cancelled by admin", "DEVICE-HOURS", "since "]);
    for (by, rows) in [("user", 2), ("account", 1), ("day", 1)] {
        let usage = json(&cluster, "admin", &["usage", "--by", by]);
        let found = usage["rows"].as_array().unwrap();
        // Midnight may have passed.
        assert!(found.len() == rows || by == "day" && found.len() == 2, "{usage:#}");
        assert_eq!(sum("jobs", found), 3);
        // Fractions of a millisecond per job and row are omitted.
        assert!(sum("device_ms", found).abs_diff(sum("device_ms", all)) <= 5, "{usage:#} {all:#?}");
    }
    let own = json(&cluster, "program", &["usage"]);
    assert_eq!((own["rows"].as_array().unwrap().len(), &own["rows"][0]["jobs"]), (1, &2.into()));
    assert_prints(&accord(&cluster, "program", &["usage", "--by", "year"]), 2, &["user|account|day"]);
    let export = accord(&cluster, "admin", &["history", "--export"]).success().unwrap();
    let lines: Vec<Value> = export.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["node"], &lines[0]["devices"]), (&"h0".into(), &2.into()), "{}", export.report());
    let jobs: Vec<&Value> = lines.iter().filter(|line| line.get("job").is_some()).collect();
    assert_eq!(jobs.len(), 3);
    assert!(jobs.iter().all(
        |job| job["asked"].as_f64() <= job["started"].as_f64() && job["started"].as_f64() <= job["ended"].as_f64()
    ));
    let cancelled = jobs.iter().find(|job| job["job"] == 1).unwrap();
    assert_eq!((&cancelled["request"]["devices"], &cancelled["request"]["share_milli"]), (&2.into(), &1_000.into()));
    assert_replayed(&export.stdout, jobs.len());
    // The audit log has the administrator's actions, and the refusals.
    let log = cluster.messages();
    assert!(log.contains("admin") && log.contains("ends job 3 of user"), "{log}");
    assert!(log.contains(" audit: ") && log.contains("may not cancel job 3"), "{log}");
}

#[test]
fn what_if_reports_the_start_without_queueing_a_job() {
    let Some(cluster) = cluster() else { return };
    let what_if = |words: &[&str]| accord(&cluster, "program", &[&["what-if"], words].concat());
    assert_prints(&what_if(&["--devices", "2:cpu"]), 0, &["2:cpu of account site would start now, on h0/0-1"]);
    let two_nodes = what_if(&["--devices", "2:cpu", "--nodes", "2"]);
    assert_prints(&two_nodes, 0, &["it can never start on the nodes that there are", "too few nodes have"]);
    assert_prints(
        &what_if(&["--devices", "1:cpu", "--on", "h9"]),
        0,
        &["it can never start on the nodes that there are"],
    );
    let (running, _ends) = asks(&cluster, &other(), "2:cpu limit=1h");
    running.await_output("has 2").unwrap();
    assert_prints(
        &what_if(&["--devices", "1:cpu", "--limit", "30m"]),
        0,
        &["would start in 5", " min", "with 0 jobs before it"],
    );
    let later = json(&cluster, "program", &["what-if", "--devices", "1:cpu"]);
    assert_eq!((&later["outcome"], &later["account"]), (&"later".into(), &"site".into()), "{later:#}");
    assert_prints(
        &what_if(&["--devices", "1:nvidia"]),
        0,
        &["nothing that is known lets it start", "the cluster has no such devices"],
    );
    assert_prints(
        &what_if(&["--devices", "1:cpu", "--account", "physics"]),
        1,
        &["would be refused: the account \"physics\" is not"],
    );
    assert_prints(&what_if(&["--devices", "1:cpuu"]), 2, &["did you mean cpu?"]);
    assert_prints(&what_if(&["--near"]), 2, &["--near is about devices"]);
    assert_prints(&what_if(&[]), 2, &["--devices 4:nvidia names the devices"]);
    // Nothing was submitted.
    assert_eq!(json(&cluster, "admin", &["queue"])["jobs"].as_array().unwrap().len(), 1);
}

#[test]
fn requests_choose_nodes_by_the_labels_of_their_agents() {
    let cluster =
        Cluster::builder().hosts(3).devices(2).memory("64M").labels(&["rack=r1", "rack=r2,disk=fast", "rack=r1"]);
    let mut cluster = cluster.start().unwrap();
    for _ in 0..2 {
        let what_if = |words: &[&str]| accord(&cluster, "program", &[&["what-if", "--devices"], words].concat());
        assert_prints(&what_if(&["2:cpu", "--label", "disk=fast"]), 0, &["would start now, on h1/0-1"]);
        assert_prints(&what_if(&["4:cpu", "--near"]), 0, &["would start now, on h", "h0/0-1", "h2/0-1"]);
        assert_prints(
            &what_if(&["1:cpu", "--label", "rack=r3"]),
            0,
            &["it can never start on the nodes that there are"],
        );
        assert_prints(&accord(&cluster, "program", &["info"]), 0, &["LABELS", "disk=fast,rack=r2"]);
        // A coordinator knows labels only from present agents.
        cluster.kill_coordinator();
        cluster.start_coordinator().unwrap();
        cluster.await_devices(6).unwrap();
    }
    let (running, _ends) = asks(&cluster, "program", "2:cpu label=rack=r2");
    running.await_output("has 2").unwrap();
}

#[test]
fn a_job_that_its_own_node_has_no_devices_for_gets_near_ones() {
    let cluster =
        Cluster::builder().hosts(3).devices(2).memory("64M").labels(&["rack=r1", "rack=r2,disk=fast", "rack=r1"]);
    let cluster = cluster.start().unwrap();
    let (first, _ends) = asks(&cluster, "program", "2:cpu");
    first.await_output("has 2").unwrap();
    let (second, _ends) = asks(&cluster, "program", "1:cpu");
    second.await_output("has 1").unwrap();
    let explained = accord(&cluster, "program", &["explain", "job", "2"]);
    assert_prints(
        &explained,
        0,
        &[
            "h0, its program's own node, had too few such devices free",
            "as seen from its program's own node, h2 is in the same rack; nodes come in this order: ",
            "in the same rack (not measured)",
        ],
    );
    let (third, _ends) = asks(&cluster, "program", "2:cpu");
    third.await_output("has 2").unwrap();
    let words = ["as seen from its program's own node, h1 is neither in the same rack nor at the same switch"];
    assert_prints(&accord(&cluster, "program", &["explain", "job", "3"]), 0, &words);
}

#[test]
fn a_drain_is_of_a_node_or_a_device_and_may_have_a_deadline() {
    let Some(cluster) = cluster() else { return };
    let drain = |words: &[&str]| accord(&cluster, "admin", &[&["drain"], words].concat());
    let what_if = |words: &[&str]| accord(&cluster, "program", &[&["what-if", "--devices"], words].concat());
    assert_prints(&drain(&["h0/0"]), 0, &["h0/0 is given to no job and no new session; no session uses it\n"]);
    assert_prints(&what_if(&["1:cpu"]), 0, &["would start now, on h0/1"]);
    assert_prints(&what_if(&["2:cpu"]), 0, &["nothing that is known lets it start"]);
    let counts = cluster.job(0, &test_program("cluster/device_count.c").unwrap()).unwrap();
    assert_prints(&counts.run().unwrap(), 0, &["devices=1\n"]);
    assert_prints(&drain(&["h0/0", "--undo"]), 0, &["h0/0 is given to jobs and new sessions again"]);
    assert_prints(&drain(&["h0/9"]), 125, &["node h0 has no device 9"]);

    assert_prints(
        &drain(&["h0", "--by", "1h", "--reason", "new fans"]),
        0,
        &["jobs may run there until ", " UTC, in ", "go on"],
    );
    assert_prints(&what_if(&["1:cpu", "--limit", "30m"]), 0, &["would start now, on h0/"]);
    assert_prints(&what_if(&["1:cpu", "--limit", "2h"]), 0, &["nothing that is known lets it start"]);
    assert_prints(&drain(&["h0", "--undo"]), 0, &["takes part in new sessions again"]);

    let (running, _ends) = asks(&cluster, "program", "1:cpu limit=1h");
    running.await_output("has 1").unwrap();
    assert_prints(
        &drain(&["h0", "--by", "1s", "--end"]),
        0,
        &["job 1 holds devices there", "jobs that are left then are ended"],
    );
    await_queue(&cluster, "the end of the job", |queue| state(queue, 1) != Some("running"));
    let history = accord(&cluster, "admin", &["history"]);
    assert_prints(&history, 0, &["drained"]);
    assert_prints(&drain(&["h0", "--by", "6pm"]), 2, &["a time of day in UTC such as 18:00"]);
    // Each action is in the audit log once, with the node's name.
    let log = cluster.messages();
    let audit: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once(" audit: ")?.1)).collect();
    let drains: Vec<&str> = audit.into_iter().filter(|line| line.contains(" drain")).collect();
    let expected = [
        "admin tests drains device 0 of node h0: accord drain",
        "admin tests takes the drain of device 0 of node h0 back",
        "admin tests is refused a drain: node h0 has no device 9; see `accord info`",
        "admin tests drains node h0 within 1h: new fans",
        "admin tests takes the drain of node h0 back",
        "admin tests drains node h0 within 1s, and ends what is left there then: accord drain",
        "the drain of node h0 is due; these jobs there end: 1",
    ];
    assert_eq!(drains, expected, "{log}");
}

const POLICY: &str = "\
others-jobs = \"all\"
memory-quota = \"16M\"

[billing]
cpu = 0.5

[site]
longest = \"2h\"
default-limit = \"1h\"

[account.physics]
users = [\"*\"]
each-user = { most = { cpu = 1 } }
";

#[test]
fn a_policy_is_applied_as_a_whole_and_a_wrong_one_changes_nothing() {
    let Some(cluster) = cluster() else { return };
    let (first, ends) = asks(&cluster, "program", "2:cpu");
    first.await_output("has 2").unwrap();
    let (second, _ends) = asks(&cluster, "program", "2:cpu");
    second.await_errors("job 2 waits").unwrap();

    assert_prints(&policy(&cluster, "program", POLICY, &[]), 125, &["may not apply a policy"]);
    let wrong = POLICY.replace("longest = \"2h\"", "longest = \"2 hours\"").replace("each-user", "each-users");
    assert_prints(
        &policy(&cluster, "admin", &wrong, &[]),
        1,
        &["p.toml:8:", "p.toml:13:1: ", "policy version 0 stays in effect", "^^^"],
    );
    assert_prints(&policy(&cluster, "admin", "half-life = [", &[]), 1, &["p.toml:1:", "version 0 stays"]);
    // Jobs of a removed account stop waiting; others are checked against their requests.
    let dry = policy(&cluster, "admin", POLICY, &["--dry-run"]);
    assert_prints(&dry, 0, &["job 2 would stop waiting", "version 0 stays in effect"]);
    let checked = |user_name: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.toml");
        std::fs::write(&file, POLICY).unwrap();
        accord(&cluster, user_name, &["policy", "check", file.to_str().unwrap()])
    };
    assert_prints(&checked("admin"), 0, &["physics\n", "job 2 would stop waiting", "version 0 stays in effect"]);
    assert_prints(&checked("program"), 0, &["physics\n", "is left out: the coordinator at ", "may not apply a policy"]);
    let applied = policy(&cluster, "admin", POLICY, &["--json"]);
    let displayed: Value = serde_json::from_str(&applied.stdout).unwrap();
    assert_eq!(
        (&displayed["applied"], &displayed["policy_version"]),
        (&true.into(), &1.into()),
        "{}",
        applied.report()
    );
    assert_prints(&second.finish().unwrap(), 1, &["the policy has its account no longer"]);

    // Accounts, limits, and the visibility of other users' jobs.
    let (third, _ends) = asks(&cluster, &other(), "2:cpu");
    assert_prints(&third.finish().unwrap(), 1, &["may have 1 of these devices"]);
    let (third, _ends) = asks(&cluster, &other(), "1:cpu limit=3h");
    assert_prints(&third.finish().unwrap(), 1, &["may last 2h at most"]);
    let (third, _ends) = asks(&cluster, &other(), "1:cpu");
    third.await_errors("waits").unwrap();
    let seen = json(&cluster, "program", &["queue"]);
    let waits = seen["jobs"].as_array().unwrap().iter().find(|job| job["state"] == "waiting").unwrap();
    assert_eq!((&waits["account"], &waits["request"]), (&"physics".into(), &"1:cpu limit=1h".into()), "{seen:#}");
    drop(ends);
    first.finish().unwrap().success().unwrap();
    third.await_output("has 1").unwrap();
    let usage = json(&cluster, "admin", &["usage", "--by", "account"]);
    let physics = usage["rows"].as_array().unwrap().iter().find(|row| row["name"] == "physics").unwrap();
    let (device, billed) = (physics["device_ms"].as_u64().unwrap(), physics["billed_ms"].as_u64().unwrap());
    assert!(device.abs_diff(2 * billed) <= 2, "{usage:#}");
    let limits = accord(&cluster, "program", &["info"]);
    assert_prints(&limits, 0, &["16.0 MiB of memory on each device"]);
    let log = cluster.messages();
    assert!(log.contains("applies a policy of"), "{log}");
    assert!(log.contains("is refused a policy with "), "{log}");
}

#[test]
fn a_default_gives_programs_that_ask_for_nothing_a_job() {
    let Some(cluster) = cluster() else { return };
    let text = "[account.physics]\nusers = [\"*\"]\ndefault = \"1:cpu\"\n";
    assert_prints(&policy(&cluster, "admin", text, &[]), 0, &["policy version 1 is in effect"]);
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program(HOLDS).unwrap()).unwrap().stdin(input).start().unwrap();
    job.await_output("has 1").unwrap();
    let queue = json(&cluster, "admin", &["queue"]);
    assert_eq!((state(&queue, 1), &queue["jobs"][0]["request"]), (Some("running"), &"1:cpu".into()));
    drop(ends);
    job.finish().unwrap().success().unwrap();
}

#[test]
fn a_coordinator_starts_with_a_policy_and_refuses_one_beside_its_flags() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    let start = |text: &str, stream_quota: Option<&str>| {
        std::fs::write(&file, text).unwrap();
        let cluster = Cluster::builder().hosts(1).devices(1).memory("64M").env("ACCORD_POLICY", file.as_os_str());
        match stream_quota {
            Some(quota) => cluster.env("ACCORD_STREAM_QUOTA", quota).start(),
            None => cluster.start(),
        }
    };
    let cluster = start("stream-quota = 4\n", None).unwrap();
    assert_prints(&accord(&cluster, "program", &["info"]), 0, &["4 streams on each device"]);
    // A replacement policy.
    assert_prints(&policy(&cluster, "admin", "[site]\n", &[]), 0, &["policy version 2 is in effect"]);
    assert_prints(&accord(&cluster, "program", &["info"]), 0, &["32 streams on each device"]);
    let cluster = start("[account.default]\n", Some("5")).unwrap();
    assert_prints(&accord(&cluster, "program", &["info"]), 0, &["5 streams on each device"]);
    let both = policy(&cluster, "admin", "stream-quota = 4\n", &[]);
    assert_prints(&both, 125, &["the coordinator has --stream-quota, and the policy sets stream-quota, too"]);
    let twice = start("stream-quota = 4\n", Some("5")).err().unwrap();
    assert!(twice.contains("the coordinator has --stream-quota"), "{twice}");
    let wrong = start("longst = 4\n", None).err().unwrap();
    assert!(wrong.contains("p.toml:1:1: "), "{wrong}");
}

#[test]
fn an_administrator_pauses_all_starts_and_changes_limits_and_places() {
    let Some(cluster) = cluster() else { return };
    assert_prints(&accord(&cluster, "program", &["pause"]), 125, &["may not pause all starts"]);
    assert_prints(&accord(&cluster, "admin", &["pause"]), 0, &["no job starts until accord pause --undo"]);
    let (first, _ends) = asks(&cluster, "program", "2:cpu");
    first.await_errors("job 1 waits: all starts are paused").unwrap();
    let second = works(&cluster, "program", "2:cpu");
    second.await_errors("job 2 waits").unwrap();
    assert_prints(&accord(&cluster, "program", &["queue"]), 0, &["no job starts: an administrator has paused all"]);
    assert_prints(&accord(&cluster, "program", &["explain", "job", "2"]), 0, &["accord pause --undo"]);

    assert_prints(
        &accord(&cluster, "program", &["change", "2", "--first"]),
        125,
        &["may not change the jobs of all users"],
    );
    assert_prints(&accord(&cluster, "admin", &["change", "2"]), 2, &["--limit"]);
    assert_prints(&accord(&cluster, "admin", &["change", "2", "--limit", "2x"]), 2, &["a time such as"]);
    assert_prints(&accord(&cluster, "admin", &["change", "99", "--first"]), 125, &["no waiting or running job 99"]);
    assert_prints(
        &accord(&cluster, "admin", &["change", "2", "--first", "--limit", "3h"]),
        0,
        &["job 2 has a limit of 3h and is before all others"],
    );
    assert_prints(
        &accord(&cluster, "admin", &["pause", "--undo"]),
        0,
        &["jobs start again: waiting 1 job, running 1 job"],
    );
    second.await_output("ready").unwrap();
    assert_prints(&accord(&cluster, "admin", &["change", "2", "--first"]), 125, &["job 2 does not wait"]);
    assert_prints(&accord(&cluster, "program", &["explain", "job", "2"]), 0, &["its time limit ends it in "]);
    // The limit of a running job counts from its start.
    assert_prints(&accord(&cluster, "admin", &["change", "2", "--limit", "1s"]), 0, &["job 2 has a limit of 1s"]);
    assert_prints(&second.finish().unwrap(), 1, &["job 2 has ended: its time limit"]);
    first.await_output("has 2").unwrap();
    let log = cluster.messages();
    for act in ["pauses all starts", "puts job 2 first", "sets the limit of job 2", "resumes all starts"] {
        assert!(log.contains(act), "no {act:?} in {log}");
    }
}

#[test]
fn without_a_coordinator_the_setting_is_named() {
    for words in [&["queue"][..], &["cancel", "1"], &["history"], &["usage"], &["pause"], &["explain", "job", "1"]] {
        let finished = Job::new(tool(Tool::Accord).unwrap()).args(words.iter().copied()).run().unwrap();
        assert_prints(&finished, 125, &["ACCORD_COORDINATOR is not set"]);
    }
    let missing = Path::new("/nowhere/p.toml");
    let apply = ["policy", "apply", missing.to_str().unwrap()];
    let finished = Job::new(tool(Tool::Accord).unwrap()).args(apply).env("ACCORD_COORDINATOR", "127.0.0.1:1").run();
    assert_prints(&finished.unwrap(), 125, &["/nowhere/p.toml"]);
}
