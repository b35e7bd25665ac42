//! A GPU: memory, and streams whose commands are executed in order, each stream at its own pace.

use std::collections::VecDeque;

/// Places in a slot, one copy each.
pub(super) const PLACES: usize = 4;

/// A command's access to memory, with the contents that it must find.
#[derive(Clone, Copy, Debug)]
pub(super) enum Action {
    Update { cell: usize, before: u64, after: u64 },
    FromSlot { slot: usize, cell: usize, before: u64, value: u64 },
    ToSlot { slot: usize, place: usize, cell: usize, value: u64 },
    ToHost { cell: usize, value: u64, host: usize, before: u64 },
}

impl Action {
    pub(super) fn cell(self) -> usize {
        match self {
            Self::Update { cell, .. }
            | Self::FromSlot { cell, .. }
            | Self::ToSlot { cell, .. }
            | Self::ToHost { cell, .. } => cell,
        }
    }

    pub(super) fn slot(self) -> Option<usize> {
        match self {
            Self::FromSlot { slot, .. } | Self::ToSlot { slot, .. } => Some(slot),
            Self::Update { .. } | Self::ToHost { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    /// A part of the operation with this record.
    Access(usize, Action),
    /// Records an event for the nth time.
    Record(usize, u64),
    /// Waits until the event's nth recording has happened.
    Wait(usize, u64),
}

#[derive(Default)]
struct DriverStream {
    commands: VecDeque<Command>,
    enqueued: u64,
}

#[derive(Clone, Copy, Default)]
struct Event {
    recorded: u64,
    happened: u64,
}

/// The device as its driver shows it.
pub(super) struct Gpu {
    streams: Vec<DriverStream>,
    events: Vec<Event>,
    /// Contents; `None`: unmapped.
    pub(super) memory: Vec<Option<u64>>,
    pub(super) slots: Vec<[u64; PLACES]>,
    pub(super) lost: bool,
}

impl Gpu {
    pub(super) fn new(streams: usize, events: usize, cells: usize, slots: usize) -> Self {
        Self {
            streams: (0..streams).map(|_| DriverStream::default()).collect(),
            events: vec![Event::default(); events],
            memory: vec![Some(0); cells],
            slots: vec![[0; PLACES]; slots],
            lost: false,
        }
    }

    pub(super) fn enqueue(&mut self, stream: usize, command: Command) {
        self.streams[stream].commands.push_back(command);
        self.streams[stream].enqueued += 1;
    }

    pub(super) fn record(&mut self, stream: usize, event: usize) {
        self.events[event].recorded += 1;
        self.enqueue(stream, Command::Record(event, self.events[event].recorded));
    }

    pub(super) fn wait(&mut self, stream: usize, event: usize) {
        self.enqueue(stream, Command::Wait(event, self.events[event].recorded));
    }

    pub(super) fn has_happened(&self, event: usize) -> bool {
        self.events[event].happened >= self.events[event].recorded
    }

    pub(super) fn is_empty(&self, stream: usize) -> bool {
        self.streams[stream].commands.is_empty()
    }

    /// Returns the number of commands that a stream was given, and that it has executed.
    pub(super) fn counts(&self, stream: usize) -> (u64, u64) {
        let DriverStream { commands, enqueued } = &self.streams[stream];
        (*enqueued, enqueued - commands.len() as u64)
    }

    /// Whether an access satisfies `is_such` that was not executed, in one stream or any.
    pub(super) fn has_access(&self, stream: Option<usize>, is_such: impl Fn(Action) -> bool) -> bool {
        let all = self.streams.iter().enumerate().filter(|(index, _)| stream.is_none_or(|only| only == *index));
        let mut commands = all.flat_map(|(_, stream)| &stream.commands);
        commands.any(|command| matches!(command, Command::Access(_, action) if is_such(*action)))
    }

    /// Removes the next command of a stream if it can be executed, and returns an access for the caller to carry out.
    pub(super) fn advance(&mut self, stream: usize) -> Option<(usize, Action)> {
        let commands = &mut self.streams[stream].commands;
        match *commands.front()? {
            Command::Wait(event, count) if self.events[event].happened < count => return None,
            Command::Wait(..) => {}
            Command::Record(event, count) => {
                self.events[event].happened = self.events[event].happened.max(count);
            }
            Command::Access(id, action) => {
                commands.pop_front();
                return Some((id, action));
            }
        }
        commands.pop_front();
        None
    }
}
