//! A cluster on this machine's loopback addresses, for the duration of a test.

use crate::agent_groups::{self, AgentCgroup, AgentGroup};
use crate::process::await_leftovers;
use crate::separate_hosts::{SeparateHosts, entered};
use crate::{ApiServer, Finished, Job, Result, Tool, libacc, tool};
use accord_trust::Role;
use accord_trust::issue::Authority;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid, User, geteuid};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time limit for agents to register.
const UP_TIMEOUT: Duration = Duration::from_secs(20);
/// Validity of certificates: longer than any test.
const CERTIFICATES_LAST: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval of checks of the cluster's state.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The parameters of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    hosts: u32,
    devices: u32,
    memory: String,
    gpus: Vec<u32>,
    environment: Vec<(String, OsString)>,
    tenant: Option<u32>,
    other_tenants: Vec<u32>,
    folder_in: Option<PathBuf>,
    agents_of: Option<u32>,
    users: String,
    monitored: bool,
    advertised: Option<(usize, String)>,
    listen: Option<String>,
    labels: Vec<String>,
    insecure: [bool; 2],
    known_by: IdentifiedBy,
    taken: Option<String>,
    preload: Option<PathBuf>,
    agents_libacc: Option<PathBuf>,
    cgroup: AgentCgroup,
    coordinator_at: Option<String>,
    further_coordinator: Option<String>,
    separate: Option<Arc<SeparateHosts>>,
}

/// The means by which the coordinator identifies programs.
#[derive(Clone, Debug)]
enum IdentifiedBy {
    Certificates,
    /// Without certificates: the operating system identifies processes at a UNIX socket.
    System,
    /// MUNGE, whose daemon listens at this socket.
    Munge(PathBuf),
    /// Kubernetes' API server, by the token in this file.
    Token(PathBuf),
}

impl ClusterBuilder {
    /// Sets the number of hosts, each with an agent.
    #[must_use]
    pub fn hosts(mut self, hosts: u32) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the number of CPU devices of each host.
    #[must_use]
    pub fn devices(mut self, devices: u32) -> Self {
        self.devices = devices;
        self
    }

    /// Sets the number of GPUs of each host. The tests' own driver must be in the environment's `LD_LIBRARY_PATH`.
    #[must_use]
    pub fn gpus(mut self, gpus: &[u32]) -> Self {
        gpus.clone_into(&mut self.gpus);
        self
    }

    /// Sets a variable in the environment of coordinator, agents and programs.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the user in the programs' certificates, who owns all sessions; by default this process's own.
    #[must_use]
    pub fn tenant(mut self, user: u32) -> Self {
        self.tenant = Some(user);
        self
    }

    /// Adds users with certificates, in the folders that [`Cluster::tls_of`] names `program-` and the user's number.
    #[must_use]
    pub fn other_tenants(mut self, users: &[u32]) -> Self {
        users.clone_into(&mut self.other_tenants);
        self
    }

    /// Puts certificates and messages into this folder instead of the system's temporary one.
    #[must_use]
    pub fn folder_in(mut self, parent: &Path) -> Self {
        self.folder_in = Some(parent.to_owned());
        self
    }

    /// Sets the user that agents run as.
    #[must_use]
    pub fn agents_of(mut self, user: u32) -> Self {
        self.agents_of = Some(user);
        self
    }

    /// Sets the address that the coordinator listens at, with any port.
    #[must_use]
    pub fn coordinator_at(mut self, address: &str) -> Self {
        self.coordinator_at = Some(address.to_owned());
        self
    }

    /// Another coordinator, which the test starts: agents, programs and commands have its address, too.
    #[must_use]
    pub fn further_coordinator(mut self, address: &str) -> Self {
        self.further_coordinator = Some(address.to_owned());
        self
    }

    /// Each agent is on a host of its own, and so are programs. There are at least as many of these hosts.
    #[must_use]
    pub fn on_hosts(mut self, hosts: &Arc<SeparateHosts>) -> Self {
        self.coordinator_at = Some(hosts.coordinator_address());
        self.separate = Some(hosts.clone());
        self
    }

