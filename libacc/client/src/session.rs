//! A session's devices, here and on other nodes.

use crate::cluster::{BeforeStart, LocalDeviceClient};
use crate::coordinator_link::CoordinatorLink;
use crate::driver_lane::DriverLane;
use crate::executor_ends::{ExecutorEnds, LaneEnd};
use crate::lost_nodes::LostNodes;
use crate::node_memory::NodeMemory;
use crate::node_turns::NodeTurns;
use crate::own_devices::OwnDevices;
use crate::own_use::OwnUse;
use crate::remote::{self, End, NodeSpec, RemoteDeviceClient, RemoteNode, SessionSpec};
use crate::settings::SessionSettings;
use crate::watchdog::Watchdog;
use accord_device::SameHostPeers;
use accord_executor::copy;
use accord_fabric::Key;
use accord_fabric::frame::session::Message;
use accord_fabric::route::{Endpoint, LaneTerms, Route};
use accord_fabric::stats::Counters;
use accord_fabric::transfer::Exchange;
use accord_fabric::transport::PeerAddress;
use accord_runtime::ports::{Cluster, DeviceClient};
use accord_types::{
    DeviceInfo, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, Lease, NodeId, QueueId, Result, printable, scarce,
    streams_max, threads,
};
use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The devices of a session, in the order of their numbers.
pub struct Session {
    clients: Vec<Arc<dyn DeviceClient>>,
    places: Vec<DeviceLocation>,
    own_node: Option<NodeId>,
    exchange: Arc<Exchange>,
    same_host: Option<Arc<SameHostPeers>>,
    nodes: Arc<Vec<Arc<RemoteNode>>>,
    /// Open as long as the session.
    coordinator: Option<Arc<CoordinatorLink>>,
    /// The use of devices that is reported to the coordinator.
    own_use: Option<Arc<OwnUse>>,
}

/// The location of a device.
enum DeviceLocation {
    Here(Arc<dyn LocalDeviceClient>),
    There(Arc<RemoteDeviceClient>),
}

/// The traffic of the connection to one node.
#[derive(Clone, Debug)]
pub struct NodeReport {
    /// The node at the other end.
    pub node_name: String,
    /// The route of its lanes, and the reason for it.
    pub route: Route,
    /// Traffic as this program counts it.
    pub program: Counters,
    /// Traffic as the executor counts it, of its lanes to this program.
    pub executor: Counters,
    /// Traffic as the executor counts it, of its lanes to other executors.
    pub peers: Counters,
}

impl Session {
    pub(crate) fn of_this_machine(locals: Vec<Arc<dyn LocalDeviceClient>>) -> Self {
        Self {
            clients: locals.iter().map(|client| Arc::clone(client) as Arc<dyn DeviceClient>).collect(),
            places: locals.into_iter().map(DeviceLocation::Here).collect(),
            own_node: None,
            exchange: Exchange::new(),
            same_host: None,
            nodes: Arc::default(),
            coordinator: None,
            own_use: None,
        }
    }

