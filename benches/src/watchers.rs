//! What 100 watchers of a cluster of 10,000 nodes cost its coordinator, as of `accord top` or the page: each reads the rows
//! of a screen somewhere in a table, whose changes come once a second.
//!
//! The coordinator runs in this process on a thread of its own, without agents' connections: their registrations and
//! heartbeats are given to its driver. Watchers have connections through TLS. Periods with and without watchers alternate.

use crate::report::Report;
use accord_cluster::{Input, Limits, LinkId};
use accord_coordinator::service::{
    Attestation, Driver, DriverSettings, Listeners, PROGRAM_LOST_AFTER, registration, serve,
};
use accord_proto::channel::Coordinator;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::{VERSION, v1};
use accord_trust::issue::Authority;
use accord_trust::name::Role;
use accord_trust::{Identity, Trust};
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;

const NODES: u32 = 10_000;
const DEVICES: u32 = 8;
const WATCHERS: u32 = 100;
/// Rows of a screen.
const ROWS: u32 = 50;
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// Agents send heartbeats as often as their number permits here; none is lost.
const LOST_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Nodes whose agents restart in a second, which changes their rows.
const CHANGES_A_SECOND: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);
/// Periods of each kind.
const ROUNDS: u32 = 4;
const SETTLE: Duration = Duration::from_secs(3);
const OUTBOX: usize = 1 << 15;
const CORE_MAX: f64 = 0.05;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench watchers");
    let authority = Authority::new("bench", LIFETIME).map_err(text)?;
    let identity = |role: Role| authority.identity(role, LIFETIME).map_err(text);
    let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).map_err(text)?;
    let address = listener.local_addr().map_err(text)?.to_string();
    let trust = Arc::new(Trust::fixed(identity(Role::Coordinator)?));
    let listeners =
        Listeners { tcp: Some((listener, trust)), local: None, page: None, program_lost_after: PROGRAM_LOST_AFTER };
    let limits = Limits {
        nodes_max: NODES as usize,
        devices_max: (NODES * DEVICES) as usize,
        lost_after_ms: u64::try_from(LOST_AFTER.as_millis()).map_err(text)?,
        ..Limits::default()
    };
    let driver = Arc::new(Driver::new(DriverSettings { limits, ..DriverSettings::default() }));
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let mut nodes = Nodes { driver: driver.clone(), outbox, messages, restarts: 0 };
    for node in 0..NODES {
        nodes.start(node)?;
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let served = driver.clone();
    let (begins, begun) = std::sync::mpsc::channel();
    let coordinator = std::thread::spawn(move || {
        let _ = begins.send(fs::read_link("/proc/thread-self"));
        let stop = async {
            let _ = stopped.await;
        };
        runtime.block_on(serve(&listeners, Attestation::default(), served, stop))
    });
    let thread = begun.recv().map_err(text)?.map_err(text)?;
    let thread = Path::new("/proc").join(thread);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        for watched in [false, true] {
            let identities = (0..if watched { WATCHERS } else { 0 }).map(|_| identity(Role::Admin("root".to_owned())));
            let watchers = Watchers::connect(&address, identities.collect::<Result<_, _>>()?)?;
            nodes.change_for(SETTLE)?;
            let (seen, begun, before) = (watchers.replies(), Instant::now(), ran_s(&thread)?);
            nodes.change_for(PERIOD)?;
            let used = (ran_s(&thread)? - before) / begun.elapsed().as_secs_f64();
            let replies = watchers.replies() - seen;
            watchers.end()?;
            if watched && replies < u64::from(WATCHERS) {
                return Err(format!("{WATCHERS} watchers had {replies} replies"));
            }
            // The first round is a warm-up.
            if round > 0 {
                if watched { with.push(used) } else { without.push(used) }
            }
        }
    }
    drop(stop);
    coordinator.join().map_err(|_| "the coordinator has panicked")?.map_err(text)?;
    report.put("watched", "of a core", with);
    report.put("not watched", "of a core", without);
    let cost = report.median("watched")? - report.median("not watched")?;
    report.at_most(&format!("{WATCHERS} watchers of {NODES} nodes"), cost, "core", CORE_MAX);
    Ok(report)
}

/// Agents of all nodes, without connections.
struct Nodes {
    driver: Arc<Driver>,
    outbox: mpsc::Sender<Result<v1::CoordinatorMessage, tonic::Status>>,
    messages: mpsc::Receiver<Result<v1::CoordinatorMessage, tonic::Status>>,
    restarts: u64,
}

