//! Tracks which arrays of the program are page-locked, and which devices hold the locks. Decisions without driver or threads.
//!
//! A device requests a range and releases it; the range stays locked while it has holders. A thread moves it through its
//! stages: `pick`, `register`, `registered`, and at the end `unregistered` for each range that `release` has returned.

use accord_types::HostRange;
use accord_types::short_lock::ShortLock;
use std::collections::BTreeMap;

/// Length of a separately locked piece: the driver blocks other calls while it locks one, for 2 ms. No copy may cross
/// from one to the next.
pub(crate) const PIECE: usize = 64 << 20;

/// `O` is the owner of a lock, and `U` names where copies may be in progress.
pub(crate) struct Registrations<O, U> {
    page: usize,
    /// Registrations by their first locked byte. They never overlap.
    known: BTreeMap<usize, Registration<O, U>>,
    tickets: u64,
    /// Bytes that are locked or about to be.
    bytes: usize,
    bytes_max: usize,
    ranges_max: usize,
}

struct Registration<O, U> {
    end: usize,
    ticket: u64,
    owner: O,
    /// The devices that have requested the range, once per request.
    holders: Vec<u32>,
    stage: Stage,
    /// Whether the program has replaced pages while they were being locked.
    replaced: bool,
    /// The last copy in each place that has directly used the memory.
    uses: ShortLock<Vec<(U, u64)>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asked,
    Registering,
    Registered,
    /// Locked, but the program has replaced the pages: to be unlocked.
    Replaced,
    /// The driver has refused or lost the range: not retried while it has holders.
    Refused,
    Unregistering,
}

/// The state of a range that is about to be copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pages {
    /// No part of the range is locked, or about to be.
    Unregistered,
    /// This part of the range is locked. Less than a page before and after it is not.
    Registered(RegisteredPart),
    /// Part of the range is locked, or its state is about to change, so that the driver must not access it directly.
    Mixed,
}

/// A locked part of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisteredPart {
    pub(crate) range: HostRange,
    /// Offset of the lock's first byte, and so of the first piece.
    pub(crate) first: usize,
}

/// The step after a device has released a range.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Release<O, U> {
    /// None: other devices hold the range, or it was never locked.
    Keep,
    /// The range is being locked or unlocked. Call [`Registrations::settle`] once that has ended.
    Busy(usize),
    /// Unlock the range once these copies are done, then call [`Registrations::unregistered`].
    Unregister(Unregistration<O, U>),
}

/// Registered memory without holders.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Unregistration<O, U> {
    pub(crate) range: HostRange,
    pub(crate) owner: O,
    pub(crate) uses: Vec<(U, u64)>,
}

/// A range to lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Job {
    pub(crate) range: HostRange,
    ticket: u64,
}

impl<O: Clone, U: PartialEq> Registrations<O, U> {
    /// Creates the state for pages of this size, with at most `bytes_max` bytes in at most `ranges_max` ranges.
    pub(crate) fn new(page: usize, bytes_max: usize, ranges_max: usize) -> Self {
        Self { page, known: BTreeMap::new(), tickets: 0, bytes: 0, bytes_max, ranges_max }
    }

    /// Returns the number of ranges that are locked, about to be, or refused.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Records a device's request to lock a range. Returns `true` if the thread should lock it. A range that overlaps another lock is refused.
    pub(crate) fn ask(&mut self, range: HostRange, device: u32, owner: O) -> bool {
        let Some((start, end)) = self.pages(range) else { return false };
        if let Some(registration) = self.known.get_mut(&start).filter(|registration| registration.end == end) {
            registration.holders.push(device);
            return false;
        }
        if self.known.len() >= self.ranges_max
            || self.overlapping(start, end).next().is_some()
            || self.bytes + (end - start) > self.bytes_max
        {
            return false;
        }
        self.bytes += end - start;
        self.tickets += 1;
        let ticket = self.tickets;
        let registration = Registration {
            end,
            ticket,
            owner,
            holders: vec![device],
            stage: Stage::Asked,
            replaced: false,
            uses: ShortLock::default(),
        };
        self.known.insert(start, registration);
        true
    }

