//! `kernels` constructs of sources on the command line: the preprocessor's text, rewritten.

use super::encoding::Encoding;
use super::line::{Line, Source};
use super::options::{Kernels, Own};
use crate::directives::Language;
use crate::failure::{Failure, Result};
use crate::output::tell;
use accord_kernels::analysis::Rules;
use accord_kernels::{Message, Mode, rewrite_c};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
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

/// A preprocessed source with other text in place of `kernels` constructs.
#[derive(Debug)]
pub(super) struct Preprocessed {
    /// Is removed with its file.
    _folder: tempfile::TempDir,
    /// Its file.
    pub(super) path: PathBuf,
    /// Its language, for `-x`.
    pub(super) language: &'static str,
    /// What the source includes, as the preprocessor writes it for make.
    pub(super) dependencies: Option<String>,
}

/// Rewrites the `kernels` constructs of a source, whose text is in `file`; `None` if there is none to rewrite.
///
/// # Errors
/// If the rewritten text can't be written. What the preprocessor refuses, the compiler refuses too, and says it.
pub(super) fn rewritten(
    source: &Source,
    file: &Path,
    includes: &[OsString],
    compiler: &OsStr,
    (line, arguments): (&Line, &[OsString]),
    own: Own,
) -> Result<Option<Preprocessed>> {
    let cxx = match source.language {
        Language::C => false,
        Language::Cxx => true,
        Language::FreeFortran | Language::FixedFortran => return Ok(None),
    };
    let Some(mode) = own.kernels.mode() else { return Ok(None) };
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
    Ok(Some(Preprocessed { _folder: folder, path, language, dependencies }))
}

/// Says what became of a loop: all with `-Minfo`, else what stays on one thread.
fn say(message: &Message, own: Own) {
    let Message { place, text, refused } = message;
    if own.info {
        tell(format_args!("{}:{}: {text}", place.file, place.number));
    } else if *refused && !own.quiet {
        tell(format_args!(
            "{}:{}: note: {text}; the loop stays as GCC compiles kernels, mostly for one thread",
            place.file, place.number
        ));
    }
}

impl Preprocessed {
    /// Writes the dependency file, as the compiler sees no more includes.
    pub(super) fn complete(&self, file: &Path) {
        if let Some(known) = &self.dependencies {
            let _ = std::fs::write(file, known);
        }
    }
}
