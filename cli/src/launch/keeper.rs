//! A process between a command and an MPI launcher, which ends the launcher and its ranks if the command is killed.
//!
//! The signal that the kernel sends a child at its parent's death (`PR_SET_PDEATHSIG`) does not suffice. It is sent
//! once for each thread of the parent. Open MPI's `mpirun` takes a second SIGTERM within seconds as the order to end at
//! once, which leaves its ranks behind.

use super::descendants::{KEEPER, kill_descendants};
use super::parts::own_program;
use super::signals::{Event, Signals, exit_code};
use crate::failure::{Failure, Result};
use crate::internal_args::KeepArgs;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getppid};
use rustix::process::{PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::fs::File;
use std::process::Command;
use std::time::{Duration, Instant};

/// The time that a launcher has to end its ranks, on other nodes, too.
const GRACE: Duration = Duration::from_secs(5);

/// Returns a command that runs a launcher's command line under a keeper, as a child of this process.
pub(crate) fn kept(line: &[OsString]) -> Result<Command> {
    let mut command = Command::new(own_program()?);
    command.arg(KEEPER).arg("--parent").arg(std::process::id().to_string()).arg("--").args(line);
    Ok(command)
}

/// Runs `accord __keep`; returns the launcher's exit code.
pub(crate) fn keep(args: &KeepArgs) -> Result<u8> {
    let mut signals = Signals::block(Some(handle_of(args.parent)?))?;
    set_child_subreaper(true).map_err(|error| Failure::system("can't adopt orphans", error))?;
    let mut command = Command::new(own_program()?);
    command.arg("__exec").arg("--parent").arg(std::process::id().to_string());
    // The launcher ends its ranks if this process is killed.
    command.arg("--gently").arg("--").args(&args.line);
    let child = command.spawn().map_err(|error| Failure::start("accord", &error))?;
    let launcher = Pid::from_raw(child.id().cast_signed());
    let mut end_by = None;
    loop {
        match signals.next(end_by)? {
            Event::Ended(pid, status) if pid == launcher => {
                if end_by.is_some() {
                    kill_descendants();
                }
                return Ok(exit_code(status));
            }
            Event::Signal { signal, by_terminal: false } => {
                let _ = kill(launcher, signal);
            }
            Event::Orphaned => {
                let _ = kill(launcher, Signal::SIGTERM);
                end_by = Some(Instant::now() + GRACE);
            }
            Event::Timeout => {
                kill_descendants();
                return Ok(u8::MAX);
            }
            Event::Signal { .. } | Event::Ended(..) => {}
        }
    }
}

/// Opens a descriptor of the parent, readable once all threads of the parent have ended.
fn handle_of(parent: i32) -> Result<File> {
    let gone = || Failure::new("the command that started this process is gone");
    let pid = rustix::process::Pid::from_raw(parent).ok_or_else(gone)?;
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| Failure::system("pidfd_open", error))?;
    // The number may belong to a later process, if the parent had already ended.
    if getppid().as_raw() == parent { Ok(File::from(handle)) } else { Err(gone()) }
}
