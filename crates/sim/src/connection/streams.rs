//! The devices of a simulated executor: their streams, and what is in them.

use super::actor::PeerLane;
use super::peer_link::{Destination, Incoming, Outgoing};
use super::script::{CELL, HOST_CELLS};
use accord_executor::ask_ahead::AskAhead;
use accord_executor::executor::{ExecutorCore, Facts, StreamPosition};
use accord_executor::peer_table::PeerTable;
use accord_executor::window::Step;
use accord_fabric::frame::{Command, FrameReader};
use accord_fabric::transfer::ExchangeCore;
use accord_types::{Error, ErrorCode, QueueId, Result, Seq, StreamId, TransferId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Executor {
    /// Decides, as in the real one.
    pub(super) core: ExecutorCore,
    pub(super) reader: FrameReader,
    /// A command that waits for room in its stream: itself, its payload, the length of its frame.
    pub(super) pending: Option<(Command, Vec<u8>, usize)>,
    pub(super) devices: Devices,
    /// Operations that a stream holds.
    pub(super) room: usize,
    pub(super) waits: Vec<Wait>,
    /// Which copies in are asked for before their turn: decides, as in the real one.
    pub(super) ahead: AskAhead<TransferId>,
    /// Bytes of those that have left their lanes, and whether they are all.
    pub(super) kept: BTreeMap<TransferId, (Vec<u8>, bool)>,
    /// Transfers whose bytes are unwanted.
    pub(super) unwanted: BTreeSet<TransferId>,
    /// Those of them that were asked for.
    pub(super) owed: BTreeSet<TransferId>,
    /// The kernel that crashes, counted from the first.
    pub(super) crash: Option<u64>,
    pub(super) kernels: u64,
    /// Kernels may take very long.
    pub(super) gets_stuck: bool,
    /// It tells the program what is not so.
    pub(super) lies: bool,
    pub(super) crashed: BTreeSet<u32>,
    /// Devices that were shut down.
    pub(super) closes: u32,
    /// Copies to and from other executors: decides, as in the real one.
    pub(super) exchange: ExchangeCore<Destination>,
    /// Over which lanes they go: decides, as in the real one.
    pub(super) peers: PeerTable<PeerLane>,
    /// Where those go that may come.
    pub(super) posted: BTreeMap<TransferId, Destination>,
    /// Those that were sent, and whose device is gone.
    pub(super) lingering: Vec<Outgoing>,
}

/// Those that are open.
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
    /// The stream that takes what other executors push.
    incoming: Option<usize>,
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) ops: VecDeque<Work>,
    pub(super) failed: bool,
    put: u64,
    pub(super) done: u64,
    /// What is called when it gets somewhere, or fails.
    pub(super) notices: Vec<(Seq, Notice)>,
}

#[derive(Debug)]
pub(super) enum Notice {
    GiveBack(Step),
    /// Of a queue that hears of failures only.
    Watch(QueueId),
    /// A transfer of another executor may come.
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

/// What a region that crashes leaves.
pub(super) fn crashed() -> Error {
    Error::new(ErrorCode::Execution, "a region has crashed")
}

impl Executor {
    pub(super) fn new(core: ExecutorCore, room: usize, step: u32, ahead: u64, crash: Option<u64>) -> Self {
        Self {
            core,
            reader: FrameReader::default(),
            pending: None,
            devices: Devices::default(),
            room,
            waits: Vec::new(),
            ahead: AskAhead::new(ahead),
            kept: BTreeMap::new(),
            unwanted: BTreeSet::new(),
            owed: BTreeSet::new(),
            crash,
            kernels: 0,
            gets_stuck: false,
            lies: false,
            crashed: BTreeSet::new(),
            closes: 0,
            exchange: ExchangeCore::new(Some(step)),
            peers: PeerTable::default(),
            posted: BTreeMap::new(),
            lingering: Vec::new(),
        }
    }

    /// What streams are at.
    pub(super) fn fronts(&self) -> String {
        let streams = self.devices.0.values().flat_map(|device| &device.streams);
        let fronts: Vec<_> = streams.map(|stream| (stream.failed, stream.ops.len(), stream.ops.front())).collect();
        format!("{fronts:?}, waits: {:?}", self.waits)
    }

    pub(super) fn has_crashed(&self, device: u32) -> bool {
        self.crashed.contains(&device)
    }

    /// Operations that are not done.
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

    /// Whether a stream has got to a position.
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
    /// The stream that takes what other executors push, made at its first use.
    pub(super) fn incoming(&mut self) -> usize {
        *self.incoming.get_or_insert_with(|| {
            self.streams.push(Stream::default());
            self.streams.len() - 1
        })
    }
}

impl Stream {
    /// Puts an operation in.
    pub(super) fn put(&mut self, work: Work) -> Seq {
        self.ops.push_back(work);
        self.put += 1;
        Seq(self.put)
    }

    /// Takes the notices that are due, and whether the stream has got there.
    pub(super) fn due(&mut self) -> Vec<(Notice, bool)> {
        let (failed, done) = (self.failed, self.done);
        let due = self.notices.extract_if(.., |(seq, _)| failed || seq.0 <= done);
        due.map(|(seq, notice)| (notice, seq.0 <= done)).collect()
    }
}
