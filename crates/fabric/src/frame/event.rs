//! Events of a command lane: what comes back.

use super::Failure;
use crate::peer::PeerId;
use rkyv::{Archive, Deserialize, Serialize};

/// What an executor tells its program.
#[derive(Archive, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Answers the command with this ticket.
    Reply {
        ticket: u64,
        /// As the command says.
        value: u64,
        /// As the command says.
        extra: u64,
    },
    /// The command with this ticket failed. Payload: the error.
    ReplyFailed { ticket: u64, failure: Failure },
    /// A queue failed and skips what is left in it. Payload: the error.
    Failed { device: u32, queue: u32, failure: Failure },
    /// This many more bytes of commands may be sent.
    Credit { bytes: u64 },
    /// This many bytes of a queue's operations are done, see [`super::STREAM_WINDOW`].
    Done { device: u32, queue: u32, bytes: u64 },
    /// So many copies that were pushed, and that were expected, are over, see [`super::EXCHANGE_WINDOW`].
    Exchanged { pushes: u32, expects: u32 },
    /// All of a small [`super::Command::CopyOut`] is the payload.
    Data { transfer: u64 },
    /// A worker wrote the payload to its descriptor 1 or 2.
    Output { descriptor: u32 },
    /// The lane on which it pushes to another executor has come to its end, or never came about. What was to go over it has failed, and that is told
    /// after this; copies that the program asks for from now on name the next one, see [`PeerId::on_lane`].
    PeerLost { peer: PeerId },
    /// Spans of a traced program, see [`super::encode_span`].
    Spans,
    /// The executor is about to end, as its agent has it do so. Payload: why, see [`crate::ending::ExecutorEnding`].
    Ending,
}