    /// The next range to lock.
    pub(crate) fn pick(&self) -> Option<Job> {
        let (start, registration) = self
            .known
            .iter()
            .filter(|(_, registration)| registration.stage == Stage::Asked)
            .min_by_key(|(_, registration)| registration.ticket)?;
        Some(Job { range: HostRange { start: *start, len: registration.end - start }, ticket: registration.ticket })
    }

    /// Marks the range as being locked. Returns its owner, or `None` if it has no holders any more.
    pub(crate) fn register(&mut self, job: Job) -> Option<O> {
        let registration = self.of(job).filter(|registration| registration.stage == Stage::Asked)?;
        registration.stage = Stage::Registering;
        Some(registration.owner.clone())
    }

    /// Whether the range that is being locked still has holders.
    pub(crate) fn wants(&self, job: Job) -> bool {
        self.known
            .get(&job.range.start)
            .is_some_and(|registration| registration.ticket == job.ticket && !registration.holders.is_empty())
    }

    /// Records whether the driver has locked the range.
    pub(crate) fn registered(&mut self, job: Job, done: bool) {
        if let Some(registration) = self.of(job) {
            registration.stage = match (done, registration.replaced) {
                (true, false) => Stage::Registered,
                (true, true) => Stage::Replaced,
                (false, _) => Stage::Refused,
            };
        }
    }

    /// Records that the program has replaced pages of the lock that begins at `start`. The driver must not access them directly until they are
    /// unlocked; then the range is not retried.
    pub(crate) fn replaced(&mut self, start: usize) {
        let Some(registration) = self.known.get_mut(&start) else { return };
        match registration.stage {
            Stage::Registering => registration.replaced = true,
            Stage::Registered => registration.stage = Stage::Replaced,
            Stage::Asked | Stage::Replaced | Stage::Refused | Stage::Unregistering => {}
        }
    }

    /// Returns a registration whose pages were replaced, to be unlocked.
    pub(crate) fn pick_replaced(&mut self) -> Option<Unregistration<O, U>> {
        let replaced = |(_, registration): &(&usize, &mut Registration<O, U>)| registration.stage == Stage::Replaced;
        let (start, registration) = self.known.iter_mut().find(replaced)?;
        Some(registration.unregister(*start))
    }

