//! Transfer control: the messages from a copy's target to its pusher. They are small and rare, and must not wait for
//! other bytes. So they use a lane of their own between a program and an executor, and the reverse direction of a peer
//! lane between executors.

use super::chunk_io::{broken, read_bytes, read_chunk, write_chunk};
use crate::frame;
use crate::frame::transfer::{Chunk, ChunkKind, DEVICES_BYTES_MAX, HANDLE_MAX, TEXT_MAX};
use crate::peer::PeerId;
use crate::stats::LinkStats;
use crate::transport::{Lane, MemoryKind, PostedReceive, ReceiveEnded, SharedLane};
use accord_types::short_lock::{ShortGuard, ShortLock};
use accord_types::{Error, NativeRange, Result, TransferId};
use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A posted receive, as announced to the pusher.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveAnnouncement {
    /// The key that the sender passes to [`crate::transport::RemoteMemory::send_posted`].
    pub number: NonZeroU16,
    /// Whether the receive overlaps another posted one. Bytes for it must then not be in flight together with bytes for others.
    pub overlaps: bool,
}

impl ReceiveAnnouncement {
    const OVERLAPS: u64 = 1 << 16;

    fn to_wire(self) -> u64 {
        u64::from(self.number.get()) | if self.overlaps { Self::OVERLAPS } else { 0 }
    }

    fn from_wire(raw: u64) -> Option<Self> {
        let number = u16::try_from(raw & !Self::OVERLAPS).ok().and_then(NonZeroU16::new)?;
        Some(Self { number, overlaps: raw & Self::OVERLAPS != 0 })
    }
}

/// A message about a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ControlMessage {
    /// The bytes may be sent, to the memory of this handle if the pusher can import the handle; see [`super::Export`].
    Ready(TransferId, Vec<u8>),
    /// The bytes may be sent, and a receive is posted for them as one message.
    Room(TransferId, ReceiveAnnouncement),
    /// The bytes have landed: all later work on that memory sees them.
    Landed(TransferId),
    /// The target can't take the bytes, and they must not be sent.
    Refused(TransferId, Error),
    /// The bytes were allowed to be sent, and did not land.
    Failed(TransferId, Error),
    /// A waiting program asks whether the executor is alive. It gives up these devices.
    Ask(Vec<u32>),
    /// The executor is alive. For each device: its ordinal and the number of its worker's heartbeats.
    Alive(Vec<(u32, u64)>),
    /// A program has lost this executor, and no transfer should wait for it.
    Lost(PeerId, Error),
}

/// The target's channel to a source. Called without locks, except [`TransferControl::post`]. Implementations must not wait for the source.
pub trait TransferControl: Send + Sync {
    /// Sends a message about a transfer.
    fn send(&self, message: ControlMessage);
    /// Posts a receive for a message of the source, if the lane reaches device memory.
    fn post(&self, receive: NativeRange, ended: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)>;
}

/// Sends control messages on a lane. Queues them until a lane is connected.
pub struct ControlSender {
    /// This side's node, for errors; empty for a program.
    node_name: String,
    stats: Arc<LinkStats>,
    state: ShortLock<Unsent>,
}

#[derive(Default)]
struct Unsent {
    lane: Option<SharedLane>,
    /// Messages not sent yet. Bounded by the transfers in flight, which have two messages each.
    waiting: VecDeque<ControlMessage>,
    /// Whether a thread writes messages, without the lock; other threads only queue theirs.
    writing: bool,
}

impl ControlSender {
    /// Creates a sender without a lane.
    pub fn new(node_name: &str, stats: Arc<LinkStats>) -> Arc<Self> {
        Arc::new(Self { node_name: node_name.to_owned(), stats, state: ShortLock::default() })
    }

    /// Sends on `lane` from now on.
    pub fn connect(&self, lane: SharedLane) {
        let mut state = self.lock();
        state.lane = Some(lane);
        self.write_waiting(state);
    }

    /// Asks whether the executor is alive, unless such a question is already queued.
    pub fn ask(&self, given_up: Vec<u32>) {
        let waits = |message: &ControlMessage| matches!(message, ControlMessage::Ask(_));
        if !given_up.is_empty() || !self.lock().waiting.iter().any(waits) {
            self.send(ControlMessage::Ask(given_up));
        }
    }

    /// Answers [`ControlMessage::Ask`].
    pub fn alive(&self, beats: Vec<(u32, u64)>) {
        self.send(ControlMessage::Alive(beats));
    }

    /// Reports that the program has lost another executor.
    pub fn lost(&self, peer: PeerId, error: &Error) {
        self.send(ControlMessage::Lost(peer, error.clone()));
    }

