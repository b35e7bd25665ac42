//! What a cluster of 10,000 nodes takes of one core and of memory: its agents join, jobs begin and end, a tenth of the
//! nodes is lost and comes back, and all agents come to a restarted coordinator.
//!
//! One thread does everything: messages as they are on the wire are decoded and checked, the driver carries the core's
//! decisions out, and its messages are encoded. Sockets and TLS are not part of it (`accord-bench agents`).

use crate::process_use::resident_bytes;
use crate::report::{Report, quantile, text};
use crate::requests::{cpu_device, session_request};
use accord_cluster::{Input, Limits, LinkId};
use accord_coordinator::service::{AgentSender, Driver, DriverSettings, ToProgram, registration};
use accord_fabric::frame::session::{HEADER_LEN, Message};
use accord_fabric::new_session_key;
use accord_proto::bounds::Bounded;
use accord_proto::v1::{agent_message, coordinator_message};
use accord_proto::{VERSION, v1};
use accord_types::SessionKey;
use prost::Message as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tonic::Status;

const NODES: u32 = 10_000;
const DEVICES: u32 = 8;
/// Jobs that run all the time, one device each.
const RUNNING: u32 = 20_000;
/// Jobs that begin and end one after the other.
const OPENS: u32 = 5_000;
/// One in this many nodes is lost and comes back.
const LOST: u32 = 10;
/// Most messages of the coordinator that are not read yet.
const OUTBOX: usize = 1 << 17;
const FEW: usize = 64;
/// Agents send no heartbeats here, but for those that are counted.
const LOST_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const HEARTBEATS_A_SECOND: f64 = 2.0;
const OPENS_A_SECOND: f64 = 1_000.0;
const JOIN_MAX_S: f64 = 10.0;
const CORE_MAX: f64 = 0.5;
/// Time of an open while nodes are lost.
const OPEN_P99_MAX_MS: f64 = 20.0;
const RESIDENT_MAX_GB: f64 = 1.0;

pub(crate) fn run() -> Result<Report, String> {
    let mut report = Report::of("accord-bench scale");
    let mut site = Site::new();
    let begun = Instant::now();
    for node in 0..NODES {
        site.join(node, 1)?;
    }
    report.put("join", "s", vec![begun.elapsed().as_secs_f64()]);
    for number in 0..RUNNING {
        let node = number % NODES;
        let job = site.open(node)?;
        site.nodes[node as usize].jobs.extend(job.grant);
    }
    let begun = Instant::now();
    for node in 0..NODES {
        site.tell(node, agent_message::Body::Heartbeat(v1::Heartbeat::default()))?;
    }
    let share = begun.elapsed().as_secs_f64() * HEARTBEATS_A_SECOND;
    report.put("heartbeats", "of a core", vec![share]);
    let begun = Instant::now();
    for number in 0..OPENS {
        site.open_and_end(number * 7 % NODES)?;
    }
    let cost = begun.elapsed().as_secs_f64() / f64::from(OPENS);
    report.put("opens", "of a core", vec![cost * OPENS_A_SECOND]);

    // A node is lost, then another one comes back, and a job begins and ends elsewhere.
    let (begun, mut opens) = (Instant::now(), Vec::new());
    for lost in (0..NODES).step_by(LOST as usize) {
        site.driver.input(Input::LinkLost { link: site.nodes[lost as usize].link });
        site.join(lost, 2)?;
        let since = Instant::now();
        site.open_and_end((lost + 1) % NODES)?;
        opens.push(since.elapsed().as_secs_f64() * 1e3);
    }
    let lost = begun.elapsed().as_secs_f64() / f64::from(NODES / LOST);
    report.put("loss and return of a node", "ms", vec![lost * 1e3]);
    report.put("open while nodes are lost", "ms", opens);
    report.put("resident", "GB", vec![resident_bytes(std::process::id())? / 1e9]);

    // Another coordinator, without a state: agents name their jobs.
    let jobs: Vec<Vec<v1::JobGrant>> = site.nodes.iter_mut().map(|node| std::mem::take(&mut node.jobs)).collect();
    drop(site);
    let mut site = Site::new();
    let begun = Instant::now();
    for (node, jobs) in (0..NODES).zip(jobs) {
        site.join_with(node, 3, jobs)?;
        if node % LOST == 0 {
            site.tell(node, agent_message::Body::Heartbeat(v1::Heartbeat::default()))?;
        }
    }
    report.put("restart", "s", vec![begun.elapsed().as_secs_f64()]);

    report.at_most("10,000 agents join", report.median("join")?, "s", JOIN_MAX_S);
    report.at_most("1,000 opens and ends a second", report.median("opens")?, "core", CORE_MAX);
    report.at_most("heartbeats of 10,000 agents", report.median("heartbeats")?, "core", CORE_MAX);
    let opens = report.samples("open while nodes are lost")?.to_vec();
    report.at_most("open and end while 1,000 nodes are lost, p99", quantile(opens, 0.99), "ms", OPEN_P99_MAX_MS);
    report.at_most("10,000 agents come to a restarted coordinator", report.median("restart")?, "s", JOIN_MAX_S);
    report.at_most("resident memory", report.median("resident")?, "GB", RESIDENT_MAX_GB);
    Ok(report)
}

struct Site {
    driver: Driver,
    outbox: AgentSender,
    messages: Receiver<Result<v1::CoordinatorMessage, Status>>,
    nodes: Vec<Node>,
}

struct Node {
    link: LinkId,
    jobs: Vec<v1::JobGrant>,
}

/// A job that has its device.
struct Job {
    client: accord_cluster::ClientId,
    messages: Receiver<ToProgram>,
    grant: Option<v1::JobGrant>,
}

