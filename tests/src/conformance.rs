//! The conformance programs as tests: modes and variants of each program.

use crate::compile::{Compiled, compile};
use crate::mpi::no_mpi;
use crate::program::programs_where;
use crate::shared_cluster::SharedCluster;
use crate::{Job, Language, Outcome, Program, Result, Tool, Variant, libacc, tool};
use libtest_mimic::{Failed, Trial};
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// Number of variants of a non-core program in the long tier.
const VARIANTS: usize = 2;
/// The usual transport.
const TLS: &str = "tls";
/// The memory of a CPU device.
const CPU_MEMORY: &str = "512M";
/// Number of programs that share a cluster in the short tier.
const SHARE: usize = 16;

/// The source of a program's devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The machine's own libgomp, which checks the program itself.
    Stock,
    /// libacc in the program, with two CPU devices of this machine.
    Local,
    /// A cluster of two hosts with a CPU device each. The program begins on the remote one.
    Cluster,
    /// The same cluster, over shared memory.
    ClusterShm,
    /// The same cluster, over MPI.
    ClusterMpi,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Local => "local",
            Self::Cluster => "cluster",
            Self::ClusterShm => "cluster-shm",
            Self::ClusterMpi => "cluster-mpi",
        }
    }
}

/// The number of tests in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Breadth {
    /// The short tier: each program in one variant, in-process and on a device of another node.
    Once,
    /// The long tier: core programs in all variants, others in two, in all modes.
    Usual,
    /// `ACCORD_TEST_FULL=1`: each program in all variants.
    Full,
}

impl Breadth {
    fn of_this_run() -> Self {
        if std::env::var_os("ACCORD_TEST_FULL").is_some_and(|value| value == "1") {
            Self::Full
        } else {
            accord_test_tier::pick(Self::Once, Self::Usual)
        }
    }
}

/// Returns the tests of this run, each named `mode::language::program::variant`. In the short tier most programs share
/// clusters: `cluster::language::first_program::to::last_program`. With the name of a test, reads only its programs, and
/// returns this test and some others of these programs.
///
/// # Errors
/// Returns an error if a program can't be read.
pub fn trials(only: Option<&str>) -> Result<Vec<Trial>> {
    let words: Vec<&str> = only.map_or_else(Vec::new, |name| name.split("::").collect());
    let wanted = |language: Language, name: &str| match words[..] {
        [_, of, _, "to", _] => language.folder() == of,
        [_, of, one, _] => language.folder() == of && name == one,
        _ => true,
    };
    let breadth = Breadth::of_this_run();
    let mut trials = Vec::new();
    let mut sharing: Vec<(Program, Variant)> = Vec::new();
    for program in programs_where(wanted)? {
        let variants = variants(&program, breadth);
        let first = variants.first().copied();
        if breadth != Breadth::Once && !program.expect.device_memory && !program.linked {
            let stock = variants.iter().copied().find(|variant| !variant.linked).unwrap_or(Variant::PLAIN);
            trials.push(trial(Mode::Stock, &program, stock));
        }
        for &variant in &variants {
            trials.push(trial(Mode::Local, &program, variant));
        }
        let clustered = if breadth == Breadth::Full { variants.len() } else { 1 };
        for &variant in variants.iter().take(clustered) {
            if breadth == Breadth::Once && may_share(&program) {
                sharing.push((program.clone(), variant));
            } else {
                trials.push(trial(Mode::Cluster, &program, variant));
            }
        }
        if breadth != Breadth::Once {
            trials.extend(first.map(|variant| trial(Mode::ClusterShm, &program, variant)));
        }
        // Only copies between nodes may differ, and the start of a job is slow.
        let by_mpi = match breadth {
            Breadth::Once => false,
            Breadth::Usual => program.core || program.name.starts_with("d2d_"),
            Breadth::Full => true,
        };
        if by_mpi {
            trials.extend(first.map(|variant| trial(Mode::ClusterMpi, &program, variant)));
        }
    }
    let by_language = sharing.chunk_by(|(one, _), (other, _)| one.language == other.language);
    trials.extend(by_language.flat_map(|programs| programs.chunks(SHARE)).map(shared_trial));
    Ok(trials)
}

/// Whether a program can use a cluster that was started for others, too: it sets nothing that agents read.
fn may_share(program: &Program) -> bool {
    program.env.is_empty() && transport(Mode::Cluster, program) == TLS
}

fn variants(program: &Program, breadth: Breadth) -> Vec<Variant> {
    let possible: Vec<Variant> = Variant::all()
        .filter(|variant| program.offload.is_none_or(|offload| offload == variant.offload))
        .filter(|variant| program.language != Language::Python || !variant.linked)
        .filter(|variant| variant.linked || !program.linked)
        .collect();
    if breadth == Breadth::Full || breadth == Breadth::Usual && program.core {
        return possible;
    }
    // Every variant occurs over all programs. Two of a program differ in optimization and, where possible, in
    // offloading.
    let start = program.name.bytes().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    if breadth == Breadth::Once {
        // No device here executes code for GPUs, whose compiler takes longer than the host's: a fourth of the programs has it.
        let without: Vec<Variant> = possible.iter().copied().filter(|variant| !variant.offload).collect();
        let is_half = (start / possible.len()).is_multiple_of(2);
        let choice = if is_half || without.is_empty() { possible } else { without };
        return vec![choice[start % choice.len()]];
    }
    let step = if possible.len() == 8 { 3 } else { 1 };
    (0..VARIANTS).map(|n| possible[(start + n * step) % possible.len()]).collect()
}

