//! Bytes of copies in that are asked for: before their streams are there as far as there is room, else in their turn.

use crate::ask_ahead::{AHEAD_MAX, AskAhead};
use crate::executor::broken;
use accord_fabric::link::Link;
use accord_fabric::transfer::{Incoming, TransferControl};
use accord_types::short_lock::ShortLock;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::io::{Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// All of a session's.
pub(crate) struct Asking {
    ahead: ShortLock<AskAhead<Arc<AskedCopy>>>,
}

/// Asks for the bytes of one.
struct AskedCopy {
    transfer: TransferId,
    len: u64,
    link: Arc<Link>,
    /// What the stream wants of the bytes when they come.
    want: AtomicU8,
    /// Until they are asked for.
    to: ShortLock<Option<Sender<Result<Found>>>>,
}

/// Nothing yet: they leave their lane, on which others come behind them.
const LATER: u8 = 0;
/// All of them.
const NOW: u8 = 1;
/// Nothing any more.
const NEVER: u8 = 2;

/// Bytes, as they come to a stream.
enum Found {
    /// They are just coming.
    Lane(Incoming),
    Here(Cursor<Vec<u8>>),
}

/// The bytes of one, for its stream.
pub(crate) struct AskedBytes {
    asking: Arc<Asking>,
    copy: Arc<AskedCopy>,
    from: Receiver<Result<Found>>,
    found: Option<Found>,
}

impl Asking {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { ahead: ShortLock::new(AskAhead::new(AHEAD_MAX)) })
    }

    /// A copy of so many bytes is about to be put into a stream.
    ///
    /// # Errors
    /// Returns an error if there is one with this number: more bytes than there may be could come for the two.
    pub(crate) fn start(self: &Arc<Self>, link: &Arc<Link>, transfer: TransferId, len: u64) -> Result<AskedBytes> {
        let (to, from) = channel();
        let (want, to) = (AtomicU8::new(LATER), ShortLock::new(Some(to)));
        let copy = Arc::new(AskedCopy { transfer, len, link: link.clone(), want, to });
        let mut ahead = self.ahead.lock();
        if ahead.is_open(transfer) {
            return Err(broken(&format!("copy {transfer} was put in twice")));
        }
        let now = ahead.put(transfer, len, copy.clone());
        drop(ahead);
        if let Some(now) = now {
            now.ask();
        }
        Ok(AskedBytes { asking: self.clone(), copy, from, found: None })
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

impl AskedCopy {
    fn ask(self: &Arc<Self>) {
        let Some(to) = self.to.lock().take() else { return };
        let copy = self.clone();
        // Without a session it is dropped, and who waits hears of it.
        let receive = move |incoming| drop(to.send(copy.came(incoming)));
        self.link.inbox().post(self.transfer, self.len, Box::new(receive));
        self.link.control().ready(self.transfer, Vec::new());
    }

    /// On the thread of their lane.
    fn came(&self, mut incoming: Incoming) -> Result<Found> {
        match self.want.load(Ordering::Acquire) {
            LATER => {
                let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(0)];
                incoming.fill(&mut bytes).map(|()| Found::Here(Cursor::new(bytes)))
            }
            NOW => Ok(Found::Lane(incoming)),
            _ => Err(never_came()),
        }
    }
}

impl AskedBytes {
    /// The stream is there: the next bytes.
    ///
    /// # Errors
    /// Returns an error if they don't come.
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
            None => self.from.recv().unwrap_or_else(|_| Err(never_came()))?,
        };
        match self.found.insert(found) {
            Found::Lane(incoming) => incoming.fill(piece),
            Found::Here(bytes) => bytes.read_exact(piece).map_err(|_| never_came()),
        }
    }
}

impl Drop for AskedBytes {
    fn drop(&mut self) {
        self.copy.want.store(NEVER, Ordering::Release);
        self.asking.over(self.copy.transfer);
    }
}

fn never_came() -> Error {
    Error::new(ErrorCode::DeviceShutdown, "the session ended before its bytes came")
}
