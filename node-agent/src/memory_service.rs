//! The protocol by which sessions' processes claim memory of CPU devices from the agent ([`crate::device_memory`]).

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

/// The time limit of the agent's answer, which takes microseconds unless the agent is stopped.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The time limit of sending an answer, and the interval for checking whether the session of a program's account goes
/// on.
const SEND_MAX: Duration = Duration::from_secs(5);

/// Answers the claims of one executor process. Dropping it frees the process's memory, so drop it only when no process
/// of the session is left.
#[derive(Debug)]
pub(crate) struct MemoryService {
    lane: SharedLane,
    account: Arc<Account>,
}

impl MemoryService {
    /// Starts a thread that answers claims. Returns the executor's end of the lane, too.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the system has no socket or thread.
    pub(crate) fn start(account: Account) -> Result<(Self, SharedLane)> {
        let failed = |error: io::Error| {
            let cause = format!("cannot count an executor's device memory: {error}");
            Error::new(ErrorCode::System, cause).remedy(scarce::remedy(&error).unwrap_or(scarce::THREADS))
        };
        let (lane, theirs) = pair().map_err(failed)?;
        let account = Arc::new(account);
        let (served, requests) = (lane.clone(), account.clone());
        let serve = move || {
            // An executor that violates the protocol gets no more memory.
            let _ = ClaimChannel::new(served, SEND_MAX)
                .and_then(|channel| channel.serve(|request| requests.answer(request), || true));
        };
        threads::spawn("accord-memory", serve).map_err(failed)?;
        Ok((Self { lane, account }, theirs))
    }
}

impl Drop for MemoryService {
    fn drop(&mut self) {
        // Another process may have inherited the executor's end.
        self.lane.shutdown();
        self.account.end();
    }
}

/// Answers the claims of a program that drives the node's devices itself, until it ends or `goes_on` returns `false`.
///
/// # Errors
/// Returns the errors of the lane.
pub(crate) fn serve_program(lane: SharedLane, account: &Account, goes_on: impl Fn() -> bool) -> io::Result<()> {
    // Otherwise a program that keeps asking would hold its memory forever.
    let answer = |request| if goes_on() { account.answer(request) } else { None };
    ClaimChannel::new(lane, SEND_MAX)?.serve(answer, &goes_on)
}

