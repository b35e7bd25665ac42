//! The records of devices' use by sessions. After a restart, reports count from the last recorded ones.

use super::session_uses::{Charged, RecentUse, ReportedUse, Reporter, SessionUses};
use super::time::Millis;
use accord_scheduler::JobId;
use accord_scheduler::saved::SavedDevice;
use accord_types::{DeviceFault, DeviceId, DeviceUse, SessionId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The use of devices by one session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct UseRecord {
    session: u64,
    charged: SavedCharged,
    since: u64,
    is_earlier: bool,
    uses_some: bool,
    has_ended: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum SavedCharged {
    Job(u64),
    User(String),
}

/// The use of a device by a session, as one reporter has sent it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct ReportRecord {
    session: u64,
    device: SavedDevice,
    by_agent: bool,
    base: SavedUse,
    counted: SavedUse,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct SavedUse {
    busy_ms: Option<u64>,
    bytes_in: u64,
    bytes_out: u64,
    held: u64,
    /// The fault's number in the protocol; 0 for none.
    #[serde(default)]
    fault: u32,
}

impl From<DeviceUse> for SavedUse {
    fn from(used: DeviceUse) -> Self {
        let DeviceUse { busy_ms, bytes_in, bytes_out, held, fault } = used;
        Self { busy_ms, bytes_in, bytes_out, held, fault: fault.map_or(0, DeviceFault::to_wire) }
    }
}

impl From<SavedUse> for DeviceUse {
    fn from(saved: SavedUse) -> Self {
        let SavedUse { busy_ms, bytes_in, bytes_out, held, fault } = saved;
        Self { busy_ms, bytes_in, bytes_out, held, fault: DeviceFault::from_wire(fault) }
    }
}

/// Returns the record of a session's use, without its reports.
pub(super) fn saved(session: SessionId, uses: &SessionUses) -> UseRecord {
    UseRecord {
        session: session.0,
        charged: match &uses.charged {
            Charged::Job(job) => SavedCharged::Job(job.0),
            Charged::User(user) => SavedCharged::User(user.clone()),
        },
        since: uses.since.0,
        is_earlier: uses.is_earlier,
        uses_some: uses.uses_some,
        has_ended: uses.ended.is_some(),
    }
}

/// Returns a session's use from its record, and whether the session has ended. Until agents or the program name the
/// session, its devices are those of its reports.
pub(super) fn restored(record: UseRecord) -> (SessionId, SessionUses, bool) {
    let uses = SessionUses {
        charged: match record.charged {
            SavedCharged::Job(job) => Charged::Job(JobId(job)),
            SavedCharged::User(user) => Charged::User(user),
        },
        since: Millis(record.since),
        is_earlier: record.is_earlier,
        uses_some: record.uses_some,
        reports: BTreeMap::new(),
        ended: None,
    };
    (SessionId(record.session), uses, record.has_ended)
}

/// Returns the record of a report.
pub(super) fn saved_report(
    session: SessionId,
    (device, by): (DeviceId, Reporter),
    reported: ReportedUse,
) -> ReportRecord {
    ReportRecord {
        session: session.0,
        device: device.into(),
        by_agent: by == Reporter::Agent,
        base: reported.base.into(),
        counted: reported.counted.into(),
    }
}

/// Returns a report from its record.
pub(super) fn restored_report(record: ReportRecord) -> (SessionId, (DeviceId, Reporter), ReportedUse) {
    let by = if record.by_agent { Reporter::Agent } else { Reporter::Program };
    let reported = ReportedUse { base: record.base.into(), counted: record.counted.into(), pace: RecentUse::default() };
    (SessionId(record.session), (record.device.into(), by), reported)
}
