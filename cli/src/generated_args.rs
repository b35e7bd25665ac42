//! The options of commands whose output is generated from the command line's definition.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// `accord completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// `accord man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder, which is created if it is absent.
    pub(crate) folder: PathBuf,
}
