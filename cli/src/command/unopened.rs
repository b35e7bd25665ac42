//! How `accord cc`, `c++` and `fc` treat the `kernels` constructs of a source, and which loops they leave to GCC.

use crate::directives::{Finding, Language, Severity};
use accord_kernels::analysis::Rules;
use accord_kernels::{Form, Input, Message, Mode, rewrite_c, rewrite_fortran};
use std::path::Path;
use std::process::Command;

/// Columns of fixed form.
const COLUMNS: usize = 72;

/// Returns the messages about the loops in a source's `kernels` constructs. If the machine's preprocessor refuses the
/// source, for lack of its options, it is read unprocessed.
pub(super) fn messages(path: &Path, language: Language) -> Vec<Message> {
    let as_it_is = || Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned());
    preprocessed(path, language).or_else(as_it_is).map_or_else(Vec::new, |text| of_text(&text, path, language))
}

fn of_text(text: &str, path: &Path, language: Language) -> Vec<Message> {
    if !text.to_ascii_lowercase().contains("kernels") {
        return Vec::new();
    }
    let name = path.display().to_string();
    let rules = Rules { prove: language != Language::Cxx, implicit_reductions: true, no_alias: false };
    let folder = path.parent().unwrap_or(Path::new(""));
    let new = match language {
        Language::C | Language::Cxx => rewrite_c(text, &name, language == Language::Cxx, Mode::Parallel, rules),
        Language::FreeFortran | Language::FixedFortran => {
            let form = if language == Language::FreeFortran { Form::Free } else { Form::Fixed { columns: COLUMNS } };
            let include = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
            let input = Input { text, form, name: &name, module: &|_| None, include: &include };
            rewrite_fortran(&input, Mode::Parallel, rules)
        }
    };
    // Names of modules are known only where the source is compiled.
    new.messages.into_iter().filter(|one| !one.text.contains(" means is not known")).collect()
}

/// Returns the parts of a source's `kernels` constructs that stay as they are, with the reasons. Returns nothing if the
/// machine's preprocessor refuses the source.
pub(super) fn unopened(path: &Path, language: Language) -> Vec<Finding> {
    let name = path.display().to_string();
    let text = preprocessed(path, language).unwrap_or_default();
    let refused = of_text(&text, path, language).into_iter().filter(|one| one.refused);
    let found = refused.map(|message| Finding {
        file: Some(message.place.file.clone()).filter(|file| *file != name),
        line: message.place.number,
        severity: Severity::Ignored,
        message: format!("{}; the loop stays as GCC compiles kernels, mostly for one thread", message.text),
        remedy: message.remedy().to_owned(),
        rewritten: false,
        everywhere: false,
    });
    found.collect()
}

fn preprocessed(path: &Path, language: Language) -> Option<String> {
    let compiler = match language {
        Language::C => "gcc",
        Language::Cxx => "g++",
        Language::FreeFortran | Language::FixedFortran => {
            let ending = path.extension()?.to_str()?;
            if !ending.starts_with('F') {
                return Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned());
            }
            "gfortran"
        }
    };
    let options: &[&str] = if language.is_fortran() { &["-E", "-cpp", "-fopenacc"] } else { &["-E", "-fopenacc"] };
    let output = Command::new(compiler).args(options).arg(path).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
