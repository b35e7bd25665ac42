//! Conformance programs, and the properties in their first comment lines.
//!
//! ```text
//! // What it shows, in words.
//! // BUILD core            compile in every variant, not only in some
//! // BUILD gcc=14          only with this version of GCC or a later one
//! // BUILD gcc-before=15   only with an earlier version than this
//! // BUILD offload=no      only without (or `yes`: only with) code for nvptx
//! // BUILD linked          only linked with libacc: it calls what libgomp hasn't
//! // BUILD headers         with Accord's headers and module instead of GCC's
//! // BUILD flags=-pthread  more flags
//! // BUILD with=second.c   another source, from support/
//! // BUILD plugin=plugin.c a shared object from support/; its path is the first argument
//! // RUN env=NAME=VALUE    in the program's environment; {plugin} is the shared object's path
//! // RUN first-device      begins on device 0, where a cluster's program otherwise begins on a remote one
//! // RUN shared            its device shares the host's memory
//! // EXPECT exit=1         exit status (0 if not said, and then it prints PASS)
//! // EXPECT stdout=/re/    also stderr=/re/: a regular expression that must be found
//! // EXPECT device-memory  not to be run where memory is shared
//! ```

use crate::compile::gcc_version;
use crate::{Result, root};
use regex_lite::Regex;
use std::path::{Path, PathBuf};

/// The language a program is written in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Language {
    /// C
    C,
    /// C++
    Cxx,
    /// Fortran
    Fortran,
    /// Python, with a shared object in C
    Python,
}

impl Language {
    const ALL: [Self; 4] = [Self::C, Self::Cxx, Self::Fortran, Self::Python];

    /// Folder under `programs/`, also the name in test names.
    pub fn folder(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cxx",
            Self::Fortran => "fortran",
            Self::Python => "python",
        }
    }

    fn extension(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cpp",
            Self::Fortran => "f90",
            Self::Python => "py",
        }
    }

    fn comment(self) -> &'static str {
        match self {
            Self::C | Self::Cxx => "//",
            Self::Fortran => "!",
            Self::Python => "#",
        }
    }
}

/// The expected result of a program.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// Exit status.
    pub exit: i32,
    /// Patterns for its standard output.
    pub stdout: Vec<Regex>,
    /// Patterns for its standard error.
    pub stderr: Vec<Regex>,
    /// Whether the program needs devices with memory of their own.
    pub device_memory: bool,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    /// Its source.
    pub path: PathBuf,
    /// Its language.
    pub language: Language,
    /// The expected result.
    pub expect: Expect,
    /// Whether the program is compiled in every variant.
    pub core: bool,
    /// The oldest version of GCC that compiles it.
    pub gcc: Option<u32>,
    /// The oldest version of GCC for which it is not meant any more.
    pub gcc_before: Option<u32>,
    /// Whether the program needs code for nvptx (`true`) or must not have it (`false`).
    pub offload: Option<bool>,
    /// Whether the program must be linked with libacc.
    pub linked: bool,
    /// Whether the program uses Accord's headers and module instead of GCC's.
    pub headers: bool,
    /// Additional compiler flags.
    pub flags: Vec<String>,
    /// Additional sources.
    pub with: Vec<PathBuf>,
    /// Source of the shared object that is passed as its first argument.
    pub plugin: Option<PathBuf>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Whether the program begins on device 0.
    pub first_device: bool,
    /// Whether its device shares the host's memory.
    pub shared: bool,
}

/// Returns the folder of the conformance programs.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/programs")
}

/// Returns all conformance programs that this GCC compiles, except MPI ones, by language and name.
///
/// # Errors
/// Returns an error if one can't be read, or has an unknown property.
pub fn programs() -> Result<Vec<Program>> {
    programs_where(|_, _| true)
}

/// Returns those of [`programs`] whose language and name satisfy a condition, without reading the others.
///
/// # Errors
/// Returns an error if one can't be read, or has an unknown property.
pub(crate) fn programs_where(wanted: impl Fn(Language, &str) -> bool) -> Result<Vec<Program>> {
    let mut found = Vec::new();
    for language in Language::ALL {
        let folder = folder().join(language.folder());
        let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == language.extension()));
        paths.retain(|path| path.file_stem().is_some_and(|name| wanted(language, &name.to_string_lossy())));
        paths.sort();
        for path in paths {
            let program = Program::read(path, language)?;
            if let Some(oldest) = program.gcc.filter(|oldest| *oldest > gcc_version()) {
                eprintln!("skipped: {}: it needs GCC {oldest}", program.path.display());
            } else if let Some(newer) = program.gcc_before.filter(|newer| *newer <= gcc_version()) {
                eprintln!("skipped: {}: it is about GCC before {newer}", program.path.display());
            } else {
                found.push(program);
            }
        }
    }
    Ok(found)
}

impl Program {
    /// Parses a program's first comment.
    ///
    /// # Errors
    /// Returns an error if it can't be read, or has an unknown property.
    pub fn read(path: PathBuf, language: Language) -> Result<Self> {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut program = Self {
            name,
            path,
            language,
            expect: Expect::default(),
            core: false,
            gcc: None,
            gcc_before: None,
            offload: None,
            linked: false,
            headers: false,
            flags: Vec::new(),
            with: Vec::new(),
            plugin: None,
            env: Vec::new(),
            first_device: false,
            shared: false,
        };
        for line in text.lines().map_while(|line| line.strip_prefix(language.comment())) {
            let line = line.trim();
            if let Some((word @ ("BUILD" | "RUN" | "EXPECT"), rest)) = line.split_once(' ') {
                program.say(word, rest.trim()).map_err(|why| format!("{}: `{line}`: {why}", program.path.display()))?;
            }
        }
        Ok(program)
    }

    fn say(&mut self, word: &str, what: &str) -> Result<()> {
        let (key, value) = what.split_once('=').unwrap_or((what, ""));
        match (word, key) {
            ("BUILD", "core") => self.core = true,
            ("BUILD", "gcc") => self.gcc = Some(value.parse().map_err(|_| "not a number")?),
            ("BUILD", "gcc-before") => self.gcc_before = Some(value.parse().map_err(|_| "not a number")?),
            ("BUILD", "offload") => self.offload = Some(value == "yes"),
            ("BUILD", "linked") => self.linked = true,
            ("BUILD", "headers") => self.headers = true,
            ("BUILD", "flags") => self.flags = value.split_whitespace().map(str::to_owned).collect(),
            ("BUILD", "with") => self.with.push(support(value)),
            ("BUILD", "plugin") => self.plugin = Some(support(value)),
            ("RUN", "env") => {
                let (name, value) = value.split_once('=').ok_or("NAME=VALUE is missing")?;
                self.env.push((name.to_owned(), value.to_owned()));
            }
            ("RUN", "first-device") => self.first_device = true,
            ("RUN", "shared") => self.shared = true,
            ("EXPECT", "exit") => self.expect.exit = value.parse().map_err(|_| "not a number")?,
            ("EXPECT", "stdout") => self.expect.stdout.push(pattern(value)?),
            ("EXPECT", "stderr") => self.expect.stderr.push(pattern(value)?),
            ("EXPECT", "device-memory") => self.expect.device_memory = true,
            _ => return Err("not known".to_owned()),
        }
        Ok(())
    }
}

pub(crate) fn support(file: &str) -> PathBuf {
    folder().join("support").join(Path::new(file))
}

fn pattern(text: &str) -> Result<Regex> {
    let inner = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')).ok_or("/pattern/ is missing")?;
    Regex::new(inner).map_err(|error| error.to_string())
}
