//! What watchers of a cluster (`accord top`, the page) wait for, and what they cost the coordinator: 10,000 nodes of 8
//! devices, 98 % busy, with 1,000 waiting jobs and 20 events a second.
//!
//! The coordinator runs in this process as it serves. The watchers have connections through TLS, on a thread whose
//! processor time does not count. Rounds with and without watchers alternate.

use crate::askers::Served;
use crate::report::{Report, text};
use accord_proto::channel::Coordinator;
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::{VERSION, v1};
use accord_trust::{Identity, Trust};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

const DEVICES: u32 = 80_000;
const WAITING: usize = 1_000;
const WATCHERS: usize = 100;
/// Rows of a watcher, as a page of the browser has.
const ROWS: u32 = 50;
/// Number of rounds of each kind, and of first views.
const ROUNDS: usize = 5;
const VIEWS: usize = 20;
const ROUND: Duration = Duration::from_secs(10);
const BETWEEN_EVENTS: Duration = Duration::from_millis(50);
/// A board is used again for less than this time, so each view needs a new one.
const BETWEEN_VIEWS: Duration = Duration::from_secs(1);
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// The kernel's clock ticks a second, in which it counts processor time.
const TICKS: f64 = 100.0;
/// Bars: milliseconds of the first view and of another one on the same connection, percent of a core.
const VIEW_MAX: f64 = 1_000.0;
const UPDATE_MAX: f64 = 100.0;
const CORE_MAX: f64 = 5.0;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench watchers");
    let mut served = Served::begin(DEVICES, WAITING)?;
    let (mut views, mut updates) = (Vec::new(), Vec::new());
    let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
    for number in 0..VIEWS {
        std::thread::sleep(BETWEEN_VIEWS);
        let user = served.tenant(format!("viewer{number}"))?;
        let (view, update) = runtime.block_on(view(&served.address, user)).map_err(text)?;
        views.push(view);
        updates.push(update);
    }
    let (mut quiet, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        quiet.push(busy_percent(&mut served, None)?);
        let users = (0..WATCHERS).map(|number| served.tenant(format!("watcher{number}")));
        let watchers = Watchers::begin(&served.address, users.collect::<Result<_, _>>()?)?;
        watched.push(busy_percent(&mut served, Some(&watchers))?);
    }
    served.end()?;
    report.put("first view", "ms", views);
    report.put("another window", "ms", updates);
    report.put("coordinator without watchers", "% of a core", quiet);
    report.put("coordinator with watchers", "% of a core", watched);
    let cost = report.median("coordinator with watchers")? - report.median("coordinator without watchers")?;
    let (view, update) = (report.median("first view")?, report.median("another window")?);
    report.at_most("first view of 10,000 nodes", view, "ms", VIEW_MAX);
    report.at_most("another window", update, "ms", UPDATE_MAX);
    report.at_most(&format!("{WATCHERS} watchers, of a core"), cost, "%", CORE_MAX);
    Ok(report)
}

/// Connects, and returns the milliseconds until the first rows are there, and until those of another window are.
async fn view(address: &str, user: Identity) -> Result<(f64, f64), Status> {
    let begun = Instant::now();
    let (requests, mut replies) = watch(address, user, request(1, v1::WatchTable::Devices, 0)).await?;
    answered(&mut replies, 1).await?;
    let view = begun.elapsed();
    let begun = Instant::now();
    let _ = requests.send(request(2, v1::WatchTable::Devices, DEVICES / 2)).await;
    answered(&mut replies, 2).await?;
    Ok((view.as_secs_f64() * 1e3, begun.elapsed().as_secs_f64() * 1e3))
}

fn request(number: u64, table: v1::WatchTable, from: u32) -> v1::WatchRequest {
    v1::WatchRequest {
        version: VERSION,
        number,
        table: table.into(),
        order: v1::WatchOrder::Busy.into(),
        user: String::new(),
        from,
        rows: ROWS,
    }
}

