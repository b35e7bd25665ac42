//! Starts `accord run`, and checks what it leaves behind.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A time limit that nothing here reaches.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the two ways to separate hosts. Namespaces are skipped with a message if they are impossible.
pub(crate) fn ways() -> Vec<&'static [&'static str]> {
    let mut ways: Vec<&[&str]> = vec![&["--loopback"]];
    if namespaces() {
        ways.push(&[]);
    } else {
        println!("skipped: hosts in namespaces, for lack of the right to make them");
    }
    ways
}

/// Whether `accord run` can create namespaces here.
pub(crate) fn namespaces() -> bool {
    Command::new("unshare")
        .args(["--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "ip", "link"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// One run in a temporary directory of its own.
pub(crate) struct Run {
    pub(crate) dir: tempfile::TempDir,
    options: Vec<String>,
}

impl Run {
    /// Creates a run of hosts with coordinator and agents.
    pub(crate) fn cluster(way: &[&str], size: &str) -> Self {
        let options = ["run", "--local-cluster", size].map(str::to_owned).to_vec();
        Self { dir: tempfile::tempdir().unwrap(), options }.with(way)
    }

    /// Creates a run of hosts without coordinator and agents.
    pub(crate) fn bare(way: &[&str], size: &str) -> Self {
        Self::cluster(way, size).with(&["--bare"])
    }

    pub(crate) fn with(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&option| option.to_owned()));
        self
    }

    /// Returns a command with a shell script as program; `$MARK` in it is a word that only this run's processes have.
    pub(crate) fn command(&self, script: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accord"));
        command
            .args(&self.options)
            .args(["--", "/bin/bash", "-c", script, &self.mark()])
            .env("MARK", self.mark())
            .env("DIR", self.dir.path())
            .env("TMPDIR", self.dir.path())
            .env_remove("ACCORD_COORDINATOR")
            .env_remove("ACCORD_NODE")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, script: &str) -> Output {
        self.command(script).output().unwrap()
    }

    pub(crate) fn spawn(&self, script: &str) -> Child {
        self.command(script).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn mark(&self) -> String {
        format!("mark-{}", self.dir.path().file_name().unwrap().to_string_lossy())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Waits until the program has written `name`.
    pub(crate) fn await_file(&self, name: &str) -> String {
        let path = self.file(name);
        await_that(&format!("{name} is there"), || path.exists());
        std::fs::read_to_string(path).unwrap()
    }

    /// Waits until no process of this run exists. Checks that it left no directory, and that no process holds the
    /// network namespace with this inode.
    pub(crate) fn assert_nothing_left(&self, net: Option<&str>) {
        let mark = self.mark();
        await_that("no process of the run is left", || processes_with(&mark).is_empty());
        let left = || -> Vec<_> {
            std::fs::read_dir(self.dir.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .filter(|name| name.starts_with("accord-"))
                .collect()
        };
        await_that("the run's directory is gone", || left().is_empty());
        if let Some(net) = net {
            await_that("the host's namespace is gone", || !holders(net.trim()));
        }
    }
}

pub(crate) fn await_that(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn signal(child: &Child, signal: &str) {
    let status = Command::new("bash").args(["-c", "kill $0 $1", signal, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the processes whose environment or command line contains `mark`.
fn processes_with(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.parse::<u32>().is_err() || name == std::process::id().to_string() {
            continue;
        }
        let has = |file: &str| {
            std::fs::read(entry.path().join(file))
                .is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark.as_bytes()))
        };
        if has("environ") || has("cmdline") {
            found.push(name);
        }
    }
    found
}

/// Whether a process is in, or has a descriptor of, the namespace called `net:[inode]`.
fn holders(net: &str) -> bool {
    let is = |path: &Path| std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy() == net);
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        is(&entry.path().join("ns/net"))
            || std::fs::read_dir(entry.path().join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| is(&fd.path())))
    })
}
