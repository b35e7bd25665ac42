//! Messages between a node's agent and a process that drives its devices, about the process's turns on them and the suspension
//! of its work.
//!
//! ```text
//! agent     kind (u32): 1 hold; the device's ordinal (u32); the join's number (u64); the turn's number (u64); nanoseconds (u64),
//!           all bits for no limit
//!           kind: 2 suspend; whether the process asks for host memory before (u32); zeros
//!           kind: 3 resume; zeros
//!           kind: 4 memory; number of files (u32); bytes of host memory (u64); 0 (u64); 0 (u64); then the files' descriptors
//! process   kind (u32): 1 join, 2 wants, 3 returns, 4 returns and wants, 5 leave; the ordinal (u32); the join's number (u64), 0 but
//!           for 1; the turn's number (u64), 0 but for 3 and 4; 0 (u64)
//!           kind: 6 suspended; 0 (u32); bytes of host memory (u64); 0 (u64); 0 (u64)
//!           kind: 7 resumed; zeros
//!           kind: 8 refused; the reason (u32) and its two numbers (u64 each), see SuspendRefusal; 0 (u64)
//!           kind: 9 needs; 0 (u32); bytes of host memory (u64); 0 (u64); 0 (u64)
//! ```

use crate::transport::{DESCRIPTORS_MAX, SharedLane};
use accord_types::NextTurn;
use accord_types::SuspendRefusal;
use accord_types::turn_lock::TurnLock;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

const HOLD: u32 = 1;
const SUSPEND: u32 = 2;
const RESUME: u32 = 3;
const MEMORY: u32 = 4;
const JOIN: u32 = 1;
const WANTS: u32 = 2;
const RETURNS: u32 = 3;
const RETURNS_AND_WANTS: u32 = 4;
const LEAVE: u32 = 5;
const SUSPENDED: u32 = 6;
const RESUMED: u32 = 7;
const REFUSED: u32 = 8;
const NEEDS: u32 = 9;
const UNLIMITED: u64 = u64::MAX;
/// Bytes of a message.
const MESSAGE: usize = 32;

/// A message of the agent: the process may run regions on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HoldTurn {
    /// The device.
    pub ordinal: u32,
    /// The number of the process's latest [`TurnRequest::Join`] for the device. Turns of an earlier one are void.
    pub join: u64,
    /// The number of the turn. A second message with the number shortens the turn.
    pub turn: u64,
    /// Time until the turn ends, or earlier once the process has no region to run; `None`: the turn has no end.
    pub limit: Option<Duration>,
}

/// A message of the agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnOrder {
    /// A turn on a device.
    Hold(HoldTurn),
    /// Hold all work on devices back, and move their memory to host memory.
    Suspend(MemoryBound),
    /// Bring the memory back, and let the work go on.
    Resume,
    /// The answer to [`TurnRequest::Needs`]: the process may take so many bytes of host memory. Those of `files`, whose descriptors
    /// follow, come first. Fewer bytes than it needs are a refusal, without files.
    Memory { bytes: u64, files: u32 },
}

/// Whether the agent bounds the host memory of suspended work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryBound {
    /// The process asks by [`TurnRequest::Needs`] before it takes some.
    OfAgent,
    /// The job is suspended already, so that the work stops in any case.
    Unbounded,
}

/// A message of a process, about the device with this ordinal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TurnRequest {
    /// The device has started. Its regions wait for a turn. Messages of the agent name the `number`.
    Join { ordinal: u32, number: u64 },
    /// A region waits, and the process has no turn.
    Wants { ordinal: u32 },
    /// The turn has ended.
    Returns { ordinal: u32, turn: u64, next: NextTurn },
    /// The device was shut down.
    Leave { ordinal: u32 },
    /// The work is suspended, and takes these bytes of host memory.
    Suspended { bytes: u64 },
    /// The work goes on.
    Resumed,
    /// [`TurnOrder::Suspend`] or [`TurnOrder::Resume`] is refused.
    Refused(SuspendRefusal),
    /// The suspension needs so many bytes of host memory. [`TurnOrder::Memory`] answers.
    Needs { bytes: u64 },
}

