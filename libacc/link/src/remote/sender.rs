//! The sending side of the command lane. An operation only appends a frame.
//!
//! Who sends it is a question of what the program is about to do. If it waits, its wait sends all in
//! one go. If it doesn't, an operation should start at once; and if it puts one operation after
//! the other into queues, it should not pay for sending each. So:
//!
//! * As long as waits follow upon operations, operations are left to them. The lane's thread looks in
//!   and sends what has become old.
//! * Else the first few operations after a wait are sent by the thread that calls, and the lane's
//!   thread sends the rest.
//!
//! The lane's thread looks in as long as there is something to do, so that it need not be woken each time.

use super::core::Core;
use super::live::Live;
use accord_fabric::frame;
use accord_fabric::stats::LinkStats;
use accord_types::Result;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How often the thread looks while it finds something to send, and while it doesn't.
const LOOK_BUSY: Duration = Duration::from_micros(20);
const LOOK_IDLE: Duration = Duration::from_micros(150);
/// How long it looks without anything new before it sleeps.
const AWAKE: Duration = Duration::from_millis(2);
/// Frames this old are sent by the thread: no wait has followed.
const OLD: Duration = Duration::from_micros(50);
/// A wait that comes so soon after an operation follows upon it.
const FOLLOWS: Duration = Duration::from_micros(20);
/// So many of those in a row are a habit.
const HABIT: u32 = 2;
/// So many operations after a wait are sent by the thread that calls.
const DIRECT: u32 = 3;
/// How often the thread wakes otherwise, for events that nobody waits for: at first, and when nothing happens.
const WAKE_MIN: Duration = Duration::from_millis(10);
const WAKE_MAX: Duration = Duration::from_millis(100);
/// A buffer this full is sent by the thread that filled it.
const FULL: usize = 256 << 10;

/// Who sends.
#[derive(Default)]
pub(super) struct Sender {
    /// Held while sending; an empty buffer, kept for its space.
    write: Mutex<Vec<u8>>,
    thread: OnceLock<Thread>,
    asleep: AtomicBool,
}

/// What the program did lately, kept with the frames.
#[derive(Default)]
pub(super) struct Habits {
    /// When the first and the last of the frames that wait was appended.
    first: Option<Instant>,
    last: Option<Instant>,
    /// Waits in a row that followed upon operations.
    followed: u32,
    /// Operations that calling threads have sent since the last wait.
    direct: u32,
    /// Frames appended so far.
    appended: u64,
}

impl Habits {
    /// A frame was appended.
    pub(super) fn append(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
        self.appended += 1;
    }

    /// The program is about to wait.
    pub(super) fn wait(&mut self) {
        self.followed = match self.last {
            Some(last) if last.elapsed() < FOLLOWS => self.followed.saturating_add(1),
            _ => 0,
        };
        self.direct = 0;
    }

    /// Whether the calling thread had better send.
    fn direct(&mut self) -> bool {
        let direct = self.followed < HABIT && self.direct < DIRECT;
        self.direct += u32::from(direct);
        direct
    }
}

impl Live {
    /// Sends everything that was appended before.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn flush(&self) -> Result<()> {
        let mut buffer = self.sender.write.lock().unwrap_or_else(PoisonError::into_inner);
        let mut core = self.core();
        core.check()?;
        if core.frames.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut *buffer, &mut core.frames);
        core.habits.first = None;
        drop(core);
        let sent = frame::write_all(&self.lane, &buffer);
        LinkStats::add(&self.stats.command_sent, buffer.len() as u64);
        buffer.clear();
        drop(buffer);
        sent.map_err(|error| self.lose(&format!("sending commands failed: {error}")))
    }

    /// An asynchronous operation was appended last: has it sent now or soon.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn send_soon(&self, mut core: MutexGuard<'_, Core>) -> Result<()> {
        let direct = core.frames.len() >= FULL || core.habits.direct();
        drop(core);
        if direct {
            return self.flush();
        }
        if self.sender.asleep.load(Ordering::Acquire)
            && self.sender.asleep.swap(false, Ordering::AcqRel)
            && let Some(thread) = self.sender.thread.get()
        {
            thread.unpark();
        }
        Ok(())
    }

    /// A synchronous operation was appended last. It is waited for next, and sent by that; the
    /// lane's thread sends it should that not be so.
    ///
    /// # Errors
    /// When the link is lost.
    pub(super) fn send_with_wait(&self, core: MutexGuard<'_, Core>) -> Result<()> {
        let full = core.frames.len() >= FULL;
        drop(core);
        if full { self.flush() } else { Ok(()) }
    }

    /// The lane's thread: sends, and looks for events that nobody waits for. Ends with the link.
    pub(super) fn send_and_look(self: &Arc<Self>) {
        let _ = self.sender.thread.set(std::thread::current());
        let mut wake = WAKE_MIN;
        while self.send_while_busy() {
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
                // A copy in that waits for what comes in an event must not wait for long.
                let holding = self.landings.is_holding();
                std::thread::park_timeout(if holding { LOOK_IDLE } else { wake });
                wake = if self.look() { WAKE_MIN } else { (wake * 2).min(WAKE_MAX) };
            }
            self.sender.asleep.store(false, Ordering::SeqCst);
        }
    }

    /// Sends what becomes old, until nothing new comes. False once the link is lost.
    fn send_while_busy(&self) -> bool {
        let (mut seen, mut since, mut pause) = (0, Instant::now(), LOOK_IDLE);
        loop {
            std::thread::sleep(pause);
            if self.landings.is_holding() {
                self.look();
            }
            let mut core = self.core();
            if core.lost.is_some() {
                return false;
            }
            if core.habits.appended != seen {
                seen = core.habits.appended;
                since = Instant::now();
            }
            pause = LOOK_IDLE;
            match core.habits.first {
                Some(first) if first.elapsed() >= OLD => {
                    core.habits.followed = 0;
                    drop(core);
                    if self.flush().is_err() {
                        return false;
                    }
                    pause = LOOK_BUSY;
                }
                None if since.elapsed() > AWAKE => return true,
                _ => {}
            }
        }
    }

    /// Wakes the lane's thread so that it sees that the link is gone.
    pub(super) fn wake_sender(&self) {
        if let Some(thread) = self.sender.thread.get() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_left_to_waits_that_follow_them() {
        let mut habits = Habits::default();
        let mut sent = 0;
        for _ in 0..20 {
            habits.append();
            sent += u32::from(habits.direct());
            // Not measured: the test may be held up between the two.
            habits.last = Some(Instant::now());
            habits.wait();
        }
        assert_eq!(sent, HABIT);
    }

    #[test]
    fn the_first_few_operations_are_sent_at_once_where_no_waits_follow() {
        let mut habits = Habits::default();
        for _ in 0..3 {
            let sent = (0..10).filter(|_| {
                habits.append();
                habits.direct()
            });
            assert_eq!(sent.count(), DIRECT as usize);
            habits.last = Instant::now().checked_sub(Duration::from_secs(1));
            habits.wait();
        }
    }
}
