//! The programs of the node agent: agent, keeper, executor, and children that test and measure.

use crate::config::Config;
use crate::{device_test, executor_process, gpu_loads, gpus, keeper, measure, metrics, mpi_native, mpi_world, run};
use accord_device::cpu::{is_worker, worker_main};
use accord_telemetry::log;
use accord_types::spin_policy;
use accord_types::unknown_settings::unknown_settings;
use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs the agent, or a process that an agent started.
pub fn main() -> ExitCode {
    // A worker of the process that tests a CPU device.
    if is_worker() {
        return ExitCode::from(u8::try_from(worker_main()).unwrap_or(u8::MAX));
    }
    // Executors read this setting, too.
    if let Err(error) = spin_policy::read_cores(|name| std::env::var(name).ok()) {
        let _ = writeln!(std::io::stderr(), "accord-node-agent: {error}");
        return ExitCode::FAILURE;
    }
    match std::env::args_os().nth(1) {
        Some(argument) if argument == executor_process::ARGUMENT => return executor_process::main(),
        Some(argument) if argument == executor_process::ARGUMENT_AS => return executor_process::become_user(),
        Some(argument) if argument == keeper::ARGUMENT => return keeper::main(),
        Some(argument) if argument == gpus::ARGUMENT => return gpus::main(),
        Some(argument) if argument == gpu_loads::ARGUMENT => return gpu_loads::main(),
        Some(argument) if argument == device_test::ARGUMENT => return device_test::main(),
        Some(argument) if argument == measure::ARGUMENT => return measure::main(),
        Some(argument) if argument == mpi_world::ARGUMENT => return mpi_world::main(),
        Some(argument) if argument == mpi_native::ARGUMENT => return mpi_native::main(),
        _ => {}
    }
    let config = Config::parse();
    let _flush = log::to_stderr("accord-node-agent", config.log, metrics::log_dropped);
    for unknown in unknown_settings(std::env::vars_os().map(|(name, _)| name)) {
        tracing::warn!("{unknown}");
    }
    match run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::report_line(format_args!("accord-node-agent: {error}"));
            ExitCode::FAILURE
        }
    }
}
