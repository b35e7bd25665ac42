//! Jobs: requests for devices, and the allocations that they become.

use crate::{SessionId, SessionKey};
use std::fmt;
use std::str::FromStr;

/// The right to open sessions in a job, and to hold its place while it waits. Valid only for the job's user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobToken {
    /// The job's number, for people.
    pub job: u64,
    /// The job's secret, which identifies it.
    pub key: SessionKey,
}

impl JobToken {
    /// Most bytes of the token's text: 20 digits, a colon, and two digits for each byte of the key.
    const TEXT_MAX: usize = 21 + 2 * SessionKey::LEN;

    /// Returns the token's text, as programs have it in their environment.
    pub fn to_text(&self) -> String {
        let hex: String = self.key.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}:{hex}", self.job)
    }
}

/// The error for a text that is no job token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoToken;

impl fmt::Display for NoToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job's token is its number, a colon and 64 hexadecimal digits, as accord run sets it")
    }
}

impl FromStr for JobToken {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        if text.len() > Self::TEXT_MAX {
            return Err(NoToken);
        }
        let (job, hex) = text.trim().split_once(':').ok_or(NoToken)?;
        let byte = |at: usize| hex.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        let key = bytes.and_then(|bytes| SessionKey::from_bytes(&bytes)).ok_or(NoToken)?;
        Ok(Self { job: job.parse().map_err(|_| NoToken)?, key })
    }
}

/// A queued request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueuedJob {
    /// The job. A client that loses its connection resumes its place by the token.
    pub token: JobToken,
    /// Number of jobs before it; `None` for a job on hold.
    pub position: Option<u32>,
    /// The reason for waiting, in words.
    pub why: String,
    /// Milliseconds until its reserved start, if it has one.
    pub starts_in_ms: Option<u64>,
}

/// A job that has started, for the command that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldJob {
    /// The job. Programs open sessions in it by the token.
    pub token: JobToken,
    /// Number of its devices.
    pub devices: u32,
}

/// A job's share of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldDevice {
    /// The device's ordinal on its node.
    pub ordinal: u32,
    /// Thousandths of the device's time.
    pub milli: u32,
    /// Bytes of its memory.
    pub memory: u64,
    /// Whether no other job has any of it.
    pub exclusive: bool,
    /// Thousandths of the node's processors that the job has beside it, beyond a CPU device's own.
    pub milli_cores: u64,
    /// Bytes of the node's memory that the job has beside it, beyond a CPU device's own.
    pub host_memory: u64,
}

/// A job as an agent knows it: its devices there. A coordinator can restore its state from it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobGrant {
    /// The job.
    pub token: JobToken,
    /// Its user, as attested.
    pub user: String,
    /// Its account.
    pub account: String,
    /// Time until its end, from the moment of this grant; `None`: no end is set.
    pub ends_in_ms: Option<u64>,
    /// The agent's devices that the job holds.
    pub devices: Vec<HeldDevice>,
    /// The job's sessions that the agent knows of. The coordinator leaves it empty.
    pub sessions: Vec<SessionId>,
    /// Whether the agent has suspended the job. The coordinator leaves it `false`.
    pub is_suspended: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let key = SessionKey(std::array::from_fn(|at| (at * at * 7) as u8));
        let token = JobToken { job: u64::MAX, key };
        assert_eq!(token.to_text().parse(), Ok(token));
        assert!(token.to_text().len() <= JobToken::TEXT_MAX);
        for wrong in
            ["", "17", "17:", "17:00", "x:00", &format!("17:{}", "0".repeat(64)), &format!("17:{}", "ß".repeat(32))]
        {
            assert_eq!(wrong.parse::<JobToken>(), Err(NoToken), "{wrong}");
        }
    }
}
