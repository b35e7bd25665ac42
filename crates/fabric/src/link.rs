//! What one process of a session has with another: ordered commands and events, transfers whose receives are posted, control
//! messages about them, and the certainty that it learns of the other's end.
//!
//! ```text
//! program                                      executor
//!   records    commands -> <- events             1 command lane
//!   transfers  bytes in chunks, both ways        bulk lanes
//!   control    ready, landed, refused, both ways 1 control lane
//!
//! executor that pushes                         executor that is the target
//!   transfers  bytes ->    <- control            1 peer lane
//! ```
//!
//! A link knows its peer by name ([`PeerId`]) and how it goes there by its [`Route`]. Which transport that is shows
//! nowhere else: a driver carries a [`Lane`], and a link is made of these. So it is a type and no trait: a launch costs
//! one dynamic call, that of its lane. It has no threads: its owner runs a [`Reader`] for each lane.
//!
//! What a link promises: each lane keeps its order, or the link is lost, never a part of it. A link that is lost, by
//! either end or by what lies between, ends all its readers; [`Link::close`] then ends all blocked senders.

use crate::frame::{self, Event, FrameReader};
use crate::handshake::{self, ConnectLimits, Deadline, Hello, Purpose};
use crate::key::Key;
use crate::peer::PeerId;
use crate::route::Route;
use crate::stats::LinkStats;
use crate::transfer::{ControlMessage, ControlSender, Exchange, Inbox, Outbox, Pushing, receive_control};
use crate::transport::{Lane, SharedLane};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, ErrorCode, Result, SessionId, TransferId};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The time limit of connecting a lane.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for the first lane to an executor that takes another one's place, whose end the agent waits for.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A process of a session, as it introduces itself to its peers.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The session.
    pub session: SessionId,
    /// The process among those of its node.
    pub peer: PeerId,
    /// The key that proves that it belongs to the session.
    pub key: Key,
    /// The limit of waits for a silent peer; `None`: the default.
    pub patience: Option<Duration>,
}

/// Bulk lanes of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkLanes {
    /// Number of lanes to the executor for eager bytes, which may stay there until they are taken. They are the first
    /// ones.
    pub eager: usize,
    /// Number of lanes to the executor for bytes that it has asked for.
    pub asked: usize,
}

/// The treatment of bytes without a posted receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unposted {
    /// Their lane waits for it.
    Wait,
    /// They break the protocol.
    Refuse,
}

/// The connection of two processes: all their lanes.
pub struct Link {
    peer: PeerId,
    /// None where the peer has connected, and before this side does.
    route: OnceLock<Route>,
    stats: Arc<LinkStats>,
    records: OnceLock<SharedLane>,
    inbox: Arc<Inbox>,
    eager_outbox: Arc<Outbox>,
    outbox: Arc<Outbox>,
    control: Arc<ControlSender>,
    lanes: ShortLock<Lanes>,
}

#[derive(Default)]
struct Lanes {
    all: Vec<SharedLane>,
    closed: Option<Error>,
}

/// The end of a lane that this process is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// This side has connected; to send eager bytes on it or not.
    Here {
        eager: bool,
    },
    ByPeer,
}

/// A lane's reader, run by a thread of its own for as long as the link lasts.
pub enum Reader {
    /// The records, see [`Link::records`].
    Records,
    /// Bytes of transfers.
    Transfers(TransferReader),
    /// Control messages.
    Control(ControlReader),
}

/// Reads a lane with bytes of transfers.
pub struct TransferReader {
    link: Arc<Link>,
    lane: SharedLane,
}

/// Reads a lane with control messages.
pub struct ControlReader {
    link: Arc<Link>,
    lane: SharedLane,
}

/// A program's link, and what has to be read from it besides the records.
pub struct Connected {
    /// The link.
    pub link: Arc<Link>,
    /// Its lane of commands and events, see [`Link::records`].
    pub records: SharedLane,
    /// The readers of its bulk lanes. Nothing comes on these before a receive is posted.
    pub transfers: Vec<TransferReader>,
    /// The reader of its control lane.
    pub control: ControlReader,
}

impl Link {
    /// A link without lanes; what is sent waits for them. `node_name` is this side's for errors, empty for a program.
    pub fn new(node_name: &str, to: PeerId, stats: Arc<LinkStats>, unposted: Unposted) -> Arc<Self> {
        Arc::new(Self {
            peer: to,
            route: OnceLock::new(),
            records: OnceLock::new(),
            inbox: Inbox::new(stats.clone(), unposted == Unposted::Wait),
            eager_outbox: Outbox::new(stats.clone()),
            outbox: Outbox::new(stats.clone()),
            control: ControlSender::new(node_name, stats.clone()),
            stats,
            lanes: ShortLock::default(),
        })
    }

