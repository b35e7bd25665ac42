//! The use of devices by open sessions, and by ended sessions whose last reports are outstanding.

use super::saved_uses::{ReportRecord, UseRecord, restored, restored_report, saved, saved_report};
use super::session::{Origin, Session};
use super::session_uses::{Charged, Ended, Reporter, SessionUses};
use super::time::Millis;
use accord_scheduler::NotingMap;
use accord_scheduler::ledger::Activity;
use accord_types::{DeviceFault, DeviceId, DeviceUse, NodeId, SessionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most ended sessions that may still get a last report.
const ENDED_MAX: usize = 4_096;

/// A session, one of its devices, and the reporter of its use.
pub(super) type ReportKey = (SessionId, DeviceId, Reporter);

/// The use of devices by open sessions, and by ended ones with outstanding reports.
#[derive(Debug, Default)]
pub(super) struct DeviceUses {
    /// The sessions. The map notes changes except those of reports.
    pub(super) sessions: NotingMap<SessionId, SessionUses>,
    /// Reports that have changed since they were last saved; `None` if changes are not noted.
    changed_reports: Option<BTreeSet<ReportKey>>,
    /// Ended sessions in the order of their ends.
    ended: VecDeque<SessionId>,
    /// Restored sessions that neither agents nor programs have named yet.
    pub(super) unnamed: BTreeSet<SessionId>,
    /// The use by all sessions since the coordinator's start.
    pub(super) done: Activity,
    /// Whether uses of earlier sessions were restored. Then a session without a restored use has reported none.
    is_kept: bool,
}

impl DeviceUses {
    /// Returns the entry of an open session, which is created if necessary. `started_unix_ms` is [`Millis`] 0.
    pub(super) fn open(
        &mut self,
        session: &Session,
        started_unix_ms: u64,
        charged: impl FnOnce() -> Charged,
    ) -> Option<&mut SessionUses> {
        self.unnamed.remove(&session.id);
        if !self.sessions.contains_key(&session.id) {
            let opened = Millis(session.opened_unix_ms.saturating_sub(started_unix_ms)).min(session.since);
            let uses = SessionUses {
                charged: charged(),
                since: if self.is_kept { opened } else { session.since },
                is_earlier: session.origin != Origin::Own && !self.is_kept,
                uses_some: false,
                reports: BTreeMap::new(),
                ended: None,
            };
            self.sessions.insert(session.id, uses);
        }
        // A session that was given up may be adopted again.
        if self.sessions.get(&session.id).is_some_and(|uses| uses.ended.is_some()) {
            self.sessions.get_mut(&session.id)?.ended = None;
        }
        self.sessions.get_mut_unnoted(&session.id)
    }

    /// Counts a report of a session like [`SessionUses::count`]. Also returns the charged party.
    pub(super) fn count(
        &mut self,
        now: Millis,
        id: SessionId,
        key: (DeviceId, Reporter),
        used: DeviceUse,
    ) -> Option<(Charged, Activity, bool)> {
        let uses = self.sessions.get_mut_unnoted(&id)?;
        let (activity, is_unknown) = uses.count(now, key, used);
        self.done.add(activity);
        if let Some(changed) = &mut self.changed_reports {
            changed.insert((id, key.0, key.1));
        }
        Some((uses.charged.clone(), activity, is_unknown))
    }

    /// Returns the reported fault of a device.
    pub(super) fn fault(&self, id: SessionId, key: (DeviceId, Reporter)) -> Option<DeviceFault> {
        self.sessions.get(&id)?.reports.get(&key)?.counted.fault
    }

    /// Drops a session.
    pub(super) fn remove(&mut self, id: SessionId) -> Option<SessionUses> {
        let uses = self.sessions.remove(&id)?;
        if let Some(changed) = &mut self.changed_reports {
            changed.extend(uses.reports.keys().map(|(device, by)| (id, *device, *by)));
        }
        Some(uses)
    }

    /// Restores saved uses, and begins to note changes.
    pub(super) fn restore(&mut self, records: Vec<UseRecord>, reports: Vec<ReportRecord>) {
        let mut ended = Vec::new();
        for record in records {
            let (id, uses, has_ended) = restored(record);
            self.sessions.insert(id, uses);
            self.unnamed.insert(id);
            ended.extend(has_ended.then_some(id));
        }
        for record in reports {
            let (id, key, reported) = restored_report(record);
            if let Some(uses) = self.sessions.get_mut(&id) {
                uses.reports.insert(key, reported);
            }
        }
        for id in ended {
            // There are as many ended sessions as before, so that none has to be dropped.
            self.end_reported(id);
            self.unnamed.remove(&id);
        }
        self.is_kept = true;
        self.sessions.note_changes();
        self.changed_reports.get_or_insert_default();
    }

    /// Returns restored sessions of programs without a request, with their reported devices.
    pub(super) fn unnamed_of_users(&self) -> BTreeSet<(SessionId, DeviceId)> {
        let known = self.unnamed.iter().filter_map(|id| Some((*id, self.sessions.get(id)?)));
        let shared = known.filter(|(_, uses)| matches!(uses.charged, Charged::User(_)));
        shared.flat_map(|(id, uses)| uses.reports.keys().map(move |(device, _)| (id, *device))).collect()
    }

    /// Returns the account of a session that is not open and, by the records, has not ended.
    pub(super) fn recorded(&self, id: SessionId) -> Option<&Charged> {
        self.sessions.get(&id).filter(|uses| uses.ended.is_none()).map(|uses| &uses.charged)
    }

    /// Ends a session whose devices are known from its reports only. Returns as [`Self::end`].
    pub(super) fn end_reported(&mut self, id: SessionId) -> Option<SessionId> {
        let mut nodes = BTreeMap::<NodeId, Vec<u32>>::new();
        for (device, _) in self.sessions.get(&id).into_iter().flat_map(|uses| uses.reports.keys()) {
            nodes.entry(device.node).or_default().push(device.ordinal);
        }
        self.end(id, Ended { nodes, executors: BTreeSet::new() })
    }

    /// Returns the sessions and the reports that may have changed since the last call.
    pub(super) fn take_changed(&mut self) -> (BTreeSet<SessionId>, BTreeSet<ReportKey>) {
        let reports = self.changed_reports.as_mut().map(std::mem::take).unwrap_or_default();
        (self.sessions.take_changed(), reports)
    }

    /// Returns all sessions with a use, and all their reports.
    pub(super) fn all(&self) -> (BTreeSet<SessionId>, BTreeSet<ReportKey>) {
        let reports = self.sessions.iter().flat_map(|(id, uses)| {
            let keys = uses.reports.keys();
            keys.map(|(device, by)| (*id, *device, *by))
        });
        (self.sessions.keys().copied().collect(), reports.collect())
    }

    /// Returns the record of a session's use, without its reports.
    pub(super) fn saved(&self, id: SessionId) -> Option<UseRecord> {
        self.sessions.get(&id).map(|uses| saved(id, uses))
    }

    /// Returns the record of a report.
    pub(super) fn saved_report(&self, (id, device, by): ReportKey) -> Option<ReportRecord> {
        let reported = self.sessions.get(&id)?.reports.get(&(device, by))?;
        Some(saved_report(id, (device, by), *reported))
    }

    /// Keeps an ended session for the last reports of its agents. Returns a session that must be dropped to make room.
    pub(super) fn end(&mut self, id: SessionId, ended: Ended) -> Option<SessionId> {
        self.sessions.get_mut(&id)?.ended = Some(ended);
        self.ended.push_back(id);
        let oldest = if self.ended.len() > ENDED_MAX { self.ended.pop_front() } else { None };
        oldest.filter(|oldest| self.sessions.get(oldest).is_some_and(|uses| uses.ended.is_some()))
    }

    /// Returns a session's use of each device, as counted by this coordinator and earlier ones with the same state. If
    /// a program and an agent report the same device, both count.
    pub(super) fn of(&self, session: SessionId) -> impl Iterator<Item = (DeviceId, DeviceUse)> + '_ {
        let reports = self.sessions.get(&session).into_iter().flat_map(|uses| &uses.reports);
        reports.map(|((device, _), reported)| (*device, reported.known()))
    }

    /// Whether a session uses devices but has not reported any use yet.
    pub(super) fn is_silent(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|uses| uses.uses_some && uses.reports.is_empty())
    }
}
