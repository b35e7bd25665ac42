//! The owner's side: exports pieces of memory to another process, and notifies it when they are gone.

use super::socket::{Message, Socket};
use super::{Keep, PieceKey};
use crate::memory_handle::MemoryHandle;
use accord_types::DevicePtr;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Weak};
use std::time::Duration;

/// Memory of one device that can be exported to other processes.
pub trait ExportMemory: Send + Sync {
    /// Returns a handle to a range, for the process of `exporter`, which is notified of dropped pieces from now on. Returns
    /// `None` if the range can't be exported, is not mapped as a whole, or has too many pieces.
    fn handle(&self, exporter: &Arc<Exporter>, start: DevicePtr, len: u64) -> Option<MemoryHandle>;

    /// Calls `give` once with the key of a piece, before a notification that it is gone can be sent; not if it is gone. `give` does not block, because locks
    /// may be held.
    fn export(&self, piece: u64, give: &mut dyn FnMut(PieceKey, Keep));

    /// Returns the dropped pieces that other processes still hold.
    fn pending_releases(&self) -> &Arc<PendingReleases>;
}

/// Exports pieces of this process's memory to one other process.
pub struct Exporter {
    socket: Socket,
    state: ShortLock<Exports>,
}

#[derive(Default)]
struct Exports {
    ended: bool,
    /// Ranges known to the other process; an allocation is a range of its own.
    ranges: HashMap<u64, Weak<dyn ExportMemory>>,
    exported: HashMap<u64, Exported>,
}

/// A piece that the other process has.
struct Exported {
    pending: Arc<PendingReleases>,
    dropped: bool,
    /// Dropped when the other process has released the piece.
    keep: Keep,
}

/// The dropped pieces of one device that other processes have not released yet, so that their memory is still in use.
#[derive(Default)]
pub struct PendingReleases {
    count: ShortLock<Count>,
    fewer: Condvar,
}

#[derive(Default)]
struct Count {
    pending: usize,
    returned: u64,
}

impl Exporter {
    /// Creates an exporter without a thread, whose caller must call [`Exporter::serve`]. See [`Exporter::start`].
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket: Socket::new(socket), state: ShortLock::default() }
    }

    /// Exports pieces to the process at the other end of `socket`, which keeps message boundaries (`SOCK_SEQPACKET`), until either side closes it. Returns
    /// `None` if no thread can be started.
    pub fn start(socket: OwnedFd) -> Option<Arc<Self>> {
        let exporter = Arc::new(Self::new(socket));
        let serving = exporter.clone();
        threads::spawn("accord-export", move || serving.serve()).ok().map(|_| exporter)
    }

    /// Returns a handle to `len` bytes at `start`, or `None` if they can't be exported to another process, or the
    /// connection has ended.
    pub fn handle(
        self: &Arc<Self>,
        memory: &Arc<dyn ExportMemory>,
        start: DevicePtr,
        len: u64,
    ) -> Option<MemoryHandle> {
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        state.ranges.retain(|_, known| known.strong_count() > 0);
        drop(state);
        let handle = memory.handle(self, start, len)?;
        self.lock().ranges.entry(handle.range).or_insert_with(|| Arc::downgrade(memory));
        Some(handle)
    }

    /// Ends the connection. The other process then drops its imports.
    pub fn close(&self) {
        self.socket.close();
    }

    /// Answers the other process's requests until either side closes the connection.
    pub fn serve(&self) {
        while let Some(message) = self.socket.receive() {
            match message {
                Message::Ask { range, piece } => self.give(range, piece),
                Message::Released { piece } => self.released(piece),
                // An importer sends no other message.
                Message::Piece { .. } | Message::Dropped { .. } => break,
            }
        }
        self.socket.close();
        let mut state = self.lock();
        state.ended = true;
        state.ranges.clear();
        let exported = std::mem::take(&mut state.exported);
        drop(state);
        exported.into_values().for_each(Exported::released);
    }

    fn give(&self, range: u64, piece: u64) {
        let memory = self.lock().ranges.get(&range).and_then(Weak::upgrade);
        let mut key = None;
        if let Some(memory) = memory {
            // Recorded while the piece can't be dropped, so that its end is notified. The other process handles a notification that arrives first.
            memory.export(piece, &mut |given, keep| {
                let exported = Exported { pending: memory.pending_releases().clone(), dropped: false, keep };
                self.lock().exported.insert(piece, exported);
                key = Some(given);
            });
        }
        self.socket.send(Message::Piece { piece, key });
    }

    fn released(&self, piece: u64) {
        let exported = self.lock().exported.remove(&piece);
        // Dropping the kept value may take long.
        exported.into_iter().for_each(Exported::released);
    }

    /// Records that the memory's owner no longer uses a piece. Returns whether the other process holds it, and so must be notified.
    pub fn dropped(&self, piece: u64) -> bool {
        let mut state = self.lock();
        // A piece that is a range of its own removes the range.
        state.ranges.remove(&piece);
        let Some(exported) = state.exported.get_mut(&piece).filter(|exported| !exported.dropped) else { return false };
        exported.dropped = true;
        exported.pending.more();
        true
    }

    /// Notifies the other process of a dropped piece, for which it may be waiting.
    pub fn notify_dropped(&self, piece: u64) {
        self.socket.send(Message::Dropped { piece });
    }

    fn lock(&self) -> ShortGuard<'_, Exports> {
        self.state.lock()
    }
}

