//! The replacement of a source for the compiler, and messages about it.

use crate::command::compile::options::WrapperOptions;
use crate::output::report_line;
use accord_kernels::Message;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A preprocessed source with rewritten `kernels` constructs.
#[derive(Debug)]
pub(crate) struct Preprocessed {
    /// Removed together with the file.
    pub(crate) _folder: tempfile::TempDir,
    /// The path of the file.
    pub(crate) path: PathBuf,
    /// The file's language, for `-x`.
    pub(crate) language: &'static str,
    /// Options that the compiler needs for it.
    pub(crate) flags: Vec<OsString>,
    /// The source's includes, as the preprocessor lists them for make.
    pub(crate) dependencies: Option<String>,
}

impl Preprocessed {
    /// Writes the dependency file, because the compiler sees no includes any more.
    pub(crate) fn complete(&self, file: &Path) {
        if let Some(known) = &self.dependencies {
            let _ = std::fs::write(file, known);
        }
    }
}

/// Prints a message about a loop: all with `-Minfo`, otherwise those about loops that stay on one thread.
pub(crate) fn say(message: &Message, own: WrapperOptions) {
    let Message { place, text, refused, .. } = message;
    if own.info {
        let remedy = if *refused { format!("; write: {}", message.remedy()) } else { String::new() };
        report_line(format_args!("{}:{}: {text}{remedy}", place.file, place.number));
    } else if *refused && !own.quiet {
        report_line(format_args!(
            "{}:{}: note: {text}; the loop stays as GCC compiles kernels, mostly for one thread; write: {}",
            place.file,
            place.number,
            message.remedy()
        ));
    }
}
