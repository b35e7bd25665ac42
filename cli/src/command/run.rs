//! `accord run`.

use super::held::run_in_job;
use crate::args::{Launcher, RunArgs};
use crate::failure::{Failure, Result};
use crate::internal_args::Separation;
use crate::launch::{
    Event, Mpirun, RunFolder, Signals, Site, ask_descendants, can_have_namespaces, exit_code, find_libacc,
    kill_descendants, lift, obstacle, preload_with, proflib_with_libacc,
};
use crate::output::report_line;
use accord_scheduler::Request;
use accord_types::settings;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// More address space than libacc and the start of a program need in addition to this process's.
const START_BYTES: u64 = 32 << 20;

/// The time that launchers have to end processes on other nodes, after the supervisor was killed.
const LAUNCHERS_GRACE: Duration = Duration::from_secs(3);

/// Runs a program; returns its exit code.
pub(crate) fn run(args: &RunArgs) -> Result<u8> {
    if let Some((path, obstacle)) = args.program.first().and_then(|program| obstacle(program)) {
        let what = format!("{} {obstacle}", path.display());
        if obstacle.is_fatal() {
            return Err(Failure::new(what));
        }
        report_line(format_args!("{what}"));
    }
    let over_nodes = Site::is_asked_for(args);
    if args.fabric.is_some() && args.local_cluster.is_none() && !over_nodes {
        return Err(Failure::new(
            "--fabric is for runs over several nodes: --hostfile, a Slurm allocation, or --local-cluster",
        ));
    }
    let request = request(args, over_nodes)?;
    check_address_space()?;
    let is_ordered_after = args.timeline.is_some() || args.trace.is_some() || args.adds_up_times();
    if args.local_cluster.is_none() && !over_nodes && !is_ordered_after {
        if let Some(request) = request.as_ref().filter(|_| has_coordinator()) {
            return run_in_job(args, request);
        }
        return Err(become_program(args, request.as_ref()));
    }
    supervised(args, over_nodes, request.as_ref())
}

/// Returns the requested devices: from a cluster's coordinator, or within this machine's means.
fn request(args: &RunArgs, over_nodes: bool) -> Result<Option<Request>> {
    let lookup = |name: &str| std::env::var(name).ok();
    let Some(request) = args.request.request(lookup)? else { return Ok(None) };
    if args.local_cluster.is_some() || over_nodes || has_coordinator() {
        return Ok(Some(request));
    }
    request.check_alone().map_err(|error| Failure::usage(format!("{request} is asked for: {error}; leave it out")))?;
    Ok(Some(request))
}

fn has_coordinator() -> bool {
    settings::COORDINATOR.find(|name| std::env::var(name).ok()).is_some()
}

/// Returns the variable that passes the request to the program.
fn requested(request: Option<&Request>) -> Option<(&'static str, String)> {
    request.map(|request| (settings::DEVICES.name, request.to_string()))
}

/// Executes the program in place of this process, because nothing has to be done afterwards.
fn become_program(args: &RunArgs, request: Option<&Request>) -> Failure {
    let line = || -> Result<(PathBuf, OsString, Vec<OsString>)> {
        let libacc = find_libacc()?;
        let preload = preload_with(&libacc);
        let line = match args.np {
            None => args.program.clone(),
            Some(ranks) => Mpirun::find()?.here(ranks, &["--preload".into(), preload.clone()], &args.program)?,
        };
        Ok((libacc, preload, line))
    };
    let (libacc, preload, line) = match line() {
        Ok(line) => line,
        Err(failure) => return failure,
    };
    let Some((program, rest)) = line.split_first() else {
        return Failure::new("no program");
    };
    let mut command = Command::new(program);
    command.args(rest).env(settings::LIBACC.name, libacc).envs(requested(request));
    command.envs(args.settings());
    if args.np.is_none() {
        command.envs(proflib_with_libacc(&preload)).env("LD_PRELOAD", preload);
    }
    let error = command.exec();
    Failure::start(program, &error)
}

/// Checks the address space, because the program can't report its lack: the loader omits libacc, or a signal ends the
/// process before it has begun.
fn check_address_space() -> Result<()> {
    let (most, _) = getrlimit(Resource::RLIMIT_AS).map_err(|error| Failure::system("can't read a limit", error))?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse().ok());
    let needed = size.unwrap_or(0_u64) * 1024 + START_BYTES;
    if most >= needed {
        return Ok(());
    }
    let lack = std::io::Error::from(Errno::ENOMEM);
    let what = format!("a program's start takes up to {} KiB of addresses, and may take {}", needed >> 10, most >> 10);
    Err(Failure::system(what, lack))
}

