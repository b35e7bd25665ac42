//! A session's keeper: the parent of its executor, and of orphans that its regions have forked. It belongs to the
//! agent's user, so that no region can signal, stop or trace it under an agent of root. It ends the session's processes
//! when the executor or the agent has ended, and exits when none is left.

use crate::executor_process;
use crate::own_program::again;
use crate::users::RunsAs;
use accord_device::descendants::{self, Process};
use accord_types::settings::{SPIN_CORES, TRANSPORT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus, getpid, getppid, pidfd_open,
    set_child_subreaper, set_dumpable_behavior, setsid, waitid,
};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The first argument that makes this program a keeper. The agent's process number follows. For another user's
/// executor, so do that user's number, group and supplementary groups (separated by commas).
pub const ARGUMENT: &str = "keeper";
/// The variables of the agent's environment that another user's executor gets: those of the machine, not of root.
const MACHINE_ENVIRONMENT: &[&str] = &["PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "RUST_BACKTRACE"];
/// Prefixes of further such variables.
const MACHINE_ENVIRONMENT_PREFIXES: &[&str] = &["CUDA_", "NVIDIA_"];
/// How long an executor may take to end by itself after the agent's end.
const END_GRACE: Duration = Duration::from_secs(1);
/// Pause between rounds of killing.
const ROUND: Duration = Duration::from_secs(5);

/// Keeps one session's processes, from the first to the last.
pub fn main() -> ExitCode {
    match keep() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(io::stderr(), "accord-node-agent {ARGUMENT}: {why}; keepers are started by an agent only");
            ExitCode::FAILURE
        }
    }
}

fn keep() -> Result<(), String> {
    let mut arguments = std::env::args().skip(2);
    let agent = arguments.next().and_then(|text| Pid::from_raw(text.parse().ok()?)).ok_or("it has no agent")?;
    let system = |what: &str, error: io::Error| format!("cannot {what}: {error}");
    let follow = pidfd_open(agent, PidfdFlags::empty()).map_err(|error| system("follow the agent", error.into()))?;
    // The agent may have ended before its descriptor was opened; the parent then is another process.
    if getppid() != Some(agent) {
        return Err("the agent is gone".to_owned());
    }
    // Fails if this process leads a session already.
    let _ = setsid();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| system("keep apart", error.into()))?;
    set_child_subreaper(Some(getpid())).map_err(|error| system("collect orphans", error.into()))?;
    let program = std::env::current_exe().map_err(|error| system("find this program", error))?;
    let mut command = again(program);
    let mut account = arguments.peekable();
    let argument = if account.peek().is_some() { executor_process::ARGUMENT_AS } else { executor_process::ARGUMENT };
    command.arg(argument).args(account).stdout(Stdio::null());
    let mut executor = command.spawn().map_err(|error| system("start an executor", error))?;
    let pid = Pid::from_child(&executor);
    // Only the executor uses the socket to the agent and the pipe for messages.
    let given_up = File::open("/dev/null").and_then(|null| {
        rustix::stdio::dup2_stdin(&null)?;
        Ok(rustix::stdio::dup2_stderr(&null)?)
    });
    given_up.map_err(|error| system("open /dev/null", error))?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| system("watch the executor", error.into()))?;
    // The write fails if the agent has ended; the word is then dropped.
    let mut agent_reads = io::stdout();
    let mut say = |word: i32| drop(agent_reads.write_all(&word.to_le_bytes()).and_then(|()| agent_reads.flush()));
    say(pid.as_raw_nonzero().get());
    if await_end(&handle, &follow) {
        // The zombie stays until the keeper ends, so that its number is not reused.
        let status = waitid(WaitId::PidFd(handle.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        say(status.ok().flatten().map_or(0, |status| raw(&status)));
        end_all(Process::of(pid).ok());
        let _ = executor.wait();
    } else {
        end_all(None);
    }
    Ok(())
}

/// Blocks until the executor has ended and returns `true`. Returns `false` if the agent has ended and the executor
/// exceeded its grace period. The executor's lanes end first, with the agent's socket. So the program learns of the
/// agent's end rather than of killed workers.
fn await_end(executor: &OwnedFd, agent: &OwnedFd) -> bool {
    loop {
        let mut handles = [PollFd::new(executor, PollFlags::IN), PollFd::new(agent, PollFlags::IN)];
        match poll(&mut handles, None) {
            Ok(_) | Err(Errno::INTR) => {}
            // Waiting is impossible.
            Err(_) => return false,
        }
        let [executor_ended, agent_ended] = handles.map(|handle| !handle.revents().is_empty());
        if executor_ended {
            return true;
        }
        if agent_ended {
            let grace = Timespec::try_from(END_GRACE).ok();
            let mut handles = [PollFd::new(executor, PollFlags::IN)];
            return poll(&mut handles, grace.as_ref()).is_ok_and(|ready| ready > 0);
        }
    }
}

/// Ends all processes below this one except `zombie`, and returns when they are gone, however long the kernel takes.
fn end_all(zombie: Option<Process>) {
    let mut children = || {
        let mut children = descendants::own_children();
        children.retain(|child| Some(*child) != zombie);
        children
    };
    while !descendants::end_all(&mut children, ROUND) {
        std::thread::sleep(ROUND);
    }
}

/// Encodes a status as `wait` of POSIX does.
fn raw(status: &WaitIdStatus) -> i32 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (code & 0xff) << 8,
        (None, Some(signal)) => signal | if status.dumped() { 0x80 } else { 0 },
        (None, None) => 0,
    }
}

