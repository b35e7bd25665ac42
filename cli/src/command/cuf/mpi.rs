//! The program's MPI: flags of its wrapper, and a module `mpi` with an `mpif.h` that flang compiles.
//!
//! MPIs come with modules of gfortran. flang's module is made on first use from the constants in the MPI's own `mpif.h`, and calls the same library.

use super::llvm::Llvm;
use crate::command::module_cache::{self, Fnv};
use crate::failure::{Failure, Result};
use accord_cuda_fortran::{LLVM, mpi};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

const HEADER: &str = "mpif.h";
/// The files with the prototypes of C: both, or the first.
const PROTOTYPES: [&str; 2] = ["mpi.h", "mpi_proto.h"];
const SOURCE: &str = "mpi.f90";
const MODULE: &str = "mpi.mod";
/// Parts of a name that only programs with MPI refer to: in Fortran, in C.
const INITIALIZERS: [&[u8]; 2] = [b"mpi_init", b"MPI_Init"];

/// The compiler wrapper of an MPI.
pub(super) struct MpiCompiler {
    name: PathBuf,
    flags: Vec<OsString>,
}

impl MpiCompiler {
    /// Returns the flags of `name`, or of `mpifort` in `PATH`.
    pub(super) fn find(name: Option<&Path>) -> Result<Self> {
        let name = name.unwrap_or(Path::new("mpifort")).to_owned();
        let remedy =
            "install an MPI with its Fortran wrapper (libopenmpi-dev or libmpich-dev), or name one with --mpi=MPIFORT";
        let output = Command::new(&name)
            .arg("-show")
            .output()
            .map_err(|error| Failure::new(format!("can't start {}: {error}; {remedy}", name.display())))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            return Err(Failure::new(format!("{} -show failed; {remedy}", name.display())));
        }
        // The first word is the compiler.
        Ok(Self { name, flags: words(text.split_whitespace().skip(1)) })
    }

    /// Returns the linker's arguments.
    ///
    /// The runtime finds MPI's routines at run time by their names, so the program needs MPI's libraries even if no object refers to them. Libraries of
    /// gfortran's modules, as `mpi_f08`, are left out.
    pub(super) fn link(&self) -> Vec<OsString> {
        let mut arguments = words(["-Wl,--push-state,--no-as-needed"]);
        for flag in &self.flags {
            let text = flag.to_string_lossy();
            if text.starts_with("-l") && text.contains("usempi") {
                arguments.extend(words(["-Wl,--as-needed", &text, "-Wl,--no-as-needed"]));
            } else if ["-L", "-l", "-Wl,", "-pthread"].iter().any(|start| text.starts_with(start)) {
                arguments.push(flag.clone());
            }
        }
        arguments.push("-Wl,--pop-state".into());
        arguments
    }

    fn read(&self, name: &str) -> Option<String> {
        let folders = self.flags.iter().filter_map(|flag| flag.to_str()?.strip_prefix("-I"));
        folders.chain(["/usr/include"]).find_map(|folder| std::fs::read_to_string(Path::new(folder).join(name)).ok())
    }

    /// Returns a folder with [`MODULE`] and [`HEADER`], which are made if no earlier run has kept them.
    pub(super) fn module(&self, llvm: &Llvm) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
        let missing = |name: &str| {
            let name_ = self.name.display();
            Failure::new(format!(
                "{name_} -show names no folder with {name}; install the MPI's headers, or name another MPI with --mpi=MPIFORT"
            ))
        };
        let header = mpi::header(HEADER, &|name| self.read(name)).map_err(|name| missing(&name))?;
        let prototypes: String = PROTOTYPES.iter().filter_map(|name| self.read(name)).collect();
        if prototypes.is_empty() {
            return Err(missing(PROTOTYPES[0]));
        }
        let module = mpi::module(&header, &prototypes);
        let mut key = Fnv::new();
        key.take(&LLVM.to_le_bytes());
        key.take(header.as_bytes());
        key.take(module.as_bytes());
        let compile = |to: &Path| -> Result<()> {
            write(to.join(HEADER), &header)?;
            let source = to.join(SOURCE);
            write(source.clone(), &module)?;
            let mut line = words(["-fc1", "-w", "-fsyntax-only"]);
            for option in ["-I", "-module-dir"] {
                line.extend([option.into(), to.into()]);
            }
            line.push(source.into());
            llvm.run("flang", &line)?.map_err(|failed| {
                let error = failed.first_error();
                Failure::new(format!(
                    "flang can't compile the module mpi from the headers of {}: {error}",
                    self.name.display()
                ))
            })
        };
        module_cache::folder(&format!("mpi-{}", key.text()), MODULE, compile)
    }
}

