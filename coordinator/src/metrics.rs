//! The coordinator's metrics, through the `metrics` facade. They cost nothing without an exporter.

use accord_cluster::{ClientPush, Cluster, Effect, Input};
use accord_monitoring::Metric;
use accord_scheduler::ledger::Activity;
use accord_scheduler::{DeviceState, EndCause, Scheduler};
use accord_trust::Trust;
use accord_types::DeviceKind;
use std::collections::BTreeMap;
use std::time::Duration;

/// All metrics.
pub const TABLE: [Metric; 20] = [
    Metric::gauge(NODES_UP, "nodes whose agent lives"),
    Metric::gauge(DEVICES, "devices of these nodes").by("kind", &["cpu", "gpu"]),
    Metric::counter(NODES_LOST, "nodes that were lost or have left"),
    Metric::counter(REGISTRATIONS, "registrations, repeated ones included"),
    Metric::gauge(SESSIONS, "open sessions"),
    Metric::counter(SESSIONS_OPENED, "sessions opened"),
    Metric::counter(SESSIONS_REFUSED, "sessions refused"),
    Metric::gauge(JOBS, "jobs").by("state", &["waiting", "running", "suspended"]),
    Metric::counter(JOBS_STARTED, "jobs that got their devices"),
    Metric::counter(JOBS_ENDED, "jobs that ended").by("why", &EndCause::WORDS),
    Metric::gauge(JOB_DEVICES, "devices as the scheduler sees them").by("state", &STATES).and("class"),
    Metric::counter(DEVICE_BUSY, "milliseconds in which sessions had devices busy"),
    Metric::counter(DEVICE_BYTES, "bytes that sessions copied").by("direction", &["in", "out"]),
    Metric::gauge(POLICY_VERSION, "version of the site's policy; 0 without one"),
    Metric::counter(DECISIONS, "decisions: what has happened, until all that follows is known"),
    Metric::counter(DECISION_TIME, "microseconds that these took"),
    Metric::counter(REFUSED, "connections turned away").by("why", &RefusalReason::NAMES),
    Metric::gauge(CERTIFICATE_EXPIRY, "when its certificate expires, in seconds since 1970").and("holder"),
    Metric::gauge(LEADS, "whether it leads the cluster: 1, or 0 while another coordinator does"),
    Metric::counter(LOG_DROPPED, "messages that standard error had no room for"),
];

/// Refused connections, by reason.
pub const REFUSED: &str = "accord_coordinator_refused_total";
/// Expiry of the coordinator's certificate, if it has one.
pub const CERTIFICATE_EXPIRY: &str = "accord_coordinator_certificate_expiry_timestamp_seconds";
/// Nodes whose agent is alive.
pub const NODES_UP: &str = "accord_coordinator_nodes_up";
/// Devices of these nodes, by kind.
pub const DEVICES: &str = "accord_coordinator_devices";
/// Nodes that were lost or have left.
pub const NODES_LOST: &str = "accord_coordinator_nodes_lost_total";
/// Registrations, including repeated ones.
pub const REGISTRATIONS: &str = "accord_coordinator_registrations_total";
/// Open sessions.
pub const SESSIONS: &str = "accord_coordinator_sessions";
/// Sessions that were opened.
pub const SESSIONS_OPENED: &str = "accord_coordinator_sessions_opened_total";
/// Sessions that were refused.
pub const SESSIONS_REFUSED: &str = "accord_coordinator_sessions_refused_total";

/// Jobs, by state.
pub const JOBS: &str = "accord_coordinator_jobs";
/// Jobs that were started.
pub const JOBS_STARTED: &str = "accord_coordinator_jobs_started_total";
/// Jobs that ended, by reason.
pub const JOBS_ENDED: &str = "accord_coordinator_jobs_ended_total";
/// Devices by class and state.
pub const JOB_DEVICES: &str = "accord_coordinator_job_devices";
/// Busy time of devices.
pub const DEVICE_BUSY: &str = "accord_coordinator_device_busy_milliseconds_total";
/// Bytes copied to and from devices.
pub const DEVICE_BYTES: &str = "accord_coordinator_device_bytes_total";
/// The policy's version.
pub const POLICY_VERSION: &str = "accord_coordinator_policy_version";
/// Decisions of the core.
pub const DECISIONS: &str = "accord_coordinator_decisions_total";
/// Total time of these decisions.
pub const DECISION_TIME: &str = "accord_coordinator_decision_microseconds_total";

/// The names of device states.
const STATES: [&str; DeviceState::ALL.len()] = {
    let mut names = [""; DeviceState::ALL.len()];
    let mut at = 0;
    while at < DeviceState::ALL.len() {
        names[at] = DeviceState::ALL[at].name();
        at += 1;
    }
    names
};

/// Log messages that were dropped because standard error blocked.
pub const LOG_DROPPED: &str = "accord_coordinator_log_dropped_total";

/// Whether the coordinator leads.
pub const LEADS: &str = "accord_coordinator_leads";

/// Publishes whether this coordinator leads. One that runs without others does.
pub fn leads(leads: bool) {
    metrics::gauge!(LEADS).set(f64::from(u8::from(leads)));
}

