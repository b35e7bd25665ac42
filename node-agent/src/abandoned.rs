//! Keepers whose agent is gone and that do not end: a region of an agent that is not root's can stop its keeper. The next agent's start ends them, with
//! all that is below them.

use crate::keeper;
use accord_device::descendants::{Process, end_trees};
use nix::unistd::getuid;
use rustix::process::Pid;
use std::fs;
use std::time::Duration;

/// How long the kernel may take to end them.
const END_MAX: Duration = Duration::from_secs(5);

/// Ends what agents of this process's user have left.
pub(crate) fn end_abandoned() {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    let abandoned: Vec<_> = numbers.filter_map(|pid| Process::of(pid).ok().filter(|_| is_abandoned(pid))).collect();
    if abandoned.is_empty() {
        return;
    }
    tracing::warn!("agents that were killed have left {} sessions' processes, which are ended now", abandoned.len());
    if !end_trees(&abandoned, END_MAX) {
        tracing::warn!("the kernel has not ended them within {} s", END_MAX.as_secs());
    }
}

/// Whether it is a keeper of this process's user whose parent is not its agent any more.
fn is_abandoned(pid: Pid) -> bool {
    let read = |name: &str| fs::read_to_string(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default();
    is_left(&read("cmdline"), &read("status"), getuid().as_raw())
}

/// By proc_pid_cmdline(5) and proc_pid_status(5).
fn is_left(command: &str, status: &str, own: u32) -> bool {
    let mut words = command.split('\0');
    let is_own_program = words.next().is_some_and(|program| program.ends_with("accord-node-agent"));
    let (argument, agent) = (words.next(), words.next().and_then(|word| word.parse::<u32>().ok()));
    let number = |name: &str| -> Option<u32> {
        status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
    };
    is_own_program
        && argument == Some(keeper::ARGUMENT)
        && number("Uid:") == Some(own)
        && agent.is_some_and(|agent| number("PPid:").is_some_and(|parent| parent != agent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_of_this_user_without_their_agent_are_abandoned_and_no_other_process_is() {
        let keeper = "/usr/bin/accord-node-agent\0keeper\x0017\0";
        let status = |parent: u32, uid: u32| format!("Name:\tx\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        assert!(is_left(keeper, &status(1, 1000), 1000));
        assert!(!is_left(keeper, &status(17, 1000), 1000), "its agent lives");
        assert!(!is_left(keeper, &status(1, 1001), 1000), "another user's");
        assert!(!is_left("/usr/bin/accord-node-agent\0executor\0", &status(1, 1000), 1000));
        assert!(!is_left("/usr/bin/other\0keeper\x0017\0", &status(1, 1000), 1000));
        assert!(!is_left("", "", 1000));
    }
}
