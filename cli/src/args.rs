//! The command line.

use crate::command::compile::Tool;
use crate::deadline::deadline;
use crate::generated_args::{CompletionsArgs, ManArgs};
use crate::internal_args::{ExecArgs, KeepArgs, PngArgs, RshArgs, Separation};
use crate::job_args::{
    ChangeArgs, HistoryArgs, JobsArgs, PauseArgs, QueueArgs, ResumeArgs, SuspendArgs, UsageArgs, WhatIfArgs, job_number,
};
use crate::page_args::PageArgs;
use crate::pki_args::PkiArgs;
use crate::policy_args::PolicyArgs;
use crate::quarantine_args::QuarantineArgs;
use crate::request_args::RequestArgs;
use crate::reservation_args::ReservationArgs;
use crate::setup_args::SetupArgs;
use crate::top_args::TopArgs;
use accord_types::Compare;
use accord_types::nearest::nearest;
use accord_types::settings;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Most hosts of a local cluster: their addresses share one /24.
const HOSTS_MAX: u32 = 200;
/// Most devices of one of its hosts.
const DEVICES_MAX: u32 = 64;

/// All the accelerators of a cluster as one OpenACC device space.
#[derive(Parser, Debug)]
#[command(name = "accord", version = accord_types::build_version!().text(), about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the process's arguments. Exits with a message if they are invalid.
    pub(crate) fn from_command_line() -> Self {
        let args = spell_np(std::env::args_os());
        let cli = Self::parse_from(&args);
        if let Command::Run(run) = &cli.command
            && let Some(option) = unknown_option(&args, &run.program)
        {
            Self::unknown(option).exit();
        }
        cli
    }

    /// Returns the error for a word that looks like an option of `accord run` but is none.
    fn unknown(option: &str) -> clap::Error {
        let mut command = Self::command();
        command.build();
        let run =
            command.find_subcommand("run").map(|run| run.get_arguments().filter_map(|one| one.get_long()).collect());
        let known: Vec<String> = run.unwrap_or_else(Vec::new).into_iter().map(|name| format!("--{name}")).collect();
        let word = option.split_once('=').map_or(option, |(word, _)| word);
        let near = nearest(word, known.iter().map(String::as_str));
        let meant = near.map_or_else(|| "a".to_owned(), |near| format!("did you mean {near}? A"));
        let text =
            format!("accord run has no option {word}; {meant} program whose name begins with - comes after --\n");
        command.error(ErrorKind::UnknownArgument, text)
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a program over the devices of this machine or of a cluster.
    Run(RunArgs),
    /// Show nodes, devices and their numbers, the coordinator and sessions; or the settings.
    Info(InfoArgs),
    /// Watch nodes, devices, users and jobs: what is in use, by whom, what is idle, and what waits.
    Top(TopArgs),
    /// Print an address at which a browser shows the cluster.
    Page(PageArgs),
    /// Check this machine's setup for Accord, and print a remedy for each problem.
    Doctor(DoctorArgs),
    /// Measure copies, launches and copies between devices, as a program here gets them.
    Bench(BenchArgs),
    /// Compile and link C with Accord's headers and library. The program then runs without accord run.
    Cc(CompilerArgs),
    /// Compile and link C++.
    #[command(name = "c++", alias = "cxx")]
    Cxx(CompilerArgs),
    /// Compile and link Fortran.
    Fc(CompilerArgs),
    /// Compile and link CUDA Fortran with LLVM 22's flang. The kernels run on CPU devices of any node.
    Cuf(CufArgs),
    /// Report what GCC drops, miscompiles or refuses in sources, and what to write instead.
    Lint(LintArgs),
    /// Convert traces.
    Trace(TraceArgs),
    /// Show how Accord handles a program, a copy or a launch without running it, and why a job waits.
    Explain(ExplainArgs),
    /// Create, list and renew certificates, which identify the parts and users of a cluster.
    Pki(PkiArgs),
    /// Set up a standing cluster: its server, its nodes, its users.
    Setup(SetupArgs),
    /// Show running and waiting jobs, why they wait, and when they start.
    Queue(QueueArgs),
    /// Withdraw waiting jobs and end running ones.
    Cancel(JobsArgs),
    /// Keep waiting jobs from starting.
    Hold(JobsArgs),
    /// Let held jobs start.
    Release(JobsArgs),
    /// Suspend running jobs: the memory of their devices goes to host memory, and other jobs may have the devices.
    Suspend(SuspendArgs),
    /// Resume suspended jobs.
    Resume(ResumeArgs),
    /// Show when a request would start, and with which devices, without submitting it.
    WhatIf(WhatIfArgs),
    /// Show ended jobs.
    History(HistoryArgs),
    /// Show device-hours by user, account or day.
    Usage(UsageArgs),
    /// Check a site's policy or put it into effect: which users may have which devices, and in which order.
    Policy(PolicyArgs),
    /// Change jobs' time limits, or put jobs before all others.
    Change(ChangeArgs),
    /// Let no job start; running jobs continue.
    Pause(PauseArgs),
    /// Reserve devices for a time: for some accounts and users, or for maintenance.
    Reservation(ReservationArgs),
    /// Exclude a node from new sessions, for example before its maintenance.
    Drain(DrainArgs),
    /// Give devices to no job, as after a fault, or give them to jobs again.
    Quarantine(QuarantineArgs),
    /// End sessions: their programs get an error, and their devices become free.
    Close(CloseArgs),
    /// Show what nodes have written about a session, also some minutes after its end.
    Logs(LogsArgs),
    /// Stop the coordinator, and with --agents also the agents.
    Shutdown(ShutdownArgs),
    /// Show this version, its commit, the compilers that it was tested with, and the versions of its protocols.
    Version(VersionArgs),
    /// Print the completions of these commands for a shell.
    Completions(CompletionsArgs),
    /// Write a manual page for each command into a folder.
    Man(ManArgs),
    /// Converts a PPM picture to PNG.
    #[command(name = "__png", hide = true)]
    Png(PngArgs),
    /// Finds this machine's GPUs.
    #[command(name = "__gpus", hide = true)]
    Gpus,
    /// Supervises a run, and ends all of its processes at its end.
    #[command(name = "__supervise", hide = true)]
    Supervise(SuperviseArgs),
    /// Becomes a program on one of the hosts.
    #[command(name = "__exec", hide = true)]
    Exec(ExecArgs),
    /// Runs an MPI launcher, and ends it when the parent dies.
    #[command(name = "__keep", hide = true)]
    Keep(KeepArgs),
    /// Starts mpirun's daemons.
    #[command(name = "__rsh", hide = true)]
    Rsh(RshArgs),
}

