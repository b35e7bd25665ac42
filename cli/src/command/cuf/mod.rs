//! `accord cuf`: compiles CUDA Fortran by flang, with the kernels for CPU devices in addition to the code for GPUs.

mod gpu;
mod libraries;
mod llvm;
mod mpi;
mod options;

use crate::failure::{Failure, Result};
use crate::launch::{find_include, find_libacc};
use crate::output::report_line;
use accord_cuda_fortran::{CUF_PASSES, Error, GpuCode, host_code, prepared, reductions, remedies};
use llvm::{Failed, Llvm};
use mpi::{Mpi, MpiCompiler};
use options::Options;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The module's source, next to OpenACC's headers.
const MODULE: &str = "cudafor.cuf";
/// The runtime, next to libacc.
const RUNTIME: &str = "libaccord_cuf.a";
/// Loads the runtime's routines of MPI, each of which is in one object with one of these.
const LOAD_MPI_ROUTINES: &str = "-Wl,-u,mpi_isend_,-u,mpi_neighbor_allgather_";

/// Returns the folder of the system's LLVM, which has flang.
///
/// # Errors
/// Returns the missing program and the packages that have it.
pub(crate) fn compiler_folder() -> Result<PathBuf> {
    Ok(Llvm::find(None, false)?.folder().to_owned())
}

/// Compiles and links; returns the exit code.
pub(crate) fn compile(arguments: &[OsString]) -> Result<u8> {
    let options = Options::new(arguments).map_err(Failure::usage)?;
    if !options.ignored.is_empty() {
        report_line(format_args!("note: accord cuf has no use for {}", options.ignored.join(", ")));
    }
    let llvm = Llvm::find(options.llvm.as_deref(), options.is_verbose)?;
    let temporary = tempfile::Builder::new()
        .prefix("accord-cuf-")
        .tempdir()
        .map_err(|error| Failure::system("can't make a folder for what lies between source and object", error))?;
    let folder = options.keep.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure::system(format!("can't make {}", folder.display()), error))?;
    let run = Run { options: &options, llvm, folder, mpi: OnceCell::new() };
    match run.all() {
        Ok(code) => Ok(code),
        Err(Stop::Failure(failure)) => Err(failure),
        Err(Stop::Said(text)) => {
            let _ = writeln!(std::io::stderr(), "{}", text.trim_end());
            Ok(1)
        }
    }
}

/// The reason why compilation ends early.
enum Stop {
    Failure(Failure),
    /// A message about a place in a source.
    Said(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Said(failed.first_error())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Said(error.to_string())
    }
}

struct Run<'a> {
    options: &'a Options,
    llvm: Llvm,
    /// The folder of intermediate files.
    folder: PathBuf,
    /// The MPI, once a source uses it.
    mpi: OnceCell<Mpi>,
}

