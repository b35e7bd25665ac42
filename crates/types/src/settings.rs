//! The settings: every environment variable that Accord reads, in one table.

use std::time::Duration;

/// One environment variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The variable's name.
    pub name: &'static str,
    /// The value in force when the variable is not set, as a user would write it. Text in parentheses describes a value
    /// that depends on the machine or on the other settings.
    pub default: &'static str,
    /// The unit or the form of the value.
    pub unit: &'static str,
    /// The setting's effect, in one sentence.
    pub help: &'static str,
    /// Other names that job scripts use. They count in this order, after `name`.
    pub aliases: &'static [&'static str],
}

/// Settings that name files to write, code to load, or processes to trust. A program with more rights than its user
/// (set-user-ID, set-group-ID, file capabilities) ignores them, as they would give the user the program's rights.
pub const FOR_EQUAL_RIGHTS: &[Setting] =
    &[ACC_PROFLIB, COORDINATOR, TLS, MUNGE, TOKEN_FILE, SOCKET, MPI, CACHE, TIME, TRACE, CC, CXX, FC, LIBACC];

/// The source of a setting's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettingSource {
    /// Nothing is set.
    Default,
    /// The environment variable with this name: the setting's own, or an alias.
    Environment(&'static str),
}

impl Setting {
    /// Returns the name under which the environment holds the setting, and its value. `lookup` reads one environment
    /// variable. An empty or blank value counts as not set.
    pub fn find(&self, lookup: impl Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
        std::iter::once(self.name)
            .chain(self.aliases.iter().copied())
            .find_map(|name| Some((name, lookup(name).filter(|value| !value.trim().is_empty())?)))
    }

    /// Returns the value in force, which may be the default, and its source.
    pub fn in_force(&self, lookup: impl Fn(&str) -> Option<String>) -> (String, SettingSource) {
        match self.find(lookup) {
            Some((name, value)) => (value, SettingSource::Environment(name)),
            None => (self.default.to_owned(), SettingSource::Default),
        }
    }
}

/// Parses a number of bytes: `4096`, `512K`, `64M`, `2G`, `1T` (powers of 1024, either case, with or without a final
/// `B` or `iB`).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let shift = match suffix.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Parses a time: `90s`, `30m`, `8h`, `2d`, `500ms`; seconds without a suffix.
pub fn parse_time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let unit_ms: u64 = match suffix.trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_ms).map(Duration::from_millis)
}

macro_rules! settings {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $default:literal, $unit:literal, [$($alias:literal),*], $help:literal;)*) => {
        $($(#[$doc])* pub const $constant: Setting = Setting {
            name: $name, default: $default, unit: $unit, help: $help, aliases: &[$($alias),*],
        };)*

        /// Every setting, in the order of the documentation.
        pub const ALL: &[Setting] = &[$($constant),*];
    };
}