/// `accord run`.
///
/// Without options the program gets this machine's devices, or with ACCORD_COORDINATOR set
/// those of that cluster. The exit code is the program's; 128 + n if signal n ended it,
/// 125 if Accord failed, 126 and 127 if the program could not be started.
#[derive(Args, Debug, Clone)]
pub(crate) struct RunArgs {
    /// Start a cluster on this machine for the duration of the run: H hosts with D CPU devices each, or with HxDgpu D of this
    /// machine's GPUs each.
    #[arg(long, value_name = "HxD[gpu]")]
    pub(crate) local_cluster: Option<ClusterSize>,

    /// Run the program on one more host, which has no devices.
    #[arg(long, requires = "local_cluster", conflicts_with = "np")]
    pub(crate) remote_only: bool,

    /// Start R ranks with this machine's mpirun, spread over the hosts (also -np R). In a Slurm allocation start them on its nodes, with an
    /// agent on each node for the duration of the run.
    #[arg(long, short = 'n', value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) np: Option<u32>,

    /// Start the ranks on the hosts of FILE, in mpirun's format, with an agent on each host for the duration of the run.
    #[arg(long, value_name = "FILE", requires = "np", conflicts_with = "local_cluster")]
    pub(crate) hostfile: Option<PathBuf>,

    /// Program that starts agents and ranks on other nodes: mpirun, srun, or auto. auto is srun in a Slurm allocation without --hostfile, if
    /// srun has PMI for the ranks' MPI, and otherwise mpirun.
    #[arg(
        long,
        value_name = "auto|mpirun|srun",
        value_enum,
        hide_possible_values = true,
        default_value = "auto",
        conflicts_with = "local_cluster"
    )]
    pub(crate) launcher: Launcher,

    /// Folder that all nodes share at this path, for the run's certificates and traces [default: accord in ~/.cache].
    #[arg(long, value_name = "FOLDER", conflicts_with = "local_cluster")]
    pub(crate) shared: Option<PathBuf>,

    /// Address of this node for the other nodes [default: that of the first interface].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "local_cluster")]
    pub(crate) address: Option<std::net::IpAddr>,

    /// Draw launches and copies of all devices as an SVG picture.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) timeline: Option<PathBuf>,

    /// Write launches and copies as a Chrome trace.
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,

    /// Print at the program's end which lines took the time, of all ranks together. =full adds all lines and devices of each rank; =FILE
    /// writes that to FILE (with %r, the rank, in its name: one file each). ACCORD_TIME does it without accord run.
    #[arg(long, value_name = "full|FILE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) time: Option<String>,

    /// With --time: print JSON.
    #[arg(long, requires = "time")]
    pub(crate) json: bool,

    /// Show the nearest entries of the present table in errors about data that is absent or present only in part. ACCORD_EXPLAIN_ERRORS does it
    /// without accord run.
    #[arg(long)]
    pub(crate) explain_errors: bool,

    /// Run each region on a CPU device, too, and report the first element of each array that differs: by more than 1e-6 (single precision) or 1e-12
    /// (double) of its value, or by more than LIMITS, such as rel=1e-4,abs=1e-9 or ulp=4. ACCORD_COMPARE does it without accord run.
    #[arg(long, value_name = "LIMITS", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = limits)]
    pub(crate) compare: Option<String>,

    /// Transport between the nodes: tcp, mpi, or auto. auto is mpi over several nodes if the agents have an MPI whose ranks the launcher can
    /// start, and tcp between the hosts of a local cluster. --verbose prints the reason.
    #[arg(long, value_name = "auto|mpi|tcp", value_enum, hide_possible_values = true)]
    pub(crate) fabric: Option<Fabric>,

    /// Use loopback addresses as the hosts of the local cluster, even if network namespaces are available.
    #[arg(long, requires = "local_cluster")]
    pub(crate) loopback: bool,

    /// Send commands and data between the hosts in clear, without TLS, for comparisons.
    #[arg(long, requires = "local_cluster")]
    pub(crate) insecure_plain_tcp: bool,

    /// Start hosts without coordinator and agents.
    #[arg(long, hide = true, requires = "local_cluster")]
    pub(crate) bare: bool,

    /// Print what is started and how it ends.
    #[arg(long, short)]
    pub(crate) verbose: bool,

    #[command(flatten, next_help_heading = "Devices")]
    pub(crate) request: RequestArgs,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM", help_heading = None)]
    pub(crate) program: Vec<OsString>,
}

