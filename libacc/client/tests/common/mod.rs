//! A cluster of fake devices in the test's process: real handshakes, sockets and executors.
// Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub)]

use accord_client::{
    LocalDeviceClient, Session, SessionSettings, TimeLimits, UserMessages, WantedDevices, connect_direct,
};
use accord_device::fake::{FakeDevice, FakeRegion};
use accord_device::image::Images;
use accord_device::{Device, WorkerStart};
use accord_executor::{self as executor, DeviceFactory, ExecutorConfig, Limits, OutputSink, Work};
use accord_fabric::copy_way::CopyWays;
use accord_fabric::handshake::{self, Hello, Introduced, Purpose};
use accord_fabric::peer::PeerId;
use accord_fabric::route::{Endpoint, TransportChoice};
use accord_fabric::transport::{self, Handover, Lane, Listener, PeerAddress};
use accord_fabric::{Key, ProgramSpec};
use accord_runtime::ports::{Cluster, DeviceClient, ReadWhen};
use accord_types::{
    AddressRange, ArgBlock, DeviceId, DeviceInfo, DeviceKind, DevicePtr, Error, ErrorCode, FunctionSpec, HostRange,
    LaunchDims, Lease, LeasedDevice, NodeId, ObjectSpec, QueueId, Result, SessionId, SessionKey, SpanSink,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const MIB: u64 = 1 << 20;
pub const MEMORY: u64 = 1 << 30;
/// Length of a copy in that an executor requests only in its turn.
pub const LONG: usize = accord_executor::request_window::AHEAD_MAX as usize + 1;
pub const SESSION: SessionId = SessionId(7);
pub const Q1: QueueId = QueueId(1);
pub const Q2: QueueId = QueueId(2);

/// Fake regions by offset, for every device.
pub type Regions = Vec<(u64, &'static str, FakeRegion)>;

/// An agent on a port of this machine, with a thread as executor for each session.
pub struct Agent {
    pub node: NodeId,
    pub address: PeerAddress,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    node: NodeId,
    key: Key,
    regions: Regions,
    devices: u32,
    sessions: Mutex<HashMap<SessionId, (Handover, JoinHandle<()>)>>,
    made: Arc<Mutex<Vec<Arc<FakeDevice>>>>,
    outputs: Arc<Mutex<Vec<OutputSink>>>,
    images: Arc<Mutex<Arc<Images>>>,
    stream_quota: AtomicU32,
    executors: AtomicU32,
    /// Number of command lanes that arrive before the coordinator's announcement.
    early: AtomicU32,
}

impl Agent {
    pub fn start(node: u32, devices: u32, key: &Key, regions: Regions) -> Self {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let shared = Arc::new(Shared {
            node: NodeId(node),
            key: key.clone(),
            regions,
            devices,
            sessions: Mutex::default(),
            made: Arc::default(),
            outputs: Arc::default(),
            images: Arc::default(),
            stream_quota: AtomicU32::new(0),
            executors: AtomicU32::new(0),
            early: AtomicU32::new(0),
        });
        let peer = Endpoint { node: NodeId(node), address: address.clone() };
        let near = Listener::bind_local(&peer).unwrap();
        let of_threads = [shared.clone(), shared.clone()];
        let threads = [listener, near].into_iter().zip(of_threads).map(|(listener, of_thread)| {
            std::thread::spawn(move || {
                while let Ok((lane, _)) = listener.accept() {
                    let key_of = |_: &Hello| Ok(of_thread.key.clone());
                    let reported = |hello: &Hello| of_thread.told_of(hello);
                    match handshake::accept_if(&*lane, Duration::from_secs(2), key_of, reported) {
                        Ok(client) => of_thread.hand_over(&*lane, &client),
                        Err(error) if error.cause().contains("end of the test") => return,
                        Err(_) => {}
                    }
                    if of_thread.sessions.lock().unwrap().contains_key(&SessionId(u64::MAX)) {
                        return;
                    }
                }
            })
        });
        let threads = threads.collect();
        Self { node: NodeId(node), address, shared, threads }
    }

    /// Returns the key that programs must prove.
    pub fn session_key(&self) -> SessionKey {
        SessionKey::from_bytes(self.shared.key.bytes()).unwrap()
    }

    /// Returns the created devices in order.
    pub fn devices(&self) -> Vec<Arc<FakeDevice>> {
        self.shared.made.lock().unwrap().clone()
    }

    /// Returns the sinks of the devices' workers' output, in the order of the devices.
    pub fn outputs(&self) -> Vec<OutputSink> {
        self.shared.outputs.lock().unwrap().clone()
    }

    /// Returns the GPU code that was received for the last created device.
    pub fn images(&self) -> Arc<Images> {
        self.shared.images.lock().unwrap().clone()
    }

    /// Limits the streams of later sessions.
    pub fn limit_streams(&self, quota: u32) {
        self.shared.stream_quota.store(quota, Ordering::Relaxed);
    }

    /// Returns the number of started executors.
    pub fn executors(&self) -> u32 {
        self.shared.executors.load(Ordering::Relaxed)
    }

    /// Refuses this many further command lanes.
    pub fn hears_late(&self, lanes: u32) {
        self.shared.early.store(lanes, Ordering::Relaxed);
    }

    /// Returns the number of command lanes that it will still refuse.
    pub fn still_early(&self) -> u32 {
        self.shared.early.load(Ordering::Relaxed)
    }

    /// Ends all executors at once, like `kill -9`: their sockets close.
    pub fn kill(&self) {
        for (_, (control, _)) in self.shared.sessions.lock().unwrap().iter() {
            control.shutdown_writes();
        }
    }

    /// Does the same as [`Agent::kill`], and waits until they have ended.
    pub fn kill_now(&self) {
        self.kill();
        let sessions = self.shared.sessions.lock().unwrap();
        sessions.values().for_each(|(_, thread)| wait_for_end(thread));
    }

    /// Waits until the executor of the session has ended.
    pub fn join(&self) {
        let session = self.shared.sessions.lock().unwrap().remove(&SESSION);
        if let Some((_, thread)) = session {
            thread.join().unwrap();
        }
    }
}

/// Waits for the end as long as an agent does before it kills.
fn wait_for_end(executor: &JoinHandle<()>) {
    let end = Instant::now() + Duration::from_secs(1);
    while !executor.is_finished() && Instant::now() < end {
        std::thread::yield_now();
    }
}

impl Shared {
    fn told_of(&self, hello: &Hello) -> Result<()> {
        let fewer = |left: u32| left.checked_sub(1);
        let early = || self.early.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok();
        if hello.purpose == Purpose::Command && early() {
            return Err(Error::new(ErrorCode::DeviceUnavailable, "no word of the session").transient());
        }
        Ok(())
    }

    fn hand_over(&self, lane: &dyn Lane, client: &Introduced) {
        let hello = &client.hello;
        let mut sessions = self.sessions.lock().unwrap();
        if hello.purpose == Purpose::Command {
            // One executor after the other, as in an agent.
            if let Some((before, thread)) = sessions.remove(&hello.session) {
                before.shutdown_writes();
                wait_for_end(&thread);
            }
        } else if !sessions.contains_key(&hello.session) {
            return;
        }
        let (control, _) = sessions.entry(hello.session).or_insert_with(|| {
            self.executors.fetch_add(1, Ordering::Relaxed);
            let (here, there) = Handover::pair().unwrap();
            let factory = Factory {
                node: self.node,
                regions: self.regions.clone(),
                made: self.made.clone(),
                outputs: self.outputs.clone(),
                images: self.images.clone(),
                own: Mutex::default(),
            };
            let config = ExecutorConfig {
                report: Arc::new(|_| ()),
                node: self.node,
                node_name: node_name(self.node),
                session: hello.session,
                limits: Limits {
                    ordinals: (0..self.devices).collect(),
                    memory: 0,
                    streams: self.stream_quota.load(Ordering::Relaxed),
                },
                key: self.key.clone(),
                transport: wanted().into(),
                ways: CopyWays::default(),
                devices: Box::new(factory),
            };
            let thread = std::thread::spawn(move || {
                let _ = executor::run(there, config);
            });
            (here, thread)
        });
        let _ = control.send(lane, client);
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
        self.shared
            .sessions
            .lock()
            .unwrap()
            .insert(SessionId(u64::MAX), (Handover::pair().unwrap().0, std::thread::spawn(|| ())));
        let hello = Hello::new(Purpose::Bulk, SessionId(0), 0, PeerId::PROGRAM);
        let _ = handshake::connect(&self.address, &hello, &self.shared.key, Duration::from_secs(1));
        let peer = Endpoint { node: self.node, address: self.address.clone() };
        let _ = transport::route(&peer, TransportChoice::Auto.into());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

struct Factory {
    node: NodeId,
    regions: Regions,
    made: Arc<Mutex<Vec<Arc<FakeDevice>>>>,
    outputs: Arc<Mutex<Vec<OutputSink>>>,
    images: Arc<Mutex<Arc<Images>>>,
    /// The devices of this executor.
    own: Mutex<HashMap<u32, Arc<FakeDevice>>>,
}

/// Cause of a device's failure after which only another executor can start it.
pub const FOR_GOOD: &str = "the context is lost";

impl DeviceFactory for Factory {
    fn create(
        &self,
        work: &Work,
        ordinal: u32,
        place: Option<AddressRange>,
        output: OutputSink,
        _: &Arc<WorkerStart>,
    ) -> Result<Arc<dyn Device>> {
        assert_eq!(work.program.exe, "/bin/app");
        if let Some(before) = self.own.lock().unwrap().get(&ordinal)
            && let Err(error) = before.create_stream(Q1)
            && error.cause() == FOR_GOOD
        {
            return Err(Error::new(ErrorCode::DeviceInit, FOR_GOOD));
        }
        let device = FakeDevice::at(DeviceId { node: self.node, ordinal }, &node_name(self.node), MEMORY, place);
        for (offset, name, region) in &self.regions {
            device.register(*offset, name, region.clone());
        }
        self.own.lock().unwrap().insert(ordinal, device.clone());
        self.made.lock().unwrap().push(device.clone());
        self.outputs.lock().unwrap().push(output);
        *self.images.lock().unwrap() = work.images.clone();
        Ok(device)
    }
}

pub fn node_name(node: NodeId) -> String {
    format!("h{}", node.0)
}

/// Agents, and a session over all their devices.
pub struct World {
    pub session: Arc<Session>,
    pub agents: Vec<Agent>,
    pub key: Key,
}

pub fn world(nodes: u32, devices: u32, regions: Regions) -> World {
    traced_world(nodes, devices, regions, None)
}

pub fn traced_world(nodes: u32, devices: u32, regions: Regions, trace: Option<Arc<dyn SpanSink>>) -> World {
    let key = Key::random().unwrap();
    let agents: Vec<_> = (1..=nodes).map(|node| Agent::start(node, devices, &key, regions.clone())).collect();
    let lease = lease(&agents, devices);
    let session = connect_direct(lease, settings(trace, Vec::new())).unwrap();
    World { session: Arc::new(session), agents, key }
}

pub fn lease(agents: &[Agent], devices: u32) -> Lease {
    let leased = agents.iter().flat_map(|agent| {
        (0..devices).map(|ordinal| LeasedDevice {
            info: info(agent.node, ordinal),
            address: agent.address.to_string(),
            is_shared: false,
        })
    });
    Lease {
        session: SESSION,
        key: agents.first().map_or(SessionKey([0; SessionKey::LEN]), Agent::session_key),
        own_node: None,
        devices: leased.collect(),
        memory_quota: 0,
        stream_quota: 64,
        plain_tcp: false,
        is_of_job: false,
    }
}

pub fn info(node: NodeId, ordinal: u32) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId { node, ordinal },
        node_name: node_name(node),
        kind: DeviceKind::CPU,
        name: "fake".to_owned(),
        vendor: "Accord".to_owned(),
        driver: "0".to_owned(),
        uuid: String::new(),
        memory: MEMORY,
        units: 1,
        compute: (0, 0),
        context: 0,
        attributes: Vec::new(),
        numa: None,
        cpus: Vec::new(),
    }
}

pub fn settings(trace: Option<Arc<dyn SpanSink>>, locals: Vec<Arc<dyn LocalDeviceClient>>) -> SessionSettings {
    SessionSettings {
        coordinator: None,
        node_name: "h0".to_owned(),
        wanted: WantedDevices::default(),
        devices: Vec::new(),
        local: Box::new(move |_| Ok(locals.iter().cloned().map(Some).collect())),
        images: Arc::default(),
        same_host: None,
        program: ProgramSpec { exe: "/bin/app".to_owned(), ..ProgramSpec::default() },
        transport: wanted(),
        limits: TimeLimits { silence: None, opening: Duration::ZERO },
        messages: UserMessages { notify: Box::new(|_| ()), waits: Box::new(|_| ()) },
        trace,
    }
}

/// Returns the transport under test: shared memory, TCP in `over_tcp`, or TLS in `over_tls`.
pub fn wanted() -> TransportChoice {
    let exe = std::env::current_exe().unwrap();
    let name = exe.file_name().unwrap().to_string_lossy();
    match () {
        () if name.starts_with("over_tcp") => TransportChoice::Tcp,
        () if name.starts_with("over_tls") => TransportChoice::Tls,
        () => TransportChoice::Auto,
    }
}

impl World {
    /// Returns a started device.
    pub fn client(&self, index: usize) -> Arc<dyn DeviceClient> {
        let client = self.session.clients()[index].clone();
        client.start().unwrap();
        client
    }

    /// Returns a started device with mapped memory, and the memory's start.
    pub fn mapped(&self, index: usize, len: u64) -> (Arc<dyn DeviceClient>, DevicePtr) {
        let client = self.client(index);
        let start = client.addresses().0;
        client.map(start, len).unwrap();
        (client, start)
    }

    /// Returns the number of times that this program has blocked for an answer.
    pub fn round_trips(&self) -> u64 {
        self.session.counters().iter().map(|counters| counters.round_trips).sum()
    }
}

pub fn range(bytes: &[u8]) -> HostRange {
    HostRange { start: bytes.as_ptr().expose_provenance(), len: bytes.len() }
}

pub fn range_mut(bytes: &mut [u8]) -> HostRange {
    HostRange { start: bytes.as_mut_ptr().expose_provenance(), len: bytes.len() }
}

pub fn pattern(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + salt) as u8).collect()
}

