//! `accord cc`, `accord c++` and `accord fc`: GCC with Accord's headers, module and library.
//!
//! Directives that GCC doesn't know, omits or refuses are replaced in a copy of the source, which GCC compiles instead.
//! Everything in the copy is named after the source: messages, `__FILE__`, debug information and dependencies.

mod encoding;
mod kernels;
mod line;
mod modules;
mod options;

use crate::command::included::included;
use crate::command::outside::outside;
use crate::directives::{Language, Outside, Severity, findings, rewrite};
use crate::failure::{Failure, Result};
use crate::launch::{find_include, find_libacc};
use crate::output::{print, report_line};
use accord_types::settings::{self, Setting};
use encoding::Encoding;
use kernels::Preprocessed;
use line::{Line, Source};
use modules::prefixed;
use options::{Kernels, WrapperOptions};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    /// C
    Cc,
    /// C++
    Cxx,
    /// Fortran
    Fc,
}

impl Tool {
    /// Returns the compiler by the command's name, or the end of the program's: `accord-cc` is `accord cc`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cc" => Self::Cc,
            "c++" | "cxx" => Self::Cxx,
            "fc" => Self::Fc,
            _ => return None,
        })
    }

    fn setting(self) -> (&'static Setting, &'static str) {
        match self {
            Self::Cc => (&settings::CC, "gcc"),
            Self::Cxx => (&settings::CXX, "g++"),
            Self::Fc => (&settings::FC, "gfortran"),
        }
    }

    /// Returns the compiler's name: the setting's, or GCC's.
    pub(crate) fn compiler(self) -> OsString {
        let (setting, default) = self.setting();
        setting.find(|name| std::env::var(name).ok()).map_or_else(|| default.into(), |(_, name)| name.into())
    }
}

/// Compiles and links; returns the compiler's exit code.
pub(crate) fn compile(tool: Tool, arguments: &[OsString]) -> Result<u8> {
    let mut arguments = arguments.to_vec();
    let own = WrapperOptions::take(&mut arguments)?;
    let compiler = tool.compiler();
    if own.modules {
        let (folder, _own) = modules::folder(&compiler, &find_include()?)?;
        print(&format!("{}\n", folder.display()));
        return Ok(0);
    }
    let line = Line::new(&arguments);
    if !line.has_input {
        // The compiler prints information about itself.
        return run(own, &compiler, &arguments, false, &[]);
    }
    if line.is_static && line.links {
        return Err(Failure::new(
            "libacc is a shared library: leave -static out (-static-libgcc and its like are fine)",
        ));
    }
    let include = find_include()?;
    let mut kept = None;
    let mut flags = vec![prefixed("-I", &include)];
    let (mut copies, mut preprocessed) = (Vec::new(), Vec::<(usize, Preprocessed)>::new());
    if !line.without_openacc {
        flags.push("-fopenacc".into());
        if tool != Tool::Fc && !line.has_fortran() {
            // Otherwise an optimizing GCC evaluates it as on the host, wrongly so on CPU devices.
            flags.push("-fno-builtin-acc_on_device".into());
        }
        if !line.preprocesses_only {
            let gcc = version(&compiler);
            for source in &line.sources {
                let copy = look_at(source, &line, own, gcc)?;
                if !own.show && has_kernels(source, &line) {
                    let file = copy.as_ref().map_or_else(|| source.path.clone(), Copy::path);
                    let includes =
                        [vec![prefixed("-I", &include)], copy.iter().flat_map(Copy::flags).collect()].concat();
                    let new = kernels::rewritten(source, &file, &includes, &compiler, (&line, &arguments), own)?;
                    preprocessed.extend(new.map(|new| (source.at, new)));
                }
                copies.extend(copy);
            }
        }
        if own.kernels == Kernels::Decompose {
            // GCC 12 fails on the statement marks of -g ("sorry, unimplemented: gimple_debug").
            let all = ["--param", "openacc-kernels=decompose", "-gno-statement-frontiers"];
            flags.extend(all.map(OsString::from));
        }
    }
    if tool == Tool::Fc || line.has_fortran() {
        let fortran = if tool == Tool::Fc { compiler.clone() } else { Tool::Fc.compiler() };
        let (folder, here_only) = modules::folder(&fortran, &include)?;
        flags.push(prefixed("-I", &folder));
        kept = here_only;
    }
    flags.extend(preprocessed.iter().flat_map(|(_, new)| new.flags.iter().cloned()));
    for copy in &copies {
        flags.extend(copy.flags());
        arguments[copy.source.at] = copy.path().into();
    }
    if line.links {
        flags.extend(link_flags(&find_libacc()?));
    }
    for (at, argument) in arguments.iter().enumerate() {
        match preprocessed.iter().find(|(place, _)| *place == at) {
            Some((_, new)) => {
                flags.extend(["-x".into(), new.language.into(), new.path.clone().into(), "-x".into()]);
                flags.push(Line::named_language(&arguments, at).unwrap_or("none").into());
            }
            None => flags.push(argument.clone()),
        }
    }
    let dependencies: Vec<Dependencies<'_>> = line
        .dependencies
        .iter()
        .zip(&line.sources)
        .map(|(file, source)| Dependencies {
            file,
            preprocessed: preprocessed.iter().find(|(at, _)| *at == source.at).map(|(_, new)| new),
            copy: copies.iter().find(|copy| copy.source.at == source.at),
        })
        .collect();
    let temporary = kept.is_some() || !copies.is_empty() || !preprocessed.is_empty();
    run(own, &compiler, &flags, temporary, &dependencies)
}