/// The program that starts processes on other nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Launcher {
    /// Chosen by what is available.
    #[default]
    Auto,
    /// The site's mpirun.
    Mpirun,
    /// Slurm's srun.
    Srun,
}

/// The transport between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Fabric {
    /// Chosen by what is available.
    Auto,
    /// MPI, between agents that mpirun starts.
    Mpi,
    /// TCP.
    Tcp,
}

impl Launcher {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mpirun => "mpirun",
            Self::Srun => "srun",
        }
    }
}

impl Fabric {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mpi => "mpi",
            Self::Tcp => "tcp",
        }
    }
}

/// The wrappers' own options, which are recognised among the compiler's.
const COMPILER_OPTIONS: &str = "Options of Accord's own:
      --accord-show     Show the command instead of running it
      --accord-no-lint  Say nothing about directives
      --accord-modules  Print the folder with the module openacc for this gfortran
      --kernels=MODE    What becomes of kernels constructs: parallel (where that is promised or proven; the default),
                        gcc, decompose (GCC's own --param), check (host loops in another order, to show a wrong decision)
      --no-implicit-reductions  Take no sum for a reduction that no clause names
      --assume-no-alias         Promise that pointers in kernels constructs never overlap
      -Minfo            Say what becomes of each loop in kernels constructs";

/// `accord cc`, `accord c++`, `accord fc`: all arguments go to the compiler.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = COMPILER_OPTIONS)]
pub(crate) struct CompilerArgs {
    /// The compiler's arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

const CUF_OPTIONS: &str = "  -c, -o FILE, -O0 to -O3, -cpp, -D, -U, -I, -J, -L, -l, -Wl,..., -v
      --llvm=FOLDER  LLVM 22 with flang; without it /usr/lib/llvm-22\n      --cuda=FOLDER  CUDA toolkit whose libdevice GPUs' kernels call; without it the system's, else GCC's libm for nvptx\n      --mpi=MPIFORT  Wrapper of the program's MPI; without it mpifort in PATH\n      --keep=FOLDER  Leave what lies between source and object there
Options of NVHPC that mean the same are taken: -cuda, -fast, -Mfree, -Mfixed, -Mpreprocess, -gpu=ccNN, -r8, -i8, -module";

#[derive(Args, Debug)]
#[command(disable_help_flag = true, after_help = CUF_OPTIONS)]
pub(crate) struct CufArgs {
    /// Sources, objects, libraries and options.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(crate) arguments: Vec<OsString>,
}

/// `accord lint`.
///
/// The exit code is 1 if there are findings.
#[derive(Args, Debug)]
pub(crate) struct LintArgs {
    /// Sources in C, C++ and Fortran, named as for GCC.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Check for this version of GCC, such as 12 [default: the machine's gcc].
    #[arg(long, value_name = "VERSION")]
    pub(crate) gcc: Option<u32>,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `accord logs`.
#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    /// The session's number, as accord info shows it.
    #[arg(value_name = "SESSION", value_parser = session_number)]
    pub(crate) session: u64,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `accord version`.
#[derive(Args, Debug)]
pub(crate) struct VersionArgs {
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl RunArgs {
    /// Whether the times of all ranks are added up, instead of one report for each rank.
    pub(crate) fn adds_up_times(&self) -> bool {
        self.np.is_some() && self.time.as_ref().is_some_and(|to| !to.contains("%r") && !to.contains("%p"))
    }

    /// Returns the settings of the program that options set.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static str, String)> {
        let time = self.time_setting().map(|time| (settings::TIME.name, time));
        let explains = self.explain_errors.then(|| (settings::EXPLAIN_ERRORS.name, "1".to_owned()));
        let compares = self.compare.clone().map(|limits| (settings::COMPARE.name, limits));
        time.into_iter().chain(explains).chain(compares)
    }

    /// Returns the value for ACCORD_TIME with which each process reports by itself, or `None` to leave it unchanged.
    fn time_setting(&self) -> Option<String> {
        let file = self.time.as_ref().filter(|_| !self.adds_up_times())?;
        Some(match (file.as_str(), self.json) {
            ("", false) => "1".into(),
            ("" | "full", true) => "json".into(),
            (file, true) if !file.ends_with(".json") => format!("{file}.json"),
            // Among them `full`, a value of the setting, too.
            (file, _) => file.into(),
        })
    }
}

/// `accord info`.
///
/// Shows the cluster of ACCORD_COORDINATOR, without it this machine. Device numbers are those
/// that a program started in the same place would see.
#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show every setting, its value in force and the origin of that value.
    #[arg(long)]
    pub(crate) settings: bool,
}

/// `accord drain`.
///
/// Sessions that use the node continue. Asks the coordinator of ACCORD_COORDINATOR as an administrator, whose certificates are
/// in the folder ACCORD_TLS.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// Names of nodes, as accord info shows them; with /NUMBER one device of the node.
    #[arg(required = true, value_name = "NODE[/DEVICE]")]
    pub(crate) targets: Vec<String>,
    /// Deadline, in 2h for example, or at 18:00 in UTC: jobs that end by then may start there [default: no job starts there].
    #[arg(long, value_name = "TIME", conflicts_with = "undo", value_parser = deadline)]
    pub(crate) by: Option<Duration>,
    /// End the jobs that still run at the deadline.
    #[arg(long, requires = "by")]
    pub(crate) end: bool,
    /// Reason for the audit log.
    #[arg(long, value_name = "TEXT", conflicts_with = "undo")]
    pub(crate) reason: Option<String>,
    /// Return once nothing uses the nodes and devices any more, and print the remaining uses whenever they change. Ctrl-C leaves the drain in place.
    #[arg(long, conflicts_with = "undo")]
    pub(crate) wait: bool,
    /// Undo the drain.
    #[arg(long)]
    pub(crate) undo: bool,
}

/// `accord close`.
///
/// Asks the coordinator of ACCORD_COORDINATOR as an administrator, whose certificates are in the folder ACCORD_TLS.
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// Numbers of sessions, as accord info shows them.
    #[arg(required = true, value_name = "SESSION", value_parser = session_number)]
    pub(crate) sessions: Vec<u64>,
}