fn test_name(mode: Mode, program: &Program, variant: Variant) -> String {
    format!("{}::{}::{}::{variant}", mode.name(), program.language.folder(), program.name)
}

fn trial(mode: Mode, program: &Program, variant: Variant) -> Trial {
    let name = test_name(mode, program, variant);
    let program = program.clone();
    Trial::test(name.clone(), move || {
        let result = run(mode, &program, variant);
        keep(&name, result.is_ok())?;
        result.map_err(Failed::from)
    })
}

/// Returns a test of several programs on one cluster.
fn shared_trial(programs: &[(Program, Variant)]) -> Trial {
    let programs = programs.to_vec();
    let name = |program: Option<&(Program, Variant)>| program.map_or("", |(program, _)| &program.name).to_owned();
    let language = programs.first().map_or("", |(program, _)| program.language.folder());
    let (first, last) = (name(programs.first()), name(programs.last()));
    Trial::test(format!("cluster::{language}::{first}::to::{last}"), move || {
        let cluster = SharedCluster::start(local_cluster(Mode::Cluster, TLS)?)?;
        let mut failed = String::new();
        for (program, variant) in &programs {
            let result = run_in(&cluster, program, *variant);
            keep(&test_name(Mode::Cluster, program, *variant), result.is_ok())?;
            if let Err(why) = result {
                failed += &format!("{} ({variant}): {why}\n", program.name);
            }
        }
        cluster.end()?;
        if failed.is_empty() { Ok(()) } else { Err(Failed::from(failed)) }
    })
}

/// Writes a file with the test's result, for the conformance table.
fn keep(test: &str, passed: bool) -> Result<()> {
    let Some(folder) = std::env::var_os("ACCORD_TEST_RECORD") else { return Ok(()) };
    let path = std::path::Path::new(&folder).join(test);
    std::fs::write(&path, if passed { "passed" } else { "failed" })
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn run(mode: Mode, program: &Program, variant: Variant) -> Result<()> {
    if mode == Mode::ClusterMpi
        && let Some(why) = no_mpi()
    {
        println!("skipped: {why}");
        return Ok(());
    }
    check(mode, program, variant, |first| match mode {
        Mode::Stock | Mode::Local => Ok(Job::new(first)),
        _ => Ok(local_cluster(mode, transport(mode, program))?.arg(first)),
    })
}

fn run_in(cluster: &SharedCluster, program: &Program, variant: Variant) -> Result<()> {
    check(Mode::Cluster, program, variant, |first| Ok(cluster.job(first)))
}

fn transport(mode: Mode, program: &Program) -> &'static str {
    match mode {
        // rustls allocates memory for each record, so Accord's allocations are counted without it.
        Mode::Cluster if program.name.ends_with("_allocations") => "tcp",
        Mode::ClusterShm => "shm",
        _ => TLS,
    }
}

/// Returns the command `accord run` for a cluster of two hosts, up to its program.
fn local_cluster(mode: Mode, transport: &str) -> Result<Job> {
    let accord = Job::new(tool(Tool::Accord)?).env("ACCORD_CPU_MEMORY", CPU_MEMORY).env("ACCORD_LIBACC", libacc()?);
    let job = accord.args(["run", "--local-cluster", "2x1", "--loopback"]);
    Ok(match mode {
        Mode::ClusterMpi => job.with_mpi().args(["--fabric", "mpi", "--"]),
        _ => job.env("ACCORD_TRANSPORT", transport).arg("--"),
    })
}

/// Compiles a program, runs it by the command that `start` makes of its first word, and compares the outcome.
fn check(mode: Mode, program: &Program, variant: Variant, start: impl FnOnce(OsString) -> Result<Job>) -> Result<()> {
    let compiled = compile(program, variant)?;
    let plugin = compiled.plugin.clone().unwrap_or_default();
    let mut line = command_line(program, compiled)?.into_iter();
    let mut job = start(line.next().ok_or("nothing to run")?)?.args(line);
    if mode != Mode::Stock {
        let library = libacc()?;
        job = job.env("ACCORD_CPU_MEMORY", CPU_MEMORY).env("ACCORD_LIBACC", &library);
        if variant.linked {
            job = job.env("LD_LIBRARY_PATH", library.parent().unwrap_or(&library));
        }
        if !program.shared {
            job = job.env("ACCORD_TEST_SEPARATE", "1");
        }
        if matches!(mode, Mode::Cluster | Mode::ClusterShm | Mode::ClusterMpi) && !program.first_device {
            job = job.env("ACC_DEVICE_NUM", "1");
        }
        if mode == Mode::Local {
            job = job.env("ACCORD_CPU_DEVICES", "2");
            if !variant.linked {
                job = job.env("LD_PRELOAD", library);
            }
        }
    }
    for (name, value) in &program.env {
        job = job.env(name, value.replace("{plugin}", &plugin.to_string_lossy()));
    }
    let finished = job.run()?;
    Outcome::new(&program.expect, &finished).check()
}

fn command_line(program: &Program, compiled: Compiled) -> Result<Vec<OsString>> {
    let mut line = Vec::new();
    if program.language == Language::Python {
        line.push(python()?);
    }
    line.push(compiled.program.into());
    line.extend(compiled.plugin.map(OsString::from));
    Ok(line)
}

/// Returns the interpreter itself: `python3` may be a script that chooses one.
fn python() -> Result<OsString> {
    static PYTHON: OnceLock<Result<String>> = OnceLock::new();
    let found = PYTHON.get_or_init(|| {
        let output = Command::new("python3")
            .args(["-c", "import sys; print(sys.executable)"])
            .output()
            .map_err(|error| format!("cannot start python3: {error}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    });
    found.clone().map(OsString::from)
}
