//! The use of devices by a session, as its program and agents report it.

use super::session::Session;
use super::time::Millis;
use accord_scheduler::JobId;
use accord_scheduler::ledger::Activity;
use accord_types::{DeviceFault, DeviceId, DeviceUse, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Excess of busy time over the session's duration that is accepted, in milliseconds: samples round up.
const SLACK_MS: u64 = 2_000;
/// Most bytes in one direction that are accepted per millisecond, more than any device's memory moves.
const BYTES_A_MS_MAX: u64 = 16 << 30;
/// The use of a device without a report.
const NOTHING: DeviceUse = DeviceUse { busy_ms: Some(0), bytes_in: 0, bytes_out: 0, held: 0, fault: None };

/// Interval of reports while anything changes, in milliseconds.
const REPORTED_EVERY_MS: u64 = 1_000;
/// Least time over which utilization is computed.
const SPAN_MS: u64 = 800;
/// Time without a report after which a device counts as idle.
const SILENT_MS: u64 = 2_500;

/// The sender of a report, in the order of reliability.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Reporter {
    /// The program, for devices that it drives itself.
    Program,
    /// The agent of the device's node, for the session's executor.
    Agent,
}

/// The charged party for a session's use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Charged {
    /// The job.
    Job(JobId),
    /// The user of a program without a request.
    User(String),
}

/// The use of a device by a session, as one reporter has sent it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReportedUse {
    /// The first report if an earlier coordinator has charged it, else no use.
    pub(super) base: DeviceUse,
    /// The use that has been counted, including `base`.
    pub(super) counted: DeviceUse,
    /// The recent utilization.
    pub(super) pace: RecentUse,
}

/// The recent utilization of a device, from reports once a second while anything changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RecentUse {
    /// Time of the last report that completed a span.
    spanned: Millis,
    /// Reported busy time since then.
    busy_ms: u64,
    /// Utilization in the last span.
    percent: u32,
    /// Time of the last report.
    reported: Millis,
    /// Time of the last report of use.
    active: Option<Millis>,
}

impl RecentUse {
    /// Counts a report.
    fn count(&mut self, now: Millis, activity: Activity) {
        self.busy_ms = self.busy_ms.saturating_add(activity.busy_ms);
        self.reported = now;
        if !activity.is_none() {
            self.active = Some(now);
        }
        // After a longer pause, the reported use happened in the last interval.
        let span = now.since(self.spanned).min(REPORTED_EVERY_MS);
        if span >= SPAN_MS {
            let percent = self.busy_ms.saturating_mul(100) / span;
            self.percent = u32::try_from(percent.min(100)).unwrap_or(100);
            (self.spanned, self.busy_ms) = (now, 0);
        }
    }

    /// Returns the utilization in percent.
    pub(super) fn percent(&self, now: Millis) -> u32 {
        if now.since(self.reported) > SILENT_MS { 0 } else { self.percent }
    }

    /// Returns the time of the last report of busy time or copied bytes; `None` if there was none.
    pub(super) fn idle_since(&self) -> Option<Millis> {
        self.active
    }
}

impl ReportedUse {
    /// Returns the use since `base`.
    pub(super) fn known(&self) -> DeviceUse {
        let Self { base, counted, pace: _ } = self;
        DeviceUse {
            busy_ms: counted.busy_ms.zip(base.busy_ms).map(|(counted, base)| counted.saturating_sub(base)),
            bytes_in: counted.bytes_in.saturating_sub(base.bytes_in),
            bytes_out: counted.bytes_out.saturating_sub(base.bytes_out),
            held: counted.held,
            fault: counted.fault,
        }
    }
}

/// The use of devices by one session.
#[derive(Debug)]
pub(super) struct SessionUses {
    pub(super) charged: Charged,
    pub(super) since: Millis,
    /// Whether an earlier coordinator has charged the use in the first reports.
    pub(super) is_earlier: bool,
    /// Whether the program has announced that it uses devices.
    pub(super) uses_some: bool,
    pub(super) reports: BTreeMap<(DeviceId, Reporter), ReportedUse>,
    /// Set once the session has ended.
    pub(super) ended: Option<Ended>,
}

/// The data of an ended session that its last reports need.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its devices.
    pub(super) nodes: BTreeMap<NodeId, Vec<u32>>,
    /// Nodes whose executor may still report.
    pub(super) executors: BTreeSet<NodeId>,
}

impl SessionUses {
    /// Whether the session, `open` or ended, has a device.
    pub(super) fn has(&self, device: DeviceId, open: Option<&Session>) -> bool {
        let nodes = self.ended.as_ref().map(|ended| &ended.nodes).or(open.map(|session| &session.nodes));
        nodes.and_then(|nodes| nodes.get(&device.node)).is_some_and(|ordinals| ordinals.contains(&device.ordinal))
    }

    /// Counts a report. Returns the growth since the previous one, and whether the busy time is unknown.
    pub(super) fn count(&mut self, now: Millis, key: (DeviceId, Reporter), used: DeviceUse) -> (Activity, bool) {
        let base = if self.is_earlier { used } else { NOTHING };
        let reported =
            self.reports.entry(key).or_insert(ReportedUse { base, counted: base, pace: RecentUse::default() });
        let (before, base) = (reported.counted, reported.base);
        let time = now.since(self.since).saturating_add(SLACK_MS);
        // Counters neither fall nor exceed what is possible. The rest of an exaggerated report counts as time passes.
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
            fault: kept(before.fault, used.fault),
        };
        reported.counted = counted;
        let activity = Activity {
            busy_ms: busy_ms.zip(before.busy_ms).map_or(0, |(busy, before)| busy - before),
            bytes_in: counted.bytes_in - before.bytes_in,
            bytes_out: counted.bytes_out - before.bytes_out,
        };
        reported.pace.count(now, activity);
        (activity, busy_ms.is_none())
    }
}

/// Returns the fault to keep: the first one, unless only the second one is the device's own. So a session reports at
/// most two faults of a device.
fn kept(first: Option<DeviceFault>, second: Option<DeviceFault>) -> Option<DeviceFault> {
    let is_of_device = |fault: &DeviceFault| fault.is_of_device();
    first.filter(is_of_device).or(second.filter(is_of_device)).or(first).or(second)
}
