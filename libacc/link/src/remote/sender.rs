//! The sending side of the command lane. An operation only appends a frame; the lane's thread sends
//! what has gathered, and whoever is going to wait sends at once.
//!
//! The first few asynchronous operations after a wait are sent by the thread that calls: they
//! start at once, and nobody is woken. If more follow, the lane's thread takes over. It stays awake for a
//! moment after it had something to send, so that a program that puts operations into queues one
//! after the other need not wake it each time.

use super::live::Live;
use accord_fabric::frame;
use accord_fabric::stats::LinkStats;
use accord_types::Result;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long the thread looks for more before it sleeps.
const AWAKE: Duration = Duration::from_millis(1);
/// How often it looks then.
const LOOK: Duration = Duration::from_micros(20);
/// How often it wakes otherwise, for events that nobody waits for: at first, and when nothing happens.
const IDLE_MIN: Duration = Duration::from_millis(10);
const IDLE_MAX: Duration = Duration::from_millis(100);
/// So many operations after a wait are sent by the thread that calls.
const DIRECT: u32 = 3;
/// A buffer this full is sent by the thread that filled it.
pub(super) const FULL: usize = 256 << 10;

/// Who sends.
#[derive(Default)]
pub(super) struct Sender {
    /// Held while sending; an empty buffer, kept for its space.
    write: Mutex<Vec<u8>>,
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
    /// Operations that the calling threads have sent since somebody waited.
    direct: AtomicU32,
}

impl Live {
    /// Sends everything that was appended before.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn flush(&self) -> Result<()> {
        self.flush_some().map(drop)
    }

    /// As [`Live::flush`]. Whether there was anything.
    fn flush_some(&self) -> Result<bool> {
        let mut buffer = self.sender.write.lock().unwrap_or_else(PoisonError::into_inner);
        let mut core = self.core();
        core.check()?;
        if core.frames.is_empty() {
            return Ok(false);
        }
        std::mem::swap(&mut *buffer, &mut core.frames);
        drop(core);
        let sent = frame::write_all(&self.lane, &buffer);
        LinkStats::add(&self.stats.command_sent, buffer.len() as u64);
        buffer.clear();
        drop(buffer);
        if let Err(error) = sent {
            return Err(self.lose(&format!("sending commands failed: {error}")));
        }
        Ok(true)
    }

    /// Has what was appended sent: here, or soon.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn nudge(&self) -> Result<()> {
        if !self.sender.asleep.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.sender.direct.load(Ordering::Relaxed) < DIRECT {
            self.sender.direct.fetch_add(1, Ordering::Relaxed);
            return self.flush();
        }
        if self.sender.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.sender.thread.get()
        {
            thread.unpark();
        }
        Ok(())
    }

    /// Sends everything, since the calling thread is going to wait.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn flush_to_wait(&self) -> Result<()> {
        self.sender.direct.store(0, Ordering::Relaxed);
        self.flush()
    }

    /// The lane's thread: sends, and looks for events that nobody waits for. Ends with the link.
    pub(super) fn send_and_look(self: &Arc<Self>) {
        let _ = self.sender.thread.set(std::thread::current());
        let mut idle = IDLE_MIN;
        loop {
            let mut last = Instant::now();
            loop {
                match self.flush_some() {
                    Ok(true) => last = Instant::now(),
                    Ok(false) if last.elapsed() > AWAKE => break,
                    Ok(false) => {}
                    Err(_) => return,
                }
                std::thread::sleep(LOOK);
            }
            self.sender.asleep.store(true, Ordering::SeqCst);
            loop {
                let core = self.core();
                if core.lost.is_some() {
                    return;
                }
                // Appended before `asleep` could be seen.
                let more = !core.frames.is_empty();
                drop(core);
                if more || !self.sender.asleep.load(Ordering::Acquire) {
                    break;
                }
                std::thread::park_timeout(idle);
                idle = if self.look() { IDLE_MIN } else { (idle * 2).min(IDLE_MAX) };
            }
            self.sender.asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Wakes the lane's thread so that it sees that the link is gone.
    pub(super) fn wake_sender(&self) {
        if let Some(thread) = self.sender.thread.get() {
            thread.unpark();
        }
    }
}