/// `accord shutdown`.
///
/// Asks the coordinator of ACCORD_COORDINATOR as an administrator, whose certificates are in the folder ACCORD_TLS.
#[derive(Args, Debug)]
pub(crate) struct ShutdownArgs {
    /// Stop the agents too, which end all sessions.
    #[arg(long)]
    pub(crate) agents: bool,
}

/// `accord doctor`.
///
/// The exit code is 1 if there are findings.
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Longest wait for missing measurements of the cluster.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(crate) wait: Duration,
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `accord bench`.
///
/// Measures on the devices that a program here gets: this machine's, or with ACCORD_COORDINATOR set or as the program of accord run, those of
/// that cluster. Calls libacc.so as any OpenACC program does. Device numbers are those of a program.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// copy: between the program's memory and each device. launch: an empty region, and the wait for it, on each device. p2p: from each device
    /// to each other.
    #[arg(value_name = "copy|launch|p2p", value_enum, hide_possible_values = true)]
    pub(crate) what: BenchSubject,
    /// Sizes of copies, at most 1G each.
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "8,1M,64M", value_parser = copy_size)]
    pub(crate) sizes: Vec<u64>,
    /// Approximate total time. Measurements that do not fit are left out and reported.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// Print JSON, for programs, with times in microseconds.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The operations that `accord bench` measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum BenchSubject {
    /// Between the program's memory and devices.
    Copy,
    /// Launches.
    Launch,
    /// Between devices.
    P2p,
}

