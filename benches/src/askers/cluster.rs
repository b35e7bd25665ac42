//! The coordinator's driver, the agents of its nodes, and the commands that hold jobs. Connections of agents and
//! commands are omitted.

use crate::report::text;
use crate::requests::session_request;
use crate::scheduler::{Random, class, request, shape};
use accord_cluster::{ClientId, Input, Limits, LinkId, NewReservation, Registration, ReservedTarget};
use accord_coordinator::service::{Driver, DriverSettings, ToProgram};
use accord_fabric::frame::session::Message;
use accord_fabric::new_session_key;
use accord_proto::v1;
use accord_proto::v1::coordinator_message::Body;
use accord_scheduler::Request;
use accord_scheduler::policy::SitePolicy;
use accord_scheduler::request::{Alternative, Take};
use accord_types::node_labels::NodeLabels;
use accord_types::{DeviceId, DeviceInfo, DeviceKind, Hardware, Machine, NodeId, NumaNode, SessionKey, SessionRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::mpsc;
use tonic::Status;

/// Devices of a node.
pub(super) const DEVICES: u32 = 8;
/// Busy share of all devices, in thousandths.
const BUSY: u64 = 980;
/// Requests per node after which the cluster should long be full.
const ASKS_MAX: usize = 100;
/// The largest job gets at most one in this many of all devices, as in the full mix.
const PART_OF_ONE_JOB: u32 = 8;
/// One in this many of all devices is guaranteed to a group, as in the full mix.
const PART_OF_A_GUARANTEE: u32 = 200;
const RESERVATIONS: u32 = 64;
const GROUPS: u32 = 19;
const USERS_OF_GROUP: u32 = 10;
/// Most queued messages to an agent or a command, as in the service.
const AGENT_OUTBOX: usize = 4_096;
const COMMAND_OUTBOX: usize = 64;
/// Agents send no heartbeats here, and none is lost.
const LOST_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const HOUR_MS: u64 = 3_600_000;

/// The times of an event.
#[derive(Clone, Copy)]
pub(crate) struct EventTimes {
    /// Time of the driver's call: the wait for the core's lock, the decision, and the effects.
    pub(crate) decided_us: f64,
    /// Time since the event was due.
    pub(crate) all_us: f64,
}

/// An event of a connection.
enum Event {
    /// A command requests a job.
    Ask { outbox: mpsc::Sender<ToProgram>, request: Box<SessionRequest>, key: SessionKey, user: String },
    /// A command's connection ends, which ends the job.
    End(ClientId),
    /// An agent confirms that a job has released its devices.
    Released(LinkId, SessionKey),
}

/// An event with its due time.
struct Due {
    due: Instant,
    event: Event,
}

/// The outcome of an event.
struct Done {
    client: Option<ClientId>,
    took: EventTimes,
}

/// A message of the coordinator to a command or an agent.
enum Note {
    Waits(u64),
    Runs(u64, u32),
    Over(u64),
    Release(LinkId, SessionKey),
}

/// A command with a request.
struct Command {
    client: ClientId,
    /// Share of each of its devices, in thousandths.
    share: u64,
    /// Thousandths of devices that it holds in total.
    holds: u64,
    /// Its index among the running ones.
    place: Option<usize>,
}

pub(crate) struct Cluster {
    driver: Arc<Driver>,
    runtime: Handle,
    events: mpsc::UnboundedSender<Due>,
    done: Receiver<Done>,
    notes: Receiver<Note>,
    note: Sender<Note>,
    random: Random,
    users: Vec<String>,
    nodes: u32,
    waiting_max: usize,
    /// Commands by number.
    commands: BTreeMap<u64, Command>,
    asked: u64,
    waiting: BTreeSet<u64>,
    running: Vec<u64>,
    /// Commands that were refused, or whose jobs have ended: their connections must end.
    over: Vec<u64>,
    releasing: Vec<(LinkId, SessionKey)>,
    busy_milli: u64,
    starts: usize,
}

impl Cluster {
    /// Creates a driver with nodes, reservations and a policy. Events are handled while `runtime` runs.
    pub(crate) fn new(runtime: &Runtime, devices: u32, waiting_max: usize) -> Result<Self, String> {
        let nodes = devices.div_ceil(DEVICES);
        let limits = Limits {
            nodes_max: nodes as usize,
            devices_max: (nodes * DEVICES) as usize,
            lost_after_ms: u64::try_from(LOST_AFTER.as_millis()).map_err(text)?,
            ..Limits::default()
        };
        let driver = Arc::new(Driver::new(DriverSettings { limits, ..DriverSettings::default() }));
        driver.begin_with(policy(devices)?)?;
        let (note, notes) = channel();
        for at in 0..nodes {
            let (outbox, messages) = mpsc::channel(AGENT_OUTBOX);
            let link = driver.add_agent(outbox);
            runtime.spawn(receive_agent(link, messages, note.clone()));
            driver.input(Input::Register { link, registration: registration(at)? });
        }
        let now = jiff::Timestamp::now();
        for at in 0..RESERVATIONS {
            let starts = now + jiff::SignedDuration::from_hours(24 + i64::from(at));
            let first = at * 131 % nodes;
            let reservation = NewReservation {
                name: format!("service {at}"),
                by: "admin".to_owned(),
                reason: "service".to_owned(),
                devices: ReservedTarget::Listed(
                    (first..first + 4).map(|node| (format!("n{}", node % nodes), None)).collect(),
                ),
                accounts: Vec::new(),
                users: Vec::new(),
                end_jobs: false,
                first: starts.strftime("%Y-%m-%dT%H:%M").to_string(),
                zone: "UTC".to_owned(),
                lasts_ms: 2 * HOUR_MS,
                weekly: false,
            };
            driver.input(Input::Reserve(Box::new(reservation)));
        }
        let ((events, due), (made, done)) = (mpsc::unbounded_channel(), channel());
        runtime.spawn(take_events(driver.clone(), due, made));
        Ok(Self {
            driver,
            runtime: runtime.handle().clone(),
            events,
            done,
            notes,
            note,
            random: Random(12_345),
            users: (0..GROUPS).flat_map(users_of).collect(),
            nodes,
            waiting_max,
            commands: BTreeMap::new(),
            asked: 0,
            waiting: BTreeSet::new(),
            running: Vec::new(),
            over: Vec::new(),
            releasing: Vec::new(),
            busy_milli: 0,
            starts: 0,
        })
    }

    pub(crate) fn driver(&self) -> Arc<Driver> {
        self.driver.clone()
    }

    /// Returns the users who have jobs.
    pub(crate) fn users(&self) -> &[String] {
        &self.users
    }

    pub(crate) fn state(&self) -> String {
        format!(
            "{} devices, {} of 1000 busy, {} jobs running, {} waiting; {} starts",
            self.nodes * DEVICES,
            self.busy_of_thousand(),
            self.running.len(),
            self.waiting.len(),
            self.starts
        )
    }

    fn busy_of_thousand(&self) -> u64 {
        self.busy_milli / u64::from(self.nodes * DEVICES)
    }

    /// Issues requests until the devices are busy and the queue is full.
    pub(crate) fn fill(&mut self) -> Result<(), String> {
        for _ in 0..ASKS_MAX * self.nodes as usize {
            if self.busy_of_thousand() >= BUSY && self.waiting.len() >= self.waiting_max {
                return Ok(());
            }
            while self.waiting.len() >= self.waiting_max
                && let Some(&first) = self.waiting.first()
            {
                self.end(Instant::now(), first)?;
            }
            self.ask(Instant::now())?;
        }
        Err(format!("the cluster does not get full: {}", self.state()))
    }

    /// Issues the next event, chosen to keep the load constant.
    pub(crate) fn next_event(&mut self, due: Instant) -> Result<EventTimes, String> {
        self.handle_messages();
        if let Some(over) = self.over.pop() {
            self.end(due, over)
        } else if self.waiting.len() < self.waiting_max {
            self.ask(due)
        } else if !self.releasing.is_empty() {
            let at = self.random.below(self.releasing.len() as u64) as usize;
            let (link, job) = self.releasing.swap_remove(at);
            Ok(self.happen(due, Event::Released(link, job))?.took)
        } else if self.running.is_empty() {
            Err(format!("no job runs: {}", self.state()))
        } else {
            let at = self.random.below(self.running.len() as u64) as usize;
            self.end(due, self.running[at])
        }
    }

    fn ask(&mut self, due: Instant) -> Result<EventTimes, String> {
        let mut wanted = fitting(&mut self.random, self.nodes * DEVICES);
        wanted.priority = self.random.below(3) as i32;
        let user = self.users[self.random.below(self.users.len() as u64) as usize].clone();
        let node = (self.random.below(2) == 0).then(|| self.random.below(u64::from(self.nodes)));
        let request =
            session_request(node.map_or_else(|| "login".to_owned(), |node| format!("n{node}")), wanted.to_string());
        self.asked += 1;
        let (outbox, messages) = mpsc::channel(COMMAND_OUTBOX);
        self.runtime.spawn(receive_command(self.asked, messages, self.note.clone()));
        let key = new_session_key().map_err(text)?;
        let done = self.happen(due, Event::Ask { outbox, request: Box::new(request), key, user })?;
        let client = done.client.ok_or("a request without a connection")?;
        let command = Command { client, share: share(&wanted), holds: 0, place: None };
        self.commands.insert(self.asked, command);
        self.handle_messages();
        Ok(done.took)
    }

    fn end(&mut self, due: Instant, number: u64) -> Result<EventTimes, String> {
        self.waiting.remove(&number);
        let command = self.commands.remove(&number).ok_or("a command ends twice")?;
        if let Some(place) = command.place {
            self.running.swap_remove(place);
            let moved = self.running.get(place).and_then(|moved| self.commands.get_mut(moved));
            moved.into_iter().for_each(|moved| moved.place = Some(place));
        }
        self.busy_milli -= command.holds;
        let done = self.happen(due, Event::End(command.client))?;
        self.handle_messages();
        Ok(done.took)
    }

    fn happen(&self, due: Instant, event: Event) -> Result<Done, String> {
        self.events.send(Due { due, event }).map_err(|_| "the coordinator has ended")?;
        self.done.recv().map_err(|_| "the coordinator has ended".to_owned())
    }

    /// Handles the coordinator's messages to agents and commands, which may concern ended commands.
    fn handle_messages(&mut self) {
        while let Ok(note) = self.notes.try_recv() {
            match note {
                Note::Waits(number) if self.commands.get(&number).is_some_and(|known| known.place.is_none()) => {
                    self.waiting.insert(number);
                }
                Note::Runs(number, devices) => {
                    let Some(command) = self.commands.get_mut(&number).filter(|known| known.place.is_none()) else {
                        continue;
                    };
                    self.waiting.remove(&number);
                    command.place = Some(self.running.len());
                    command.holds = command.share * u64::from(devices);
                    self.busy_milli += command.holds;
                    self.running.push(number);
                    self.starts += 1;
                }
                Note::Over(number) if self.commands.contains_key(&number) && !self.over.contains(&number) => {
                    self.over.push(number);
                }
                Note::Waits(_) | Note::Over(_) => {}
                Note::Release(link, job) => self.releasing.push((link, job)),
            }
        }
    }
}

/// Passes events to the driver, on the thread that serves all connections.
async fn take_events(driver: Arc<Driver>, mut events: mpsc::UnboundedReceiver<Due>, done: Sender<Done>) {
    while let Some(Due { due, event }) = events.recv().await {
        let begun = Instant::now();
        let client = match event {
            Event::Ask { outbox, request, key, user } => {
                let client = driver.add_client(outbox);
                driver.input(Input::Hold { client, request: *request, key, user });
                Some(client)
            }
            Event::End(client) => {
                driver.remove_client(client, false);
                None
            }
            Event::Released(link, job) => {
                driver.input(Input::JobReleased { link, job });
                None
            }
        };
        let us = |since: Instant| since.elapsed().as_nanos() as f64 / 1e3;
        if done.send(Done { client, took: EventTimes { decided_us: us(begun), all_us: us(due) } }).is_err() {
            break;
        }
    }
}

async fn receive_agent(
    link: LinkId,
    mut messages: mpsc::Receiver<Result<v1::CoordinatorMessage, Status>>,
    to: Sender<Note>,
) {
    while let Some(message) = messages.recv().await {
        if let Ok(v1::CoordinatorMessage { body: Some(Body::ReleaseJob(release)) }) = message
            && let Ok(key) = release.job.try_into()
        {
            let _ = to.send(Note::Release(link, SessionKey(key)));
        }
    }
}

async fn receive_command(number: u64, mut messages: mpsc::Receiver<ToProgram>, to: Sender<Note>) {
    while let Some(message) = messages.recv().await {
        let note = match message.message() {
            Message::Queued(_) => Note::Waits(number),
            Message::Held(job) => Note::Runs(number, job.devices),
            Message::Refused(_) | Message::Ended(_) => Note::Over(number),
            _ => continue,
        };
        let _ = to.send(note);
    }
}

/// Draws a request that a cluster of this size can serve: in a small one the largest gangs would wait forever.
pub(super) fn fitting(random: &mut Random, devices: u32) -> Request {
    loop {
        let drawn = request(shape(random));
        let least = |of: &Alternative| of.parts.iter().map(|part| part.count.least).sum::<u32>();
        if drawn.alternatives.iter().all(|alternative| least(alternative) <= devices / PART_OF_ONE_JOB) {
            return drawn;
        }
    }
}

fn share(request: &Request) -> u64 {
    match request.alternatives.first().and_then(|first| first.parts.first()).map(|part| part.take) {
        Some(Take::Shared(amount)) => amount.milli.into(),
        _ => 1_000,
    }
}

fn users_of(group: u32) -> impl Iterator<Item = String> {
    (0..USERS_OF_GROUP).map(move |user| format!("g{group}u{user}"))
}

/// Returns the policy of the mix: groups as accounts, with users as leaves.
fn policy(devices: u32) -> Result<SitePolicy, String> {
    let guarantee = devices / PART_OF_A_GUARANTEE;
    let groups = (0..GROUPS).map(|group| {
        let guaranteed = if group % 5 == 0 { format!("guaranteed = {{ any = {guarantee} }}\n") } else { String::new() };
        let names: Vec<String> = users_of(group).map(|user| format!("\"{user}\"")).collect();
        let weighted = users_of(group).zip(0..).map(|(user, at)| {
            format!("[account.g{group}.user.{user}]\nweight = {}\nmost = {{ any = 8000 }}\n", 1 + at % 3)
        });
        format!(
            "[account.g{group}]\nweight = {}\n{guaranteed}priorities = [0, 2]\nusers = [{}]\n{}",
            1 + group % 4,
            names.join(", "),
            weighted.collect::<String>()
        )
    });
    SitePolicy::read(&groups.collect::<String>(), None)
        .map_err(|findings| findings.iter().map(|finding| format!("{finding}\n")).collect())
}

fn registration(at: u32) -> Result<Registration, String> {
    let class = class(at % 5);
    let device = |ordinal| DeviceInfo {
        id: DeviceId { node: NodeId(at), ordinal },
        node_name: format!("n{at}"),
        kind: DeviceKind::CUDA,
        name: format!("NVIDIA {}", class.model.to_uppercase()),
        vendor: "NVIDIA".to_owned(),
        driver: "1".to_owned(),
        uuid: format!("GPU-{at}-{ordinal}"),
        memory: class.memory,
        units: 132,
        compute: class.compute,
        context: class.context,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    };
    let hardware = Hardware {
        cores: 64,
        processors: 128,
        numa: vec![NumaNode { index: 0, cpus: (0..128).collect(), memory: 1 << 40 }],
        devices: Vec::new(),
    };
    let labels = NodeLabels::new([("rack".to_owned(), format!("r{}", at / 32))])?;
    let devices = (0..DEVICES).map(device).collect();
    let machine = Machine { hardware, labels, ..Machine::default() };
    Ok(Registration { machine, ..Registration::new(format!("n{at}"), format!("n{at}:7448"), 1, devices) })
}
