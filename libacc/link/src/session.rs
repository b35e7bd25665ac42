//! A session's devices, wherever they are.

use crate::cluster::LocalPort;
use crate::connect::LinkSettings;
use crate::local_copy;
use crate::remote::{self, End, Link, LinkSpec, RemotePort};
use accord_device::cuda::Neighbors;
use accord_fabric::Key;
use accord_fabric::door::{DoorConnection, Message};
use accord_fabric::exchange::Exchange;
use accord_fabric::stats::Counters;
use accord_runtime::ports::{Cluster, Port};
use accord_types::{
    DeviceInfo, DeviceKind, DeviceNum, DevicePtr, DeviceType, Error, ErrorCode, Lease, NodeId, QueueId, Result,
    streams_max,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The devices of a session, in the order of their numbers.
pub struct Session {
    ports: Vec<Arc<dyn Port>>,
    places: Vec<Place>,
    own_node: Option<NodeId>,
    exchange: Arc<Exchange>,
    neighbors: Option<Arc<Neighbors>>,
    links: Arc<Vec<Arc<Link>>>,
    /// Open as long as the session.
    door: Option<Arc<DoorConnection>>,
}

/// Where a device is.
enum Place {
    Here(Arc<dyn LocalPort>),
    There(Arc<RemotePort>),
}

/// What went over the link to one node.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// The node at the other end.
    pub node_name: String,
    /// As this program counts.
    pub program: Counters,
    /// As the executor counts: its lanes to this program.
    pub executor: Counters,
    /// As the executor counts: its lanes to other executors.
    pub peers: Counters,
}

impl Session {
    pub(crate) fn of_this_machine(locals: Vec<Arc<dyn LocalPort>>) -> Self {
        Self {
            ports: locals.iter().map(|port| Arc::clone(port) as Arc<dyn Port>).collect(),
            places: locals.into_iter().map(Place::Here).collect(),
            own_node: None,
            exchange: Exchange::new(),
            neighbors: None,
            links: Arc::default(),
            door: None,
        }
    }

    pub(crate) fn of_lease(
        lease: Lease,
        key: &Key,
        settings: LinkSettings,
        door: Option<DoorConnection>,
    ) -> Result<Self> {
        let door = door.map(Arc::new);
        let own = |info: &DeviceInfo| lease.own_node == Some(info.id.node);
        let here: Vec<_> = lease.devices.iter().map(|device| &device.info).filter(|info| own(info)).cloned().collect();
        let mut locals = (settings.local)(&here)?.into_iter();
        let exchange = Exchange::new();
        let gpus_here = here.iter().any(|info| info.kind == DeviceKind::Cuda);
        let neighbors = settings.neighbors.filter(|_| gpus_here);
        let transfers = Arc::new(AtomicU64::new(1));
        let program = Arc::new(settings.program);
        let mut links = BTreeMap::<NodeId, Arc<Link>>::new();
        // As the program counts them: among the devices of their type.
        let mut numbers = HashMap::<DeviceType, u32>::new();
        let (mut ports, mut places) = (Vec::<Arc<dyn Port>>::new(), Vec::new());
        for (number, device) in (0..).zip(&lease.devices) {
            let info = device.info.clone();
            if own(&info)
                && let Some(local) = locals.next().flatten()
            {
                local.limit_streams(lease.stream_quota);
                if let Some(door) = door.clone() {
                    local.on_start(Box::new(move || door.report_use(number)));
                }
                *numbers.entry(local.device_type()).or_default() += 1;
                ports.push(local.clone());
                places.push(Place::Here(local));
                continue;
            }
            let link = links.entry(info.id.node).or_insert_with(|| {
                let spec = LinkSpec {
                    node: info.id.node,
                    node_name: info.node_name.clone(),
                    address: device.address.clone(),
                    session: lease.session,
                    streams: streams_max(lease.stream_quota),
                    key: key.clone(),
                    program: program.clone(),
                    images: settings.images.clone(),
                    trace: settings.trace.clone(),
                    neighbors: neighbors.clone(),
                    transfers: transfers.clone(),
                };
                Link::new(spec, exchange.clone())
            });
            let device_type = match info.kind {
                DeviceKind::Cpu if !program.emulate_nvidia => DeviceType::Cpu,
                DeviceKind::Cpu | DeviceKind::Cuda => DeviceType::Nvidia,
            };
            let started =
                door.clone().map(|door| -> Box<dyn Fn() + Send + Sync> { Box::new(move || door.report_use(number)) });
            let num = numbers.entry(device_type).or_default();
            let port = RemotePort::new(link.clone(), info, device_type, DeviceNum(*num), lease.memory_quota, started);
            *num += 1;
            let port = Arc::new(port);
            ports.push(port.clone());
            places.push(Place::There(port));
        }
        let links = Arc::new(links.into_values().collect::<Vec<_>>());
        if let Some(door) = &door {
            listen(door.clone(), links.clone())?;
        }
        Ok(Self { ports, places, own_node: lease.own_node, exchange, neighbors, links, door })
    }

