//! Samples, medians, ratios, and the files that keep them.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The samples of a run, and the figures from them.
#[derive(Default)]
pub(crate) struct Report {
    command: String,
    samples: BTreeMap<String, (String, Vec<f64>)>,
    /// Name, value, unit, bound, and whether lower is better.
    rows: Vec<(String, f64, &'static str, f64, bool)>,
}

impl Report {
    /// Creates an empty report on `command`.
    pub(crate) fn of(command: impl Into<String>) -> Self {
        // Relative to the repository's folder, so that reports do not show its place.
        let folder = format!("{}/", crate::root().display());
        Self { command: command.into().replace(&folder, ""), ..Self::default() }
    }

    /// Parses the lines of bench programs: one JSON object per name, stored with `prefix` before the name.
    pub(crate) fn take_lines(&mut self, prefix: &str, text: &str) -> Result<(), String> {
        for line in text.lines().filter(|l| l.starts_with('{')) {
            let value: Value = serde_json::from_str(line).map_err(|e| format!("{e} in {line}"))?;
            let name = value["name"].as_str().ok_or("a line without a name")?;
            let unit = value["unit"].as_str().unwrap_or_default();
            let samples = value["samples"].as_array().ok_or("a line without samples")?;
            self.put(&format!("{prefix}{name}"), unit, samples.iter().filter_map(Value::as_f64).collect());
        }
        Ok(())
    }

    pub(crate) fn put(&mut self, name: &str, unit: &str, samples: Vec<f64>) {
        self.samples.insert(name.to_owned(), (unit.to_owned(), samples));
    }

    pub(crate) fn samples(&self, name: &str) -> Result<&[f64], String> {
        self.samples.get(name).map(|(_, samples)| samples.as_slice()).ok_or_else(|| format!("no samples of {name}"))
    }

    pub(crate) fn median(&self, name: &str) -> Result<f64, String> {
        let mut sorted = self.samples(name)?.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().ok_or_else(|| format!("no samples of {name}"))
    }

    /// Adds a row where lower is better, and `bar` is the upper bound.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, unit: &'static str, bar: f64) {
        self.rows.push((what.to_owned(), value, unit, bar, true));
    }

    /// Adds a row where higher is better, and `bar` is the lower bound.
    pub(crate) fn at_least(&mut self, what: &str, value: f64, unit: &'static str, bar: f64) {
        self.rows.push((what.to_owned(), value, unit, bar, false));
    }

    /// Writes the raw result and returns the table.
    pub(crate) fn keep(&self, name: &str, folder: &Path) -> Result<String, String> {
        let date = output("date", &["-u", "+%Y-%m-%d"]);
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|(what, value, unit, bar, low)| {
                json!({"what": what, "value": value, "unit": unit, "bar": bar, "lower_is_better": low})
            })
            .collect();
        let samples: Value = self
            .samples
            .iter()
            .map(|(name, (unit, samples))| (name.clone(), json!({"unit": unit, "samples": samples})))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let result = json!({
            "question": name, "date": date, "command": self.command, "machine": machine(),
            "rows": rows, "samples": samples,
        });
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let path = folder.join(format!("{date}-{name}.json"));
        let text = serde_json::to_string(&result).map_err(|e| e.to_string())?;
        std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
        let mut table = format!("{name} (raw samples: {})\n", path.display());
        for (what, value, unit, bar, low) in &self.rows {
            let (sign, met) = if *low { ("<=", value <= bar) } else { (">=", value >= bar) };
            let verdict = if met { "met" } else { "MISSED" };
            let _ = writeln!(table, "  {what:<58} {value:>9.3} {unit:<6} bar {sign} {bar:<6} {verdict}");
        }
        Ok(table)
    }
}

/// Returns an error as the benches report it.
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Returns the value below which this share of the values lies.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len().saturating_sub(1) as f64 * share;
    values.get(at as usize).copied().unwrap_or_default()
}

/// Describes the machine of the measurement.
fn machine() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    json!({
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": memory.lines().next().unwrap_or_default(),
        "kernel": output("uname", &["-sr"]),
        "load": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        // On another machine, the copy of the repository may be of another commit than the build.
        "commit": std::env::var("ACCORD_BENCH_COMMIT").unwrap_or_else(|_| output("git", &["rev-parse", "--short", "HEAD"])),
        "gcc": output("gcc", &["-dumpfullversion"]),
    })
}

fn output(program: &str, arguments: &[&str]) -> String {
    Command::new(program)
        .args(arguments)
        .output()
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// Compiles a C program of this folder with the machine's GCC.
pub(crate) fn compile(source: &Path, to: &Path) -> Result<(), String> {
    compile_with("gcc", source, to)
}

/// Compiles a program with code for GPUs, unless it is there and the source is not newer: a machine with a GPU may have
/// no such compiler.
pub(crate) fn compile_with_offload(source: &Path, to: &Path) -> Result<(), String> {
    let time = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    if time(to).is_some_and(|built| time(source).is_none_or(|changed| changed <= built)) {
        return Ok(());
    }
    compile_by("gcc", "-foffload=nvptx-none", source, to)
}

/// Compiles a program of this folder with another compiler.
pub(crate) fn compile_with(compiler: &str, source: &Path, to: &Path) -> Result<(), String> {
    compile_by(compiler, "-foffload=disable", source, to)
}

fn compile_by(compiler: &str, offload: &str, source: &Path, to: &Path) -> Result<(), String> {
    let status = Command::new(compiler)
        .args(["-O2", "-fopenacc", offload, "-o"])
        .args([to, source])
        .args(["-lm"])
        .status()
        .map_err(|e| format!("{compiler}: {e}"))?;
    status.success().then_some(()).ok_or_else(|| format!("{compiler} failed on {}", source.display()))
}

/// Runs a program under `accord` (the release build), and returns its output.
pub(crate) fn accord(arguments: &[&str], env: &[(&str, &str)]) -> Result<String, String> {
    run(to_end_with_this(Command::new("setpriv")).args(arguments).envs(env.iter().copied()))
}

/// Runs it like [`accord`], with every process on the first processor.
pub(crate) fn on_one_core(arguments: &[&str]) -> Result<String, String> {
    let mut taskset = Command::new("taskset");
    taskset.args(["-c", "0", "setpriv"]);
    run(to_end_with_this(taskset).args(arguments))
}

/// Makes `setpriv`, the command so far, start `accord` so that it ends with this process: a killed bench leaves no
/// cluster behind.
fn to_end_with_this(mut setpriv: Command) -> Command {
    setpriv.args(["--pdeathsig", "TERM"]).arg(program());
    setpriv
}

pub(crate) fn program() -> PathBuf {
    crate::root().join("target/release/accord")
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("{command:?}: {e}; run `make build` first"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() { Ok(text) } else { Err(format!("{command:?} ended with {}\n{text}", output.status)) }
}

/// Returns the folder of compiled bench programs.
pub(crate) fn build_folder() -> Result<PathBuf, String> {
    let folder = crate::root().join("target/bench-programs");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}
