//! What the compiler gets in place of a source, and what is said of it.

use crate::command::compile::options::Own;
use crate::output::tell;
use accord_kernels::Message;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A preprocessed source with other text in place of `kernels` constructs.
#[derive(Debug)]
pub(crate) struct Preprocessed {
    /// Is removed with its file.
    pub(crate) _folder: tempfile::TempDir,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its language, for `-x`.
    pub(crate) language: &'static str,
    /// Options that the compiler needs for it.
    pub(crate) flags: Vec<OsString>,
    /// The source's includes, as the preprocessor writes them for make.
    pub(crate) dependencies: Option<String>,
}

impl Preprocessed {
    /// Writes the dependency file, as the compiler sees no more includes.
    pub(crate) fn complete(&self, file: &Path) {
        if let Some(known) = &self.dependencies {
            let _ = std::fs::write(file, known);
        }
    }
}

/// Says what became of a loop: all with `-Minfo`, else what stays on one thread.
pub(crate) fn say(message: &Message, own: Own) {
    let Message { place, text, refused, .. } = message;
    if own.info {
        let remedy = if *refused { format!("; write: {}", message.remedy()) } else { String::new() };
        tell(format_args!("{}:{}: {text}{remedy}", place.file, place.number));
    } else if *refused && !own.quiet {
        tell(format_args!(
            "{}:{}: note: {text}; the loop stays as GCC compiles kernels, mostly for one thread; write: {}",
            place.file,
            place.number,
            message.remedy()
        ));
    }
}
