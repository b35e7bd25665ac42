//! Threads that copy between the program's pageable memory and pinned memory: one core moves some 10 GB/s,
//! the device's copy engines five times that.

use super::download::{Download, Downloads, ask};
use super::past_caches::move_past_caches;
use super::progress::{CopyError, PART_MAX, Tracker};
use super::slot_pool::{Slot, SlotPool};
use super::upload::{Filling, SlotRequest, Upload};
use crate::context::Context;
use crate::driver::DriverError;
use crate::memory_uses::MemoryUses;
use crate::numa::NumaAffinity;
use crate::timer_slack;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// More threads gain nothing: these saturate a PCIe 5 link.
const THREADS_MAX: usize = 12;
/// The time for which threads poll almost continuously after they have found a filled slot, if more of the same copy is in
/// flight.
const HOT: Duration = Duration::from_micros(200);
/// The pause between polls: a call of the driver delays other threads that call it.
const BREATH: Duration = Duration::from_micros(1);
/// The interval at which the threads check whether the device has filled a slot.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// The time for which threads spin for more of a copy in flight before they sleep: waking one takes as long as copying
/// a part.
const SPIN: Duration = Duration::from_micros(100);
/// Longest wait before a waiter checks again.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The copying threads of one device.
pub(crate) struct CopyPool {
    shared: Arc<Shared>,
}

struct Shared {
    context: Arc<Context>,
    memory_uses: Arc<MemoryUses>,
    numa: NumaAffinity,
    threads_max: usize,
    state: ShortLock<CopyQueues>,
    work_available: Condvar,
    /// Slots that the device will fill, by stream, which no thread has seen yet. They are not in the job queue: enqueuing a
    /// copy must not wait for the threads, which run job after job.
    put: ShortLock<Vec<(usize, Download)>>,
    has_put: AtomicBool,
    /// Number of threads that check `put` before they sleep.
    awake: AtomicUsize,
    /// Number of jobs added, which threads read without the lock.
    added: AtomicUsize,
    /// Wakes threads that wait for the end of a copy.
    ended: Condvar,
}

#[derive(Default)]
struct CopyQueues {
    uploads: VecDeque<Upload>,
    /// Parts of slots to fill.
    filling: VecDeque<(Arc<Filling>, usize)>,
    downloads: Downloads,
    /// Parts of slots that the device has filled.
    parts: VecDeque<Part>,
    /// Whether a thread polls for filled slots.
    looking: bool,
    /// The time until which it polls almost continuously.
    hot_until: Option<Instant>,
    threads: usize,
    closing: bool,
}

/// The part of a filled slot that one thread copies.
struct Part {
    slot: Arc<Slot>,
    offset: usize,
    to: usize,
    len: usize,
    tracker: Arc<Tracker>,
    result: Result<(), DriverError>,
}

enum Job {
    SlotRequest(SlotRequest),
    Upload(Arc<Filling>, usize),
    Part(Part),
}

