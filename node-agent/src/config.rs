//! Flags and environment.

use crate::offered_gpus::Gpus;
use crate::suspend_memory::SuspendMemory;
use accord_fabric::transport::ListenAddress;
use accord_trust::users::UserRules;
use accord_types::node_labels::NodeLabels;
use accord_types::settings::{parse_bytes, parse_time};
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Most processes that the kernel takes as the limit of a control group (`PID_MAX_LIMIT`).
const PIDS_MAX: u64 = 4 << 20;

/// Accord's node agent: offers this machine's devices to the programs of a cluster.
///
/// One runs per node. It registers with the coordinator, takes the connections of programs and
/// starts one executor process per session. It retries while the coordinator is not reachable.
#[derive(Clone, Debug, Parser)]
#[command(name = "accord-node-agent", version = accord_types::build_version!().text())]
pub struct Config {
    /// The cluster's coordinator: HOST:PORT, or unix:PATH for its socket on this machine, where an agent of root or of the coordinator's
    /// user needs no certificates. Of several coordinators all, with commas between them.
    #[arg(long, env = "ACCORD_COORDINATOR", value_name = "HOST:PORT,...|unix:PATH")]
    pub coordinator: String,

    /// Address and port for the connections of programs and executors; port 0 chooses a free one,
    /// which is printed [default: the address of this machine from which the coordinator is reached, and a free port].
    #[arg(long, env = "ACCORD_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<ListenAddress>,

    /// Address of this agent for others, if not the one that it listens on. With `--listen 0.0.0.0:PORT` the
    /// coordinator uses the address from which the agent connects.
    #[arg(long, env = "ACCORD_ADVERTISE", value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// This node's name: one per agent [default: the host name].
    #[arg(long, env = "ACCORD_NODE", value_name = "NAME")]
    pub node: Option<String>,

    /// Folder with the agent's certificates: ca.crt, tls.crt and tls.key. Make one with: accord pki issue AUTHORITY agent NAME
    #[arg(long, env = "ACCORD_TLS", value_name = "FOLDER")]
    pub tls: Option<PathBuf>,

    /// Send commands and data of sessions between machines in clear. An attacker on the network can then read them, and run
    /// code as the sessions' users by changing them. The coordinator decides this; an agent without this option refuses such
    /// sessions.
    #[arg(long)]
    pub insecure_plain_tcp: bool,

    /// Users whose sessions an agent of root runs, and their accounts on this machine, as rules of which the first match counts: NAME as
    /// itself, NAME=ACCOUNT as another one, !NAME not at all, * for all but root. An account is a name, or numbers UID:GID, or a range
    /// UID-UID, of which each user has one number while it has sessions. * does not match a user that is unknown on this machine.
    #[arg(long, env = "ACCORD_USERS", value_name = "RULES", default_value = "*")]
    pub users: UserRules,

    /// Most sessions of one user on this node at a time, of 1,024 altogether. An agent that serves only its own user has no such quota.
    #[arg(long, env = "ACCORD_USER_SESSIONS", value_name = "COUNT", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub user_sessions: u16,

    /// The offered GPUs of this machine: auto, all that the driver shows to this agent (after CUDA_VISIBLE_DEVICES); off, none; or a list of
    /// the driver's numbers or names (GPU-...), as nvidia-smi -L prints them. GPUs that are not in the list stay visible, so that copies to agents
    /// that offer them are fast.
    #[arg(long, env = "ACCORD_GPUS", value_name = "auto|off|GPU,...", default_value = "auto")]
    pub gpus: Gpus,