/// A dependency file, and the file that the compiler got in place of the source.
struct Dependencies<'a> {
    file: &'a Path,
    preprocessed: Option<&'a Preprocessed>,
    copy: Option<&'a Copy<'a>>,
}

/// Whether a source or an included file may have a `kernels` construct.
fn has_kernels(source: &Source, line: &Line) -> bool {
    let Ok(bytes) = std::fs::read(&source.path) else { return false };
    let (text, _) = Encoding::decode(bytes);
    if source.language.is_fortran() {
        return text.to_ascii_lowercase().contains("kernels");
    }
    text.contains("kernels")
        || included(&source.path, &text, source.language, &line.folders)
            .iter()
            .any(|(_, text)| text.contains("kernels"))
}

/// Links libacc first, so that it is found before libgomp, and stays a dependency of the program.
pub(super) fn link_flags(libacc: &Path) -> Vec<OsString> {
    let folder = libacc.parent().unwrap_or(Path::new("."));
    let mut flags = vec![prefixed("-L", folder), prefixed("-Wl,-rpath,", folder)];
    flags.extend(["-Wl,--push-state,--no-as-needed", "-lacc", "-Wl,--pop-state"].map(OsString::from));
    flags
}

/// Returns GCC's major version; 0 if unknown.
fn version(compiler: &OsStr) -> u32 {
    let output = Command::new(compiler).arg("-dumpversion").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.trim().split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
}

/// A copy of a source with replaced directives.
struct Copy<'a> {
    source: &'a Source,
    folder: tempfile::TempDir,
}

impl Copy<'_> {
    fn path(&self) -> PathBuf {
        self.folder.path().join(self.source.path.file_name().unwrap_or_default())
    }

    /// Returns the source's folder, in which its includes are searched.
    fn home(&self) -> PathBuf {
        match self.source.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        }
    }

    fn flags(&self) -> Vec<OsString> {
        let home = self.home();
        let mut map = prefixed("-fdebug-prefix-map=", self.folder.path());
        map.push("=");
        map.push(std::path::absolute(&home).unwrap_or(home.clone()));
        if self.source.language.is_fortran() {
            return vec![prefixed("-I", &home), map];
        }
        vec!["-iquote".into(), home.into(), map]
    }

    /// Makes a dependency file name the source instead of the copy.
    fn name_source_in(&self, dependencies: &Path) {
        let Ok(text) = std::fs::read_to_string(dependencies) else { return };
        let text = text.replace(&*self.path().to_string_lossy(), &self.source.path.to_string_lossy());
        let _ = std::fs::write(dependencies, text);
    }
}

