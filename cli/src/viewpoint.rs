//! The cluster as seen by a program that starts where this process is.

use crate::client::{Coordinator, variable};
use crate::cluster::Cluster;
use crate::failure::{Failure, Result};
use accord_fabric::route::TransportChoice;
use accord_proto::v1::Viewer;
use accord_types::{OrderPolicy, Rank, settings};
use std::time::Duration;

/// Returns the cluster as the coordinator of the settings describes it, or without one this machine alone.
pub(crate) fn cluster() -> Result<Cluster> {
    match Coordinator::of_environment()? {
        Some(mut coordinator) => {
            let view = coordinator.describe(Some(viewer()?))?;
            let mut cluster = Cluster::of_view(coordinator.address(), view)?;
            cluster.find_routes(&node_name(), wanted()?);
            Ok(cluster)
        }
        None => Cluster::of_this_machine(&node_name()),
    }
}

/// Returns the cluster as [`cluster`], with the times of nodes and of paths between some devices. They are measured now
/// for at most `wait`, if that disturbs no session.
pub(crate) fn measured_cluster(devices: &[u32], wait: Duration) -> Result<Cluster> {
    let Some(mut coordinator) = Coordinator::of_environment()? else { return Cluster::of_this_machine(&node_name()) };
    let viewer = viewer()?;
    let address = coordinator.address().to_owned();
    let before = Cluster::of_view(&address, coordinator.describe(Some(viewer.clone()))?)?;
    let device_type = before.default_type();
    let own = before.nodes.iter().filter(|node| node.name == viewer.node_name).map(|node| node.id.0);
    let theirs = devices.iter().filter_map(|&number| before.device(device_type, number)).map(|row| row.info.id.node.0);
    let mut nodes: Vec<u32> = own.chain(theirs).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut cluster = Cluster::of_view(&address, coordinator.describe_measured(Some(&viewer), &nodes, wait)?)?;
    cluster.find_routes(&viewer.node_name, wanted()?);
    Ok(cluster)
}

/// Returns this process as a program that might open a session.
fn viewer() -> Result<Viewer> {
    let order = match settings::DEVICE_ORDER.find(variable) {
        None => OrderPolicy::default(),
        Some((_, value)) if value == "auto" || value == "node" => OrderPolicy::Local,
        Some((name, value)) => OrderPolicy::from_name(&value)
            .ok_or_else(|| Failure::new(format!("{name}={value}: not auto, local, global, rank or node")))?,
    };
    Ok(Viewer {
        node_name: node_name(),
        order: accord_proto::v1::OrderPolicy::from(order).into(),
        kind: accord_proto::v1::DeviceKind::Unspecified.into(),
        rank: rank().map(Into::into),
    })
}

/// Returns the transport setting of a program that starts here.
fn wanted() -> Result<TransportChoice> {
    let (value, _) = settings::TRANSPORT.in_force(variable);
    value.parse().map_err(|remedy| Failure::new(format!("{}={value}: {remedy}", settings::TRANSPORT.name)))
}

/// Returns this process's place in an MPI job, as launchers state it.
fn rank() -> Option<Rank> {
    Rank::of_environment(variable)
}

/// Returns the name of the node that a program here is on.
pub(crate) fn node_name() -> String {
    variable(settings::NODE.name)
        .or_else(|| nix::unistd::gethostname().ok()?.into_string().ok())
        .unwrap_or_else(|| "localhost".to_owned())
}