/// Starts a supervisor, passes signals on to it, and returns its exit code.
fn supervised(args: &RunArgs, over_nodes: bool, request: Option<&Request>) -> Result<u8> {
    let separation = separation(args);
    // The supervisor creates it, so that nothing is left if this process ends before.
    let dir = RunFolder::name(if over_nodes { Some(shared_folder(args)?) } else { None })?;
    let (lifeline, held) = std::io::pipe().map_err(|error| Failure::system("can't make a pipe", error))?;
    let mut signals = Signals::block(None)?;
    match separation {
        Separation::Namespaces => {
            // The next child, the supervisor, is the first process of the new namespace.
            unshare(CloneFlags::CLONE_NEWPID)
                .map_err(|error| Failure::system("can't make a process namespace", error))?;
        }
        Separation::Loopback => {
            // If the supervisor is killed, its children are reparented to this process.
            set_child_subreaper(true).map_err(|error| Failure::system("can't adopt orphans", error))?;
        }
    }
    let own = std::env::current_exe().map_err(|error| Failure::system("can't find the accord program", error))?;
    let child = Command::new(own)
        .envs(args.settings())
        // The supervisor asks for the devices.
        .env_remove(settings::DEVICES.name)
        .arg("__supervise")
        .arg("--dir")
        .arg(&dir)
        .arg("--lifeline")
        .arg(format!("/proc/{}/fd/{}", std::process::id(), lifeline.as_raw_fd()))
        .args(supervisor_options(separation, args))
        .args(request.map(|request| format!("--devices={request}")))
        .arg("--")
        .args(&args.program)
        .spawn()
        .map_err(|error| Failure::start("accord", &error))?;
    let supervisor = Pid::from_raw(child.id().cast_signed());
    if args.verbose {
        report_line(format_args!("supervisor is process {supervisor}"));
    }
    let code = loop {
        match signals.next(None)? {
            Event::Ended(pid, status) if pid == supervisor => {
                if let WaitStatus::Signaled(_, signal, _) = status {
                    report_line(format_args!("the supervisor was ended by {signal}; the run is taken down"));
                }
                break exit_code(status);
            }
            Event::Signal { signal, by_terminal } => {
                if !by_terminal {
                    let _ = kill(supervisor, signal);
                }
                // A stopped supervisor would not notice the signal.
                let _ = kill(supervisor, Signal::SIGCONT);
            }
            Event::Ended(..) | Event::Orphaned | Event::Timeout => {}
        }
    };
    // Listing processes and removing the folder need a few descriptors.
    drop((lifeline, held, signals));
    lift();
    if separation == Separation::Loopback {
        if over_nodes {
            // Launchers must end processes on other nodes.
            ask_descendants(LAUNCHERS_GRACE);
        }
        kill_descendants();
    }
    // The supervisor does this, too, unless it was killed.
    let _ = std::fs::remove_dir_all(&dir);
    Ok(code)
}

/// Returns the folder for the run's folder if all nodes must see it.
fn shared_folder(args: &RunArgs) -> Result<PathBuf> {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let chosen =
        args.shared.clone().or_else(|| Some(cache.or_else(|| home().map(|home| home.join(".cache")))?.join("accord")));
    let folder =
        chosen.ok_or_else(|| Failure::new("there is no HOME; name a folder that all nodes see in --shared"))?;
    std::fs::create_dir_all(&folder)
        .and_then(|()| folder.canonicalize())
        .map_err(|error| Failure::system(format!("can't make the folder {}", folder.display()), error))
}

/// Returns namespaces if they are needed and possible.
fn separation(args: &RunArgs) -> Separation {
    if args.loopback || args.local_cluster.is_none() {
        return Separation::Loopback;
    }
    match can_have_namespaces() {
        Ok(()) => Separation::Namespaces,
        Err(why) => {
            if args.verbose {
                report_line(format_args!("hosts are loopback addresses, for lack of network namespaces: {why}"));
            }
            Separation::Loopback
        }
    }
}

/// Returns this run's options for the supervisor.
fn supervisor_options(separation: Separation, args: &RunArgs) -> Vec<OsString> {
    let mut options: Vec<OsString> = vec![
        "--separation".into(),
        match separation {
            Separation::Namespaces => "namespaces".into(),
            Separation::Loopback => "loopback".into(),
        },
    ];
    if let Some(size) = args.local_cluster {
        options.extend(["--local-cluster".into(), size.to_string().into()]);
    }
    for (name, path) in [("--hostfile", &args.hostfile), ("--shared", &args.shared)] {
        if let Some(path) = path {
            options.extend([name.into(), path.into()]);
        }
    }
    if args.launcher != Launcher::Auto {
        options.extend(["--launcher".into(), args.launcher.name().into()]);
    }
    if let Some(address) = args.address {
        options.extend(["--address".into(), address.to_string().into()]);
    }
    if let Some(fabric) = args.fabric {
        options.extend(["--fabric".into(), fabric.name().into()]);
    }
    if let Some(ranks) = args.np {
        options.extend(["--np".into(), ranks.to_string().into()]);
    }
    for (name, path) in [("--timeline", &args.timeline), ("--trace", &args.trace)] {
        if let Some(path) = path {
            options.extend([name.into(), path.into()]);
        }
    }
    if let Some(to) = args.time.as_ref().filter(|_| args.adds_up_times()) {
        options.push(if to.is_empty() { "--time".into() } else { format!("--time={to}").into() });
    }
    let flags = [
        ("--json", args.json && args.adds_up_times()),
        ("--bare", args.bare),
        ("--remote-only", args.remote_only),
        ("--insecure-plain-tcp", args.insecure_plain_tcp),
        ("--verbose", args.verbose),
    ];
    for (name, set) in flags {
        if set {
            options.push(name.into());
        }
    }
    options
}
