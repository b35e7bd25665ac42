//! Names of the processes of a session.

use accord_types::{Error, ErrorCode, NodeId, Result};
use rkyv::{Archive, Deserialize, Serialize};
use std::fmt;

/// A process of a session: one of its executors, or the program. A node whose executor is lost gets another one, which is
/// another peer. So an executor's number combines the node's number with a count of the session's executors there.
///
/// Two executors that lose their lane are new peers to each other from then on: see [`PeerId::on_lane`].
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerId(u64);

/// Bits of a [`PeerId`] that are the node's number.
const NODE_BITS: u32 = 20;
/// Most executors that a session may have on a node, one after the other. The next number would equal
/// [`PeerId::PROGRAM`].
const INCARNATIONS_MAX: u32 = (1 << (u32::BITS - NODE_BITS)) - 1;

impl PeerId {
    /// The session's program.
    pub const PROGRAM: Self = Self(u32::MAX as u64);

    /// Returns the executor with this number, from 0, among those that the session has had on a node.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the number is too large.
    pub fn executor(node: NodeId, incarnation: u32) -> Result<Self> {
        if incarnation >= INCARNATIONS_MAX || node.0 >> NODE_BITS != 0 {
            let cause = format!("executor {incarnation} on node number {} is one too many for a session", node.0);
            return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("start the program again"));
        }
        Ok(Self(u64::from(node.0 | incarnation << NODE_BITS)))
    }

    /// Returns the peer of a number from [`PeerId::raw`], which may not exist.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw as u64)
    }

    /// Returns the process's number, as on the wire.
    pub const fn raw(self) -> u32 {
        // The upper half is the lane.
        self.0 as u32
    }

    /// Returns the same process on the lane with this number, counted from 0 over all lanes that the two peers have had in
    /// this direction. A transfer that started on one lane never arrives on another.
    #[must_use]
    pub const fn on_lane(self, number: u32) -> Self {
        Self(self.raw() as u64 | (number as u64) << u32::BITS)
    }

    /// Returns the number of the lane.
    pub const fn lane(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }

    /// Returns the process, without the lane.
    #[must_use]
    pub const fn process(self) -> Self {
        self.on_lane(0)
    }

    /// Returns the executor's number among those of its node.
    pub const fn incarnation(self) -> u16 {
        // 12 bits remain.
        (self.raw() >> NODE_BITS) as u16
    }

    /// Returns the node of an executor.
    pub const fn node(self) -> NodeId {
        NodeId(self.raw() & ((1 << NODE_BITS) - 1))
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process() {
            Self::PROGRAM => f.write_str("the program"),
            executor => write!(f, "executor {} of node {}", executor.incarnation(), executor.node().0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_executor_has_its_nodes_number_and_later_ones_others() {
        assert_eq!(PeerId::executor(NodeId(7), 0).unwrap().raw(), 7);
        let later = PeerId::executor(NodeId(7), 3).unwrap();
        assert_eq!((later.node(), later.incarnation()), (NodeId(7), 3));
        let last = PeerId::executor(NodeId((1 << NODE_BITS) - 1), INCARNATIONS_MAX - 1).unwrap();
        assert_ne!(last, PeerId::PROGRAM);
        assert_eq!(last.incarnation(), 4094);
        assert!(PeerId::executor(NodeId(7), INCARNATIONS_MAX).is_err());
        assert!(PeerId::executor(NodeId(1 << NODE_BITS), 0).is_err());
    }

    #[test]
    fn on_another_lane_it_is_another_peer_and_the_same_process() {
        let executor = PeerId::executor(NodeId(7), 3).unwrap();
        let later = executor.on_lane(u32::MAX);
        assert_ne!(later, executor);
        assert_eq!((later.lane(), later.process(), later.raw()), (u32::MAX, executor, executor.raw()));
        assert_eq!((later.node(), later.incarnation()), (NodeId(7), 3));
        assert_eq!(later.on_lane(0), executor);
        assert_eq!((PeerId::PROGRAM.lane(), PeerId::PROGRAM.process()), (0, PeerId::PROGRAM));
    }

    #[test]
    fn peers_are_displayed_by_role_and_node() {
        assert_eq!(PeerId::PROGRAM.to_string(), "the program");
        assert_eq!(PeerId::from_raw(7).to_string(), "executor 0 of node 7");
    }
}
