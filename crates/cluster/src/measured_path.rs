//! The measurement of a path.

use accord_types::PathTimes;

/// A measurement between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredPath {
    /// Times in one direction.
    pub times: PathTimes,
    /// The transport that moved the bytes.
    pub transport: String,
}
