//! Messages between a node's agent and a process that drives its CPU devices, about the memory that the process's
//! session uses there.
//!
//! ```text
//! request   kind (u32): 1 claim, 2 give back, 3 ask; the device's ordinal (u32); bytes (u64), 0 to ask
//! answer    to 1 and 3: kind (u64): 0 granted, 1 others hold too much, 2 over the quota; bytes that others hold, or of the quota (u64)
//! ```
//!
//! The process ends the channel by closing the connection. That releases the memory that it has claimed.

use crate::transport::SharedLane;
use accord_types::MemoryClaim;
use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

const CLAIM: u32 = 1;
const GIVE_BACK: u32 = 2;
const ASK: u32 = 3;
const GRANTED: u64 = 0;
const OTHERS_HOLD: u64 = 1;
const OVER_QUOTA: u64 = 2;
/// Bytes of a request and of an answer.
const MESSAGE: usize = 16;

/// A request, for the device with this ordinal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Claims so many bytes more.
    Claim { ordinal: u32, bytes: u64 },
    /// Gives so many bytes back. There is no answer.
    GiveBack { ordinal: u32, bytes: u64 },
    /// Asks how many bytes other sessions hold.
    Ask { ordinal: u32 },
}

impl Request {
    fn encode(self) -> [u8; MESSAGE] {
        let (kind, ordinal, bytes) = match self {
            Self::Claim { ordinal, bytes } => (CLAIM, ordinal, bytes),
            Self::GiveBack { ordinal, bytes } => (GIVE_BACK, ordinal, bytes),
            Self::Ask { ordinal } => (ASK, ordinal, 0),
        };
        let mut message = [0; MESSAGE];
        message[..4].copy_from_slice(&kind.to_le_bytes());
        message[4..8].copy_from_slice(&ordinal.to_le_bytes());
        message[8..].copy_from_slice(&bytes.to_le_bytes());
        message
    }

    fn decode(message: [u8; MESSAGE]) -> Option<Self> {
        let [kind, bytes] = words(message);
        let (kind, ordinal) = (kind as u32, (kind >> 32) as u32);
        match (kind, bytes) {
            (CLAIM, _) => Some(Self::Claim { ordinal, bytes }),
            (GIVE_BACK, _) => Some(Self::GiveBack { ordinal, bytes }),
            (ASK, 0) => Some(Self::Ask { ordinal }),
            _ => None,
        }
    }
}

fn words(message: [u8; MESSAGE]) -> [u64; 2] {
    let whole = u128::from_le_bytes(message);
    [whole as u64, (whole >> 64) as u64]
}

fn encode_answer(answer: MemoryClaim) -> [u8; MESSAGE] {
    let (kind, bytes) = match answer {
        MemoryClaim::Granted => (GRANTED, 0),
        MemoryClaim::OthersHold(bytes) => (OTHERS_HOLD, bytes),
        MemoryClaim::OverQuota(bytes) => (OVER_QUOTA, bytes),
    };
    (u128::from(bytes) << 64 | u128::from(kind)).to_le_bytes()
}

