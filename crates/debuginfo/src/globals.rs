//! The static variables of a file.

use gimli::{DebugInfoOffset, UnitOffset};
use std::ops::Range;

/// The static variables of a file.
#[derive(Default)]
pub(crate) struct Globals(pub(crate) Vec<Global>);

/// One static variable.
pub(crate) struct Global {
    pub(crate) span: Range<u64>,
    pub(crate) unit: DebugInfoOffset,
    pub(crate) entry: UnitOffset,
    pub(crate) function: Option<UnitOffset>,
    pub(crate) points: bool,
}