impl Nodes {
    /// Registers a start of a node's agent.
    fn start(&mut self, node: u32) -> Result<LinkId, String> {
        self.restarts += 1;
        let device = |ordinal| v1::Device {
            id: Some(v1::DeviceRef { node: 0, ordinal }),
            node_name: format!("n{node}"),
            kind: v1::DeviceKind::Cpu.into(),
            name: "cpu".to_owned(),
            vendor: "bench".to_owned(),
            driver: "1".to_owned(),
            memory: 1 << 30,
            units: 16,
            ..v1::Device::default()
        };
        let register = v1::Register {
            version: VERSION,
            incarnation: self.restarts,
            node_name: format!("n{node}"),
            address: format!("127.0.0.1:{}", 10_000 + node),
            devices: (0..DEVICES).map(device).collect(),
            ..v1::Register::default()
        };
        let registration = registration(register, IpAddr::V4(Ipv4Addr::LOCALHOST)).map_err(text)?;
        let link = self.driver.add_agent(self.outbox.clone());
        self.driver.input(Input::Register { link, registration });
        while self.messages.try_recv().is_ok() {}
        Ok(link)
    }

    /// Restarts agents at a steady rate.
    fn change_for(&mut self, time: Duration) -> Result<(), String> {
        let begun = Instant::now();
        for number in 0.. {
            let due = begun + Duration::from_secs(1) * number / CHANGES_A_SECOND;
            if due > begun + time {
                break;
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.start(number * 97 % NODES)?;
        }
        Ok(())
    }
}

/// Watchers, on a thread of their own.
struct Watchers {
    stop: watch::Sender<()>,
    thread: std::thread::JoinHandle<Result<(), String>>,
    replies: Arc<AtomicU64>,
}

impl Watchers {
    fn connect(address: &str, identities: Vec<Identity>) -> Result<Self, String> {
        let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
        let mut clients = Vec::new();
        for identity in identities {
            let coordinator = Coordinator::new(address, Arc::new(Trust::fixed(identity)), CONNECT_MAX);
            clients.push(ClusterClient::new(runtime.block_on(coordinator.connect(|endpoint| endpoint)).map_err(text)?));
        }
        let (stop, stopped) = watch::channel(());
        let replies = Arc::<AtomicU64>::default();
        let counted = replies.clone();
        let thread = std::thread::spawn(move || {
            let look = |(client, at): (ClusterClient<_>, u32)| {
                runtime.spawn(look(client, at, counted.clone(), stopped.clone()))
            };
            let watchers: Vec<_> = clients.into_iter().zip(0..).map(look).collect();
            watchers.into_iter().try_for_each(|watcher| runtime.block_on(watcher).map_err(text)?)
        });
        Ok(Self { stop, thread, replies })
    }

    fn replies(&self) -> u64 {
        self.replies.load(Ordering::Relaxed)
    }

    fn end(self) -> Result<(), String> {
        drop(self.stop);
        self.thread.join().map_err(|_| "a watcher has panicked")?
    }
}

/// Reads rows until the period ends.
async fn look(
    mut client: ClusterClient<tonic::transport::Channel>,
    at: u32,
    replies: Arc<AtomicU64>,
    mut stopped: watch::Receiver<()>,
) -> Result<(), String> {
    let table = if at.is_multiple_of(2) { v1::WatchTable::Nodes } else { v1::WatchTable::Devices };
    let from = at * NODES / WATCHERS;
    let request =
        v1::WatchRequest { version: VERSION, table: table.into(), from, rows: ROWS, ..v1::WatchRequest::default() };
    let (requests, stream) = mpsc::channel(1);
    requests.send(request).await.map_err(text)?;
    let mut rows = client.watch(ReceiverStream::new(stream)).await.map_err(text)?.into_inner();
    loop {
        tokio::select! {
            reply = rows.message() => match reply.map_err(text)? {
                Some(_) => drop(replies.fetch_add(1, Ordering::Relaxed)),
                None => return Err("the coordinator has ended".to_owned()),
            },
            _ = stopped.changed() => return Ok(()),
        }
    }
}

/// Returns the seconds that a thread has run.
fn ran_s(thread: &Path) -> Result<f64, String> {
    let stat = fs::read_to_string(thread.join("schedstat")).map_err(text)?;
    let ns = stat.split_whitespace().next().and_then(|word| word.parse::<f64>().ok());
    ns.map(|ns| ns / 1e9).ok_or_else(|| "no times of a thread".to_owned())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