impl BenchSubject {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Launch => "launch",
            Self::P2p => "p2p",
        }
    }
}

/// `accord trace`.
#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TraceCommand {
    /// Draw traces (ACCORD_TRACE, accord run --trace) as one timeline.
    Timeline {
        /// The traces of a program, or of all ranks of a job.
        #[arg(required = true, value_name = "TRACE.json")]
        traces: Vec<PathBuf>,
        /// The picture.
        #[arg(long, short, value_name = "FILE.svg")]
        output: PathBuf,
    },
}

/// `accord explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    pub(crate) command: ExplainCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum ExplainCommand {
    /// Show why a job waits and what must happen for it to start, or why it has its devices.
    Job {
        /// The job's number, as accord queue shows it.
        #[arg(value_name = "JOB", value_parser = job_number)]
        job: u64,
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Show a program's code for NVIDIA GPUs: regions, their dimensions, how their arguments are passed, and why.
    Image {
        /// The program, or a shared object with regions.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Show the possible ways of a copy between two devices, the cost of each, the chosen one, and why.
    D2d {
        /// The number of the source device, as for a program that starts here.
        #[arg(value_name = "FROM")]
        from: u32,
        /// The number of the target device.
        #[arg(value_name = "TO")]
        to: u32,
        /// Number of bytes, such as 64K or 1G.
        #[arg(value_name = "SIZE", value_parser = size)]
        size: u64,
        /// Longest wait for missing measurements, which are then estimated.
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
        wait: Duration,
        /// Print JSON, for programs, with times in microseconds.
        #[arg(long)]
        json: bool,
    },
    /// Show which processes a launch passes through on its way to a device, and the cost.
    Launch {
        /// The number of the device, as for a program that starts here.
        #[arg(value_name = "DEVICE")]
        device: u32,
        /// Longest wait for missing measurements, which are then estimated.
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
        wait: Duration,
        /// Print JSON, for programs, with times in microseconds.
        #[arg(long)]
        json: bool,
    },
    /// Show the way of a copy between two memories, one of them a GPU of the program's process, and why.
    Copy {
        /// The source of the copy.
        #[arg(value_name = "FROM")]
        from: CopyMemory,
        /// The target of the copy.
        #[arg(value_name = "TO")]
        to: CopyMemory,
        /// Number of bytes, such as 64K or 1G.
        #[arg(value_name = "SIZE", value_parser = size)]
        size: u64,
        /// Copy in an asynchronous queue.
        #[arg(long = "async")]
        in_queue: bool,
        /// Print JSON, for programs.
        #[arg(long)]
        json: bool,
    },
}

/// A memory at one end of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum CopyMemory {
    /// Ordinary (pageable) memory of the program.
    Host,
    /// Memory that the program has pinned itself, or managed memory.
    Pinned,
    /// Memory of the program that Accord has page-locked, because it is copied repeatedly.
    Locked,
    /// A GPU of the program's process.
    Gpu,
    /// A GPU that another process of the same machine drives.
    SameHost,
    /// A device of another node, or a CPU device.
    Elsewhere,
}

