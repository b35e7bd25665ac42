//! How sessions' processes claim memory of the node's CPU devices from the agent, which counts it ([`crate::device_memory`]).

use crate::device_memory::Account;
use accord_device::MemoryAccount;
use accord_fabric::handshake::{Hello, Purpose};
use accord_fabric::memory_claims::{ClaimChannel, Request};
use accord_fabric::peer::PeerId;
use accord_fabric::transport::{Handover, Lane, SharedLane, pair};
use accord_types::turn_lock::TurnLock;
use accord_types::{Error, ErrorCode, MemoryClaim, Result, SessionId, scarce, threads};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long an executor waits for the agent's answer, which takes microseconds unless the agent is stopped.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long an answer may take to be sent, which its reader waits for; and how often it is looked whether the session of a program's account goes on.
const SEND_MAX: Duration = Duration::from_secs(5);

/// Answers the claims of one executor process. Dropping it frees all that the process had: drop it when nothing of the session is left.
#[derive(Debug)]
pub(crate) struct MemoryService {
    lane: SharedLane,
    account: Arc<Account>,
}

impl MemoryService {
    /// Starts a thread that answers. Returns the executor's end, too.
    ///
    /// # Errors
    /// `acc_error_system` if the system has no socket or thread.
    pub(crate) fn start(account: Account) -> Result<(Self, SharedLane)> {
        let failed = |error: io::Error| {
            let cause = format!("cannot count an executor's device memory: {error}");
            Error::new(ErrorCode::System, cause).remedy(scarce::remedy(&error).unwrap_or(scarce::THREADS))
        };
        let (lane, theirs) = pair().map_err(failed)?;
        let account = Arc::new(account);
        let (served, requests) = (lane.clone(), account.clone());
        let serve = move || {
            // An executor that breaks the protocol gets no more memory.
            let _ = ClaimChannel::new(served, SEND_MAX)
                .and_then(|channel| channel.serve(|request| requests.answer(request), || true));
        };
        threads::spawn("accord-memory", serve).map_err(failed)?;
        Ok((Self { lane, account }, theirs))
    }
}

impl Drop for MemoryService {
    fn drop(&mut self) {
        // Another process may have got the executor's end.
        self.lane.shutdown();
        self.account.end();
    }
}

/// Answers the claims of a program that drives the node's devices itself, until it ends or `goes_on` says that its session has ended.
///
/// # Errors
/// Returns the lane's.
pub(crate) fn serve_program(lane: SharedLane, account: &Account, goes_on: impl Fn() -> bool) -> io::Result<()> {
    ClaimChannel::new(lane, SEND_MAX)?.serve(|request| account.answer(request), goes_on)
}

/// Sends a new executor its end of the lane to its account.
///
/// # Errors
/// `BrokenPipe` if it is gone.
pub(crate) fn send_account(control: &Handover, lane: &dyn Lane, session: SessionId) -> io::Result<()> {
    let hello = Hello::new(Purpose::Memory, session, 0, PeerId::PROGRAM);
    control.send(lane, &hello.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// An executor's account at its agent.
pub(crate) struct AgentAccount {
    channel: TurnLock<ClaimChannel>,
}

impl AgentAccount {
    /// Takes the lane that the agent sends behind the start message.
    ///
    /// # Errors
    /// `acc_error_system` if none comes.
    pub(crate) fn receive(control: &Handover) -> Result<Self> {
        let none =
            |why: &dyn std::fmt::Display| Error::new(ErrorCode::System, format!("no account of device memory: {why}"));
        let (lane, _) = control.receive()?.ok_or_else(|| none(&"the agent is gone"))?;
        let channel = ClaimChannel::new(lane, ANSWER_MAX).map_err(|error| none(&error))?;
        Ok(Self { channel: TurnLock::new(channel) })
    }

    fn ask(&self, request: Request) -> Result<MemoryClaim> {
        self.channel.take().ask(request).map_err(|error| {
            let cause = format!("the node's agent, which counts device memory, does not answer: {error}");
            Error::new(ErrorCode::System, cause).remedy("see the agent's messages")
        })
    }
}

impl MemoryAccount for AgentAccount {
    fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim> {
        self.ask(Request::Claim { ordinal, bytes })
    }

    fn give_back(&self, ordinal: u32, bytes: u64) {
        // Without the agent nobody counts.
        let _ = self.channel.take().tell(ordinal, bytes);
    }

    fn others(&self, ordinal: u32) -> u64 {
        match self.ask(Request::Ask { ordinal }) {
            Ok(MemoryClaim::OthersHold(bytes)) => bytes,
            _ => 0,
        }
    }
}
