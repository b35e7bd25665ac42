//! `accord`: runs programs over a cluster's devices, shows the cluster, draws traces.
#![forbid(unsafe_code)]

mod args;
mod client;
mod cluster;
mod command;
mod failure;
mod launch;
mod machine;
mod output;

use args::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Cli::from_command_line().command {
        Command::Run(args) => command::run::run(&args),
        Command::Info(args) => command::info::info(&args),
        Command::Trace(args) => command::trace::trace(&args),
        Command::Explain(args) => command::explain::explain(&args),
        Command::Png(args) => command::png::png(&args),
        Command::Gpus => {
            launch::print_gpus();
            Ok(0)
        }
        Command::Supervise(args) => launch::supervise(&args),
        Command::Exec(args) => Err(launch::exec(&args)),
        Command::Rsh(args) => Err(launch::rsh(&args)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::tell(format_args!("{failure}"));
            ExitCode::from(failure.code())
        }
    }
}