/// The MPI of a source that uses it.
pub(super) struct Mpi {
    folder: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

impl Mpi {
    pub(super) fn new(wrapper: &MpiCompiler, llvm: &Llvm) -> Result<Self> {
        let (folder, temporary) = wrapper.module(llvm)?;
        Ok(Self { folder, _temporary: temporary })
    }

    /// Returns flang's options. Routines without an interface take buffers of every type, of the host and of devices, as `mpif.h` has it.
    pub(super) fn options(&self) -> Vec<OsString> {
        let mut options = words(["-Wno-cuda-usage", "-Wno-incompatible-implicit-interfaces", "-I"]);
        options.push(self.folder.clone().into());
        options
    }
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<OsString> {
    words.into_iter().map(OsString::from).collect()
}

fn write(path: PathBuf, text: &str) -> Result<()> {
    std::fs::write(&path, text).map_err(|error| Failure::system(format!("can't write {}", path.display()), error))
}

/// Whether flang's errors are those of a source that uses MPI's module or header.
pub(super) fn is_missing(errors: &str) -> bool {
    ["for module 'mpi':", "mpif.h", "mpif-"].iter().any(|part| errors.contains(part))
}

/// Whether an object or archive calls MPI.
pub(super) fn is_called_by(object: &Path) -> bool {
    let Ok(bytes) = std::fs::read(object) else { return false };
    INITIALIZERS.iter().any(|name| memchr::memmem::find(&bytes, name).is_some())
}

/// Explains flang's errors about a module of another compiler; `None` if there are none.
pub(super) fn refusal(errors: &str) -> Option<String> {
    errors.lines().find_map(|line| {
        let (place, rest) = line.split_once("error: Cannot parse module file for module '")?;
        let (module, why) = rest.split_once("': ")?;
        let remedy = match module {
            "mpi_f08" | "mpi_f08_types" => {
                "the module mpi_f08 exists only for the compiler that built the MPI; write use mpi, which calls the same library".to_owned()
            }
            _ if why.ends_with("was not found") => return None,
            _ => format!(
                "{module}.mod is another compiler's, as gfortran's; compile its source with accord cuf, or call its procedures through interfaces with bind(c)"
            ),
        };
        Some(format!("{place}error: {remedy}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_libraries_of_modules_are_left_out_of_programs_that_do_not_refer_to_them() {
        let flags = "-O2 -I/m -L/m -lmpi_usempif08 -lmpi_usempi_ignore_tkr -lmpi_mpifh -lmpi";
        let wrapper = MpiCompiler { name: "mpifort".into(), flags: words(flags.split_whitespace()) };
        let printed = "-Wl,--push-state,--no-as-needed -L/m \
                       -Wl,--as-needed -lmpi_usempif08 -Wl,--no-as-needed \
                       -Wl,--as-needed -lmpi_usempi_ignore_tkr -Wl,--no-as-needed \
                       -lmpi_mpifh -lmpi -Wl,--pop-state";
        assert_eq!(wrapper.link(), words(printed.split_whitespace()));
    }

    #[test]
    fn modules_of_other_compilers_are_refused_by_name() {
        let line = |module: &str, why: &str| {
            format!(
                "error: Semantic errors in u.cuf\n./u.cuf:2:7: error: Cannot parse module file for module '{module}': {why}\n"
            )
        };
        let absent = "Source file 'x.mod' was not found";
        assert_eq!(refusal(&line("x", absent)), None);
        let found = refusal(&line("x", "bad character (0x1f) in Fortran token")).unwrap();
        assert!(found.starts_with("./u.cuf:2:7: error: x.mod is another compiler's"), "{found}");
        assert!(refusal(&line("mpi_f08", absent)).unwrap().contains("write use mpi"));
        assert!(is_missing(&line("mpi", absent)) && !is_missing(&line("mpi_f08", absent)));
        assert!(is_missing("./u.cuf:4:1: error: INCLUDE: Source file 'mpif.h' was not found"));
    }
}