async fn watch(
    address: &str,
    user: Identity,
    first: v1::WatchRequest,
) -> Result<(mpsc::Sender<v1::WatchRequest>, Streaming<v1::WatchReply>), Status> {
    let coordinator = Coordinator::new(address, Arc::new(Trust::fixed(user)), CONNECT_MAX);
    let mut client = ClusterClient::new(coordinator.connect(|endpoint| endpoint).await?);
    let (requests, stream) = mpsc::channel(1);
    let _ = requests.send(first).await;
    let replies = client.watch(ReceiverStream::new(stream)).await?.into_inner();
    Ok((requests, replies))
}

/// Returns once the reply to a request has all its rows.
async fn answered(replies: &mut Streaming<v1::WatchReply>, number: u64) -> Result<(), Status> {
    loop {
        let reply =
            replies.message().await?.ok_or_else(|| Status::unavailable("the coordinator has ended the call"))?;
        if reply.request == number {
            if reply.changed.len() < ROWS as usize {
                return Err(Status::internal("rows are missing"));
            }
            return Ok(());
        }
    }
}

/// Lets events happen for a round. Returns the processor time of this process meanwhile, without that of the watchers'
/// own thread, in percent of a core.
fn busy_percent(served: &mut Served, watchers: Option<&Watchers>) -> Result<f64, String> {
    let used = || -> Result<f64, String> {
        let own = watchers.map_or(Ok(0.0), |watchers| thread_s(&watchers.times))?;
        Ok(process_s()? - own)
    };
    let (begun, before) = (Instant::now(), used()?);
    while begun.elapsed() < ROUND {
        std::thread::sleep(BETWEEN_EVENTS);
        served.cluster.next_event(Instant::now())?;
    }
    Ok(100.0 * (used()? - before) / begun.elapsed().as_secs_f64())
}

/// Returns the processor time of this process in seconds.
fn process_s() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/self/stat").map_err(text)?;
    // The program's name, in parentheses, may have spaces. After it, user and system time are the 12th and 13th field.
    let fields = text.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    let ticks: Vec<f64> = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    if ticks.len() < 2 { Err("no times in /proc/self/stat".to_owned()) } else { Ok(ticks.iter().sum::<f64>() / TICKS) }
}

/// Returns the processor time of a thread in seconds.
fn thread_s(times: &PathBuf) -> Result<f64, String> {
    let text = std::fs::read_to_string(times).map_err(text)?;
    let ns: Option<f64> = text.split_whitespace().next().and_then(|field| field.parse().ok());
    ns.map(|ns| ns / 1e9).ok_or_else(|| format!("no time in {}", times.display()))
}

/// Watchers on a thread of their own, which ends on drop.
struct Watchers {
    /// The kernel's file with the thread's processor time.
    times: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchers {
    /// Starts a watcher for each user. Returns once all have their first rows.
    fn begin(address: &str, users: Vec<Identity>) -> Result<Self, String> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (begun, ready): (Sender<Result<(), String>>, Receiver<_>) = channel();
        let (named, name) = channel();
        let (address, number) = (address.to_owned(), users.len());
        let thread = std::thread::spawn(move || {
            let _ = named.send(std::fs::read_link("/proc/thread-self"));
            let Ok(runtime) = accord_proto::runtime::one_threaded() else { return };
            for (at, user) in users.into_iter().enumerate() {
                let tables =
                    [v1::WatchTable::Devices, v1::WatchTable::Nodes, v1::WatchTable::Users, v1::WatchTable::Jobs];
                let first = request(1, tables[at % tables.len()], 0);
                runtime.spawn(watch_on(address.clone(), user, first, begun.clone()));
            }
            drop(begun);
            let _ = runtime.block_on(stopped);
        });
        let link = name.recv().map_err(text)?.map_err(text)?;
        let times = PathBuf::from("/proc").join(link).join("schedstat");
        let watchers = Self { times, stop: Some(stop), thread: Some(thread) };
        for _ in 0..number {
            ready.recv().map_err(|_| "a watcher did not begin")??;
        }
        Ok(watchers)
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn watch_on(address: String, user: Identity, first: v1::WatchRequest, begun: Sender<Result<(), String>>) {
    let watching = async {
        let (_requests, mut replies) = watch(&address, user, first).await?;
        replies.message().await?;
        let _ = begun.send(Ok(()));
        while replies.message().await?.is_some() {}
        Ok::<_, Status>(())
    };
    if let Err(status) = watching.await {
        let _ = begun.send(Err(status.to_string()));
    }
}