fn words(kind: u32, ordinal: u32, join: u64, turn: u64, last: u64) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[..4].copy_from_slice(&kind.to_le_bytes());
    message[4..8].copy_from_slice(&ordinal.to_le_bytes());
    message[8..16].copy_from_slice(&join.to_le_bytes());
    message[16..24].copy_from_slice(&turn.to_le_bytes());
    message[24..].copy_from_slice(&last.to_le_bytes());
    message
}

fn parts(message: [u8; MESSAGE]) -> Option<(u32, u32, u64, u64, u64)> {
    let (kind, rest) = message.split_first_chunk()?;
    let (ordinal, rest) = rest.split_first_chunk()?;
    let (join, rest) = rest.split_first_chunk()?;
    let (turn, rest) = rest.split_first_chunk()?;
    let last = rest.first_chunk()?;
    Some((
        u32::from_le_bytes(*kind),
        u32::from_le_bytes(*ordinal),
        u64::from_le_bytes(*join),
        u64::from_le_bytes(*turn),
        u64::from_le_bytes(*last),
    ))
}

impl TurnOrder {
    fn encode(self) -> [u8; MESSAGE] {
        match self {
            Self::Hold(HoldTurn { ordinal, join, turn, limit }) => {
                let limit = limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(UNLIMITED - 1));
                words(HOLD, ordinal, join, turn, limit.unwrap_or(UNLIMITED))
            }
            Self::Suspend(MemoryBound::Unbounded) => words(SUSPEND, 0, 0, 0, 0),
            Self::Suspend(MemoryBound::OfAgent) => words(SUSPEND, 1, 0, 0, 0),
            Self::Resume => words(RESUME, 0, 0, 0, 0),
            Self::Memory { bytes, files } => words(MEMORY, files, bytes, 0, 0),
        }
    }

    fn decode(message: [u8; MESSAGE]) -> Option<Self> {
        match parts(message)? {
            (HOLD, ordinal, join, turn, limit) => {
                let limit = (limit != UNLIMITED).then(|| Duration::from_nanos(limit));
                Some(Self::Hold(HoldTurn { ordinal, join, turn, limit }))
            }
            (SUSPEND, 0, 0, 0, 0) => Some(Self::Suspend(MemoryBound::Unbounded)),
            (SUSPEND, 1, 0, 0, 0) => Some(Self::Suspend(MemoryBound::OfAgent)),
            (RESUME, 0, 0, 0, 0) => Some(Self::Resume),
            (MEMORY, files, bytes, 0, 0) => Some(Self::Memory { bytes, files }),
            _ => None,
        }
    }
}

impl TurnRequest {
    fn encode(self) -> [u8; MESSAGE] {
        match self {
            Self::Join { ordinal, number } => words(JOIN, ordinal, number, 0, 0),
            Self::Wants { ordinal } => words(WANTS, ordinal, 0, 0, 0),
            Self::Returns { ordinal, turn, next: NextTurn::NotWanted } => words(RETURNS, ordinal, 0, turn, 0),
            Self::Returns { ordinal, turn, next: NextTurn::Wanted } => words(RETURNS_AND_WANTS, ordinal, 0, turn, 0),
            Self::Leave { ordinal } => words(LEAVE, ordinal, 0, 0, 0),
            Self::Suspended { bytes } => words(SUSPENDED, 0, bytes, 0, 0),
            Self::Resumed => words(RESUMED, 0, 0, 0, 0),
            Self::Refused(why) => {
                let (reason, first, second) = why.to_wire();
                words(REFUSED, reason, first, second, 0)
            }
            Self::Needs { bytes } => words(NEEDS, 0, bytes, 0, 0),
        }
    }

