//! `accord run --devices` in a cluster: holds a job while the program runs.

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use crate::launch::{
    Event, JobRequest, Mpirun, Signals, ask_descendants, exit_code, find_libacc, kept, kill_descendants, preload_with,
};
use accord_scheduler::Request;
use accord_types::settings;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

/// The time that programs have to end after their job has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Requests a job and runs the program in it; returns its exit code.
pub(super) fn run_in_job(args: &RunArgs, request: &Request) -> Result<u8> {
    let program = args.program.first().ok_or_else(|| Failure::new("no program"))?;
    let libacc = find_libacc()?;
    let lookup = |name: &str| std::env::var(name).ok();
    // Nothing has started yet: Ctrl-C ends this process, which cancels the request.
    let granted = JobRequest::new(&lookup, program, args.np.unwrap_or(1), request)?.hold()?;
    set_child_subreaper(true).map_err(|error| Failure::system("can't adopt orphans", error))?;
    let mut signals = Signals::block(None)?;
    let job = granted.watch()?;
    let own = std::env::current_exe().map_err(|error| Failure::system("can't find the accord program", error))?;
    let step: [OsString; 2] = ["--preload".into(), preload_with(&libacc)];
    let mut command = match args.np {
        Some(ranks) => {
            // mpirun ends its ranks on a signal.
            kept(&Mpirun::find()?.here(ranks, &step, &args.program)?)?
        }
        None => {
            let mut command = Command::new(&own);
            command.arg("__exec").args(&step).arg("--").args(&args.program);
            command
        }
    };
    command.env(settings::LIBACC.name, libacc).env(settings::JOB.name, job.token().to_text());
    command.env_remove(settings::DEVICES.name);
    command.envs(args.settings());
    let child = command.spawn().map_err(|error| Failure::start("accord", &error))?;
    let child = Pid::from_raw(child.id().cast_signed());
    loop {
        match signals.next(None)? {
            Event::Ended(pid, status) if pid == child => {
                let code = exit_code(status);
                return Ok(if job.is_over() { Failure::JOB_ENDED } else { code });
            }
            Event::Signal { .. } if job.is_over() => {
                ask_descendants(GRACE);
                kill_descendants();
                return Ok(Failure::JOB_ENDED);
            }
            Event::Signal { signal, by_terminal } => {
                if !by_terminal {
                    let _ = kill(child, signal);
                }
                let _ = kill(child, Signal::SIGCONT);
            }
            Event::Ended(..) | Event::Orphaned | Event::Timeout => {}
        }
    }
}
