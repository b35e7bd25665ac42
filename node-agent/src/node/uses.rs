//! The sessions' use of the node's devices, as executors report it, until it is sent to the coordinator.

use accord_proto::bounds::NODE_DEVICES_MAX;
use accord_types::{DeviceUse, SessionId};
use std::collections::{BTreeMap, BTreeSet};

/// Most sessions whose use is kept: those with an executor, and ended ones that are not reported yet.
const SESSIONS_MAX: usize = 4_096;

/// The use of one device by one session.
#[derive(Debug, Default)]
struct Counted {
    /// The use by its ended executors.
    before: DeviceUse,
    /// The use by its executor; `None` before the executor's first report.
    own: Option<DeviceUse>,
    reported: Option<DeviceUse>,
}

impl Counted {
    fn all(&self) -> DeviceUse {
        self.own.map_or(DeviceUse { held: 0, ..self.before }, |own| own.after(self.before))
    }
}

/// The use of the node's devices, by session.
#[derive(Debug, Default)]
pub(super) struct Uses {
    sessions: BTreeMap<SessionId, BTreeMap<u32, Counted>>,
    /// Sessions whose executor has ended since the coordinator was last informed of such ends.
    ended: BTreeSet<SessionId>,
}

impl Uses {
    /// Keeps reports of a session's executor, by the devices' ordinals.
    pub(super) fn take(&mut self, session: SessionId, reports: &[(u32, DeviceUse)]) {
        if self.sessions.len() >= SESSIONS_MAX && !self.sessions.contains_key(&session) {
            self.sessions.pop_first();
        }
        let devices = self.sessions.entry(session).or_default();
        for (ordinal, used) in reports {
            // Regions may make their executor write anything.
            if usize::try_from(*ordinal).is_ok_and(|ordinal| ordinal < NODE_DEVICES_MAX) {
                let counted = devices.entry(*ordinal).or_insert_with(|| Counted {
                    before: DeviceUse { busy_ms: Some(0), ..DeviceUse::default() },
                    ..Counted::default()
                });
                counted.own = Some(*used);
            }
        }
    }

    /// Adds the use by the ended executor, because the next one's counters begin at zero.
    pub(super) fn executor_ended(&mut self, session: SessionId) {
        for counted in self.sessions.get_mut(&session).into_iter().flat_map(BTreeMap::values_mut) {
            counted.before = counted.all();
            counted.own = None;
        }
        if self.ended.len() >= SESSIONS_MAX {
            self.ended.pop_first();
        }
        self.ended.insert(session);
    }

    /// Whether an executor has ended since [`Self::take_ended`].
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Takes the sessions whose executor has ended since the last call.
    pub(super) fn take_ended(&mut self) -> BTreeSet<SessionId> {
        std::mem::take(&mut self.ended)
    }

    /// Returns the changes since the last report to the coordinator. Drops sessions that are no longer `known`.
    pub(super) fn changed(&mut self, known: impl Fn(SessionId) -> bool) -> Vec<(SessionId, u32, DeviceUse)> {
        let mut changed = Vec::new();
        for (session, devices) in &mut self.sessions {
            for (ordinal, counted) in devices {
                let all = counted.all();
                if counted.reported != Some(all) {
                    counted.reported = Some(all);
                    changed.push((*session, *ordinal, all));
                }
            }
        }
        self.sessions.retain(|session, _| known(*session));
        changed
    }

    /// Makes the next report complete, for another coordinator.
    pub(super) fn report_again(&mut self) {
        let counted = self.sessions.values_mut().flat_map(BTreeMap::values_mut);
        counted.for_each(|counted| counted.reported = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(5);

    fn used(busy_ms: u64, held: u64) -> DeviceUse {
        DeviceUse { busy_ms: Some(busy_ms), bytes_in: busy_ms, bytes_out: 0, held, fault: None }
    }

    #[test]
    fn counters_continue_over_a_session_s_executors_and_each_change_is_reported_once() {
        let mut uses = Uses::default();
        let changed = |uses: &mut Uses| uses.changed(|_| true).into_iter().map(|(.., used)| used).collect::<Vec<_>>();
        uses.take(SESSION, &[(0, used(10, 64)), (1, used(0, 0)), (u32::MAX, used(9, 9))]);
        assert_eq!(changed(&mut uses), [used(10, 64), used(0, 0)]);
        uses.take(SESSION, &[(0, used(10, 64))]);
        assert_eq!(changed(&mut uses), []);
        uses.executor_ended(SESSION);
        assert_eq!(changed(&mut uses), [used(10, 0)]);
        uses.take(SESSION, &[(0, used(7, 32))]);
        assert_eq!(changed(&mut uses), [used(17, 32)]);
        uses.report_again();
        assert_eq!(changed(&mut uses), [used(17, 32), used(0, 0)]);
    }

    #[test]
    fn ended_sessions_are_reported_once_and_the_number_of_sessions_is_bounded() {
        let mut uses = Uses::default();
        uses.take(SESSION, &[(0, used(10, 0))]);
        assert_eq!(uses.changed(|_| false).len(), 1);
        assert!(uses.sessions.is_empty());
        for session in 0..2 * SESSIONS_MAX as u64 {
            uses.take(SessionId(session), &[(0, used(1, 0))]);
        }
        assert_eq!(uses.sessions.len(), SESSIONS_MAX);
    }
}
