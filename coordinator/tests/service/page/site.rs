//! A coordinator with a page in this process, its nodes and programs, and a client of HTTP.

use accord_cluster::{ClientId, Input, Limits, LinkId, Registration};
use accord_coordinator::service::{
    AgentSender, AnonymousAccess, Attestation, Driver, DriverSettings, Listeners, PageListener, ToProgram, serve,
    unix_ms,
};
use accord_proto::v1::cluster_client::ClusterClient;
use accord_proto::{VERSION, channel, v1};
use accord_scheduler::policy::SitePolicy;
use accord_trust::issue::Authority;
use accord_trust::{Role, Trust};
use accord_types::{DeviceId, DeviceInfo, DeviceKind, Machine, NodeId, OrderPolicy, SessionKey, SessionRequest};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tonic::{Response, Status};

pub(super) const SOON: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const HOUR_MS: u64 = 3_600_000;

/// A coordinator with a page.
pub(super) struct Site {
    pub(super) driver: Arc<Driver>,
    pub(super) page: SocketAddr,
    address: SocketAddr,
    authority: Authority,
    runtime: Runtime,
    _stop: oneshot::Sender<()>,
    agents: RefCell<BTreeMap<String, Agent>>,
    clients: RefCell<Vec<mpsc::Receiver<ToProgram>>>,
    keys: Cell<u8>,
}

struct Agent {
    link: LinkId,
    _orders: mpsc::Receiver<Result<v1::CoordinatorMessage, Status>>,
}

pub(super) fn eva() -> Role {
    Role::Tenant("eva".into())
}

pub(super) fn tom() -> Role {
    Role::Tenant("tom".into())
}

pub(super) fn admin() -> Role {
    Role::Admin("root".into())
}