impl Exported {
    /// Records that the other process has released the piece.
    fn released(self) {
        drop(self.keep);
        if self.dropped {
            self.pending.less();
        }
    }
}

impl PendingReleases {
    fn more(&self) {
        self.lock().pending += 1;
    }

    fn less(&self) {
        let mut count = self.lock();
        count.pending -= 1;
        count.returned += 1;
        drop(count);
        self.fewer.notify_all();
    }

    /// Returns the number of pieces released so far.
    pub fn returned(&self) -> u64 {
        self.lock().returned
    }

    /// Blocks until no piece is pending, or until the timeout. Returns whether a piece was released since there were `before`.
    pub fn wait(&self, before: u64, timeout: Duration) -> bool {
        let (count, _) = ShortGuard::wait_timeout_while(self.lock(), &self.fewer, timeout, |count| count.pending > 0);
        count.returned != before
    }

    fn lock(&self) -> ShortGuard<'_, Count> {
        self.count.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_handle::MemoryHandle;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// Memory whose owner holds a lock while it records the receiver of a piece.
    #[derive(Default)]
    struct Locked(ShortLock<u32>, Arc<PendingReleases>);

    impl ExportMemory for Locked {
        fn handle(&self, _: &Arc<Exporter>, _: DevicePtr, len: u64) -> Option<MemoryHandle> {
            let pieces = vec![(1, len)];
            Some(MemoryHandle { range: 3, range_len: len, offset: 0, len, first: 0, pieces })
        }

        fn export(&self, piece: u64, give: &mut dyn FnMut(PieceKey, Keep)) {
            let mut given = self.0.lock();
            *given += 1;
            if piece == 1 {
                give(PieceKey::Allocation([7; PieceKey::ALLOCATION]), None);
            }
        }

        fn pending_releases(&self) -> &Arc<PendingReleases> {
            &self.1
        }
    }

    #[test]
    fn the_owners_locks_are_not_held_while_a_piece_is_sent() {
        let ends = || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (near, far) = ends();
        let (exporter, far) = (Arc::new(Exporter::new(near)), Socket::new(far));
        let memory = Arc::new(Locked::default());
        let known: Arc<dyn ExportMemory> = memory.clone();
        assert!(exporter.handle(&known, DevicePtr(0), 1).is_some());
        for piece in 1..=2 {
            far.send(Message::Ask { range: 3, piece });
        }
        let serving = std::thread::spawn({
            let exporter = exporter.clone();
            move || exporter.serve()
        });
        // If the send happened under the lock, the thread would have panicked.
        assert!(matches!(far.receive(), Some(Message::Piece { piece: 1, key: Some(_) })));
        assert!(matches!(far.receive(), Some(Message::Piece { piece: 2, key: None })), "there is no such piece");
        // Only the holder of a piece is notified of its end, once.
        assert!(exporter.dropped(1) && !exporter.dropped(1) && !exporter.dropped(2));
        exporter.notify_dropped(1);
        assert!(matches!(far.receive(), Some(Message::Dropped { piece: 1 })));
        far.close();
        serving.join().unwrap();
        assert_eq!(*memory.0.lock(), 2);
    }

    #[test]
    fn waits_for_pending_releases_until_they_return() {
        let pending = Arc::<PendingReleases>::default();
        assert!(!pending.wait(pending.returned(), Duration::from_secs(60)), "nothing is pending");
        pending.more();
        pending.more();
        let before = pending.returned();
        let giving = pending.clone();
        let thread = std::thread::spawn(move || {
            giving.less();
            giving.less();
        });
        assert!(pending.wait(before, Duration::from_secs(60)));
        assert_eq!(pending.lock().pending, 0);
        thread.join().unwrap();
        // A release between a failure and the wait counts.
        assert!(pending.wait(before, Duration::from_secs(60)));
        pending.more();
        assert!(!pending.wait(pending.returned(), Duration::from_millis(1)), "it does not come");
    }
}
