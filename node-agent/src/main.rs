//! The node agent's process, and its executors'.
#![forbid(unsafe_code)]

use accord_node_agent::config::Config;
use accord_node_agent::{executor_process, run};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == executor_process::ARGUMENT) {
        return executor_process::main();
    }
    let config = Config::parse();
    accord_telemetry::log::to_stderr("accord-node-agent", config.log);
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("accord-node-agent: {error}");
            ExitCode::FAILURE
        }
    }
}