    fn write_waiting<'a>(&'a self, mut state: ShortGuard<'a, Unsent>) {
        let Some(lane) = state.lane.clone().filter(|_| !state.writing) else { return };
        state.writing = true;
        while let Some(message) = state.waiting.pop_front() {
            drop(state);
            self.write(&*lane, message);
            state = self.lock();
        }
        state.writing = false;
    }

    #[cfg(test)]
    pub(super) fn is_writing(&self) -> bool {
        self.lock().writing
    }

    fn write(&self, lane: &dyn Lane, message: ControlMessage) {
        let offset = if let ControlMessage::Room(_, receive) = &message { receive.to_wire() } else { 0 };
        let (kind, transfer, text) = match message {
            ControlMessage::Ready(transfer, handle) => (ChunkKind::Ready, transfer, handle),
            ControlMessage::Room(transfer, _) => (ChunkKind::Room, transfer, Vec::new()),
            ControlMessage::Landed(transfer) => (ChunkKind::Landed, transfer, Vec::new()),
            ControlMessage::Refused(transfer, error) => (ChunkKind::Refused, transfer, self.encode(error)),
            ControlMessage::Failed(transfer, error) => (ChunkKind::Failed, transfer, self.encode(error)),
            ControlMessage::Ask(devices) => (ChunkKind::Ask, NONE, ordinals(&devices)),
            ControlMessage::Alive(devices) => (ChunkKind::Alive, NONE, beats(&devices)),
            ControlMessage::Lost(peer, error) => (ChunkKind::Lost, TransferId(peer.raw().into()), self.encode(error)),
        };
        LinkStats::add(&self.stats.command_sent, text.len() as u64);
        // If the lane has ended, its reader gets the error.
        let _ = write_chunk(lane, Chunk { kind, transfer, offset, len: text.len() }, &text, &self.stats.stalls);
    }

    fn encode(&self, error: Error) -> Vec<u8> {
        let error = if self.node_name.is_empty() { error } else { error.node(&self.node_name) };
        let mut text = error.code().to_wire().to_le_bytes().to_vec();
        let _ = frame::encode_error(&error, &mut text);
        text.truncate(TEXT_MAX);
        text
    }

    fn lock(&self) -> ShortGuard<'_, Unsent> {
        self.state.lock()
    }
}

impl TransferControl for ControlSender {
    fn send(&self, mut message: ControlMessage) {
        if let ControlMessage::Ready(_, handle) = &mut message
            && handle.len() > HANDLE_MAX
        {
            handle.clear();
        }
        let mut state = self.lock();
        state.waiting.push_back(message);
        self.write_waiting(state);
    }

    fn post(&self, receive: NativeRange, ended: ReceiveEnded) -> Option<(NonZeroU16, Arc<dyn PostedReceive>)> {
        let lane = self.lock().lane.clone()?;
        lane.remote_memory(MemoryKind::Device)?.post(receive, ended)
    }
}

/// Passes every control message of a lane to `take`, until the lane ends.
///
/// # Errors
/// Returns an error if the lane fails or carries other messages, and any error of `take`.
pub fn receive_control(
    lane: &dyn Lane,
    stats: &LinkStats,
    mut take: impl FnMut(ControlMessage) -> Result<()>,
) -> Result<()> {
    while let Some(chunk) = read_chunk(lane)? {
        // The kind of a message bounds its length.
        let text = || {
            let mut text = vec![0; chunk.len];
            read_bytes(lane, &mut text).map(|()| text)
        };
        take(match chunk.kind {
            ChunkKind::Ready => ControlMessage::Ready(chunk.transfer, text()?),
            ChunkKind::Room => {
                let receive = ReceiveAnnouncement::from_wire(chunk.offset);
                ControlMessage::Room(chunk.transfer, receive.ok_or_else(|| broken("it posts room without a number"))?)
            }
            ChunkKind::Landed => ControlMessage::Landed(chunk.transfer),
            ChunkKind::Refused => ControlMessage::Refused(chunk.transfer, decode(&text()?)),
            ChunkKind::Failed => ControlMessage::Failed(chunk.transfer, decode(&text()?)),
            ChunkKind::Ask => {
                ControlMessage::Ask(text()?.as_chunks().0.iter().map(|ordinal| u32::from_le_bytes(*ordinal)).collect())
            }
            ChunkKind::Alive => ControlMessage::Alive(text()?.as_chunks().0.iter().map(beat).collect()),
            ChunkKind::Lost => {
                let text = text()?;
                let peer = u32::try_from(chunk.transfer.0).map_err(|_| broken("a peer that is none was lost"))?;
                ControlMessage::Lost(PeerId::from_raw(peer), decode(&text))
            }
            ChunkKind::Data | ChunkKind::Abort => return Err(broken("it sends bytes on a lane for control messages")),
        })?;
        LinkStats::add(&stats.command_received, chunk.len as u64);
    }
    Ok(())
}

