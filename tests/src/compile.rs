//! Compiles each source once: the file's name is a hash of everything that affects the result.

use crate::program::support;
use crate::workspace::{root, scratch};
use crate::{Language, Program, Result, libacc};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Accord's headers that programs include.
const HEADERS: [&str; 3] = ["openacc.h", "acc_prof.h", "openacc_lib.h"];

/// The compiler of MPI.
const MPICC: &str = "mpicc";
/// Most compilers at one time, over all test processes.
const JOBS: u32 = 2;

/// The optimization level.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Optimize {
    /// `-O0`
    No,
    /// `-O2`
    Yes,
}

/// A way to build a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    /// Optimization.
    pub optimize: Optimize,
    /// Whether there is code for nvptx.
    pub offload: bool,
    /// Whether the program is linked with libacc instead of having it preloaded.
    pub linked: bool,
}

impl Variant {
    /// The variant that most tests use.
    pub const PLAIN: Self = Self { optimize: Optimize::Yes, offload: false, linked: false };

    /// Returns all eight variants.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..8u8).map(|bits| Self {
            optimize: if bits & 1 == 0 { Optimize::No } else { Optimize::Yes },
            offload: bits & 2 != 0,
            linked: bits & 4 != 0,
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optimize = match self.optimize {
            Optimize::No => "O0",
            Optimize::Yes => "O2",
        };
        let offload = if self.offload { "nvptx" } else { "host" };
        let linked = if self.linked { "linked" } else { "preload" };
        write!(f, "{optimize}-{offload}-{linked}")
    }
}

/// The output of [`compile`].
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program; for Python the script.
    pub program: PathBuf,
    /// Its shared object.
    pub plugin: Option<PathBuf>,
}

/// Compiles a program, unless the result exists.
///
/// # Errors
/// Returns the compiler's message.
pub fn compile(program: &Program, variant: Variant) -> Result<Compiled> {
    let plugin = match &program.plugin {
        Some(source) => {
            let mut job = CompilerJob::new("gcc", variant);
            job.flags.extend(["-shared".into(), "-fPIC".into()]);
            job.sources.push(source.clone());
            Some(job.output(source, "so")?)
        }
        None => None,
    };
    let (compiler, extra_source) = match program.language {
        Language::Python => return Ok(Compiled { program: program.path.clone(), plugin }),
        Language::C => ("gcc", None),
        Language::Cxx => ("g++", None),
        Language::Fortran => ("gfortran", Some(support("check.f90"))),
    };
    let mut job = CompilerJob::new(compiler, variant);
    job.flags.extend(program.flags.iter().cloned());
    if program.headers {
        let folder = root().join("libacc/include");
        job.flags.push(format!("-I{}", folder.display()));
        job.headers = HEADERS.map(|name| folder.join(name)).into();
        if program.language == Language::Fortran {
            job.sources.push(folder.join("openacc.f90"));
        }
    }
    job.sources.extend(extra_source);
    job.sources.push(program.path.clone());
    job.sources.extend(program.with.iter().cloned());
    Ok(Compiled { program: job.output(&program.path, "exe")?, plugin })
}

/// Compiles an MPI program in C with `mpicc`.
///
/// # Errors
/// Returns the compiler's message.
pub fn compile_mpi(source: &Path, variant: Variant) -> Result<PathBuf> {
    let mut job = CompilerJob::new(MPICC, variant);
    job.sources.push(source.to_owned());
    job.output(source, "exe")
}

/// Compiles one source with GCC as a user would, with additional `flags`.
///
/// # Errors
/// Returns the compiler's message.
pub(crate) fn compile_source(source: &Path, flags: &[&str], variant: Variant) -> Result<PathBuf> {
    let fortran = source.extension().is_some_and(|extension| extension == "f90");
    let mut job = CompilerJob::new(if fortran { "gfortran" } else { "gcc" }, variant);
    job.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
    job.sources.push(source.to_owned());
    job.output(source, "exe")
}

/// Compiles `tests/programs/support/NAME.c` into a shared object of that name in a folder.
///
/// # Errors
/// Returns the compiler's message.
pub fn compile_support(name: &str, folder: &Path) -> Result<PathBuf> {
    let object = folder.join(format!("{name}.so"));
    let source = crate::program::folder().join(format!("support/{name}.c"));
    let mut compiler = Command::new(gcc("gcc"));
    let made = compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&object).arg(source).output();
    let made = made.map_err(|error| format!("gcc: {error}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned());
    }
    Ok(object)
}