    /// Returns all ranges, each with a number that distinguishes it from earlier and later ones at the same address.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (HostRange, u64)> + Clone {
        let range = |start: usize, end: usize| HostRange { start, len: end - start };
        self.known.iter().map(move |(start, registration)| (range(*start, registration.end), registration.ticket))
    }

    /// Refuses all requested ranges, because there is no thread to lock them.
    pub(crate) fn refuse(&mut self) {
        let asked = self.known.values_mut().filter(|registration| registration.stage == Stage::Asked);
        asked.for_each(|registration| registration.stage = Stage::Refused);
    }

    /// Releases a range that a device has requested.
    pub(crate) fn release(&mut self, range: HostRange, device: u32) -> Release<O, U> {
        let Some((start, end)) = self.pages(range) else { return Release::Keep };
        let Some(registration) = self.known.get_mut(&start).filter(|registration| registration.end == end) else {
            return Release::Keep;
        };
        let Some(at) = registration.holders.iter().position(|holder| *holder == device) else { return Release::Keep };
        registration.holders.swap_remove(at);
        self.settle(start)
    }

    /// Decides about the lock that begins at `start`, by its present holders.
    pub(crate) fn settle(&mut self, start: usize) -> Release<O, U> {
        let Some(registration) = self.known.get_mut(&start) else { return Release::Keep };
        if !registration.holders.is_empty() {
            return Release::Keep;
        }
        match registration.stage {
            Stage::Asked | Stage::Refused => {
                self.remove(start);
                Release::Keep
            }
            Stage::Registering | Stage::Unregistering => Release::Busy(start),
            Stage::Registered | Stage::Replaced => Release::Unregister(registration.unregister(start)),
        }
    }

    /// Whether a thread is locking or unlocking the range that begins at `start`.
    pub(crate) fn is_changing(&self, start: usize) -> bool {
        self.known
            .get(&start)
            .is_some_and(|registration| matches!(registration.stage, Stage::Registering | Stage::Unregistering))
    }

    /// Whether a thread is locking a range.
    pub(crate) fn is_registering(&self) -> bool {
        self.known.values().any(|registration| registration.stage == Stage::Registering)
    }

    /// Whether a thread is unlocking a range.
    pub(crate) fn is_unregistering(&self) -> bool {
        self.known.values().any(|registration| registration.stage == Stage::Unregistering)
    }

    /// Removes a range that was unlocked. Devices that have requested it meanwhile do not get it.
    pub(crate) fn unregistered(&mut self, start: usize) {
        let Some(registration) =
            self.known.get_mut(&start).filter(|registration| registration.stage == Stage::Unregistering)
        else {
            return;
        };
        if registration.holders.is_empty() {
            self.remove(start);
        } else {
            registration.stage = Stage::Refused;
        }
    }

    /// Returns the ranges that a device has requested and not released.
    pub(crate) fn held_by(&self, device: u32) -> Vec<HostRange> {
        let range = |(start, registration): (&usize, &Registration<O, U>)| {
            let count = registration.holders.iter().filter(|holder| **holder == device).count();
            std::iter::repeat_n(HostRange { start: *start, len: registration.end - start }, count)
        };
        self.known.iter().flat_map(range).collect()
    }

    /// Returns all locked ranges, to be unlocked although they have holders, which lose them.
    pub(crate) fn give_up(&mut self) -> Vec<Unregistration<O, U>> {
        let is_locked = |stage: Stage| matches!(stage, Stage::Registered | Stage::Replaced);
        let locked = self.known.iter_mut().filter(|(_, registration)| is_locked(registration.stage));
        locked.map(|(start, registration)| registration.unregister(*start)).collect()
    }

    /// Returns the usable state of a range. If it is locked, the copy `user` uses it directly from now on.
    pub(crate) fn usable_pages(&self, range: HostRange, user: Option<(U, u64)>) -> Pages {
        let end = range.start.saturating_add(range.len);
        let mut inside =
            self.overlapping(range.start, end).filter(|(_, registration)| registration.stage != Stage::Refused);
        let Some((start, registration)) = inside.next() else { return Pages::Unregistered };
        if inside.next().is_some() || registration.stage != Stage::Registered {
            return Pages::Mixed;
        }
        let (from, to) = (range.start.max(start), end.min(registration.end));
        if from - range.start >= self.page || end - to >= self.page {
            return Pages::Mixed;
        }
        if let Some((place, seq)) = user {
            let mut uses = registration.uses.lock();
            match uses.iter_mut().find(|(known, _)| *known == place) {
                Some((_, last)) => *last = seq.max(*last),
                None => uses.push((place, seq)),
            }
        }
        Pages::Registered(RegisteredPart { range: HostRange { start: from, len: to - from }, first: start })
    }

    /// Returns the whole pages in a range, so that adjacent locks never share one.
    fn pages(&self, range: HostRange) -> Option<(usize, usize)> {
        let start = range.start.checked_next_multiple_of(self.page)?;
        let end = range.start.checked_add(range.len)? / self.page * self.page;
        (start < end).then_some((start, end))
    }

    fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, &Registration<O, U>)> {
        let before = self.known.range(..start).next_back().filter(|(_, registration)| registration.end > start);
        before
            .into_iter()
            .chain(self.known.range(start..end.max(start)))
            .map(|(start, registration)| (*start, registration))
    }

    fn of(&mut self, job: Job) -> Option<&mut Registration<O, U>> {
        self.known.get_mut(&job.range.start).filter(|registration| registration.ticket == job.ticket)
    }

    fn remove(&mut self, start: usize) {
        if let Some(registration) = self.known.remove(&start) {
            self.bytes -= registration.end - start;
        }
    }
}

impl RegisteredPart {
    /// Returns the pieces that a copy may use at a time.
    pub(crate) fn pieces(self) -> impl Iterator<Item = HostRange> {
        let Self { range: HostRange { mut start, len }, first } = self;
        let end = start + len;
        std::iter::from_fn(move || {
            let from = start;
            start = end.min(first + ((from - first) / PIECE + 1) * PIECE);
            (from < end).then(|| HostRange { start: from, len: start - from })
        })
    }
}

impl<O: Clone, U> Registration<O, U> {
    fn unregister(&mut self, start: usize) -> Unregistration<O, U> {
        self.stage = Stage::Unregistering;
        let uses = std::mem::take(self.uses.get_mut());
        Unregistration { range: HostRange { start, len: self.end - start }, owner: self.owner.clone(), uses }
    }
}

#[cfg(test)]
mod tests;
