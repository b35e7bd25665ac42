//! The devices of a simulated executor, and their streams.

use super::actor::PeerLane;
use super::peer_link::{Destination, Incoming, Outgoing};
use super::script::{CELL, HOST_CELLS};
use accord_executor::executor::{ExecutorCore, Facts, StreamPosition};
use accord_executor::peer_table::PeerTable;
use accord_executor::request_window::RequestWindow;
use accord_executor::window::Step;
use accord_fabric::frame::{Command, FrameReader};
use accord_fabric::transfer::TransferTable;
use accord_types::{Error, ErrorCode, QueueId, Result, Seq, StreamId, TransferId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Executor {
    /// The real core.
    pub(super) core: ExecutorCore,
    pub(super) reader: FrameReader,
    /// A command that waits for room in its stream: the command, its payload, the length of its frame.
    pub(super) pending: Option<(Command, Vec<u8>, usize)>,
    pub(super) devices: Devices,
    /// Number of operations that a stream holds.
    pub(super) space: usize,
    pub(super) waits: Vec<Wait>,
    /// The real rules for copies in that are requested before their turn.
    pub(super) ahead: RequestWindow<TransferId>,
    /// Received bytes of those copies, and whether they are complete.
    pub(super) kept: BTreeMap<TransferId, (Vec<u8>, bool)>,
    /// Transfers whose bytes are unwanted.
    pub(super) unwanted: BTreeSet<TransferId>,
    /// Unwanted transfers that were requested.
    pub(super) owed: BTreeSet<TransferId>,
    /// The number of the kernel that crashes, counted from the first.
    pub(super) crash: Option<u64>,
    pub(super) kernels: u64,
    /// Whether kernels may take very long.
    pub(super) gets_stuck: bool,
    /// Whether the executor sends false events.
    pub(super) false_commands: bool,
    pub(super) crashed: BTreeSet<u32>,
    /// Number of devices that were shut down.
    pub(super) closes: u32,
    /// The real table of copies to and from other executors, with the destinations of expected ones.
    pub(super) transfers: TransferTable<Option<Destination>>,
    /// The real table of their lanes.
    pub(super) peers: PeerTable<PeerLane>,
    /// Destinations of transfers that may arrive.
    pub(super) posted: BTreeMap<TransferId, Destination>,
    /// Pushes that were sent entirely and whose device has ended.
    pub(super) lingering: Vec<Outgoing>,
}

/// The open devices.
#[derive(Default)]
pub(super) struct Devices(pub(super) BTreeMap<u32, Device>);

/// A wait of the program.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) ticket: u64,
    pub(super) places: Vec<StreamPosition>,
    pub(super) failure: Option<Error>,
}

pub(super) struct Device {
    pub(super) memory: Vec<u8>,
    pub(super) streams: Vec<Stream>,
    /// The stream for transfers from other executors.
    incoming: Option<usize>,
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) ops: VecDeque<Work>,
    pub(super) failed: bool,
    put: u64,
    pub(super) done: u64,
    /// Notices for when the stream reaches a position or fails.
    pub(super) notices: Vec<(Seq, Notice)>,
}

#[derive(Debug)]
pub(super) enum Notice {
    GiveBack(Step),
    /// For a queue that is informed of failures only.
    Watch(QueueId),
    /// A transfer of another executor may arrive.
    Due(TransferId),
}

#[derive(Debug)]
pub(super) enum Work {
    Kernel { cell: usize, from: usize, salt: u8, until: Option<u64> },
    Store { dst: usize, bytes: Vec<u8> },
    CopyIn { dst: usize, len: usize, transfer: TransferId, eager: bool, bytes: Vec<u8> },
    CopyOut { src: usize, len: usize, transfer: TransferId, lane: Option<usize>, at: usize, in_event: bool },
    WaitStream { other: StreamId, seq: Seq },
    Push(Outgoing),
    Incoming(Incoming),
}