fn decode_answer(message: [u8; MESSAGE]) -> io::Result<MemoryClaim> {
    match words(message) {
        [GRANTED, _] => Ok(MemoryClaim::Granted),
        [OTHERS_HOLD, bytes] => Ok(MemoryClaim::OthersHold(bytes)),
        [OVER_QUOTA, bytes] => Ok(MemoryClaim::OverQuota(bytes)),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

/// The channel of requests and answers.
#[derive(Debug)]
pub struct ClaimChannel(SharedLane);

impl ClaimChannel {
    /// Creates a channel whose reads and writes block for at most `limit`.
    ///
    /// # Errors
    /// Returns the lane's error if it refuses the limit.
    pub fn new(lane: SharedLane, limit: Duration) -> io::Result<Self> {
        lane.limit(Some(limit))?;
        Ok(Self(lane))
    }

    fn write(&self, message: [u8; MESSAGE]) -> io::Result<()> {
        self.0.write_all(&mut [IoSlice::new(&message)])
    }

    /// Returns the next message, or `None` at the end. A read that reaches the limit is repeated while `goes_on` returns `true`.
    fn next(&self, goes_on: impl Fn() -> bool) -> io::Result<Option<[u8; MESSAGE]>> {
        let (mut message, mut len) = ([0; MESSAGE], 0);
        while len < MESSAGE {
            match self.0.read(&mut message[len..]) {
                Ok(0) if len == 0 => return Ok(None),
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => len += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && goes_on() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(message))
    }

    /// Sends a claim or a question and waits for the answer.
    ///
    /// # Errors
    /// Returns the channel's error, and `UnexpectedEof` if the agent has closed it. The channel is unusable then.
    pub fn ask(&self, request: Request) -> io::Result<MemoryClaim> {
        self.write(request.encode())?;
        decode_answer(self.next(|| false)?.ok_or(ErrorKind::UnexpectedEof)?)
    }

    /// Sends a request that has no answer.
    ///
    /// # Errors
    /// Returns the channel's error.
    pub fn notify(&self, ordinal: u32, bytes: u64) -> io::Result<()> {
        self.write(Request::GiveBack { ordinal, bytes }.encode())
    }

    /// Answers requests until the other end closes the channel, `answer` returns `None`, or `goes_on` returns `false`, which
    /// is called after each limit without a message.
    ///
    /// # Errors
    /// Returns the channel's error, and `InvalidData` for a malformed request.
    pub fn serve(
        &self,
        mut answer: impl FnMut(Request) -> Option<MemoryClaim>,
        goes_on: impl Fn() -> bool,
    ) -> io::Result<()> {
        while let Some(message) = self.next(&goes_on)? {
            let request = Request::decode(message).ok_or(ErrorKind::InvalidData)?;
            let Some(answer) = answer(request) else { break };
            if !matches!(request, Request::GiveBack { .. }) {
                self.write(encode_answer(answer))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::inproc_pair;

    #[test]
    fn requests_are_answered_until_the_channel_ends() {
        let (client, server) = inproc_pair();
        let serving = std::thread::spawn(move || {
            let mut seen = Vec::new();
            let answer = |request| {
                seen.push(request);
                Some(match request {
                    Request::Claim { bytes: 7, .. } => MemoryClaim::OverQuota(6),
                    Request::Ask { .. } => MemoryClaim::OthersHold(u64::MAX),
                    _ => MemoryClaim::Granted,
                })
            };
            ClaimChannel(server).serve(answer, || true).unwrap();
            seen
        });
        let client = ClaimChannel(client);
        let requests = [
            Request::Claim { ordinal: 3, bytes: 1 << 40 },
            Request::Claim { ordinal: 0, bytes: 7 },
            Request::Ask { ordinal: u32::MAX },
        ];
        let answers = requests.map(|request| client.ask(request).unwrap());
        assert_eq!(answers, [MemoryClaim::Granted, MemoryClaim::OverQuota(6), MemoryClaim::OthersHold(u64::MAX)]);
        client.notify(3, 5).unwrap();
        drop(client);
        let seen = serving.join().unwrap();
        assert_eq!(seen[..3], requests);
        assert_eq!(seen[3..], [Request::GiveBack { ordinal: 3, bytes: 5 }]);
    }

    #[test]
    fn bytes_that_are_no_message_end_the_channel() {
        for wrong in [[0; MESSAGE], [4; MESSAGE], { Request::Ask { ordinal: 1 }.encode().map(|byte| byte | 4) }] {
            assert_eq!(Request::decode(wrong), None);
            let (client, server) = inproc_pair();
            let serving = std::thread::spawn(move || {
                let served = ClaimChannel(server.clone()).serve(|_| Some(MemoryClaim::Granted), || true);
                server.shutdown();
                served
            });
            let client = ClaimChannel(client);
            client.write(wrong).unwrap();
            assert!(serving.join().unwrap().is_err());
            assert!(client.ask(Request::Ask { ordinal: 0 }).is_err());
        }
        assert!(decode_answer([9; MESSAGE]).is_err());
    }
}
