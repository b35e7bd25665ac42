//! Spans of work on devices, from which timelines are made.

use crate::{DeviceId, QueueId};

/// The kind of a span's work.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpanKind {
    /// A region ran.
    Launch,
    /// Bytes were copied to the device from the program.
    CopyIn,
    /// Bytes were copied from the device to the program.
    CopyOut,
    /// Bytes moved within the device.
    Copy,
    /// Bytes left for another device.
    Push,
    /// Bytes arrived from another device.
    Arrive,
    /// The program was in a range that it named.
    Range,
}

impl SpanKind {
    /// Every kind, in the order of its wire number.
    pub const ALL: [Self; 7] =
        [Self::Launch, Self::CopyIn, Self::CopyOut, Self::Copy, Self::Push, Self::Arrive, Self::Range];

    /// Whether the device worked.
    #[must_use]
    pub fn is_work(self) -> bool {
        self != Self::Range
    }

    /// Returns the word used in traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::CopyIn => "copyin",
            Self::CopyOut => "copyout",
            Self::Copy => "copy",
            Self::Push => "push",
            Self::Arrive => "arrive",
            Self::Range => "range",
        }
    }
}

/// One piece of work on one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The device.
    pub device: DeviceId,
    /// The queue.
    pub queue: QueueId,
    /// The kind of work.
    pub kind: SpanKind,
    /// The region's or the range's name; empty for copies.
    pub name: String,
    /// Bytes moved; 0 for launches.
    pub bytes: u64,
    /// Start, in nanoseconds of the device's node's `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
}

/// A receiver of completed spans. Called on device threads: it must not block.
pub trait SpanSink: Send + Sync {
    /// Receives a completed span.
    fn span(&self, span: Span);
}