/// Prints the findings about a source, and writes a copy with replacements if there are any.
fn look_at<'a>(source: &'a Source, line: &Line, own: WrapperOptions, gcc: u32) -> Result<Option<Copy<'a>>> {
    // The compiler reports unreadable files.
    let Ok(bytes) = std::fs::read(&source.path) else { return Ok(None) };
    let (text, encoding) = Encoding::decode(bytes);
    let name = source.path.display().to_string();
    let has_directives = |text: &str| text.contains("acc") || text.contains("ACC");
    let language = source.language;
    let files = included(&source.path, &text, language, &line.folders);
    // A source without directives may still allocate variables that a module declares.
    let may_allocate = language.is_fortran() && text.to_ascii_lowercase().contains("allocate");
    if !has_directives(&text) && !may_allocate {
        if !own.quiet {
            files.iter().filter(|(_, text)| has_directives(text)).for_each(|(path, text)| {
                say(&path.display().to_string(), text, language, gcc, &Outside::default(), true);
            });
        }
        return Ok(None);
    }
    let others: Vec<&Path> = line.sources.iter().map(|source| &*source.path).collect();
    let outside = outside(&source.path, &text, language, &files, &others, &line.folders);
    if !own.quiet {
        for (path, text) in files.iter().filter(|(_, text)| has_directives(text)) {
            say(&path.display().to_string(), text, language, gcc, &outside, true);
        }
        say(&name, &text, language, gcc, &outside, false);
    }
    if own.show {
        return Ok(None);
    }
    let Some(new) = rewrite(&text, language, &name, &outside) else { return Ok(None) };
    let folder = tempfile::Builder::new()
        .prefix("accord-cc-")
        .tempdir()
        .map_err(|error| Failure::system("can't make a folder for rewritten sources", error))?;
    let copy = Copy { source, folder };
    std::fs::write(copy.path(), encoding.encode(new.text))
        .map_err(|error| Failure::system(format!("can't write {}", copy.path().display()), error))?;
    Ok(Some(copy))
}

/// Prints the findings about a text, except those that the copy of a source solves. Included files have no copies.
fn say(name: &str, text: &str, language: Language, gcc: u32, outside: &Outside, included: bool) {
    let all = findings(text, language, gcc, outside);
    for found in all.iter().filter(|found| !found.everywhere && (included || !found.rewritten)) {
        let file = found.file.as_deref().unwrap_or(name);
        let kind = if found.severity == Severity::Refused { "note" } else { "warning" };
        let left = if found.rewritten { ", and in an included file it stays as it is" } else { "" };
        report_line(format_args!("{file}:{}: {kind}: {}{left}; write: {}", found.line, found.message, found.remedy));
    }
}

/// Executes the compiler, or prints its command line. Waits for it if there are temporary files, which are then
/// removed.
fn run(
    own: WrapperOptions,
    compiler: &OsStr,
    arguments: &[OsString],
    temporary: bool,
    dependencies: &[Dependencies<'_>],
) -> Result<u8> {
    let mut command = Command::new(compiler);
    command.args(arguments);
    if own.show {
        print(&format!("{}\n", displayed(compiler, arguments)));
        return Ok(0);
    }
    if !temporary {
        return Err(Failure::start(compiler, &command.exec()));
    }
    let status = command.status().map_err(|error| Failure::start(compiler, &error))?;
    for Dependencies { file, preprocessed, copy } in dependencies {
        if let Some(preprocessed) = preprocessed {
            preprocessed.complete(file);
        }
        if let Some(copy) = copy {
            copy.name_source_in(file);
        }
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// Returns a command in the syntax of a shell.
fn displayed(program: &OsStr, arguments: &[OsString]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,+:@%^".contains(c);
    std::iter::once(program)
        .chain(arguments.iter().map(OsString::as_os_str))
        .map(|word| {
            let word = word.to_string_lossy();
            match !word.is_empty() && word.chars().all(plain) {
                true => word.into_owned(),
                false => format!("'{}'", word.replace('\'', "'\\''")),
            }
        })
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_a_shell_takes_them() {
        let words = ["-O2", "a b.c", "", "it's"].map(OsString::from);
        assert_eq!(displayed(OsStr::new("gcc"), &words), "gcc -O2 'a b.c' '' 'it'\\''s'");
    }
}
