//! The importing side: maps pieces of another process's memory for the devices of this one.

use super::socket::{Message, Socket};
use super::{PieceKey, next_id};
use crate::memory_handle::MemoryHandle;
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::threads;
use accord_types::turn_lock::TurnLock;
use accord_types::{DevicePtr, Error};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Weak};
use std::time::Duration;

/// The time limit of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A piece of another process's memory: its offset in the range, number and length.
pub type Piece = (u64, u64, u64);

/// One device's imports of other processes' memory: a mirror of each range, with each piece at its offset in the range.
/// `importer` is the number of the importer that provides the pieces.
pub trait ImportMemory: Send + Sync {
    /// Returns the device's name in notes for people.
    fn device_name(&self) -> String;

    /// Returns the pieces of a memory handle that are not mapped, and removes others in their place. Returns `None` if some can't be removed yet, there are
    /// too many, or the device has ended.
    fn missing(&self, importer: u64, handle: &MemoryHandle) -> Option<Vec<Piece>>;

    /// Maps a piece from [`ImportMemory::missing`].
    ///
    /// # Errors
    /// Returns an error if the device has ended, or the driver refuses.
    fn map(&self, importer: u64, handle: &MemoryHandle, piece: Piece, key: &PieceKey) -> Result<(), Error>;

    /// Keeps the pieces of a memory handle until [`ImportMemory::release`]. Returns `None` if some are not mapped.
    fn hold(&self, importer: u64, handle: &MemoryHandle) -> Option<Held>;

    /// Records the end of a copy. Returns the numbers of pieces that were unmapped after it.
    fn release(&self, held: &Held) -> Vec<u64>;

    /// Records that the owner no longer uses a piece. Returns `false` if it can't be unmapped yet.
    fn dropped(&self, importer: u64, id: u64) -> bool;

    /// Whether a piece is mapped.
    fn has(&self, importer: u64, id: u64) -> bool;

    /// Records that an importer has ended, whose pieces are not used again.
    fn forget(&self, importer: u64);
}

/// Pieces that a copy needs, and their mapping in this process.
pub struct Held {
    /// First byte, for the device that accesses it.
    pub address: DevicePtr,
    /// The importer that brought the range's pieces, and the range.
    pub range: (u64, u64),
    /// The pieces, by their offsets in the range.
    pub offsets: Vec<u64>,
}

/// Informs the user, at most once per device, why copies to a process can't be direct.
type Note = Box<dyn Fn(&str) + Send + Sync>;

/// Imports pieces of one other process's memory.
pub struct Importer {
    id: u64,
    socket: Socket,
    note: Note,
    /// Held by the thread that imports pieces.
    turn: TurnLock<()>,
    state: ShortLock<Imports>,
    changed: Condvar,
}

#[derive(Default)]
struct Imports {
    ended: bool,
    /// Devices for which pieces were mapped.
    devices: Vec<Weak<dyn ImportMemory>>,
    /// Devices whose driver has refused.
    refused: Vec<Weak<dyn ImportMemory>>,
    question: Option<Question>,
}

/// A piece that is being brought.
struct Question {
    piece: u64,
    answer: Option<Option<PieceKey>>,
    /// Whether the owner has freed the piece meanwhile.
    dropped: bool,
}

/// Memory of another process that a device of this one can access, for one copy.
pub struct MappedRange {
    held: Held,
    imports: Arc<dyn ImportMemory>,
    importer: Arc<Importer>,
}

