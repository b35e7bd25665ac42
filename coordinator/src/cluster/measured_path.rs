//! What is known of a path that was measured.

use accord_types::PathTimes;

/// A measurement between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredPath {
    /// One way.
    pub times: PathTimes,
    /// The transport of the bytes.
    pub transport: String,
}
