//! The processes of a run besides the program: the coordinator, the agents, and the listing of GPUs.

use super::hosts::Hosts;
use super::keeper::kept;
use super::parts::own_program;
use crate::args::SuperviseArgs;
use crate::failure::{Failure, Result};
use crate::internal_args::Separation;
use crate::output::report_line;
use accord_types::settings;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// The part that launches all agents.
pub(super) const AGENTS: &str = "agents";
/// Programs that start and end processes on other nodes.
const LAUNCHERS: &[&str] = &["mpirun", "srun"];

/// The processes that were started and have not ended.
pub(super) struct Processes<'a> {
    pub(super) args: &'a SuperviseArgs,
    parts: Vec<Part>,
}

/// A coordinator or an agent.
struct Part {
    pid: Pid,
    name: String,
}

impl<'a> Processes<'a> {
    /// Creates an empty list.
    pub(super) fn new(args: &'a SuperviseArgs) -> Self {
        Self { args, parts: Vec::new() }
    }

    /// Starts a coordinator or an agent in a process group of its own, out of reach of the terminal's Ctrl-C. Its
    /// output goes to `NAME.log` in the run's folder.
    pub(super) fn start_part(
        &mut self,
        name: &str,
        host: Option<(&Hosts, u32)>,
        line: &[OsString],
        environment: &[(&str, OsString)],
    ) -> Result<()> {
        let log = self.args.dir.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|error| Failure::system(log.display(), error))?;
        let again = file.try_clone().map_err(|error| Failure::system(log.display(), error))?;
        let (hosts, index) = host.unzip();
        let mut command = self.command(hosts, index.unwrap_or(0), line)?;
        command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(again)
            .process_group(0)
            .env_remove("LD_PRELOAD")
            // A single node's name, which launchers would pass to all nodes.
            .env_remove(settings::NODE.name)
            // Agents of a run end with it.
            .env_remove(settings::DRAIN_TIME.name)
            // A node's own scripts belong to its standing agent.
            .env_remove(settings::PROLOG.name)
            .env_remove(settings::EPILOG.name)
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let child = command.spawn().map_err(|error| Failure::start(name, &error))?;
        self.parts.push(Part { pid: pid_of(&child), name: name.to_owned() });
        Ok(())
    }

    /// Returns the output of a part so far.
    pub(super) fn log(&self, name: &str) -> String {
        let log = std::fs::read(self.args.dir.join(format!("{name}.log"))).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Returns a failure if the output of a part can't be stored.
    pub(super) fn no_space(&self) -> Option<Failure> {
        let dir = self.args.dir.display();
        let tried = self.args.dir.join("room");
        let error = std::fs::write(&tried, "?").err();
        let _ = std::fs::remove_file(&tried);
        error.map(|error| {
            Failure::new(format!(
                "what the coordinator says can't be kept in {dir}: {error}; make room there, or name another folder in TMPDIR"
            ))
        })
    }

    /// Returns the output so far of the part that was started last.
    pub(super) fn last_log(&self) -> String {
        self.parts.last().map(|part| self.log(&part.name)).unwrap_or_default()
    }

    /// Removes the part with this process number, and returns its name.
    pub(super) fn ended_part(&mut self, pid: Pid) -> Option<String> {
        let at = self.parts.iter().position(|part| part.pid == pid)?;
        Some(self.parts.swap_remove(at).name)
    }

    /// Prints a message if the user asked for details.
    pub(super) fn say(&self, what: std::fmt::Arguments<'_>) {
        if self.args.run.verbose {
            report_line(what);
        }
    }

    /// Asks all parts to end. Returns their names.
    pub(super) fn ask_to_end(&self) -> Vec<String> {
        for part in &self.parts {
            let _ = kill(part.pid, Signal::SIGTERM);
        }
        self.parts.iter().map(|part| part.name.clone()).collect()
    }

    /// Whether all parts have ended.
    pub(super) fn all_ended(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns a command that executes `line` on host `index`.
    pub(super) fn command(&self, hosts: Option<&Hosts>, index: u32, line: &[OsString]) -> Result<Command> {
        let is_loopback = self.args.separation == Separation::Loopback;
        let is_launcher = || line.first().is_some_and(|program| LAUNCHERS.iter().any(|launcher| program == launcher));
        if is_loopback && self.args.run.local_cluster.is_none() && is_launcher() {
            return kept(line);
        }
        let mut command = Command::new(own_program()?);
        command.arg("__exec");
        if let Some(hosts) = hosts {
            command.args(hosts.entry(index));
        }
        if is_loopback {
            command.args(["--parent", &std::process::id().to_string()]);
        }
        command.arg("--").args(line);
        Ok(command)
    }
}

/// Returns the process number of a child.
pub(super) fn pid_of(child: &std::process::Child) -> Pid {
    // The cast is exact, because the kernel's type is signed.
    Pid::from_raw(child.id().cast_signed())
}

/// Returns how a process ended, for display.
pub(super) fn ending(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("exit code {code}"),
        WaitStatus::Signaled(_, signal, _) => signal.to_string(),
        other => format!("{other:?}"),
    }
}