    pub(crate) fn of_lease(
        lease: Lease,
        settings: SessionSettings,
        coordinator: Option<Arc<CoordinatorLink>>,
    ) -> Result<Self> {
        let own = |info: &DeviceInfo| lease.own_node == Some(info.id.node);
        let here: Vec<_> = lease.devices.iter().map(|device| &device.info).filter(|info| own(info)).cloned().collect();
        let mut locals = (settings.local)(&here)?.into_iter();
        let exchange = Exchange::new();
        let shares =
            |info: &DeviceInfo| accord_backends::capabilities(info.kind).is_some_and(|able| able.shares_memory);
        let same_host = settings.same_host.filter(|_| here.iter().any(shares));
        let session = Arc::new(SessionSpec {
            id: lease.session,
            key: Key::from(lease.key),
            program: settings.program,
            images: settings.images,
            trace: settings.trace,
            same_host: same_host.clone(),
            watchdog: Watchdog::new(settings.limits.silence),
            world_news: Arc::default(),
            executor_ends: Arc::default(),
            next_transfer: AtomicU64::new(1),
        });
        let (mut memory, mut turns, mut own_devices) = (None, None, OwnDevices::default());
        let mut nodes = BTreeMap::<NodeId, Arc<RemoteNode>>::new();
        // Numbered as in the program: among the devices of their type.
        let mut numbers = HashMap::<DeviceType, u32>::new();
        let (mut clients, mut places) = (Vec::<Arc<dyn DeviceClient>>::new(), Vec::new());
        let mut driven = Vec::new();
        for device in &lease.devices {
            let info = device.info.clone();
            if own(&info)
                && let Some(local) = locals.next().flatten()
            {
                local.limit_streams(lease.stream_quota);
                let has_driver = accord_backends::capabilities(info.kind).is_some_and(|able| able.native_handles);
                let agent = Endpoint { node: info.id.node, address: PeerAddress::new(&*device.address) };
                let terms = LaneTerms { wanted: settings.transport, plain_tcp: lease.plain_tcp };
                if let Some(coordinator) = coordinator.clone().filter(|_| !has_driver) {
                    let (agent, key) = (agent.clone(), Key::from(lease.key));
                    let account = || Arc::new(NodeMemory::new(agent, terms, lease.session, key, coordinator));
                    local.count_memory(memory.get_or_insert_with(account).clone());
                }
                if let Some(coordinator) = coordinator.clone().filter(|link| device.is_shared || link.is_of_job()) {
                    let (agent, key) = (agent.clone(), Key::from(lease.key));
                    let new = || NodeTurns::new(agent, terms, lease.session, key, coordinator);
                    local.take_turns(turns.get_or_insert_with(new).clone());
                }
                if let Some(coordinator) = coordinator.clone() {
                    let lane = own_devices.lane(|| DriverLane::new(agent, terms, lease.session, Key::from(lease.key)));
                    own_devices.add(&local);
                    let id = info.id;
                    local.on_start(Box::new(move || {
                        coordinator.use_own_device(id)?;
                        if coordinator.agent_knows(id.node) { lane.open(coordinator.is_of_job()) } else { Ok(()) }
                    }));
                }
                *numbers.entry(local.device_type()).or_default() += 1;
                driven.push((info.id, local.clone()));
                clients.push(local.clone());
                places.push(DeviceLocation::Here(local));
                continue;
            }
            let node = nodes.entry(info.id.node).or_insert_with(|| {
                let spec = NodeSpec {
                    node: info.id.node,
                    node_name: info.node_name.clone(),
                    endpoint: Endpoint { node: info.id.node, address: PeerAddress::new(&*device.address) },
                    transport: LaneTerms { wanted: settings.transport, plain_tcp: lease.plain_tcp },
                    streams: streams_max(lease.stream_quota),
                    open_limit: settings.limits.opening,
                    session: session.clone(),
                };
                RemoteNode::new(spec, exchange.clone())
            });
            let backend = accord_backends::backend(info.kind).map_err(|error| error.node(&info.node_name))?;
            let emulates = session.program.emulate_gpu && backend.capabilities.fallback;
            let device_type = if emulates { DeviceType::Nvidia } else { backend.capabilities.device_type };
            let id = info.id;
            let on_start =
                coordinator.clone().map(|coordinator| -> BeforeStart { Box::new(move || coordinator.use_device(id)) });
            let num = numbers.entry(device_type).or_default();
            let client = RemoteDeviceClient::new(
                node.clone(),
                info,
                backend,
                device_type,
                DeviceNum(*num),
                lease.memory_quota,
                on_start,
            );
            *num += 1;
            let client = Arc::new(client);
            clients.push(client.clone());
            places.push(DeviceLocation::There(client));
        }
        let nodes = Arc::new(nodes.into_values().collect::<Vec<_>>());
        let own_use = coordinator.as_ref().map(|_| Arc::new(OwnUse::new(lease.session, driven)));
        if let (Some(coordinator), Some(own_use)) = (&coordinator, &own_use) {
            report_ends(coordinator, own_use);
            let (world_news, executor_ends) = (session.world_news.clone(), session.executor_ends.clone());
            listen((coordinator.clone(), own_use.clone()), nodes.clone(), own_devices, world_news, executor_ends)?;
        }
        Ok(Self { clients, places, own_node: lease.own_node, exchange, same_host, nodes, coordinator, own_use })
    }

    /// Returns the traffic of all connections.
    ///
    /// # Errors
    /// Returns an error if a connection is lost.
    pub fn report(&self) -> Result<Vec<NodeReport>> {
        let connected = self.nodes.iter().filter(|node| node.connected().is_some());
        connected
            .map(|node| {
                let (executor, peers) = node.executor_counters()?;
                let node_name = node.spec.node_name.clone();
                let route = node.route()?;
                Ok(NodeReport { node_name, route, program: node.counters(), executor, peers })
            })
            .collect()
    }

    /// Returns the traffic of all connections so far, as this program counts it, without a request.
    pub fn counters(&self) -> Vec<Counters> {
        self.nodes.iter().map(|node| node.counters()).collect()
    }

    fn place(&self, index: usize) -> Result<&DeviceLocation> {
        self.places
            .get(index)
            .ok_or_else(|| Error::new(ErrorCode::DeviceUnavailable, format!("there is no device {index}")))
    }
}

impl Cluster for Session {
    fn clients(&self) -> &[Arc<dyn DeviceClient>] {
        &self.clients
    }

    fn own_node(&self) -> Option<NodeId> {
        self.own_node
    }

