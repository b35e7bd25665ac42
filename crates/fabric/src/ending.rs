//! The reason why an agent ends an executor. The executor sends it to its program on the command lane, so that the
//! program learns it without the coordinator.

use accord_types::SessionId;
use accord_types::texts::{cut, time_is_over};

/// Longest encoded ending, in bytes.
pub const ENDING_MAX: usize = 1024;

/// The reason why an executor ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExecutorEnding {
    /// The session is over: the cause, and a remedy after a semicolon.
    Session(String),
    /// The node's agent is stopping.
    AgentStopped,
}

impl ExecutorEnding {
    /// Returns the ending of a session that has reached its time limit.
    pub fn time_is_over(session: SessionId) -> Self {
        Self::Session(time_is_over(session))
    }

    /// Encodes the ending in at most [`ENDING_MAX`] bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Session(why) => [b"s", cut(why, ENDING_MAX - 1).as_bytes()].concat(),
            Self::AgentStopped => b"a".to_vec(),
        }
    }

    /// Decodes an ending. Returns `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [b's', why @ ..] if bytes.len() <= ENDING_MAX => {
                Some(Self::Session(std::str::from_utf8(why).ok()?.to_owned()))
            }
            b"a" => Some(Self::AgentStopped),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_come_back_and_are_bounded() {
        for ending in [
            ExecutorEnding::time_is_over(SessionId(7)),
            ExecutorEnding::AgentStopped,
            ExecutorEnding::Session(String::new()),
        ] {
            assert_eq!(ExecutorEnding::decode(&ending.encode()), Some(ending));
        }
        let long = ExecutorEnding::Session("ü".repeat(ENDING_MAX)).encode();
        assert!(long.len() <= ENDING_MAX && ExecutorEnding::decode(&long).is_some());
        for bad in [&b""[..], b"x", b"ab", b"s\xff", &[b's'; ENDING_MAX + 1]] {
            assert_eq!(ExecutorEnding::decode(bad), None);
        }
    }
}