impl Run<'_> {
    fn all(&self) -> std::result::Result<u8, Stop> {
        self.module(MODULE, &self.folder)?;
        let libraries = self.libraries();
        std::fs::create_dir_all(&libraries)
            .map_err(|error| Failure::system(format!("can't make {}", libraries.display()), error))?;
        let mut objects = Vec::new();
        for (number, source) in self.options.sources.iter().enumerate() {
            check_source(source)?;
            let object = match (self.options.compiles_only, &self.options.output) {
                (true, Some(output)) => output.clone(),
                (true, None) => Path::new(source.file_name().unwrap_or_default()).with_extension("o"),
                (false, _) => self.folder.join(format!("{number}.o")),
            };
            self.object(source, number, &object)?;
            objects.push(object);
        }
        if self.options.compiles_only { Ok(0) } else { self.link(&objects) }
    }

    /// Returns the folder of modules of NVIDIA's libraries, which is searched last.
    fn libraries(&self) -> PathBuf {
        self.folder.join("libraries")
    }

    /// Compiles a module of Accord's own into `folder`.
    fn module(&self, source: &str, folder: &Path) -> std::result::Result<(), Stop> {
        let source = find_include()?.join(source);
        let mut line = words(["-fc1", "-w", "-fsyntax-only", "-x", "cuda"]);
        line.extend(["-I".into(), folder.into(), "-module-dir".into(), folder.into(), source.into()]);
        self.llvm.run("flang", &line)??;
        Ok(())
    }

    /// Returns the path of a source's intermediate file.
    fn file(&self, number: usize, name: &str) -> PathBuf {
        self.folder.join(format!("{number}.{name}"))
    }

    fn object(&self, source: &Path, number: usize, object: &Path) -> std::result::Result<(), Stop> {
        let file = |name: &str| self.file(number, name);
        self.mixed(source, number, "host", &[])?;
        let gpu = match self.gpu_code(source, number) {
            Ok(gpu) => gpu,
            Err(Stop::Said(text)) => {
                report_line(format_args!("note: {} gets no code for GPUs: {}", source.display(), text.trim_end()));
                GpuCode::None(text.trim_end().to_owned())
            }
            Err(failure) => return Err(failure),
        };
        write(&file("host.mlir"), &host_code(&read(&file("host.cuf.mlir"))?, &gpu)?)?;
        self.llvm.run("tco", &[file("host.mlir").into(), "-o".into(), file("host.ll").into()])??;
        let level = self.options.level;
        let passes = OsString::from(format!("-passes=default<O{level}>"));
        self.llvm.run("opt", &[passes, file("host.ll").into(), "-o".into(), file("host.bc").into()])??;
        let words = words([&*format!("-O{level}"), "-relocation-model=pic", "-filetype=obj"]);
        self.llvm.run("llc", &[words, vec![file("host.bc").into(), "-o".into(), object.into()]].concat())??;
        Ok(())
    }

    /// Writes host and device code to one file, after flang's passes.
    fn mixed(&self, source: &Path, number: usize, side: &str, more: &[&str]) -> std::result::Result<(), Stop> {
        let file = |name: &str| self.file(number, &format!("{side}.{name}"));
        let mut line = words(["-fc1", "-x", "cuda", "-D_CUDA=1", "-O1"]);
        line.extend(more.iter().map(OsString::from));
        let is_preprocessed = source
            .extension()
            .and_then(|extension| extension.to_str())
            .is_some_and(|name| name.starts_with(char::is_uppercase));
        if is_preprocessed {
            line.push("-cpp".into());
        }
        let mut rest = self.options.flang.clone();
        let mut include = OsString::from("-I");
        include.push(&self.folder);
        rest.push(include);
        rest.extend(["-module-dir".into(), self.options.modules.clone().unwrap_or_else(|| ".".into()).into()]);
        rest.extend(["-I".into(), self.libraries().into()]);
        rest.extend(words(["-mmlir", "--mlir-print-op-generic", "-mmlir", "--mlir-print-debuginfo", "-emit-fir"]));
        rest.extend(["-o".into(), file("fir").into()]);
        // The options of MPI are the first: `mpifort -show` names the folder of gfortran's modules.
        let flang = |compiled: &[OsString]| {
            let mpi = self.mpi.get().map(Mpi::options).unwrap_or_default();
            self.llvm.run("flang", &[&line, &*mpi, &rest, compiled].concat())
        };
        let mut compiled = vec![source.into()];
        let mut with_reductions = None;
        let mut result = flang(&compiled)?;
        while let Err(Failed(text)) = &result {
            if !self.supply(text)? {
                // Errors of a source with the module of reductions may be about its changes.
                let text = match with_reductions {
                    None => text,
                    Some(ref first) => first,
                };
                let changed =
                    if with_reductions.is_none() { self.with_reductions(source, number, text)? } else { None };
                let Some(changed) = changed else { return Err(Stop::Said(explained(text))) };
                with_reductions = Some(text.clone());
                compiled = changed;
            }
            result = flang(&compiled)?;
        }
        write(&file("prepared.mlir"), &prepared(&read(&file("fir"))?)?)?;
        let passes = OsString::from(format!("--pass-pipeline={CUF_PASSES}"));
        let line =
            [words(["--mlir-print-op-generic", "--mlir-print-debuginfo"]), vec![passes, file("prepared.mlir").into()]]
                .concat();
        self.llvm.run("fir-opt", &[line, vec!["-o".into(), file("cuf.mlir").into()]].concat())??;
        Ok(())
    }

    /// Writes a copy of a source in which procedures with reductions of device arrays use the module for these. Returns flang's options for it; `None` if
    /// the errors are not about such reductions.
    fn with_reductions(&self, source: &Path, number: usize, errors: &str) -> Result<Option<Vec<OsString>>> {
        let name = source.to_string_lossy();
        let lines = reductions::lines(errors, &name);
        let Some(text) = std::fs::read_to_string(source).ok().filter(|_| !lines.is_empty()) else { return Ok(None) };
        let extension = source.extension().unwrap_or_default().to_string_lossy();
        let copy = self.file(number, &format!("reductions.{extension}"));
        let is_fixed = self.options.flang.iter().any(|option| option == "-ffixed-form");
        write(&copy, &reductions::with_module(&text, &name, &lines, is_fixed))?;
        // Files that the source includes.
        let folder = source.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Some(vec!["-I".into(), folder.into(), copy.into()]))
    }

    /// Supplies modules that flang's errors name. Returns `false` if there is none left to supply.
    fn supply(&self, errors: &str) -> std::result::Result<bool, Stop> {
        if self.mpi.get().is_none() && mpi::is_missing(errors) {
            let mpi = Mpi::new(&MpiCompiler::find(self.options.mpi.as_deref())?, &self.llvm)?;
            self.mpi.get_or_init(|| mpi);
            return Ok(true);
        }
        let is_there = |source: &&str| self.libraries().join(source).with_extension("mod").is_file();
        let sources: Vec<_> = libraries::sources(errors).into_iter().filter(|source| !is_there(source)).collect();
        for source in &sources {
            self.module(source, &self.libraries())?;
        }
        Ok(!sources.is_empty())
    }

    /// Links; returns the linker's exit code.
    fn link(&self, objects: &[PathBuf]) -> std::result::Result<u8, Stop> {
        let libacc = find_libacc()?;
        let folder = libacc.parent().unwrap_or(Path::new("."));
        let runtime = folder.join(RUNTIME);
        if !runtime.is_file() {
            return Err(
                Failure::new(format!("no {RUNTIME} in {}; build and install Accord (make)", folder.display())).into()
            );
        }
        let mut command = Command::new("gcc");
        // Objects with OpenACC need the option at linking, too.
        command.arg("-fopenacc");
        let texts = self.options.link.iter().filter_map(|input| input.to_str());
        let folders: Vec<&Path> = texts.filter_map(|text| text.strip_prefix("-L")).map(Path::new).collect();
        let is_linked = |input: &&OsString| {
            input
                .to_str()
                .and_then(|text| text.strip_prefix("-l"))
                .is_none_or(|name| libraries::is_linked(name, &folders))
        };
        let (given, libraries): (Vec<_>, Vec<_>) = self
            .options
            .link
            .iter()
            .filter(is_linked)
            .partition(|input| Path::new(input).extension().is_some_and(|name| name == "o"));
        let mut inputs = self.options.link.iter().map(Path::new).filter(|path| path.is_file());
        let uses_mpi = self.mpi.get().is_some() || inputs.any(mpi::is_called_by);
        command.args(objects).args(&given);
        // The runtime is first searched before the libraries, because it precedes MPI's routines with its own. Perhaps only a library calls them.
        if uses_mpi {
            command.arg(LOAD_MPI_ROUTINES);
        }
        command.arg(&runtime).args(&libraries);
        if uses_mpi {
            command.args(MpiCompiler::find(self.options.mpi.as_deref())?.link());
        }
        command.arg(&runtime).arg(self.llvm.runtime()?);
        command.args(super::compile::link_flags(&libacc)).args(["-lm", "-lstdc++", "-o"]);
        command.arg(self.options.output.as_deref().unwrap_or(Path::new("a.out")));
        let status = command.status().map_err(|error| Failure::start("gcc", &error))?;
        Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<OsString> {
    words.into_iter().map(OsString::from).collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Failure::system(format!("can't read {}", path.display()), error))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Failure::system(format!("can't write {}", path.display()), error))
}

