//! Grants of sessions: their owners, limits and ends, as the coordinator announced them.

use accord_types::{SessionGrant, SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Most announced sessions.
pub const GRANTS_MAX: usize = 65_536;
/// Most ended sessions whose late connections are refused at once.
const ENDED_MAX: usize = 4_096;

/// Grants that are in force.
#[derive(Debug, Default)]
pub(super) struct Grants {
    known: BTreeMap<SessionId, GrantEntry>,
    /// The ends of known sessions, in order.
    ends: BTreeSet<(Duration, SessionId)>,
    ended: VecDeque<SessionId>,
}

#[derive(Debug)]
struct GrantEntry {
    grant: SessionGrant,
    /// `None` if it lasts until it is withdrawn, or its time stands still.
    end: Option<Duration>,
    /// The time that is left of a grant whose job is suspended.
    left: Option<Duration>,
    /// The reason why the last executor ended; empty after an orderly end, or without one.
    executors_end: String,
}

impl Grants {
    /// Records an announced session, or further devices for it. The first announced key counts, and the earliest end. A
    /// restarted coordinator knows its predecessor's sessions only from agents, and the time left that it announces was
    /// in flight for a while. At the limit, a session that is not `in_use` is dropped.
    pub(super) fn announce(&mut self, now: Duration, grant: SessionGrant, in_use: impl Fn(SessionId) -> bool) {
        let end = grant.ends_in_ms.and_then(|left| now.checked_add(Duration::from_millis(left)));
        if let Some(known) = self.known.get_mut(&grant.session) {
            if known.grant.key != grant.key {
                tracing::warn!("session {} was announced again with another key; the first one counts", grant.session);
                return;
            }
            let ordinals = grant.ordinals.iter().chain(&known.grant.ordinals);
            known.grant.ordinals = ordinals.copied().collect::<BTreeSet<u32>>().into_iter().collect();
            let earliest = [known.end, end].into_iter().flatten().min();
            if known.left.is_none() && earliest != known.end {
                self.ends.extend(earliest.map(|end| (end, grant.session)));
                known.end.map(|end| self.ends.remove(&(end, grant.session)));
                known.end = earliest;
            }
            return;
        }
        if self.ended.contains(&grant.session) {
            return;
        }
        if self.known.len() >= GRANTS_MAX {
            let idle = self.known.keys().copied().find(|session| !in_use(*session));
            if let Some(session) = idle {
                self.forget(session);
            }
        }
        self.ends.extend(end.map(|end| (end, grant.session)));
        self.known.insert(grant.session, GrantEntry { grant, end, left: None, executors_end: String::new() });
    }

    /// Records that a session has ended.
    pub(super) fn withdraw(&mut self, session: SessionId) {
        self.forget(session);
        if !self.ended.contains(&session) {
            if self.ended.len() >= ENDED_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back(session);
        }
    }

    /// Allows an ended session to be announced again.
    pub(super) fn may_return(&mut self, session: SessionId) {
        self.ended.retain(|ended| *ended != session);
    }

    fn forget(&mut self, session: SessionId) {
        if let Some(end) = self.known.remove(&session).and_then(|known| known.end) {
            self.ends.remove(&(end, session));
        }
    }

    /// Returns the grant in force, with the time that it has left.
    pub(super) fn find(&self, now: Duration, session: SessionId) -> Option<SessionGrant> {
        let GrantEntry { grant, end, .. } = self.known.get(&session)?;
        let left = |end: Duration| end.checked_sub(now).filter(|left| !left.is_zero());
        let ends_in_ms = match end {
            Some(end) => Some(u64::try_from(left(*end)?.as_millis()).unwrap_or(u64::MAX)),
            None => None,
        };
        Some(SessionGrant { ends_in_ms, ..grant.clone() })
    }

    /// Whether a session has been announced and not withdrawn.
    pub(super) fn knows(&self, session: SessionId) -> bool {
        self.known.contains_key(&session)
    }

    /// Returns the sessions that have been announced and not withdrawn.
    pub(super) fn known(&self) -> impl Iterator<Item = SessionId> {
        self.known.keys().copied()
    }

    /// Returns the sessions of a job.
    pub(super) fn of_job(&self, job: SessionKey) -> Vec<SessionId> {
        let is_of_job = |known: &GrantEntry| known.grant.job == Some(job);
        self.known.iter().filter(|(_, known)| is_of_job(known)).map(|(session, _)| *session).collect()
    }

    /// Makes the time of a job's sessions stand still, or go on.
    pub(super) fn stand_still(&mut self, now: Duration, job: SessionKey, still: bool) {
        for (session, known) in self.known.iter_mut().filter(|(_, known)| known.grant.job == Some(job)) {
            if still {
                let Some(end) = known.end.take() else { continue };
                self.ends.remove(&(end, *session));
                known.left = Some(end.saturating_sub(now));
            } else if let Some(left) = known.left.take() {
                known.end = now.checked_add(left);
                self.ends.extend(known.end.map(|end| (end, *session)));
            }
        }
    }

    /// Records that an executor of the session has ended; `why` is empty for an orderly end.
    pub(super) fn note_end(&mut self, session: SessionId, why: &str) {
        if let Some(known) = self.known.get_mut(&session) {
            why.clone_into(&mut known.executors_end);
        }
    }

    /// Returns why the session's last executor ended, unless that was orderly.
    pub(super) fn why_ended(&self, session: SessionId) -> Option<&str> {
        self.known.get(&session).map(|known| &*known.executors_end).filter(|why| !why.is_empty())
    }

    /// Whether no announced session is open.
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// # Errors
    /// Returns an error if a bound is exceeded, or the order of ends is wrong.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        let ends = self.known.iter().filter_map(|(session, known)| Some((known.end?, *session)));
        if !ends.collect::<BTreeSet<_>>().eq(&self.ends) {
            return Err(format!("{:?} are to end, and kept is {:?}", self.known, self.ends));
        }
        let counts = (self.known.len(), self.ended.len());
        let is_bounded = counts.0 <= GRANTS_MAX && counts.1 <= ENDED_MAX;
        is_bounded.then_some(()).ok_or_else(|| format!("grants and ended sessions: {counts:?}"))
    }

    /// Whether the session was withdrawn.
    pub(super) fn has_ended(&self, session: SessionId) -> bool {
        self.ended.contains(&session)
    }

    /// Returns the session that ends next, and when.
    pub(super) fn next_end(&self) -> Option<(Duration, SessionId)> {
        self.ends.first().copied()
    }
}

