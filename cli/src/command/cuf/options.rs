//! The command line of `accord cuf`: its own options, flang's, and equivalents of NVHPC's.

use super::libraries;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The sources and options of compiling and linking.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Options {
    /// CUDA Fortran sources, in the order of the command line.
    pub(super) sources: Vec<PathBuf>,
    /// Arguments of the linker besides the sources' objects.
    pub(super) link: Vec<OsString>,
    /// Whether the command only compiles (`-c`).
    pub(super) compiles_only: bool,
    pub(super) output: Option<PathBuf>,
    /// The optimization level, 0 to 3.
    pub(super) level: u8,
    /// Options of flang's front end.
    pub(super) flang: Vec<OsString>,
    /// The folder for compiled modules (`-J`).
    pub(super) modules: Option<PathBuf>,
    /// The architecture of the code for GPUs.
    pub(super) architecture: u32,
    pub(super) llvm: Option<PathBuf>,
    /// The folder of a CUDA toolkit.
    pub(super) cuda: Option<PathBuf>,
    /// The Fortran compiler wrapper of the program's MPI.
    pub(super) mpi: Option<PathBuf>,
    pub(super) keep: Option<PathBuf>,
    pub(super) is_verbose: bool,
    /// Options without effect here.
    pub(super) ignored: Vec<String>,
}

/// Options of NVHPC without effect here.
const IGNORED: &[&str] =
    &["-cuda", "-Mcuda", "-fast", "-fastsse", "-g", "-Mfree", "-Kieee", "-Mvect", "-Mnovect", "-w", "-gpu"];

/// Refused options, with their remedies.
const REFUSED: &[(&str, &str)] = &[
    ("-acc", "put OpenACC in a source of its own, which accord fc compiles, and link both"),
    ("-fopenacc", "put OpenACC in a source of its own, which accord fc compiles, and link both"),
    ("-mp", "put OpenMP in a source of its own, which gfortran compiles, and link both"),
    ("-fopenmp", "put OpenMP in a source of its own, which gfortran compiles, and link both"),
    ("-static", "libacc is a shared library: leave it out"),
    ("-shared", "link the objects into a program"),
    ("-S", "--keep=FOLDER leaves what lies between source and object"),
    ("-E", "run flang-22 -E"),
];

impl Options {
    /// Parses the arguments.
    ///
    /// # Errors
    /// Returns the fault of an argument, and what to write instead.
    pub(super) fn new(arguments: &[OsString]) -> Result<Self, String> {
        let mut options = Self { level: 2, architecture: 70, ..Self::default() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            let mut value = |joined: &str| {
                let value = if joined.is_empty() { rest.next().cloned() } else { Some(joined.into()) };
                value.ok_or_else(|| format!("{text} has no value: write it behind"))
            };
            match &*text {
                "-c" => options.compiles_only = true,
                "-v" | "--verbose" => options.is_verbose = true,
                "-o" => options.output = Some(value("")?.into()),
                "-cpp" | "-Mpreprocess" => options.flang.push("-cpp".into()),
                "-r8" => options.flang.push("-fdefault-real-8".into()),
                "-i8" => options.flang.push("-fdefault-integer-8".into()),
                "-Mfixed" | "-ffixed-form" => options.flang.push("-ffixed-form".into()),
                "-O" => options.level = 2,
                "-O0" | "-O1" | "-O2" | "-O3" => options.level = text.as_bytes()[2] - b'0',
                "-O4" | "-Ofast" => options.level = 3,
                "-module" => options.modules = Some(value("")?.into()),
                "-pthread" | "-rdynamic" => options.link.push(argument.clone()),
                _ if !text.starts_with('-') => options.input(Path::new(argument)),
                _ => {
                    if let Some(folder) = text.strip_prefix("--llvm=") {
                        options.llvm = Some(folder.into());
                    } else if let Some(folder) = text.strip_prefix("--cuda=") {
                        options.cuda = Some(folder.into());
                    } else if let Some(wrapper) = text.strip_prefix("--mpi=") {
                        options.mpi = Some(wrapper.into());
                    } else if let Some(folder) = text.strip_prefix("--keep=") {
                        options.keep = Some(folder.into());
                    } else if let Some(list) = text.strip_prefix("-gpu=") {
                        options.gpu(list)?;
                    } else if let Some(list) = text.strip_prefix("-cudalib=") {
                        libraries::check(list)?;
                    } else if let Some(folder) = text.strip_prefix("-J") {
                        options.modules = Some(value(folder)?.into());
                    } else if let Some(what) = ["-I", "-D", "-U"].into_iter().find(|what| text.starts_with(what)) {
                        let mut one = OsString::from(what);
                        one.push(value(&text[2..])?);
                        options.flang.push(one);
                    } else if let Some(what) = ["-L", "-l"].into_iter().find(|what| text.starts_with(what)) {
                        let mut one = OsString::from(what);
                        one.push(value(&text[2..])?);
                        options.link.push(one);
                    } else if text.starts_with("-Wl,") {
                        options.link.push(argument.clone());
                    } else {
                        options.other(&text)?;
                    }
                }
            }
        }
        options.check()?;
        Ok(options)
    }

