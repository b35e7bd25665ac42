//! Names that a tenant gives its program and node are displayed to others, without further effects on their terminals
//! and logs.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Job, Tool, test_program, tool};

/// Sets a terminal's title, clears it, starts lines anew, and reverses the direction.
const PROGRAM: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\rroot\n\u{202e}gpj";
const NODE: &str = "n\u{1b}[31m\nfake";

/// Returns the characters of a multi-line text that a terminal would obey.
fn obeyed(text: &str) -> Vec<char> {
    text.chars().filter(|c| c.is_control() && *c != '\n' || matches!(c, '\u{202a}'..='\u{202e}')).collect()
}

#[test]
fn control_characters_in_names_are_shown_by_their_numbers_and_exact_in_json() {
    let cluster = Cluster::builder().devices(1).memory("64M").env("ACCORD_LOG", "debug").start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(PROGRAM);
    std::fs::copy(test_program("cluster/endless.c").unwrap(), &program).unwrap();
    let job = cluster.job(0, &program).unwrap().args(["launch", "0"]).env("ACCORD_NODE", NODE);
    let running = job.start().unwrap();
    running.await_output("ready").unwrap();
    let info = Job::new(tool(Tool::Accord).unwrap()).arg("info").env("ACCORD_COORDINATOR", cluster.address());
    let displayed = info.env("ACCORD_TLS", cluster.tls_of("admin")).run().unwrap().success().unwrap().stdout;
    assert_eq!(obeyed(&displayed), [], "{displayed}");
    let row = "\\u{1b}]0;owned\\u{7}\\u{1b}[2J\\rroot\\n\\u{202e}gpj  n\\u{1b}[31m\\nfake ";
    assert!(displayed.contains(row), "{displayed}");
    let session = &cluster.info().unwrap()["sessions"][0];
    assert_eq!((session["program"].as_str(), session["node"].as_str()), (Some(PROGRAM), Some(NODE)), "{session}");
    let printed = cluster.messages();
    assert_eq!(obeyed(&printed), [], "{printed}");
    assert!(!printed.contains("\nfake") && !printed.contains("\nroot"), "{printed}");
    drop(running);
}
