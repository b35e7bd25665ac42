//! The owner's side: gives pieces of memory to another process, and tells it when they are gone.

use super::socket::{Message, Socket};
use super::{Keep, PieceKey};
use crate::memory_handle::MemoryHandle;
use accord_types::DevicePtr;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Memory of one device that other processes can be given.
pub trait ExportMemory: Send + Sync {
    /// Where a range is, for the process that `exporter` gives pieces to, which hears of pieces that are dropped from now on. None if
    /// the range can't be given away, is not mapped as a whole, or is in too many pieces.
    fn handle(&self, exporter: &Arc<Exporter>, start: DevicePtr, len: u64) -> Option<MemoryHandle>;

    /// Calls `give` once with what opens a piece, before anybody can be told that it is gone; with none if it is.
    fn export(&self, piece: u64, give: &mut dyn FnMut(Option<(PieceKey, Keep)>));

    /// Pieces that were dropped, and that other processes still have.
    fn pending_releases(&self) -> &Arc<PendingReleases>;
}

/// Gives pieces of this process's memory to one other process.
pub struct Exporter {
    socket: Socket,
    state: Mutex<Exports>,
}

#[derive(Default)]
struct Exports {
    ended: bool,
    /// Ranges of which the other process knows; an allocation is one of its own.
    ranges: HashMap<u64, Weak<dyn ExportMemory>>,
    exported: HashMap<u64, Exported>,
}

/// A piece that the other process has.
struct Exported {
    pending: Arc<PendingReleases>,
    dropped: bool,
    /// Goes when the other process has no use for the piece any more.
    keep: Keep,
}

/// Pieces of one device that were dropped and are not released by other processes yet: their memory is still taken.
#[derive(Default)]
pub struct PendingReleases {
    count: Mutex<Count>,
    fewer: Condvar,
}

#[derive(Default)]
struct Count {
    pending: usize,
    returned: u64,
}

impl Exporter {
    /// The same without a thread: somebody has to [`Exporter::serve`].
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket: Socket::new(socket), state: Mutex::default() }
    }

    /// Gives pieces to the process at the other end of `socket`, which keeps messages whole (`SOCK_SEQPACKET`), until one of the
    /// sides closes it. None if there is no thread for that.
    pub fn start(socket: OwnedFd) -> Option<Arc<Self>> {
        let exporter = Arc::new(Self::new(socket));
        let serving = exporter.clone();
        let thread = std::thread::Builder::new().name("accord-export".to_owned());
        thread.spawn(move || serving.serve()).ok().map(|_| exporter)
    }

    /// Where `len` bytes at `start` are. None if they can't be exported to another process, or the connection has ended.
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
        if let MemoryHandle::CudaIpc(handle) = &handle {
            self.lock().ranges.entry(handle.range).or_insert_with(|| Arc::downgrade(memory));
        }
        Some(handle)
    }

    /// Ends the connection. The other process drops what it has.
    pub fn close(&self) {
        self.socket.close();
    }

    /// Does what the other process asks for, until one of the sides closes the connection.
    pub fn serve(&self) {
        while let Some(message) = self.socket.receive() {
            match message {
                Message::Ask { range, piece } => self.give(range, piece),
                Message::Released { piece } => self.released(piece),
                // An importer says nothing else.
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
        let Some(memory) = memory else { return self.socket.send(Message::Piece { piece, key: None }) };
        memory.export(piece, &mut |export| {
            let key = export.map(|(key, keep)| {
                let exported = Exported { pending: memory.pending_releases().clone(), dropped: false, keep };
                self.lock().exported.insert(piece, exported);
                key
            });
            self.socket.send(Message::Piece { piece, key });
        });
    }

    fn released(&self, piece: u64) {
        let exported = self.lock().exported.remove(&piece);
        // What goes with it may take its time.
        exported.into_iter().for_each(Exported::released);
    }

    /// The memory's owner does not use a piece any more.
    pub(crate) fn dropped(&self, piece: u64) {
        let mut state = self.lock();
        // A piece that is a range of its own goes with it.
        state.ranges.remove(&piece);
        let Some(exported) = state.exported.get_mut(&piece).filter(|exported| !exported.dropped) else { return };
        exported.dropped = true;
        exported.pending.more();
        drop(state);
        self.socket.send(Message::Dropped { piece });
    }

    fn lock(&self) -> MutexGuard<'_, Exports> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Exported {
    /// The other process has no use for it any more.
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

    /// Number of pieces that have come back so far.
    pub(crate) fn returned(&self) -> u64 {
        self.lock().returned
    }

    /// Waits until nothing is pending any more, or for the timeout. Whether something has come back since there were `before`.
    pub(crate) fn wait(&self, before: u64, timeout: Duration) -> bool {
        let waited = self.fewer.wait_timeout_while(self.lock(), timeout, |count| count.pending > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.returned != before
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_waited_for_until_it_has_come_back() {
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
        // What came back between a failure and the wait counts.
        assert!(pending.wait(before, Duration::from_secs(60)));
        pending.more();
        assert!(!pending.wait(pending.returned(), Duration::from_millis(1)), "it does not come");
    }
}