impl Importer {
    /// Creates an importer without a thread, whose caller must call [`Importer::serve`]. See [`Importer::start`].
    pub fn new(socket: OwnedFd, note: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            id: next_id(),
            socket: Socket::new(socket),
            note: Box::new(note),
            turn: TurnLock::default(),
            state: ShortLock::default(),
            changed: Condvar::new(),
        }
    }

    /// Imports pieces from the process at the other end of `socket`, which keeps message boundaries (`SOCK_SEQPACKET`), until either side closes it. `note`
    /// gets the reason once for each device that can't import. Returns `None` if no thread can be started.
    pub fn start(socket: OwnedFd, note: impl Fn(&str) + Send + Sync + 'static) -> Option<Arc<Self>> {
        let importer = Arc::new(Self::new(socket, note));
        let serving = importer.clone();
        threads::spawn("accord-import", move || serving.serve()).ok().map(|_| importer)
    }

    /// Makes a memory handle of the other process accessible to `device`, importing missing pieces. Returns `None` if that is impossible now or for ever, so
    /// that the bytes must go another way.
    pub fn map(self: &Arc<Self>, imports: &Arc<dyn ImportMemory>, handle: &MemoryHandle) -> Option<MappedRange> {
        let _turn = self.turn.take();
        {
            let mut state = self.lock();
            if state.ended || is_among(imports, &state.refused) {
                return None;
            }
            state.devices.retain(|known| known.strong_count() > 0);
            if !is_among(imports, &state.devices) {
                state.devices.push(Arc::downgrade(imports));
            }
        }
        for piece in imports.missing(self.id, handle)? {
            self.bring(imports, handle, piece)?;
        }
        let held = imports.hold(self.id, handle)?;
        Some(MappedRange { held, imports: imports.clone(), importer: self.clone() })
    }

    /// Ends the connection, and unmaps imported pieces.
    pub fn close(&self) {
        self.socket.close();
    }

    fn bring(&self, imports: &Arc<dyn ImportMemory>, handle: &MemoryHandle, piece: Piece) -> Option<()> {
        let (_, id, _) = piece;
        let mut state = self.lock();
        state.question = Some(Question { piece: id, answer: None, dropped: false });
        drop(state);
        self.socket.send(Message::Ask { range: handle.range, piece: id });
        let unanswered = |state: &mut Imports| {
            !state.ended && state.question.as_ref().is_some_and(|question| question.answer.is_none())
        };
        let (mut state, is_late) =
            ShortGuard::wait_timeout_while(self.lock(), &self.changed, ANSWER_TIMEOUT, unanswered);
        let answer = state.question.as_mut().and_then(|question| question.answer.take());
        drop(state);
        if is_late {
            self.socket.close();
        }
        let outcome = answer.flatten().map(|key| imports.map(self.id, handle, piece, &key));
        let mut state = self.lock();
        let overtaken = state.question.take().is_none_or(|question| question.dropped);
        if let Some(Err(_)) = outcome {
            state.refused.push(Arc::downgrade(imports));
        }
        let ended = state.ended;
        drop(state);
        if ended {
            imports.forget(self.id);
        } else if overtaken {
            self.dropped(id);
        }
        match outcome {
            Some(Ok(())) if !overtaken && !ended => Some(()),
            Some(Err(error)) => {
                (self.note)(&format!(
                    "{} can't reach memory of another process: {}",
                    imports.device_name(),
                    error.cause()
                ));
                None
            }
            _ => None,
        }
    }

    /// Handles the other process's messages until either side closes the connection.
    pub fn serve(&self) {
        while let Some(message) = self.socket.receive() {
            match message {
                Message::Piece { piece, key } => {
                    let mut state = self.lock();
                    // The answer to an abandoned question is ignored.
                    if let Some(question) = state.question.as_mut().filter(|question| question.piece == piece) {
                        question.answer = Some(key);
                    }
                    drop(state);
                    self.changed.notify_all();
                }
                Message::Dropped { piece } => {
                    let mut state = self.lock();
                    match state.question.as_mut().filter(|question| question.piece == piece) {
                        Some(question) => question.dropped = true,
                        None => {
                            drop(state);
                            self.dropped(piece);
                        }
                    }
                }
                // An exporter sends no other message.
                Message::Ask { .. } | Message::Released { .. } => break,
            }
        }
        self.socket.close();
        let mut state = self.lock();
        state.ended = true;
        let devices = std::mem::take(&mut state.devices);
        drop(state);
        self.changed.notify_all();
        devices.iter().filter_map(Weak::upgrade).for_each(|imports| imports.forget(self.id));
    }

    /// Handles the notification that the owner no longer uses a piece.
    fn dropped(&self, piece: u64) {
        let mut gone = true;
        for imports in self.devices() {
            gone &= imports.dropped(self.id, piece);
        }
        if gone {
            self.socket.send(Message::Released { piece });
        }
    }

    fn devices(&self) -> Vec<Arc<dyn ImportMemory>> {
        self.lock().devices.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> ShortGuard<'_, Imports> {
        self.state.lock()
    }
}

fn is_among(imports: &Arc<dyn ImportMemory>, known: &[Weak<dyn ImportMemory>]) -> bool {
    known.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(imports)))
}

impl MappedRange {
    /// Returns the first byte's address, for the device that accesses it.
    pub fn address(&self) -> DevicePtr {
        self.held.address
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        for piece in self.imports.release(&self.held) {
            if !self.importer.devices().iter().any(|imports| imports.has(self.importer.id, piece)) {
                self.importer.socket.send(Message::Released { piece });
            }
        }
    }
}
