//! Agents without devices, over connections as real ones have: they register, send heartbeats, and confirm at once that
//! jobs have released their devices.

use crate::report::text;
use crate::requests::cpu_device;
use accord_proto::channel::Coordinator;
use accord_proto::v1::registry_client::RegistryClient;
use accord_proto::v1::{agent_message, coordinator_message};
use accord_proto::{VERSION, v1};
use accord_trust::{Identity, Trust};
use accord_types::short_lock::ShortLock;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;

/// Devices of each node but the first, which has one.
const DEVICES: u32 = 8;
/// Bytes of a device.
const MEMORY: u64 = 1 << 30;
const HEARTBEAT: Duration = Duration::from_millis(500);
const CONNECT_MAX: Duration = Duration::from_secs(60);
/// Time in which all have to register.
const JOIN_MAX: Duration = Duration::from_secs(600);
/// Agents that connect at one time.
const CONNECTING_MAX: usize = 64;
const OUTBOX: usize = 64;

/// Agents `n0`, `n1` and so on, on a thread of their own. Their connections end on drop.
pub(crate) struct Agents {
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// When the first node's agent has confirmed a release last.
    released: ShortLock<Option<Instant>>,
    /// The first failure of an agent.
    failure: ShortLock<Option<String>>,
}

impl Agents {
    /// Connects agents with these identities, and returns once all have registered.
    pub(crate) fn join(address: &str, identities: Vec<Identity>) -> Result<Self, String> {
        let runtime = accord_proto::runtime::one_threaded().map_err(|error| error.to_string())?;
        let (stop, stopped) = watch::channel(());
        let (joined, mut joining) = mpsc::channel(OUTBOX);
        let shared = Arc::<Shared>::default();
        let (agents, address, of_thread) = (identities.len(), address.to_owned(), shared.clone());
        let thread = std::thread::spawn(move || {
            let connecting = Arc::new(Semaphore::new(CONNECTING_MAX));
            let live = |(identity, at): (Identity, usize)| {
                let agent = Agent { at, address: address.clone(), shared: of_thread.clone() };
                runtime.spawn(agent.live(identity, connecting.clone(), joined.clone(), stopped.clone()))
            };
            let agents: Vec<_> = identities.into_iter().zip(0..).map(live).collect();
            drop((joined, stopped));
            for agent in agents {
                let _ = runtime.block_on(agent);
            }
        });
        let this = Self { stop: Some(stop), thread: Some(thread), shared };
        let begun = Instant::now();
        for registered in 0..agents {
            while joining.try_recv().is_err() {
                this.check()?;
                if begun.elapsed() > JOIN_MAX {
                    return Err(format!("{registered} of {agents} agents have registered"));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(this)
    }

    /// Returns how long ago the first node's agent has confirmed a release, once for each.
    pub(crate) fn since_released(&self) -> Option<Duration> {
        self.shared.released.lock().take().map(|at| at.elapsed())
    }

    /// # Errors
    /// Returns the first failure of an agent.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.shared.failure.lock().clone().map_or(Ok(()), Err)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Agent {
    at: usize,
    address: String,
    shared: Arc<Shared>,
}

impl Agent {
    /// Lives until the bench ends.
    async fn live(
        self,
        identity: Identity,
        connecting: Arc<Semaphore>,
        joined: mpsc::Sender<()>,
        mut stopped: watch::Receiver<()>,
    ) {
        let lives = self.attend(identity, connecting, joined);
        let ended = tokio::select! {
            ended = lives => ended,
            _ = stopped.changed() => return,
        };
        let why = format!("agent n{}: {}", self.at, ended.err().unwrap_or_else(|| "its connection ended".to_owned()));
        self.shared.failure.lock().get_or_insert(why);
    }

    async fn attend(
        &self,
        identity: Identity,
        connecting: Arc<Semaphore>,
        joined: mpsc::Sender<()>,
    ) -> Result<(), String> {
        let connects = connecting.acquire().await.map_err(text)?;
        let coordinator = Coordinator::new(&self.address, Arc::new(Trust::fixed(identity)), CONNECT_MAX);
        let channel = coordinator.connect(|endpoint| endpoint).await.map_err(text)?;
        let (outbox, messages) = mpsc::channel(OUTBOX);
        send(&outbox, agent_message::Body::Register(self.registration())).await?;
        let mut inbound = RegistryClient::new(channel).attend(ReceiverStream::new(messages)).await.map_err(text)?;
        let inbound = inbound.get_mut();
        let first = inbound.message().await.map_err(text)?.and_then(|message| message.body);
        if !matches!(first, Some(coordinator_message::Body::Registered(_))) {
            return Err(format!("it was answered {first:?}"));
        }
        drop(connects);
        joined.send(()).await.map_err(text)?;
        drop(joined);
        let mut beats = tokio::time::interval(HEARTBEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = beats.tick() => send(&outbox, agent_message::Body::Heartbeat(v1::Heartbeat::default())).await?,
                message = inbound.message() => {
                    let Some(message) = message.map_err(text)? else { return Ok(()) };
                    if let Some(coordinator_message::Body::ReleaseJob(v1::ReleaseJob { job })) = message.body {
                        if self.at == 0 {
                            *self.shared.released.lock() = Some(Instant::now());
                        }
                        send(&outbox, agent_message::Body::JobReleased(v1::JobReleased { job })).await?;
                    }
                }
            }
        }
    }

    fn registration(&self) -> v1::Register {
        let name = format!("n{}", self.at);
        let device = |ordinal| cpu_device(&name, ordinal, MEMORY, 4);
        v1::Register {
            version: VERSION,
            incarnation: 1,
            address: format!("127.0.0.1:{}", 10_000 + self.at),
            devices: (0..if self.at == 0 { 1 } else { DEVICES }).map(device).collect(),
            hardware: Some(v1::Hardware { cores: 64, processors: 128, ..v1::Hardware::default() }),
            node_name: name,
            ..v1::Register::default()
        }
    }
}

async fn send(outbox: &mpsc::Sender<v1::AgentMessage>, body: agent_message::Body) -> Result<(), String> {
    outbox.send(v1::AgentMessage { body: Some(body) }).await.map_err(text)
}
