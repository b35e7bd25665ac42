//! One end of a copy, of any kind.

use crate::copy_ends::{FetchTo, NativeSink, NativeSource, PeerSink, PeerWay, Sink, Source};
use crate::host_memory::HostMemory;
use accord_types::short_lock::DroppedUnlocked;
use accord_types::{HostRange, Result};
use std::ops::{Deref, DerefMut};

/// An end that may own devices, or block on its other end when it is dropped, and so must be dropped without locks.
pub struct Unlocked<T: ?Sized> {
    #[allow(dead_code, reason = "it looks when it is dropped")]
    unlocked: DroppedUnlocked,
    end: T,
}

impl<T> Unlocked<T> {
    fn new(end: T) -> Box<Self> {
        Box::new(Self { unlocked: DroppedUnlocked::default(), end })
    }
}

/// The time and thread at which a copy's end moves its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MovesWhen {
    /// At the call, on the thread that issues the copy: the end never blocks.
    AtOnce,
    /// When the stream has reached the copy, on a thread of the device's.
    InTurn,
    /// Possibly after the stream has moved on, because another mechanism than waiting for the stream reports the bytes' arrival.
    Detached,
}

/// The source of a copy's bytes. The program's own memory, the usual case, needs no heap allocation.
pub enum CopySource {
    /// Memory of this process.
    Program(HostMemory),
    /// Any other source.
    Other(MovesWhen, Box<Unlocked<dyn Source>>),
    /// A source that moves its bytes in its turn, with a library.
    Native(Box<Unlocked<dyn NativeSource>>),
}

impl CopySource {
    /// Creates the source for memory of this process; `immediate` as for [`HostMemory::new`].
    pub fn program(range: HostRange, immediate: bool) -> Self {
        Self::Program(HostMemory::new(range, immediate))
    }

    /// Wraps a source that may block.
    pub fn new(source: impl Source + 'static) -> Self {
        Self::Other(MovesWhen::InTurn, Unlocked::new(source))
    }

    /// Wraps a source that never blocks.
    pub fn at_once(source: impl Source + 'static) -> Self {
        Self::Other(MovesWhen::AtOnce, Unlocked::new(source))
    }

    /// Wraps a source with a library.
    pub fn native(source: impl NativeSource + 'static) -> Self {
        Self::Native(Unlocked::new(source))
    }

    /// Whether the bytes may be taken on the thread that issues the copy.
    pub fn immediate(&self) -> bool {
        match self {
            Self::Program(memory) => memory.is_immediate(),
            Self::Other(when, _) => *when == MovesWhen::AtOnce,
            Self::Native(_) => false,
        }
    }

    /// Returns the location of the bytes, if the device may read them itself. It may then use several threads, from the moment
    /// when it would have called [`Source::fill`] until the copy is done.
    pub fn memory(&self) -> Option<HostRange> {
        match self {
            Self::Program(memory) => Some(memory.range()),
            Self::Other(..) | Self::Native(_) => None,
        }
    }

    /// Returns the library that may write the bytes to device memory.
    pub fn library(&mut self) -> Option<&mut dyn NativeSource> {
        match self {
            Self::Program(_) | Self::Other(..) => None,
            Self::Native(source) => Some(&mut source.end),
        }
    }
}

impl Deref for CopySource {
    type Target = dyn Source;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(_, source) => &source.end,
            Self::Native(source) => &source.end,
        }
    }
}

impl DerefMut for CopySource {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(_, source) => &mut source.end,
            Self::Native(source) => &mut source.end,
        }
    }
}

/// The sink of a copy's bytes. The program's own memory, the usual case, needs no heap allocation.
pub enum CopySink {
    /// Memory of this process.
    Program(HostMemory),
    /// Any other sink in this process.
    Other(MovesWhen, Box<Unlocked<dyn Sink>>),
    /// A device of another process, which gets the bytes in their turn.
    Peer(Box<Unlocked<dyn PeerSink>>),
}

impl CopySink {
    /// Creates the sink for memory of this process; `immediate` as for [`HostMemory::new`].
    pub fn program(range: HostRange, immediate: bool) -> Self {
        Self::Program(HostMemory::new(range, immediate))
    }

    /// Wraps a sink that may block.
    pub fn new(sink: impl Sink + 'static) -> Self {
        Self::when(MovesWhen::InTurn, sink)
    }

    /// Wraps a sink that receives its bytes at this time.
    pub fn when(when: MovesWhen, sink: impl Sink + 'static) -> Self {
        Self::Other(when, Unlocked::new(sink))
    }

    /// Wraps a sink of another process.
    pub fn peer(sink: impl PeerSink + 'static) -> Self {
        Self::Peer(Unlocked::new(sink))
    }

    /// Whether the bytes may be passed on the thread that issues the copy.
    pub fn immediate(&self) -> bool {
        match self {
            Self::Program(memory) => memory.is_immediate(),
            Self::Other(when, _) => *when == MovesWhen::AtOnce,
            Self::Peer(_) => false,
        }
    }

    /// Whether [`Sink::drain`] may be called after the stream has moved on.
    pub fn detached(&self) -> bool {
        matches!(self, Self::Other(MovesWhen::Detached, _))
    }

    /// Returns the target of the bytes, if the device may write them itself, in any order. It then calls neither
    /// [`Sink::drain`] nor [`Sink::finish`].
    pub fn memory(&self) -> Option<HostRange> {
        match self {
            Self::Program(memory) => Some(memory.range()),
            Self::Other(..) | Self::Peer(_) => None,
        }
    }

    /// Returns the memory to which the bytes may be copied before it is the sink's turn.
    pub fn fetch_to(&self) -> FetchTo {
        match self {
            Self::Program(_) | Self::Other(..) => FetchTo::Nowhere,
            Self::Peer(sink) => sink.end.fetch_to(),
        }
    }

    /// Whether the sink accepts its bytes before earlier ones of the stream are finished, see [`PeerSink::follows`].
    pub fn follows(&self) -> bool {
        matches!(self, Self::Peer(sink) if sink.end.follows())
    }

    /// Chooses the way of the bytes, see [`PeerSink::way`]: those of other sinks go through the host.
    ///
    /// # Errors
    /// Returns the errors of [`PeerSink::way`].
    pub fn way(&mut self, is_fetched: bool) -> Result<PeerWay> {
        match self {
            Self::Program(_) | Self::Other(..) => Ok(PeerWay::Host),
            Self::Peer(sink) => sink.end.way(is_fetched),
        }
    }

    /// Returns the library that may read the bytes from device memory.
    pub fn library(&mut self) -> Option<&mut dyn NativeSink> {
        match self {
            Self::Program(_) | Self::Other(..) => None,
            Self::Peer(sink) => sink.end.native(),
        }
    }

    /// Whether a library may read the bytes together with those of other copies, see [`NativeSink::is_concurrent`].
    pub fn is_concurrent(&mut self) -> bool {
        self.library().is_some_and(|library| library.is_concurrent())
    }
}

impl Deref for CopySink {
    type Target = dyn Sink;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(_, sink) => &sink.end,
            Self::Peer(sink) => &sink.end,
        }
    }
}

impl DerefMut for CopySink {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Program(memory) => memory,
            Self::Other(_, sink) => &mut sink.end,
            Self::Peer(sink) => &mut sink.end,
        }
    }
}
