//! The coordinator.
#![forbid(unsafe_code)]

use accord_types::threads;
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::abort_on_panic("accord-coordinator");
    accord_coordinator::process::main()
}