    fn input(&mut self, path: &Path) {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if ["cuf", "CUF", "f90", "F90", "f95", "F95", "f03", "F03", "f08", "F08"].contains(&extension) {
            self.sources.push(path.to_owned());
        } else {
            self.link.push(path.into());
        }
    }

    /// Parses NVHPC's `-gpu=LIST`.
    fn gpu(&mut self, list: &str) -> Result<(), String> {
        for word in list.split(',') {
            if let Some(Ok(number)) = word.strip_prefix("cc").map(str::parse) {
                self.architecture = number;
            } else if word.contains("managed") || word.contains("unified") {
                return Err(format!(
                    "-gpu={word} is not supported: give arrays that kernels use attribute device or managed"
                ));
            } else {
                self.ignored.push(format!("-gpu={word}"));
            }
        }
        Ok(())
    }

    fn other(&mut self, text: &str) -> Result<(), String> {
        let named =
            |name: &str| text == name || text.strip_prefix(name).is_some_and(|rest| rest.starts_with(['=', ',']));
        if let Some((name, remedy)) = REFUSED.iter().find(|(name, _)| named(name)) {
            return Err(format!("{name} is not supported: {remedy}"));
        }
        if IGNORED.iter().any(|name| named(name))
            || text.starts_with("-Minfo")
            || text.starts_with("-W")
            || text.starts_with("-fPI")
            || text.starts_with("-fpi")
        {
            self.ignored.push(text.to_owned());
            return Ok(());
        }
        Err(format!("{text} is not an option of accord cuf: leave it out, or see accord help cuf"))
    }

    fn check(&self) -> Result<(), String> {
        match (self.compiles_only, self.sources.len(), &self.output) {
            (true, 0, _) => Err("-c without a source: name one, as x.cuf".to_owned()),
            (true, 2.., Some(_)) => Err("-o with -c and several sources: compile them one by one".to_owned()),
            (_, 0, _) if self.link.is_empty() => Err("no source: name one, as x.cuf".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Options, String> {
        Options::new(&text.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn nvhpcs_options_are_taken_ignored_or_refused_by_name() {
        let options = read(
            "-fast -Minfo=all -gpu=cc80,lineinfo -cudalib=cublas,cufft -r8 a.cuf b.o -lm -Jmods --cuda=/opt/cuda --mpi=mpifort.mpich -o app",
        )
        .unwrap();
        assert_eq!(options.sources, [PathBuf::from("a.cuf")]);
        assert_eq!(options.link, ["b.o", "-lm"].map(OsString::from));
        assert_eq!(options.flang, ["-fdefault-real-8"].map(OsString::from));
        assert_eq!((options.architecture, options.modules), (80, Some("mods".into())));
        assert_eq!((options.cuda, options.mpi), (Some("/opt/cuda".into()), Some("mpifort.mpich".into())));
        assert_eq!(options.ignored, ["-fast", "-Minfo=all", "-gpu=lineinfo"]);
        for (line, part) in [
            ("-acc a.cuf", "accord fc"),
            ("-cudalib=cublas,cutensor a.cuf", "-cudalib=cutensor"),
            ("-gpu=managed a.cuf", "managed"),
            ("-Mwhat a.cuf", "-Mwhat"),
            ("-c", "source"),
            ("a.cuf -o", "value"),
            ("-c a.cuf b.cuf -o x.o", "one by one"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
