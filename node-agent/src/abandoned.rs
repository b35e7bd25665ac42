//! Orphaned keepers. A region of an agent that is not root's can stop its keeper, which then outlives the agent. The
//! next agent ends such keepers and all processes below them.

use crate::keeper;
use accord_device::descendants::{Process, end_trees};
use nix::unistd::getuid;
use rustix::process::Pid;
use std::fs;
use std::time::Duration;

/// How long to wait for the kernel to end the processes.
const END_MAX: Duration = Duration::from_secs(5);

/// Ends the sessions' processes that earlier agents of this process's user have left.
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

/// Whether the process is a keeper of this process's user whose parent is no agent.
fn is_abandoned(pid: Pid) -> bool {
    let read = |pid: i32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let pid = pid.as_raw_nonzero().get();
    is_left(&read(pid, "cmdline"), &read(pid, "status"), getuid().as_raw(), |parent| read(parent, "cmdline"))
}

/// Decides by proc_pid_cmdline(5) and proc_pid_status(5). An orphan's parent is init, or a subreaper such as `accord
/// run`. The parent is identified by its program, because an agent in another process namespace has another number
/// there.
fn is_left(command: &str, status: &str, own: u32, command_of: impl Fn(i32) -> String) -> bool {
    let is_agents = |program: &str| program.ends_with("accord-node-agent");
    let mut words = command.split('\0');
    let is_own_program = words.next().is_some_and(is_agents);
    let number = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    let parent = number("PPid:").and_then(|parent| parent.parse().ok());
    is_own_program
        && words.next() == Some(keeper::ARGUMENT)
        && number("Uid:").and_then(|uid| uid.parse().ok()) == Some(own)
        && parent.is_some_and(|parent| !command_of(parent).split('\0').next().is_some_and(is_agents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepers_of_this_user_without_their_agent_are_abandoned_and_no_other_process_is() {
        let keeper = "/usr/bin/accord-node-agent\0keeper\x0017\0";
        let status = |parent: u32, uid: u32| format!("Name:\tx\nPPid:\t{parent}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n");
        // In a process namespace that can see into the agent's, agent 17 is process 1017.
        let command_of = |pid| match pid {
            17 | 1017 => "/usr/bin/accord-node-agent\0--node\0h1\0".to_owned(),
            _ => "/sbin/init\0".to_owned(),
        };
        let is_left = |command: &str, status: &str| is_left(command, status, 1000, command_of);
        assert!(is_left(keeper, &status(1, 1000)));
        assert!(!is_left(keeper, &status(17, 1000)) && !is_left(keeper, &status(1017, 1000)), "its agent lives");
        assert!(!is_left(keeper, &status(1, 1001)), "another user's");
        assert!(!is_left("/usr/bin/accord-node-agent\0executor\0", &status(1, 1000)));
        assert!(!is_left("/usr/bin/other\0keeper\x0017\0", &status(1, 1000)));
        assert!(!is_left("", ""));
    }
}