#[cfg(test)]
#[path = "../../tests/granted/mod.rs"]
mod granted;

#[cfg(test)]
mod tests {
    use super::granted::grant;
    use super::*;

    const A: SessionId = SessionId(1);
    const OTHER_KEY: SessionKey = SessionKey([2; SessionKey::LEN]);

    fn none(_: SessionId) -> bool {
        false
    }

    #[test]
    fn a_session_that_was_withdrawn_does_not_come_back() {
        let (now, mut grants) = (Duration::ZERO, Grants::default());
        grants.announce(now, grant(A, None), none);
        assert!(grants.find(now, A).is_some() && grants.next_end().is_none());
        grants.withdraw(A);
        assert!(grants.find(now, A).is_none() && grants.has_ended(A));
        grants.announce(now, grant(A, None), none);
        assert!(grants.find(now, A).is_none());
    }

    #[test]
    fn the_first_key_of_a_session_counts() {
        let (now, mut grants) = (Duration::ZERO, Grants::default());
        grants.announce(now, grant(A, None), none);
        grants.announce(now, SessionGrant { key: OTHER_KEY, user: "mallory".to_owned(), ..grant(A, Some(1)) }, none);
        assert_eq!(grants.find(now, A), Some(grant(A, None)));
    }

    #[test]
    fn a_session_may_get_further_devices() {
        let (now, mut grants) = (Duration::ZERO, Grants::default());
        let with = |ordinals: &[u32]| SessionGrant { ordinals: ordinals.to_vec(), ..grant(A, None) };
        grants.announce(now, with(&[1, 3]), none);
        grants.announce(now, with(&[0, 1]), none);
        assert_eq!(grants.find(now, A), Some(with(&[0, 1, 3])));
        grants.announce(now, SessionGrant { key: OTHER_KEY, ..with(&[7]) }, none);
        assert_eq!(grants.find(now, A), Some(with(&[0, 1, 3])));
    }

    #[test]
    fn a_session_whose_time_is_over_opens_nothing() {
        let (now, mut grants) = (Duration::ZERO, Grants::default());
        grants.announce(now, grant(A, Some(500)), none);
        let later = now + Duration::from_millis(200);
        assert_eq!(grants.find(later, A).unwrap().ends_in_ms, Some(300));
        assert_eq!(grants.next_end(), Some((now + Duration::from_millis(500), A)));
        assert!(grants.find(now + Duration::from_millis(500), A).is_none());
        // A coordinator that reconnects announces the same end.
        grants.announce(later, grant(A, Some(300)), none);
        assert_eq!(grants.next_end(), Some((now + Duration::from_millis(500), A)));
        // Each announcement arrives late; that must not extend the session.
        grants.announce(later + Duration::from_millis(250), grant(A, Some(300)), none);
        assert_eq!(grants.next_end(), Some((now + Duration::from_millis(500), A)));
    }

    #[test]
    fn the_time_of_a_suspended_job_stands_still() {
        let (second, mut grants) = (Duration::from_secs(1), Grants::default());
        let job = SessionKey([9; SessionKey::LEN]);
        let of_job = |ends| SessionGrant { job: Some(job), ..grant(A, Some(ends)) };
        grants.announce(Duration::ZERO, of_job(5_000), none);
        grants.stand_still(second, job, true);
        // A coordinator that reconnects announces the end that it knows.
        grants.announce(second * 2, of_job(3_000), none);
        assert_eq!((grants.next_end(), grants.check_bounds()), (None, Ok(())));
        assert!(grants.find(second * 100, A).is_some());
        grants.stand_still(second * 100, job, false);
        assert_eq!((grants.next_end(), grants.check_bounds()), (Some((second * 104, A)), Ok(())));
    }

    #[test]
    fn session_beyond_the_limit_replaces_an_unused_one() {
        let (now, mut grants) = (Duration::ZERO, Grants::default());
        let sessions = u64::try_from(GRANTS_MAX).unwrap() + 1;
        for session in 1..=sessions {
            grants.announce(now, grant(SessionId(session), None), |session| session == A);
        }
        assert_eq!(grants.known.len(), GRANTS_MAX);
        let is_known = |grants: &Grants, session| grants.find(now, SessionId(session)).is_some();
        assert!(is_known(&grants, 1) && !is_known(&grants, 2) && is_known(&grants, sessions));
    }
}
