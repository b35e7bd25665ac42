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
        /// The first number of the command's reply.
        value: u64,
        /// The second number of the command's reply.
        extra: u64,
    },
    /// Reports that the command with this ticket failed. Payload: the error.
    ReplyFailed { ticket: u64, failure: Failure },
    /// Reports that a queue failed and skips its remaining operations. Payload: the error.
    Failed { device: u32, queue: u32, failure: Failure },
    /// Permits this many more bytes of commands.
    Credit { bytes: u64 },
    /// Reports that this many bytes of a queue's operations are done, see [`super::STREAM_WINDOW`].
    Done { device: u32, queue: u32, bytes: u64 },
    /// Reports that this many pushed and expected copies are over, see [`super::EXCHANGE_WINDOW`].
    Exchanged { pushes: u32, expects: u32 },
    /// Answers a small [`super::Command::CopyOut`]. Payload: all its bytes.
    Data { transfer: u64 },
    /// Passes on the payload, which a worker wrote to its descriptor 1 or 2.
    Output { descriptor: u32 },
    /// Reports that the lane on which the executor pushes to another one has ended, or could not be opened. Later events
    /// report its transfers as failed. Copies that the program issues from now on name the next lane, see
    /// [`PeerId::on_lane`].
    PeerLost { peer: PeerId },
    /// Carries spans of a traced program, see [`super::encode_span`].
    Spans,
    /// Announces that the executor is about to end, as its agent demands. Payload: the reason, see
    /// [`crate::ending::ExecutorEnding`].
    Ending,
}