impl Site {
    pub(super) fn start(anonymous_access: AnonymousAccess) -> Self {
        let authority = Authority::new("c1", HOUR).unwrap();
        let own = authority.identity(Role::Coordinator, HOUR).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let limits = Limits { lost_after_ms: HOUR_MS, ..Limits::default() };
                let driver = Arc::new(Driver::new(DriverSettings { limits, ..DriverSettings::default() }));
                let loopback: SocketAddr = "127.0.0.1:0".parse().unwrap();
                let listener = TcpListener::bind(loopback).await.unwrap();
                let address = listener.local_addr().unwrap();
                let page = PageListener::bind(loopback, None, None, anonymous_access).await.unwrap();
                let displayed: SocketAddr = page.url().strip_prefix("http://").unwrap().parse().unwrap();
                ready.send((driver.clone(), address, displayed)).unwrap();
                let tcp = Some((listener, Arc::new(Trust::fixed(own))));
                let listeners = Listeners { tcp, local: None, page: Some(page), program_lost_after: HOUR };
                let stop = async {
                    let _ = stopped.await;
                };
                serve(&listeners, Attestation::default(), driver, stop).await.unwrap();
            });
        });
        let (driver, address, page) = started.recv_timeout(SOON).unwrap();
        Self {
            driver,
            page,
            address,
            authority,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            _stop: stop,
            agents: RefCell::default(),
            clients: RefCell::default(),
            keys: Cell::new(0),
        }
    }

    /// A node with two devices registers.
    pub(super) fn node(&self, name: &str) {
        let device = |ordinal| DeviceInfo {
            id: DeviceId { node: NodeId(0), ordinal },
            node_name: String::new(),
            kind: DeviceKind::CPU,
            name: "cpu".into(),
            vendor: "v".into(),
            driver: "1".into(),
            uuid: String::new(),
            memory: 16 << 30,
            context: 0,
            units: 1,
            compute: (0, 0),
            attributes: Vec::new(),
            numa: None,
            cpus: Vec::new(),
        };
        let registration = Registration {
            node_name: name.into(),
            incarnation: 10,
            address: "127.0.0.1:1".into(),
            devices: [0, 1].map(device).to_vec(),
            machine: Machine::default(),
            previous: None,
            coordinator_epoch: 0,
            sessions: Vec::new(),
            granted: Vec::new(),
            jobs: Vec::new(),
            world: String::new(),
            draining: false,
        };
        let (outbox, orders): (AgentSender, _) = mpsc::channel(4_096);
        let link = self.driver.add_agent(outbox);
        self.driver.input(Input::Register { link, registration });
        self.agents.borrow_mut().insert(name.to_owned(), Agent { link, _orders: orders });
    }

    /// Nodes n1, n2 and so on.
    pub(super) fn nodes(&self, count: usize) {
        (1..=count).for_each(|number| self.node(&format!("n{number}")));
    }

    /// A node's agent says goodbye.
    pub(super) fn node_ends(&self, name: &str) {
        let link = self.agents.borrow()[name].link;
        self.driver.input(Input::Goodbye { link });
    }

    /// A user's program on a node asks for devices, or for none in particular.
    pub(super) fn open(&self, user: &str, program: &str, node: &str, devices: Option<&str>) -> ClientId {
        let (outbox, inbox) = mpsc::channel(64);
        self.clients.borrow_mut().push(inbox);
        let client = self.driver.add_client(outbox);
        self.keys.set(self.keys.get() + 1);
        let key = SessionKey([self.keys.get(); SessionKey::LEN]);
        let request = SessionRequest {
            node_name: node.into(),
            pid: 1,
            program: program.into(),
            rank: None,
            kind: None,
            order: OrderPolicy::Local,
            devices: devices.map(str::to_owned),
            job: None,
        };
        self.driver.input(Input::Open { client, request, key, user: user.into() });
        client
    }

    pub(super) fn apply_policy(&self, text: &str) {
        let policy = Box::new(SitePolicy::read(text, None).unwrap());
        self.driver.input(Input::ApplyPolicy { policy, by: "admin root".into() });
    }

    /// The page's address with a code, by gRPC.
    pub(super) fn address_for(&self, role: Role) -> String {
        let own = self.authority.identity(role, HOUR).unwrap();
        let reach = channel::Coordinator::new(&self.address.to_string(), Arc::new(Trust::fixed(own)), SOON);
        let reply = self.runtime.block_on(async {
            let mut cluster = ClusterClient::new(reach.connect(|endpoint| endpoint).await.unwrap());
            cluster.open_page(v1::OpenPageRequest { version: VERSION }).await.map(Response::into_inner).unwrap()
        });
        assert!(reply.is_local && reply.valid_ms == 60_000, "{reply:?}");
        reply.url
    }

    /// A cookie of a browser that has used a code.
    pub(super) fn cookie_of(&self, role: Role) -> String {
        let url = self.address_for(role);
        let (_, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let answer = self.get(&format!("/{path}"), "");
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// The answer to a request with a cookie, unless it is empty.
    pub(super) fn get(&self, path: &str, cookie: &str) -> Answer {
        let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        self.say(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{cookie}Connection: close\r\n\r\n", self.page))
    }

    /// The answer to what is sent.
    pub(super) fn say(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A connection that is reset after its answer has it all the same.
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&String::from_utf8(bytes).unwrap())
    }

    pub(super) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.page).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    /// The events of an address.
    pub(super) fn events(&self, path: &str, cookie: &str) -> Events {
        let asked = unix_ms();
        loop {
            let mut events = self.stream(path, cookie);
            let first = events.next();
            // Rows may be as old as a second, and older than what the test has done.
            if first.as_ref().is_none_or(|first| first["unix_ms"].as_u64().is_none_or(|at| at >= asked)) {
                return Events { first, ..events };
            }
            drop(events);
            std::thread::sleep(Duration::from_millis(1_050));
        }
    }

    /// Opens a stream, whose rows may be as old as a second.
    pub(super) fn stream(&self, path: &str, cookie: &str) -> Events {
        let mut stream = self.connect();
        let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{cookie}\r\n", self.page).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let head: String = std::iter::from_fn(|| {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            (line != "\r\n").then_some(line)
        })
        .collect();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("content-type: text/event-stream"), "{head}");
        Events { first: None, reader }
    }
}

/// An answer of HTTP.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Self { status, headers: headers.collect(), body: body.to_owned() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

/// Server-sent events, in chunks of HTTP.
pub(super) struct Events {
    /// An event that was read ahead.
    first: Option<Value>,
    reader: BufReader<TcpStream>,
}

impl Events {
    /// The next event with rows; `None` once there are no more.
    pub(super) fn next(&mut self) -> Option<Value> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let mut length = String::new();
            self.reader.read_line(&mut length).unwrap();
            let length = usize::from_str_radix(length.trim(), 16).ok().filter(|length| *length > 0)?;
            let mut chunk = vec![0; length + 2];
            self.reader.read_exact(&mut chunk).unwrap();
            let text = String::from_utf8(chunk).unwrap();
            if let Some(data) = text.strip_prefix("data: ") {
                return Some(serde_json::from_str(data.trim_end()).unwrap());
            }
        }
    }

    /// The first event for which something holds.
    pub(super) fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        std::iter::from_fn(|| self.next()).find(holds).expect("the events have ended")
    }
}

/// The rows of an event.
pub(super) fn rows(event: &Value) -> Vec<&Value> {
    event["changed"].as_array().unwrap().iter().map(|changed| &changed["row"]).collect()
}