/// Copies device memory to the program and waits for it.
pub fn read_back(client: &dyn DeviceClient, src: DevicePtr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.copy_out(QueueId::SYNC, src, range_mut(&mut bytes)).unwrap();
    client.wait(&[QueueId::SYNC]).unwrap();
    bytes
}

pub fn copy_in(client: &dyn DeviceClient, queue: QueueId, dst: DevicePtr, bytes: &[u8], when: ReadWhen) {
    client.copy_in(queue, dst, range(bytes), when).unwrap();
}

/// Launches the region registered at `offset` with these slots.
pub fn launch(client: &dyn DeviceClient, queue: QueueId, offset: u64, slots: &[u64]) -> Result<()> {
    let block: Vec<u8> = slots.iter().flat_map(|slot| slot.to_le_bytes()).collect();
    let relative = vec![0; slots.len().div_ceil(64)];
    let block = ArgBlock { bytes: &block, slots: slots.len() as u32, relative: &relative };
    let spec = || {
        Ok(FunctionSpec {
            object: ObjectSpec { path: "/bin/app".to_owned(), build_id: "1".to_owned(), executable: true },
            offset,
            name: format!("region{offset}"),
            kernel: None,
        })
    };
    client.launch(queue, 0x1000 + offset, &spec, LaunchDims::default(), block)
}

