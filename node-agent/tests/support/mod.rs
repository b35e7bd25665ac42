//! A coordinator in this process, and agents as processes of their own.
// Each test binary uses a part of it.
#![allow(dead_code)]

use accord_cluster::Limits;
use accord_coordinator::Background;
use accord_fabric::frame::session::Message;
use accord_fabric::handshake::{self, Hello, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::session_endpoint::SessionConnection;
use accord_fabric::transport::{PeerAddress, SharedLane};
use accord_fabric::{Key, session_endpoint};
use accord_proto::channel;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::{VERSION, v1};
use accord_trust::issue::Authority;
use accord_trust::{Role, Trust};
use accord_types::{Lease, OrderPolicy, Result, SessionId, SessionRequest};
use nix::unistd::{User, geteuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A time limit that nothing here reaches.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Interval between two requested views.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Validity of certificates.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// A coordinator and the cluster's authority.
pub(crate) struct Cluster {
    pub(crate) coordinator: Background,
    pub(crate) authority: Authority,
    pub(crate) dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub(crate) fn with_limits(limits: Limits) -> Self {
        let authority = Authority::new("tests", HOUR).unwrap();
        let own = authority.identity(Role::Coordinator, HOUR).unwrap();
        let coordinator = Background::start("127.0.0.1:0".parse().unwrap(), own, limits).unwrap();
        Self { coordinator, authority, dir: tempfile::tempdir().unwrap() }
    }

    /// Kills the coordinator and starts another one at its address.
    pub(crate) fn restart_coordinator(self) -> Self {
        let Self { coordinator, authority, dir } = self;
        let address = coordinator.address();
        drop(coordinator);
        let own = authority.identity(Role::Coordinator, HOUR).unwrap();
        let coordinator = Background::start(address, own, Limits::default()).unwrap();
        Self { coordinator, authority, dir }
    }

    /// Returns the coordinator, as reached by an administrator.
    fn reach(&self) -> channel::Coordinator {
        self.reach_as(Role::Admin("tests".into()))
    }

    /// Returns the coordinator, as reached by a role.
    pub(crate) fn reach_as(&self, role: Role) -> channel::Coordinator {
        let own = self.authority.identity(role, HOUR).unwrap();
        channel::Coordinator::new(&self.coordinator.address().to_string(), Arc::new(Trust::fixed(own)), SOON)
    }

    /// Creates a folder with a certificate.
    pub(crate) fn tls(&self, role: &Role) -> PathBuf {
        let folder = self.dir.path().join(role.to_string());
        if !folder.exists() {
            self.authority.issue_into(&folder, role.clone(), HOUR).unwrap();
        }
        folder
    }

    pub(crate) fn command(&self, node: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_accord-node-agent"));
        command
            .args(["--coordinator", &self.coordinator.address().to_string()])
            .args(["--node", node, "--gpus", "off", "--cpu-devices", "2", "--cpu-memory", "16M"])
            .args(["--users", "root", "--listen", "127.0.0.1:0", "--tls"])
            .arg(self.tls(&Role::Agent(node.to_owned())))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts an agent, and waits until it has registered.
    pub(crate) fn agent(&self, node: &str) -> Agent {
        let agent = Agent::start(self.command(node));
        // The coordinator registers the agent before the agent has the answer. Lanes wait for that.
        self.until(|view| view.nodes.iter().any(|n| n.name == node && n.state == up()));
        agent
    }

    pub(crate) fn view(&self) -> v1::ClusterView {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = ClusterClient::new(self.reach().connect(|endpoint| endpoint).await.unwrap());
            let request = v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() };
            client.describe(request).await.unwrap().into_inner()
        })
    }

    /// Requests views until one satisfies `wanted`.
    pub(crate) fn until(&self, wanted: impl Fn(&v1::ClusterView) -> bool) -> v1::ClusterView {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut client = ClusterClient::new(self.reach().connect(|endpoint| endpoint).await.unwrap());
            let mut last = v1::ClusterView::default();
            let found = tokio::time::timeout(SOON, async {
                loop {
                    let request = v1::DescribeRequest { version: VERSION, ..v1::DescribeRequest::default() };
                    last = client.describe(request).await.unwrap().into_inner();
                    if wanted(&last) {
                        return;
                    }
                    tokio::time::sleep(POLL_EVERY).await;
                }
            });
            let found = found.await;
            assert!(found.is_ok(), "it never came so far: {last:#?}");
            last
        })
    }

    pub(crate) fn open(&self, node_name: &str) -> (Lease, SessionConnection) {
        let request = SessionRequest {
            node_name: node_name.into(),
            pid: std::process::id(),
            program: "app".into(),
            rank: None,
            kind: None,
            order: OrderPolicy::Local,
            devices: None,
            job: None,
        };
        let own = self.authority.identity(Role::Tenant(user_name()), HOUR).unwrap();
        let address = PeerAddress::new(self.coordinator.address());
        let (lease, connection) = session_endpoint::open(&address, &own, SOON, &request).unwrap();
        // Announces the session to the agents.
        for device in &lease.devices {
            connection.ask_use(device.info.id);
            assert!(matches!(connection.next().unwrap(), Some(Message::UseAnswered { error: None, .. })));
        }
        (lease, connection)
    }
}

