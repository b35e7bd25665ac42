//! Threads that copy between the program's pageable memory and pinned memory: one core moves some 10 GB/s,
//! the device's copy engines five times that.

use super::context::Context;
use super::driver::DriverError;
use super::fills::{Fill, Filling, Take};
use super::near::Near;
use super::pinned::{Pinned, Slot};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More threads than this gain nothing: they fill a PCIe 5 link.
const THREADS_MAX: usize = 12;
/// Least and largest part of a slot for one thread.
pub(crate) const PART_MIN: usize = 64 << 10;
pub(crate) const PART_MAX: usize = 256 << 10;
/// How long the threads look without pause after they have found a filled slot.
const HOT: Duration = Duration::from_micros(200);
/// How often the threads look whether the device has filled a slot.
const LOOK: Duration = Duration::from_micros(20);
/// How long threads look for more of a copy that is under way before they sleep: waking one takes as long as copying a part.
const SPIN: Duration = Duration::from_micros(100);
/// A waiter looks around at least this often.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// The copying threads of one device.
pub(crate) struct Movers {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    near: Near,
    threads_max: usize,
    state: Mutex<State>,
    bell: Condvar,
    /// Counts what was added to the jobs: threads look at it without the lock.
    added: AtomicUsize,
    /// Threads that wait for some copy's end.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    fills: VecDeque<Fill>,
    /// Parts of slots to fill.
    filling: VecDeque<(Arc<Filling>, usize)>,
    /// For each stream that has any: its slots, in the order in which the device fills them.
    landings: Vec<Landings>,
    /// Parts of slots that the device has filled.
    parts: VecDeque<Part>,
    /// A thread looks for filled slots.
    looking: bool,
    /// Until then it looks without pause: more are on their way.
    hot_until: Option<Instant>,
    threads: usize,
    closing: bool,
}

struct Landings {
    stream: usize,
    /// Never empty.
    slots: VecDeque<Land>,
    /// The device is known to have filled the first one, or to have failed.
    ready: Option<Result<(), DriverError>>,
}

/// The jobs of one copy: slots to fill, or parts of slots to land.
#[derive(Default)]
pub(crate) struct Tracker {
    left: AtomicUsize,
    failed: AtomicBool,
    error: Mutex<Option<DriverError>>,
}

/// A slot that the device fills, then to the program.
struct Land {
    slot: Slot,
    to: usize,
    len: usize,
    /// Length of the parts into which it is divided.
    part: usize,
    tracker: Arc<Tracker>,
}

/// What one thread copies of a filled slot.
struct Part {
    slot: Arc<Slot>,
    offset: usize,
    to: usize,
    len: usize,
    tracker: Arc<Tracker>,
    result: Result<(), DriverError>,
}

enum Job {
    Take(Take),
    Fill(Arc<Filling>, usize),
    Part(Part),
}

impl Tracker {
    pub(crate) fn new(jobs: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(jobs), ..Self::default() })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// The rest of the jobs will never be.
    pub(crate) fn abort(&self, error: DriverError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.left.store(0, Ordering::Release);
    }

    /// One job is over; true if it was the last.
    fn end(&self, result: Result<(), DriverError>) -> bool {
        if let Err(error) = result {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
        // After an abort there is nothing left to count.
        self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1)) == Ok(1)
    }

    pub(crate) fn result(&self) -> Result<(), DriverError> {
        if self.failed.load(Ordering::Acquire)
            && let Some(error) = *self.error.lock().unwrap_or_else(PoisonError::into_inner)
        {
            return Err(error);
        }
        Ok(())
    }
}

