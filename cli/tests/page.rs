//! `accord page` in the hands of a user of the coordinator's machine.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A coordinator that listens at a UNIX socket. It is killed when dropped.
struct Coordinator {
    child: Child,
    folder: tempfile::TempDir,
}

impl Coordinator {
    /// Starts it with options; `None` where it is not built. Returns its lines on standard output, too.
    fn start(options: &[&str], lines: usize) -> Option<(Self, Vec<String>)> {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_accord")).with_file_name("accord-coordinator");
        if !program.exists() {
            println!("skipped: {} is not built", program.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command.arg("--socket").arg(folder.path().join("socket")).args(options);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let printed = output.lines().take(lines).map(Result::unwrap).collect();
        Some((Self { child, folder }, printed))
    }

    fn page(&self, options: &[&str]) -> Output {
        let address = format!("unix:{}", self.folder.path().join("socket").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_accord"));
        command.arg("page").args(options).env("ACCORD_COORDINATOR", address).output().unwrap()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_address_is_a_page_with_a_code() {
    let Some((coordinator, printed)) = Coordinator::start(&["--page-listen", "127.0.0.1:0"], 2) else { return };
    let page = printed[1].strip_prefix("accord-coordinator shows its page at ").expect(&printed[1]);
    let output = coordinator.page(&[]);
    assert!(output.status.success(), "{output:?}");
    let url = text(&output.stdout);
    let path = url.trim_end().strip_prefix(page).expect(&url);
    assert!(path.starts_with("/enter?code="), "{url}");
    let reported = text(&output.stderr);
    assert!(reported.contains("once, within 60 s") && reported.contains("ssh -N -L "), "{reported}");
    let json: Value = serde_json::from_slice(&coordinator.page(&["--json"]).stdout).unwrap();
    assert_eq!((&json["valid_ms"], &json["local"]), (&60_000.into(), &true.into()), "{json}");
    assert_ne!(json["url"].as_str().unwrap(), url.trim_end(), "each code is another one");
    let host = page.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303") && answer.contains("HttpOnly"), "{answer}");
}

#[test]
fn without_a_page_it_is_told_what_is_missing() {
    let Some((coordinator, _)) = Coordinator::start(&[], 1) else { return };
    let output = coordinator.page(&[]);
    assert_eq!(output.status.code(), Some(125), "{output:?}");
    assert!(text(&output.stderr).contains("--page-listen"), "{output:?}");
}
