//! Converts the core's effects to messages.

use accord_cluster::{AgentOrder, Cluster, Refusal};
use accord_proto::{VERSIONS, v1};
use accord_types::SessionId;
use tonic::Status;
use v1::coordinator_message::Body;

/// Returns an order to an agent as a message.
pub(super) fn to_agent(order: AgentOrder, cluster: &Cluster) -> v1::CoordinatorMessage {
    let limits = cluster.limits();
    message(match order {
        AgentOrder::Registered(node) => Body::Registered(v1::Registered {
            address: cluster.node(node).map(|node| node.address.clone()).unwrap_or_default(),
            version: VERSIONS.own(),
            node: node.0,
            heartbeat_ms: u32::try_from(cluster.heartbeat_ms(node)).unwrap_or(u32::MAX),
            lost_after_ms: u32::try_from(limits.lost_after_ms).unwrap_or(u32::MAX),
            plain_tcp: limits.plain_tcp,
            epoch: cluster.file_epoch(),
        }),
        AgentOrder::SessionOpened(grant) => Body::SessionOpened(v1::SessionOpened { grant: Some(grant.into()) }),
        AgentOrder::SessionClosed(session, why) => {
            let reason = why.map(|why| why.text(session)).unwrap_or_default();
            Body::SessionClosed(v1::SessionClosed { session: session.0, reason, key: Vec::new() })
        }
        AgentOrder::ClaimClosed(session, key, why) => {
            let (reason, key) = (why.map(|why| why.text(session)).unwrap_or_default(), key.0.to_vec());
            Body::SessionClosed(v1::SessionClosed { session: session.0, reason, key })
        }
        AgentOrder::JobStarted(grant) => Body::JobStarted(grant.into()),
        AgentOrder::ReleaseJob(job) => Body::ReleaseJob(v1::ReleaseJob { job: job.0.to_vec() }),
        AgentOrder::Suspend(job, suspend) => Body::SuspendJob(v1::SuspendJob { job: job.0.to_vec(), suspend }),
        AgentOrder::NodeLost(node, node_name) => Body::NodeLost(v1::NodeLost { node: node.0, node_name }),
        AgentOrder::RankLost(node_name) => Body::RankLost(v1::RankLost { node_name }),
        AgentOrder::Drain(draining) => Body::Drain(v1::Drain { draining }),
        AgentOrder::TestDevice(ordinal, number) => Body::TestDevice(v1::TestDevice { ordinal, number }),
        AgentOrder::MeasureNode => Body::MeasureNode(v1::MeasureNode {}),
        AgentOrder::MeasurePath { measurement, to, address, key } => {
            Body::MeasurePath(v1::MeasurePath { measurement, to: to.0, address, key: key.0.to_vec() })
        }
        AgentOrder::ExpectMeasurement { measurement, key } => {
            Body::ExpectMeasurement(v1::ExpectMeasurement { measurement, key: key.0.to_vec() })
        }
    })
}

/// Asks for what was written about a session.
pub(super) fn send_session_log(question: u64, session: SessionId) -> v1::CoordinatorMessage {
    message(Body::SendSessionLog(v1::SendSessionLog { question, session: session.0 }))
}

/// Makes an agent stop.
pub(super) fn stop() -> v1::CoordinatorMessage {
    message(Body::Stop(v1::Stop {}))
}

/// Returns the gRPC status for a refused agent. Agents retry after `RESOURCE_EXHAUSTED` and `UNAVAILABLE`, and give up
/// after any other status.
pub(super) fn refusal(refusal: &Refusal) -> Status {
    let text = refusal.to_string();
    match refusal {
        Refusal::Stale { .. } => Status::already_exists(text),
        Refusal::Superseded { .. } => Status::failed_precondition(text),
        Refusal::Full { .. } | Refusal::Taken { .. } => Status::resource_exhausted(text),
        Refusal::Malformed(_) => Status::invalid_argument(text),
        Refusal::NotRegistered => Status::unavailable(text),
    }
}

fn message(body: Body) -> v1::CoordinatorMessage {
    v1::CoordinatorMessage { body: Some(body) }
}
