//! The time until a job begins with a state file, at 1,000 jobs a second that begin and end, beside one `fsync` of a small
//! file in the same folder.
//!
//! The driver and its writing thread run in this process, without connections. Rounds of jobs and of `fsync` alternate.

use crate::report::{Report, build_folder, quantile, text};
use crate::requests::session_request;
use accord_cluster::{ClientId, Input, LinkId, Registration};
use accord_coordinator::service::{Driver, DriverSettings, StateWriter, ToProgram, unix_ms};
use accord_coordinator::store::FileStore;
use accord_fabric::frame::session::Message;
use accord_fabric::new_session_key;
use accord_proto::v1;
use accord_proto::v1::coordinator_message::Body;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, NodeId, SessionKey, SessionRequest};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::Status;

const DEVICES: u32 = 64;
const ROUNDS: usize = 7;
const RATE: u32 = 1_000;
/// Jobs of a round.
const JOBS: u32 = 3_000;
const SYNCS: usize = 200;
/// Bytes of a write before `fsync`, as of a record.
const RECORD: usize = 512;
const OUTBOX: usize = 4_096;
const FEW: usize = 64;
const BEGIN_MAX: Duration = Duration::from_secs(60);
/// A job waits for the write that is under way, and for its own.
const SYNCS_MAX: f64 = 3.0;

pub(crate) fn run() -> Result<Report, String> {
    let folder = build_folder()?.join(format!("journal-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(text)?;
    let measured = measure(&folder);
    let _ = fs::remove_dir_all(&folder);
    measured
}

fn measure(folder: &Path) -> Result<Report, String> {
    let mut report = Report::of("accord-bench journal");
    let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
    let opened = FileStore::open(&folder.join("state"), unix_ms()).map_err(text)?;
    let (driver, writer) = StateWriter::begin(DriverSettings::default(), opened)?;
    let (begun, begins) = channel();
    let mut site = Site { driver: driver.clone(), begins, begun };
    let stop = Arc::new(tokio::sync::Notify::new());
    let (of_agent, stopped) = (site.driver.clone(), stop.clone());
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let link = driver.add_agent(outbox);
    driver.input(Input::Register { link, registration: registration() });
    // Connections are served by one thread, as in the coordinator.
    let handle = runtime.handle().clone();
    let agent = std::thread::spawn(move || serve(&runtime, release(of_agent, link, messages), &stopped));
    let (mut p99, mut medians, mut syncs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let took = site.round(&handle)?;
        let synced = sync(&folder.join("synced"))?;
        // The first round is a warm-up.
        if round > 0 {
            p99.push(quantile(took.clone(), 0.99));
            medians.push(quantile(took, 0.5));
            syncs.push(quantile(synced, 0.99));
        }
    }
    stop.notify_one();
    agent.join().map_err(|_| "the thread of connections has panicked")?;
    drop(site);
    drop(driver);
    writer.close()?;
    report.put("begin/p99", "ms", p99);
    report.put("begin/p50", "ms", medians);
    report.put("fsync/p99", "ms", syncs);
    let ratio = report.median("begin/p99")? / report.median("fsync/p99")?;
    report.at_most("a job's begin at 1,000 a second, p99 / fsync, p99", ratio, "x", SYNCS_MAX);
    Ok(report)
}

/// Runs the task until `stopped`.
fn serve(runtime: &Runtime, task: impl Future<Output = ()>, stopped: &tokio::sync::Notify) {
    runtime.block_on(async {
        tokio::select! {
            () = task => {}
            () = stopped.notified() => {}
        }
    });
}

/// Confirms at once that jobs have released their devices.
async fn release(
    driver: Arc<Driver>,
    link: LinkId,
    mut messages: mpsc::Receiver<Result<v1::CoordinatorMessage, Status>>,
) {
    while let Some(message) = messages.recv().await {
        if let Ok(v1::CoordinatorMessage { body: Some(Body::ReleaseJob(release)) }) = message
            && let Some(job) = SessionKey::from_bytes(&release.job)
        {
            driver.input(Input::JobReleased { link, job });
        }
    }
}

struct Site {
    driver: Arc<Driver>,
    begins: Receiver<(ClientId, Instant)>,
    begun: Sender<(ClientId, Instant)>,
}

impl Site {
    /// Requests jobs at a steady rate, each of which ends once it has begun. Returns the times until they began.
    fn round(&mut self, runtime: &tokio::runtime::Handle) -> Result<Vec<f64>, String> {
        let (begun, mut asked, mut took) = (Instant::now(), std::collections::BTreeMap::new(), Vec::new());
        for number in 0..JOBS {
            let due = begun + Duration::from_secs(1) * number / RATE;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (outbox, messages) = mpsc::channel(FEW);
            let client = self.driver.add_client(outbox);
            runtime.spawn(await_begin(client, messages, self.begun.clone()));
            asked.insert(client, Instant::now());
            let key = new_session_key().map_err(text)?;
            self.driver.input(Input::Hold { client, request: request(), key, user: "eva".to_owned() });
            while let Ok(begin) = self.begins.try_recv() {
                took.extend(self.end(begin, &mut asked));
            }
        }
        while took.len() < JOBS as usize {
            let begin = self.begins.recv_timeout(BEGIN_MAX).map_err(|_| "a job does not begin")?;
            took.extend(self.end(begin, &mut asked));
        }
        Ok(took)
    }

    fn end(
        &self,
        (client, at): (ClientId, Instant),
        asked: &mut std::collections::BTreeMap<ClientId, Instant>,
    ) -> Option<f64> {
        self.driver.remove_client(client, false);
        Some(at.saturating_duration_since(asked.remove(&client)?).as_secs_f64() * 1e3)
    }
}

async fn await_begin(client: ClientId, mut messages: mpsc::Receiver<ToProgram>, begun: Sender<(ClientId, Instant)>) {
    while let Some(message) = messages.recv().await {
        if matches!(message.message(), Message::Held(_)) {
            let _ = begun.send((client, Instant::now()));
        }
    }
}

/// Returns the times of small writes with `fsync`.
fn sync(path: &Path) -> Result<Vec<f64>, String> {
    let mut file = File::create(path).map_err(text)?;
    let mut one = || {
        let since = Instant::now();
        file.write_all(&[7; RECORD]).and_then(|()| file.sync_all()).map_err(text)?;
        Ok(since.elapsed().as_secs_f64() * 1e3)
    };
    (0..SYNCS).map(|_| one()).collect()
}

fn request() -> SessionRequest {
    session_request("n0", "1:cpu limit=1h")
}

fn registration() -> Registration {
    let device = |ordinal| DeviceInfo {
        id: DeviceId { node: NodeId(0), ordinal },
        node_name: "n0".to_owned(),
        kind: DeviceKind::CPU,
        name: "cpu".to_owned(),
        vendor: "bench".to_owned(),
        driver: "1".to_owned(),
        uuid: String::new(),
        memory: 1 << 30,
        units: 4,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    };
    Registration::new("n0".to_owned(), "n0:7448".to_owned(), 1, (0..DEVICES).map(device).collect())
}
