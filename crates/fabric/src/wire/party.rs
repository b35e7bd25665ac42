//! Names of those who push and expect copies.

use accord_types::{Error, ErrorCode, NodeId, Result};

/// The other end of a transfer: an executor of this session, or the program ([`FROM_PROGRAM`]). A node that lost its executor
/// gets another one, which is another party: [`party`] makes its number of the node's and of its own.
///
/// [`FROM_PROGRAM`]: crate::handshake::FROM_PROGRAM
pub type Party = u32;

/// Bits of a [`Party`] that are the node's number.
const NODE_BITS: u32 = 20;
/// Executors that a session may have on a node, one after the other. The last number would make a program's [`Party`].
const INCARNATIONS_MAX: u32 = (1 << (u32::BITS - NODE_BITS)) - 1;

/// The executor with this number, from 0, among those that the session has and has had on a node.
///
/// # Errors
/// `acc_error_device_unavailable` if there are too many.
pub fn party(node: NodeId, incarnation: u32) -> Result<Party> {
    if incarnation >= INCARNATIONS_MAX || node.0 >> NODE_BITS != 0 {
        let cause = format!("executor {incarnation} on node number {} is one too many for a session", node.0);
        return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy("start the program again"));
    }
    Ok(node.0 | incarnation << NODE_BITS)
}

/// Which of its node's executors a party is.
pub fn incarnation(party: Party) -> u16 {
    // 12 bits are left.
    (party >> NODE_BITS) as u16
}

/// The node of a party that is an executor.
pub fn node_of(party: Party) -> NodeId {
    NodeId(party & ((1 << NODE_BITS) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::FROM_PROGRAM;

    #[test]
    fn the_first_executor_has_its_nodes_number_and_later_ones_others() {
        assert_eq!(party(NodeId(7), 0).unwrap(), 7);
        let later = party(NodeId(7), 3).unwrap();
        assert_eq!((node_of(later), incarnation(later)), (NodeId(7), 3));
        let last = party(NodeId((1 << NODE_BITS) - 1), INCARNATIONS_MAX - 1).unwrap();
        assert_ne!(last, FROM_PROGRAM);
        assert_eq!(incarnation(last), 4094);
        assert!(party(NodeId(7), INCARNATIONS_MAX).is_err());
        assert!(party(NodeId(1 << NODE_BITS), 0).is_err());
    }
}