    /// Hides control groups of version 2 from agents, as in many containers. Requires root.
    #[must_use]
    pub fn without_cgroups(mut self) -> Self {
        self.cgroup = AgentCgroup::Hidden;
        self
    }

    /// Starts each agent in a control group of its own, so that the kernel can limit sessions, if this machine permits.
    #[must_use]
    pub fn own_cgroups(mut self) -> Self {
        self.cgroup = AgentCgroup::Own;
        self
    }

    /// Sets the users whose sessions agents of root run, see `--users`.
    #[must_use]
    pub fn users(mut self, rules: &str) -> Self {
        rules.clone_into(&mut self.users);
        self
    }

    /// Sets the memory of each CPU device: `512M`.
    #[must_use]
    pub fn memory(mut self, memory: &str) -> Self {
        memory.clone_into(&mut self.memory);
        self
    }

    /// Makes coordinator and agents serve metrics.
    #[must_use]
    pub fn monitored(mut self) -> Self {
        self.monitored = true;
        self
    }

    /// Sets the advertised address of a host's agent, where a proxy listens.
    #[must_use]
    pub fn advertise(mut self, host: usize, address: &str) -> Self {
        self.advertised = Some((host, address.to_owned()));
        self
    }

    /// Sets the labels of each host's node.
    #[must_use]
    pub fn labels(mut self, labels: &[&str]) -> Self {
        self.labels = labels.iter().map(|&labels| labels.to_owned()).collect();
        self
    }

    /// Sets an address of this machine for all agents, instead of a loopback address for each.
    #[must_use]
    pub fn listen(mut self, address: &str) -> Self {
        self.listen = Some(address.to_owned());
        self
    }

    /// Sets whether the coordinator, and the agents, have `--insecure-plain-tcp`.
    #[must_use]
    pub fn insecure(mut self, coordinator: bool, agents: bool) -> Self {
        self.insecure = [coordinator, agents];
        self
    }

    /// Uses no certificates: coordinator and agents connect at a UNIX socket, where the system identifies the owners of
    /// processes.
    #[must_use]
    pub fn known_by_system(mut self) -> Self {
        self.known_by = IdentifiedBy::System;
        self
    }

    /// Gives programs no certificate: MUNGE's daemon at this socket attests their users.
    #[must_use]
    pub fn known_by_munge(mut self, socket: &Path) -> Self {
        self.known_by = IdentifiedBy::Munge(socket.to_owned());
        self
    }

    /// Gives programs no certificate: this API server attests the owner of the token in a file.
    #[must_use]
    pub fn known_by_token(mut self, server: &ApiServer, token: &Path) -> Self {
        self.known_by = IdentifiedBy::Token(token.to_owned());
        self.env("ACCORD_TOKEN_REVIEW", server.address()).env("ACCORD_TOKEN_REVIEW_ACCOUNT", server.account())
    }

    /// Sets whom the coordinator accepts without a certificate, see its `--users`.
    #[must_use]
    pub fn taken(mut self, rules: &str) -> Self {
        self.taken = Some(rules.to_owned());
        self
    }

    /// Sets an object that the coordinator, agents and programs preload.
    #[must_use]
    pub fn preload(mut self, object: &Path) -> Self {
        self.preload = Some(object.to_owned());
        self
    }

    /// Has agents put this libacc.so before workers, in place of the one that was built.
    #[must_use]
    pub fn agents_libacc(mut self, library: &Path) -> Self {
        self.agents_libacc = Some(library.to_owned());
        self
    }

    /// Returns the variables of processes on a host, in addition to this process's environment.
    fn environment(&self, host: usize) -> Vec<(String, OsString)> {
        let mut environment = Vec::new();
        if let Some(gpus) = self.gpus.get(host) {
            // Variables with this prefix reach executors of other users, too.
            environment.push(("NVIDIA_FAKE_CUDA_DEVICES".to_owned(), gpus.to_string().into()));
            environment.push(("NVIDIA_FAKE_CUDA_UUID_SEED".to_owned(), host.to_string().into()));
        }
        environment.extend(self.environment.iter().cloned());
        environment
    }

