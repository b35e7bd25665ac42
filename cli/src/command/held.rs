//! `accord run --devices` in a cluster: holds a job while the program runs.

use crate::args::RunArgs;
use crate::failure::{Failure, Result};
use crate::launch::{
    Event, GrantedJob, JobRequest, Mpirun, Signals, ask_descendants, exit_code, find_libacc, kept, kill_descendants,
    preload_with,
};
use accord_scheduler::Request;
use accord_types::status_line::StatusLine;
use accord_types::{settings, threads};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// The time that programs have to end after their job has ended.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for a job until it has its devices, or until a signal ends this process, which cancels the request. The line
/// about the wait ends before.
fn ask(asked: JobRequest) -> Result<(GrantedJob, Signals)> {
    let (answered, asks) = std::io::pipe().map_err(|error| Failure::system("can't create a pipe", error))?;
    let mut signals = Signals::block(Some(OwnedFd::from(answered).into()))?;
    let line = Arc::new(StatusLine::new());
    let displayed = line.clone();
    let hold = move || {
        // Closed at the thread's end.
        let _asks = asks;
        asked.hold(&displayed)
    };
    let asking = threads::spawn("accord-ask", hold).map_err(|error| Failure::system("can't start a thread", error))?;
    loop {
        match signals.next(None)? {
            Event::Signal { signal, .. } => {
                line.end();
                return Err(Failure::interrupted(signal as i32));
            }
            Event::Orphaned => break,
            Event::Ended(..) | Event::Timeout => {}
        }
    }
    let granted = asking.join().map_err(|_| Failure::new("the thread that asks for devices has failed"))??;
    Ok((granted, signals))
}

/// Requests a job and runs the program in it; returns its exit code.
pub(super) fn run_in_job(args: &RunArgs, request: &Request) -> Result<u8> {
    let program = args.program.first().ok_or_else(|| Failure::new("no program"))?;
    let libacc = find_libacc()?;
    let lookup = |name: &str| std::env::var(name).ok();
    let asked = JobRequest::new(&lookup, program, args.np.unwrap_or(1), request)?;
    let (granted, mut signals) = ask(asked)?;
    set_child_subreaper(true).map_err(|error| Failure::system("can't adopt orphans", error))?;
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
                let code = if job.is_over() { Failure::JOB_ENDED } else { exit_code(status) };
                job.finish(&mut signals);
                return Ok(code);
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