impl CopyMemory {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

fn limits(text: &str) -> Result<String, String> {
    let meaning = Compare::parse(text).map(|_| text.to_owned());
    meaning.ok_or_else(|| "use limits such as rel=1e-4, abs=1e-9 or ulp=4, separated by commas".to_owned())
}

fn time(text: &str) -> Result<Duration, String> {
    settings::parse_time(text).ok_or_else(|| "use a time such as 30s, 5m or 2h".to_owned())
}

/// Parses a session's number.
fn session_number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "a session's number is needed, as accord info shows it".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    settings::parse_bytes(text).ok_or_else(|| "use a size such as 64K or 1G".to_owned())
}

/// Parses a size that `accord bench` copies, which needs as much memory on the host and on each device.
fn copy_size(text: &str) -> Result<u64, String> {
    const MAX: u64 = 1 << 30;
    match size(text)? {
        bytes @ 1..=MAX => Ok(bytes),
        _ => Err("use a size from 1 to 1G".to_owned()),
    }
}

/// `accord __supervise`.
#[derive(Args, Debug)]
pub(crate) struct SuperviseArgs {
    /// The run's private directory.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// A pipe whose other end the launcher holds as long as it lives.
    #[arg(long)]
    pub(crate) lifeline: PathBuf,
    #[arg(long, value_enum)]
    pub(crate) separation: Separation,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Hosts and devices per host of a local cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClusterSize {
    pub(crate) hosts: u32,
    pub(crate) devices: u32,
    /// Whether devices are this machine's GPUs.
    pub(crate) gpus: bool,
}

impl FromStr for ClusterSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || format!("{text:?} is not HOSTSxDEVICES, such as 3x2, or 2x1gpu for GPUs");
        let (size, gpus) = text.strip_suffix("gpu").map_or((text, false), |size| (size, true));
        let (hosts, devices) = size.split_once('x').ok_or_else(form)?;
        let hosts: u32 = hosts.parse().map_err(|_| form())?;
        let devices: u32 = devices.parse().map_err(|_| form())?;
        if !(1..=HOSTS_MAX).contains(&hosts) || !(1..=DEVICES_MAX).contains(&devices) {
            return Err(format!("1 to {HOSTS_MAX} hosts and 1 to {DEVICES_MAX} devices a host"));
        }
        Ok(Self { hosts, devices, gpus })
    }
}

impl std::fmt::Display for ClusterSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}{}", self.hosts, self.devices, if self.gpus { "gpu" } else { "" })
    }
}

/// Returns the compiler of `accord cc ...`, or of the program under its name `accord-cc`, and its arguments.
pub(crate) fn compiler_line(mut args: impl Iterator<Item = OsString>) -> Option<(Tool, Vec<OsString>)> {
    let program = PathBuf::from(args.next()?);
    let name = program.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let tool = match name.strip_prefix("accord-").and_then(Tool::named) {
        Some(tool) => tool,
        None => Tool::named(args.next()?.to_str()?)?,
    };
    Some((tool, args.collect()))
}

