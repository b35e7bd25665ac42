//! `accord policy check` as administrators and scripts use it.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::process::{Command, Output};

fn check(policy: &[u8], options: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("site.toml"), policy).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_accord"));
    command.args(["policy", "check", "site.toml"]).args(options).current_dir(folder.path()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const GOOD: &[u8] = b"[site]\nlongest = \"2d\"\n[account.physics]\nguaranteed = { nvidia = 8 }\nusers = [\"eva\"]\n";

#[test]
fn a_good_policy_is_answered_with_the_longest_waits() {
    let output = check(GOOD, &["--cluster", "8:nvidia/h200 + 4:cpu"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.contains("physics\n  within its guarantee: 1h 2m\n  otherwise: "), "{printed}");
    let json: Value = serde_json::from_slice(&check(GOOD, &["--json"]).stdout).unwrap();
    assert_eq!(json["findings"], serde_json::json!([]));
    assert_eq!(json["longest_waits"][0]["account"], "physics");
    assert_eq!(json["longest_waits"][0]["guaranteed_ms"], 62 * 60_000);
}

#[test]
fn without_a_coordinator_it_is_said_that_the_changes_for_jobs_are_left_out() {
    let left_out = "What it would change for running and waiting jobs of a cluster is left out: ";
    let printed = |address: Option<&str>| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("site.toml"), GOOD).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_accord"));
        command.env_remove("ACCORD_COORDINATOR").args(["policy", "check", "site.toml"]).current_dir(folder.path());
        let output =
            address.into_iter().fold(&mut command, |command, of| command.env("ACCORD_COORDINATOR", of)).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout)
    };
    let (unset, silent) = (printed(None), printed(Some("unix:/nowhere/accord")));
    assert!(unset.contains(&format!("{left_out}ACCORD_COORDINATOR is not set")), "{unset}");
    assert!(silent.contains(&format!("{left_out}no coordinator answers at unix:/nowhere/accord")), "{silent}");
    assert!(silent.contains("physics\n  within its guarantee: 1h 2m\n"), "{silent}");
}

#[test]
fn all_that_is_wrong_is_told_with_its_line_and_column() {
    let bad = b"quantm = \"1h\"\n[account.a]\nparent = \"b\"\n";
    let output = check(bad, &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let printed = text(&output.stdout);
    assert!(printed.contains("site.toml:1:1: a policy has no key quantm: did you mean quantum?"), "{printed}");
    assert!(printed.contains("\n  quantm = \"1h\"\n  ^^^^^^\n"), "{printed}");
    assert!(printed.contains("site.toml:3:10: there is no account b"), "{printed}");
    let json: Value = serde_json::from_slice(&check(bad, &["--json"]).stdout).unwrap();
    let places: Vec<_> =
        json["findings"].as_array().unwrap().iter().map(|found| (&found["line"], &found["column"])).collect();
    assert_eq!(places.len(), 2);
    assert!(*places[1].0 == 3 && *places[1].1 == 10, "{json}");
}

#[test]
fn guarantees_are_compared_with_the_cluster() {
    let output = check(GOOD, &["--cluster", "7:nvidia/h200"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).contains("8 of nvidia are guaranteed, and the cluster has 7"), "{output:?}");
    let wrong = check(GOOD, &["--cluster", "7:nvdia"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(text(&wrong.stderr).contains("did you mean nvidia?"), "{wrong:?}");
}

#[test]
fn a_file_that_is_no_text_or_not_there_is_told() {
    let binary = check(b"half-life = \"1d\"\n\xff\n", &[]);
    assert_eq!(binary.status.code(), Some(125), "{binary:?}");
    assert!(text(&binary.stderr).contains("site.toml:2: no UTF-8"), "{binary:?}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_accord"));
    let absent = command.args(["policy", "check", "/nowhere/site.toml"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(125), "{absent:?}");
}