impl Movers {
    pub(crate) fn new(context: Arc<Context>, near: Near) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(near.count().unwrap_or(usize::MAX));
        Self {
            shared: Arc::new(Shared {
                context,
                near,
                // The program's own thread copies too.
                threads_max: (cores / 2).clamp(1, THREADS_MAX),
                state: Mutex::default(),
                bell: Condvar::new(),
                added: AtomicUsize::new(0),
                ended: Condvar::new(),
            }),
        }
    }

    /// Copies the program's memory into the stream. On return everything has been read and put into the stream. The
    /// calling thread helps.
    pub(crate) fn fill(
        &self,
        from: usize,
        len: usize,
        to: CUdeviceptr,
        stream: CUstream,
        slots: &Arc<Pinned>,
    ) -> Result<(), DriverError> {
        let fill = Fill::new(from, len, to, stream, slots, self.shared.threads_max);
        let tracker = Arc::clone(&fill.tracker);
        let mut state = self.shared.lock();
        state.fills.push_back(fill);
        self.shared.start_threads(&mut state);
        drop(state);
        self.shared.bell.notify_all();
        self.wait(&tracker)
    }

    /// For landings of these lengths: a tracker, and the length of the parts into which each is divided, so that all threads
    /// have some.
    pub(crate) fn tracker(&self, lengths: impl Iterator<Item = usize> + Clone) -> (Arc<Tracker>, usize) {
        let all: usize = lengths.clone().sum();
        let part = (all / (2 * self.shared.threads_max)).clamp(PART_MIN, PART_MAX);
        let parts = lengths.map(|len| len.div_ceil(part)).sum();
        (Tracker::new(parts), part)
    }

    /// The device fills `slot`; when it has, `len` bytes go to the program. `stream` is any number that
    /// keeps slots of different streams apart.
    pub(crate) fn land(&self, stream: usize, slot: Slot, to: usize, len: usize, tracker: &(Arc<Tracker>, usize)) {
        let mut state = self.shared.lock();
        let land = Land { slot, to, len, part: tracker.1, tracker: Arc::clone(&tracker.0) };
        match state.landings.iter_mut().find(|known| known.stream == stream) {
            Some(known) => known.slots.push_back(land),
            None => state.landings.push(Landings { stream, slots: VecDeque::from([land]), ready: None }),
        }
        self.shared.start_threads(&mut state);
        drop(state);
        self.shared.bell.notify_one();
    }

    /// Blocks until a copy's jobs are done, and helps meanwhile.
    pub(crate) fn wait(&self, tracker: &Tracker) -> Result<(), DriverError> {
        let mut state = self.shared.lock();
        while !tracker.is_done() {
            match self.shared.find(&mut state) {
                Some(job) => {
                    drop(state);
                    self.shared.run(job);
                    state = self.shared.lock();
                }
                None if state.wants_a_look() => state = self.shared.look(state),
                None if state.has_more() => state = self.shared.spin(state, Some(tracker)),
                None => {
                    let waited = self.shared.ended.wait_timeout(state, LOOK_AROUND);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        tracker.result()
    }

    /// Ends the threads; jobs left are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.closing = true;
        let (fills, landings) = (std::mem::take(&mut state.fills), std::mem::take(&mut state.landings));
        let (parts, filling) = (std::mem::take(&mut state.parts), std::mem::take(&mut state.filling));
        drop(state);
        for (slot, _) in filling {
            slot.tracker.abort(DriverError { call: "shutdown", code: 4 });
        }
        for part in parts {
            part.tracker.abort(DriverError { call: "shutdown", code: 4 });
        }
        for fill in fills {
            fill.tracker.abort(DriverError { call: "shutdown", code: 4 });
        }
        for Landings { slots, .. } in landings {
            for land in slots {
                land.tracker.abort(DriverError { call: "shutdown", code: 4 });
            }
        }
        self.shared.bell.notify_all();
        self.shared.ended.notify_all();
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    /// The device has filled a slot just now.
    fn is_hot(&self) -> bool {
        self.hot_until.is_some_and(|until| Instant::now() < until)
    }

    /// Slots are on their way, and nobody looks whether they are there.
    fn wants_a_look(&self) -> bool {
        !self.looking && !self.landings.is_empty()
    }

    /// Somebody is about to find more to do: a slot for a copy in, or the next one that the device has filled.
    fn has_more(&self) -> bool {
        !self.fills.is_empty() || self.looking && self.is_hot()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_threads(self: &Arc<Self>, state: &mut State) {
        while state.threads < self.threads_max && !state.closing {
            let shared = Arc::clone(self);
            let thread = std::thread::Builder::new().name("accord-copy".to_owned()).spawn(move || shared.serve());
            if thread.is_err() {
                // Whoever waits copies.
                return;
            }
            state.threads += 1;
        }
    }

    fn serve(&self) {
        let Ok(_current) = self.context.enter() else { return };
        self.near.bind();
        // So that LOOK is not stretched to the kernel's default of 50 us more.
        // SAFETY: changes this thread's timers only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
        let mut state = self.lock();
        while !state.closing {
            if let Some(job) = self.find(&mut state) {
                let others = state.wants_a_look();
                drop(state);
                if others {
                    self.bell.notify_one();
                }
                self.run(job);
                state = self.lock();
            } else if state.wants_a_look() {
                state = self.look(state);
            } else if state.has_more() {
                state = self.spin(state, None);
            } else {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// More of a copy is to come at once. Sleeps if that takes long; a waiter until its copy's end.
    fn spin<'a>(&'a self, state: MutexGuard<'a, State>, waiter: Option<&Tracker>) -> MutexGuard<'a, State> {
        let before = self.added.load(Ordering::Acquire);
        drop(state);
        let until = Instant::now() + SPIN;
        while Instant::now() < until {
            for _ in 0..32 {
                std::hint::spin_loop();
            }
            if self.added.load(Ordering::Acquire) != before || waiter.is_some_and(Tracker::is_done) {
                return self.lock();
            }
        }
        let state = self.lock();
        if self.added.load(Ordering::Acquire) != before || state.closing || waiter.is_some_and(Tracker::is_done) {
            return state;
        }
        let sleep = if waiter.is_some() { &self.ended } else { &self.bell };
        sleep.wait_timeout(state, LOOK_AROUND).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Asks the driver which slots it has filled; a pause if it has none.
    fn look<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.looking = true;
        let hot = state.is_hot();
        let probes: Vec<_> = state
            .landings
            .iter()
            .filter(|landings| landings.ready.is_none())
            .filter_map(|landings| Some((landings.stream, landings.slots.front()?.slot.probe())))
            .collect();
        // Without the lock: the driver's answers take longer than all else here.
        drop(state);
        let mut found = Vec::new();
        for (stream, probe) in probes {
            match probe.is_done() {
                Ok(false) => {}
                result => found.push((stream, result.map(drop))),
            }
        }
        if found.is_empty() {
            if hot { std::thread::yield_now() } else { std::thread::sleep(LOOK) }
        }
        let mut state = self.lock();
        state.looking = false;
        // Nobody takes a slot that is not known to be filled, so the first ones are the same.
        for landings in &mut state.landings {
            if let Some((_, result)) = found.iter().find(|(stream, _)| *stream == landings.stream) {
                landings.ready = Some(*result);
            }
        }
        state
    }

    /// A job that can be done now.
    fn find(&self, state: &mut State) -> Option<Job> {
        if let Some(part) = state.parts.pop_front() {
            return Some(Job::Part(part));
        }
        if let Some((slot, offset)) = state.filling.pop_front() {
            return Some(Job::Fill(slot, offset));
        }
        if let Some(take) = state.fills.iter_mut().find_map(Fill::take) {
            return Some(Job::Take(take));
        }
        let at = state.landings.iter().position(|landings| landings.ready.is_some())?;
        let landings = &mut state.landings[at];
        let result = landings.ready.take()?;
        let Land { slot, to, len, part, tracker } = landings.slots.pop_front()?;
        if landings.slots.is_empty() {
            state.landings.swap_remove(at);
        }
        let slot = Arc::new(slot);
        state.hot_until = Some(Instant::now() + HOT);
        for offset in (0..len).step_by(part) {
            state.parts.push_back(Part {
                slot: Arc::clone(&slot),
                offset,
                to: to + offset,
                len: part.min(len - offset),
                tracker: Arc::clone(&tracker),
                result,
            });
        }
        if state.parts.len() > 1 {
            self.added.fetch_add(1, Ordering::AcqRel);
            self.bell.notify_all();
        }
        state.parts.pop_front().map(Job::Part)
    }

    fn run(&self, job: Job) {
        let over = match job {
            Job::Take(take) => self.take(take),
            Job::Fill(slot, offset) => slot.fill(&self.context, offset).is_some_and(|sent| slot.tracker.end(sent)),
            Job::Part(Part { slot, offset, to, len, tracker, result }) => {
                if result.is_ok() {
                    // SAFETY: the program promised that its memory is writable until it has waited for the copy;
                    // the device has written the slot, and the part lies inside.
                    unsafe { move_past_caches(std::ptr::with_exposed_provenance_mut(to), slot.memory().add(offset), len) };
                }
                drop(slot);
                tracker.end(result)
            }
        };
        if over {
            // A waiter that has just looked sleeps by now, or will see it.
            drop(self.lock());
            self.ended.notify_all();
        }
    }

    /// Gets a slot, whose parts are jobs from then on. True if that was the end of the copy: the driver has failed.
    fn take(&self, take: Take) -> bool {
        let tracker = Arc::clone(&take.tracker);
        let filling = take.fill();
        let mut state = self.lock();
        if let Some(at) = state.fills.iter().position(|fill| Arc::ptr_eq(&fill.tracker, &tracker)) {
            state.fills[at].took();
            if filling.is_err() || state.fills[at].is_over() {
                state.fills.remove(at);
            }
        }
        match filling {
            Ok(_) if state.closing => tracker.abort(DriverError { call: "shutdown", code: 4 }),
            Ok(filling) => {
                let filling = Arc::new(filling);
                state.filling.extend(filling.parts().map(|offset| (Arc::clone(&filling), offset)));
                self.added.fetch_add(1, Ordering::AcqRel);
                drop(state);
                self.bell.notify_all();
                return false;
            }
            Err(error) => tracker.abort(error),
        }
        true
    }
}

/// Copies bytes that nobody reads soon from this core: past its caches, which saves reading the target first.
///
/// # Safety
/// As for `copy_nonoverlapping`.
unsafe fn move_past_caches(to: *mut u8, from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        const LINE: usize = 64;
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE;
        // SAFETY: all offsets lie within `len`; the target of each line is aligned.
        unsafe {
            to.copy_from_nonoverlapping(from, head);
            let (mut target, mut source) = (to.add(head).cast::<__m128i>(), from.add(head).cast::<__m128i>());
            for _ in 0..lines {
                let words =
                    [_mm_loadu_si128(source), _mm_loadu_si128(source.add(1)), _mm_loadu_si128(source.add(2)), _mm_loadu_si128(source.add(3))];
                _mm_stream_si128(target, words[0]);
                _mm_stream_si128(target.add(1), words[1]);
                _mm_stream_si128(target.add(2), words[2]);
                _mm_stream_si128(target.add(3), words[3]);
                (target, source) = (target.add(4), source.add(4));
            }
            // Others, and the device, see the lines before anything that follows.
            _mm_sfence();
            let rest = head + lines * LINE;
            to.add(rest).copy_from_nonoverlapping(from.add(rest), len - rest);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(from, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_moved_wherever_they_lie() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (start, at, len) in [(0, 0, 1000), (1, 0, 999), (0, 3, 500), (5, 64, 64), (7, 1, 0), (9, 13, 63)] {
            let mut to = vec![0xee; 1200];
            // SAFETY: both ranges lie inside their vectors.
            unsafe { move_past_caches(to.as_mut_ptr().add(at), from.as_ptr().add(start), len) };
            assert_eq!(to[at..at + len], from[start..start + len]);
            assert!(to[..at].iter().chain(&to[at + len..]).all(|byte| *byte == 0xee));
        }
    }
}