    fn copy_between(
        &self,
        queue: QueueId,
        source: usize,
        src: DevicePtr,
        target: usize,
        dst: DevicePtr,
        len: u64,
    ) -> Result<()> {
        let (from, to) = (self.place(source)?, self.place(target)?);
        if source == target {
            return self.clients[source].copy(queue, dst, src, len);
        }
        if len == 0 {
            return Ok(());
        }
        // Executors count copies of remote devices.
        if let DeviceLocation::Here(from) = from {
            from.hosted()?.counters().copied_out(len);
        }
        if let DeviceLocation::Here(to) = to {
            to.hosted()?.counters().copied_in(len);
        }
        match (from, to) {
            (DeviceLocation::Here(from), DeviceLocation::Here(to)) => {
                let (from, to) = (from.hosted()?, to.hosted()?);
                let state = from.queue(queue)?;
                let (source, target) = (copy::End { hosted: &from, start: src }, copy::End { hosted: &to, start: dst });
                state.advance(copy::copy_here(state.stream(), source, target, len, to.last_synchronous())?);
                Ok(())
            }
            (DeviceLocation::Here(from), DeviceLocation::There(to)) => remote::local_to_remote(
                &self.exchange,
                queue,
                &End { client: &**from, start: src },
                &End { client: &**to, start: dst },
                len,
            ),
            (DeviceLocation::There(from), DeviceLocation::Here(to)) => remote::remote_to_local(
                &self.exchange,
                queue,
                &End { client: &**from, start: src },
                &End { client: &**to, start: dst },
                len,
            ),
            (DeviceLocation::There(from), DeviceLocation::There(to)) => remote::remote_to_remote(
                queue,
                &End { client: &**from, start: src },
                &End { client: &**to, start: dst },
                len,
            ),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let over = Error::new(ErrorCode::DeviceShutdown, "the session is over");
        for node in &*self.nodes {
            node.close();
        }
        self.exchange.close(&over);
        if let Some(same_host) = &self.same_host {
            same_host.close();
        }
        if let Some(coordinator) = &self.coordinator {
            coordinator.report_used(&self.own_use.as_ref().map(|own| own.sample(true)).unwrap_or_default());
            coordinator.close();
        }
    }
}

/// Reports the final use of each device when it is shut down, also at the process's exit.
fn report_ends(coordinator: &Arc<CoordinatorLink>, own_use: &Arc<OwnUse>) {
    for device in own_use.devices() {
        let (coordinator, own_use) = (coordinator.clone(), Arc::downgrade(own_use));
        device.on_end(Box::new(move || {
            if let Some(own_use) = own_use.upgrade() {
                coordinator.report_used(&own_use.sample(true));
            }
        }));
    }
}

/// Handles the coordinator's messages while the session is open.
fn listen(
    (coordinator, own_use): (Arc<CoordinatorLink>, Arc<OwnUse>),
    nodes: Arc<Vec<Arc<RemoteNode>>>,
    own_devices: OwnDevices,
    world_news: Arc<LostNodes>,
    executor_ends: Arc<ExecutorEnds>,
) -> Result<()> {
    // Lost if standard error is closed.
    let say = |text: &str| drop(writeln!(std::io::stderr(), "accord: {}", printable(text)));
    let serve = move || {
        let end_lanes = |why: &str| {
            executor_ends.session_is_over(why);
            nodes.iter().for_each(|node| node.lose(why));
            coordinator.session_is_over();
        };
        let hear = |message| match message {
            Message::NodeLost { node, name } => {
                world_news.has_died(&name);
                for lost in nodes.iter().filter(|known| known.spec.node == node) {
                    // The coordinator may be wrong, so the executor is checked.
                    lost.doubt();
                }
                own_devices.agent_lost(node);
            }
            Message::NodeLeft { node, name } => {
                executor_ends.notify(node, LaneEnd::AgentStopped(name));
                nodes.iter().filter(|known| known.spec.node == node).for_each(|left| left.doubt());
            }
            Message::ExecutorEnded { node, why } => executor_ends.notify(node, LaneEnd::Process(why)),
            Message::Warning(text) => say(&text),
            Message::Ended(why) => {
                end_lanes(&why);
                own_devices.end(&why, say);
            }
            _ => {}
        };
        if let Some(why) = coordinator.listen(&own_use, hear) {
            end_lanes(&why);
            // Without a job no other program gets these devices exclusively, and a broken connection must not end work
            // on them.
            if coordinator.is_of_job() {
                own_devices.end(&why, say);
            }
        }
    };
    threads::spawn("accord-session", serve)
        .map(drop)
        .map_err(|error| Error::new(ErrorCode::System, format!("starting a thread: {error}")).remedy(scarce::THREADS))
}
