//! What is counted, through the `metrics` facade: without an exporter it costs nothing.

use crate::cluster::{ClientPush, Cluster, Effect, Input, Node};
use accord_monitoring::Metric;
use accord_types::DeviceKind;

/// All of it.
pub const TABLE: [Metric; 9] = [
    Metric::gauge(NODES_UP, "nodes whose agent lives"),
    Metric::gauge(DEVICES, "devices of these nodes").by("kind", &["cpu", "gpu"]),
    Metric::counter(NODES_LOST, "nodes that were lost or have left"),
    Metric::counter(REGISTRATIONS, "registrations, repeated ones included"),
    Metric::gauge(SESSIONS, "open sessions"),
    Metric::counter(SESSIONS_OPENED, "sessions opened"),
    Metric::counter(SESSIONS_REFUSED, "sessions refused"),
    Metric::counter(REFUSED, "connections turned away").by("why", &Why::NAMES),
    Metric::counter(LOG_DROPPED, "messages that standard error had no room for"),
];

/// Connections that were turned away, by reason.
pub const REFUSED: &str = "accord_coordinator_refused_total";
/// Nodes whose agent lives.
pub const NODES_UP: &str = "accord_coordinator_nodes_up";
/// Devices of these nodes, by kind.
pub const DEVICES: &str = "accord_coordinator_devices";
/// Nodes that were lost or have left.
pub const NODES_LOST: &str = "accord_coordinator_nodes_lost_total";
/// Registrations, repeated ones included.
pub const REGISTRATIONS: &str = "accord_coordinator_registrations_total";
/// Open sessions.
pub const SESSIONS: &str = "accord_coordinator_sessions";
/// Sessions that were opened.
pub const SESSIONS_OPENED: &str = "accord_coordinator_sessions_opened_total";
/// Sessions that were refused.
pub const SESSIONS_REFUSED: &str = "accord_coordinator_sessions_refused_total";

/// Messages that were dropped, as standard error took none.
pub const LOG_DROPPED: &str = "accord_coordinator_log_dropped_total";

/// Counts a message that standard error had no room for.
pub fn log_dropped() {
    metrics::counter!(LOG_DROPPED).increment(1);
}

/// Why a connection, or a call, was turned away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The core refused an agent.
    Agent,
    /// There were too many of which nothing was known.
    Full,
    /// What it said made no sense.
    Protocol,
    /// Its user has as many connections as they may have.
    Quota,
    /// Its certificate's role may not do that.
    Role,
    /// It said nothing.
    Silent,
    /// The handshake of TLS failed.
    Tls,
}

impl Why {
    /// What the label says, in the order above.
    const NAMES: [&str; 7] = ["agent", "full", "protocol", "quota", "role", "silent", "tls"];
}

/// Somebody was turned away.
pub(crate) fn refused(why: Why) {
    metrics::counter!(REFUSED, "why" => Why::NAMES[why as usize]).increment(1);
}

/// Counts the core's inputs and effects.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    up: usize,
}

impl Metrics {
    pub(crate) fn input(input: &Input) {
        if matches!(input, Input::Register { .. }) {
            metrics::counter!(REGISTRATIONS).increment(1);
        }
    }

    pub(crate) fn effect(effect: &Effect) {
        match effect {
            Effect::RefuseAgent(..) => refused(Why::Agent),
            Effect::ToClient(_, ClientPush::Granted(_)) => metrics::counter!(SESSIONS_OPENED).increment(1),
            Effect::ToClient(_, ClientPush::Refused(_)) => metrics::counter!(SESSIONS_REFUSED).increment(1),
            _ => {}
        }
    }

    /// After a step that has changed the view.
    pub(crate) fn gauges(&mut self, cluster: &Cluster) {
        let up = cluster.nodes().filter(|node| Node::is_up(node)).count();
        metrics::gauge!(NODES_UP).set(up as f64);
        for (kind, name) in [(DeviceKind::CPU, "cpu"), (DeviceKind::CUDA, "gpu")] {
            let devices = cluster.nodes().filter(|node| Node::is_up(node)).flat_map(|node| &node.devices);
            metrics::gauge!(DEVICES, "kind" => name).set(devices.filter(|device| device.kind == kind).count() as f64);
        }
        metrics::gauge!(SESSIONS).set(cluster.session_count() as f64);
        if up < self.up {
            metrics::counter!(NODES_LOST).increment((self.up - up) as u64);
        }
        self.up = up;
    }
}
