//! The cost of libacc for a process before its first region and at each `malloc`: libacc searches the loaded objects for calls that reach
//! libgomp, and the allocator is called by a jump (`programs/start.c`, `programs/malloc_pairs.c`).

use crate::report::{Report, build_folder, compile, program as accord};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 11;
/// Shared libraries that the program is linked with.
const LIBRARIES: [usize; 3] = [0, 50, 500];
const BLOCKS: &str = "31";
const PAIRS: &str = "100000";

/// The way in which a program is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Stock,
    Preloaded,
    AccordRun,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Preloaded => "preloaded",
            Self::AccordRun => "accord_run",
        }
    }

    fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Self::Stock | Self::Preloaded => Command::new(program),
            Self::AccordRun => {
                let mut command = Command::new(accord());
                command.args(["run", "--"]).arg(program);
                command
            }
        };
        command.envs([("ACCORD_CPU_DEVICES", "1"), ("ACCORD_CPU_MEMORY", "64M")]);
        if self == Self::Preloaded {
            command.env("LD_PRELOAD", accord().with_file_name("libacc.so"));
        }
        command
    }
}

pub(crate) fn run() -> Result<Report, String> {
    let folder = build_folder()?;
    let mut report = Report::of("start and malloc_pairs, as they are, with libacc.so preloaded, and under accord run");
    for count in LIBRARIES {
        let program = program(&folder, count)?;
        for argument in ["none", "region"] {
            let ways: &[Way] = if argument == "none" {
                &[Way::Stock, Way::Preloaded]
            } else {
                &[Way::Stock, Way::Preloaded, Way::AccordRun]
            };
            let mut samples = vec![Vec::new(); ways.len()];
            for _ in 0..ROUNDS {
                for (way, samples) in ways.iter().zip(&mut samples) {
                    samples.push(time(way.command(&program).arg(argument))?);
                }
            }
            for (way, samples) in ways.iter().zip(samples) {
                report.put(&format!("{count}/{argument}/{}", way.name()), "ms", samples);
            }
        }
    }
    for count in LIBRARIES {
        let median = |name: &str| report.median(&format!("{count}/{name}"));
        let load = median("none/preloaded")? - median("none/stock")?;
        let region = median("region/preloaded")? - median("none/preloaded")?;
        // A walk over the objects' relocations; it grows with them.
        let bar = 10.0 + 0.05 * count as f64;
        report.at_most(&format!("start with libacc preloaded less stock, {count} libraries"), load, "ms", bar);
        report.at_most(&format!("a CPU device and a first region, {count} libraries"), region, "ms", 100.0);
    }
    let pairs = folder.join("malloc_pairs");
    compile(&crate::root().join("benches/programs/malloc_pairs.c"), &pairs)?;
    for way in [Way::Stock, Way::Preloaded] {
        report.take_lines(&format!("malloc/{}/", way.name()), &output(way.command(&pairs).args([BLOCKS, PAIRS]))?)?;
    }
    for (name, what) in [("64", "64 B"), ("64_held", "64 B, 64 at a time"), ("65536", "64 KiB")] {
        let median = |way: Way| report.median(&format!("malloc/{}/{name}", way.name()));
        let more = median(Way::Preloaded)? - median(Way::Stock)?;
        report.at_most(&format!("malloc and free of {what}, preloaded less stock"), more, "ns", 5.0);
    }
    Ok(report)
}

/// Compiles the program, linked with so many libraries, and returns its path.
fn program(folder: &Path, libraries: usize) -> Result<PathBuf, String> {
    let place = folder.join(format!("start-{libraries}"));
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    let program = place.join("start");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-fopenacc", "-foffload=disable", "-Wl,--no-as-needed", "-o"]).arg(&program);
    gcc.arg(crate::root().join("benches/programs/start.c")).arg("-L").arg(&place);
    gcc.arg(format!("-Wl,-rpath,{}", place.display()));
    for number in 0..libraries {
        let library = place.join(format!("libstart{number}.so"));
        if !library.exists() {
            write_library(number, &place.join("library.c"), &library)?;
        }
        gcc.arg(format!("-lstart{number}"));
    }
    succeed(&mut gcc)?;
    Ok(program)
}

/// Compiles a library with as many names and calls as a small one has.
fn write_library(number: usize, source: &Path, library: &Path) -> Result<(), String> {
    let mut text = String::new();
    for function in 0..20 {
        let name = format!("start_{number}_{function}");
        let _ = writeln!(text, "int {name}(int n) {{ return n ? {name}(n - 1) : 0; }}");
    }
    std::fs::write(source, text).map_err(|error| format!("{}: {error}", source.display()))?;
    succeed(Command::new("gcc").args(["-O0", "-shared", "-fPIC", "-o"]).args([library, source]))
}

/// Returns the time for which a process runs, in ms.
fn time(command: &mut Command) -> Result<f64, String> {
    let begin = Instant::now();
    succeed(command.stdout(Stdio::null()))?;
    Ok(begin.elapsed().as_secs_f64() * 1e3)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{command:?} ended with {status}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
