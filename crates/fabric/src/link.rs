//! The connection of two processes of a session: ordered commands and events, transfers with posted receives, and control
//! messages about transfers. Each process learns when the other ends.
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
//! A link names its peer by [`PeerId`] and reaches it by its [`Route`]. Only the route knows the transport: a driver
//! implements [`Lane`], and a link consists of lanes. So a link is a type and no trait, and a launch costs one dynamic
//! call, that of its lane. A link has no threads: its owner runs a [`Reader`] for each lane.
//!
//! Each lane keeps its order, or the whole link is lost. A loss, by either end or in between, ends all readers;
//! [`Link::close`] then ends all blocked senders.

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
/// The time limit of the first lane to an executor that replaces another one, because the agent waits for the other's end.
const REPLACE_TIMEOUT: Duration = Duration::from_secs(10);

/// A process of a session and its credentials.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The session.
    pub session: SessionId,
    /// The process.
    pub peer: PeerId,
    /// The key that proves membership of the session.
    pub key: Key,
    /// The limit of waits for a silent peer; `None`: the default.
    pub patience: Option<Duration>,
}

/// Bulk lanes of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BulkLanes {
    /// Number of lanes to the executor for eager bytes, which may wait there until they are read. They have the lowest numbers.
    pub eager: usize,
    /// Number of lanes to the executor for bytes that the executor has requested.
    pub asked: usize,
}

/// The treatment of bytes without a posted receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unposted {
    /// The lane waits for the receive.
    Wait,
    /// The bytes break the protocol.
    Refuse,
}

/// The connection of two processes: all their lanes.
pub struct Link {
    peer: PeerId,
    /// Set on the connecting side only.
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

/// The side that has opened a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    /// This side; `eager` if the lane carries eager bytes.
    Here {
        eager: bool,
    },
    ByPeer,
}

/// A lane's reader. A thread runs it for as long as the link lasts.
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

/// A program's link, and its lanes and readers.
pub struct Connected {
    /// The link.
    pub link: Arc<Link>,
    /// The lane of commands and events, see [`Link::records`].
    pub records: SharedLane,
    /// The readers of the bulk lanes. No byte arrives on these before a receive is posted.
    pub transfers: Vec<TransferReader>,
    /// The reader of the control lane.
    pub control: ControlReader,
}

impl Link {
    /// Creates a link without lanes; sends wait for them. Errors name this side's node `node_name`, empty for a program.
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
        // The command lane is first: for it the agent starts an executor.
        let (records, _) = link.open(of, Purpose::Command, to.incarnation(), bulk)?;
        match link.open_others(of, bulk) {
            Ok((transfers, control)) => Ok(Connected { link, records, transfers, control }),
            // The executor may have sent the reason why it accepts no more lanes.
            Err(error) => Err(error_before_close(&*records).unwrap_or(error)),
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

    /// Connects an executor with another one, to push to it. The link is new, from [`Link::new`].
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

    /// Accepts a lane that the peer has opened. Returns the lane's reader.
    ///
    /// # Errors
    /// Returns an error if a link has no such lane, or this one has a lane for records already. The lane is closed then.
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
            (
                Purpose::Command
                | Purpose::Session
                | Purpose::Measure
                | Purpose::Memory
                | Purpose::Driver
                | Purpose::Turns,
                _,
            ) => Reader::Records,
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

    /// Returns the route of the lanes, or `None` on the accepting side and before this side connects.
    pub fn route(&self) -> Option<&Route> {
        self.route.get()
    }

    /// Returns the link's traffic counters.
    pub fn stats(&self) -> &Arc<LinkStats> {
        &self.stats
    }

    /// Returns the lane of commands and events, if it is connected. One thread may read at a time, and one may write.
    pub fn records(&self) -> Option<&dyn Lane> {
        self.records.get().map(|lane| &**lane)
    }

    /// Returns the inbox, where receives of transfers are posted.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Returns the outbox of transfers that the peer has requested.
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }

    /// Returns the outbox of eager transfers.
    pub fn eager_outbox(&self) -> &Arc<Outbox> {
        &self.eager_outbox
    }

    /// Returns the sender of control messages.
    pub fn control(&self) -> &Arc<ControlSender> {
        &self.control
    }

    /// Begins a push of `len` bytes, more than 0, to the peer.
    ///
    /// # Errors
    /// Returns an error if the transfer is already pushed, too many are, or the exchange is closed.
    pub fn push(&self, exchange: &Arc<Exchange>, transfer: TransferId, len: u64) -> Result<Pushing> {
        exchange.push(transfer, self.peer, len, self.outbox.clone())
    }

    /// Allows the peer to push to this process from now on.
    pub fn join(&self, exchange: &Arc<Exchange>) {
        exchange.arrived(self.peer, self.control.clone(), self.inbox.clone());
    }

    /// Closes all lanes, from any thread. Later sends fail with the `error` of the first call.
    pub fn close(&self, error: &Error) {
        let mut lanes = self.lanes();
        lanes.closed.get_or_insert_with(|| error.clone());
        let all = std::mem::take(&mut lanes.all);
        drop(lanes);
        // The outboxes are first, so that blocked senders get the reason.
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

/// Returns the error that an executor sent before it closed its lanes, if any. Nothing was requested yet, so that nothing else arrives.
fn error_before_close(records: &dyn Lane) -> Option<Error> {
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
    /// Reads until the lane ends, and passes the bytes to their posted receives.
    ///
    /// # Errors
    /// Returns an error if the lane fails or the peer breaks the protocol.
    pub fn run(self) -> Result<()> {
        self.link.inbox.serve(&self.lane)
    }
}

impl ControlReader {
    /// Passes each message to `take`, until the lane ends.
    ///
    /// # Errors
    /// Returns an error if the lane fails or the peer breaks the protocol, and any error of `take`.
    pub fn run(self, take: impl FnMut(ControlMessage) -> Result<()>) -> Result<()> {
        receive_control(&*self.lane, &self.link.stats, take)
    }
}

#[cfg(test)]
mod tests;
