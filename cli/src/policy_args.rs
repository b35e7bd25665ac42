//! The options of `accord policy`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `accord policy`.
#[derive(Args, Debug)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    /// Report what is wrong in a policy file and where, or else the longest wait of each account and what the policy would change for the running and waiting jobs of the cluster of ACCORD_COORDINATOR, if that answers. The exit code is 1 if something is wrong.
    Check {
        /// The policy, in TOML.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The cluster's devices, such as "64:nvidia/h200 + 512:cpu": guarantees are compared with them.
        #[arg(long, value_name = "DEVICES")]
        cluster: Option<String>,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Put a policy into effect, if nothing is wrong with it. Asks the coordinator of ACCORD_COORDINATOR as an administrator. The exit code is 1 if something is wrong; then nothing has changed.
    Apply {
        /// The policy, in TOML.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Change nothing: say what the policy would change for waiting and running jobs.
        #[arg(long)]
        dry_run: bool,
        /// For programs.
        #[arg(long)]
        json: bool,
    },
}
