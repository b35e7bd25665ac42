//! Flags and environment.

use crate::offered_gpus::Gpus;
use accord_fabric::transport::ListenAddress;
use accord_trust::users::UserRules;
use accord_types::node_labels::NodeLabels;
use accord_types::settings::parse_bytes;
use clap::Parser;
use std::path::PathBuf;

/// Accord's node agent: offers this machine's devices to the programs of a cluster.
///
/// One runs per node. It registers with the coordinator, takes the connections of programs and
/// starts one executor process per session. It keeps trying while the coordinator is away.
#[derive(Clone, Debug, Parser)]
#[command(name = "accord-node-agent", version)]
pub struct Config {
    /// The cluster's coordinator: HOST:PORT, or unix:PATH for its socket on this machine, where an agent of root or of the coordinator's
    /// user needs no certificates.
    #[arg(long, env = "ACCORD_COORDINATOR", value_name = "HOST:PORT|unix:PATH")]
    pub coordinator: String,

    /// Address and port for the connections of programs and executors; port 0 takes a free one,
    /// which is printed [default: the address of this machine from which the coordinator is reached, and a free port].
    #[arg(long, env = "ACCORD_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<ListenAddress>,

    /// Where others reach this agent, if that is not the address that it listens on. With
    /// `--listen 0.0.0.0:PORT` the coordinator takes the address that the agent comes from.
    #[arg(long, env = "ACCORD_ADVERTISE", value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// This node's name: one per agent [default: the host name].
    #[arg(long, env = "ACCORD_NODE", value_name = "NAME")]
    pub node: Option<String>,

    /// Folder with the agent's certificates: ca.crt, tls.crt and tls.key. Make one with: accord pki issue AUTHORITY agent NAME
    #[arg(long, env = "ACCORD_TLS", value_name = "FOLDER")]
    pub tls: Option<PathBuf>,

    /// Have commands and data of sessions go between machines in clear, where an attacker on the network can read them, and
    /// by changing them run code as the sessions' users. The coordinator decides it; an agent without this refuses such
    /// sessions.
    #[arg(long)]
    pub insecure_plain_tcp: bool,

    /// Whose sessions an agent of root runs, and as which user of this machine, in rules of which the first that fits counts: NAME as
    /// themselves, NAME=ACCOUNT as another one, !NAME not at all, * for everybody but root. An account is a name, or numbers UID:GID,
    /// or a range UID-UID, of which each user has one number to itself while it has sessions. A user that is unknown here is none of *, and the
    /// next rule counts.
    #[arg(long, env = "ACCORD_USERS", value_name = "RULES", default_value = "*")]
    pub users: UserRules,

    /// Sessions that one user may have on this node at one time, of 1,024 altogether. An agent that serves its own user only has no such quota.
    #[arg(long, env = "ACCORD_USER_SESSIONS", value_name = "COUNT", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub user_sessions: u16,

    /// Which of this machine's GPUs are offered: auto, all that the driver shows to this agent (CUDA_VISIBLE_DEVICES
    /// counts); off, none; or a list of the driver's numbers or names (GPU-...), as nvidia-smi -L has them. Those that a list leaves out stay visible, so
    /// that copies to agents that offer them are as fast as they can be.
    #[arg(long, env = "ACCORD_GPUS", value_name = "auto|off|GPU,...", default_value = "auto")]
    pub gpus: Gpus,