/// Publishes the expiry of the certificate in use.
pub fn certificate_expiry(trust: &Trust) {
    let identity = trust.current(|error| tracing::warn!("the certificates stay as they were: {error}"));
    if let Some(expiry) = identity.expiry() {
        metrics::gauge!(CERTIFICATE_EXPIRY, "holder" => "coordinator").set(expiry.as_secs_f64());
    }
}

/// Counts a dropped log message.
pub fn log_dropped() {
    metrics::counter!(LOG_DROPPED).increment(1);
}

/// The reason for refusing a connection or a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusalReason {
    /// The core has refused an agent.
    Agent,
    /// Too many connections were unauthenticated.
    Full,
    /// The peer has violated the protocol.
    Protocol,
    /// The user's quota of connections is exhausted.
    Quota,
    /// The role of the caller may not do this.
    Role,
    /// The peer did not finish the handshake in time.
    Silent,
    /// The TLS handshake has failed.
    Tls,
}

impl RefusalReason {
    /// The label's values, in the order of the variants.
    const NAMES: [&str; 7] = ["agent", "full", "protocol", "quota", "role", "silent", "tls"];
}

/// Counts a refused caller.
pub(crate) fn refused(why: RefusalReason) {
    metrics::counter!(REFUSED, "why" => RefusalReason::NAMES[why as usize]).increment(1);
}

/// Publishes metrics of the core's inputs, effects and state.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    up: usize,
    /// The core's stamp at the last count of jobs.
    stamp: Option<u64>,
}

impl Metrics {
    pub(crate) fn input(input: &Input) {
        if matches!(input, Input::Register { .. }) {
            metrics::counter!(REGISTRATIONS).increment(1);
        }
    }

    pub(crate) fn effect(effect: &Effect) {
        match effect {
            Effect::RefuseAgent(..) => refused(RefusalReason::Agent),
            Effect::ToClient(_, ClientPush::Granted(_)) => metrics::counter!(SESSIONS_OPENED).increment(1),
            Effect::ToClient(_, ClientPush::Refused(_)) => metrics::counter!(SESSIONS_REFUSED).increment(1),
            _ => {}
        }
    }

    /// Counts a decision and its time.
    pub(crate) fn decided(took: Duration) {
        metrics::counter!(DECISIONS).increment(1);
        metrics::counter!(DECISION_TIME).increment(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Publishes the number of jobs, if jobs have changed since the last call.
    pub(crate) fn jobs(&mut self, cluster: &Cluster) {
        if self.stamp.replace(cluster.stamp()) == Some(cluster.stamp()) {
            return;
        }
        let scheduler = cluster.scheduler();
        metrics::gauge!(JOBS, "state" => "waiting").set(scheduler.waiting() as f64);
        let suspended = scheduler.suspended_jobs();
        metrics::gauge!(JOBS, "state" => "running").set(scheduler.running().saturating_sub(suspended) as f64);
        metrics::gauge!(JOBS, "state" => "suspended").set(suspended as f64);
        let totals = cluster.job_totals();
        metrics::counter!(JOBS_STARTED).absolute(totals.started);
        for (word, count) in EndCause::WORDS.iter().zip(totals.ended) {
            metrics::counter!(JOBS_ENDED, "why" => *word).absolute(count);
        }
        metrics::gauge!(POLICY_VERSION).set(cluster.policy_version() as f64);
    }

    /// Publishes the number of devices by class and state. This visits every device.
    pub(crate) fn devices(scheduler: &Scheduler) {
        let mut by_name: BTreeMap<String, BTreeMap<DeviceState, u64>> = BTreeMap::new();
        for (class, states) in scheduler.device_states() {
            let counts = by_name.entry(class.name()).or_default();
            for (state, count) in states {
                *counts.entry(state).or_default() += count;
            }
        }
        for (class, counts) in by_name {
            for state in DeviceState::ALL {
                let count = counts.get(&state).copied().unwrap_or(0);
                metrics::gauge!(JOB_DEVICES, "state" => state.name(), "class" => class.clone()).set(count as f64);
            }
        }
    }

    /// Publishes the use of devices since the coordinator's start.
    pub(crate) fn device_use(done: Activity) {
        metrics::counter!(DEVICE_BUSY).absolute(done.busy_ms);
        metrics::counter!(DEVICE_BYTES, "direction" => "in").absolute(done.bytes_in);
        metrics::counter!(DEVICE_BYTES, "direction" => "out").absolute(done.bytes_out);
    }

    /// Publishes the gauges of nodes and sessions.
    pub(crate) fn gauges(&mut self, cluster: &Cluster) {
        let up = cluster.nodes_up();
        metrics::gauge!(NODES_UP).set(up as f64);
        for (kind, name) in [(DeviceKind::CPU, "cpu"), (DeviceKind::CUDA, "gpu")] {
            metrics::gauge!(DEVICES, "kind" => name).set(cluster.devices_up(kind) as f64);
        }
        metrics::gauge!(SESSIONS).set(cluster.session_count() as f64);
        if up < self.up {
            metrics::counter!(NODES_LOST).increment((self.up - up) as u64);
        }
        self.up = up;
    }
}