/// The transfer number of messages that concern no transfer.
const NONE: TransferId = TransferId(0);

fn ordinals(devices: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = devices.iter().flat_map(|ordinal| ordinal.to_le_bytes()).collect();
    bytes.truncate(DEVICES_BYTES_MAX);
    bytes
}

fn beats(devices: &[(u32, u64)]) -> Vec<u8> {
    let pair = |&(ordinal, beats): &(u32, u64)| [&ordinal.to_le_bytes()[..], &beats.to_le_bytes()].concat();
    let mut bytes: Vec<u8> = devices.iter().flat_map(pair).collect();
    bytes.truncate(DEVICES_BYTES_MAX);
    bytes
}

fn beat(pair: &[u8; 12]) -> (u32, u64) {
    let [a, b, c, d, beats @ ..] = *pair;
    (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(beats))
}

fn decode(text: &[u8]) -> Error {
    let (code, text) = text.split_first_chunk::<2>().unwrap_or((&[0; 2], &[]));
    frame::decode_error(frame::Failure::new(u16::from_le_bytes(*code)), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stalls::Stalls;
    use crate::transport::pair;
    use accord_types::ErrorCode;

    #[test]
    fn messages_arrive_in_order_with_those_queued_before_the_lane() {
        let (near, far) = pair().unwrap();
        let sender = ControlSender::new("h2", Arc::default());
        let error = Error::new(ErrorCode::OutOfMemory, "full").remedy("free some");
        sender.send(ControlMessage::Ready(TransferId(1), Vec::new()));
        sender.send(ControlMessage::Ready(TransferId(3), b"there".to_vec()));
        sender.send(ControlMessage::Ready(TransferId(4), vec![0; HANDLE_MAX + 1]));
        sender.connect(near);
        sender.send(ControlMessage::Refused(TransferId(2), error.clone()));
        sender.send(ControlMessage::Failed(TransferId(5), error.clone()));
        sender.send(ControlMessage::Landed(TransferId(1)));
        sender.ask(vec![3, 9]);
        sender.alive(vec![(1, 1 << 40), (2, 0)]);
        sender.lost(PeerId::from_raw(u32::MAX - 1), &error);
        drop(sender);
        let mut messages = Vec::new();
        receive_control(&*far, &LinkStats::default(), |message| {
            messages.push(message);
            Ok(())
        })
        .unwrap();
        let refused = ControlMessage::Refused(TransferId(2), error.clone().node("h2"));
        let failed = ControlMessage::Failed(TransferId(5), error.clone().node("h2"));
        let ready = |transfer, handle: &[u8]| ControlMessage::Ready(TransferId(transfer), handle.to_vec());
        let readies = [ready(1, b""), ready(3, b"there"), ready(4, b"")];
        assert_eq!(messages[..3], readies);
        let alive = ControlMessage::Alive(vec![(1, 1 << 40), (2, 0)]);
        let landed = ControlMessage::Landed(TransferId(1));
        let lost = ControlMessage::Lost(PeerId::from_raw(u32::MAX - 1), error.node("h2"));
        assert_eq!(messages[3..], [refused, failed, landed, ControlMessage::Ask(vec![3, 9]), alive, lost]);
    }

    #[test]
    fn a_posted_receive_survives_encoding() {
        for (number, overlaps) in [(1, false), (u16::MAX, true), (514, true)] {
            let receive = ReceiveAnnouncement { number: NonZeroU16::new(number).unwrap(), overlaps };
            assert_eq!(ReceiveAnnouncement::from_wire(receive.to_wire()), Some(receive));
        }
        for raw in [0, ReceiveAnnouncement::OVERLAPS, 2 * ReceiveAnnouncement::OVERLAPS + 1, u64::MAX] {
            assert_eq!(ReceiveAnnouncement::from_wire(raw), None, "{raw}");
        }
    }

    #[test]
    fn bytes_on_a_control_lane_are_an_error() {
        let (near, far) = pair().unwrap();
        let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 1 };
        write_chunk(&*near, chunk, b"x", &Stalls::default()).unwrap();
        assert!(receive_control(&*far, &LinkStats::default(), |_| Ok(())).is_err());
    }
}
