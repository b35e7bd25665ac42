//! Events of a command lane, from the executor to the program.

use super::Failure;
use crate::peer::PeerId;
use rkyv::{Archive, Deserialize, Serialize};

/// An executor's event for its program.
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
    /// A queue failed and skips its remaining operations. Payload: the error.
    Failed { device: u32, queue: u32, failure: Failure },
    /// This many more bytes of commands may be sent.
    Credit { bytes: u64 },
    /// This many bytes of a queue's operations are done, see [`super::STREAM_WINDOW`].
    Done { device: u32, queue: u32, bytes: u64 },
    /// This many pushed copies, and expected ones, are over, see [`super::EXCHANGE_WINDOW`].
    Exchanged { pushes: u32, expects: u32 },
    /// The payload is the whole of a small [`super::Command::CopyOut`].
    Data { transfer: u64 },
    /// A worker wrote the payload to its descriptor 1 or 2.
    Output { descriptor: u32 },
    /// The lane on which the executor pushes to another one has ended, or never existed. Its transfers have failed,
    /// which later events report; copies that the program issues from now on name the next lane, see
    /// [`PeerId::on_lane`].
    PeerLost { peer: PeerId },
    /// Spans of a traced program, see [`super::encode_span`].
    Spans,
    /// The executor is about to end, as its agent demands. Payload: the reason, see [`crate::ending::ExecutorEnding`].
    Ending,
}
