//! The queue of lines to standard error. A thread of its own writes them, so that no other thread waits for a stopped
//! terminal or collector. Lines that do not fit are dropped, counted, and reported once there is room again.

use super::line;
use accord_types::threads;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stderr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Most lines in the queue.
const LINES_MAX: usize = 1_024;
/// How long an ending process waits for the queue.
const FLUSH_MAX: Duration = Duration::from_millis(500);
/// Pause between tries to enqueue into a full queue.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);

enum Item {
    Line(String),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// A bounded queue of lines, with a thread that writes them.
pub(super) struct Outbox {
    /// `None` if the system had no thread for it.
    queue: Option<SyncSender<Item>>,
    dropped: AtomicU64,
    /// Called for each line that is dropped.
    on_drop: OnceLock<fn()>,
}

static OUTBOX: OnceLock<Outbox> = OnceLock::new();

/// Returns the process's outbox, whose thread starts at the first call.
pub(super) fn outbox() -> &'static Outbox {
    OUTBOX.get_or_init(|| {
        let (queue, items) = sync_channel(LINES_MAX);
        let thread = threads::spawn("accord-log", move || write_lines(&items));
        Outbox { queue: thread.is_ok().then_some(queue), dropped: AtomicU64::new(0), on_drop: OnceLock::new() }
    })
}

impl Outbox {
    /// Sets the function that is called for each dropped line.
    pub(super) fn count_drops(&self, on_drop: fn()) {
        let _ = self.on_drop.set(on_drop);
    }

    /// Enqueues a line, or drops it if the queue is full.
    pub(super) fn put(&self, line: String) {
        let is_taken = match &self.queue {
            Some(queue) => queue.try_send(Item::Line(line)).is_ok(),
            // Another process may fill the pipe meanwhile; then this call blocks, since there is no thread to write.
            None => has_space() && write(&line),
        };
        if !is_taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.on_drop.get().inspect(|on_drop| on_drop());
        }
    }
}

/// Returns when all lines are written, or after [`FLUSH_MAX`].
pub(super) fn flush() {
    let Some(queue) = OUTBOX.get().and_then(|outbox| outbox.queue.as_ref()) else { return };
    let end = Instant::now() + FLUSH_MAX;
    let (answer, written) = sync_channel(1);
    let mut item = Item::Flush(answer);
    // A full queue has room as soon as a line is written.
    while let Err(refused) = queue.try_send(item) {
        match refused {
            TrySendError::Full(back) if Instant::now() < end => item = back,
            _ => return,
        }
        std::thread::sleep(FLUSH_PAUSE);
    }
    let _ = written.recv_timeout(end.saturating_duration_since(Instant::now()));
}

fn write_lines(items: &Receiver<Item>) {
    for item in items {
        match item {
            Item::Line(line) => {
                write(&line);
                match outbox().dropped.swap(0, Ordering::Relaxed) {
                    0 => {}
                    dropped => {
                        let what = format_args!("{dropped} messages were dropped: standard error took none");
                        write(&line::message("warn", &what));
                    }
                }
            }
            Item::Flush(answer) => {
                let _ = answer.try_send(());
            }
        }
    }
}

/// Whether standard error is ready for writing.
fn has_space() -> bool {
    let (stderr, at_once) = (stderr(), Timespec { tv_sec: 0, tv_nsec: 0 });
    let mut polled = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Writes to the descriptor directly, because other threads would wait for the library's lock. A closed standard error
/// can't be reported anywhere.
fn write(line: &str) -> bool {
    let mut bytes = line.as_bytes();
    while !bytes.is_empty() {
        match rustix::io::write(stderr(), bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            // Another process that shares the descriptor has made it non-blocking.
            Err(Errno::AGAIN) => {
                let stderr = stderr();
                let _ = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], None);
            }
            Err(_) => return false,
        }
    }
    true
}
