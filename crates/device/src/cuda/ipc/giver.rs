//! The owner's side: gives pieces of memory to another process, and tells it when they are gone.

use super::place::Place;
use super::socket::{Message, Socket};
use crate::cuda::CudaDevice;
use crate::cuda::memory::Memory;
use accord_types::DevicePtr;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Gives pieces of this process's memory to one other process.
pub struct Giver {
    socket: Socket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: bool,
    /// Ranges of which the other process knows.
    ranges: HashMap<u64, Weak<Memory>>,
    given: HashMap<u64, Given>,
}

/// A piece that the other process has.
struct Given {
    owed: Arc<Owed>,
    dropped: bool,
}

/// Pieces of one device that were dropped and are not released by other processes yet: their memory is still taken.
#[derive(Default)]
pub(crate) struct Owed {
    count: Mutex<Count>,
    fewer: Condvar,
}

#[derive(Default)]
struct Count {
    owed: usize,
    returned: u64,
}

impl Giver {
    /// Gives pieces to the process at the other end of `socket`, which keeps messages whole (`SOCK_SEQPACKET`), until one of the
    /// sides closes it. None if there is no thread for that.
    pub fn start(socket: OwnedFd) -> Option<Arc<Self>> {
        let giver = Arc::new(Self { socket: Socket::new(socket), state: Mutex::default() });
        let serving = giver.clone();
        let thread = std::thread::Builder::new().name("accord-give".to_owned());
        thread.spawn(move || serving.serve()).ok().map(|_| giver)
    }

    /// Where `len` bytes at `start` are. None if they can't be given to another process, or the connection has ended.
    pub fn place(self: &Arc<Self>, device: &CudaDevice, start: DevicePtr, len: u64) -> Option<Place> {
        let memory = device.memory();
        let mut state = self.lock();
        if state.ended {
            return None;
        }
        state.ranges.retain(|_, known| known.strong_count() > 0);
        state.ranges.entry(memory.id()).or_insert_with(|| Arc::downgrade(memory));
        drop(state);
        memory.place(self, start, len)
    }

    /// Ends the connection. The other process drops what it has.
    pub fn close(&self) {
        self.socket.close();
    }

    fn serve(&self) {
        while let Some(message) = self.socket.receive() {
            match message {
                Message::Ask { range, piece } => self.give(range, piece),
                Message::Released { piece } => self.released(piece),
                // A taker says nothing else.
                Message::Piece { .. } | Message::Dropped { .. } => break,
            }
        }
        self.socket.close();
        let mut state = self.lock();
        state.ended = true;
        state.ranges.clear();
        let given = std::mem::take(&mut state.given);
        drop(state);
        given.values().filter(|given| given.dropped).for_each(|given| given.owed.less());
    }

    fn give(&self, range: u64, piece: u64) {
        let memory = self.lock().ranges.get(&range).and_then(Weak::upgrade);
        let Some(memory) = memory else { return self.socket.send(Message::Piece { piece, descriptor: None }) };
        memory.export(piece, |descriptor| {
            if descriptor.is_some() {
                let given = Given { owed: memory.owed().clone(), dropped: false };
                self.lock().given.insert(piece, given);
            }
            self.socket.send(Message::Piece { piece, descriptor });
        });
    }

    fn released(&self, piece: u64) {
        if let Some(given) = self.lock().given.remove(&piece)
            && given.dropped
        {
            given.owed.less();
        }
    }

    /// The memory's owner does not use a piece any more.
    pub(crate) fn dropped(&self, piece: u64) {
        let mut state = self.lock();
        let Some(given) = state.given.get_mut(&piece).filter(|given| !given.dropped) else { return };
        given.dropped = true;
        given.owed.more();
        drop(state);
        self.socket.send(Message::Dropped { piece });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owed {
    fn more(&self) {
        self.lock().owed += 1;
    }

    fn less(&self) {
        let mut count = self.lock();
        count.owed -= 1;
        count.returned += 1;
        drop(count);
        self.fewer.notify_all();
    }

    /// Number of pieces that have come back so far.
    pub(crate) fn returned(&self) -> u64 {
        self.lock().returned
    }

    /// Waits until nothing is owed any more, or for the timeout. Whether something has come back since there were `before`.
    pub(crate) fn wait(&self, before: u64, timeout: Duration) -> bool {
        let waited = self.fewer.wait_timeout_while(self.lock(), timeout, |count| count.owed > 0);
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
        let owed = Arc::<Owed>::default();
        assert!(!owed.wait(owed.returned(), Duration::from_secs(60)), "nothing is owed");
        owed.more();
        owed.more();
        let before = owed.returned();
        let giving = owed.clone();
        let thread = std::thread::spawn(move || {
            giving.less();
            giving.less();
        });
        assert!(owed.wait(before, Duration::from_secs(60)));
        assert_eq!(owed.lock().owed, 0);
        thread.join().unwrap();
        // What came back between a failure and the wait counts.
        assert!(owed.wait(before, Duration::from_secs(60)));
        owed.more();
        assert!(!owed.wait(owed.returned(), Duration::from_millis(1)), "it does not come");
    }
}
