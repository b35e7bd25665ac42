//! What the model of an executor has: devices, their streams, and what is in them.

use super::script::{CELL, HOST_CELLS};
use accord_fabric::frame::{Command, FrameReader, Position};
use accord_types::{QueueId, TransferId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(super) struct Executor {
    pub(super) reader: FrameReader,
    /// A command that waits for room in its stream.
    pub(super) pending: Option<(Command, Vec<u8>, u64)>,
    pub(super) uncredited: u64,
    pub(super) devices: BTreeMap<u32, Device>,
    /// Operations that a stream holds.
    pub(super) room: usize,
    pub(super) waits: Vec<(u64, Vec<Position>)>,
    /// Transfers whose bytes nobody wants.
    pub(super) unwanted: BTreeSet<TransferId>,
    /// The kernel that crashes, counted from the first.
    pub(super) crash: Option<u64>,
    pub(super) kernels: u64,
    pub(super) crashed: BTreeSet<u32>,
}

pub(super) struct Device {
    pub(super) memory: Vec<u8>,
    pub(super) streams: Vec<Stream>,
    pub(super) queues: BTreeMap<QueueId, Queue>,
    pub(super) numbered: usize,
    pub(super) closed: bool,
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) ops: VecDeque<(QueueId, Work, u64)>,
    pub(super) failed: bool,
    /// Bytes of operations that are done, of which the program was not told.
    pub(super) done: BTreeMap<QueueId, u64>,
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) stream: usize,
    pub(super) last: u64,
    pub(super) done: u64,
}

#[derive(Debug)]
pub(super) enum Work {
    Kernel { cell: usize, from: usize, salt: u8, until: Option<u64> },
    Store { dst: usize, bytes: Vec<u8> },
    CopyIn { dst: usize, len: usize, transfer: TransferId, eager: bool, asked: bool, bytes: Vec<u8> },
    CopyOut { src: usize, len: usize, transfer: TransferId, lane: Option<usize>, at: usize },
    WaitQueue { other: QueueId, seq: u64 },
}

impl Executor {
    pub(super) fn new(streams: usize, room: usize, crash: Option<u64>, devices: usize) -> Self {
        let device = || Device {
            memory: vec![0; HOST_CELLS * CELL],
            // One more for the synchronous queue.
            streams: (0..=streams).map(|_| Stream::default()).collect(),
            queues: BTreeMap::new(),
            numbered: 0,
            closed: false,
        };
        Self {
            reader: FrameReader::default(),
            pending: None,
            uncredited: 0,
            devices: (0..).take(devices).map(|ordinal| (ordinal, device())).collect(),
            room,
            waits: Vec::new(),
            unwanted: BTreeSet::new(),
            crash,
            kernels: 0,
            crashed: BTreeSet::new(),
        }
    }

    pub(super) fn streams(&self) -> Vec<(u32, usize)> {
        let all = self.devices.iter();
        all.flat_map(|(ordinal, device)| (0..device.streams.len()).map(|stream| (*ordinal, stream))).collect()
    }

    /// What streams are at.
    pub(super) fn fronts(&self) -> String {
        let streams = self.devices.values().flat_map(|device| &device.streams);
        let fronts: Vec<_> = streams.map(|stream| (stream.failed, stream.ops.len(), stream.ops.front())).collect();
        format!("{fronts:?}, waits: {:?}", self.waits)
    }

    pub(super) fn has_crashed(&self, device: u32) -> bool {
        self.crashed.contains(&device)
    }

    /// Operations that are not done.
    pub(super) fn left(&self) -> usize {
        let streams = self.devices.values().flat_map(|device| &device.streams);
        streams.map(|stream| stream.ops.len()).sum::<usize>() + self.waits.len()
    }
}

impl Device {
    pub(super) fn queue(&mut self, queue: QueueId) -> &mut Queue {
        let last = self.streams.len() - 1;
        let numbered = &mut self.numbered;
        self.queues.entry(queue).or_insert_with(|| {
            let stream = if queue == QueueId::SYNC {
                last
            } else {
                *numbered += 1;
                if *numbered <= last { *numbered - 1 } else { queue.0 as usize % last }
            };
            Queue { stream, ..Queue::default() }
        })
    }

    /// None if the position's queue has failed.
    pub(super) fn reached(&self, position: Position) -> Option<bool> {
        let Some(queue) = self.queues.get(&position.queue) else { return Some(position.seq.0 == 0) };
        (!self.streams[queue.stream].failed).then_some(queue.done >= position.seq.0)
    }
}
