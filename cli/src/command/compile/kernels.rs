//! `kernels` constructs of sources on the command line: rewrites the preprocessed text.

mod fortran;
mod preprocessed;

use super::encoding::Encoding;
use super::line::{Line, Source};
use super::options::{Kernels, WrapperOptions};
use crate::directives::Language;
use crate::failure::{Failure, Result};
use accord_kernels::analysis::Rules;
use accord_kernels::{Mode, rewrite_c};
pub(super) use preprocessed::Preprocessed;
use preprocessed::say;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

impl Kernels {
    fn mode(self) -> Option<Mode> {
        match self {
            Self::Gcc | Self::Decompose => None,
            Self::Parallel => Some(Mode::Parallel),
            Self::Check => Some(Mode::Check),
        }
    }
}

/// Rewrites the `kernels` constructs of a source, whose text is in `file`; `None` if there are none.
///
/// # Errors
/// Returns an error if the rewritten text can't be written. Errors of the preprocessor are left to the compiler, which
/// reports them, too.
pub(super) fn rewritten(
    source: &Source,
    file: &Path,
    includes: &[OsString],
    compiler: &OsStr,
    (line, arguments): (&Line, &[OsString]),
    own: WrapperOptions,
) -> Result<Option<Preprocessed>> {
    let Some(mode) = own.kernels.mode() else { return Ok(None) };
    let cxx = match source.language {
        Language::C => false,
        Language::Cxx => true,
        Language::FreeFortran | Language::FixedFortran => {
            return fortran::rewritten(source, file, includes, compiler, (line, arguments), (own, mode));
        }
    };
    let system = |error| Failure::system("can't make a folder for rewritten sources", error);
    let folder = tempfile::Builder::new().prefix("accord-kernels-").tempdir().map_err(system)?;
    let listed = folder.path().join("dependencies");
    let mut command = Command::new(compiler);
    command.args(["-E", "-fopenacc", "-x", if cxx { "c++" } else { "c" }]).args(includes);
    command.args(Line::without_inputs(arguments));
    if !line.dependencies.is_empty() {
        command.arg("-MF").arg(&listed);
        if let Some(target) = line.target(arguments, source) {
            command.arg("-MT").arg(target);
        }
    }
    command.arg(file);
    let Ok(output) = command.output() else { return Ok(None) };
    if !output.status.success() {
        return Ok(None);
    }
    let (text, encoding) = Encoding::decode(output.stdout);
    let rules = Rules { prove: !cxx, implicit_reductions: !own.no_implicit_reductions, no_alias: own.no_alias };
    let new = rewrite_c(&text, &source.path.display().to_string(), cxx, mode, rules);
    new.messages.iter().for_each(|message| say(message, own));
    let Some(text) = new.text else { return Ok(None) };
    let (ending, language) = if cxx { ("ii", "c++-cpp-output") } else { ("i", "cpp-output") };
    let path = folder.path().join(source.path.file_name().unwrap_or_default()).with_extension(ending);
    std::fs::write(&path, encoding.encode(text))
        .map_err(|error| Failure::system(format!("can't write {}", path.display()), error))?;
    let dependencies = std::fs::read_to_string(listed).ok();
    Ok(Some(Preprocessed { _folder: folder, path, language, flags: Vec::new(), dependencies }))
}
