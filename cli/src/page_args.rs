//! The command line of `accord page`.

use clap::Args;

/// `accord page`.
///
/// Asks the coordinator of ACCORD_COORDINATOR for a code, and prints the address of its page with that code. The browser that opens it within
/// 60 s sees what its user sees by accord top, for 12 h. The page is there if the coordinator has --page-listen.
#[derive(Args, Debug)]
pub(crate) struct PageArgs {
    /// Print JSON, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}