/// Adds slot 1 to each of the slot 2 bytes at slot 0.
pub const ADD: u64 = 16;
/// Does nothing.
pub const EMPTY: u64 = 32;
/// Fails.
pub const FAIL: u64 = 48;
/// Waits until the test opens the gate.
pub const GATE: u64 = 64;

/// A gate that regions wait at.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, std::sync::Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn pass(&self) {
        let mut open = self.0.0.lock().unwrap();
        while !*open {
            open = self.0.1.wait(open).unwrap();
        }
    }
}

impl Drop for World {
    /// A failed test must not leave regions waiting.
    fn drop(&mut self) {
        for agent in &self.agents {
            agent.kill();
        }
    }
}

pub fn regions(gate: &Gate) -> Regions {
    let gate = gate.clone();
    vec![
        (
            ADD,
            "add",
            Arc::new(|launch| {
                let [at, add, len] = *launch.slots else { panic!("three slots") };
                let mut bytes = vec![0; usize::try_from(len).unwrap()];
                launch.memory.read(DevicePtr(at), &mut bytes)?;
                bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_add(add as u8));
                launch.memory.write(DevicePtr(at), &bytes)
            }),
        ),
        (EMPTY, "empty", Arc::new(|_| Ok(()))),
        (
            FAIL,
            "fail",
            Arc::new(|_| {
                Err(Error::new(ErrorCode::Execution, "region fail ended with SIGSEGV").remedy("look at line 7"))
            }),
        ),
        (
            GATE,
            "gate",
            Arc::new(move |_| {
                gate.pass();
                Ok(())
            }),
        ),
    ]
}