/// Returns flang's errors, explained or with a remedy where there is one.
fn explained(errors: &str) -> String {
    let remedy = if reductions::is_refused(errors) { Some(reductions::REMEDY) } else { remedies::of_errors(errors) };
    mpi::refusal(errors).or_else(|| libraries::refusal(errors)).unwrap_or_else(|| match remedy {
        Some(remedy) => format!("{}\nnote: {remedy}", errors.trim_end()),
        None => errors.to_owned(),
    })
}

/// Refuses directives that flang would silently ignore.
fn check_source(source: &Path) -> std::result::Result<(), Stop> {
    let text =
        std::fs::read(source).map_err(|error| Failure::system(format!("can't read {}", source.display()), error))?;
    let text = String::from_utf8_lossy(&text);
    match unread(&text) {
        Some((line, what)) => Err(Stop::Said(format!("{}:{line}:1: error: {what}", source.display()))),
        None => Ok(()),
    }
}

/// Returns the first line with a directive that flang treats as a comment.
fn unread(text: &str) -> Option<(usize, &'static str)> {
    text.lines().enumerate().find_map(|(at, line)| {
        let line = line.trim_start().to_ascii_lowercase();
        let what = if line.starts_with("!$acc") {
            "OpenACC in a CUDA Fortran source; put it in a source of its own, which accord fc compiles, and link both"
        } else if line.starts_with("!$omp") {
            "OpenMP in a CUDA Fortran source; put it in a source of its own, which gfortran compiles, and link both"
        } else if line.starts_with("!@cuf") {
            "a line for CUDA Fortran only; use #ifdef _CUDA and -cpp"
        } else {
            return None;
        };
        Some((at + 1, what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_that_flang_drops_are_found() {
        assert_eq!(unread("program p\n  !$ACC parallel loop\n").map(|(line, _)| line), Some(2));
        assert_eq!(unread("!@cuf use cudafor\n").map(|(line, _)| line), Some(1));
        assert_eq!(unread("!$cuf kernel do\nprint *, '!$acc'\n"), None);
    }
}