    /// What went over the links that were connected so far.
    ///
    /// # Errors
    /// When a link is lost.
    pub fn report(&self) -> Result<Vec<LinkReport>> {
        let connected = self.links.iter().filter(|link| link.connected().is_some());
        connected
            .map(|link| {
                let (executor, peers) = link.executor_counters()?;
                let node_name = link.spec.node_name.clone();
                Ok(LinkReport { node_name, program: link.counters(), executor, peers })
            })
            .collect()
    }

    /// What went over all links so far, as this program counts. Asks nobody.
    pub fn counters(&self) -> Vec<Counters> {
        self.links.iter().map(|link| link.counters()).collect()
    }

    fn place(&self, index: usize) -> Result<&Place> {
        self.places
            .get(index)
            .ok_or_else(|| Error::new(ErrorCode::DeviceUnavailable, format!("there is no device {index}")))
    }
}

impl Cluster for Session {
    fn ports(&self) -> &[Arc<dyn Port>] {
        &self.ports
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
            return self.ports[source].copy(queue, dst, src, len);
        }
        if len == 0 {
            return Ok(());
        }
        match (from, to) {
            (Place::Here(from), Place::Here(to)) => local_copy::copy(queue, &**from, src, &**to, dst, len),
            (Place::Here(from), Place::There(to)) => remote::local_to_remote(
                &self.exchange,
                queue,
                &End { port: &**from, start: src },
                &End { port: &**to, start: dst },
                len,
            ),
            (Place::There(from), Place::Here(to)) => remote::remote_to_local(
                &self.exchange,
                queue,
                &End { port: &**from, start: src },
                &End { port: &**to, start: dst },
                len,
            ),
            (Place::There(from), Place::There(to)) => remote::remote_to_remote(
                queue,
                &End { port: &**from, start: src },
                &End { port: &**to, start: dst },
                len,
            ),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let over = Error::new(ErrorCode::DeviceShutdown, "the session is over");
        for link in &*self.links {
            link.close();
        }
        self.exchange.close(&over);
        if let Some(neighbors) = &self.neighbors {
            neighbors.close();
        }
        if let Some(door) = &self.door {
            door.close();
        }
    }
}

/// Hears what the coordinator says while the session is open. Its end is not the session's.
fn listen(door: Arc<DoorConnection>, links: Arc<Vec<Arc<Link>>>) -> Result<()> {
    let hear = move || {
        while let Ok(Some(message)) = door.next() {
            match message {
                Message::NodeLost { node, .. } => {
                    for link in links.iter().filter(|link| link.spec.node == node) {
                        link.lose("the coordinator has lost its node");
                    }
                }
                Message::Warning(text) => eprintln!("accord: {text}"),
                Message::Ended(why) => links.iter().for_each(|link| link.lose(&why)),
                _ => {}
            }
        }
    };
    std::thread::Builder::new()
        .name("accord-door".to_owned())
        .spawn(hear)
        .map(drop)
        .map_err(|error| Error::new(ErrorCode::System, format!("starting a thread: {error}")))
}