impl CopyPool {
    pub(crate) fn new(context: Arc<Context>, memory_uses: Arc<MemoryUses>, numa: NumaAffinity) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(numa.count().unwrap_or(usize::MAX));
        Self {
            shared: Arc::new(Shared {
                context,
                memory_uses,
                numa,
                // The program's own thread copies too.
                threads_max: (cores / 2).clamp(1, THREADS_MAX),
                state: ShortLock::default(),
                work_available: Condvar::new(),
                put: ShortLock::default(),
                has_put: AtomicBool::new(false),
                awake: AtomicUsize::new(0),
                added: AtomicUsize::new(0),
                ended: Condvar::new(),
            }),
        }
    }

    /// Copies the program's memory into the stream. On return all of it was read and enqueued. The calling thread helps.
    pub(crate) fn upload(
        &self,
        from: usize,
        len: usize,
        to: CUdeviceptr,
        stream: CUstream,
        slots: &Arc<SlotPool>,
    ) -> Result<(), CopyError> {
        self.wait(&self.begin_upload(from, len, to, stream, slots))
    }

    /// Begins a copy as [`CopyPool::upload`]. The memory must stay until the returned tracker was waited for, or the pool is closed
    /// and all slots are back.
    pub(crate) fn begin_upload(
        &self,
        from: usize,
        len: usize,
        to: CUdeviceptr,
        stream: CUstream,
        slots: &Arc<SlotPool>,
    ) -> Arc<Tracker> {
        let upload = Upload::new(from, len, to, stream, slots, self.shared.threads_max);
        let tracker = Arc::clone(&upload.tracker);
        let mut state = self.shared.lock();
        state.uploads.push_back(upload);
        self.shared.start_threads(&mut state);
        drop(state);
        self.shared.work_available.notify_one();
        tracker
    }

    /// Creates a tracker for downloads of these lengths.
    pub(crate) fn tracker(lengths: impl Iterator<Item = usize>) -> Arc<Tracker> {
        Tracker::new(lengths.map(|len| len.div_ceil(PART_MAX)).sum())
    }

    /// Registers a slot that the device fills; then `len` bytes are copied to the program. `stream` is any number that
    /// distinguishes streams.
    pub(crate) fn download(&self, stream: usize, slot: Slot, to: usize, len: usize, tracker: &Arc<Tracker>) {
        let download = Download { slot, to, len, tracker: Arc::clone(tracker) };
        self.shared.put.lock().push((stream, download));
        self.shared.has_put.store(true, Ordering::SeqCst);
        // A thread that goes to sleep now sees this value, or is no longer counted.
        if self.shared.awake.load(Ordering::SeqCst) == 0 {
            let mut state = self.shared.lock();
            self.shared.start_threads(&mut state);
            drop(state);
            self.shared.work_available.notify_one();
        }
    }

    /// Blocks until a copy's jobs are done, and helps meanwhile.
    pub(crate) fn wait(&self, tracker: &Tracker) -> Result<(), CopyError> {
        let mut state = self.shared.lock();
        while !tracker.is_done() {
            self.shared.collect(&mut state);
            match self.shared.find(&mut state) {
                Some((job, wanted)) => {
                    drop(state);
                    self.shared.wake(wanted);
                    self.shared.run(job);
                    state = self.shared.lock();
                }
                None if state.needs_poll() => state = self.shared.poll(state, true),
                None if state.has_more() => state = self.shared.spin(state, Some(tracker)),
                None => {
                    state = ShortGuard::wait_timeout(state, &self.shared.ended, CHECK_INTERVAL).0;
                }
            }
        }
        let leaves = state.has_work() && self.shared.awake.load(Ordering::SeqCst) == 0;
        drop(state);
        if leaves {
            // Other threads sleep because this one was polling.
            self.shared.work_available.notify_one();
        }
        tracker.result()
    }

    /// Whether a copy's jobs are done. Does not block.
    pub(crate) fn test(&self, tracker: &Tracker) -> bool {
        if tracker.is_done() {
            return true;
        }
        let mut state = self.shared.lock();
        if state.threads > 0 {
            return false;
        }
        // If no thread could be started, the caller does the available work.
        self.shared.collect(&mut state);
        if state.needs_poll() {
            state = self.shared.poll(state, false);
        }
        if let Some((job, _)) = self.shared.find(&mut state) {
            drop(state);
            self.shared.run(job);
        }
        tracker.is_done()
    }

    /// Ends the threads, and drops remaining jobs.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.collect(&mut state);
        let (uploads, downloads) = (std::mem::take(&mut state.uploads), state.downloads.take_all());
        let (parts, filling) = (std::mem::take(&mut state.parts), std::mem::take(&mut state.filling));
        drop(state);
        for (slot, _) in filling {
            slot.tracker.abort(CopyError::ShutDown);
        }
        for part in parts {
            part.tracker.abort(CopyError::ShutDown);
        }
        for upload in uploads {
            upload.tracker.abort(CopyError::ShutDown);
        }
        for download in downloads {
            download.tracker.abort(CopyError::ShutDown);
        }
        self.shared.work_available.notify_all();
        self.shared.ended.notify_all();
    }
}

impl Drop for CopyPool {
    fn drop(&mut self) {
        self.close();
    }
}

