//! Kills all descendants of a process, where no process namespace does that.

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Pause between two checks.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Most rounds of listing and killing: a process that forks faster than this is given up.
const ROUNDS_MAX: u32 = 200;

/// The hidden command that runs a launcher under a keeper (see `keeper.rs`), which passes signals on.
pub(super) const KEEPER: &str = "__keep";

/// Kills every descendant of this process, and waits until they are gone. The caller must be a subreaper, so that
/// orphans stay its descendants.
pub(crate) fn kill_descendants() {
    for _ in 0..ROUNDS_MAX {
        let descendants = descendants_of(Pid::this());
        if descendants.is_empty() {
            return;
        }
        for pid in descendants {
            let _ = kill(pid, Signal::SIGKILL);
        }
        // Blocks only while a killed child exits: its own children are reparented here then.
        let _ = waitpid(None, None);
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
    }
}

/// Sends each descendant SIGTERM once, and waits until they have ended, at most for `grace`.
pub(crate) fn ask_descendants(grace: Duration) {
    let end = Instant::now() + grace;
    // A keeper would pass the signal to a launcher that has got it already.
    for pid in descendants_of(Pid::this()).into_iter().filter(|pid| !is_keeper(*pid)) {
        let _ = kill(pid, Signal::SIGTERM);
    }
    while !descendants_of(Pid::this()).is_empty() && Instant::now() < end {
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

fn is_keeper(pid: Pid) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(KEEPER.as_bytes())
}

fn descendants_of(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw()];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            open.push(child);
        }
    }
    found
}

/// Returns every process with its parent.
fn processes() -> impl Iterator<Item = (i32, i32)> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The command's name may contain anything; the fields after the last parenthesis are fixed.
        let (_, rest) = stat.rsplit_once(')')?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
}