impl Site {
    fn new() -> Self {
        let limits = Limits {
            nodes_max: NODES as usize,
            devices_max: (NODES * DEVICES) as usize,
            sessions_max: usize::try_from(RUNNING * 2).unwrap_or(usize::MAX),
            lost_after_ms: u64::try_from(LOST_AFTER.as_millis()).unwrap_or(u64::MAX),
            ..Limits::default()
        };
        let driver = Driver::new(DriverSettings { limits, ..DriverSettings::default() });
        let (outbox, messages) = mpsc::channel(OUTBOX);
        Self { driver, outbox, messages, nodes: Vec::new() }
    }

    fn join(&mut self, node: u32, start: u64) -> Result<(), String> {
        self.join_with(node, start, Vec::new())
    }

    /// Registers an agent's start with the jobs that it knows.
    fn join_with(&mut self, node: u32, start: u64, jobs: Vec<v1::JobGrant>) -> Result<(), String> {
        let sent = v1::AgentMessage { body: Some(agent_message::Body::Register(register(node, start, jobs))) };
        let message = decoded(&sent.encode_to_vec())?;
        let agent_message::Body::Register(register) = message else { return Err("no registration".to_owned()) };
        let registration = registration(register, IpAddr::V4(Ipv4Addr::LOCALHOST)).map_err(text)?;
        let link = self.driver.add_agent(self.outbox.clone());
        self.driver.input(Input::Register { link, registration });
        match self.nodes.get_mut(node as usize) {
            Some(known) => known.link = link,
            None => self.nodes.push(Node { link, jobs: Vec::new() }),
        }
        self.written().map(drop)
    }

    /// Passes a message of an agent on.
    fn tell(&mut self, node: u32, body: agent_message::Body) -> Result<(), String> {
        let link = self.nodes[node as usize].link;
        let input = match decoded(&v1::AgentMessage { body: Some(body) }.encode_to_vec())? {
            agent_message::Body::Heartbeat(_) => Input::Heartbeat { link, sessions: Vec::new() },
            agent_message::Body::JobReleased(released) => {
                Input::JobReleased { link, job: SessionKey::from_bytes(&released.job).ok_or("no key")? }
            }
            other => return Err(format!("{other:?} is not sent here")),
        };
        self.driver.input(input);
        self.written().map(drop)
    }

    /// Encodes the coordinator's messages to agents, and returns the grants of jobs among them and the jobs to release.
    fn written(&mut self) -> Result<(Vec<v1::JobGrant>, Vec<Vec<u8>>), String> {
        let (mut grants, mut releases) = (Vec::new(), Vec::new());
        while let Ok(message) = self.messages.try_recv() {
            let message = message.map_err(text)?;
            std::hint::black_box(message.encode_to_vec());
            match message.body {
                Some(coordinator_message::Body::JobStarted(grant)) => grants.push(grant),
                Some(coordinator_message::Body::ReleaseJob(release)) => releases.push(release.job),
                _ => {}
            }
        }
        Ok((grants, releases))
    }

    /// Requests a job of one device of `node`, which it has at once.
    fn open(&mut self, node: u32) -> Result<Job, String> {
        let request = session_request(format!("n{node}"), format!("1:cpu on=n{node} limit=1d"));
        let bytes = Message::Hold(request).encode();
        let Message::Hold(request) = Message::decode(bytes[4], &bytes[HEADER_LEN..]).map_err(text)? else {
            return Err("no request".to_owned());
        };
        let (outbox, mut messages): (Sender<ToProgram>, _) = mpsc::channel(FEW);
        let client = self.driver.add_client(outbox);
        let key = new_session_key().map_err(text)?;
        self.driver.input(Input::Hold { client, request, key, user: format!("user{}", node % 100) });
        let (grants, _) = self.written()?;
        loop {
            let message = messages.try_recv().map_err(|_| format!("a job does not begin on n{node}"))?.message();
            std::hint::black_box(message.encode());
            match message {
                Message::Held(_) => return Ok(Job { client, messages, grant: grants.into_iter().next() }),
                Message::Queued(_) => {}
                other => return Err(format!("a job was answered {other:?}")),
            }
        }
    }

    fn open_and_end(&mut self, node: u32) -> Result<(), String> {
        let Job { client, messages, .. } = self.open(node)?;
        drop(messages);
        self.driver.remove_client(client, false);
        let (_, releases) = self.written()?;
        let [job] = <[Vec<u8>; 1]>::try_from(releases).map_err(|other| format!("{} releases", other.len()))?;
        self.tell(node, agent_message::Body::JobReleased(v1::JobReleased { job }))
    }
}

/// Decodes and checks a message as the coordinator does.
fn decoded(bytes: &[u8]) -> Result<agent_message::Body, String> {
    let message = v1::AgentMessage::decode(bytes).map_err(text)?;
    message.check().map_err(text)?;
    message.body.ok_or_else(|| "an empty message".to_owned())
}

fn register(node: u32, start: u64, jobs: Vec<v1::JobGrant>) -> v1::Register {
    let name = format!("n{node}");
    let device = |ordinal| cpu_device(&name, ordinal, 1 << 30, 16);
    v1::Register {
        version: VERSION,
        incarnation: start,
        address: format!("10.{}.{}.{}:7448", node >> 16, node >> 8 & 255, node & 255),
        devices: (0..DEVICES).map(device).collect(),
        hardware: Some(v1::Hardware { cores: 128, processors: 256, ..v1::Hardware::default() }),
        labels: vec![v1::Label { name: "rack".to_owned(), value: format!("r{}", node / 32) }],
        node_name: name,
        jobs,
        ..v1::Register::default()
    }
}
