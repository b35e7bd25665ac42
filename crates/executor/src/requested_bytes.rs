//! Requests the bytes of copies in: ahead of their streams as far as there is space, otherwise in their turn.

use crate::executor::broken;
use crate::request_window::{AHEAD_MAX, RequestWindow};
use accord_fabric::link::Link;
use accord_fabric::transfer::{ControlMessage, Incoming, TransferControl};
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// All of a session's.
pub(crate) struct TransferRequests {
    ahead: ShortLock<RequestWindow<Arc<RequestedCopy>>>,
}

/// A copy that requests its bytes.
struct RequestedCopy {
    transfer: TransferId,
    len: u64,
    link: Arc<Link>,
    /// What the stream needs of the bytes when they arrive.
    want: AtomicU8,
    /// Set until the bytes are requested.
    to: ShortLock<Option<Sender<Result<Found>>>>,
}

/// The stream has not reached the copy: the bytes are buffered, to free their lane for later ones.
const LATER: u8 = 0;
/// The stream waits for the bytes.
const NOW: u8 = 1;
/// The stream no longer needs the bytes.
const NEVER: u8 = 2;

/// Bytes as a stream receives them.
enum Found {
    /// On their lane.
    Lane(Incoming),
    Here(Cursor<Vec<u8>>),
}

/// The bytes of one copy, for its stream.
pub(crate) struct RequestedBytes {
    asking: Arc<TransferRequests>,
    copy: Arc<RequestedCopy>,
    from: Receiver<Result<Found>>,
    found: Option<Found>,
}

impl TransferRequests {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { ahead: ShortLock::new(RequestWindow::new(AHEAD_MAX)) })
    }

    /// Registers a copy of so many bytes that is about to be put into a stream.
    ///
    /// # Errors
    /// Returns an error if a copy with this number exists: the bytes of both could exceed the bound.
    pub(crate) fn start(self: &Arc<Self>, link: &Arc<Link>, transfer: TransferId, len: u64) -> Result<RequestedBytes> {
        let (to, from) = channel();
        let (want, to) = (AtomicU8::new(LATER), ShortLock::new(Some(to)));
        let copy = Arc::new(RequestedCopy { transfer, len, link: link.clone(), want, to });
        let mut ahead = self.ahead.lock();
        if ahead.is_open(transfer) {
            return Err(broken(&format!("copy {transfer} was put in twice")));
        }
        let now = ahead.put(transfer, len, copy.clone());
        drop(ahead);
        if let Some(now) = now {
            now.ask();
        }
        Ok(RequestedBytes { asking: self.clone(), copy, from, found: None })
    }

    fn over(&self, transfer: TransferId) {
        self.ahead.lock().over(transfer);
        loop {
            let next = self.ahead.lock().next_to_ask();
            let Some(next) = next else { return };
            next.ask();
        }
    }
}

impl RequestedCopy {
    fn ask(self: &Arc<Self>) {
        let Some(to) = self.to.lock().take() else { return };
        let copy = self.clone();
        // The inbox of a lost session drops the callback, which ends the wait of its receiver.
        let receive = move |incoming| drop(to.send(copy.received(incoming)));
        self.link.inbox().post(self.transfer, self.len, Box::new(receive));
        self.link.control().send(ControlMessage::Ready(self.transfer, Vec::new()));
    }

    /// Receives the bytes, on their lane's thread.
    fn received(&self, mut incoming: Incoming) -> Result<Found> {
        match self.want.load(Ordering::Acquire) {
            LATER => {
                let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
                incoming.fill(&mut bytes).map(|()| Found::Here(Cursor::new(bytes)))
            }
            NOW => Ok(Found::Lane(incoming)),
            _ => Err(never_arrived()),
        }
    }
}

impl RequestedBytes {
    /// Reads the next bytes. Called once the stream has reached the copy.
    ///
    /// # Errors
    /// Returns an error if the bytes do not arrive.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) -> Result<()> {
        if self.found.is_none() {
            self.copy.want.store(NOW, Ordering::Release);
            let turn = self.asking.ahead.lock().turn(self.copy.transfer);
            if let Some(copy) = turn {
                copy.ask();
            }
        }
        let found = match self.found.take() {
            Some(found) => found,
            None => self.from.recv().unwrap_or_else(|_| Err(never_arrived()))?,
        };
        match self.found.insert(found) {
            Found::Lane(incoming) => incoming.fill(piece),
            Found::Here(bytes) => bytes.read_exact(piece).map_err(|_| never_arrived()),
        }
    }
}

impl Drop for RequestedBytes {
    fn drop(&mut self) {
        self.copy.want.store(NEVER, Ordering::Release);
        self.asking.over(self.copy.transfer);
    }
}

fn never_arrived() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the session ended before its bytes came")
}
