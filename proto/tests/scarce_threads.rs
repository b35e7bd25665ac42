//! Name resolution fails with an error if the process can't start a thread, and works again once it can. The test needs
//! a process of its own.

use accord_proto::channel::Coordinator;
use accord_proto::runtime;
use accord_trust::Role;
use accord_trust::Trust;
use accord_trust::issue::Authority;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::Arc;
use std::time::Duration;
use tonic::{Code, Status};

const SOON: Duration = Duration::from_secs(10);
/// Less address space than a thread's stack needs.
const SPACE: u64 = 1 << 20;

/// Returns the size of the process's address space.
fn size() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = text.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")).unwrap();
    1_024 * kib.parse::<u64>().unwrap()
}

#[test]
fn a_name_that_can_not_be_looked_up_for_want_of_a_thread_is_an_error() {
    let own = Authority::new("tests", SOON).unwrap().identity(Role::Agent("h1".into()), SOON).unwrap();
    // No server listens on this port.
    let coordinator = Coordinator::new("localhost:1", Arc::new(Trust::fixed(own)), SOON);
    let runtime = runtime::one_threaded().unwrap();
    let connect = || -> Status { runtime.block_on(coordinator.connect(|endpoint| endpoint)).unwrap_err() };
    // Must precede any other thread, because the system caches the stacks of finished threads.
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(size() + SPACE), maximum: before.maximum }).unwrap();
    let without = [connect(), connect()];
    setrlimit(Resource::As, before).unwrap();
    for error in without {
        assert_eq!(error.code(), Code::Unavailable, "{error}");
        assert!(error.message().contains("cannot start a thread (accord-lookup)"), "{error}");
        assert!(error.message().contains("ulimit -u"), "{error}");
    }
    let refused = connect();
    assert!(refused.message().contains("refused"), "{refused}");
}
