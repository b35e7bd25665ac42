//! The figures of a benchmark.

use super::sampling::Times;

/// One figure.
pub(super) struct Figure {
    pub(super) way: CopyEnds,
    /// `None` for launches.
    pub(super) bytes: Option<u64>,
    /// Its route.
    pub(super) route: String,
    /// `None` if the time ran out before.
    pub(super) times: Option<Times>,
}

/// The ends of a copy; numbers are devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyEnds {
    ToDevice(u32),
    FromDevice(u32),
    Between(u32, u32),
    Launch(u32),
}
