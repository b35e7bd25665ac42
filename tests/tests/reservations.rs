//! Reservations with real programs: created, refused, used, listed, kept over a restart of the coordinator, deleted.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Finished, Job, Running, Tool, test_program, tool};
use serde_json::Value;
use std::io::PipeWriter;
use std::path::Path;

/// A program that prints its number of devices, and holds them until its input ends.
const HOLDS: &str = "cluster/holds_devices.c";
/// A user other than that of the tests.
const OTHER: u32 = 12_345;

fn cluster(state: &Path) -> Cluster {
    // The machine has no account with the other user's name.
    let cluster = Cluster::builder().hosts(1).devices(2).memory("64M").other_tenants(&[OTHER]);
    cluster.users("*=60003-60012").env("ACCORD_STATE", state.as_os_str()).start().unwrap()
}

/// Runs `accord` with the certificates of a user.
fn accord(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> Finished {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(arguments.iter().copied());
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name));
    job.env("ACCORD_NODE", cluster.host(0)).run().unwrap()
}

/// Asserts that the command ended with `code`, and that its output contains all words.
fn assert_prints(finished: &Finished, code: i32, words: &[&str]) {
    assert_eq!(finished.code(), code, "{}", finished.report());
    for word in words {
        assert!(finished.stdout.contains(word) || finished.stderr.contains(word), "no {word:?}\n{}", finished.report());
    }
}

/// Returns the name in the certificate of the tests' programs.
fn own_name() -> String {
    let own = nix::unistd::getuid();
    let known = nix::unistd::User::from_uid(own).ok().flatten();
    known.map_or_else(|| own.to_string(), |user| user.name)
}

/// Starts a program of a user that requests devices. Dropping the pipe ends it.
fn asks(cluster: &Cluster, user_name: &str, request: &str) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(0, &test_program(HOLDS).unwrap()).unwrap();
    let job = job.env("ACCORD_TLS", cluster.tls_of(user_name)).env("ACCORD_DEVICES", request).stdin(input);
    (job.start().unwrap(), ends)
}

/// Starts a command that requests devices for a program. Dropping the pipe ends it.
fn runs(cluster: &Cluster, user_name: &str, request: &[&str]) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let program = test_program(HOLDS).unwrap();
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["run", "--limit", "30m", "--devices"]);
    let job = job.args(request.iter().copied()).args(["--", program.to_str().unwrap()]).stdin(input);
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name));
    (job.env("ACCORD_NODE", cluster.host(0)).start().unwrap(), ends)
}

#[test]
fn a_reservation_keeps_devices_for_its_members_and_outlasts_the_coordinator() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(&folder.path().join("state"));
    let (own, other) = (own_name(), format!("program-{OTHER}"));
    let create = |cluster: &Cluster, user_name: &str, words: &[&str]| {
        accord(cluster, user_name, &[&["reservation", "create"], words, &["--zone", "Europe/Berlin"]].concat())
    };
    let course = ["course", "--nodes", "h0/0", "--users", &own, "--start", "now", "--duration", "1h", "--weekly"];
    let refused = create(&cluster, "program", &course);
    assert_prints(&refused, 125, &["may not make and remove reservations"]);
    assert_prints(
        &create(&cluster, "admin", &["course", "--nodes", "h9", "--maintenance", "--start", "now", "--duration", "1h"]),
        125,
        &["there is no node h9"],
    );
    assert_prints(
        &create(&cluster, "admin", &["x", "--nodes", "h0", "--start", "now", "--duration", "1h"]),
        2,
        &["--maintenance"],
    );
    let made = create(&cluster, "admin", &course);
    assert_prints(
        &made,
        0,
        &[&format!("reservation course: h0/0 for user {own}, from 20"), " Europe/Berlin until ", "and each week"],
    );

    // Other users get the other device, and the reason why they don't get this one.
    let (waits, ends_waits) = asks(&cluster, &other, "2:cpu limit=30m");
    waits.await_errors("the reservation course has others").unwrap();
    let explained = accord(&cluster, &other, &["explain", "job", "1"]);
    assert_prints(
        &explained,
        0,
        &["the reservation course has others", "the reservation course is from 20", " Europe/Berlin"],
    );
    let (unauthenticated, _ends) = runs(&cluster, &other, &["1:cpu", "--reservation", "course"]);
    assert_prints(&unauthenticated.finish().unwrap(), 121, &["is for other accounts and users"]);
    let what_if = ["what-if", "--devices", "1:cpu", "--limit", "5m", "--reservation", "course"];
    assert_prints(&accord(&cluster, "program", &what_if), 0, &["would start now, on h0/0"]);
    let (member, ends_member) = runs(&cluster, "program", &["1:cpu", "--reservation", "course"]);
    member.await_output("has 1").unwrap();

    // Running jobs prevent maintenance, unless it ends them.
    let maintenance = ["fans", "--maintenance", "--start", "2s", "--duration", "1h", "--reason", "new fans"];
    assert_prints(
        &create(&cluster, "admin", &maintenance),
        125,
        &["running job 2 reaches into the reservation", "--end"],
    );
    cluster.kill_coordinator();
    cluster.start_coordinator().unwrap();
    cluster.await_info("the node", |info| info["nodes"][0]["state"] == "up").unwrap();
    assert_prints(
        &create(&cluster, "admin", &[&maintenance[..], &["--end"]].concat()),
        0,
        &["fans: all devices for no job"],
    );
    member.await_errors("its devices are reserved by \"fans\"").unwrap();
    drop((member, ends_member));
    let listed = accord(&cluster, "admin", &["reservation", "list"]);
    assert_prints(&listed, 0, &["course", "weekly", "fans", "all devices", "new fans", "admin"]);
    // Users see of others' reservations what they see of others' jobs.
    let listed = accord(&cluster, &other, &["reservation", "list"]);
    assert_prints(&listed, 0, &["course", "weekly", "fans", "all devices", "others"]);
    assert!(!listed.stdout.contains("new fans") && !listed.stdout.contains("admin"), "{}", listed.report());
    assert_prints(
        &accord(&cluster, &other, &["queue"]),
        0,
        &["reservation course: h0/0", "reservation fans: all devices"],
    );
    assert_prints(&accord(&cluster, &other, &["info"]), 0, &["reservation fans: all devices for others"]);
    let displayed = accord(&cluster, "program", &["reservation", "list", "fans", "--json"]);
    let displayed: Value = serde_json::from_str(&displayed.stdout).unwrap();
    assert_eq!(displayed["reservations"][0]["all_devices"], true, "{displayed:#}");
    assert_eq!(displayed["reservations"].as_array().unwrap().len(), 1, "{displayed:#}");

    assert_prints(&accord(&cluster, "program", &["reservation", "delete", "fans"]), 125, &["may not make and remove"]);
    assert_prints(&accord(&cluster, "admin", &["reservation", "delete", "fans", "course"]), 0, &["course is deleted"]);
    assert_prints(
        &accord(&cluster, "admin", &["reservation", "delete", "fans"]),
        125,
        &["there is no reservation fans"],
    );
    waits.await_output("has 2").unwrap();
    drop(ends_waits);
    let log = cluster.messages();
    for (line, count) in [
        ("admin tests makes the reservation \"course\" of h0/0", 1),
        ("admin tests makes the reservation \"fans\" of all devices", 1),
        ("admin tests is refused the reservation \"fans\"", 1),
        ("admin tests removes the reservation \"course\"", 1),
    ] {
        assert_eq!(log.matches(line).count(), count, "{line}\n{log}");
    }
}
