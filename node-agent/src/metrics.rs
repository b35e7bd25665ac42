//! What is counted, through the `metrics` facade: without an exporter it costs nothing.

/// Executors at this time.
pub const EXECUTORS: &str = "accord_agent_executors";
/// Connections that were handed to executors.
pub const CONNECTIONS: &str = "accord_agent_connections_total";
/// Connections that were turned away.
pub const REFUSED: &str = "accord_agent_refused_total";
/// Times that the coordinator took this node in.
pub const REGISTRATIONS: &str = "accord_agent_registrations_total";

pub(crate) fn executors(count: usize) {
    metrics::gauge!(EXECUTORS).set(count as f64);
}

pub(crate) fn connection() {
    metrics::counter!(CONNECTIONS).increment(1);
}

pub(crate) fn refused() {
    metrics::counter!(REFUSED).increment(1);
}

pub(crate) fn registration() {
    metrics::counter!(REGISTRATIONS).increment(1);
}