/// Returns the command that starts the keeper of an executor.
pub(crate) fn command(program: &Path, account: &RunsAs) -> Command {
    let mut command = again(program);
    command.args([ARGUMENT.to_owned(), std::process::id().to_string()]);
    let RunsAs::Other(account) = account else { return command };
    let groups: Vec<String> = account.groups.iter().map(u32::to_string).collect();
    let is_of_machine = |name: &OsStr| {
        let named = |name: &str| {
            MACHINE_ENVIRONMENT.contains(&name)
                || MACHINE_ENVIRONMENT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        name.to_str().is_some_and(named)
    };
    let is_for_executors = |name: &OsStr| [TRANSPORT, SPIN_CORES].iter().any(|setting| name == setting.name);
    command
        .args([account.uid.to_string(), account.gid.to_string(), groups.join(",")])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| is_of_machine(name) || is_for_executors(name)))
        .envs([("USER", &account.name), ("LOGNAME", &account.name)])
        .env("HOME", &account.home)
        .current_dir("/");
    command
}

/// Reads one of the two numbers that a keeper writes: its executor's process number, then that process's status.
///
/// # Errors
/// Returns the system's error; `UnexpectedEof` if the keeper ended before.
pub(crate) fn read_word(from: &mut (impl Read + AsFd), limit: Option<Duration>) -> io::Result<i32> {
    let timeout = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let ready = loop {
        match poll(&mut [PollFd::new(&*from, PollFlags::IN)], timeout.as_ref()) {
            Err(Errno::INTR) => {}
            ready => break ready?,
        }
    };
    if ready == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut word = [0; 4];
    from.read_exact(&mut word)?;
    Ok(i32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn a_status_is_told_as_wait_has_it() {
        for (script, text) in
            [("exit 3", "exit status: 3"), ("kill -9 $$", "signal: 9 (SIGKILL)"), ("exit 0", "exit status: 0")]
        {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let which = WaitId::Pid(Pid::from_child(&child));
            let status = waitid(which, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap().unwrap();
            assert_eq!(ExitStatus::from_raw(raw(&status)).to_string(), text);
            assert_eq!(child.wait().unwrap(), ExitStatus::from_raw(raw(&status)));
        }
    }
}