/// Returns the arguments of `accord cuf ...`, or of the program under its name `accord-cuf`.
pub(crate) fn cuf_line(mut args: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let program = PathBuf::from(args.next()?);
    let is_named = program.file_name().is_some_and(|name| name == "accord-cuf");
    (is_named || args.next()? == "cuf").then(|| args.collect())
}

/// Returns the first word of the program's command line, as parsed by clap, if it looks like an option and does not follow `--`.
fn unknown_option<'a>(args: &[OsString], program: &'a [OsString]) -> Option<&'a str> {
    let option = program.first()?.to_str().filter(|word| word.starts_with('-'))?;
    let before = args.len().checked_sub(program.len() + 1)?;
    (args.get(before)? != "--").then_some(option)
}

/// Turns mpirun's `-np` into `--np`, up to the program's name or `--`.
fn spell_np(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|command| command == "run") {
        for arg in args.iter_mut().skip(2).take_while(|arg| *arg != "--") {
            if arg == "-np" {
                *arg = "--np".into();
            }
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_args(line: &str) -> RunArgs {
        let args = line.split_whitespace().map(OsString::from);
        match Cli::try_parse_from(spell_np(args)).unwrap().command {
            Command::Run(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn np_is_taken_with_one_dash_and_the_programs_own_is_left_alone() {
        let args = run_args("accord run -np 4 --local-cluster 3x2 -- mpirun -np 2 ./app");
        assert_eq!(args.np, Some(4));
        assert_eq!(args.local_cluster, Some(ClusterSize { hosts: 3, devices: 2, gpus: false }));
        assert_eq!(args.program, ["mpirun", "-np", "2", "./app"]);
    }

    #[test]
    fn compilers_go_by_the_commands_or_the_programs_name() {
        let line = |text: &str| compiler_line(text.split_whitespace().map(OsString::from));
        assert_eq!(
            line("accord cc --help -c a.c"),
            Some((Tool::Cc, ["--help", "-c", "a.c"].map(OsString::from).into()))
        );
        assert_eq!(line("/usr/bin/accord-c++ cc"), Some((Tool::Cxx, vec!["cc".into()])));
        assert_eq!(line("accord-fc"), Some((Tool::Fc, vec![])));
        for other in ["accord", "accord run cc", "accord-agent", "accord help cc"] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn the_program_may_follow_without_dashes() {
        let args = run_args("accord run ./app --verbose");
        assert_eq!(args.program, ["./app", "--verbose"]);
        assert!(!args.verbose);
    }

    #[test]
    fn a_wrong_option_is_told_with_the_nearest_one_and_a_programs_own_are_left_alone() {
        let unknown = |line: &str| {
            let args = spell_np(line.split_whitespace().map(OsString::from));
            let Command::Run(run) = Cli::try_parse_from(&args).unwrap().command else { panic!("{line}") };
            unknown_option(&args, &run.program).map(|option| Cli::unknown(option).to_string())
        };
        for line in ["accord run --tiem -- ./app", "accord run --verbose --tiem ./app", "accord run --tiem=x -- ./app"]
        {
            let error = unknown(line).unwrap();
            assert!(error.contains("no option --tiem; did you mean --time?"), "{error}");
        }
        assert!(unknown("accord run -x -- ./app").unwrap().contains("no option -x"));
        for line in [
            "accord run -- ./app --tiem",
            "accord run ./app --tiem -- x",
            "accord run --verbose -- --tiem",
            "accord run -np 2 ./app",
        ] {
            assert_eq!(unknown(line), None, "{line}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for good in ["3x2", "2x1gpu"] {
            assert_eq!(good.parse::<ClusterSize>().unwrap().to_string(), good);
        }
    }

    #[test]
    fn sizes_without_sense_are_refused() {
        for bad in ["3", "x2", "3x", "0x1", "1x0", "3x2x1", "999x1", "-1x2", "2xgpu", "gpu", "2x1gpus"] {
            assert!(bad.parse::<ClusterSize>().is_err(), "{bad}");
        }
    }
}
