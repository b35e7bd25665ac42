//! Arguments of the commands that `accord` starts itself with.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// `accord __png`.
#[derive(Args, Debug)]
pub(crate) struct PngArgs {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
}

/// The separation of a local cluster's hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Separation {
    /// Network, UTS, mount and process namespaces.
    Namespaces,
    /// Loopback addresses of one host.
    Loopback,
}

/// `accord __exec`.
#[derive(Args, Debug, Default)]
pub(crate) struct ExecArgs {
    /// Network namespace to enter.
    #[arg(long)]
    pub(crate) net: Option<PathBuf>,
    /// UTS namespace (host name) to enter.
    #[arg(long)]
    pub(crate) uts: Option<PathBuf>,
    /// Die when the process with this number, the parent, dies.
    #[arg(long)]
    pub(crate) parent: Option<i32>,
    /// With --parent: get SIGTERM then, not SIGKILL. For launchers, which must end their ranks.
    #[arg(long, requires = "parent")]
    pub(crate) gently: bool,
    /// Libraries to put before the program's own.
    #[arg(long)]
    pub(crate) preload: Option<OsString>,
    /// Name the node after the MPI rank: h1 to hH in turn.
    #[arg(long, value_name = "H")]
    pub(crate) node_by_rank: Option<u32>,
    /// CUDA_VISIBLE_DEVICES of each host.
    #[arg(long, value_name = "SHARE;...", value_delimiter = ';')]
    pub(crate) gpus: Vec<String>,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) program: Vec<OsString>,
}

/// `accord __keep`.
#[derive(Args, Debug)]
pub(crate) struct KeepArgs {
    /// The number of the parent, at whose death the launcher is ended.
    #[arg(long)]
    pub(crate) parent: i32,
    /// An MPI launcher with its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) line: Vec<OsString>,
}

/// `accord __rsh`.
#[derive(Args, Debug)]
pub(crate) struct RshArgs {
    /// The file with the hosts' namespaces, one host per line.
    #[arg(long)]
    pub(crate) hosts: PathBuf,
    /// mpirun's options for rsh, the host, the command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}