    fn decode(message: [u8; MESSAGE]) -> Option<Self> {
        match parts(message)? {
            (JOIN, ordinal, number, 0, 0) => Some(Self::Join { ordinal, number }),
            (WANTS, ordinal, 0, 0, 0) => Some(Self::Wants { ordinal }),
            (RETURNS, ordinal, 0, turn, 0) => Some(Self::Returns { ordinal, turn, next: NextTurn::NotWanted }),
            (RETURNS_AND_WANTS, ordinal, 0, turn, 0) => Some(Self::Returns { ordinal, turn, next: NextTurn::Wanted }),
            (LEAVE, ordinal, 0, 0, 0) => Some(Self::Leave { ordinal }),
            (SUSPENDED, 0, bytes, 0, 0) => Some(Self::Suspended { bytes }),
            (RESUMED, 0, 0, 0, 0) => Some(Self::Resumed),
            (REFUSED, reason, first, second, 0) => SuspendRefusal::from_wire(reason, first, second).map(Self::Refused),
            (NEEDS, 0, bytes, 0, 0) => Some(Self::Needs { bytes }),
            _ => None,
        }
    }
}

/// One end of the lane. Any thread may send; one receives.
#[derive(Debug)]
pub struct TurnChannel {
    lane: SharedLane,
    /// Held while a message is written.
    writer: TurnLock<()>,
}

impl TurnChannel {
    /// Creates an end.
    pub fn new(lane: SharedLane) -> Self {
        Self { lane, writer: TurnLock::default() }
    }

    /// Ends the lane.
    pub fn close(&self) {
        self.lane.shutdown();
    }

    /// Sends a message of the agent. Does not block: a process reads its few messages at once, unless it is stopped.
    ///
    /// # Errors
    /// Returns the lane's error, and `WouldBlock` if the process does not read. The channel is unusable then.
    pub fn send_order(&self, order: TurnOrder) -> io::Result<()> {
        let _one = self.writer.take();
        self.write_order(order)
    }

