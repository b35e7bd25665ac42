//! The other side: takes pieces of another process's memory, and maps them for the devices of this one.

use super::imports::{Held, Imports};
use super::next_id;
use super::place::Place;
use super::socket::{Message, Socket};
use crate::cuda::CudaDevice;
use cudarc::driver::sys::CUdeviceptr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How long a question may go without an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Says for people why copies to a process can't go directly: once, if ever.
type Note = Box<dyn Fn(&str) + Send + Sync>;

/// Takes pieces of one other process's memory.
pub struct Taker {
    id: u64,
    socket: Socket,
    note: Note,
    /// Held by whoever brings pieces here.
    turn: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ended: bool,
    /// Devices that something was mapped for.
    devices: Vec<Weak<Imports>>,
    /// Devices for which the driver has refused, by its numbers.
    refused: Vec<i32>,
    question: Option<Question>,
}

/// A piece that is being brought.
struct Question {
    piece: u64,
    answer: Option<Option<OwnedFd>>,
    /// Its owner has given it up meanwhile.
    dropped: bool,
}

/// Memory of another process that a device of this one reaches, for one copy.
pub struct Reached {
    held: Held,
    imports: Arc<Imports>,
    taker: Arc<Taker>,
}

impl Taker {
    /// Takes pieces from the process at the other end of `socket`, which keeps messages whole (`SOCK_SEQPACKET`), until one of the
    /// sides closes it. `note` is told, once for each device that can't take part, why not. None if there is no thread for that.
    pub fn start(socket: OwnedFd, note: impl Fn(&str) + Send + Sync + 'static) -> Option<Arc<Self>> {
        let taker = Arc::new(Self {
            id: next_id(),
            socket: Socket::new(socket),
            note: Box::new(note),
            turn: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let serving = taker.clone();
        let thread = std::thread::Builder::new().name("accord-take".to_owned());
        thread.spawn(move || serving.serve()).ok().map(|_| taker)
    }

    /// Makes a place of the other process reachable for `device`, which brings pieces here that are not yet. None if that can't
    /// be, now or ever: then the bytes have to go another way.
    pub fn reach(self: &Arc<Self>, device: &CudaDevice, place: &Place) -> Option<Reached> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let imports = device.imports();
        {
            let mut state = self.lock();
            if state.ended || state.refused.contains(&device.raw_device()) {
                return None;
            }
            state.devices.retain(|known| known.strong_count() > 0);
            if !state.devices.iter().any(|known| known.as_ptr() == Arc::as_ptr(imports)) {
                state.devices.push(Arc::downgrade(imports));
            }
        }
        for piece in imports.missing(self.id, place)? {
            self.bring(device, place, piece)?;
        }
        let held = imports.hold(self.id, place)?;
        Some(Reached { held, imports: imports.clone(), taker: self.clone() })
    }

    /// Ends the connection; what was taken is unmapped.
    pub fn close(&self) {
        self.socket.close();
    }

    fn bring(&self, device: &CudaDevice, place: &Place, piece: (u64, u64, u64)) -> Option<()> {
        let (_, id, _) = piece;
        let mut state = self.lock();
        state.question = Some(Question { piece: id, answer: None, dropped: false });
        drop(state);
        self.socket.send(Message::Ask { range: place.range, piece: id });
        let unanswered = |state: &mut State| {
            !state.ended && state.question.as_ref().is_some_and(|question| question.answer.is_none())
        };
        let waited = self.changed.wait_timeout_while(self.lock(), ANSWER_TIMEOUT, unanswered);
        let (mut state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let answer = state.question.as_mut().and_then(|question| question.answer.take());
        drop(state);
        if timeout.timed_out() {
            self.socket.close();
        }
        let outcome = answer.flatten().map(|descriptor| device.imports().map(self.id, place, piece, &descriptor));
        let mut state = self.lock();
        let overtaken = state.question.take().is_none_or(|question| question.dropped);
        if let Some(Err(_)) = outcome {
            state.refused.push(device.raw_device());
        }
        let ended = state.ended;
        drop(state);
        if ended {
            device.imports().forget(self.id);
        } else if overtaken {
            self.dropped(id);
        }
        match outcome {
            Some(Ok(())) if !overtaken && !ended => Some(()),
            Some(Err(error)) => {
                (self.note)(&format!("GPU {} can't reach memory of another process: {error}", device.raw_device()));
                None
            }
            _ => None,
        }
    }

    fn serve(&self) {
        while let Some(message) = self.socket.receive() {
            match message {
                Message::Piece { piece, descriptor } => {
                    let mut state = self.lock();
                    // The answer to a question that was given up is of no use.
                    if let Some(question) = state.question.as_mut().filter(|question| question.piece == piece) {
                        question.answer = Some(descriptor);
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
                // A giver says nothing else.
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

    /// The owner does not use a piece any more.
    fn dropped(&self, piece: u64) {
        let mut gone = true;
        for imports in self.devices() {
            gone &= imports.dropped(self.id, piece);
        }
        if gone {
            self.socket.send(Message::Released { piece });
        }
    }

    fn devices(&self) -> Vec<Arc<Imports>> {
        self.lock().devices.iter().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reached {
    /// First byte, for the device that reaches it.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.held.address
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        for piece in self.imports.release(&self.held) {
            if !self.taker.devices().iter().any(|imports| imports.has(self.taker.id, piece)) {
                self.taker.socket.send(Message::Released { piece });
            }
        }
    }
}