/// Returns this user's name, as in sessions and rules.
fn user_name() -> String {
    User::from_uid(geteuid()).ok().flatten().map_or_else(|| geteuid().to_string(), |user| user.name)
}

/// Opens a command lane to the agent of the lease's first device.
pub(crate) fn command_lane(lease: &Lease) -> Result<SharedLane> {
    lane(&PeerAddress::new(&*lease.devices[0].address), Purpose::Command, lease)
}

/// Opens a lane of the lease's session.
pub(crate) fn lane(address: &PeerAddress, purpose: Purpose, lease: &Lease) -> Result<SharedLane> {
    lane_with(address, purpose, lease.session, &lease.key.into())
}

/// Opens a lane of a peer with this key.
pub(crate) fn lane_with(address: &PeerAddress, purpose: Purpose, session: SessionId, key: &Key) -> Result<SharedLane> {
    handshake::connect(address, &Hello::new(purpose, session, 0, PeerId::PROGRAM), key, SOON)
}

/// A running agent, killed on drop.
pub(crate) struct Agent {
    pub(crate) child: Child,
    pub(crate) address: PeerAddress,
}

impl Agent {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = PeerAddress::new(line.trim().rsplit(' ').next().unwrap());
        assert!(address.as_str().contains(':'), "{line:?}");
        Self { child, address }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let process = handle(self.child.id()).unwrap();
        assert!(ends_within(&process, SOON), "the agent does not end");
        self.child.wait().unwrap()
    }

    /// Whether the agent has a child: a keeper, or a process that is about to become one.
    pub(crate) fn has_children(&self) -> bool {
        !children(self.child.id()).is_empty()
    }

    /// Returns its executors' processes.
    pub(crate) fn executors(&self) -> Vec<u32> {
        let keepers = children(self.child.id()).into_iter().filter(|child| is(*child, b"keeper"));
        keepers.flat_map(children).filter(|child| is(*child, b"executor")).collect()
    }

    /// Waits for `count` executors and returns their processes: a lane is accepted before its session's executor has
    /// started.
    pub(crate) fn await_executors(&self, count: usize) -> Vec<u32> {
        let limit = Instant::now() + SOON;
        loop {
            let executors = self.executors();
            if executors.len() == count {
                return executors;
            }
            assert!(Instant::now() < limit, "not {count} executors: {executors:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for its only executor.
    pub(crate) fn executor(&self) -> (u32, OwnedFd) {
        let executor = self.await_executors(1)[0];
        (executor, handle(executor).unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn up() -> i32 {
    v1::NodeState::Up.into()
}

pub(crate) fn pid(raw: u32) -> Pid {
    Pid::from_raw(i32::try_from(raw).unwrap()).unwrap()
}

/// Returns a descriptor of this process, which stays valid if its number is reused.
pub(crate) fn handle(raw: u32) -> Option<OwnedFd> {
    pidfd_open(pid(raw), PidfdFlags::empty()).ok()
}

pub(crate) fn ends_within(process: &OwnedFd, time: Duration) -> bool {
    let timeout = Timespec::try_from(time).unwrap();
    poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout)).unwrap() > 0
}

fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|process| parent_of(*process) == Some(parent)).collect()
}

/// Whether this program runs in the process with `what` as its first argument.
fn is(process: u32, what: &[u8]) -> bool {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1).is_some_and(|argument| argument.starts_with(what))
}

/// Returns the parent of a process that is not a zombie.
fn parent_of(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}
