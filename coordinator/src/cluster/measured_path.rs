//! What is known of a path that was measured.

use accord_types::PathTimes;

/// What was measured between two nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredPath {
    /// One way.
    pub times: PathTimes,
    /// What carried the bytes.
    pub transport: String,
}