    /// Starts the cluster and waits until all devices are present.
    ///
    /// # Errors
    /// Returns the name of the process that did not start.
    pub fn start(self) -> Result<Cluster> {
        Cluster::start(self)
    }
}

/// A coordinator and agents, which end on drop.
pub struct Cluster {
    size: ClusterBuilder,
    folder: TempDir,
    address: String,
    coordinator: Option<Part>,
    agents: Vec<Option<Part>>,
    /// Ports of the last agents; 0 before the first.
    ports: Vec<u16>,
    /// The control groups of present and former agents, where they have own ones.
    groups: Vec<AgentGroup>,
    mark: String,
}

/// A process of the cluster, which ends with its standard input.
struct Part {
    child: Child,
    stderr: PathBuf,
    /// The address at which it listens.
    address: String,
    /// The address of its metrics.
    monitored: Option<String>,
}

impl Cluster {
    /// Returns the default: 1 host with 1 device of 512 MiB.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder {
            hosts: 1,
            devices: 1,
            memory: "512M".to_owned(),
            gpus: Vec::new(),
            environment: Vec::new(),
            tenant: None,
            other_tenants: Vec::new(),
            folder_in: None,
            agents_of: None,
            // Tests may run as root, so their programs may, too.
            users: "root,0".to_owned(),
            monitored: false,
            advertised: None,
            listen: None,
            labels: Vec::new(),
            insecure: [false; 2],
            known_by: IdentifiedBy::Certificates,
            taken: None,
            preload: None,
            agents_libacc: None,
            cgroup: AgentCgroup::Inherited,
            coordinator_at: None,
            further_coordinator: None,
            separate: None,
        }
    }

    fn start(size: ClusterBuilder) -> Result<Self> {
        let folder = size.folder_in.as_ref().map_or_else(TempDir::new, TempDir::new_in);
        let folder = folder.map_err(|error| error.to_string())?;
        let authority = Authority::new("tests", CERTIFICATES_LAST).map_err(|error| error.to_string())?;
        let issue = |name: &str, role: Role, user: Option<u32>| {
            let to = folder.path().join("tls").join(name);
            authority.issue_into(&to, role, CERTIFICATES_LAST).map_err(|error| error.to_string())?;
            user.map_or(Ok(()), |user| give(&to, user))
        };
        issue("coordinator", Role::Coordinator, None)?;
        issue("admin", Role::Admin("tests".to_owned()), None)?;
        issue("program", Role::Tenant(user_name(size.tenant)), size.tenant)?;
        for user in size.other_tenants.iter().copied() {
            issue(&format!("program-{user}"), Role::Tenant(user_name(Some(user))), Some(user))?;
        }
        for host in 0..size.hosts {
            issue(&format!("h{host}"), Role::Agent(format!("h{host}")), size.agents_of)?;
        }
        let everybody = folder.path().join("tls/everybody");
        std::fs::create_dir(&everybody).map_err(|error| error.to_string())?;
        std::fs::copy(folder.path().join("tls/program/ca.crt"), everybody.join("ca.crt"))
            .map_err(|error| error.to_string())?;
        // Programs of any user connect.
        let open = !matches!(size.known_by, IdentifiedBy::Certificates);
        if open {
            enter(&everybody)?;
            std::fs::set_permissions(everybody.join("ca.crt"), Permissions::from_mode(0o644))
                .map_err(|error| error.to_string())?;
        }
        if size.tenant.or(size.agents_of).is_some() || open {
            enter(folder.path())?;
            enter(&folder.path().join("tls"))?;
        }
        let mark = format!("cluster.{}.{}", std::process::id(), folder.path().display());
        let agents = (0..size.hosts).map(|_| None).collect();
        let address = match size.known_by {
            IdentifiedBy::System => format!("unix:{}", folder.path().join("coordinator").display()),
            IdentifiedBy::Certificates | IdentifiedBy::Munge(_) | IdentifiedBy::Token(_) => {
                format!("{}:0", size.coordinator_at.as_deref().unwrap_or("127.0.0.1"))
            }
        };
        let ports = (0..size.hosts).map(|_| 0).collect();
        let mut cluster = Self { size, folder, address, coordinator: None, agents, ports, groups: Vec::new(), mark };
        cluster.start_coordinator()?;
        for host in 0..cluster.agents.len() {
            cluster.start_agent(host)?;
        }
        let gpus: u32 = cluster.size.gpus.iter().sum();
        cluster.await_devices(gpus + cluster.size.hosts * cluster.size.devices)?;
        Ok(cluster)
    }

    /// The addresses of all coordinators.
    pub fn addresses(&self) -> String {
        self.size.further_coordinator.iter().fold(self.address.clone(), |all, further| format!("{all},{further}"))
    }

    /// The coordinator's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the folder with the certificates of programs.
    pub fn tls(&self) -> PathBuf {
        self.tls_of("program")
    }

    /// Returns the folder with the certificates of the coordinator, a host's agent or an administrator (`admin`).
    pub fn tls_of(&self, part: &str) -> PathBuf {
        self.folder.path().join("tls").join(part)
    }

    /// Returns the variables with a program's credentials for the coordinator.
    fn displayed(&self) -> Vec<(String, OsString)> {
        let folder = |name: &str| ("ACCORD_TLS".to_owned(), self.tls_of(name).into_os_string());
        match &self.size.known_by {
            IdentifiedBy::Certificates => vec![folder("program")],
            IdentifiedBy::System => Vec::new(),
            IdentifiedBy::Munge(socket) => vec![folder("everybody"), ("ACCORD_MUNGE".to_owned(), socket.into())],
            IdentifiedBy::Token(file) => vec![folder("everybody"), ("ACCORD_TOKEN_FILE".to_owned(), file.into())],
        }
    }

    /// Returns the variables with an administrator's credentials, who sees the sessions of all users.
    fn shown_by_admin(&self) -> Vec<(String, OsString)> {
        match &self.size.known_by {
            IdentifiedBy::Certificates | IdentifiedBy::Token(_) => {
                vec![("ACCORD_TLS".to_owned(), self.tls_of("admin").into_os_string())]
            }
            IdentifiedBy::System | IdentifiedBy::Munge(_) => self.displayed(),
        }
    }

    /// Returns the name of a host.
    pub fn host(&self, host: usize) -> String {
        format!("h{host}")
    }

    /// Returns the process number of the coordinator.
    pub fn coordinator_id(&self) -> Option<u32> {
        self.coordinator.as_ref().map(|part| part.child.id())
    }

    /// Returns the process number of a host's agent.
    pub fn agent_id(&self, host: usize) -> Option<u32> {
        self.agents.get(host)?.as_ref().map(|part| part.child.id())
    }

    /// Returns the process numbers of a host's executors, of all users: children of keepers, which are the agent's
    /// children.
    pub fn executors(&self, host: usize) -> Vec<u32> {
        let is = |id: u32, what: &[u8]| {
            let command = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            command.split(|byte| *byte == 0).nth(1).is_some_and(|argument| argument.starts_with(what))
        };
        let keepers = self.agent_id(host).map(children).unwrap_or_default().into_iter().filter(|id| is(*id, b"keeper"));
        keepers.flat_map(children).filter(|id| is(*id, b"executor")).collect()
    }

    /// Returns the file with a part's standard error; `None` is the coordinator.
    pub fn log(&self, host: Option<usize>) -> Option<&Path> {
        let part = host.map_or(&self.coordinator, |host| &self.agents[host]);
        part.as_ref().map(|part| part.stderr.as_path())
    }

    /// Returns the address of a host's agent.
    pub fn agent_address(&self, host: usize) -> Option<&str> {
        self.agents.get(host)?.as_ref().map(|part| part.address.as_str())
    }

    /// Returns the address of a part's metrics; `None` is the coordinator.
    pub fn monitored(&self, host: Option<usize>) -> Option<&str> {
        let part = host.map_or(self.coordinator.as_ref(), |host| self.agents.get(host)?.as_ref());
        part?.monitored.as_deref()
    }

    /// Sets a variable of all processes that are started from now on.
    pub fn set_environment(&mut self, name: &str, value: &str) {
        self.size.environment.retain(|(known, _)| known != name);
        self.size.environment.push((name.to_owned(), value.into()));
    }

    /// Starts the coordinator, at the same address if it was killed.
    ///
    /// # Errors
    /// Returns an error if it doesn't start.
    pub fn start_coordinator(&mut self) -> Result<()> {
        let mut command = Command::new(tool(Tool::Coordinator)?);
        command.args(self.size.insecure[0].then_some("--insecure-plain-tcp"));
        match (self.address.strip_prefix("unix:"), &self.size.known_by) {
            (Some(path), _) => command.args(["--socket", path]),
            (None, IdentifiedBy::Munge(socket)) => command.args(["--listen", &self.address]).arg("--munge").arg(socket),
            (None, _) => command.args(["--listen", &self.address]),
        };
        command.args(self.size.taken.iter().flat_map(|rules| ["--users", rules]));
        command.envs(self.size.environment.iter().cloned());
        let (part, line) = self.part(command, "coordinator", None)?;
        self.address = last_word(&line)?;
        self.coordinator = Some(part);
        Ok(())
    }

    /// Starts a host's agent, also after it was killed.
    ///
    /// # Errors
    /// Returns an error if it doesn't start.
    pub fn start_agent(&mut self, host: usize) -> Result<()> {
        let mut command = self.agent_command()?;
        let separate = self.size.separate.as_ref().map(|hosts| hosts.address(host));
        let own = separate.unwrap_or_else(|| format!("127.0.0.{}", host + 2));
        let listen = self.size.listen.as_ref().unwrap_or(&own);
        command
            .args(["--coordinator", &self.addresses()])
            .args(["--listen", &format!("{listen}:{}", self.ports[host])])
            .args(self.size.insecure[1].then_some("--insecure-plain-tcp"))
            .args(["--node", &self.host(host)])
            .args(["--users", &self.size.users])
            .args(self.size.labels.get(host).into_iter().flat_map(|labels| ["--labels", labels]))
            .args(self.size.gpus.is_empty().then_some(["--gpus", "off"]).into_iter().flatten())
            // Tests count processes and memory. Tests of measurements enable them.
            .env("ACCORD_MEASURE", "off")
            .env(
                "ACCORD_KEEP",
                if self.size.agents_of.is_some() {
                    "off".into()
                } else {
                    self.folder.path().join(format!("kept-{host}"))
                },
            )
            .envs(self.size.environment(host))
            .args(["--cpu-devices", &self.size.devices.to_string()])
            .args(["--cpu-memory", &self.size.memory])
            .arg("--libacc")
            .arg(self.size.agents_libacc.clone().map_or_else(libacc, Ok)?);
        if let Some((_, address)) = self.size.advertised.as_ref().filter(|(of, _)| *of == host) {
            command.args(["--advertise", address]);
        }
        if let Some(user) = self.size.agents_of {
            command.uid(user).gid(user);
        }
        let (part, _) = self.part(command, &self.host(host), Some(host))?;
        let port = part.address.rsplit(':').next().and_then(|port| port.parse().ok());
        self.ports[host] = port.ok_or_else(|| format!("{} has no port", part.address))?;
        self.agents[host] = Some(part);
        Ok(())
    }

    /// Returns the command that starts an agent in its control group.
    fn agent_command(&mut self) -> Result<Command> {
        const HIDDEN: &[&str] = &["unshare", "-m", "sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\""];
        const OWN: &[&str] = &["sh", "-c", "echo $$ > \"$0\" && exec \"$@\""];
        let agent = tool(Tool::NodeAgent)?;
        let entered = match self.size.cgroup {
            AgentCgroup::Inherited => None,
            AgentCgroup::Hidden => agent_groups::mounted().map(|mount| (HIDDEN, mount)),
            AgentCgroup::Own => {
                // A killed agent leaves groups below its own, which then takes no process.
                self.groups.extend(AgentGroup::new());
                self.groups.last().map(|group| (OWN, group.processes()))
            }
        };
        let Some((shell, path)) = entered else { return Ok(Command::new(agent)) };
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(path).arg(agent);
        Ok(command)
    }

    /// Kills a host's agent with SIGKILL.
    pub fn kill_agent(&mut self, host: usize) {
        if let Some(mut part) = self.agents[host].take() {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
    }

    /// Kills the coordinator with SIGKILL.
    pub fn kill_coordinator(&mut self) {
        if let Some(mut part) = self.coordinator.take() {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
    }

    /// Stops a part with SIGTERM and returns its exit code; `None` is the coordinator.
    ///
    /// # Errors
    /// Returns an error if it isn't running or doesn't end.
    pub fn terminate(&mut self, host: Option<usize>) -> Result<i32> {
        let part = match host {
            Some(host) => self.agents[host].take(),
            None => self.coordinator.take(),
        };
        let mut part = part.ok_or("not running")?;
        let id = i32::try_from(part.child.id()).map_err(|error| error.to_string())?;
        kill(Pid::from_raw(id), Signal::SIGTERM).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + UP_TIMEOUT;
        loop {
            if let Some(status) = part.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status.code().unwrap_or(-1));
            }
            if Instant::now() > deadline {
                let _ = part.child.kill();
                let _ = part.child.wait();
                return Err("did not end on SIGTERM".to_owned());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns a program with the cluster's devices, with libacc preloaded, as if on host `host`.
    ///
    /// # Errors
    /// Returns an error if libacc.so can't be built.
    pub fn job(&self, host: usize, program: &Path) -> Result<Job> {
        let mut preload = libacc()?.into_os_string();
        if let Some(object) = &self.size.preload {
            preload.push(":");
            preload.push(object);
        }
        Ok(self.job_of(host, None, &[program.into()])?.env("LD_PRELOAD", preload))
    }

    /// Returns a command on a host, as `user` if given, with the variables that programs need to reach the cluster.
    ///
    /// # Errors
    /// Returns an error if libacc.so can't be built.
    pub fn job_of(&self, host: usize, user: Option<u32>, command: &[OsString]) -> Result<Job> {
        let job = self.command(Some(host), user, command);
        let job = self.size.environment(host).into_iter().fold(job, |job, (name, value)| job.env(&name, value));
        Ok(job
            .env("ACCORD_LIBACC", libacc()?)
            .env("ACCORD_COORDINATOR", self.addresses())
            .envs(self.displayed())
            .env("ACCORD_NODE", self.host(host))
            .env("ACCORD_CPU_DEVICES", self.size.devices.to_string())
            .env("ACCORD_CPU_MEMORY", &self.size.memory)
            .env("ACCORD_TEST_SEPARATE", "1"))
    }

    /// Returns a command on a host; `None` is the coordinator's.
    fn command(&self, host: Option<usize>, user: Option<u32>, command: &[OsString]) -> Job {
        match &self.size.separate {
            Some(hosts) => {
                let entry = hosts.entry(host, user);
                Job::new(&entry[0]).args(&entry[1..]).arg("--").args(command)
            }
            None => {
                let job = Job::new(&command[0]).args(&command[1..]);
                user.into_iter().fold(job, Job::user)
            }
        }
    }

    /// Returns `accord` with certificates of [`Cluster::tls_of`].
    ///
    /// # Errors
    /// Returns an error if it can't be built.
    pub fn accord_as(&self, who: &str) -> Result<Job> {
        let job = self.command(None, None, &[tool(Tool::Accord)?.into()]).env("ACCORD_COORDINATOR", self.addresses());
        Ok(job.env("ACCORD_TLS", self.tls_of(who)).env("ACCORD_NODE", self.host(0)))
    }

    /// Waits until coordinator and agents have ended by themselves.
    ///
    /// # Errors
    /// Returns an error if they don't within 20 s.
    pub fn await_ended(&mut self) -> Result<()> {
        await_parts(self.agents.iter_mut().chain([&mut self.coordinator]).flatten())
    }

    /// Waits until the coordinator has ended by itself.
    ///
    /// # Errors
    /// Returns an error if it doesn't within 20 s.
    pub fn await_coordinator_ended(&mut self) -> Result<()> {
        await_parts(self.coordinator.iter_mut())
    }

    /// Returns the output of `accord info --json`.
    ///
    /// # Errors
    /// Returns an error if it fails or isn't JSON.
    pub fn info(&self) -> Result<Value> {
        let job = self.command(None, None, &[tool(Tool::Accord)?.into()]);
        let job = self.size.environment(0).into_iter().fold(job, |job, (name, value)| job.env(&name, value));
        let finished: Finished = job
            .args(["info", "--json"])
            .env("ACCORD_COORDINATOR", self.addresses())
            .envs(self.shown_by_admin())
            .env("ACCORD_NODE", self.host(0))
            .run()?
            .success()?;
        serde_json::from_str(&finished.stdout).map_err(|error| format!("{error}: {}", finished.stdout))
    }

    /// Waits until `accord info` shows this many usable devices.
    ///
    /// # Errors
    /// Returns an error if it doesn't within 20 s.
    pub fn await_devices(&self, devices: u32) -> Result<()> {
        self.await_info(&format!("{devices} devices"), |info| {
            let usable = |rows: &Vec<Value>| rows.iter().filter(|row| !row["num"].is_null()).count();
            info["devices"].as_array().map(usable) == Some(devices as usize)
        })
    }

    /// Waits until `accord info` satisfies a condition.
    ///
    /// # Errors
    /// Returns an error if that takes more than 20 s, with the standard error of the parts.
    pub fn await_info(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Result<()> {
        let deadline = Instant::now() + UP_TIMEOUT;
        loop {
            let info = self.info();
            if info.as_ref().is_ok_and(&condition) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let displayed = info.map_or_else(|error| error, |info| info.to_string());
                return Err(format!("waited in vain for {what}: {displayed}\n{}", self.messages()));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the processes of the cluster, executors and workers included, that are still there after `timeout`.
    pub fn processes_besides_parts(&self, timeout: Duration) -> Vec<String> {
        let parts: Vec<String> = self
            .agents
            .iter()
            .chain([&self.coordinator])
            .flatten()
            .map(|part| format!("{} ", part.child.id()))
            .collect();
        let deadline = Instant::now() + timeout;
        loop {
            let mut left = crate::leftovers(&self.mark);
            left.retain(|line| !parts.iter().any(|part| line.starts_with(part.as_str())));
            // An agent asks for the load of its GPUs by a process for its whole life.
            left.retain(|line| !line.contains(" accord-node-agent gpu-loads "));
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns executors of all hosts, and processes that run `program`, its workers among them, of all users: other
    /// users' processes do not carry the cluster's mark. Waits until there are none, and returns the remaining ones
    /// after `timeout`.
    pub fn processes_of(&self, program: &Path, timeout: Duration) -> Vec<String> {
        let deadline = Instant::now() + timeout;
        loop {
            let executors = (0..self.agents.len()).flat_map(|host| self.executors(host));
            let mut left: Vec<String> = executors.map(|id| format!("{id} executor")).collect();
            left.extend(running(program));
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until the parts' standard error satisfies `seen`, and returns it. A part logs on a thread of its own, so a
    /// program may end before the message about it is written.
    ///
    /// # Errors
    /// Returns the messages so far if that takes longer than a minute.
    pub fn await_messages(&self, seen: impl Fn(&str) -> bool) -> Result<String> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let messages = self.messages();
            if seen(&messages) {
                return Ok(messages);
            }
            if Instant::now() >= deadline {
                return Err(format!("a message did not come:\n{messages}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the standard error of all parts.
    pub fn messages(&self) -> String {
        let parts = self.agents.iter().chain([&self.coordinator]).flatten();
        parts.map(|part| std::fs::read_to_string(&part.stderr).unwrap_or_default()).collect()
    }

    /// Starts a part on a host; `None` is the coordinator's.
    fn part(&self, command: Command, name: &str, host: Option<usize>) -> Result<(Part, String)> {
        let mut command = match &self.size.separate {
            Some(hosts) => entered(&hosts.entry(host, None), &command),
            None => command,
        };
        let stderr = self.folder.path().join(format!("{name}.err"));
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&stderr)
            .map_err(|error| format!("{}: {error}", stderr.display()))?;
        if !self.address.starts_with("unix:") {
            command.arg("--tls").arg(self.tls_of(name));
        }
        command
            .arg("--stop-on-stdin-eof")
            .args(self.size.monitored.then_some("--metrics-listen=127.0.0.1:0"))
            .env_remove("LD_PRELOAD")
            .envs(self.size.preload.iter().map(|object| ("LD_PRELOAD", object)))
            .env("ACCORD_TEST_RUN", &self.mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file);
        let mut child = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        let (mut line, mut monitored) = (String::new(), String::new());
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = BufReader::new(stdout);
            let _ = stdout.read_line(&mut line);
            if self.size.monitored {
                let _ = stdout.read_line(&mut monitored);
            }
            // Further output must not fill the pipe.
            std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        }
        if line.is_empty() {
            let _ = child.kill();
            let _ = child.wait();
            let printed = std::fs::read_to_string(&stderr).unwrap_or_default();
            return Err(format!("{name} did not start: {printed}"));
        }
        let monitored = self.size.monitored.then(|| last_word(&monitored)).transpose()?;
        Ok((Part { child, stderr, address: last_word(&line)?, monitored }, line))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for part in self.agents.iter_mut().chain([&mut self.coordinator]).flatten() {
            let _ = part.child.kill();
            let _ = part.child.wait();
        }
        // Processes that agents started end by themselves; the others are killed.
        for left in await_leftovers(&self.mark, Duration::from_secs(3)) {
            if let Some(id) = left.split(' ').next().and_then(|id| id.parse().ok()) {
                let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
            }
        }
    }
}

fn await_parts<'a>(parts: impl Iterator<Item = &'a mut Part>) -> Result<()> {
    let deadline = Instant::now() + UP_TIMEOUT;
    for part in parts {
        while part.child.try_wait().map_err(|error| error.to_string())?.is_none() {
            if Instant::now() > deadline {
                return Err("coordinator or agents did not end".to_owned());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(())
}

fn children(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|text| text.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}

fn last_word(line: &str) -> Result<String> {
    line.split_whitespace().last().map(str::to_owned).ok_or_else(|| format!("no address in {line:?}"))
}

/// Makes a user the owner of a folder with certificates.
fn give(folder: &Path, user: u32) -> Result<()> {
    for file in ["ca.crt", "tls.crt", "tls.key", "."] {
        std::os::unix::fs::chown(folder.join(file), Some(user), Some(user)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Lets all users enter a folder.
fn enter(folder: &Path) -> Result<()> {
    std::fs::set_permissions(folder, Permissions::from_mode(0o755)).map_err(|error| error.to_string())
}

/// Returns a user's name as in certificates; by default this process's own user.
fn user_name(user: Option<u32>) -> String {
    let user = user.map_or_else(geteuid, Uid::from_raw);
    User::from_uid(user).ok().flatten().map_or_else(|| user.to_string(), |user| user.name)
}

/// Returns the processes with this executable.
fn running(program: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_it =
        |entry: &std::fs::DirEntry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program);
    entries.filter(is_it).map(|entry| format!("{} {}", entry.file_name().display(), program.display())).collect()
}