/// Sends a new executor its end of a lane to a service of the agent.
///
/// # Errors
/// Returns `BrokenPipe` if the executor has ended.
pub(crate) fn send_service(
    control: &Handover,
    lane: &dyn Lane,
    purpose: Purpose,
    session: SessionId,
) -> io::Result<()> {
    let hello = Hello::new(purpose, session, 0, PeerId::PROGRAM);
    control.send(lane, &hello.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
}

/// Receives the lane to a service that the agent sends after the start message.
///
/// # Errors
/// Returns `acc_error_device_unavailable` if the agent has ended, `acc_error_system` if it sends another lane.
pub(crate) fn receive_service(control: &Handover, purpose: Purpose) -> Result<SharedLane> {
    let (lane, introduced) = control.receive()?.ok_or_else(|| unanswered(io::ErrorKind::UnexpectedEof))?;
    if introduced.hello.purpose != purpose {
        return Err(Error::new(ErrorCode::System, format!("the agent has sent another lane than {purpose:?}")));
    }
    Ok(lane)
}

/// An executor's account at its agent.
pub(crate) struct AgentAccount {
    /// The channel, or its first failure: after a timeout, a late answer would be taken for the next claim's.
    channel: TurnLock<std::result::Result<ClaimChannel, io::ErrorKind>>,
}

impl AgentAccount {
    /// Receives the lane that the agent sends after the start message.
    ///
    /// # Errors
    /// Returns `acc_error_device_unavailable` if the agent has ended, `acc_error_system` if it sends another lane.
    pub(crate) fn receive(control: &Handover) -> Result<Self> {
        let none = |why: io::Error| Error::new(ErrorCode::System, format!("no account of device memory: {why}"));
        Self::over(receive_service(control, Purpose::Memory)?, ANSWER_MAX).map_err(none)
    }

    fn over(lane: SharedLane, limit: Duration) -> io::Result<Self> {
        Ok(Self { channel: TurnLock::new(Ok(ClaimChannel::new(lane, limit)?)) })
    }

    fn ask(&self, request: Request) -> Result<MemoryClaim> {
        self.by_channel(|channel| channel.ask(request)).map_err(unanswered)
    }

    fn by_channel<T>(
        &self,
        call: impl FnOnce(&ClaimChannel) -> io::Result<T>,
    ) -> std::result::Result<T, io::ErrorKind> {
        let mut channel = self.channel.take();
        let result = match &*channel {
            Ok(channel) => call(channel).map_err(|error| error.kind()),
            Err(failure) => Err(*failure),
        };
        if let Err(failure) = result {
            *channel = Err(failure);
        }
        result
    }
}

/// Returns the error of a claim without an answer. If the agent has ended, its devices are lost.
fn unanswered(failure: io::ErrorKind) -> Error {
    use io::ErrorKind::{TimedOut, WouldBlock};
    const REMEDY: &str = "see the agent's messages, and start the program again";
    let (code, cause) = if matches!(failure, TimedOut | WouldBlock) {
        (ErrorCode::System, "the node's agent, which counts device memory, does not answer".to_owned())
    } else {
        (ErrorCode::DeviceUnavailable, format!("the node's agent, which counts device memory, has ended: {failure}"))
    };
    Error::new(code, cause).remedy(REMEDY)
}

impl MemoryAccount for AgentAccount {
    fn claim(&self, ordinal: u32, bytes: u64) -> Result<MemoryClaim> {
        self.ask(Request::Claim { ordinal, bytes })
    }

    fn give_back(&self, ordinal: u32, bytes: u64) {
        // Without the agent, memory is not counted.
        let _ = self.by_channel(|channel| channel.notify(ordinal, bytes));
    }

    fn others(&self, ordinal: u32) -> u64 {
        match self.ask(Request::Ask { ordinal }) {
            Ok(MemoryClaim::OthersHold(bytes)) => bytes,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_memory::tests::{grant, memory};
    use std::io::IoSlice;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_late_answer_is_not_taken_for_that_to_another_claim() {
        let (agent, executor) = pair().unwrap();
        let account = AgentAccount::over(executor, Duration::from_millis(1)).unwrap();
        assert!(account.claim(0, 1).is_err(), "the agent is stopped");
        // The answer "granted".
        agent.write_all(&mut [IoSlice::new(&[0; 16])]).unwrap_or_default();
        let error = account.claim(0, 100).expect_err("the answer is the first claim's");
        assert_eq!(error.code(), ErrorCode::System);
        assert_eq!(account.others(0), 0);
        account.give_back(0, 1);
    }

    #[test]
    fn a_claim_at_an_agent_that_has_ended_is_a_lost_device() {
        let (agent, executor) = pair().unwrap();
        let account = AgentAccount::over(executor, ANSWER_MAX).unwrap();
        drop(agent);
        for claim in ["the first", "a later one"] {
            let error = account.claim(0, 1).expect_err(claim);
            assert_eq!(error.code(), ErrorCode::DeviceUnavailable, "{claim}: {error}");
        }
    }

    #[test]
    fn an_account_ends_with_its_session_though_its_program_always_asks() {
        let memory = memory();
        let account = memory.open(&grant(1, &[0], 0)).expect("there is room");
        let is_open = AtomicBool::new(true);
        let (lane, program) = pair().unwrap();
        let program = ClaimChannel::new(program, ANSWER_MAX).unwrap();
        std::thread::scope(|scope| {
            let served = scope.spawn(|| serve_program(lane, &account, || is_open.load(Ordering::Relaxed)));
            let all = Request::Claim { ordinal: 0, bytes: 100 };
            assert_eq!(program.ask(all).unwrap(), MemoryClaim::Granted);
            assert_eq!(program.ask(Request::Ask { ordinal: 0 }).unwrap(), MemoryClaim::OthersHold(0));
            is_open.store(false, Ordering::Relaxed);
            assert!(program.ask(Request::Ask { ordinal: 0 }).is_err(), "the session has ended");
            assert!(served.join().unwrap().is_ok());
        });
    }
}
