//! Checks whether peers live while the program waits for them. Its thread runs only then: an idle program has none, and
//! a short wait does not start it.

use accord_fabric::peer::PeerId;
use accord_types::Error;
use accord_types::liveness::POLL_INTERVAL;
use accord_types::short_lock::ShortLock;
use accord_types::threads;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A connection that the watchdog checks.
pub(crate) trait Watched: Send + Sync {
    /// Whether a thread is blocked because the peer does not read its bytes.
    fn is_stalled(&self) -> bool;

    /// Checks the peer, every [`POLL_INTERVAL`] while `awaited` or [`Watched::is_stalled`]. `awaited` says whether the program
    /// waits for anything, maybe elsewhere.
    fn check_alive(self: Arc<Self>, awaited: bool);

    /// Handles the loss of another executor of the session: waits for it end.
    fn lost(&self, peer: PeerId, error: &Error);

    /// Handles that the system has no thread for the checks.
    fn unwatched(self: Arc<Self>, error: &std::io::Error);
}

/// All connections of a session.
pub(crate) struct Watchdog {
    /// Silence after which a peer is given up; `None` means never.
    pub(crate) timeout: Option<Duration>,
    waiting: AtomicU32,
    running: AtomicBool,
    watched: ShortLock<Vec<Weak<dyn Watched>>>,
}

/// A long wait of the program, until it is dropped.
pub(crate) struct LongWaitGuard<'a>(&'a Watchdog);

impl Drop for LongWaitGuard<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watchdog {
    pub(crate) fn new(timeout: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            timeout,
            waiting: AtomicU32::new(0),
            running: AtomicBool::new(false),
            watched: ShortLock::default(),
        })
    }

    /// Adds a connection.
    pub(crate) fn add(&self, watched: Weak<dyn Watched>) {
        let mut all = self.watched.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(watched);
    }

    /// Records that the calling thread has waited for a while, and still does.
    pub(crate) fn awaiting(self: &Arc<Self>) -> LongWaitGuard<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.rouse();
        LongWaitGuard(self)
    }

    /// Makes sure that the thread runs, because a thread waits or is blocked.
    pub(crate) fn rouse(self: &Arc<Self>) {
        if self.running.swap(true, Ordering::SeqCst) {
            return;
        }
        let watchdog = self.clone();
        if let Err(error) = threads::spawn("accord-liveness", move || watchdog.run()) {
            self.running.store(false, Ordering::SeqCst);
            self.all().into_iter().for_each(|watched| watched.unwatched(&error));
        }
    }

    /// Reports the loss of an executor to all connections.
    pub(crate) fn report_lost_peer(&self, peer: PeerId, error: &Error) {
        self.all().into_iter().for_each(|watched| watched.lost(peer, error));
    }

    fn run(&self) {
        loop {
            std::thread::sleep(POLL_INTERVAL);
            let awaited = self.waiting.load(Ordering::SeqCst) > 0;
            let all = self.all();
            let stalled = all.iter().any(|watched| watched.is_stalled());
            all.into_iter().for_each(|watched| watched.check_alive(awaited));
            if awaited || stalled {
                continue;
            }
            self.running.store(false, Ordering::SeqCst);
            // A thread that began to wait before the store has relied on this one.
            if self.waiting.load(Ordering::SeqCst) == 0 || self.running.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }

    fn all(&self) -> Vec<Arc<dyn Watched>> {
        let all = self.watched.lock();
        all.iter().filter_map(Weak::upgrade).collect()
    }
}