/// Returns the error of a region that crashes.
pub(super) fn crashed() -> Error {
    Error::new(ErrorCode::Execution, "a region has crashed")
}

impl Executor {
    pub(super) fn new(core: ExecutorCore, space: usize, step: u32, ahead: u64, crash: Option<u64>) -> Self {
        Self {
            core,
            reader: FrameReader::default(),
            pending: None,
            devices: Devices::default(),
            space,
            waits: Vec::new(),
            ahead: RequestWindow::new(ahead),
            kept: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            owed: BTreeSet::new(),
            crash,
            kernels: 0,
            gets_stuck: false,
            false_commands: false,
            crashed: BTreeSet::new(),
            closes: 0,
            transfers: TransferTable::new(Some(step)),
            peers: PeerTable::default(),
            posted: BTreeMap::new(),
            lingering: Vec::new(),
        }
    }

    /// Describes the progress of all streams.
    pub(super) fn fronts(&self) -> String {
        let streams = self.devices.0.values().flat_map(|device| &device.streams);
        let fronts: Vec<_> = streams.map(|stream| (stream.failed, stream.ops.len(), stream.ops.front())).collect();
        format!("{fronts:?}, waits: {:?}", self.waits)
    }

    pub(super) fn has_crashed(&self, device: u32) -> bool {
        self.crashed.contains(&device)
    }

    /// Returns the number of unfinished operations and waits.
    pub(super) fn left(&self) -> usize {
        let streams = self.devices.0.values().flat_map(|device| &device.streams);
        streams.map(|stream| stream.ops.len()).sum::<usize>() + self.waits.len()
    }
}

impl Devices {
    pub(super) fn stream(&self, device: u32, stream: StreamId) -> Result<&Stream> {
        let stream = self.0.get(&device).and_then(|device| device.streams.get(stream.0 as usize));
        stream.ok_or_else(|| Error::new(ErrorCode::DeviceShutdown, "the device is gone"))
    }

    pub(super) fn stream_mut(&mut self, device: u32, stream: usize) -> Option<&mut Stream> {
        self.0.get_mut(&device)?.streams.get_mut(stream)
    }

    /// Whether a stream has reached a position.
    pub(super) fn reached(&self, place: StreamPosition) -> Result<bool> {
        let stream = self.stream(place.device, place.stream)?;
        if stream.failed { Err(crashed()) } else { Ok(stream.done >= place.seq.0) }
    }
}

impl Facts for Devices {
    fn reached(&self, device: u32, stream: StreamId, seq: Seq) -> bool {
        Self::reached(self, StreamPosition { device, stream, seq }).unwrap_or(false)
    }

    fn incoming(&self) -> usize {
        let works = self.0.values().flat_map(|device| &device.streams).flat_map(|stream| &stream.ops);
        works.filter(|work| matches!(work, Work::CopyIn { .. })).count()
    }
}

impl Default for Device {
    fn default() -> Self {
        Self { memory: vec![0; HOST_CELLS * CELL], streams: Vec::new(), incoming: None }
    }
}

impl Device {
    /// Returns the stream for transfers from other executors, which is created on first use.
    pub(super) fn incoming(&mut self) -> usize {
        *self.incoming.get_or_insert_with(|| {
            self.streams.push(Stream::default());
            self.streams.len() - 1
        })
    }
}

impl Stream {
    /// Enqueues an operation.
    pub(super) fn put(&mut self, work: Work) -> Seq {
        self.ops.push_back(work);
        self.put += 1;
        Seq(self.put)
    }

    /// Removes the notices that are due, each with whether the stream has reached the position.
    pub(super) fn due(&mut self) -> Vec<(Notice, bool)> {
        let (failed, done) = (self.failed, self.done);
        let due = self.notices.extract_if(.., |(seq, _)| failed || seq.0 <= done);
        due.map(|(seq, notice)| (notice, seq.0 <= done)).collect()
    }
}
