//! Threads that copy between the program's pageable memory and pinned memory: one core moves some 10 GB/s,
//! the device's copy engines five times that.

use super::context::Context;
use super::driver::DriverError;
use super::pinned::{Pinned, Slot};
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// More threads than this gain nothing: they fill a PCIe 5 link.
const THREADS_MAX: usize = 12;
/// Least and largest part of a slot for one thread.
const PART_MIN: usize = 256 << 10;
const PART_MAX: usize = 2 << 20;
/// How long the threads look without pause after they have found a filled slot.
const HOT: Duration = Duration::from_micros(200);
/// How often the threads look whether the device has filled a slot.
const LOOK: Duration = Duration::from_micros(20);
/// A waiter looks around at least this often.
const LOOK_AROUND: Duration = Duration::from_millis(100);

/// The copying threads of one device.
pub(crate) struct Movers {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    threads_max: usize,
    state: Mutex<State>,
    bell: Condvar,
    /// Threads that wait for some job's end.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    fills: VecDeque<Fill>,
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

/// The jobs of one copy.
#[derive(Default)]
pub(crate) struct Tracker {
    left: AtomicUsize,
    failed: AtomicBool,
    error: Mutex<Option<DriverError>>,
}

/// Bytes of the program to a slot, and from there to the device.
struct Fill {
    from: usize,
    len: usize,
    to: CUdeviceptr,
    stream: CUstream,
    slots: Arc<Pinned>,
    tracker: Arc<Tracker>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Fill {}

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
    Fill(Fill),
    Part(Part),
}

impl Tracker {
    pub(crate) fn is_done(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// The rest of the jobs will never be.
    pub(crate) fn abort(&self, error: DriverError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.failed.store(true, Ordering::Release);
        self.left.store(0, Ordering::Release);
    }

    fn end(&self, result: Result<(), DriverError>) {
        if let Err(error) = result {
            self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
        // After an abort there is nothing left to count.
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1));
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
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shared: Arc::new(Shared {
                context,
                // The program's own thread copies too.
                threads_max: (cores / 2).clamp(1, THREADS_MAX),
                state: Mutex::default(),
                bell: Condvar::new(),
                ended: Condvar::new(),
            }),
        }
    }

    /// Number of threads that copy at the same time.
    pub(crate) fn width(&self) -> usize {
        self.shared.threads_max
    }

    /// Copies the program's memory into the stream, in pieces of `piece` bytes. On return everything has been read
    /// and put into the stream. The calling thread helps.
    pub(crate) fn fill(
        &self,
        from: usize,
        len: usize,
        to: CUdeviceptr,
        stream: CUstream,
        slots: &Arc<Pinned>,
        piece: usize,
    ) -> Result<(), DriverError> {
        let tracker = Arc::new(Tracker { left: AtomicUsize::new(len.div_ceil(piece)), ..Tracker::default() });
        let mut state = self.shared.lock();
        for offset in (0..len).step_by(piece) {
            state.fills.push_back(Fill {
                from: from + offset,
                len: piece.min(len - offset),
                to: to + offset as u64,
                stream,
                slots: Arc::clone(slots),
                tracker: Arc::clone(&tracker),
            });
        }
        self.shared.start_threads(&mut state);
        drop(state);
        self.shared.bell.notify_all();
        self.wait(&tracker)
    }

    /// For landings of these lengths: a tracker, and the length of the parts into which each is divided. Large
    /// copies go in large parts; the last slot of a small one is shared by all threads.
    pub(crate) fn tracker(&self, lengths: impl Iterator<Item = usize> + Clone) -> (Arc<Tracker>, usize) {
        let all: usize = lengths.clone().sum();
        let part = (all / (8 * self.shared.threads_max)).clamp(PART_MIN, PART_MAX);
        let parts = lengths.map(|len| len.div_ceil(part)).sum();
        (Arc::new(Tracker { left: AtomicUsize::new(parts), ..Tracker::default() }), part)
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
                None if state.landings.is_empty() || state.looking => {
                    let waited = self.shared.ended.wait_timeout(state, LOOK_AROUND);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => state = self.shared.look(state),
            }
        }
        tracker.result()
    }

    /// Ends the threads; jobs left are dropped.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.closing = true;
        let (fills, landings) = (std::mem::take(&mut state.fills), std::mem::take(&mut state.landings));
        let parts = std::mem::take(&mut state.parts);
        drop(state);
        for part in parts {
            part.tracker.abort(DriverError { call: "shutdown", code: 4 });
        }
        for fill in fills {
            fill.tracker.end(Err(DriverError { call: "shutdown", code: 4 }));
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
        // So that LOOK is not stretched to the kernel's default of 50 us more.
        // SAFETY: changes this thread's timers only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1000) };
        let mut state = self.lock();
        while !state.closing {
            if let Some(job) = self.find(&mut state) {
                drop(state);
                self.bell.notify_one();
                self.run(job);
                state = self.lock();
            } else if state.landings.is_empty() || state.looking {
                state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                state = self.look(state);
            }
        }
    }

    /// Asks the driver which slots it has filled; a pause if it has none.
    fn look<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.looking = true;
        let hot = state.hot_until.is_some_and(|until| Instant::now() < until);
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
        if let Some(fill) = state.fills.pop_front() {
            return Some(Job::Fill(fill));
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
            self.bell.notify_all();
        }
        state.parts.pop_front().map(Job::Part)
    }

    fn run(&self, job: Job) {
        match job {
            Job::Fill(fill) => {
                let tracker = Arc::clone(&fill.tracker);
                tracker.end(self.fill(fill));
            }
            Job::Part(Part { slot, offset, to, len, tracker, result }) => {
                if result.is_ok() {
                    // SAFETY: the program promised that its memory is writable until it has waited for the copy;
                    // the device has written the slot, and the part lies inside.
                    unsafe { move_past_caches(std::ptr::with_exposed_provenance_mut(to), slot.memory().add(offset), len) };
                }
                drop(slot);
                tracker.end(result);
            }
        }
        // A waiter that has just looked sleeps by now, or will see it.
        drop(self.lock());
        self.ended.notify_all();
    }

    fn fill(&self, fill: Fill) -> Result<(), DriverError> {
        let slot = fill.slots.take()?;
        // SAFETY: the program promised that its memory is readable until the copy has been waited for; the slot is at
        // least `len` long and this thread's own.
        unsafe {
            // By the caches: the device's engines read from there.
            slot.memory().copy_from_nonoverlapping(std::ptr::with_exposed_provenance(fill.from), fill.len);
            self.context.driver.cuMemcpyHtoDAsync_v2(fill.to, slot.memory().cast(), fill.len, fill.stream)?;
        }
        slot.record(fill.stream)?;
        slot.release_after();
        Ok(())
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
