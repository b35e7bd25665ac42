//! The supervisor: sets up hosts and cluster, runs the program, and cleans up.

use super::devices::HostDevices;
use super::died::dead_node_line;
use super::held_job::{HeldJobOfRun, JobRequest};
use super::hosts::Hosts;
use super::mpi::{Mpirun, between_namespaces, own_folders, wrapped};
use super::parts::{find_libacc, own_program, preload_with, proflib_with_libacc};
use super::processes::{AGENTS, Processes, ending, pid_of};
use super::rank_times::RankTimes;
use super::run_folder::RunFolder;
use super::signals::{Event, Signals, exit_code};
use super::site::Site;
use super::{cluster, kill_descendants, lift, site_cluster};
use crate::args::SuperviseArgs;
use crate::command::trace::{read_all, write_timeline, write_trace};
use crate::failure::{Failure, Result};
use crate::internal_args::Separation;
use crate::output::report_line;
use accord_types::status_line::StatusLine;
use accord_types::{settings, threads};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that the program has to end after a signal.
const PROGRAM_GRACE: Duration = Duration::from_secs(2);
/// The time that ranks have to report what they have lost after the agents of their MPI job have ended. Not every
/// launcher ends the other ranks when one fails, and ranks that use only their own node's devices notice nothing.
const ALONE_MAX: Duration = Duration::from_secs(3);
/// Interval of checks whether the run has its devices.
const QUERY_POLL: Duration = Duration::from_millis(50);
/// The time that coordinator and agents have to end after the program.
const PARTS_GRACE: Duration = Duration::from_millis(500);
/// The same if a launcher must end them on other nodes.
const NODES_GRACE: Duration = Duration::from_secs(5);

/// Runs `accord __supervise`; returns the program's exit code.
pub(crate) fn supervise(args: &SuperviseArgs) -> Result<u8> {
    let lifeline = File::open(&args.lifeline).map_err(|error| Failure::system("the launcher is gone", error))?;
    let mut signals = Signals::block(Some(lifeline))?;
    own_program()?; // before the mount namespace changes
    if args.separation == Separation::Loopback {
        set_child_subreaper(true).map_err(|error| Failure::system("can't adopt orphans", error))?;
    }
    // Wakes a stopped supervisor when the launcher is killed, so that it cleans up.
    set_pdeathsig(Signal::SIGCONT).map_err(|error| Failure::system("can't follow the launcher", error))?;
    let folder = RunFolder::make(&args.dir)?;
    // Optional: without it, files are slower to access.
    let shared_memory =
        args.run.local_cluster.and_then(|_| RunFolder::make(&RunFolder::of_shared_memory(&args.dir)).ok());
    let mut supervisor =
        Supervisor { args, processes: Processes::new(args), is_over_nodes: false, ends_with_agents: false };
    let result = supervisor.run(&mut signals);
    lift();
    supervisor.take_down(&mut signals);
    // Removing the folder needs a few descriptors.
    drop(signals);
    drop((folder, shared_memory));
    result
}

/// The state of the supervisor.
struct Supervisor<'a> {
    args: &'a SuperviseArgs,
    processes: Processes<'a>,
    /// Whether a launcher has started agents on other nodes.
    is_over_nodes: bool,
    /// Whether the program's ranks end with the agents.
    ends_with_agents: bool,
}

