//! The site's prolog and epilog, which agents run for each job.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, ClusterBuilder, Job, Running, test_program};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(120);
/// How long a script of an ended job may take.
const SOON: Duration = Duration::from_secs(60);
/// Adds a line to the notes.
const NOTE: &str = "echo $ACCORD_JOB_SCRIPT $ACCORD_JOB_ID $ACCORD_JOB_ACCOUNT $ACCORD_JOB_NODE $ACCORD_JOB_DEVICES >> $(dirname $0)/notes";

/// Scripts of a site, and the notes that they take.
struct Site(TempDir);

impl Site {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Returns two hosts with one device each, whose agents run these scripts.
    fn cluster(&self, prolog: &str, epilog: &str) -> ClusterBuilder {
        let (prolog, epilog) = (self.script("prolog", prolog), self.script("epilog", epilog));
        let builder = Cluster::builder().hosts(2).devices(1).memory("64M");
        builder.env("ACCORD_PROLOG", prolog).env("ACCORD_EPILOG", epilog)
    }

    fn notes(&self) -> String {
        fs::read_to_string(self.0.path().join("notes")).unwrap_or_default()
    }

    fn await_notes(&self, wanted: &str) {
        let by = Instant::now() + SOON;
        while self.notes() != wanted {
            assert!(Instant::now() < by, "{:?} is not {wanted:?}", self.notes());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns a program on the first host that uses a device of `node` until it is killed.
fn job(cluster: &Cluster, node: &str) -> Job {
    let job = cluster.job(0, &test_program("cluster/endless.c").unwrap()).unwrap();
    job.args(["idle", "0"]).env("ACCORD_DEVICES", format!("1:cpu on={node} wait=5s")).timeout(LIMIT)
}

fn start(cluster: &Cluster, node: &str) -> Running {
    let running = job(cluster, node).start().unwrap();
    running.await_output("ready").unwrap_or_else(|error| panic!("{error}\n{}", cluster.messages()));
    running
}

fn end(running: Running) {
    running.signal(Signal::SIGKILL).unwrap();
    running.finish().unwrap();
}

/// Whether the device of h1 is in quarantine for this reason.
fn is_in_quarantine(info: &Value, reason: &str) -> bool {
    let mut devices = info["devices"].as_array().into_iter().flatten();
    devices.any(|row| row["node"] == "h1" && row["quarantine"]["reason"] == reason)
}

fn release(cluster: &Cluster) {
    cluster.accord_as("admin").unwrap().args(["quarantine", "--release", "h1/0"]).run().unwrap().success().unwrap();
}

fn log(cluster: &Cluster, host: usize) -> String {
    fs::read_to_string(cluster.log(Some(host)).unwrap()).unwrap()
}

/// The program drives the device of h0 itself, and that of h1 by an executor.
#[test]
fn the_prolog_precedes_a_job_s_first_use_of_a_node_and_the_epilog_follows_its_last() {
    for (host, node) in ["h0", "h1"].into_iter().enumerate() {
        let site = Site::new();
        let prolog = format!("sleep 2; echo a word; {NOTE}");
        let cluster = site.cluster(&prolog, NOTE).start().unwrap();
        let running = start(&cluster, node);
        let notes = site.notes();
        assert!(notes.starts_with("prolog 1 ") && notes.ends_with(&format!(" {node} 0\n")), "{notes}");
        assert_eq!(notes.lines().count(), 1, "{notes}");
        assert!(log(&cluster, host).contains("the prolog of job 1 says: a word"), "{}", log(&cluster, host));
        end(running);
        site.await_notes(&format!("{notes}{}", notes.replacen("prolog", "epilog", 1)));
        assert!(!log(&cluster, 1 - host).contains("the prolog"), "the other node has none of the job's devices");
        // The device is free again.
        end(start(&cluster, node));
    }
}

#[test]
fn a_job_is_kept_off_a_node_whose_prolog_fails() {
    let site = Site::new();
    let prolog = format!("{NOTE}; test -e $(dirname $0)/scratch && exit 0; echo no scratch >&2; exit 3");
    let cluster = site.cluster(&prolog, NOTE).start().unwrap();
    for (number, node) in [(1, "h0"), (2, "h1")] {
        let refused = job(&cluster, node).run().unwrap();
        assert!(refused.code() != 0 && !refused.stdout.contains("ready"), "{}", refused.report());
        let why = format!("job {number}: the site's prolog has failed there: exit status: 3: no scratch");
        assert!(refused.stderr.contains(&why), "{}", refused.report());
    }
    // No other job gets the device, until an administrator has mended the node.
    let reason = "the prolog of job 2 has failed: exit status: 3: no scratch";
    cluster.await_info("the quarantine", |info| is_in_quarantine(info, reason)).unwrap();
    let notes = site.notes();
    let refused = job(&cluster, "h1").run().unwrap();
    assert!(refused.code() != 0 && !refused.stdout.contains("ready"), "{}", refused.report());
    assert_eq!(site.notes(), notes, "the job has the device");
    fs::write(site.0.path().join("scratch"), "").unwrap();
    release(&cluster);
    end(start(&cluster, "h1"));
    let of_second = site.notes().lines().filter(|line| line.contains(" 2 ")).count();
    assert_eq!(of_second, 2, "{}", site.notes());
}

#[test]
fn a_script_ends_at_its_time_limit_with_all_that_it_has_started() {
    let site = Site::new();
    let prolog = "sleep 1234 & echo $! > $(dirname $0)/notes; sleep 1234";
    let cluster = site.cluster(prolog, "exit 0").env("ACCORD_SCRIPT_TIME", "2s").start().unwrap();
    let refused = job(&cluster, "h1").run().unwrap();
    assert!(refused.stderr.contains("it took longer than 2s, its time limit"), "{}", refused.report());
    let started = Path::new("/proc").join(site.notes().trim());
    let by = Instant::now() + SOON;
    while fs::read_to_string(started.join("cmdline")).is_ok_and(|text| text.contains("1234")) {
        assert!(Instant::now() < by, "{} goes on", started.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_device_whose_epilog_fails_is_in_quarantine_until_an_administrator_releases_it() {
    let site = Site::new();
    let cluster = site.cluster("exit 0", "echo memory is in use; exit 4").start().unwrap();
    end(start(&cluster, "h1"));
    let reason = "the epilog of job 1 has failed: exit status: 4: memory is in use";
    cluster.await_info("the quarantine", |info| is_in_quarantine(info, reason)).unwrap();
    let refused = job(&cluster, "h1").run().unwrap();
    assert!(refused.code() != 0 && !refused.stdout.contains("ready"), "{}", refused.report());
    release(&cluster);
    end(start(&cluster, "h1"));
}

#[test]
fn an_agent_of_root_takes_no_script_that_other_users_can_change() {
    if !nix::unistd::geteuid().is_root() {
        return println!("skipped: an agent of another user runs scripts as itself");
    }
    let site = Site::new();
    let cluster = site.cluster("exit 0", "exit 0");
    fs::set_permissions(site.0.path().join("epilog"), Permissions::from_mode(0o777)).unwrap();
    let error = cluster.start().err().unwrap();
    assert!(error.contains("users other than root can change") && error.contains("epilog"), "{error}");
}

#[test]
fn an_agent_that_does_not_find_its_script_says_so() {
    let error = Cluster::builder().hosts(1).devices(1).env("ACCORD_PROLOG", "/no/such/prolog").start().err().unwrap();
    assert!(error.contains("cannot find the prolog at /no/such/prolog"), "{error}");
}