    fn write_order(&self, order: TurnOrder) -> io::Result<()> {
        match self.lane.try_write(&[IoSlice::new(&order.encode())])? {
            MESSAGE => Ok(()),
            _ => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends [`TurnOrder::Memory`] with the descriptors of files, as [`TurnChannel::send_order`].
    ///
    /// # Errors
    /// Returns the errors of [`TurnChannel::send_order`].
    pub fn send_memory(&self, bytes: u64, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let count = u32::try_from(files.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        let _one = self.writer.take();
        self.write_order(TurnOrder::Memory { bytes, files: count })?;
        files.chunks(DESCRIPTORS_MAX).try_for_each(|files| self.lane.descriptors().send(files))
    }

    /// Whether the lane carries descriptors of files.
    pub fn carries_files(&self) -> bool {
        self.lane.descriptors().can_pass()
    }

    /// Blocks until the next descriptors of [`TurnOrder::Memory`] have arrived, at least one. Called by the thread that has read the
    /// order.
    ///
    /// # Errors
    /// Returns the lane's error. The channel is unusable then.
    pub fn receive_files(&self) -> io::Result<Vec<OwnedFd>> {
        self.lane.descriptors().receive()
    }

    /// Sends a message of a process.
    ///
    /// # Errors
    /// Returns the lane's error.
    pub fn send_request(&self, request: TurnRequest) -> io::Result<()> {
        let _one = self.writer.take();
        self.lane.write_all(&mut [IoSlice::new(&request.encode())])
    }

    /// Blocks until the agent's next message.
    ///
    /// # Errors
    /// Returns the lane's error, `UnexpectedEof` at its end, and `InvalidData` for a malformed message.
    pub fn receive_order(&self) -> io::Result<TurnOrder> {
        TurnOrder::decode(self.receive(|| true)?).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Blocks until the next message of the process. `goes_on` is called after each time of the lane's limit.
    ///
    /// # Errors
    /// Returns the errors of [`TurnChannel::receive_order`], and `TimedOut` or `WouldBlock` if `goes_on` returns `false`.
    pub fn receive_request(&self, goes_on: impl Fn() -> bool) -> io::Result<TurnRequest> {
        TurnRequest::decode(self.receive(goes_on)?).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    fn receive(&self, goes_on: impl Fn() -> bool) -> io::Result<[u8; MESSAGE]> {
        let (mut message, mut len) = ([0; MESSAGE], 0);
        while len < MESSAGE {
            match self.lane.read(&mut message[len..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && goes_on() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{inproc_pair, local_pair, shm_pair};
    use std::os::fd::AsFd;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        let (agent, process) = inproc_pair();
        let (agent, process) = (TurnChannel::new(agent), TurnChannel::new(process));
        for limit in [None, Some(Duration::ZERO), Some(Duration::from_nanos(UNLIMITED - 1))] {
            let hold = HoldTurn { ordinal: 3, join: 1 << 50, turn: u64::MAX, limit };
            agent.send_order(TurnOrder::Hold(hold)).unwrap();
            assert_eq!(process.receive_order().unwrap(), TurnOrder::Hold(hold));
        }
        let bounds = [MemoryBound::OfAgent, MemoryBound::Unbounded].map(TurnOrder::Suspend);
        for order in bounds.into_iter().chain([TurnOrder::Resume, TurnOrder::Memory { bytes: u64::MAX, files: 0 }]) {
            agent.send_order(order).unwrap();
            assert_eq!(process.receive_order().unwrap(), order);
        }
        let returns = |next| TurnRequest::Returns { ordinal: 2, turn: 1 << 40, next };
        let requests = [
            TurnRequest::Join { ordinal: 0, number: u64::MAX },
            TurnRequest::Wants { ordinal: u32::MAX },
            returns(NextTurn::NotWanted),
            returns(NextTurn::Wanted),
            TurnRequest::Leave { ordinal: 1 },
            TurnRequest::Suspended { bytes: u64::MAX },
            TurnRequest::Resumed,
            TurnRequest::Refused(SuspendRefusal::HostMemory { needed: 1 << 40, left: 7 }),
            TurnRequest::Needs { bytes: u64::MAX },
        ];
        for request in requests {
            process.send_request(request).unwrap();
            assert_eq!(agent.receive_request(|| true).unwrap(), request);
        }
        process.close();
        assert!(agent.receive_request(|| true).is_err());
    }

    #[test]
    fn files_arrive_behind_their_message_on_lanes_of_this_machine() {
        for (agent, process) in [local_pair().unwrap(), shm_pair().map(|(process, agent)| (agent, process)).unwrap()] {
            let (agent, process) = (TurnChannel::new(agent), TurnChannel::new(process));
            assert!(agent.carries_files());
            let files: Vec<_> = (0..DESCRIPTORS_MAX + 3).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
            agent.send_order(TurnOrder::Resume).unwrap();
            agent.send_memory(5, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap();
            agent.send_order(TurnOrder::Resume).unwrap();
            assert_eq!(process.receive_order().unwrap(), TurnOrder::Resume);
            let count = u32::try_from(files.len()).unwrap();
            assert_eq!(process.receive_order().unwrap(), TurnOrder::Memory { bytes: 5, files: count });
            let lengths = [process.receive_files().unwrap().len(), process.receive_files().unwrap().len()];
            assert_eq!(lengths, [DESCRIPTORS_MAX, 3]);
            assert_eq!(process.receive_order().unwrap(), TurnOrder::Resume);
            agent.close();
            assert!(process.receive_files().is_err());
        }
        let (agent, _process) = inproc_pair();
        assert!(!TurnChannel::new(agent).carries_files());
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let bytes = [
            (0, 0, 0, 0),
            (10, 0, 0, 0),
            (NEEDS, 1, 1, 0),
            (SUSPENDED, 1, 1, 0),
            (RESUMED, 1, 0, 0),
            (REFUSED, 0, 0, 0),
            (JOIN, 1, 1, 0),
            (WANTS, 0, 0, 1),
            (RETURNS, 0, 1, 1),
            (RETURNS, 1, 1, 0),
            (LEAVE, 1, 0, 0),
        ];
        for (kind, join, turn, last) in bytes {
            assert_eq!(TurnRequest::decode(words(kind, 0, join, turn, last)), None, "{kind}");
        }
        let orders = [
            words(2, 0, 1, 0, 0),
            words(2, 2, 0, 0, 0),
            words(3, 0, 1, 0, 0),
            words(4, 0, 0, 1, 0),
            words(5, 0, 0, 0, 0),
        ];
        for order in orders {
            assert_eq!(TurnOrder::decode(order), None);
        }
    }
}