    /// Whether GPUs of different processes of this machine copy to each other directly.
    #[arg(
        long,
        env = "ACCORD_IPC",
        value_name = "on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "on"
    )]
    pub ipc: Ipc,

    /// Whether the agent measures its devices and paths to other nodes while no session uses them, for accord explain and for choosing the
    /// ways of copies.
    #[arg(
        long,
        env = "ACCORD_MEASURE",
        value_name = "on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "on"
    )]
    pub measure: Measure,

    /// Whether the agent asks the driver how busy GPUs are, whichever programs use them, for accord top and the page. It then keeps them open, so
    /// that they can't be reset.
    #[arg(
        long,
        env = "ACCORD_GPU_LOAD",
        value_name = "on|off",
        value_enum,
        hide_possible_values = true,
        default_value = "on"
    )]
    pub gpu_load: GpuLoad,

    /// Transport between nodes: tcp; or mpi, for agents that mpirun or srun has started as one world.
    #[arg(
        long,
        env = "ACCORD_FABRIC",
        value_name = "tcp|mpi",
        value_enum,
        hide_possible_values = true,
        default_value = "tcp"
    )]
    pub fabric: Fabric,

    /// Name of the world on this machine, with --fabric mpi: programs connect through the agent if their
    /// ACCORD_TRANSPORT is mpi:NAME.
    #[arg(long, env = "ACCORD_WORLD", value_name = "NAME", default_value = "world")]
    pub world: String,

    /// The MPI part, with --fabric mpi [default: libaccord_mpi.so beside this program or in ../lib/accord].
    #[arg(long, env = "ACCORD_MPI", value_name = "PATH")]
    pub mpi: Option<PathBuf>,

    /// Whether MPI copies from and to GPUs' memory, with --fabric mpi: auto tests it first, in a separate process.
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

    /// Memory of each CPU device, with K, M, G or T [default: an equal part of 80 % of the available memory].
    #[arg(long, env = "ACCORD_CPU_MEMORY", value_name = "BYTES", value_parser = bytes)]
    pub cpu_memory: Option<u64>,

    /// The libacc.so to preload into the workers' programs, for programs that are not linked with it [default: libacc.so beside this program
    /// or in ../lib].
    #[arg(long, env = "ACCORD_LIBACC", value_name = "PATH")]
    pub libacc: Option<PathBuf>,

    /// Folder that keeps the GPU code of programs in compiled form; off: none [default: accord in ~/.cache].
    #[arg(long, env = "ACCORD_CACHE", value_name = "PATH|off")]
    pub cache: Option<PathBuf>,

    /// Folder that records which jobs hold devices and which programs drive them, for an agent that is restarted meanwhile; off:
    /// none [default: accord-node-agent in /run, for other users in XDG_RUNTIME_DIR].
    #[arg(long, env = "ACCORD_KEEP", value_name = "FOLDER|off")]
    pub keep: Option<PathBuf>,

    /// Time for which an agent that is told to stop lets sessions and jobs of its node end, with s, m, h or d. Its node is drained meanwhile. The agent
    /// stops once nothing uses the node, and at once if it is told again.
    #[arg(long, env = "ACCORD_DRAIN_TIME", value_name = "TIME", default_value = "0s", value_parser = time)]
    pub drain_time: Duration,

    /// Program to run, as the agent's user, before a job's first use of this node's devices. Where it fails, the node does not take the job. It has the
    /// job in its environment: ACCORD_JOB_ID, _USER, _ACCOUNT, _NODE, _DEVICES, _GPUS, and the script's name in ACCORD_JOB_SCRIPT.
    #[arg(long, env = "ACCORD_PROLOG", value_name = "PATH")]
    pub prolog: Option<PathBuf>,

    /// Program to run in the same way after a job's last use. Where it fails, the job's devices are in quarantine until an administrator releases them.
    #[arg(long, env = "ACCORD_EPILOG", value_name = "PATH")]
    pub epilog: Option<PathBuf>,

    /// Time limit of the prolog and of the epilog, with s, m, h or d.
    #[arg(long, env = "ACCORD_SCRIPT_TIME", value_name = "TIME", default_value = "1m", value_parser = time)]
    pub script_time: Duration,

    /// Most host memory of a session's processes, with K, M, G or T, beside the memory of its CPU devices and what its job asks for (ram)
    /// [default: 2G, 512M for each CPU device and 4G for each GPU].
    #[arg(long, env = "ACCORD_SESSION_MEMORY", value_name = "BYTES", value_parser = bytes)]
    pub session_memory: Option<u64>,

    /// Most host memory for the devices' memory of suspended jobs, with K, M, G or T [default: half of what is free]. With `,kept` behind it
    /// the agent takes the memory at its start, so that jobs are suspended at the speed of their GPUs' copies.
    #[arg(long, env = "ACCORD_SUSPEND_MEMORY", value_name = "BYTES[,kept]")]
    pub suspend_memory: Option<SuspendMemory>,

    /// Most processes and threads of a session on this node [default: 16,384 and 256 for each device].
    #[arg(long, env = "ACCORD_SESSION_PROCESSES", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=PIDS_MAX))]
    pub session_processes: Option<u64>,

    /// Labels by which requests and policies choose this node: up to 16 names with a value each. The labels rack and switch describe its
    /// location, for requests whose devices must be near each other.
    #[arg(long, env = "ACCORD_LABELS", value_name = "NAME=VALUE,...", default_value = "", hide_default_value = true)]
    pub labels: NodeLabels,

    /// Address and port for metrics and health over HTTP (/metrics, /healthz, /readyz), without authentication; port 0 chooses a free
    /// one, which is printed [default: none].
    #[arg(long, env = "ACCORD_METRICS_LISTEN", value_name = "ADDR:PORT")]
    pub metrics_listen: Option<String>,

    /// Level of messages on standard error: off, error, warn, info, debug.
    #[arg(long, env = "ACCORD_LOG", value_name = "LEVEL", default_value = "warn")]
    pub log: tracing::level_filters::LevelFilter,

    /// Stop when standard input ends, as it does when the process that started this one dies.
    #[arg(long)]
    pub stop_on_stdin_eof: bool,
}

/// The transport between nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Fabric {
    /// TCP.
    #[default]
    Tcp,
    /// MPI, between the agents of one world.
    Mpi,
}

/// Whether MPI copies from and to GPUs' memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum MpiGpus {
    /// Yes, if a test succeeds.
    #[default]
    Auto,
    /// Yes, without a test.
    On,
    /// No.
    Off,
}

/// Whether an agent measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Measure {
    /// Measures while no session is disturbed.
    #[default]
    On,
    /// Never measures.
    Off,
}

/// Whether the agent asks the driver for the load of GPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum GpuLoad {
    /// Asks each second.
    #[default]
    On,
    /// Never asks.
    Off,
}

/// Whether GPUs of different processes of the machine copy to each other directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Ipc {
    /// Directly, if the machine supports it.
    #[default]
    On,
    /// By the network transport, as between machines.
    Off,
}

fn time(text: &str) -> Result<Duration, String> {
    parse_time(text).ok_or_else(|| "a number, with s, m, h or d behind it, is needed".to_owned())
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
