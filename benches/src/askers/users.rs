//! Users who ask about jobs, each over a connection of its own and one question at a time.

use super::cluster::{DEVICES, fitting};
use crate::report::text;
use crate::scheduler::Random;
use accord_proto::channel::Coordinator;
use accord_proto::v1::jobs_client::JobsClient;
use accord_proto::{VERSION, v1};
use accord_trust::{Identity, Trust};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::transport::Channel;
use tonic::{Code, Status};

const CONNECT_MAX: Duration = Duration::from_secs(30);
/// The longest wait until all questions are answered.
const QUIET_MAX: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(5);

/// A question, and the time of its answer in milliseconds.
type Answer = (&'static str, f64);

/// State shared with the users' tasks.
#[derive(Clone)]
struct Shared {
    asks: watch::Receiver<bool>,
    /// Number of users who are asking.
    asking: Arc<AtomicUsize>,
    answers: Sender<Result<Answer, String>>,
}

/// The users, whose connections end on drop.
pub(super) struct Users {
    asks: Option<watch::Sender<bool>>,
    asking: Arc<AtomicUsize>,
    answers: Receiver<Result<Answer, String>>,
    thread: Option<JoinHandle<()>>,
}

impl Users {
    /// Connects the users, on a thread of their own. They ask after [`Users::ask`].
    pub(super) fn connect(address: &str, identities: Vec<Identity>, devices: u32) -> Result<Self, String> {
        let runtime = accord_proto::runtime::one_threaded().map_err(text)?;
        let mut clients = Vec::new();
        for identity in identities {
            let coordinator = Coordinator::new(address, Arc::new(Trust::fixed(identity)), CONNECT_MAX);
            clients.push(JobsClient::new(runtime.block_on(coordinator.connect(|endpoint| endpoint)).map_err(text)?));
        }
        let (asks, asked) = watch::channel(false);
        let (answered, answers) = channel();
        let asking = Arc::new(AtomicUsize::new(0));
        let shared = Shared { asks: asked, asking: asking.clone(), answers: answered };
        let thread = std::thread::spawn(move || {
            let users = clients.into_iter().zip(1..).map(|(client, at)| {
                let user = User { client, random: Random(at), devices };
                runtime.spawn(user.live(shared.clone()))
            });
            let users: Vec<_> = users.collect();
            drop(shared);
            for user in users {
                let _ = runtime.block_on(user);
            }
        });
        Ok(Self { asks: Some(asks), asking, answers, thread: Some(thread) })
    }

    /// Starts the questions, or stops them and waits until all are answered.
    pub(super) fn ask(&self, asks: bool) -> Result<(), String> {
        if let Some(sender) = &self.asks {
            sender.send_replace(asks);
        }
        let begun = Instant::now();
        while !asks && self.asking.load(Ordering::Acquire) > 0 {
            if begun.elapsed() > QUIET_MAX {
                return Err("users wait for answers for too long".to_owned());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Returns the answers since the last call.
    pub(super) fn answers(&self) -> Result<Vec<Answer>, String> {
        self.answers.try_iter().collect()
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        drop(self.asks.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct User {
    client: JobsClient<Channel>,
    random: Random,
    devices: u32,
}

impl User {
    /// Asks while questions are enabled, until the bench ends.
    async fn live(mut self, mut shared: Shared) {
        while shared.asks.wait_for(|asks| *asks).await.is_ok() {
            shared.asking.fetch_add(1, Ordering::AcqRel);
            let outcome = self.ask_on(&shared).await;
            shared.asking.fetch_sub(1, Ordering::AcqRel);
            if let Err(why) = outcome {
                let _ = shared.answers.send(Err(format!("a question was refused: {why}")));
                return;
            }
        }
    }

    async fn ask_on(&mut self, shared: &Shared) -> Result<(), Status> {
        let asks = || shared.asks.has_changed().is_ok() && *shared.asks.borrow();
        let answered = |question, since: Instant| {
            let _ = shared.answers.send(Ok((question, since.elapsed().as_secs_f64() * 1e3)));
        };
        while asks() {
            let since = Instant::now();
            let page = self.client.queue(v1::QueueRequest { version: VERSION, from: 0, view: 0 }).await?.into_inner();
            answered("queue", since);
            if let Some(job) = page.jobs.last().filter(|_| asks()) {
                let since = Instant::now();
                match self.client.explain_job(v1::JobRequest { version: VERSION, job: job.job }).await {
                    Ok(_) => answered("explain", since),
                    // The job has ended meanwhile.
                    Err(status) if status.code() == Code::NotFound => {}
                    Err(status) => return Err(status),
                }
            }
            if asks() {
                let wanted = fitting(&mut self.random, self.devices).to_string();
                let node_name = format!("n{}", self.random.below(u64::from(self.devices / DEVICES)));
                let since = Instant::now();
                self.client.what_if(v1::WhatIfRequest { version: VERSION, request: wanted, node_name }).await?;
                answered("what-if", since);
            }
        }
        Ok(())
    }
}
