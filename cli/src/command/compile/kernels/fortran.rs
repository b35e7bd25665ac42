//! `kernels` constructs of Fortran sources.

use super::preprocessed::{Preprocessed, say};
use crate::command::compile::encoding::Encoding;
use crate::command::compile::line::{Line, Source};
use crate::command::compile::options::WrapperOptions;
use crate::command::outside::module_text;
use crate::directives::Language;
use crate::failure::{Failure, Result};
use accord_kernels::analysis::Rules;
use accord_kernels::{Form, Input, Mode, Module, rewrite_fortran};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Columns of fixed form by default.
const COLUMNS: usize = 72;

/// Rewrites the `kernels` constructs of a Fortran source, whose text is in `file`; `None` if there are none.
///
/// # Errors
/// Returns an error if the rewritten text can't be written.
pub(super) fn rewritten(
    source: &Source,
    file: &Path,
    includes: &[OsString],
    compiler: &OsStr,
    (line, arguments): (&Line, &[OsString]),
    (own, mode): (WrapperOptions, Mode),
) -> Result<Option<Preprocessed>> {
    let Some(bytes) = text(source, file, includes, compiler, arguments) else { return Ok(None) };
    let (text, encoding) = Encoding::decode(bytes);
    let rules = Rules { prove: true, implicit_reductions: !own.no_implicit_reductions, no_alias: own.no_alias };
    let home = home(&source.path);
    let folders: Vec<&Path> =
        [&*home, Path::new("")].into_iter().chain(line.folders.iter().map(|folder| &**folder)).collect();
    let module = |name: &str| module(name, source, line, arguments, &folders);
    let include = |name: &str| {
        let bytes = folders.iter().find_map(|folder| std::fs::read(folder.join(name)).ok())?;
        Some(Encoding::decode(bytes).0)
    };
    let name = source.path.display().to_string();
    let form = form(source.language, arguments);
    let new =
        rewrite_fortran(&Input { text: &text, form, name: &name, module: &module, include: &include }, mode, rules);
    new.messages.iter().for_each(|message| say(message, own));
    let Some(text) = new.text else { return Ok(None) };
    let system = |error| Failure::system("can't make a folder for rewritten sources", error);
    let folder = tempfile::Builder::new().prefix("accord-kernels-").tempdir().map_err(system)?;
    let (ending, language) = if form == Form::Free { ("f90", "f95") } else { ("f", "f77") };
    let path = folder.path().join(source.path.file_name().unwrap_or_default()).with_extension(ending);
    std::fs::write(&path, encoding.encode(text))
        .map_err(|error| Failure::system(format!("can't write {}", path.display()), error))?;
    // Included files are next to the source.
    let mut folder_of_includes = OsString::from("-I");
    folder_of_includes.push(&home);
    let mut map = OsString::from("-fdebug-prefix-map=");
    map.push(folder.path());
    map.push("=");
    map.push(std::path::absolute(&home).unwrap_or(home));
    Ok(Some(Preprocessed { _folder: folder, path, language, flags: vec![folder_of_includes, map], dependencies: None }))
}

/// Returns the source's text, preprocessed if the compiler does that.
fn text(
    source: &Source,
    file: &Path,
    includes: &[OsString],
    compiler: &OsStr,
    arguments: &[OsString],
) -> Option<Vec<u8>> {
    let by_name = source.path.extension().and_then(OsStr::to_str).is_some_and(|ending| {
        matches!(ending, "F" | "FOR" | "FTN" | "fpp" | "FPP" | "F90" | "F95" | "F03" | "F08" | "F18")
    });
    let by_option = arguments.iter().rev().find(|argument| *argument == "-cpp" || *argument == "-nocpp");
    if !by_option.map_or(by_name, |option| option == "-cpp") {
        return std::fs::read(file).ok();
    }
    let mut command = Command::new(compiler);
    command.args(["-E", "-cpp", "-fopenacc"]).args(includes).args(Line::without_inputs(arguments)).arg(file);
    let output = command.output().ok()?;
    output.status.success().then_some(output.stdout)
}

/// Returns the folder in which a source's includes are searched first.
fn home(source: &Path) -> PathBuf {
    match source.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn form(language: Language, arguments: &[OsString]) -> Form {
    if language != Language::FixedFortran {
        return Form::Free;
    }
    let length = arguments.iter().rev().find_map(|argument| argument.to_str()?.strip_prefix("-ffixed-line-length-"));
    let columns = match length {
        Some("none" | "0") => usize::MAX,
        Some(length) => length.parse().unwrap_or(COLUMNS),
        None => COLUMNS,
    };
    Form::Fixed { columns }
}

/// Returns a module that another source of the command line has, or a compiled one.
fn module(name: &str, source: &Source, line: &Line, arguments: &[OsString], folders: &[&Path]) -> Option<Module> {
    for other in line.sources.iter().filter(|other| other.at != source.at && other.language.is_fortran()) {
        let Ok(bytes) = std::fs::read(&other.path) else { continue };
        let (text, _) = Encoding::decode(bytes);
        let defines = |line: &str| {
            let mut words = line.split_whitespace();
            let is = |word: Option<&str>, known: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(known));
            is(words.next(), "module") && is(words.next(), name)
        };
        if text.lines().any(defines) {
            return Some(Module::Source { text, form: form(other.language, arguments) });
        }
    }
    let file = format!("{name}.mod");
    folders.iter().find_map(|folder| module_text(&folder.join(&file))).map(Module::Compiled)
}