    /// Connects a program with an executor.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` with the reason.
    pub fn connect(of: &Identity, to: PeerId, route: Route, bulk: BulkLanes) -> Result<Connected> {
        let link = Self::new("", to, Arc::default(), Unposted::Refuse);
        let _ = link.route.set(route);
        // First of all: the agent starts an executor for it, and tells it which one it is.
        let (records, _) = link.open(of, Purpose::Command, to.incarnation(), bulk)?;
        match link.open_others(of, bulk) {
            Ok((transfers, control)) => Ok(Connected { link, records, transfers, control }),
            // It may have said why it takes no more lanes.
            Err(error) => Err(said_before_its_end(&*records).unwrap_or(error)),
        }
    }

    /// Opens a program's lanes after the first.
    fn open_others(self: &Arc<Self>, of: &Identity, bulk: BulkLanes) -> Result<(Vec<TransferReader>, ControlReader)> {
        let mut transfers = Vec::new();
        for index in (0..).take(bulk.eager + bulk.asked) {
            if let (_, Reader::Transfers(reader)) = self.open(of, Purpose::Bulk, index, bulk)? {
                transfers.push(reader);
            }
        }
        match self.open(of, Purpose::Control, 0, bulk)? {
            (_, Reader::Control(control)) => Ok((transfers, control)),
            _ => Err(Error::new(ErrorCode::ImplementationDefined, "a control lane that is none")),
        }
    }