/// Returns the name of the compiler `name` in the version under test: `ACCORD_TEST_GCC=14` makes `gcc` mean `gcc-14`.
/// MPI's compiler, which has its own, stays.
pub fn gcc(name: &str) -> String {
    match std::env::var("ACCORD_TEST_GCC") {
        Ok(version) if !version.is_empty() && name != MPICC => format!("{name}-{version}"),
        _ => name.to_owned(),
    }
}

/// Returns the major version of the GCC under test; 0 if there is none.
pub(crate) fn gcc_version() -> u32 {
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = Command::new(gcc("gcc")).arg("-dumpversion").output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.trim().split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
    })
}

struct CompilerJob {
    compiler: &'static str,
    variant: Variant,
    flags: Vec<String>,
    sources: Vec<PathBuf>,
    /// Headers of the sources besides `check.h`.
    headers: Vec<PathBuf>,
}

impl CompilerJob {
    fn new(compiler: &'static str, variant: Variant) -> Self {
        let optimize = match variant.optimize {
            Optimize::No => "-O0",
            Optimize::Yes => "-O2",
        };
        let mut flags = vec![optimize.to_owned(), "-g".to_owned(), "-fopenacc".to_owned()];
        if variant.offload {
            flags.extend(["-foffload=nvptx-none".to_owned(), "-foffload-options=-lm".to_owned()]);
            if compiler == "gfortran" {
                flags.push("-foffload-options=-lgfortran".to_owned());
            }
        } else {
            flags.push("-foffload=disable".to_owned());
        }
        flags.push(format!("-I{}", support("").display()));
        Self { compiler, variant, flags, sources: Vec::new(), headers: Vec::new() }
    }

    /// Returns the compiled file, named after `source`.
    fn output(&self, source: &Path, extension: &str) -> Result<PathBuf> {
        let folder = scratch();
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let stem = source.file_stem().unwrap_or_default().to_string_lossy();
        let output = folder.join(format!("{stem}-{}-{}.{extension}", self.variant, self.key()?));
        if output.exists() {
            return Ok(output);
        }
        let _mine = lock(&output.with_extension("lock"))?;
        if output.exists() {
            return Ok(output); // another process made it meanwhile
        }
        let _slot = compiler_slot(&folder)?;
        self.run(&output)?;
        Ok(output)
    }

    /// Returns the hash of the compiler's version, the flags and all input files.
    fn key(&self) -> Result<String> {
        let compiler = gcc(self.compiler);
        let version = Command::new(&compiler)
            .arg("--version")
            .output()
            .map_err(|error| format!("cannot start {compiler}: {error}"))?;
        let mut hash = Sha256::new();
        hash.update(&version.stdout);
        if self.compiler == MPICC {
            // The wrappers of two MPIs may call the same compiler.
            let show = Command::new(&compiler).arg("-show").output();
            hash.update(show.map_err(|error| format!("cannot start {compiler}: {error}"))?.stdout);
        }
        for flag in &self.flags {
            hash.update(flag.as_bytes());
            hash.update([0]);
        }
        for path in
            self.sources.iter().chain(&self.headers).cloned().chain([support("check.h"), support("every_routine.h")])
        {
            hash.update(std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?);
            hash.update([0]);
        }
        Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    fn run(&self, output: &Path) -> Result<()> {
        let work = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
        let made = work.path().join("made");
        let compiler = gcc(self.compiler);
        let mut command = Command::new(&compiler);
        command.current_dir(work.path()).args(&self.flags).args(&self.sources).arg("-o").arg(&made);
        if self.variant.linked {
            let library = libacc()?;
            let folder = library.parent().unwrap_or(Path::new("."));
            command.arg("-L").arg(folder).args(["-Wl,--no-as-needed", "-lacc"]);
        }
        command.args(["-lm", "-ldl"]);
        let result = command.output().map_err(|error| format!("cannot start {compiler}: {error}"))?;
        if !result.status.success() {
            return Err(format!("{command:?}: {}\n{}", result.status, String::from_utf8_lossy(&result.stderr)));
        }
        std::fs::rename(&made, output).map_err(|error| format!("{}: {error}", output.display()))
    }
}

fn lock(path: &Path) -> Result<Flock<File>> {
    let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| format!("{}: {error}", path.display()))
}

/// Takes one of the [`JOBS`] places; if all are taken, waits for one chosen by the process number.
fn compiler_slot(folder: &Path) -> Result<Flock<File>> {
    let path = |slot: u32| folder.join(format!("compiler-{slot}.lock"));
    for slot in 0..JOBS {
        let file = File::create(path(slot)).map_err(|error| error.to_string())?;
        if let Ok(taken) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            return Ok(taken);
        }
    }
    lock(&path(std::process::id() % JOBS))
}