    /// Whether GPUs that different processes of this machine drive copy to each other directly.
    #[arg(
        long,
        env = "ACCORD_IPC",
        value_name = "on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "on"
    )]
    pub ipc: Ipc,

    /// Whether the agent measures its devices and paths to other nodes while no session uses them: for accord explain, and for choosing
    /// ways.
    #[arg(
        long,
        env = "ACCORD_MEASURE",
        value_name = "on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "on"
    )]
    pub measure: Measure,

    /// What carries bytes between nodes: tcp, or mpi, for agents that mpirun or srun has started as one world.
    #[arg(
        long,
        env = "ACCORD_FABRIC",
        value_name = "tcp|mpi",
        value_enum,
        hide_possible_values = true,
        default_value = "tcp"
    )]
    pub fabric: Fabric,

    /// Name of the world among those of this machine, with --fabric mpi: programs go by the agent if their
    /// ACCORD_TRANSPORT is mpi:NAME.
    #[arg(long, env = "ACCORD_WORLD", value_name = "NAME", default_value = "world")]
    pub world: String,

    /// The MPI part, with --fabric mpi [default: libaccord_mpi.so beside this program or in ../lib/accord].
    #[arg(long, env = "ACCORD_MPI", value_name = "PATH")]
    pub mpi: Option<PathBuf>,

    /// Whether MPI copies from and to GPUs' own memory, with --fabric mpi: auto tries it first, in a process of its own.
    #[arg(
        long,
        env = "ACCORD_MPI_GPUS",
        value_name = "auto|on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "auto"
    )]
    pub mpi_gpus: MpiGpus,

    /// CPU devices to divide the machine into; each runs a region on one core [default: one per NUMA node, none beside GPUs].
    #[arg(long, env = "ACCORD_CPU_DEVICES", value_name = "COUNT")]
    pub cpu_devices: Option<u32>,

    /// Memory of each CPU device, with K, M, G or T [default: 80 % of what is available, divided].
    #[arg(long, env = "ACCORD_CPU_MEMORY", value_name = "BYTES", value_parser = bytes)]
    pub cpu_memory: Option<u64>,

    /// The libacc.so to put before the workers' programs, for programs that are not linked with it [default: libacc.so beside this program
    /// or in ../lib].
    #[arg(long, env = "ACCORD_LIBACC", value_name = "PATH")]
    pub libacc: Option<PathBuf>,

    /// Folder that keeps the GPU code of programs in compiled form; off: none [default: accord in ~/.cache].
    #[arg(long, env = "ACCORD_CACHE", value_name = "PATH|off")]
    pub cache: Option<PathBuf>,

    /// Folder that keeps which jobs hold devices and which programs drive them, for an agent that is started again while these go on; off:
    /// none [default: accord-node-agent in /run, for other users in XDG_RUNTIME_DIR].
    #[arg(long, env = "ACCORD_KEEP", value_name = "FOLDER|off")]
    pub keep: Option<PathBuf>,

    /// Labels by which requests and policies choose this node: up to 16 names with a value each. The labels rack and switch say where it is,
    /// for requests whose devices are to be near to each other.
    #[arg(long, env = "ACCORD_LABELS", value_name = "NAME=VALUE,...", default_value = "", hide_default_value = true)]
    pub labels: NodeLabels,

    /// Address and port for metrics and health over HTTP (/metrics, /healthz, /readyz), without a key; port 0 takes a free
    /// one, which is printed [default: none].
    #[arg(long, env = "ACCORD_METRICS_LISTEN", value_name = "ADDR:PORT")]
    pub metrics_listen: Option<String>,

    /// Which messages go to standard error: off, error, warn, info, debug.
    #[arg(long, env = "ACCORD_LOG", value_name = "LEVEL", default_value = "warn")]
    pub log: tracing::level_filters::LevelFilter,

    /// Stop when standard input ends, as it does when the process that started this one dies.
    #[arg(long)]
    pub stop_on_stdin_eof: bool,
}

/// What carries bytes between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Fabric {
    /// TCP.
    #[default]
    Tcp,
    /// MPI, between the agents of one world.
    Mpi,
}

/// Whether MPI copies from and to GPUs' own memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum MpiGpus {
    /// If it does so when it is tried.
    #[default]
    Auto,
    /// It does: it is not tried.
    On,
    /// It does not.
    Off,
}

/// Whether an agent measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Measure {
    /// While no session is disturbed.
    #[default]
    On,
    /// Never.
    Off,
}

/// Whether GPUs of different processes of the machine copy to each other directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Ipc {
    /// Where they can.
    #[default]
    On,
    /// By way of the network, as between machines.
    Off,
}

fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "a number of bytes such as 4096, 512M or 2G is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_suffixes() {
        assert_eq!(bytes("2G"), Ok(2 << 30));
        assert!(bytes("two").is_err());
    }
}
