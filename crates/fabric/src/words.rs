//! What a target of a copy says to whoever has the bytes: small, rare, and never behind anything else. So it
//! has a lane for itself between a program and an executor, and the way back of a peer lane between executors.

use crate::bulk::{Chunk, ChunkKind, PLACE_MAX, TEXT_MAX, read_bytes, read_chunk, write_chunk};
use crate::exchange::Voice;
use crate::stats::LinkStats;
use crate::transport::{Lane, SharedLane};
use crate::wire;
use accord_types::{Error, ErrorCode, Result, TransferId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was said of a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// The bytes may come, to this place if the other side reaches it; see [`crate::exchange::Placer`].
    Ready(TransferId, Vec<u8>),
    /// They have landed.
    Landed(TransferId),
    /// They can't be taken.
    Refused(TransferId, Error),
}

/// Says words on a lane, and keeps them until there is one.
pub struct Speaker {
    /// This side's node, for errors; empty for a program.
    node_name: String,
    stats: Arc<LinkStats>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    lane: Option<SharedLane>,
    waiting: Vec<Word>,
}

impl Speaker {
    /// A speaker without a lane.
    pub fn new(node_name: &str, stats: Arc<LinkStats>) -> Arc<Self> {
        Arc::new(Self { node_name: node_name.to_owned(), stats, state: Mutex::default() })
    }

    /// Speaks on `lane` from now on.
    pub fn connect(&self, lane: SharedLane) {
        let mut state = self.lock();
        for word in std::mem::take(&mut state.waiting) {
            self.write(&*lane, word);
        }
        state.lane = Some(lane);
    }

    fn say(&self, word: Word) {
        let mut state = self.lock();
        match &state.lane {
            Some(lane) => self.write(&**lane, word),
            None => state.waiting.push(word),
        }
    }

    fn write(&self, lane: &dyn Lane, word: Word) {
        let (kind, transfer, text) = match word {
            Word::Ready(transfer, place) => (ChunkKind::Ready, transfer, place),
            Word::Landed(transfer) => (ChunkKind::Landed, transfer, Vec::new()),
            Word::Refused(transfer, error) => (ChunkKind::Refused, transfer, self.encode(error)),
        };
        LinkStats::add(&self.stats.command_sent, text.len() as u64);
        // If nobody hears it, whoever reads the lane sees that it has ended.
        let _ = write_chunk(lane, Chunk { kind, transfer, offset: 0, len: text.len() }, &text);
    }

    fn encode(&self, error: Error) -> Vec<u8> {
        let error = if self.node_name.is_empty() { error } else { error.node(&self.node_name) };
        let mut text = error.code().to_wire().to_le_bytes().to_vec();
        let _ = wire::encode_error(&error, &mut text);
        text.truncate(TEXT_MAX);
        text
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Voice for Speaker {
    fn ready(&self, transfer: TransferId, mut place: Vec<u8>) {
        if place.len() > PLACE_MAX {
            place.clear();
        }
        self.say(Word::Ready(transfer, place));
    }

    fn landed(&self, transfer: TransferId) {
        self.say(Word::Landed(transfer));
    }

    fn refused(&self, transfer: TransferId, error: &Error) {
        self.say(Word::Refused(transfer, error.clone()));
    }
}

/// Gives every word that comes on a lane to `take`, until the lane ends.
///
/// # Errors
/// When the lane fails or carries something else, and those of `take`.
pub fn hear(lane: &dyn Lane, stats: &LinkStats, mut take: impl FnMut(Word) -> Result<()>) -> Result<()> {
    let mut text = Vec::new();
    while let Some(chunk) = read_chunk(lane)? {
        text.resize(chunk.len, 0);
        take(match chunk.kind {
            ChunkKind::Ready => {
                read_bytes(lane, &mut text)?;
                Word::Ready(chunk.transfer, text.clone())
            }
            ChunkKind::Landed => Word::Landed(chunk.transfer),
            ChunkKind::Refused => {
                read_bytes(lane, &mut text)?;
                Word::Refused(chunk.transfer, decode(&text))
            }
            ChunkKind::Data | ChunkKind::Abort => {
                return Err(Error::new(
                    ErrorCode::DeviceUnavailable,
                    "the peer broke the protocol: bytes came unasked",
                ));
            }
        })?;
        LinkStats::add(&stats.command_received, chunk.len as u64);
    }
    Ok(())
}

fn decode(text: &[u8]) -> Error {
    let (code, text) = text.split_first_chunk::<2>().unwrap_or((&[0; 2], &[]));
    wire::decode_error(wire::Failure::new(u16::from_le_bytes(*code)), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::pair;

    #[test]
    fn words_arrive_in_order_also_those_from_before_the_lane() {
        let (near, far) = pair().unwrap();
        let speaker = Speaker::new("h2", Arc::default());
        let error = Error::new(ErrorCode::OutOfMemory, "full").remedy("free some");
        speaker.ready(TransferId(1), Vec::new());
        speaker.ready(TransferId(3), b"there".to_vec());
        speaker.ready(TransferId(4), vec![0; PLACE_MAX + 1]);
        speaker.connect(near);
        speaker.refused(TransferId(2), &error);
        speaker.landed(TransferId(1));
        drop(speaker);
        let mut words = Vec::new();
        hear(&*far, &LinkStats::default(), |word| {
            words.push(word);
            Ok(())
        })
        .unwrap();
        let refused = Word::Refused(TransferId(2), error.node("h2"));
        let ready = |transfer, place: &[u8]| Word::Ready(TransferId(transfer), place.to_vec());
        let readies = [ready(1, b""), ready(3, b"there"), ready(4, b"")];
        assert_eq!(words[..3], readies);
        assert_eq!(words[3..], [refused, Word::Landed(TransferId(1))]);
    }

    #[test]
    fn bytes_are_no_words() {
        let (near, far) = pair().unwrap();
        let chunk = Chunk { kind: ChunkKind::Data, transfer: TransferId(1), offset: 0, len: 1 };
        write_chunk(&*near, chunk, b"x").unwrap();
        assert!(hear(&*far, &LinkStats::default(), |_| Ok(())).is_err());
    }
}
