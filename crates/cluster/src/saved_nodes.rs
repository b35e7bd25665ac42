//! The records of nodes, in the form of their agents' registrations.

use super::node::{ContactTimes, Node, NodeState};
use super::record::{Records, keys, table};
use super::time::Millis;
use accord_proto::{convert, v1};
use accord_types::{DeviceInfo, Machine, NodeId};
use prost::Message;

/// Returns the record of a node.
pub(super) fn saved_node(node: &Node) -> Vec<u8> {
    let register = v1::Register {
        version: accord_proto::VERSION,
        node_name: node.name.clone(),
        incarnation: node.incarnation,
        address: node.address.clone(),
        devices: node.devices.iter().cloned().map(Into::into).collect(),
        hardware: Some(node.machine.hardware.clone().into()),
        labels: convert::labels(&node.machine.labels),
        previous_node: Some(node.id.0),
        sessions: Vec::new(),
        world: node.world.clone(),
        draining: node.draining,
        granted: Vec::new(),
        jobs: Vec::new(),
        coordinator_epoch: 0,
        kernel_limits: Some(node.machine.kernel_limits.clone().into()),
    };
    register.encode_to_vec()
}

/// Returns the record of why a node is not up; `None` if it is up.
pub(super) fn saved_down(node: &Node) -> Option<Vec<u8>> {
    match node.state {
        NodeState::Up { .. } => None,
        NodeState::Lost => Some(b"lost".to_vec()),
        NodeState::Gone => Some(b"gone".to_vec()),
    }
}

/// Reads the nodes. The agents of nodes that are up count as just disconnected.
pub(super) fn restored_nodes(records: &Records, now: Millis) -> Result<Vec<Node>, String> {
    let read = |key: &str, value: &[u8]| {
        let damaged = |error: String| format!("the value of {key} is damaged: {error}");
        let register = v1::Register::decode(value).map_err(|error| damaged(error.to_string()))?;
        let id = NodeId(register.previous_node.ok_or_else(|| damaged("no number".to_owned()))?);
        let devices = register.devices.into_iter().map(DeviceInfo::try_from).collect::<Result<Vec<_>, _>>();
        let state = match records.get(&down_key(id)).map(Vec::as_slice) {
            None => NodeState::Up { link: None },
            Some(b"lost") => NodeState::Lost,
            Some(_) => NodeState::Gone,
        };
        Ok(Node {
            id,
            name: register.node_name,
            state,
            incarnation: register.incarnation,
            address: register.address,
            devices: std::sync::Arc::new(devices.map_err(|error| damaged(error.to_string()))?),
            machine: Machine {
                hardware: register.hardware.unwrap_or_default().into(),
                labels: convert::node_labels(register.labels).map_err(|error| damaged(error.to_string()))?,
                kernel_limits: register.kernel_limits.unwrap_or_default().into(),
            },
            // The coordinator's restart says nothing about the agent. If the agent stays silent, the node is lost.
            contact: ContactTimes { left: now, ..ContactTimes::at(now) },
            draining: register.draining,
            // An agent that still leaves says so again.
            leaving: false,
            world: register.world,
            reported: None,
        })
    };
    table(records, keys::NODES).map(|(key, value)| read(key, value)).collect()
}

pub(super) fn node_key(id: NodeId) -> String {
    format!("{}{}", keys::NODES, id.0)
}

pub(super) fn down_key(id: NodeId) -> String {
    format!("{}{}", keys::DOWN, id.0)
}