impl CopyQueues {
    /// Whether the device has just filled a slot, and is about to fill another one.
    fn is_hot(&self) -> bool {
        self.hot_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether slots are in flight and no thread polls for them.
    fn needs_poll(&self) -> bool {
        !self.looking && !self.downloads.is_empty()
    }

    /// Whether there is work to do or to poll for.
    fn has_work(&self) -> bool {
        let here = !self.parts.is_empty() || !self.filling.is_empty() || !self.uploads.is_empty();
        here || !self.downloads.is_empty()
    }

    /// Whether a thread is about to find more work: a slot for a copy in, or the next filled one.
    fn has_more(&self) -> bool {
        !self.uploads.is_empty() || self.looking && self.is_hot()
    }
}

/// Pauses between polls while the device works.
fn pause(hot: bool) {
    if !hot {
        return std::thread::sleep(POLL_INTERVAL);
    }
    std::thread::yield_now();
    let until = Instant::now() + BREATH;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

impl Shared {
    fn lock(&self) -> ShortGuard<'_, CopyQueues> {
        self.state.lock()
    }

    fn start_threads(self: &Arc<Self>, state: &mut CopyQueues) {
        while state.threads < self.threads_max && !state.closing {
            let shared = Arc::clone(self);
            if threads::spawn("accord-copy", move || shared.serve()).is_err() {
                // The waiter copies.
                return;
            }
            state.threads += 1;
            self.awake.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn serve(&self) {
        let Ok(_current) = self.context.enter() else {
            // The waiter copies.
            self.awake.fetch_sub(1, Ordering::SeqCst);
            return;
        };
        self.numa.bind();
        // The kernel's default slack would stretch each pause by 50 us.
        timer_slack::wake_in_time();
        let mut state = self.lock();
        while !state.closing {
            self.collect(&mut state);
            if let Some((job, wanted)) = self.find(&mut state) {
                let looks = state.needs_poll();
                drop(state);
                self.wake(wanted);
                if matches!(job, Job::SlotRequest(_)) {
                    self.run_away(job, looks);
                } else {
                    self.run(job);
                }
                state = self.lock();
            } else if state.needs_poll() {
                state = self.poll(state, true);
            } else if state.has_more() {
                state = self.spin(state, None);
            } else {
                state = self.sleep(state);
            }
        }
    }

    /// Takes over the slots that were put into streams.
    fn collect(&self, state: &mut CopyQueues) {
        if self.has_put.swap(false, Ordering::SeqCst) {
            for (stream, download) in self.put.lock().drain(..) {
                state.downloads.push(stream, download);
            }
        }
    }

    /// Runs a job that may wait for the device to release a slot. Other threads poll meanwhile.
    fn run_away(&self, job: Job, looks: bool) {
        let others = self.awake.fetch_sub(1, Ordering::SeqCst) > 1;
        if !others && (looks || self.has_put.load(Ordering::SeqCst)) {
            self.work_available.notify_one();
        }
        self.run(job);
        self.awake.fetch_add(1, Ordering::SeqCst);
    }

    fn sleep<'a>(&self, mut state: ShortGuard<'a, CopyQueues>) -> ShortGuard<'a, CopyQueues> {
        self.awake.fetch_sub(1, Ordering::SeqCst);
        if !self.has_put.load(Ordering::SeqCst) {
            state = ShortGuard::wait(state, &self.work_available);
        }
        self.awake.fetch_add(1, Ordering::SeqCst);
        state
    }

    /// Wakes so many threads; more than a few with one call for all.
    fn wake(&self, threads: usize) {
        match threads {
            0..=3 => (0..threads).for_each(|_| self.work_available.notify_one()),
            _ => self.work_available.notify_all(),
        }
    }

    /// Spins for the rest of a copy, which should follow soon. Then sleeps, a waiter until its copy's end.
    fn spin<'a>(&'a self, state: ShortGuard<'a, CopyQueues>, waiter: Option<&Tracker>) -> ShortGuard<'a, CopyQueues> {
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
        let more = self.added.load(Ordering::Acquire) != before || state.needs_poll();
        if more || state.closing || waiter.is_some_and(Tracker::is_done) {
            return state;
        }
        match waiter {
            Some(_) => ShortGuard::wait_timeout(state, &self.ended, CHECK_INTERVAL).0,
            None => self.sleep(state),
        }
    }

    /// Asks the driver which slots are filled. Pauses if none is and the caller has time.
    fn poll<'a>(&'a self, mut state: ShortGuard<'a, CopyQueues>, has_time: bool) -> ShortGuard<'a, CopyQueues> {
        state.looking = true;
        let hot = state.is_hot();
        let questions = state.downloads.questions();
        // Without the lock, because the driver's answers take longer than all other work here.
        drop(state);
        let answers = ask(questions);
        if answers.is_empty() && has_time {
            pause(hot);
        }
        let mut state = self.lock();
        state.looking = false;
        state.downloads.answer(&answers);
        state
    }

    /// Returns a job that can be done now, and the number of threads to wake for further ones.
    fn find(&self, state: &mut CopyQueues) -> Option<(Job, usize)> {
        if let Some(part) = state.parts.pop_front() {
            return Some((Job::Part(part), 0));
        }
        // The next slot is requested before this one's parts run out. Otherwise all threads would wait for the one that gets it.
        if state.filling.len() < self.threads_max
            && let Some(take) = state.uploads.iter_mut().find_map(Upload::take)
        {
            return Some((Job::SlotRequest(take), 0));
        }
        if let Some((slot, offset)) = state.filling.pop_front() {
            return Some((Job::Upload(slot, offset), 0));
        }
        let (Download { slot, to, len, tracker }, result) = state.downloads.take()?;
        let slot = Arc::new(slot);
        for offset in (0..len).step_by(PART_MAX) {
            state.parts.push_back(Part {
                slot: Arc::clone(&slot),
                offset,
                to: to + offset,
                len: PART_MAX.min(len - offset),
                tracker: Arc::clone(&tracker),
                result,
            });
        }
        if tracker.left() > state.parts.len() {
            state.hot_until = Some(Instant::now() + HOT);
        }
        let part = state.parts.pop_front()?;
        Some((Job::Part(part), self.add(state, state.parts.len())))
    }

    /// Adds new jobs. Returns the number of threads to wake for them.
    fn add(&self, state: &CopyQueues, jobs: usize) -> usize {
        if jobs > 0 {
            self.added.fetch_add(1, Ordering::AcqRel);
        }
        let awake = self.awake.load(Ordering::Relaxed);
        jobs.saturating_sub(awake).min(state.threads.saturating_sub(awake))
    }

    fn run(&self, job: Job) {
        let over = match job {
            Job::SlotRequest(take) => self.take(take),
            Job::Upload(slot, offset) => {
                slot.fill(&self.context, &self.memory_uses, offset).is_some_and(|sent| slot.tracker.end(sent))
            }
            Job::Part(Part { slot, offset, to, len, tracker, result }) => {
                if result.is_ok() {
                    // SAFETY: by the program's guarantee its memory is writable until it has waited for the copy. The
                    // device has filled the slot, and the part is inside it.
                    unsafe {
                        move_past_caches(std::ptr::with_exposed_provenance_mut(to), slot.memory().add(offset), len);
                    };
                }
                drop(slot);
                tracker.end(result.map_err(Into::into))
            }
        };
        if over {
            // A waiter that has just checked sleeps by now, or will see the change.
            drop(self.lock());
            self.ended.notify_all();
        }
    }

    /// Gets a slot, whose parts then become jobs. Returns `true` if the copy has ended because the driver failed.
    fn take(&self, take: SlotRequest) -> bool {
        let tracker = Arc::clone(&take.tracker);
        let filling = take.fill();
        let mut state = self.lock();
        if let Some(at) = state.uploads.iter().position(|upload| Arc::ptr_eq(&upload.tracker, &tracker)) {
            state.uploads[at].took();
            if filling.is_err() || state.uploads[at].is_over() {
                state.uploads.remove(at);
            }
        }
        match filling {
            Ok(_) if state.closing => tracker.abort(CopyError::ShutDown),
            Ok(filling) => {
                let filling = Arc::new(filling);
                state.filling.extend(filling.parts().map(|offset| (Arc::clone(&filling), offset)));
                let wanted = self.add(&state, filling.parts().count());
                drop(state);
                self.wake(wanted);
                return false;
            }
            Err(error) => tracker.abort(error.into()),
        }
        true
    }
}
