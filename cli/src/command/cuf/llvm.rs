//! LLVM's programs: their paths and messages.

use crate::failure::{Failure, Result};
use crate::output::report_line;
use accord_cuda_fortran::LLVM;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The start of flang's line before the errors.
const SUMMARY: &str = "error: Semantic errors in ";

/// An installation of LLVM with flang.
pub(super) struct Llvm {
    folder: PathBuf,
    is_verbose: bool,
}

/// The message of a failed program of LLVM.
pub(super) struct Failed(pub(super) String);

impl Llvm {
    /// Returns the installation in `folder`, or the system's.
    pub(super) fn find(folder: Option<&Path>, is_verbose: bool) -> Result<Self> {
        let folder = folder.map_or_else(|| PathBuf::from(format!("/usr/lib/llvm-{LLVM}")), Path::to_owned);
        let remedy =
            format!("install flang-{LLVM} and llvm-{LLVM}, or name the folder of LLVM {LLVM} with --llvm=FOLDER");
        for name in ["flang", "fir-opt", "tco", "opt", "llc"] {
            if !folder.join("bin").join(name).is_file() {
                return Err(Failure::new(format!("no bin/{name} in {}; {remedy}", folder.display())));
            }
        }
        let found = Self { folder, is_verbose };
        let version =
            found.command("flang").arg("--version").output().map_err(|error| Failure::start("flang", &error))?;
        let text = String::from_utf8_lossy(&version.stdout).into_owned();
        if !text.contains(&format!("version {LLVM}.")) {
            let first = text.lines().next().unwrap_or("no version").to_owned();
            return Err(Failure::new(format!("{} has {first}, not LLVM {LLVM}; {remedy}", found.folder.display())));
        }
        Ok(found)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, name: &str) -> Command {
        Command::new(self.folder.join("bin").join(name))
    }

    /// Runs a program, and passes its warnings on.
    pub(super) fn run(&self, name: &str, arguments: &[OsString]) -> Result<std::result::Result<(), Failed>> {
        if self.is_verbose {
            let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
            report_line(format_args!("{}/bin/{name} {}", self.folder.display(), words.join(" ")));
        }
        let output = self.command(name).args(arguments).output().map_err(|error| Failure::start(name, &error))?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Ok(Err(Failed(text)));
        }
        if name == "flang" {
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        Ok(Ok(()))
    }

    /// Returns the path of flang's runtime library.
    pub(super) fn runtime(&self) -> Result<PathBuf> {
        let folder = self.folder.join(format!("lib/clang/{LLVM}/lib"));
        let places = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        places.map(|place| place.path().join("libflang_rt.runtime.a")).find(|path| path.is_file()).ok_or_else(|| {
            Failure::new(format!("no libflang_rt.runtime.a below {}; install libflang-{LLVM}-dev", folder.display()))
        })
    }
}

impl Failed {
    /// Returns the first error in flang's form; LLVM's other programs write `loc("FILE":LINE:COLUMN): error: TEXT`.
    pub(super) fn first_error(&self) -> String {
        let line = self
            .0
            .lines()
            .find(|line| line.contains("error:") && !line.starts_with(SUMMARY))
            .or_else(|| self.0.lines().next())
            .unwrap_or("no message");
        let Some((place, text)) = line.strip_prefix("loc(\"").and_then(|rest| rest.split_once("): ")) else {
            return line.to_owned();
        };
        format!("{}: {text}", place.replacen('"', "", 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_form_of_flangs() {
        let printed = "warning: x\nloc(\"/a/b.cuf\":3:7): error: Target.cpp:1494: not yet implemented: complex\nLLVM ERROR: aborting\n";
        assert_eq!(
            Failed(printed.to_owned()).first_error(),
            "/a/b.cuf:3:7: error: Target.cpp:1494: not yet implemented: complex"
        );
        let summary = "error: Semantic errors in a.cuf\n";
        assert_eq!(Failed(format!("{summary}a.cuf:1:2: error: b\n")).first_error(), "a.cuf:1:2: error: b");
    }
}
