//! `accord top` over a cluster of three hosts: its output, and its screen in a terminal.
#![forbid(unsafe_code)]

use accord_tests::{Cluster, Job, Running, Tool, test_program, tool};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{PipeWriter, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A user other than that of the tests.
const OTHER: u32 = 12_345;
const SOON: Duration = Duration::from_secs(60);

fn cluster() -> Cluster {
    Cluster::builder().hosts(3).devices(2).memory("64M").other_tenants(&[OTHER]).start().unwrap()
}

/// Starts a program on a host that keeps its device busy. Dropping the pipe ends it.
fn works(cluster: &Cluster, host: usize, request: Option<&str>) -> (Running, PipeWriter) {
    let (input, ends) = std::io::pipe().unwrap();
    let job = cluster.job(host, &test_program("cluster/uses_device.c").unwrap()).unwrap().stdin(input);
    let job = request.into_iter().fold(job, |job, request| job.env("ACCORD_DEVICES", request));
    let running = job.start().unwrap();
    running.await_output("has ").unwrap();
    (running, ends)
}

fn top(cluster: &Cluster, user_name: &str, arguments: &[&str]) -> String {
    let job = Job::new(tool(Tool::Accord).unwrap()).args(["top"]).args(arguments.iter().copied());
    let job = job.env("ACCORD_COORDINATOR", cluster.address()).env("ACCORD_TLS", cluster.tls_of(user_name));
    job.run().unwrap().success().unwrap().stdout
}

fn json(cluster: &Cluster, user_name: &str) -> Value {
    let text = top(cluster, user_name, &["--json"]);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Waits until the tables satisfy a condition.
fn await_tables(cluster: &Cluster, user_name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let tables = json(cluster, user_name);
        if is(&tables) {
            return tables;
        }
        assert!(begun.elapsed() < SOON, "waited in vain for {what}: {tables:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn rows<'a>(tables: &'a Value, list: &str) -> &'a [Value] {
    tables[list].as_array().unwrap()
}

/// Returns the devices of a host.
fn devices_of<'a>(tables: &'a Value, host: &str) -> Vec<&'a Value> {
    rows(tables, "devices").iter().filter(|device| device["node"] == host).collect()
}

fn is_busy(device: &Value) -> bool {
    device["busy_percent"].as_u64() > Some(0)
}

#[test]
fn the_tables_show_who_uses_what_and_others_are_counted() {
    let cluster = cluster();
    let (own_node, ends_own) = works(&cluster, 0, Some("1:cpu limit=1h"));
    let (no_request, ends_other) = works(&cluster, 1, None);
    let tables = await_tables(&cluster, "program", "two busy devices", |tables| {
        rows(tables, "devices").iter().filter(|device| is_busy(device)).count() == 2
    });
    assert_eq!((rows(&tables, "nodes").len(), rows(&tables, "devices").len()), (3, 6), "{tables:#}");
    let jobs = rows(&tables, "jobs");
    assert_eq!((jobs.len(), &jobs[0]["job"], &jobs[0]["state"]), (1, &1.into(), &"running".into()), "{tables:#}");
    let held: Vec<&Value> = rows(&tables, "devices").iter().filter(|device| device["condition"] == "held").collect();
    assert_eq!((held.len(), &held[0]["jobs"][0]), (1, &1.into()), "{tables:#}");
    let used: Vec<&Value> = rows(&tables, "devices").iter().filter(|device| device["condition"] == "used").collect();
    assert_eq!((used.len(), used[0]["programs"].as_array().unwrap().len()), (1, 1), "{tables:#}");
    assert!(held[0]["memory_used"].as_u64() >= Some(1 << 20), "{tables:#}");
    let user = rows(&tables, "users");
    assert_eq!((user.len(), &user[0]["running"], &user[0]["sessions"]), (1, &1.into(), &2.into()), "{tables:#}");
    // Another user sees neither name nor program.
    let seen = json(&cluster, &format!("program-{OTHER}"));
    let text = seen.to_string();
    assert!(!text.contains("uses_device") && rows(&seen, "jobs").is_empty(), "{seen:#}");
    let others = rows(&seen, "users");
    assert_eq!((others.len(), &others[0]["user"], &others[0]["users"]), (1, &Value::Null, &1.into()), "{seen:#}");
    assert_eq!((&seen["others_running"], &seen["sessions"]), (&1.into(), &2.into()), "{seen:#}");
    let busy: Vec<&Value> = rows(&seen, "devices").iter().filter(|device| is_busy(device)).collect();
    assert!(busy.len() == 2 && busy.iter().all(|device| device["other_users"] == 1), "{seen:#}");
    // The text tables have the same rows.
    let table = top(&cluster, "admin", &["--once"]);
    assert!(table.contains("6 devices: 2 busy") && table.contains("uses_device"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80) && table.lines().count() == 6 + 6, "{table}");
    let table = top(&cluster, "admin", &["--once", "--by", "devices", "--sort", "use"]);
    let first = table.lines().nth(6).unwrap();
    assert!(first.contains(" %") && !first.contains(" 0 %"), "{table}");
    let table = top(&cluster, "admin", &["--once", "--by", "jobs", "--user", "mallory"]);
    assert_eq!(table.lines().count(), 6, "{table}");
    for (program, ends) in [(own_node, ends_own), (no_request, ends_other)] {
        drop(ends);
        program.finish().unwrap().success().unwrap();
    }
}

#[test]
fn drained_nodes_say_why_and_lost_ones_since_when() {
    let mut cluster = cluster();
    let drained = cluster.host(1);
    let drain = cluster.accord_as("admin").unwrap().args(["drain", &drained, "--reason", "a new fan"]);
    drain.run().unwrap().success().unwrap();
    let tables = json(&cluster, "program");
    let node = |tables: &Value, host: &str| {
        rows(tables, "nodes").iter().find(|node| node["name"] == host).cloned().unwrap_or_default()
    };
    let seen = node(&tables, &drained);
    assert_eq!((&seen["state"], &seen["reason"]), (&"draining".into(), &"a new fan".into()), "{tables:#}");
    let devices = devices_of(&tables, &drained);
    assert!(devices.len() == 2 && devices.iter().all(|device| device["condition"] == "drained"), "{tables:#}");
    assert!(top(&cluster, "program", &["--once"]).contains("drained: a new fan"));
    let gone = cluster.host(2);
    cluster.terminate(Some(2)).unwrap();
    let tables =
        await_tables(&cluster, "program", "a node that is gone", |tables| node(tables, &gone)["state"] == "gone");
    assert!(node(&tables, &gone)["heard_unix_ms"].is_u64(), "{tables:#}");
    assert!(devices_of(&tables, &gone).iter().all(|device| device["condition"] == "lost"), "{tables:#}");
    let table = top(&cluster, "program", &["--once", "--by", "nodes"]);
    assert!(table.contains("1 up, 1 draining, 1 away") && table.contains("heard "), "{table}");
}

/// A terminal of 80 by 24, made by `script`, with its screen.
struct Terminal {
    child: Child,
    keys: std::process::ChildStdin,
    screen: Arc<Mutex<Screen>>,
    folder: tempfile::TempDir,
}

/// The characters of a screen, by line and column.
#[derive(Default)]
struct Screen {
    cells: BTreeMap<(usize, usize), char>,
    line: usize,
    column: usize,
    /// An incomplete escape sequence.
    escape: String,
    has_ended: bool,
}

impl Screen {
    fn put(&mut self, letter: char) {
        if !self.escape.is_empty() {
            self.escape.push(letter);
            let is_control = self.escape.starts_with("\u{1b}[");
            if is_control && self.escape.len() > 2 && ('@'..='~').contains(&letter) {
                let sequence = std::mem::take(&mut self.escape);
                self.control(&sequence[2..sequence.len() - 1], letter);
            } else if !is_control && self.escape.len() >= 2 {
                self.escape.clear();
            }
            return;
        }
        match letter {
            '\u{1b}' => self.escape.push(letter),
            '\r' => self.column = 0,
            '\n' => self.line += 1,
            letter if letter.is_control() => {}
            letter => {
                self.cells.insert((self.line, self.column), letter);
                self.column += 1;
            }
        }
    }

    fn control(&mut self, parameters: &str, kind: char) {
        let mut numbers = parameters.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
        let mut next = || numbers.next().unwrap_or(1);
        match kind {
            'H' => (self.line, self.column) = (next() - 1, next() - 1),
            'J' => self.cells.clear(),
            'C' => self.column += next(),
            _ => {}
        }
    }

    fn text(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for ((line, column), letter) in &self.cells {
            lines.resize(lines.len().max(line + 1), String::new());
            let missing = column.saturating_sub(lines[*line].chars().count());
            lines[*line].extend(std::iter::repeat_n(' ', missing));
            lines[*line].push(*letter);
        }
        lines
    }
}

impl Terminal {
    fn start(cluster: &Cluster) -> Self {
        let accord = tool(Tool::Accord).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("device");
        let command = format!("tty > '{}'; stty cols 80 rows 24; exec '{}' top", device.display(), accord.display());
        let mut child = Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("ACCORD_COORDINATOR", cluster.address())
            .env("ACCORD_TLS", cluster.tls_of("admin"))
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (keys, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let screen = Arc::new(Mutex::new(Screen::default()));
        let displayed = screen.clone();
        std::thread::spawn(move || {
            let (mut buffer, mut rest) = ([0; 4_096], Vec::new());
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                rest.extend_from_slice(&buffer[..length]);
                let valid = match std::str::from_utf8(&rest) {
                    Ok(text) => text.len(),
                    Err(error) => error.valid_up_to(),
                };
                let text: String = String::from_utf8(rest.drain(..valid).collect()).unwrap();
                let mut screen = displayed.lock().unwrap();
                text.chars().for_each(|letter| screen.put(letter));
            }
            displayed.lock().unwrap().has_ended = true;
        });
        Self { child, keys, screen, folder }
    }

    fn await_screen(&self, what: &str, is: impl Fn(&[String]) -> bool) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let (lines, has_ended) = {
                let screen = self.screen.lock().unwrap();
                (screen.text(), screen.has_ended)
            };
            if is(&lines) {
                return lines;
            }
            assert!(begun.elapsed() < SOON && !has_ended, "waited in vain for {what}:\n{}", lines.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    fn resize(&self, columns: u32, lines: u32) {
        let device = std::fs::read_to_string(self.folder.path().join("device")).unwrap();
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let resized =
            Command::new("stty").args(["-F", device.trim(), "cols", &columns, "rows", &lines]).status().unwrap();
        assert!(resized.success(), "{device:?}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contains(lines: &[String], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

#[test]
fn a_terminal_shows_changes_follows_keys_and_its_size() {
    let mut cluster = cluster();
    let mut terminal = Terminal::start(&cluster);
    let lines = terminal.await_screen("six devices", |lines| contains(lines, "6 devices"));
    assert!(contains(&lines, "USERS, PROGRAMS") && contains(&lines, "q quit"), "{lines:#?}");
    // Changes meanwhile are displayed.
    let (program, ends) = works(&cluster, 0, Some("1:cpu limit=1h"));
    terminal.await_screen("a busy device", |lines| contains(lines, "1 busy") && contains(lines, "uses_device"));
    terminal.press("j");
    terminal.await_screen("the job", |lines| contains(lines, "WHY IT WAITS") && contains(lines, "running"));
    terminal.press("u");
    terminal.await_screen("the user", |lines| contains(lines, "RUNNING"));
    terminal.press("n");
    terminal.await_screen("the nodes", |lines| contains(lines, "SESSIONS") && contains(lines, &cluster.host(2)));
    // Only two rows fit on the screen; the others scroll.
    terminal.press("d");
    terminal.await_screen("the devices", |lines| contains(lines, "USERS, PROGRAMS"));
    terminal.resize(80, 9);
    terminal.await_screen("two rows", |lines| contains(lines, "rows 1-2 of 6"));
    terminal.press("\u{1b}[B");
    terminal.await_screen("the next row", |lines| contains(lines, "rows 2-3 of 6"));
    terminal.press("\u{1b}[F");
    terminal.await_screen("the last rows", |lines| contains(lines, "rows 5-6 of 6"));
    // `accord top` continues when the coordinator has returned.
    cluster.kill_coordinator();
    terminal.await_screen("the loss of the coordinator", |lines| contains(lines, "no coordinator answers"));
    cluster.start_coordinator().unwrap();
    terminal.await_screen("the cluster again", |lines| contains(lines, "3 up") && contains(lines, "q quit"));
    terminal.press("q");
    assert!(terminal.child.wait().unwrap().success());
    drop(ends);
    program.finish().unwrap();
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let cluster = Cluster::builder().hosts(1).devices(1).start().unwrap();
    let refused = cluster.accord_as("admin").unwrap().args(["top"]).run().unwrap();
    assert!(refused.stderr.contains("--once") && refused.stderr.contains("--json"), "{}", refused.report());
}
