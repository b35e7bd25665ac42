//! What compiling takes, and a test program.

use super::item::Item;
use super::tool::{ToolAnswer, answer};
use crate::command::compile::Tool;
use crate::command::cuf;
use crate::launch::own_program;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// GCC's major versions for which Accord is tested.
const GCC: std::ops::RangeInclusive<u32> = 12..=15;
/// GCC's name of its compiler for NVIDIA GPUs.
const OFFLOAD: &str = "accel/nvptx-none/mkoffload";
/// The time limit of each program.
const LIMIT: Duration = Duration::from_secs(60);
/// Returns 0 if the region computed the right values.
const TEST_PROGRAM: &str = r#"
int main(void)
{
    enum { N = 1000 };
    int a[N], sum = 0;
    #pragma acc parallel loop copyout(a) reduction(+:sum)
    for (int i = 0; i < N; i++) {
        a[i] = i;
        sum += i;
    }
    return a[N - 1] != N - 1 || sum != N * (N - 1) / 2;
}
"#;

/// Looks for the compilers; compiles and runs a test program.
pub(super) fn items() -> Vec<Item> {
    let (c, gcc) = compiler(Tool::Cc, "C compiler", "gcc");
    let mut items = vec![c];
    items.push(compiler(Tool::Fc, "Fortran compiler", "gfortran").0);
    if let Some(major) = gcc {
        items.push(offload(major));
    }
    items.push(flang());
    if gcc.is_some() {
        items.push(test_run());
    }
    items
}

/// Returns the finding on one of GCC's compilers, and its major version.
fn compiler(tool: Tool, what: &str, package: &str) -> (Item, Option<u32>) {
    let name = tool.compiler();
    let mut asked = Command::new(&name);
    asked.arg("-dumpfullversion");
    of_compiler(what, &name.to_string_lossy(), package, answer(asked, LIMIT))
}

fn of_compiler(what: &str, name: &str, package: &str, answer: ToolAnswer) -> (Item, Option<u32>) {
    let version = match answer {
        ToolAnswer::Lines(text) => text.lines().next().unwrap_or_default().to_owned(),
        ToolAnswer::Nothing => {
            let how = format!("install {package}; programs that are compiled elsewhere need none");
            return (Item::absent(what, format!("there is no {name}"), how), None);
        }
        ToolAnswer::Refused(_) | ToolAnswer::Late => String::new(),
    };
    let Some(major) = version.split('.').next().and_then(|major| major.parse::<u32>().ok()) else {
        let remedy = format!("install {package}, or name it in the setting that chose {name}");
        return (Item::error(what, format!("{name} does not answer as GCC does"), remedy), None);
    };
    let value = format!("{name} {version}");
    let item = if GCC.contains(&major) {
        Item::ok(what, value)
    } else {
        Item::warning(what, value, format!("use GCC {} to {}: others are not tested", GCC.start(), GCC.end()))
    };
    (item, Some(major))
}

/// Returns the finding on GCC's compiler for GPUs.
fn offload(gcc: u32) -> Item {
    const WHAT: &str = "GCC's code for NVIDIA GPUs";
    let mut asked = Command::new(Tool::Cc.compiler());
    asked.arg(format!("-print-prog-name={OFFLOAD}"));
    match answer(asked, LIMIT) {
        // GCC repeats the name of a program that it does not find.
        ToolAnswer::Lines(text) if Path::new(text.trim()).is_absolute() => Item::ok(WHAT, "its compiler is installed"),
        _ => Item::absent(
            WHAT,
            "its compiler is not installed: programs that are compiled here run on CPU devices",
            format!("install gcc-{gcc}-offload-nvptx"),
        ),
    }
}

/// Returns the finding on the compiler of CUDA Fortran.
fn flang() -> Item {
    const WHAT: &str = "flang for CUDA Fortran";
    match cuf::compiler_folder() {
        Ok(folder) => Item::ok(WHAT, folder.display().to_string()),
        Err(failure) => Item::absent(WHAT, failure.to_string(), "only accord cuf needs it"),
    }
}

/// Compiles a program with `accord cc`, and runs it on a CPU device of this machine.
fn test_run() -> Item {
    const WHAT: &str = "test program";
    const REMEDY: &str = "see docs/use/when-it-fails.md; -v shows the compiler's commands";
    let folder = match tempfile::Builder::new().prefix("accord-doctor-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return Item::unknown(WHAT, format!("no folder for it: {error}"), "free space in /tmp"),
    };
    let (source, program) = (folder.path().join("test.c"), folder.path().join("test"));
    if let Err(error) = std::fs::write(&source, TEST_PROGRAM) {
        return Item::unknown(WHAT, format!("can't write it: {error}"), "free space in /tmp");
    }
    let own = match own_program() {
        Ok(own) => own,
        Err(failure) => return Item::unknown(WHAT, failure.to_string(), "start accord by its path"),
    };
    let mut compile = Command::new(own);
    compile.args(["cc", "-o"]).arg(&program).arg(&source);
    let mut run = Command::new(&program);
    // Neither a cluster nor a wrapper of this process is tested.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ACC")) {
        run.env_remove(name);
    }
    run.env_remove("LD_PRELOAD").envs([("ACC_DEVICE_TYPE", "cpu"), ("ACCORD_CPU_DEVICES", "1")]);
    for (command, step) in [(compile, "compile"), (run, "run on a CPU device")] {
        match answer(command, LIMIT) {
            ToolAnswer::Lines(_) => {}
            ToolAnswer::Refused(text) => {
                return Item::error(WHAT, format!("it does not {step}: {}", error_line(&text)), REMEDY);
            }
            ToolAnswer::Nothing => {
                return Item::error(WHAT, format!("it does not {step}: it can't be started"), REMEDY);
            }
            ToolAnswer::Late => {
                return Item::error(WHAT, format!("it does not {step} within {} s", LIMIT.as_secs()), REMEDY);
            }
        }
    }
    Item::ok(WHAT, "compiles, and runs on a CPU device")
}

/// Returns the first error of a program's output, or its last line.
fn error_line(text: &str) -> &str {
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines().find(|line| line.contains("error")).or_else(|| lines().next_back()).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::super::item::Verdict;
    use super::*;

    #[test]
    fn a_compiler_is_missing_too_new_or_not_gcc() {
        let of = |answer| of_compiler("C compiler", "gcc-13", "gcc", answer);
        let lines = |text: &str| ToolAnswer::Lines(text.to_owned());
        let (found, major) = of(lines("13.2.0\n"));
        assert_eq!((found.value.as_str(), found.verdict, major), ("gcc-13 13.2.0", Verdict::Ok, Some(13)));
        let (old, major) = of(lines("11.4.0\n"));
        assert!(!old.is_error() && old.remedy().is_some() && major == Some(11));
        let (other, major) = of(ToolAnswer::Refused("unknown argument".to_owned()));
        assert!(other.is_error() && major.is_none());
        let (none, major) = of(ToolAnswer::Nothing);
        assert!(matches!(none.verdict, Verdict::Absent(how) if how.contains("install gcc")) && major.is_none());
    }

    #[test]
    fn the_first_error_of_a_compiler_is_shown() {
        assert_eq!(error_line("In file x:\nx.c:3: error: no y\nx.c:4: error: z\n"), "x.c:3: error: no y");
        assert_eq!(error_line("note\nlast\n\n"), "last");
        assert_eq!(error_line(""), "no message");
    }
}
