//! `accord completions` and `accord man`: output generated from the command line's definition.

use crate::args::Cli;
use crate::failure::{Failure, Result};
use crate::generated_args::{CompletionsArgs, ManArgs};
use clap::{Command, CommandFactory};
use std::io::{self, ErrorKind, Write};

/// Runs `accord completions`.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8> {
    // The generators panic on a closed pipe, so they write into memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut displayed(), "accord", &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::system("can't write the completions", error))
        }
        _ => Ok(0),
    }
}

/// Returns the command line without hidden parts, which completions would offer.
fn displayed() -> Command {
    let all = Cli::command();
    let displayed = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("accord")
        .version(env!("CARGO_PKG_VERSION"))
        .about(all.get_about().cloned().unwrap_or_default())
        .subcommands(displayed)
}

/// Runs `accord man`: `accord.1`, `accord-run.1` and so on. Hidden commands have no page.
pub(crate) fn man(args: &ManArgs) -> Result<u8> {
    let failed = |error| Failure::system(format!("can't write manual pages into {}", args.folder.display()), error);
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), &args.folder).map_err(failed)?;
    Ok(0)
}