settings! {
    /// OpenACC 3.3, 4.1.
    ACC_DEVICE_TYPE = "ACC_DEVICE_TYPE", "(nvidia if there is a GPU, else cpu)", "nvidia|cpu|host",
        ["NVCOMPILER_ACC_DEVICE_TYPE", "PGI_ACC_DEVICE_TYPE", "NV_ACC_DEVICE_TYPE"],
        "Device type of a program that names none.";
    /// OpenACC 3.3, 4.2.
    ACC_DEVICE_NUM = "ACC_DEVICE_NUM", "0", "device number",
        ["NVCOMPILER_ACC_DEVICE_NUM", "PGI_ACC_DEVICE_NUM", "NV_ACC_DEVICE_NUM"],
        "Device number of a program that names none.";
    /// OpenACC 3.3, 4.3 and chapter 5.
    ACC_PROFLIB = "ACC_PROFLIB", "", "paths, separated by ;",
        ["NVCOMPILER_ACC_PROFLIB", "PGI_ACC_PROFLIB", "NV_ACC_PROFLIB"],
        "Profiling libraries to load.";
    /// A variable of GCC's runtime.
    GOMP_OPENACC_DIM = "GOMP_OPENACC_DIM", "(the device's choice)", "gangs:workers:vector", [],
        "Launch dimensions of regions that leave them open.";
    /// Where the coordinator is.
    COORDINATOR = "ACCORD_COORDINATOR", "(none: this machine's devices)", "host:port,... or unix:path", [],
        "Coordinator of the cluster whose devices the program uses, of several all; unix: its socket on this machine, which needs no certificates.";
    /// Certificates.
    TLS = "ACCORD_TLS", "(~/.config/accord/tls)", "path", [],
        "Folder with ca.crt, tls.crt and tls.key, as accord pki issue makes it; ca.crt alone where MUNGE or Kubernetes attests users.";
    /// The socket of MUNGE's daemon.
    MUNGE = "ACCORD_MUNGE", "(/run/munge/munge.socket.2)", "path", [],
        "Socket of MUNGE's daemon, which attests users without certificates; a coordinator accepts that only if this is set.";
    /// The file with a token of Kubernetes.
    TOKEN_FILE = "ACCORD_TOKEN_FILE", "(/var/run/secrets/accord/token, if it is there)", "path", [],
        "File with a projected service account token of audience accord, by which Kubernetes attests a pod without certificates.";
    /// The API server that reviews tokens.
    TOKEN_REVIEW = "ACCORD_TOKEN_REVIEW", "(none)", "host:port or cluster", [],
        "Kubernetes' API server, which a coordinator asks whose a program's token is; cluster: the one of the coordinator's own cluster; programs do not read it.";
    /// The service account for requests to the API server.
    TOKEN_REVIEW_ACCOUNT = "ACCORD_TOKEN_REVIEW_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount", "folder", [],
        "Folder with token and ca.crt of the service account by which a coordinator asks the API server; programs do not read it.";
    /// The coordinator's socket.
    SOCKET = "ACCORD_SOCKET", "(none)", "path", [],
        "UNIX socket at which a coordinator listens for its machine's processes; programs do not read it.";
    /// The name of this machine in the cluster.
    NODE = "ACCORD_NODE", "(the host name)", "name", [],
        "Name of the node on which the program runs: its devices count as local.";
    /// The numbering policy of devices.
    DEVICE_ORDER = "ACCORD_DEVICE_ORDER", "auto", "auto|local|global|rank|node", [],
        "Order of device numbers: this node's devices first, the same in every rank, this rank's share first, or this node's devices only; auto is local, and recognizes acc_set_device_num(rank % n) in an MPI job.";
    /// The GPUs that an agent offers.
    GPUS = "ACCORD_GPUS", "auto", "auto|off|GPU,...", [],
        "Which of its machine's GPUs an agent offers, by the driver's numbers or names; programs do not read it.";
    /// Whether agents measure devices and paths.
    MEASURE = "ACCORD_MEASURE", "on", "on|off", [],
        "Whether an agent measures its devices and the paths to other nodes while no session uses them; programs do not read it.";
    /// Whether agents ask for GPUs' load.
    GPU_LOAD = "ACCORD_GPU_LOAD", "on", "on|off", [],
        "Whether an agent asks the driver how busy GPUs are, whichever programs use them; programs do not read it.";
    /// The devices that a program requests.
    DEVICES = "ACCORD_DEVICES", "(all)", "request", [],
        "Devices that the program asks for, as accord run --devices: 4:nvidia/h200:20G near limit=2h, for example.";
    /// The job that a program belongs to.
    JOB = "ACCORD_JOB", "(none)", "number:key", [],
        "Job in whose allocation the program opens its session; accord run --devices sets it.";
    /// Number of CPU devices.
    CPU_DEVICES = "ACCORD_CPU_DEVICES", "(1; agents: 1 a NUMA node; none beside GPUs)", "count", [],
        "CPU devices that this machine is divided into; each runs a region on one core.";
    /// Memory of each CPU device.
    CPU_MEMORY = "ACCORD_CPU_MEMORY", "(80 % of what is free, shared evenly)", "bytes, with K, M, G or T", [],
        "Memory of each CPU device.";
    /// The coordinator's state file.
    STATE = "ACCORD_STATE", "(none: all begins anew with the coordinator)", "file or etcd://...", [],
        "File that keeps a coordinator's state over a restart, or the place of several coordinators' state in etcd; programs do not read it.";
    /// etcd's authority.
    ETCD_CA = "ACCORD_ETCD_CA", "(none: in clear)", "file", [],
        "Authority of etcd's certificates for a coordinator's connection; programs do not read it.";
    /// A certificate for etcd.
    ETCD_CERT = "ACCORD_ETCD_CERT", "(none)", "file", [],
        "A coordinator's certificate for etcd; programs do not read it.";
    /// Its key.
    ETCD_KEY = "ACCORD_ETCD_KEY", "(none)", "file", [],
        "Key of that certificate; programs do not read it.";
    /// The site's policy.
    POLICY = "ACCORD_POLICY", "(one account for all users, without limits)", "file", [],
        "Policy with which a coordinator starts; programs do not read it.";
    /// Memory of one session on each device.
    MEMORY_QUOTA = "ACCORD_MEMORY_QUOTA", "(no limit)", "bytes, with K, M, G or T", [],
        "Most memory of a session on each device of other nodes, set by the coordinator; programs do not read it.";
    /// Streams of one session on each device.
    STREAM_QUOTA = "ACCORD_STREAM_QUOTA", "32", "1 to 32", [],
        "Most streams of a session on each device, which its queues share, set by the coordinator; programs do not read it.";
    /// The limit of one user's sessions.
    SESSION_QUOTA = "ACCORD_SESSION_QUOTA", "4096", "count", [],
        "Most sessions of a user at one time, set by the coordinator; programs do not read it.";
    /// The limit of one user's sessions on a node.
    USER_SESSIONS = "ACCORD_USER_SESSIONS", "512", "1 to 1024", [],
        "Most sessions of a user on a node at one time, set by an agent of root; programs do not read it.";
    /// The limit of a session's duration.
    SESSION_TIME = "ACCORD_SESSION_TIME", "(no limit)", "time, with s, m, h or d", [],
        "Longest duration of a session, set by the coordinator; programs do not read it.";
    /// Environment variables for workers on other nodes.
    ENV = "ACCORD_ENV", "", "names, separated by commas", [],
        "Further environment variables that regions see on other nodes; NAME* for all that begin so, * for all.";
    /// Silence after which a node is lost.
    LOST_AFTER = "ACCORD_LOST_AFTER", "10s", "time, with s, m or h", [],
        "How long an agent may be silent before its coordinator counts the node as lost; programs do not read it.";
    /// Silence after which a program is lost.
    PROGRAM_LOST_AFTER = "ACCORD_PROGRAM_LOST_AFTER", "30s", "time, with s, m or h", [],
        "How long a program's machine may be silent before its coordinator ends the session; a stopped program is not silent; programs do not read it.";
    /// The users whose sessions agents run, and the accounts they run as.
    USERS = "ACCORD_USERS", "*", "rules, separated by commas", [],
        "Whose sessions an agent of root runs, and as which user; whom a coordinator accepts without a certificate: NAME, NAME=ACCOUNT, !NAME, * for everybody but root; programs do not read it.";
    /// The address at which agents and coordinator listen.
    LISTEN = "ACCORD_LISTEN", "(coordinator 127.0.0.1:7447, agent any port of the address from which its coordinator is reached)", "address:port", [],
        "Where a coordinator or an agent listens; programs do not read it.";
    /// The address at which agents and coordinator serve metrics.
    METRICS_LISTEN = "ACCORD_METRICS_LISTEN", "(nowhere)", "address:port", [],
        "Where a coordinator or an agent serves metrics and health over HTTP; programs do not read it.";
    /// Where the coordinator shows its page.
    PAGE_LISTEN = "ACCORD_PAGE_LISTEN", "(nowhere)", "address:port", [],
        "Where a coordinator shows the cluster as a web page, in clear on loopback, elsewhere by TLS; programs do not read it.";
    /// The visitors of the page.
    PAGE = "ACCORD_PAGE", "users", "public|users|off", [],
        "What a coordinator's page shows to visitors without a code: the cluster in numbers, how to get a code, or no page at all; programs do not read it.";
    /// The page's address.
    PAGE_URL = "ACCORD_PAGE_URL", "(ACCORD_PAGE_LISTEN, or the machine's name)", "URL", [],
        "Address of a coordinator's page as browsers have it, such as https://accord.site; programs do not read it.";
    /// Where agents are reached.
    ADVERTISE = "ACCORD_ADVERTISE", "(where it listens)", "host:port", [],
        "Where others reach an agent, or a coordinator that leads others; programs do not read it.";
    /// Folder in which an agent keeps grants.
    KEEP = "ACCORD_KEEP", "(accord-node-agent in /run, for other users in XDG_RUNTIME_DIR)", "folder|off", [],
        "Folder in which an agent keeps the grants of jobs for its next start on the same boot; programs do not read it.";
    /// How long a stopping agent waits.
    DRAIN_TIME = "ACCORD_DRAIN_TIME", "0s", "time, with s, m, h or d", [],
        "How long an agent that is told to stop drains its node and lets sessions and jobs there end; programs do not read it.";
    /// What an agent runs before a job.
    PROLOG = "ACCORD_PROLOG", "(none)", "file", [],
        "Program that an agent runs before a job's first use of its node's devices; programs do not read it.";
    /// What an agent runs after a job.
    EPILOG = "ACCORD_EPILOG", "(none)", "file", [],
        "Program that an agent runs after a job's last use of its node's devices; programs do not read it.";
    /// Time limit of an agent's scripts.
    SCRIPT_TIME = "ACCORD_SCRIPT_TIME", "1m", "time, with s, m, h or d", [],
        "Time limit of an agent's prolog and epilog; programs do not read it.";
    /// Host memory of a session.
    SESSION_MEMORY = "ACCORD_SESSION_MEMORY", "(2 GiB, 512 MiB a CPU device, 4 GiB a GPU)", "bytes", [],
        "Host memory of a session's processes on an agent's node, beside its CPU devices' own and its job's ram; programs do not read it.";
    /// Host memory of suspended jobs.
    SUSPEND_MEMORY = "ACCORD_SUSPEND_MEMORY", "(half of what is free)", "bytes, or bytes,kept", [],
        "Host memory of an agent's node for the devices' memory of suspended jobs, with kept taken at the agent's start; programs do not read it.";
    /// Processes of a session.
    SESSION_PROCESSES = "ACCORD_SESSION_PROCESSES", "(16,384 and 256 a device)", "count", [],
        "Processes and threads of a session on an agent's node; programs do not read it.";
    /// Labels of an agent's node.
    LABELS = "ACCORD_LABELS", "(none)", "name=value, separated by commas", [],
        "Labels of an agent's node, by which requests and policies choose it, rack and switch among them; programs do not read it.";
    /// Log level of agents and coordinator.
    LOG = "ACCORD_LOG", "warn", "off|error|warn|info|debug", [],
        "Which messages of a coordinator or an agent go to its standard error; programs do not read it.";
    /// Direct copies between processes.
    IPC = "ACCORD_IPC", "on", "on|off", [],
        "Lets GPUs that different processes of one machine drive copy to each other directly; read by programs and agents.";
    /// The transport to executors.
    TRANSPORT = "ACCORD_TRANSPORT", "auto", "auto|tcp|shm|tls|mpi:NAME", [],
        "What carries commands and bytes to executors: on this machine shared memory (auto, shm) or a connection (tcp, tls), to others TLS; mpi:NAME: MPI, by the agent of world NAME on this machine. Read by programs and agents.";
    /// The time for which a program retries to open its session.
    OPEN_TIMEOUT = "ACCORD_OPEN_TIMEOUT", "30s", "time, with s, m, h or d", [],
        "How long a program asks for its session while the coordinator is away or busy, and agents while the coordinator has not announced it; 0s: once.";
    /// The transport between nodes.
    FABRIC = "ACCORD_FABRIC", "tcp", "tcp|mpi", [],
        "What carries bytes between nodes: TCP, or MPI between agents that mpirun started; read by agents.";
    /// The MPI world that an agent belongs to.
    WORLD = "ACCORD_WORLD", "world", "name", [],
        "Name of the agents' MPI world, as in ACCORD_TRANSPORT=mpi:NAME; read by agents.";
    /// The path of the MPI part.
    MPI = "ACCORD_MPI", "(beside the agent's program or in ../lib/accord)", "path", [],
        "The MPI part, libaccord_mpi.so, as make mpi has built it; read by agents.";
    /// Whether MPI copies directly from and to GPU memory.
    MPI_GPUS = "ACCORD_MPI_GPUS", "auto", "auto|on|off", [],
        "Whether MPI copies from and to GPUs' memory: with auto agents try it in a process of their own, and CUDA Fortran programs ask their MPI; read by programs and agents.";
    /// The number of cores that waiting threads assume.
    SPIN_CORES = "ACCORD_SPIN_CORES", "(those that the process may use)", "count", [],
        "How many cores waiting threads reckon with: with 1 they block at once, with 2 or more they spin first, with 4 or more for longer; read by programs and agents.";
    /// The time after which a silent peer counts as hung.
    TIMEOUT = "ACCORD_TIMEOUT", "30s", "time, with s, m, h or d; or off", [],
        "How long the program waits for an executor or a worker that gives no sign of life; work itself has no limit.";
    /// The folder for compiled GPU code.
    CACHE = "ACCORD_CACHE", "(accord in ~/.cache)", "path|off", [],
        "Folder that keeps the compiled GPU code of programs for later starts.";
    /// Whether arrays of the program may be page-locked.
    PAGE_LOCK = "ACCORD_PAGE_LOCK", "on", "on|off", [],
        "Page-locks arrays that are copied repeatedly to and from this machine's GPUs, while they are present.";
    /// The way in which GPU memory is allocated.
    GPU_MEMORY = "ACCORD_GPU_MEMORY", "auto", "auto|allocate|map", [],
        "How the memory of GPUs that the program drives itself is taken: allocate suits a GPU-aware MPI, map chooses the addresses; auto allocates in programs that are linked with MPI.";
    /// Whether repeated launches may become graphs.
    GRAPHS = "ACCORD_GRAPHS", "on", "on|off", [],
        "Launches regions that a queue repeats as graphs of one kernel, which is faster; read by programs and agents.";
    /// Whether small strided copies may be combined.
    ROWS = "ACCORD_ROWS", "auto", "auto|on|off", [],
        "Combines small asynchronous copies at a constant distance, such as updates of a[i][0:n] in a loop, to one copy to a GPU that the program drives itself; auto does so unless code in its process may use CUDA's driver.";
    /// The treatment of pointers to unmapped memory.
    UNMAPPED = "ACCORD_UNMAPPED", "error", "error|map", [],
        "What a region gets for a pointer to memory that nothing maps: an error, or (for unified memory) a copy of its whole block, in and out.";
    /// What is checked about regions.
    CHECK = "ACCORD_CHECK", "off", "off|bounds", [],
        "What is checked about regions: bounds, on CPU devices, whether they stay within their arrays.";
    /// Whether regions are compared with a CPU device.
    COMPARE = "ACCORD_COMPARE", "off", "off|on|limits of rel=, abs= and ulp=, separated by commas", [],
        "Runs each region on a CPU device, too, and reports the first element of each array that differs by more than 1e-6 (single precision) or 1e-12 (double) of its value, or by more than the limits.";
    /// What becomes of updates that GCC has left out.
    DROPPED_UPDATES = "ACCORD_DROPPED_UPDATES", "error", "error|warn", [],
        "What an update of whole declare variables does, of which GCC passes none: it ends the program, or warns once a place.";
    /// The type under which CPU devices appear.
    EMULATE = "ACCORD_EMULATE", "", "nvidia", [],
        "Presents the CPU devices as devices of this type, for programs that name it.";
    /// The present table in errors.
    EXPLAIN_ERRORS = "ACCORD_EXPLAIN_ERRORS", "0", "0|1", [],
        "Adds the nearest entries of the present table to errors about data that is absent or present only in part, each with the line that has mapped it.";
    /// Notices.
    NOTIFY = "ACCORD_NOTIFY", "0", "sum of 1, 2, 4, 8, 16",
        ["NVCOMPILER_ACC_NOTIFY", "PGI_ACC_NOTIFY", "NV_ACC_NOTIFY"],
        "Prints a line for each launch (1), copy (2), wait (4), construct (8), or creation and deletion of data (16).";
    /// Output of times.
    TIME = "ACCORD_TIME", "0", "0|1|full|json|path; %r = rank, %p = process id",
        ["NVCOMPILER_ACC_TIME", "PGI_ACC_TIME", "NV_ACC_TIME"],
        "Prints where the program spent its time when it ends, on standard error: 1 the most expensive lines, full all, json all as JSON; or all into a file (JSON if it is named .json), which a running program writes anew each second.";
    /// Trace output.
    TRACE = "ACCORD_TRACE", "", "path; %r = rank, %p = process id", [],
        "Writes a trace of launches and copies (Chrome trace format) when the program ends.";
    /// Compiler of `accord cc`.
    CC = "ACCORD_CC", "gcc", "program", [],
        "C compiler that accord cc starts; programs do not read it.";
    /// Compiler of `accord c++`.
    CXX = "ACCORD_CXX", "g++", "program", [],
        "C++ compiler that accord c++ starts; programs do not read it.";
    /// Compiler of `accord fc`.
    FC = "ACCORD_FC", "gfortran", "program", [],
        "Fortran compiler that accord fc starts; programs do not read it.";
    /// Diagnostics.
    DEBUG = "ACCORD_DEBUG", "0", "0|1", ["GOMP_DEBUG"],
        "Prints what the runtime does to standard error.";
    /// The library that CPU devices' workers preload.
    LIBACC = "ACCORD_LIBACC", "(found beside the accord program)", "path", [],
        "The libacc.so to put before the program and its workers.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn settings_with_paths_require_equal_rights() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/env.md");
        let document = std::fs::read_to_string(document).unwrap();
        let paragraph = document.split("## More rights than the user").nth(1).unwrap();
        for setting in ALL {
            let names_something = ["path", "program", "host:port"].iter().any(|what| setting.unit.contains(what));
            // Where services are reached, which programs don't read.
            let of_services = setting.help.contains("programs do not read it") && !setting.unit.contains("path");
            let expected = names_something && !of_services || FOR_EQUAL_RIGHTS.contains(setting);
            assert_eq!(FOR_EQUAL_RIGHTS.contains(setting), expected, "{}", setting.name);
            assert_eq!(paragraph.contains(&format!("`{}`", setting.name)), expected, "{}", setting.name);
        }
    }

    #[test]
    fn no_name_stands_for_two_settings() {
        let mut seen = HashSet::new();
        for setting in ALL {
            for name in std::iter::once(&setting.name).chain(setting.aliases) {
                assert!(seen.insert(*name), "{name} is there twice");
            }
        }
    }

    #[test]
    fn the_own_name_counts_before_aliases_and_empty_is_not_set() {
        let both = |name: &str| match name {
            "ACC_DEVICE_NUM" => Some("3".to_owned()),
            "PGI_ACC_DEVICE_NUM" => Some("5".to_owned()),
            _ => None,
        };
        assert_eq!(ACC_DEVICE_NUM.find(both), Some(("ACC_DEVICE_NUM", "3".to_owned())));
        let alias = |name: &str| match name {
            "ACC_DEVICE_NUM" => Some(" ".to_owned()),
            "PGI_ACC_DEVICE_NUM" => Some("5".to_owned()),
            _ => None,
        };
        assert_eq!(ACC_DEVICE_NUM.in_force(alias), ("5".to_owned(), SettingSource::Environment("PGI_ACC_DEVICE_NUM")));
        assert_eq!(ACC_DEVICE_NUM.in_force(|_| None), ("0".to_owned(), SettingSource::Default));
    }

    #[test]
    fn bytes_are_read_with_and_without_suffix() {
        assert_eq!(parse_bytes("4096"), Some(4096));
        assert_eq!(parse_bytes(" 512K"), Some(512 << 10));
        assert_eq!(parse_bytes("64 MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("2g"), Some(2 << 30));
        assert_eq!(parse_bytes("1T"), Some(1 << 40));
        for bad in ["", "G", "1X", "-1", "1.5G", "99999999999T"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }
}
