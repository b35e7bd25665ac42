//! Names of the processes of a session.

use accord_types::{Error, ErrorCode, NodeId, Result};

/// The other end of a transfer: an executor of this session, or the program ([`FROM_PROGRAM`]). A node that lost its executor
/// gets another one, which is another peer: [`peer_id`] makes its number of the node's and of its own.
///
/// [`FROM_PROGRAM`]: crate::handshake::FROM_PROGRAM
pub type PeerId = u32;

/// Bits of a [`PeerId`] that are the node's number.
const NODE_BITS: u32 = 20;
/// Executors that a session may have on a node, one after the other. The last number would make a program's [`PeerId`].
const INCARNATIONS_MAX: u32 = (1 << (u32::BITS - NODE_BITS)) - 1;

/// The executor with this number, from 0, among those that the session has and has had on a node.
///
/// # Errors
/// `acc_error_device_unavailable` if there are too many.
pub fn peer_id(node: NodeId, incarnation: u32) -> Result<PeerId> {
    if incarnation >= INCARNATIONS_MAX || node.0 >> NODE_BITS != 0 {
        let cause = format!("executor {incarnation} on node number {} is one too many for a session", node.0);
        return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("start the program again"));
    }
    Ok(node.0 | incarnation << NODE_BITS)
}

/// Which of its node's executors a peer is.
pub fn incarnation(peer: PeerId) -> u16 {
    // 12 bits are left.
    (peer >> NODE_BITS) as u16
}

/// The node of a peer that is an executor.
pub fn node_of(peer: PeerId) -> NodeId {
    NodeId(peer & ((1 << NODE_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::FROM_PROGRAM;

    #[test]
    fn the_first_executor_has_its_nodes_number_and_later_ones_others() {
        assert_eq!(peer_id(NodeId(7), 0).unwrap(), 7);
        let later = peer_id(NodeId(7), 3).unwrap();
        assert_eq!((node_of(later), incarnation(later)), (NodeId(7), 3));
        let last = peer_id(NodeId((1 << NODE_BITS) - 1), INCARNATIONS_MAX - 1).unwrap();
        assert_ne!(last, FROM_PROGRAM);
        assert_eq!(incarnation(last), 4094);
        assert!(peer_id(NodeId(7), INCARNATIONS_MAX).is_err());
        assert!(peer_id(NodeId(1 << NODE_BITS), 0).is_err());
    }
}
