//! Executors in the agent's own process.

use crate::device_memory::Account;
use crate::executor_process::{SharedBy, config_of};
use crate::users::RunsAs;
use accord_device::MemoryAccount;
use accord_executor::{LaneChannel, UseSink, run_here};
use accord_fabric::handshake::Introduced;
use accord_fabric::route::TransportChoice;
use accord_fabric::transport::{Handover, SharedLane};
use accord_gpu::Printed;
use accord_proto::v1::ExecutorStart;
use accord_types::{Error, ErrorCode, Result, threads};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// Starts executors as threads.
pub(crate) struct ExecutorsHere {
    /// The transport of executors to their peers.
    wanted: TransportChoice,
    /// The captured output of regions on GPUs, shared by all sessions, because it goes through this process.
    printed: Arc<OnceLock<Option<Printed>>>,
}

impl ExecutorsHere {
    /// Creates a starter of executors that use this transport.
    pub(crate) fn new(wanted: TransportChoice) -> Self {
        Self { wanted, printed: Arc::default() }
    }

    /// Starts an executor; `memory` is the account of its device memory.
    ///
    /// # Errors
    /// Returns an error if the executor belongs to another user; `acc_error_system` if no thread can be started.
    pub(crate) fn start(
        &self,
        start: ExecutorStart,
        account: &RunsAs,
        memory: Option<Account>,
        report: UseSink,
    ) -> Result<(ExecutorHere, JoinHandle<ExitCode>)> {
        if let RunsAs::Other(account) = account {
            let cause = format!("an agent of an MPI world serves its own user, and not {}", account.name);
            let remedy = "start the world's agents as that user, or agents without --fabric mpi";
            return Err(Error::new(ErrorCode::DeviceUnavailable, cause).remedy(remedy));
        }
        let system = |why: String| Error::new(ErrorCode::System, format!("cannot start an executor: {why}"));
        let memory = memory.map(|memory| Arc::new(memory) as Arc<dyn MemoryAccount>);
        let config = config_of(start, self.wanted, self.printed.clone(), SharedBy { memory, turns: None }, report)
            .map_err(system)?;
        let here = ExecutorHere { lanes: Arc::default() };
        let lanes = here.lanes.clone();
        let thread = threads::spawn("accord-executor", move || run_here(&lanes, config));
        Ok((here, thread.map_err(|error| system(error.to_string()))?))
    }
}

/// An executor in this process.
#[derive(Clone, Debug)]
pub(crate) struct ExecutorHere {
    lanes: Arc<LaneChannel>,
}

impl ExecutorHere {
    /// Hands a connection to the executor.
    ///
    /// # Errors
    /// Returns `acc_error_system` if the executor has ended.
    pub(crate) fn send(&self, lane: SharedLane, client: Introduced) -> Result<()> {
        let (lane, client) = Handover::within_process(lane, client)?;
        self.lanes.send(lane, client)
    }

    /// Asks the executor to end. An executor that does not comply ends only with the agent.
    pub(crate) fn end(&self) {
        self.lanes.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Account;
    use std::path::PathBuf;

    #[test]
    fn no_other_users_executor_is_in_the_agents_process() {
        let account =
            Account { name: "bob".to_owned(), uid: 1001, gid: 1001, groups: Vec::new(), home: PathBuf::from("/") };
        let executors = ExecutorsHere::new(TransportChoice::Auto);
        let start = ExecutorStart { key: vec![1; 32], ..ExecutorStart::default() };
        let error = executors
            .start(start.clone(), &RunsAs::Other(account), None, Arc::new(|_| ()))
            .expect_err("it is another user's");
        assert!(error.cause().contains("its own user, and not bob"), "{error}");
        let (executor, thread) = executors.start(start, &RunsAs::Agent, None, Arc::new(|_| ())).unwrap();
        executor.end();
        assert_eq!(thread.join().unwrap(), ExitCode::SUCCESS);
    }
}