impl Supervisor<'_> {
    fn run(&mut self, signals: &mut Signals) -> Result<u8> {
        let run = &self.args.run;
        let mut environment: Vec<(&'static str, OsString)> = Vec::new();
        let mut hosts = None;
        let libacc = if run.bare { None } else { Some(find_libacc()?) };
        if let Some(libacc) = &libacc {
            environment.push((settings::LIBACC.name, libacc.into()));
        }
        // Options of the step before each rank.
        let mut step: Vec<OsString> = Vec::new();
        if let Some(size) = run.local_cluster {
            let hosts = hosts.insert(Hosts::new(size.hosts + u32::from(run.remote_only), self.args.separation)?);
            let devices = HostDevices::new(&mut self.processes, signals, size, run.remote_only)?;
            environment.extend(devices.environment(0));
            step.extend(devices.option());
            if let Some(libacc) = libacc.as_ref() {
                environment.extend(cluster::start(&mut self.processes, signals, hosts, &devices, libacc)?);
            }
        }
        let site = Site::find(run, &self.args.dir)?;
        if let (Some(site), Some(libacc)) = (&site, &libacc) {
            self.is_over_nodes = true;
            environment.extend(site_cluster::start(&mut self.processes, signals, site, libacc)?);
        }
        let job = self.hold_devices(signals, &mut environment)?;
        self.ends_with_agents =
            run.np.is_some() && environment.iter().any(|(name, _)| *name == settings::TRANSPORT.name);
        // Ranks on other hosts get what is named here only.
        for setting in [settings::TIME, settings::NOTIFY, settings::CHECK, settings::EXPLAIN_ERRORS] {
            if let Some((_, value)) = setting.find(|name| std::env::var(name).ok()) {
                environment.push((setting.name, value.into()));
            }
        }
        let traces = self.args.dir.join("traces");
        if run.timeline.is_some() || run.trace.is_some() {
            std::fs::create_dir(&traces).map_err(|error| Failure::system("can't make a directory", error))?;
            environment.push((settings::TRACE.name, traces.join("%r.%p.json").into()));
        }
        let times = RankTimes::begin(run, &self.args.dir)?;
        environment.extend(times.as_ref().map(RankTimes::setting));
        let preload = libacc.as_ref().map(|libacc| preload_with(libacc)).unwrap_or_default();
        step.extend(["--preload".into(), preload.clone()]);
        let program = self.start_program(hosts.as_ref(), site.as_ref(), environment, &preload, &step)?;
        let code = self.watch(signals, program);
        if let Some(times) = times {
            times.show()?;
        }
        let code = code?;
        if let Some(job) = job {
            if job.is_over() {
                return Ok(Failure::JOB_ENDED);
            }
            job.finish(signals);
        }
        if traces.is_dir() {
            self.gather_traces(&traces)?;
        }
        Ok(code)
    }

    /// Requests the run's devices from the coordinator, if there is one, before the program starts.
    fn hold_devices(
        &self,
        signals: &mut Signals,
        environment: &mut Vec<(&'static str, OsString)>,
    ) -> Result<Option<HeldJobOfRun>> {
        let run = &self.args.run;
        let Some(request) = run.request.request(|_| None)? else { return Ok(None) };
        let of_run = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_string_lossy().into_owned())
        };
        let lookup = |name: &str| match name {
            name if name == settings::NODE.name && run.local_cluster.is_some() => Some(Hosts::name(0)),
            name => of_run(name).or_else(|| std::env::var(name).ok()),
        };
        if settings::COORDINATOR.find(lookup).is_none() {
            environment.push((settings::DEVICES.name, request.to_string().into()));
            return Ok(None);
        }
        let program = run.program.first().ok_or_else(|| Failure::new("no program"))?;
        let asked = JobRequest::new(&lookup, program, run.np.unwrap_or(1), &request)?;
        // The wait may be long, and a signal may interrupt it.
        let line = Arc::new(StatusLine::new());
        let displayed = line.clone();
        let asking = threads::spawn("accord-ask", move || asked.hold(&displayed))
            .map_err(|error| Failure::system("can't start a thread", error))?;
        while !asking.is_finished() {
            let signal = match signals.next(Some(Instant::now() + QUERY_POLL))? {
                Event::Signal { signal, .. } => signal,
                Event::Orphaned => Signal::SIGKILL,
                Event::Ended(..) | Event::Timeout => continue,
            };
            line.end();
            return Err(Failure::interrupted(signal as i32));
        }
        let granted = asking.join().map_err(|_| Failure::new("the thread that asks for devices has failed"))??;
        let job = granted.watch()?;
        environment.push((settings::JOB.name, job.token().to_text().into()));
        Ok(Some(job))
    }

    /// Merges the traces of the program's processes in `directory` into the requested output.
    fn gather_traces(&self, directory: &Path) -> Result<()> {
        let run = &self.args.run;
        let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
            .map_err(|error| Failure::system(directory.display(), error))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        if files.is_empty() {
            report_line(format_args!("no trace was written: the program used no device, or did not end by itself"));
            return Ok(());
        }
        let traces = read_all(&files)?;
        if let Some(output) = &run.trace {
            write_trace(&traces, output)?;
        }
        if let Some(output) = &run.timeline {
            write_timeline(&traces, output)?;
        }
        Ok(())
    }

    fn start_program(
        &mut self,
        hosts: Option<&Hosts>,
        site: Option<&Site>,
        mut environment: Vec<(&str, OsString)>,
        preload: &OsString,
        step: &[OsString],
    ) -> Result<Pid> {
        let run = &self.args.run;
        let mut of_mpirun = Vec::new();
        let line = match (run.np, hosts) {
            (None, _) => {
                environment.extend(proflib_with_libacc(preload));
                environment.push(("LD_PRELOAD", preload.clone()));
                if hosts.is_some() && !run.bare {
                    environment.push((settings::NODE.name, Hosts::name(0).into()));
                }
                // The program may start mpirun.
                if let Some(hosts) = hosts.filter(|hosts| hosts.separate()) {
                    of_mpirun = own_folders(&self.args.dir);
                    if run.bare {
                        of_mpirun.extend(between_namespaces(hosts, &self.args.dir)?);
                    }
                }
                run.program.clone()
            }
            (Some(ranks), None) => match site {
                Some(site) => {
                    let mut exported = site_cluster::settings_in_force();
                    exported.extend(environment.iter().map(|(name, _)| (*name).to_owned()));
                    exported.sort();
                    exported.dedup();
                    let exported: Vec<&str> = exported.iter().map(String::as_str).collect();
                    site.ranks(ranks, &exported, &wrapped(step, None, &run.program)?)
                }
                None => Mpirun::find()?.here(ranks, step, &run.program)?,
            },
            (Some(ranks), Some(hosts)) => {
                let exported: Vec<&str> = environment.iter().map(|(name, _)| *name).collect();
                let mpirun = Mpirun::find()?;
                let own = mpirun.environment(hosts, &self.args.dir)?;
                of_mpirun = own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
                mpirun.over(hosts, &self.args.dir, ranks, &exported, step, &run.program)?
            }
        };
        let mut command = self.processes.command(hosts, 0, &line)?;
        if run.np.is_some() {
            // A rank's node is its host's name, or set by the step before it.
            command.env_remove(settings::NODE.name);
        }
        command.envs(environment).envs(of_mpirun);
        if site.is_some() {
            command.envs(site_cluster::BESIDE);
        }
        self.processes.say(format_args!("starting {:?}", run.program));
        let child = command.spawn().map_err(|error| Failure::start("accord", &error))?;
        Ok(pid_of(&child))
    }

    fn watch(&mut self, signals: &mut Signals, program: Pid) -> Result<u8> {
        let mut asked: Option<(Signal, Instant)> = None;
        let mut agents_ended = None;
        let mut alone = None;
        loop {
            match signals.next(asked.map(|(_, deadline)| deadline).or(alone))? {
                Event::Ended(pid, status) if pid == program => {
                    self.processes.say(format_args!("the program ended: {}", ending(status)));
                    self.report_early_failure(exit_code(status), agents_ended);
                    return Ok(exit_code(status));
                }
                Event::Ended(pid, status) => {
                    if let Some(name) = self.processes.ended_part(pid) {
                        // The program may go on without it, but the user should know.
                        let log = self.processes.log(&name);
                        if name == AGENTS {
                            let how = ending(status);
                            agents_ended = Some(format!("the launcher of its agents has ended: {how}"));
                            alone = self.ends_with_agents.then(|| Instant::now() + ALONE_MAX);
                        }
                        report_line(format_args!(
                            "{name} ended while the program ran: {}\n{}",
                            ending(status),
                            log.trim_end()
                        ));
                    }
                }
                Event::Signal { signal, .. } if asked.is_some() => return Ok(ended_by(signal)),
                Event::Signal { signal, by_terminal } => {
                    if !by_terminal {
                        let _ = kill(program, signal);
                    }
                    asked = Some((signal, Instant::now() + PROGRAM_GRACE));
                }
                Event::Timeout if asked.is_none() => {
                    self.processes.say(format_args!("the program goes on without its agents; it is asked to end"));
                    let _ = kill(program, Signal::SIGTERM);
                    asked = Some((Signal::SIGTERM, Instant::now() + PROGRAM_GRACE));
                }
                Event::Timeout => {
                    let signal = asked.map_or(Signal::SIGKILL, |(signal, _)| signal);
                    self.processes.say(format_args!("the program did not end upon {signal}; it is killed"));
                    self.report_early_failure(ended_by(signal), agents_ended);
                    return Ok(ended_by(signal));
                }
                Event::Orphaned => return Ok(ended_by(Signal::SIGKILL)),
            }
        }
    }

    /// Prints why a run that lost agents or a node has ended.
    fn report_early_failure(&self, code: u8, agents_ended: Option<String>) {
        if let Some(why) = dead_node_line(&self.processes).filter(|_| code != 0).or(agents_ended) {
            report_line(format_args!("the run has ended early: {why}"));
        }
    }

    fn take_down(&mut self, signals: &mut Signals) {
        let names = self.processes.ask_to_end();
        let deadline = Instant::now() + if self.is_over_nodes { NODES_GRACE } else { PARTS_GRACE };
        while !self.processes.all_ended() {
            match signals.next(Some(deadline)) {
                Ok(Event::Ended(pid, _)) => {
                    self.processes.ended_part(pid);
                }
                Ok(Event::Signal { .. } | Event::Orphaned) => {}
                Ok(Event::Timeout) | Err(_) => break,
            }
        }
        for name in names {
            let log = self.processes.log(&name);
            if !log.is_empty() {
                self.processes.say(format_args!("{name} said:\n{}", log.trim_end()));
            }
        }
        if self.args.separation == Separation::Loopback {
            kill_descendants();
        }
        // With namespaces, the end of this process, the first of its namespace, ends the others.
    }
}

fn ended_by(signal: Signal) -> u8 {
    u8::try_from(128 + signal as i32).unwrap_or(u8::MAX)
}
