//! The use of devices by one session, as its program and agents report it.

use super::session::Session;
use super::time::Millis;
use accord_scheduler::JobId;
use accord_scheduler::ledger::Activity;
use accord_types::{DeviceId, DeviceUse, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// A device may be reported busy for so much longer than the session lasts so far, in milliseconds: samples round up.
const SLACK_MS: u64 = 2_000;
/// Most bytes that are believed to be copied in a millisecond, in one direction: more than any device's memory carries.
const BYTES_A_MS_MAX: u64 = 16 << 30;
/// The use of a device by a session that has not reported any.
const NOTHING: DeviceUse = DeviceUse { busy_ms: Some(0), bytes_in: 0, bytes_out: 0, held: 0 };

/// The sender of a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reporter {
    /// The program, for devices that it drives itself.
    Program,
    /// The agent of the device's node, for the session's executor.
    Agent,
}

/// The account of a session's use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Charged {
    /// The job.
    Job(JobId),
    /// The user of a program that asked for nothing.
    User(String),
}

/// The use of one device by one session, as one sender reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reported {
    /// The first report, if an earlier coordinator has charged it.
    pub(super) base: DeviceUse,
    /// The use that is counted so far, `base` included.
    pub(super) counted: DeviceUse,
}

impl Reported {
    /// Returns the use since the first report if an earlier coordinator has charged that, else all of it.
    pub(super) fn known(&self) -> DeviceUse {
        let Self { base, counted } = self;
        DeviceUse {
            busy_ms: counted.busy_ms.zip(base.busy_ms).map(|(counted, base)| counted.saturating_sub(base)),
            bytes_in: counted.bytes_in.saturating_sub(base.bytes_in),
            bytes_out: counted.bytes_out.saturating_sub(base.bytes_out),
            held: counted.held,
        }
    }
}

/// The use of devices by one session.
#[derive(Debug)]
pub(super) struct SessionUses {
    pub(super) charged: Charged,
    pub(super) since: Millis,
    /// An earlier coordinator has charged what the first reports say.
    pub(super) is_earlier: bool,
    /// The program has announced that it uses a device.
    pub(super) uses_some: bool,
    pub(super) reports: BTreeMap<(DeviceId, Reporter), Reported>,
    /// Set once the session has ended.
    pub(super) ended: Option<Ended>,
}

/// The parts of an ended session that its last reports concern.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its devices.
    pub(super) nodes: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes with an executor that may report.
    pub(super) executors: BTreeSet<NodeId>,
}

impl SessionUses {
    /// Returns whether a device is of the session, which is `open` or has ended.
    pub(super) fn has(&self, device: DeviceId, open: Option<&Session>) -> bool {
        let nodes = self.ended.as_ref().map(|ended| &ended.nodes).or(open.map(|session| &session.nodes));
        nodes.and_then(|nodes| nodes.get(&device.node)).is_some_and(|ordinals| ordinals.contains(&device.ordinal))
    }

    /// Counts a report. Returns what was done since the last one, and whether the busy time is unknown.
    pub(super) fn count(&mut self, now: Millis, key: (DeviceId, Reporter), used: DeviceUse) -> (Activity, bool) {
        let base = if self.is_earlier { used } else { NOTHING };
        let reported = self.reports.entry(key).or_insert(Reported { base, counted: base });
        let (before, base) = (reported.counted, reported.base);
        let time = now.since(self.since).saturating_add(SLACK_MS);
        // Counters neither fall nor run ahead of what is possible. The rest of an exaggerated report counts as time passes.
        let limited = |used: u64, before: u64, base: u64, a_ms: u64| {
            used.min(base.saturating_add(time.saturating_mul(a_ms))).max(before)
        };
        let busy_ms = used.busy_ms.zip(before.busy_ms);
        let busy_ms = busy_ms.map(|(used, before)| limited(used, before, base.busy_ms.unwrap_or(0), 1));
        let counted = DeviceUse {
            busy_ms,
            bytes_in: limited(used.bytes_in, before.bytes_in, base.bytes_in, BYTES_A_MS_MAX),
            bytes_out: limited(used.bytes_out, before.bytes_out, base.bytes_out, BYTES_A_MS_MAX),
            held: used.held,
        };
        reported.counted = counted;
        let activity = Activity {
            busy_ms: busy_ms.zip(before.busy_ms).map_or(0, |(busy, before)| busy - before),
            bytes_in: counted.bytes_in - before.bytes_in,
            bytes_out: counted.bytes_out - before.bytes_out,
        };
        (activity, busy_ms.is_none())
    }
}
