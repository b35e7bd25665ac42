//! Programs that drive this node's devices themselves. They have no executor, and their devices are free only once they
//! stop driving them.

use super::quota::Quota;
use accord_types::{SessionId, SessionKey};
use std::collections::{BTreeMap, BTreeSet};

/// Most programs that drive devices at one time. Users divide them as they divide executors.
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
    known: BTreeMap<DriverId, OwnedDriver>,
    made: u64,
}

/// A program with its user; empty for a program of a session whose owner is forgotten.
#[derive(Debug)]
struct OwnedDriver {
    driver: Driver,
    user: String,
}

impl Drivers {
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (DriverId, &Driver)> {
        self.known.iter().map(|(id, known)| (*id, &known.driver))
    }

    pub(super) fn has(&self, session: SessionId) -> bool {
        self.known.values().any(|known| known.driver.session == session)
    }

    /// Returns the sessions of a job whose programs drive devices.
    pub(super) fn of_job(&self, job: SessionKey) -> BTreeSet<SessionId> {
        let of_job = self.known.values().filter(|known| known.driver.job == Some(job));
        of_job.map(|known| known.driver.session).collect()
    }

    pub(super) fn has_job(&self, job: SessionKey) -> bool {
        self.known.values().any(|known| known.driver.job == Some(job))
    }

    /// Adds a program of a user. One that reconnects with a lane replaces its entry without a lane.
    ///
    /// # Errors
    /// Returns the exceeded limit, and the remedy.
    pub(super) fn add(&mut self, driver: Driver, user: &str, quota: Quota) -> Result<DriverId, (String, &'static str)> {
        let is_same = |kept: &Driver| {
            !kept.has_lane
                && kept.session == driver.session
                && kept.process.is_none_or(|_| kept.process == driver.process)
        };
        let others = || self.known.values().filter(|known| !is_same(&known.driver));
        let of_session = others().filter(|known| known.driver.session == driver.session).count();
        if others().count() >= DRIVERS_MAX || of_session >= DRIVERS_OF_SESSION_MAX {
            return Err((
                "too many programs drive its devices themselves".to_owned(),
                "try again when other programs have ended",
            ));
        }
        quota.check(user, others().filter(|known| known.user == user).count(), others().count())?;
        self.known.retain(|_, known| !is_same(&known.driver));
        self.made += 1;
        self.known.insert(DriverId(self.made), OwnedDriver { driver, user: user.to_owned() });
        Ok(DriverId(self.made))
    }

    pub(super) fn remove(&mut self, id: DriverId) -> bool {
        self.known.remove(&id).is_some()
    }

    /// Removes programs of an ended session that have neither a lane nor a known process, because their end could not
    /// be noticed.
    pub(super) fn session_ended(&mut self, session: SessionId) {
        self.known.retain(|_, OwnedDriver { driver, .. }| {
            driver.session != session || driver.has_lane || driver.process.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(session: u64, pid: i32, has_lane: bool) -> Driver {
        let process = (pid > 0).then_some(ProcessId { pid, started: 1 });
        Driver { session: SessionId(session), job: Some(SessionKey([1; SessionKey::LEN])), process, has_lane }
    }

    fn add(drivers: &mut Drivers, driver: Driver) -> Option<DriverId> {
        drivers.add(driver, "alice", Quota::of_one_user()).ok()
    }

    #[test]
    fn a_program_that_comes_back_takes_the_place_of_what_was_kept_of_it() {
        let mut drivers = Drivers::default();
        add(&mut drivers, driver(1, 7, false)).unwrap();
        add(&mut drivers, driver(1, 8, false)).unwrap();
        add(&mut drivers, driver(1, 7, true)).unwrap();
        assert_eq!(drivers.all().map(|(_, driver)| driver.process.unwrap().pid).collect::<Vec<_>>(), [8, 7]);
    }

    #[test]
    fn a_program_that_cannot_be_seen_is_gone_when_its_session_ends() {
        let mut drivers = Drivers::default();
        for (pid, has_lane) in [(7, true), (8, false), (0, false)] {
            add(&mut drivers, driver(1, pid, has_lane)).unwrap();
        }
        drivers.session_ended(SessionId(1));
        assert_eq!(drivers.all().map(|(_, driver)| driver.has_lane).collect::<Vec<_>>(), [true, false]);
        assert!(drivers.has(SessionId(1)) && drivers.has_job(SessionKey([1; SessionKey::LEN])));
    }

    #[test]
    fn program_beyond_the_limit_is_refused() {
        let mut drivers = Drivers::default();
        for session in 0..DRIVERS_MAX as u64 {
            add(&mut drivers, driver(session, 7, true)).unwrap();
        }
        assert_eq!(add(&mut drivers, driver(u64::MAX, 7, true)), None);
    }

    #[test]
    fn one_user_leaves_places_to_others() {
        let (mut drivers, quota) = (Drivers::default(), Quota::default());
        let mut taken = |user: &str, first: u64| {
            let add = |session: &u64| drivers.add(driver(*session, 7, true), user, quota).is_ok();
            (first..first + DRIVERS_MAX as u64).filter(add).count()
        };
        let (alice, bob) = (taken("alice", 0), taken("bob", 10_000));
        assert_eq!(alice, DRIVERS_MAX / 2);
        assert!(bob > 0 && alice + bob < DRIVERS_MAX, "two users take all but the reserve: {alice}, {bob}");
        assert!(taken("carol", 20_000) > 0, "the reserve is for users with few");
        let (why, _) = drivers.add(driver(u64::MAX, 7, true), "alice", quota).unwrap_err();
        assert!(why.contains("user alice has 512 sessions there"), "{why}");
        // Nor is a user kept out whose programs come back to a restarted agent.
        let mut drivers = Drivers::default();
        for session in 0..DRIVERS_MAX as u64 / 2 {
            drivers.add(driver(session, 7, false), "alice", quota).unwrap();
        }
        drivers.add(driver(0, 7, true), "alice", quota).unwrap();
    }

    #[test]
    fn one_session_does_not_take_all_places() {
        let mut drivers = Drivers::default();
        let taken = (0..DRIVERS_MAX).filter(|_| add(&mut drivers, driver(1, 7, true)).is_some()).count();
        assert_eq!(taken, DRIVERS_OF_SESSION_MAX);
        assert!(add(&mut drivers, driver(2, 7, true)).is_some());
    }
}