    /// Connects an executor with another one, to push to it, once. The link is of [`Link::new`].
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` with the reason.
    pub fn connect_to_push(self: &Arc<Self>, of: &Identity, route: Route) -> Result<ControlReader> {
        let _ = self.route.set(route);
        match self.open(of, Purpose::Peer, self.peer.incarnation(), BulkLanes { eager: 0, asked: 1 })? {
            (_, Reader::Control(control)) => Ok(control),
            _ => Err(Error::new(ErrorCode::ImplementationDefined, "a peer lane that is none")),
        }
    }

    fn open(
        self: &Arc<Self>,
        of: &Identity,
        purpose: Purpose,
        index: u16,
        bulk: BulkLanes,
    ) -> Result<(SharedLane, Reader)> {
        let Some(route) = self.route.get() else {
            return Err(Error::new(ErrorCode::ImplementationDefined, "a link without a route was to be connected"));
        };
        let replaces = purpose == Purpose::Command && index > 0;
        let timeout = if replaces { REPLACE_TIMEOUT } else { CONNECT_TIMEOUT };
        let hello = Hello::new(purpose, of.session, index, of.peer);
        let limits = ConnectLimits::from(timeout);
        let limits = ConnectLimits { secured: of.patience.unwrap_or(limits.secured), ..limits };
        let lane = handshake::connect_by(route, &hello, &of.key, limits)?;
        let reader = self.add(lane.clone(), purpose, Opened::Here { eager: usize::from(index) < bulk.eager })?;
        Ok((lane, reader))
    }

    /// Takes a lane that the peer has opened. Returns what has to be read from it.
    ///
    /// # Errors
    /// Returns an error if it is none of a link's, or a second one for records; it is ended then.
    pub fn accept(self: &Arc<Self>, lane: SharedLane, purpose: Purpose) -> Result<Reader> {
        self.add(lane, purpose, Opened::ByPeer)
    }

    fn add(self: &Arc<Self>, lane: SharedLane, purpose: Purpose, opened: Opened) -> Result<Reader> {
        let mut lanes = self.lanes();
        if let Some(error) = &lanes.closed {
            lane.shutdown();
            return Err(error.clone());
        }
        let second = purpose == Purpose::Command && self.records.set(lane.clone()).is_err();
        if second || purpose == Purpose::Session {
            lane.shutdown();
            return Err(Error::new(ErrorCode::DeviceUnavailable, "the peer broke the protocol: a lane too many"));
        }
        lanes.all.push(lane.clone());
        drop(lanes);
        if purpose.is_waited_for() {
            lane.spin_long();
        }
        let (link, read) = (self.clone(), lane.clone());
        let control = |link| Reader::Control(ControlReader { link, lane: read.clone() });
        let transfers = |link| Reader::Transfers(TransferReader { link, lane: read.clone() });
        Ok(match (purpose, opened) {
            (Purpose::Command | Purpose::Session | Purpose::Measure | Purpose::Memory | Purpose::Driver, _) => {
                Reader::Records
            }
            (Purpose::Bulk, Opened::Here { eager: true }) => {
                self.eager_outbox.add(lane);
                transfers(link)
            }
            (Purpose::Bulk, _) => {
                self.outbox.add(lane);
                transfers(link)
            }
            (Purpose::Control, _) => {
                self.control.connect(lane);
                control(link)
            }
            (Purpose::Peer, Opened::Here { .. }) => {
                self.outbox.add(lane);
                control(link)
            }
            (Purpose::Peer, Opened::ByPeer) => {
                self.control.connect(lane);
                transfers(link)
            }
        })
    }

    /// Returns the peer.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// Returns the route of the lanes; `None` where the peer has connected, and before this side does.
    pub fn route(&self) -> Option<&Route> {
        self.route.get()
    }

    /// Returns the link's traffic counters.
    pub fn stats(&self) -> &Arc<LinkStats> {
        &self.stats
    }

    /// The lane of commands and events, once there is one. One thread reads at a time, and one writes.
    pub fn records(&self) -> Option<&dyn Lane> {
        self.records.get().map(|lane| &**lane)
    }

    /// Receives of transfers are posted here.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Transfers that the peer has asked for are sent from here.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Transfers that the peer does not ask for are sent from here.
    pub fn eager_outbox(&self) -> &Arc<Outbox> {
        &self.eager_outbox
    }

    /// Tells the peer of transfers that it sends.
    pub fn control(&self) -> &Arc<ControlSender> {
        &self.control
    }

    /// Begins a push of `len` bytes, more than 0, to the peer.
    ///
    /// # Errors
    /// Returns an error if the transfer is known already, there are too many, or the exchange is closed.
    pub fn push(&self, exchange: &Arc<Exchange>, transfer: TransferId, len: u64) -> Result<Pushing> {
        exchange.push(transfer, self.peer, len, self.outbox.clone())
    }

    /// The peer may push to this process from now on.
    pub fn join(&self, exchange: &Arc<Exchange>) {
        exchange.arrived(self.peer, self.control.clone(), self.inbox.clone());
    }

    /// Ends all lanes, from any thread; what is sent later fails with `error`, the first one that was given.
    pub fn close(&self, error: &Error) {
        let mut lanes = self.lanes();
        lanes.closed.get_or_insert_with(|| error.clone());
        let all = std::mem::take(&mut lanes.all);
        drop(lanes);
        // First: who can't send any more learns why.
        self.eager_outbox.close(error);
        self.outbox.close(error);
        for lane in all {
            lane.shutdown();
        }
        self.inbox.close();
    }

    fn lanes(&self) -> ShortGuard<'_, Lanes> {
        self.lanes.lock()
    }
}

/// The error that an executor has sent before it ended its lanes, if it did. Nothing was asked of it yet, so that nothing else comes.
fn said_before_its_end(records: &dyn Lane) -> Option<Error> {
    /// The limit of waits for a reason that was written before the lanes ended.
    const SOON: Duration = Duration::from_millis(200);
    let (deadline, mut reader) = (Deadline::after(SOON), FrameReader::default());
    loop {
        if let Some(frame) = reader.take::<Event>().ok()? {
            let Event::Failed { failure, .. } = frame.record else { return None };
            return Some(frame::decode_error(failure, frame.payload));
        }
        records.limit(Some(deadline.left().ok()?)).ok()?;
        if !reader.fill(|bytes| records.read(bytes)).ok()? {
            return None;
        }
    }
}

impl TransferReader {
    /// Reads until the lane ends, and gives the bytes to the receives posted for them.
    ///
    /// # Errors
    /// Returns an error if the lane fails or the peer breaks the protocol.
    pub fn run(self) -> Result<()> {
        self.link.inbox.serve(&self.lane)
    }
}

impl ControlReader {
    /// Gives what comes to `take`, until the lane ends.
    ///
    /// # Errors
    /// Returns an error if the lane fails or the peer breaks the protocol, and those of `take`.
    pub fn run(self, take: impl FnMut(ControlMessage) -> Result<()>) -> Result<()> {
        receive_control(&*self.lane, &self.link.stats, take)
    }
}

#[cfg(test)]
mod tests;
