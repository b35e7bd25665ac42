//! The node agent.
#![forbid(unsafe_code)]

use accord_types::threads;
use std::process::ExitCode;

fn main() -> ExitCode {
    threads::abort_on_panic("accord-node-agent");
    accord_node_agent::programs::main()
}
