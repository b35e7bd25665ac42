//! `accord`: runs programs over a cluster's devices, displays the cluster, draws traces.
#![forbid(unsafe_code)]

mod args;
mod client;
mod cluster;
mod command;
mod costs;
mod deadline;
mod directives;
mod failure;
mod generated_args;
mod internal_args;
mod job_args;
mod launch;
mod moment;
mod output;
mod page_args;
mod pki_args;
mod policy_args;
mod quarantine_args;
mod request_args;
mod reservation_args;
mod service;
mod setup_args;
mod top_args;
mod viewpoint;
mod ways;

use accord_types::threads;
use args::{Cli, Command};
use command::compile::Tool;
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::abort_on_panic("accord");
    if let Some((name, main)) = service::named(std::env::args_os().next().as_deref()) {
        threads::abort_on_panic(name);
        return main();
    }
    // First, because all further options are the compiler's.
    if let Some(arguments) = args::cuf_line(std::env::args_os()) {
        return ended(command::cuf::compile(&arguments));
    }
    if let Some((tool, arguments)) = args::compiler_line(std::env::args_os()) {
        return ended(command::compile::compile(tool, &arguments));
    }
    ended(match Cli::from_command_line().command {
        Command::Bench(args) => command::bench::bench(&args),
        Command::Cc(args) => command::compile::compile(Tool::Cc, &args.arguments),
        Command::Cxx(args) => command::compile::compile(Tool::Cxx, &args.arguments),
        Command::Fc(args) => command::compile::compile(Tool::Fc, &args.arguments),
        Command::Cuf(args) => command::cuf::compile(&args.arguments),
        Command::Lint(args) => command::lint::lint(&args),
        Command::Run(args) => command::run::run(&args),
        Command::Top(args) => command::top::top(&args),
        Command::Page(args) => command::page::page(&args),
        Command::Doctor(args) => command::doctor::doctor(&args),
        Command::Info(args) => command::info::info(&args),
        Command::Reservation(args) => command::reservation::reservation(&args),
        Command::Drain(args) => command::admin::drain(&args),
        Command::Quarantine(args) => command::quarantine::quarantine(&args),
        Command::Close(args) => command::admin::close(&args),
        Command::Logs(args) => command::logs::logs(&args),
        Command::Shutdown(args) => command::admin::shutdown(&args),
        Command::Trace(args) => command::trace::trace(&args),
        Command::Explain(args) => command::explain::explain(&args),
        Command::Pki(args) => command::pki::pki(&args),
        Command::Setup(args) => command::setup::setup(&args),
        Command::Queue(args) => command::jobs::queue(&args),
        Command::Cancel(args) => command::jobs::cancel(&args),
        Command::Hold(args) => command::jobs::hold(&args),
        Command::Release(args) => command::jobs::release(&args),
        Command::Suspend(args) => command::jobs::suspend(&args),
        Command::Resume(args) => command::jobs::resume(&args),
        Command::WhatIf(args) => command::jobs::what_if(&args),
        Command::History(args) => command::jobs::history(&args),
        Command::Usage(args) => command::jobs::usage(&args),
        Command::Change(args) => command::jobs::change(&args),
        Command::Pause(args) => command::jobs::pause(&args),
        Command::Policy(args) => command::policy::policy(&args),
        Command::Version(args) => command::version::version(&args),
        Command::Completions(args) => command::generated::completions(&args),
        Command::Man(args) => command::generated::man(&args),
        Command::Png(args) => command::png::png(&args),
        Command::Gpus => {
            launch::print_gpus();
            Ok(0)
        }
        Command::Supervise(args) => launch::supervise(&args),
        Command::Exec(args) => Err(launch::exec(&args)),
        Command::Keep(args) => launch::keep(&args),
        Command::Rsh(args) => Err(launch::rsh(&args)),
    })
}

/// Returns a command's exit code, and prints the failure that ended it.
fn ended(result: failure::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::report_line(format_args!("{failure}"));
            ExitCode::from(failure.code())
        }
    }
}
