//! Streams: a thread each, which executes its operations in order.

use crate::control::{OUT_OF_MEMORY, lock, setting};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

type Work = Box<dyn FnOnce() + Send>;

pub(crate) struct Stream {
    kind: StreamKind,
    state: Mutex<WorkQueue>,
    moved: Condvar,
}

/// The order of a stream's operations with those of others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The driver's default stream: its operations come after those of all blocking streams, and these after them.
    Default,
    Blocking,
    NonBlocking,
}

/// The driver's default stream, number 0, of the whole process, once it was used.
static DEFAULT: OnceLock<Arc<Stream>> = OnceLock::new();
static BLOCKING: Mutex<Vec<Weak<Stream>>> = Mutex::new(Vec::new());

/// Returns the default stream.
pub(crate) fn default_stream() -> Result<Arc<Stream>, i32> {
    if DEFAULT.get().is_none() {
        let _ = DEFAULT.set(Stream::start(StreamKind::Default)?);
    }
    DEFAULT.get().cloned().ok_or(OUT_OF_MEMORY)
}

#[derive(Default)]
struct WorkQueue {
    work: VecDeque<Work>,
    put: u64,
    done: u64,
    closing: bool,
}

/// An event in a stream, unrecorded at first.
#[derive(Default)]
pub(crate) struct Event {
    point: Mutex<Option<(Arc<Stream>, u64)>>,
    /// The time at which the stream reached it.
    time: Arc<OnceLock<Instant>>,
    /// Waiters block until an interrupt, which each event raises.
    pub(crate) interrupts: bool,
}

impl Stream {
    /// If the system refuses a thread, the driver reports lack of memory.
    pub(crate) fn start(kind: StreamKind) -> Result<Arc<Self>, i32> {
        let stream = Arc::new(Self { kind, state: Mutex::default(), moved: Condvar::new() });
        let own = Arc::clone(&stream);
        std::thread::Builder::new().spawn(move || own.serve()).map_err(|_| OUT_OF_MEMORY)?;
        if kind == StreamKind::Blocking {
            let mut all = lock(&BLOCKING);
            all.retain(|stream| stream.strong_count() > 0);
            all.push(Arc::downgrade(&stream));
        }
        Ok(stream)
    }

    fn serve(&self) {
        let mut pace = Pace::of_streams();
        let mut state = lock(&self.state);
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                pace.wait();
                work();
                state = lock(&self.state);
                state.done += 1;
                self.moved.notify_all();
            } else if state.closing {
                return;
            } else {
                state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    pub(crate) fn put(&self, work: impl FnOnce() + Send + 'static) {
        for (other, until) in self.earlier() {
            self.push(move || other.wait_until(until));
        }
        self.push(work);
    }

    /// Returns the streams whose operations so far come before this stream's next one.
    fn earlier(&self) -> Vec<(Arc<Self>, u64)> {
        let others = match self.kind {
            StreamKind::Default => lock(&BLOCKING).iter().filter_map(Weak::upgrade).collect(),
            StreamKind::Blocking => DEFAULT.get().cloned().into_iter().collect::<Vec<_>>(),
            StreamKind::NonBlocking => Vec::new(),
        };
        let unfinished = |other: Arc<Self>| {
            let until = Some(&*lock(&other.state)).filter(|state| state.done < state.put).map(|state| state.put);
            until.map(|until| (other, until))
        };
        others.into_iter().filter_map(unfinished).collect()
    }

    fn push(&self, work: impl FnOnce() + Send + 'static) {
        let mut state = lock(&self.state);
        state.work.push_back(Box::new(work));
        state.put += 1;
        self.moved.notify_all();
    }

    pub(crate) fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.done == state.put
    }

    pub(crate) fn wait(&self) {
        let until = lock(&self.state).put;
        self.wait_until(until);
    }

    fn wait_until(&self, until: u64) {
        let mut state = lock(&self.state);
        while state.done < until {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the thread once all operations are done.
    pub(crate) fn close(&self) {
        lock(&self.state).closing = true;
        self.moved.notify_all();
    }
}

/// The duration of a stream's operations.
struct Pace {
    /// Shortest duration of each operation: code that does not wait for it sees that it is incomplete.
    slow: Duration,
    /// One operation in four takes up to this much longer at random, so that unsynchronised streams overtake one another.
    uneven_us: u64,
    random: u64,
}

impl Pace {
    fn of_streams() -> Self {
        static STREAMS: AtomicU64 = AtomicU64::new(1);
        let number = STREAMS.fetch_add(1, Ordering::Relaxed);
        Self {
            slow: Duration::from_micros(setting("FAKE_CUDA_SLOW", 0)),
            uneven_us: setting("FAKE_CUDA_UNEVEN", 0),
            random: number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn wait(&mut self) {
        let mut time = self.slow;
        if self.uneven_us > 0 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            if self.random.is_multiple_of(4) {
                time += Duration::from_micros((self.random >> 8) % self.uneven_us);
            }
        }
        if !time.is_zero() {
            std::thread::sleep(time);
        }
    }
}

impl Event {
    pub(crate) fn new(interrupts: bool) -> Self {
        Self { interrupts, ..Self::default() }
    }

    pub(crate) fn record(&self, stream: &Arc<Stream>) {
        let time = Arc::clone(&self.time);
        stream.put(move || {
            let _ = time.set(Instant::now());
        });
        let put = lock(&stream.state).put;
        *lock(&self.point) = Some((Arc::clone(stream), put));
    }

    /// Returns the milliseconds from `start` to this event, once both are complete.
    pub(crate) fn after(&self, start: &Self) -> Option<f32> {
        Some(self.time.get()?.saturating_duration_since(*start.time.get()?).as_secs_f32() * 1e3)
    }

    fn point(&self) -> Option<(Arc<Stream>, u64)> {
        lock(&self.point).clone()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.point().is_none_or(|(stream, put)| lock(&stream.state).done >= put)
    }

    pub(crate) fn wait(&self) {
        if let Some((stream, put)) = self.point() {
            stream.wait_until(put);
        }
    }

    /// Makes `waiting` wait for the event as recorded now.
    pub(crate) fn hold_up(&self, waiting: &Stream) {
        if let Some((stream, put)) = self.point() {
            waiting.put(move || stream.wait_until(put));
        }
    }
}
