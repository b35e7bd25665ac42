//! Programs that drive this node's devices themselves. They have no executor, and their devices are free only once they
//! stop driving them.

use accord_types::{SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet};

/// Most programs that drive devices at one time.
pub const DRIVERS_MAX: usize = 1_024;
/// Most lanes of one session at one time: after the agent's restart a program opens another lane before it closes the first.
pub(super) const DRIVERS_OF_SESSION_MAX: usize = 4;

/// A program that drives devices of its own node. Its number is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DriverId(pub u64);

/// A process of this machine, by its number and its start in kernel ticks since boot, which distinguishes processes
/// with the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId {
    /// Its number.
    pub pid: i32,
    /// Its start.
    pub started: u64,
}

/// A program that drives devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Driver {
    /// Its session.
    pub session: SessionId,
    /// The key of the session's job.
    pub job: Option<SessionKey>,
    /// Its process, where the kernel attests it.
    pub process: Option<ProcessId>,
    /// Whether the program has a lane, which ends when it drives no device any more. Without a lane, as after the
    /// agent's restart, only the end of the process shows that.
    pub has_lane: bool,
}

/// The programs that drive devices here.
#[derive(Debug, Default)]
pub(super) struct Drivers {
    known: BTreeMap<DriverId, Driver>,
    made: u64,
}

impl Drivers {
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (DriverId, &Driver)> {
        self.known.iter().map(|(id, driver)| (*id, driver))
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.known.values().any(|driver| driver.session == session)
    }

    /// Returns the sessions of a job whose programs drive devices.
    pub(super) fn of_job(&self, job: SessionKey) -> BTreeSet<SessionId> {
        self.known.values().filter(|driver| driver.job == Some(job)).map(|driver| driver.session).collect()
    }

    pub(super) fn has_job(&self, job: SessionKey) -> bool {
        self.known.values().any(|driver| driver.job == Some(job))
    }

    /// Adds a program. One that reconnects with a lane replaces its entry without a lane. Returns `None` if there are
    /// too many.
    pub(super) fn add(&mut self, driver: Driver) -> Option<DriverId> {
        let is_same = |kept: &Driver| {
            !kept.has_lane
                && kept.session == driver.session
                && kept.process.is_none_or(|_| kept.process == driver.process)
        };
        self.known.retain(|_, kept| !is_same(kept));
        let of_session = self.known.values().filter(|kept| kept.session == driver.session).count();
        if self.known.len() >= DRIVERS_MAX || of_session >= DRIVERS_OF_SESSION_MAX {
            return None;
        }
        self.made += 1;
        self.known.insert(DriverId(self.made), driver);
        Some(DriverId(self.made))
    }

    pub(super) fn remove(&mut self, id: DriverId) -> bool {
        self.known.remove(&id).is_some()
    }

    /// Removes programs of an ended session that have neither a lane nor a known process, because their end could not
    /// be noticed.
    pub(super) fn session_ended(&mut self, session: SessionId) {
        self.known.retain(|_, driver| driver.session != session || driver.has_lane || driver.process.is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(session: u64, pid: i32, has_lane: bool) -> Driver {
        let process = (pid > 0).then_some(ProcessId { pid, started: 1 });
        Driver { session: SessionId(session), job: Some(SessionKey([1; SessionKey::LEN])), process, has_lane }
    }

    #[test]
    fn a_program_that_comes_back_takes_the_place_of_what_was_kept_of_it() {
        let mut drivers = Drivers::default();
        drivers.add(driver(1, 7, false)).unwrap();
        drivers.add(driver(1, 8, false)).unwrap();
        drivers.add(driver(1, 7, true)).unwrap();
        assert_eq!(drivers.all().map(|(_, driver)| driver.process.unwrap().pid).collect::<Vec<_>>(), [8, 7]);
    }

    #[test]
    fn a_program_that_cannot_be_seen_is_gone_when_its_session_ends() {
        let mut drivers = Drivers::default();
        for (pid, has_lane) in [(7, true), (8, false), (0, false)] {
            drivers.add(driver(1, pid, has_lane)).unwrap();
        }
        drivers.session_ended(SessionId(1));
        assert_eq!(drivers.all().map(|(_, driver)| driver.has_lane).collect::<Vec<_>>(), [true, false]);
        assert!(drivers.has(SessionId(1)) && drivers.has_job(SessionKey([1; SessionKey::LEN])));
    }

    #[test]
    fn program_beyond_the_limit_is_refused() {
        let mut drivers = Drivers::default();
        for session in 0..DRIVERS_MAX as u64 {
            drivers.add(driver(session, 7, true)).unwrap();
        }
        assert_eq!(drivers.add(driver(u64::MAX, 7, true)), None);
    }

    #[test]
    fn one_session_does_not_take_all_places() {
        let mut drivers = Drivers::default();
        let taken = (0..DRIVERS_MAX).filter(|_| drivers.add(driver(1, 7, true)).is_some()).count();
        assert_eq!(taken, DRIVERS_OF_SESSION_MAX);
        assert!(drivers.add(driver(2, 7, true)).is_some());
    }
}
