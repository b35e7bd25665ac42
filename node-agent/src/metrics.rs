//! Metrics, recorded through the `metrics` facade: without an exporter they cost nothing.

use accord_monitoring::Metric;
use accord_trust::Trust;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All metrics of the agent.
pub const TABLE: [Metric; 7] = [
    Metric::gauge(REGISTERED, "1 while the coordinator has the node in, 0 while it does not"),
    Metric::gauge(EXECUTORS, "executors"),
    Metric::counter(CONNECTIONS, "connections handed to executors"),
    Metric::counter(REFUSED, "connections turned away"),
    Metric::counter(REGISTRATIONS, "times that the coordinator took the node in"),
    Metric::gauge(CERTIFICATE_EXPIRY, "when its certificate expires, in seconds since 1970").and("holder"),
    Metric::counter(LOG_DROPPED, "messages that standard error had no room for"),
];

/// Whether the coordinator counts the node as registered.
pub const REGISTERED: &str = "accord_agent_registered";
/// Expiry of the agent's certificate, if it has one.
pub const CERTIFICATE_EXPIRY: &str = "accord_agent_certificate_expiry_timestamp_seconds";
/// Number of executors.
pub const EXECUTORS: &str = "accord_agent_executors";
/// Connections handed to executors.
pub const CONNECTIONS: &str = "accord_agent_connections_total";
/// Refused connections.
pub const REFUSED: &str = "accord_agent_refused_total";
/// Successful registrations.
pub const REGISTRATIONS: &str = "accord_agent_registrations_total";

/// Log messages dropped because standard error was blocked.
pub const LOG_DROPPED: &str = "accord_agent_log_dropped_total";

/// Counts a dropped log message.
pub fn log_dropped() {
    metrics::counter!(LOG_DROPPED).increment(1);
}

/// Records when the certificate in use expires.
pub(crate) fn certificate_expiry(trust: &Trust) {
    let identity = trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
    if let (Some(expiry), Ok(name)) = (identity.expiry(), identity.name()) {
        metrics::gauge!(CERTIFICATE_EXPIRY, "holder" => name.role.to_string()).set(expiry.as_secs_f64());
    }
}

pub(crate) fn executors(count: usize) {
    metrics::gauge!(EXECUTORS).set(count as f64);
}

pub(crate) fn connection() {
    metrics::counter!(CONNECTIONS).increment(1);
}

pub(crate) fn refused() {
    metrics::counter!(REFUSED).increment(1);
}

/// Whether the node is registered at the coordinator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registered(Arc<AtomicBool>);

impl Registered {
    pub(crate) fn set(&self, registered: bool) {
        let before = self.0.swap(registered, Ordering::Relaxed);
        if registered && !before {
            metrics::counter!(REGISTRATIONS).increment(1);
        }
        metrics::gauge!(REGISTERED).set(f64::from(u8::from(registered)));
    }

    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
