//! What is measured, and what came of it.

use super::sampling::Times;

/// One thing that was measured.
pub(super) struct Figure {
    pub(super) way: Way,
    /// None for launches.
    pub(super) bytes: Option<u64>,
    /// Its route.
    pub(super) route: String,
    /// None if there was no time for it.
    pub(super) times: Option<Times>,
}

/// The ends of a copy. Numbers are devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    ToDevice(u32),
    FromDevice(u32),
    Between(u32, u32),
    Launch(u32),
}
